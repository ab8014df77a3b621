//! Random workloads on tiny pools: shared prefixes, cuts around block borders, cancels, pauses and
//! cancels in flight. After every step all invariants hold and something moves; after the drain
//! nothing is held; every output equals that of a cold run alone.

mod support;

use dynd_core::SeqId;
use dynd_sched::Limits;
use proptest::prelude::*;
use support::{World, text};

#[derive(Debug, Clone)]
enum Op {
    /// Continue the n-th text, or an earlier sequence's tokens, cut at a place, with a tail.
    Submit {
        base: prop::sample::Index,
        cut: usize,
        tail: usize,
        output: u32,
    },
    Steps(usize),
    Cancel(prop::sample::Index),
    CancelInFlight(prop::sample::Index),
    Pause(prop::sample::Index),
    Resume(prop::sample::Index),
    /// Propose tokens, the first so many of them right, and take a step.
    Propose {
        seq: prop::sample::Index,
        right: usize,
        tokens: usize,
    },
}

fn op() -> impl Strategy<Value = Op> {
    // Cuts at every offset around the first borders.
    let cut = prop_oneof![0usize..20, 28usize..36, 44usize..52, 60usize..68];
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (index(), cut, 0usize..40, prop_oneof![1u32..24, 60u32..90])
            .prop_map(|(base, cut, tail, output)| Op::Submit { base, cut, tail, output }),
        6 => (1usize..6).prop_map(Op::Steps),
        1 => index().prop_map(Op::Cancel),
        1 => index().prop_map(Op::CancelInFlight),
        1 => index().prop_map(Op::Pause),
        1 => index().prop_map(Op::Resume),
        4 => (index(), 0usize..20, 1usize..20)
            .prop_map(|(seq, right, tokens)| Op::Propose { seq, right, tokens }),
    ]
}

fn pick(world: &World, index: &prop::sample::Index) -> Option<SeqId> {
    (!world.runs.is_empty()).then(|| SeqId(index.index(world.runs.len()) as u64))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn any_workload_is_right_and_ends(
        slots in 8u32..24,
        rows_max in 1u32..7,
        step_tokens_max in 16u32..80,
        ops in prop::collection::vec(op(), 1..60),
    ) {
        let mut world = World::new(slots, Limits { rows_max, step_tokens_max });
        let mut tails = 1000;
        for op in ops {
            match op {
                Op::Submit { base, cut, tail, output } => {
                    let sources = 2 + world.runs.len();
                    let mut prompt = match base.index(sources) {
                        base @ 0..2 => text(base as u32, 68),
                        run => world.runs[&SeqId(run as u64 - 2)].tokens.clone(),
                    };
                    prompt.truncate(cut);
                    tails += 1;
                    prompt.extend(text(tails, tail));
                    let fits = !prompt.is_empty()
                        && prompt.len() + output as usize - 1 <= slots as usize * 16;
                    prop_assert_eq!(world.submit(&prompt, output).is_ok(), fits);
                }
                Op::Steps(steps) => for _ in 0..steps {
                    world.step();
                },
                Op::Cancel(index) => {
                    if let Some(seq) = pick(&world, &index) {
                        world.cancel(seq);
                    }
                }
                Op::CancelInFlight(index) => {
                    if let Some(seq) = pick(&world, &index) {
                        world.step_with(|world| world.cancel(seq));
                    }
                }
                Op::Pause(index) => {
                    if let Some(seq) = pick(&world, &index) {
                        world.pause(seq, true);
                    }
                }
                Op::Resume(index) => {
                    if let Some(seq) = pick(&world, &index) {
                        world.pause(seq, false);
                    }
                }
                Op::Propose { seq, right, tokens } => {
                    if let Some(seq) = pick(&world, &seq) {
                        world.propose(seq, right, tokens);
                        world.step();
                    }
                }
            }
            world.scheduler.check().map_err(TestCaseError::fail)?;
        }
        let paused: Vec<SeqId> = world.runs.keys().copied().collect();
        for seq in paused {
            world.pause(seq, false);
        }
        world.drain();
    }
}
