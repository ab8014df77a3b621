//! `dynctl cache stats`.

use dynd_proto::v1;

use super::fields;
use crate::figures::{UNKNOWN, bytes, count, or_unknown, share};
use crate::output::{Style, Tone, visible};

pub(crate) fn cache(reply: &v1::CacheStatsReply, style: Style) -> String {
    if reply.pools.is_empty() {
        return "No worker yet: the model is still loading.\n".to_owned();
    }
    let pools: Vec<_> = reply.pools.iter().map(|one| pool(one, style)).collect();
    pools.join("\n")
}

fn pool(pool: &v1::CachePool, style: Style) -> String {
    let of_total = |blocks: u64| match pool.blocks_total {
        Some(total) if total > 0 => {
            format!("{} blocks ({})", count(blocks), share(blocks as f64 / total as f64))
        }
        _ => format!("{} blocks", count(blocks)),
    };
    let size = pool.blocks_total.map(|blocks| {
        let tokens = blocks.saturating_mul(pool.block_tokens.into());
        let held = pool.block_bytes.map(|each| bytes(blocks.saturating_mul(each)));
        let held = held.map_or_else(String::new, |held| format!(", {held}"));
        format!(
            "{} blocks of {} tokens: {} tokens{held}",
            count(blocks),
            pool.block_tokens,
            count(tokens)
        )
    });
    let heading = format!("{} ({})", visible(&pool.worker), visible(&pool.tier));
    let lookups = match (pool.prompt_tokens, pool.cached_tokens) {
        (Some(prompt), Some(cached)) => {
            format!("{} of {} prompt tokens", count(cached), count(prompt))
        }
        _ => UNKNOWN.to_owned(),
    };
    let lines = fields(&[
        ("size", or_unknown(size, |size| size)),
        ("active", or_unknown(pool.blocks_active, of_total)),
        ("cached", or_unknown(pool.blocks_cached, of_total)),
        ("free", or_unknown(pool.blocks_free, of_total)),
        ("hit rate", or_unknown(pool.hit_rate, share)),
        ("hits", lookups),
        ("evicted", or_unknown(pool.evicted_blocks, |blocks| format!("{} blocks", count(blocks)))),
        ("preempted", or_unknown(pool.preemptions, count)),
    ]);
    format!("{}\n{lines}", style.paint(Tone::Heading, &heading))
}
