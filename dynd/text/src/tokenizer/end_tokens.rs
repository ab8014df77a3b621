//! Which special tokens end a generation, by the way they are written.
//!
//! Model files name one end token and often leave out the one that ends a turn.

use dynd_core::TokenId;

/// Ways to write "the turn (or text) ends here" in the model families that are served.
const NAMES: [&str; 21] = [
    "<|im_end|>",
    "<|eot_id|>",
    "<|eom_id|>",
    "<|end|>",
    "<|return|>",
    "<|call|>",
    "<|calls|>",
    "<|flush|>",
    "<|endoftext|>",
    "<|end_of_text|>",
    "<end_of_turn>",
    "<turn|>",
    "<eos>",
    "</s>",
    "<EOT>",
    "_<EOT>",
    "[EOT]",
    "[EOS]",
    "<end_of_utterance>",
    "<｜end▁of▁sentence｜>",
    "[e~[",
];

/// The end tokens among `specials`, ascending, with those of `named` (from the file's metadata).
pub(super) fn end_tokens<'a>(
    specials: impl Iterator<Item = (&'a str, TokenId)>,
    named: impl IntoIterator<Item = TokenId>,
) -> Vec<TokenId> {
    let mut found: Vec<(&str, TokenId)> =
        specials.filter(|(text, _)| NAMES.contains(text)).collect();
    let has = |name: &str| found.iter().any(|(text, _)| *text == name);
    // In Harmony and Solar `<|end|>` only ends a message: another one follows.
    if (has("<|return|>") && has("<|call|>")) || (has("<|calls|>") && has("<|flush|>")) {
        found.retain(|(text, _)| *text != "<|end|>");
    }
    let mut ids: Vec<_> = found.into_iter().map(|(_, id)| id).chain(named).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn harmony_goes_on_after_end() {
        let specials = [("<|end|>", 1), ("<|return|>", 2), ("<|call|>", 3), ("<|start|>", 4)];
        assert_eq!(end_tokens(specials.into_iter(), [2]), [2, 3]);
        assert_eq!(end_tokens([("<|end|>", 1)].into_iter(), [9]), [1, 9]);
    }
}
