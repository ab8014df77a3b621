//! Named situations: sharing, cancelling, refusing, preempting.

mod support;

use dynd_core::SeqId;
use dynd_sched::{Limits, SubmitError};
use support::{World, text};

const WIDE: Limits = Limits { rows_max: 64, step_tokens_max: 512 };

fn join(parts: &[Vec<u32>]) -> Vec<u32> {
    parts.concat()
}

#[test]
fn eight_sequences_on_one_prefix_prefill_it_once() {
    let mut world = World::new(1000, WIDE);
    for session in 0..8 {
        world.submit(&join(&[text(1, 4096), text(10 + session, 40)]), 5).unwrap();
    }
    world.drain();
    let computed: Vec<u32> = world.runs.values().map(|run| run.computed_tokens).collect();
    assert_eq!(computed[0], 4096 + 40 + 4);
    assert_eq!(computed[1..], [40 + 4; 7]);
    assert!(world.runs.values().skip(1).all(|run| run.cached_tokens == 4096));
}

#[test]
fn followers_wait_for_the_next_block_only() {
    let mut world = World::new(1000, WIDE);
    let leader = world.submit(&text(1, 1200), 1).unwrap();
    let follower = world.submit(&join(&[text(1, 512), text(2, 16)]), 1).unwrap();
    for _ in 0..2 {
        world.step();
        assert!(!world.runs[&follower].done, "prefill is first come, first served");
    }
    world.step();
    assert!(world.runs[&leader].done);
    assert!(world.runs[&follower].done, "needs nothing of what this step computed");
    assert_eq!(world.runs[&follower].cached_tokens, 512);
    world.drain();
}

#[test]
fn when_the_leader_is_cancelled_the_oldest_follower_computes() {
    let mut world = World::new(1000, Limits { rows_max: 4, step_tokens_max: 520 });
    let prompts: Vec<SeqId> = (0..3)
        .map(|session| world.submit(&join(&[text(1, 640), text(9 + session, 20)]), 2).unwrap())
        .collect();
    world.step();
    assert_eq!(world.scheduler.stats().running, 3, "the followers are in, and wait");
    world.cancel(prompts[0]);
    world.step();
    world.drain();
    // There is budget for both to compute the rest of the prefix, but only one does.
    assert_eq!(world.runs[&prompts[1]].cached_tokens, 512, "what the leader had finished");
    assert_eq!(world.runs[&prompts[2]].cached_tokens, 640);
    assert_eq!(world.runs[&prompts[2]].computed_tokens, 20 + 1);
}

#[test]
fn a_paused_leader_holds_nobody_up() {
    let mut world = World::new(1000, WIDE);
    let leader = world.submit(&text(1, 2048), 2).unwrap();
    let follower = world.submit(&text(1, 2048), 2).unwrap();
    world.step();
    world.pause(leader, true);
    while !world.runs[&follower].done {
        assert!(world.step());
    }
    assert!(!world.runs[&leader].done);
    world.pause(leader, false);
    world.drain();
    assert_eq!(world.runs[&leader].computed_tokens, 512 + 16 + 1, "it attached the rest");
}

#[test]
fn cached_is_the_common_prefix_short_of_the_last_token_in_whole_blocks() {
    for (first, second, common, cached) in [
        (48, 48, 48, 32),
        (48, 49, 48, 48),
        (48, 47, 47, 32),
        (48, 64, 31, 16),
        (48, 64, 32, 32),
        (48, 64, 33, 32),
        (48, 1, 1, 0),
        (15, 64, 15, 0),
        (1, 1, 1, 0),
    ] {
        let mut world = World::new(100, WIDE);
        world.submit(&text(1, first), 1).unwrap();
        world.drain();
        let again = world.submit(&join(&[text(1, common), text(2, second - common)]), 1).unwrap();
        world.drain();
        assert_eq!(world.runs[&again].cached_tokens, cached, "{first} {second} {common}");
    }
}

#[test]
fn a_block_filled_by_the_last_token_is_cached_too() {
    let mut world = World::new(100, WIDE);
    let first = world.submit(&text(1, 20), 12).unwrap();
    world.drain();
    let turn = join(&[world.runs[&first].tokens.clone(), text(2, 10)]);
    let second = world.submit(&turn, 1).unwrap();
    world.drain();
    assert_eq!(world.runs[&second].cached_tokens, 32);
}

/// What admitted prompts still have to allocate is spoken for: nobody is let in only to be thrown
/// out again.
#[test]
fn admission_leaves_room_for_the_prompts_already_in() {
    let mut world = World::new(20, Limits { rows_max: 4, step_tokens_max: 72 });
    let first = world.submit(&text(1, 200), 2).unwrap();
    let second = world.submit(&text(2, 200), 2).unwrap();
    world.step();
    assert_eq!(world.scheduler.stats().running, 1);
    world.drain();
    assert_eq!(world.scheduler.stats().preemptions, 0);
    assert!(world.runs[&first].done && world.runs[&second].done);
}

/// Attaching unused blocks takes them from what can be allocated.
#[test]
fn admission_counts_the_unused_blocks_that_it_would_attach() {
    let mut world = World::new(10, WIDE);
    world.submit(&text(1, 64), 1).unwrap();
    world.drain();
    world.submit(&text(2, 75), 20).unwrap();
    world.step();
    assert_eq!(world.scheduler.stats().pool.evictable, 4);
    let follows = world.submit(&join(&[text(1, 64), text(3, 30)]), 1).unwrap();
    world.step();
    assert_eq!(world.scheduler.stats().running, 1);
    world.drain();
    assert_eq!(world.scheduler.stats().preemptions, 0);
    assert!(world.runs[&follows].cached_tokens > 0);
}

#[test]
fn decode_goes_on_while_a_long_prompt_is_prefilled() {
    let mut world = World::new(1000, Limits { rows_max: 4, step_tokens_max: 64 });
    let decoding = world.submit(&text(1, 10), 20).unwrap();
    world.step();
    world.submit(&text(2, 2000), 1).unwrap();
    for expected in 2..20 {
        world.step();
        assert_eq!(world.runs[&decoding].output().len(), expected);
    }
    world.drain();
}

/// Running and waiting counts and references return to zero, whatever share is cancelled when.
#[test]
fn a_step_keeps_as_many_proposed_tokens_as_are_right() {
    for (right, tokens, kept) in [(0, 8, 0), (3, 8, 3), (8, 8, 8), (40, 40, 40)] {
        let mut world = World::new(1000, WIDE);
        let seq = world.submit(&text(1, 60), 50).unwrap();
        world.step();
        world.propose(seq, right, tokens);
        world.step();
        assert_eq!(world.runs[&seq].output().len(), 1 + kept + 1, "{right} of {tokens} right");
        let stats = world.scheduler.stats();
        assert_eq!(stats.proposed_tokens, tokens as u64);
        assert_eq!(stats.accepted_tokens, kept as u64);
        world.step();
        assert_eq!(world.scheduler.stats().proposed_tokens, tokens as u64, "proposed for one step");
        world.drain();
    }
}

#[test]
fn proposals_stop_where_the_sequence_must_end() {
    let mut world = World::new(1000, WIDE);
    let seq = world.submit(&text(1, 60), 10).unwrap();
    world.step();
    world.propose(seq, 40, 40);
    world.step();
    assert!(world.runs[&seq].done);
    assert_eq!(
        world.scheduler.stats().proposed_tokens,
        8,
        "the tenth token is sampled, not proposed"
    );
    world.drain();
}

#[test]
fn proposals_take_no_blocks_that_others_need() {
    let mut world = World::new(10, WIDE);
    let seqs: Vec<SeqId> =
        (0..2).map(|session| world.submit(&text(session, 60), 10).unwrap()).collect();
    world.step();
    assert_eq!(world.scheduler.stats().pool.free, 2);
    for seq in seqs {
        world.propose(seq, 0, 30);
    }
    world.step();
    assert_eq!(world.scheduler.stats().proposed_tokens, 2 * 3, "up to the end of the block");
    assert_eq!(world.scheduler.stats().preemptions, 0);
    world.drain();
}

#[test]
fn proposals_never_hold_up_a_prompt() {
    let mut world = World::new(1000, Limits { rows_max: 8, step_tokens_max: 64 });
    let decoding: Vec<SeqId> =
        (0..4).map(|session| world.submit(&text(session, 16), 200).unwrap()).collect();
    world.step();
    let prompt = world.submit(&text(9, 160), 1).unwrap();
    for _ in 0..160 / 16 {
        for &seq in &decoding {
            world.propose(seq, 0, 15);
        }
        world.step();
    }
    assert!(world.runs[&prompt].done, "a block of it in each step at least");
    assert!(world.scheduler.stats().proposed_tokens >= 15 * 10, "and guesses beside it");
    world.drain();
}

#[test]
fn fr_055_nothing_is_left_of_a_thousand_requests() {
    let mut world = World::new(64, Limits { rows_max: 8, step_tokens_max: 64 });
    for n in 0..1000u32 {
        let seq = world.submit(&text(n % 7, 20 + (n as usize * 13) % 90), 1 + n % 5).unwrap();
        world.step();
        if n % 2 == 0 {
            world.cancel(seq);
        }
        if n % 5 == 0 {
            world.cancel(SeqId(u64::from(n / 2)));
        }
    }
    world.drain();
}

/// The queue's head always gets in or is refused: nothing that waits holds a block, so parked
/// requests cannot starve it.
#[test]
fn fr_057_paused_sequences_give_way_when_nothing_else_can_run() {
    let mut world = World::new(20, WIDE);
    let parked: Vec<SeqId> = (0..2).map(|n| world.submit(&text(n, 120), 40).unwrap()).collect();
    world.step();
    for &seq in &parked {
        world.pause(seq, true);
    }
    let urgent = world.submit(&text(9, 200), 10).unwrap();
    while !world.runs[&urgent].done {
        assert!(world.step());
    }
    for seq in parked {
        world.pause(seq, false);
    }
    world.drain();
}

/// Blocks there are enough; it is the rows that slow readers hold.
#[test]
fn paused_rows_give_way_to_those_that_wait() {
    let mut world = World::new(1000, Limits { rows_max: 2, step_tokens_max: 512 });
    let parked: Vec<SeqId> = (0..2).map(|n| world.submit(&text(n, 40), 200).unwrap()).collect();
    world.step();
    world.step();
    world.pause(parked[0], true);
    let urgent = world.submit(&text(9, 40), 4).unwrap();
    while !world.runs[&urgent].done {
        assert!(world.step());
    }
    assert!(!world.runs[&parked[1]].done, "did not wait for the other row to end");
    world.pause(parked[0], false);
    world.drain();
}

#[test]
fn fr_058_what_can_never_fit_is_refused_with_the_limit_and_delays_nobody() {
    let mut world = World::new(10, WIDE);
    let error = world.submit(&text(1, 161), 1).unwrap_err();
    assert_eq!(error, SubmitError::TooLarge { tokens: 161, capacity: 160 });
    assert!(error.to_string().contains("161") && error.to_string().contains("160"), "{error}");
    assert!(world.submit(&text(1, 100), u32::MAX).is_err());
    let fits = world.submit(&text(1, 160), 1).unwrap();
    let small = world.submit(&text(2, 10), 1).unwrap();
    world.drain();
    assert!(world.runs[&fits].done && world.runs[&small].done);
}

/// A full pool costs one victim when one is enough, and the victim goes on without loss.
#[test]
fn fr_059_no_more_victims_than_needed() {
    let mut world = World::new(9, WIDE);
    // Three rows of two blocks and one of growth each fill the pool; all need a fourth at once.
    for n in 0..3 {
        world.submit(&text(n, 31), 30).unwrap();
    }
    let mut most = 0;
    while !world.scheduler.is_idle() {
        let before = world.scheduler.stats().preemptions;
        world.step();
        most = most.max(world.scheduler.stats().preemptions - before);
    }
    assert_eq!(most, 1, "victims in one step");
    assert_eq!(world.scheduler.stats().preemptions, 1, "one victim frees enough for two");
    world.drain();
}

/// Idle sessions' blocks are a preference, not a claim: a new request takes them, and a session
/// that comes back prefills again.
#[test]
fn fr_060_idle_sessions_never_wedge_the_pool() {
    let mut world = World::new(160, WIDE);
    for session in 0..8 {
        world.submit(&text(session, 300), 2).unwrap();
        world.drain();
    }
    let large = world.submit(&text(100, 2000), 2).unwrap();
    world.drain();
    assert!(world.runs[&large].done);
    let back = world.submit(&text(0, 310), 2).unwrap();
    world.step();
    world.step();
    world.cancel(back);
    world.drain();
}

/// Everything stays consistent over many mixed requests, and after it only evictable blocks are
/// used.
#[test]
fn fr_064_usage_does_not_creep() {
    let mut world = World::new(48, Limits { rows_max: 6, step_tokens_max: 48 });
    for n in 0..500u32 {
        let seq = world.submit(&text(n % 11, 1 + (n as usize * 31) % 200), 1 + n % 140).unwrap();
        for _ in 0..n % 4 {
            world.step();
        }
        if n % 3 == 0 {
            world.cancel(seq);
        }
    }
    world.drain();
    assert_eq!(world.scheduler.stats().pool.free + world.scheduler.stats().pool.evictable, 48);
    assert!(world.scheduler.stats().preemptions > 0, "the pool was meant to be too small");
}

/// A prefix larger than what the pool can keep beside another request is recomputed, not hit.
#[test]
fn fr_067_no_phantom_hit_after_full_eviction() {
    let mut world = World::new(20, WIDE);
    let first = world.submit(&text(1, 150), 8).unwrap();
    world.drain();
    world.submit(&text(1, 150), 8).unwrap();
    world.drain();
    world.submit(&text(2, 300), 8).unwrap();
    world.drain();
    let again = world.submit(&text(1, 150), 8).unwrap();
    world.drain();
    assert_eq!(world.runs[&again].cached_tokens, 0);
    assert_eq!(world.runs[&again].output(), world.runs[&first].output());
}

/// Blocks become visible only when their step is committed: of 64 sequences admitted in one step
/// one computes the shared prefix, the others wait for it, and all are right.
#[test]
fn fr_068_no_sequence_reads_a_block_of_its_own_step() {
    let mut world = World::new(1000, WIDE);
    for n in 0..64 {
        world.submit(&join(&[text(1, 160), text(n + 10, 5)]), 3).unwrap();
    }
    world.step();
    assert_eq!(world.scheduler.stats().running, 64);
    assert!(world.runs.values().skip(1).all(|run| run.computed_tokens == 0));
    world.drain();
    assert!(world.runs.values().skip(1).all(|run| run.cached_tokens == 160));
}

/// Two prompts that differ in one token of block k share nothing from block k on.
#[test]
fn fr_070_one_different_token_ends_sharing_at_its_block() {
    for position in 0..64 {
        let mut world = World::new(100, WIDE);
        let mut prompt = text(1, 80);
        world.submit(&prompt, 1).unwrap();
        prompt[position] += 1;
        let second = world.submit(&prompt, 1).unwrap();
        world.drain();
        assert_eq!(world.runs[&second].cached_tokens as usize, position / 16 * 16);
    }
}

/// A sequence cancelled while its step runs keeps its slots until the step is committed: nobody
/// else is given a slot that may still be written.
#[test]
fn fr_072_slots_of_a_step_in_flight_are_not_handed_out() {
    let mut world = World::new(10, WIDE);
    let doomed = world.submit(&text(1, 150), 4).unwrap();
    world.step_with(|world| {
        world.cancel(doomed);
        let pool = world.scheduler.stats().pool;
        assert_eq!((pool.free, pool.filling), (0, 10), "still held");
    });
    let pool = world.scheduler.stats().pool;
    assert_eq!((pool.filling, pool.evictable), (0, 9), "finished blocks stay, the tail is free");
    let retry = world.submit(&text(1, 150), 4).unwrap();
    world.drain();
    assert_eq!(world.runs[&retry].cached_tokens, 144);
}

/// A shorter prompt after a longer one with the same start, equal prompts, and prompts shorter than
/// a block: at least one token is computed, nothing panics.
#[test]
fn fr_075_shorter_prompts_after_longer_ones() {
    let mut world = World::new(100, WIDE);
    for len in [60, 33, 32, 31, 60, 17, 16, 15, 1, 1, 16, 32] {
        let seq = world.submit(&text(1, len), 2).unwrap();
        world.drain();
        let run = &world.runs[&seq];
        assert!(run.computed_tokens >= 2, "the last prompt token and one output token");
        assert_eq!(run.cached_tokens as usize + run.computed_tokens as usize, len + 1);
    }
}

#[test]
fn nonsense_is_refused() {
    let mut world = World::new(10, WIDE);
    assert_eq!(world.submit(&[], 1), Err(SubmitError::EmptyPrompt));
    let request = dynd_sched::Request {
        seq: SeqId(7),
        prompt_tokens: 40,
        ids: Vec::new(),
        output_tokens_max: 1,
        retire_after: None,
    };
    assert!(matches!(
        world.scheduler.submit(request.clone()),
        Err(SubmitError::WrongIds { given: 0, .. })
    ));
    let request = dynd_sched::Request { prompt_tokens: 3, ..request };
    assert_eq!(world.scheduler.submit(request.clone()), Ok(()));
    assert_eq!(world.scheduler.submit(request), Err(SubmitError::Duplicate(SeqId(7))));
    assert!(!world.scheduler.cancel(SeqId(8), world.now));
}
