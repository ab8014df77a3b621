//! What executors refuse, and that a refused plan leaves no trace. Checked on the simulated one:
//! all executors share the checks.

use dynd_core::{
    BlockCopy, CostModel, LogitsWanted, Row, Sample, SamplerOpen, SamplerSlot, SamplingParams,
    SeqId, SlotIdx, StepPlan,
};
use dynd_engine::{ExecError, Executor, SimConfig, SimExecutor, Ticket};

const VOCAB: u32 = 100;

fn sim() -> SimExecutor {
    let config = SimConfig {
        cost: CostModel::SMALL_CPU,
        vocab: VOCAB,
        max_context: 100,
        slots: 8,
        sampler_slots: 2,
    };
    SimExecutor::new(config, Box::new(|_| {}))
}

fn row(start: u32, tokens: usize, table: &[u32]) -> Row {
    Row {
        seq: SeqId(u64::from(start)),
        tokens: vec![7; tokens],
        start,
        table: table.iter().copied().map(SlotIdx).collect(),
        logits: LogitsWanted::None,
        sample: None,
    }
}

fn sampling(slot: u32, row: Row) -> Row {
    Row {
        sample: Some(Sample { slot: SamplerSlot(slot), index: 0, masked: false, drafts: 0 }),
        ..row
    }
}

fn open(slot: u32) -> SamplerOpen {
    SamplerOpen {
        slot: SamplerSlot(slot),
        params: SamplingParams::GREEDY,
        prompt: vec![],
        output: vec![],
    }
}

#[track_caller]
fn assert_refused(plan: StepPlan, why: &str) {
    let mut sim = sim();
    let before = blocks(&mut sim);
    match sim.submit(plan) {
        Err(ExecError::InvalidPlan(message)) => {
            assert!(message.contains(why), "'{message}' does not say '{why}'");
        }
        other => panic!("accepted: {other:?}"),
    }
    assert_eq!(blocks(&mut sim), before, "a refused plan wrote something");
    // No sampler was opened either.
    let plan = StepPlan { open: vec![], rows: vec![sampling(0, row(0, 1, &[0]))] };
    assert!(matches!(sim.submit(plan), Err(ExecError::InvalidPlan(_))));
}

fn blocks(sim: &mut SimExecutor) -> Vec<Vec<u8>> {
    let copies = (0..8).map(|slot| BlockCopy::Out { slot: SlotIdx(slot), bytes: vec![] }).collect();
    let ticket = sim.copy(copies).expect("valid copies");
    let copies = sim.wait_copy(ticket).expect("submitted");
    copies
        .into_iter()
        .map(|copy| match copy {
            BlockCopy::Out { bytes, .. } | BlockCopy::In { bytes, .. } => bytes,
        })
        .collect()
}

#[test]
fn rows_that_do_not_fit_are_refused() {
    // The first row is fine, so refusing late would leave a trace.
    let with = |bad: Row| StepPlan { open: vec![open(0)], rows: vec![row(0, 3, &[0]), bad] };
    assert_refused(with(row(0, 0, &[1])), "no tokens");
    assert_refused(with(row(0, 17, &[1])), "table has 1 blocks, 17 tokens need 2");
    assert_refused(with(row(16, 1, &[1])), "table has 1 blocks");
    assert_refused(with(row(0, 1, &[8])), "slot 8 is outside the pool of 8");
    assert_refused(with(row(100, 1, &[1; 7])), "position 100 is beyond the context of 100");
    assert_refused(with(row(u32::MAX, 1, &[1])), "beyond the context");
    let bad_token = Row { tokens: vec![VOCAB], ..row(0, 1, &[1]) };
    assert_refused(with(bad_token), "token 100 is outside the vocabulary of 100");
}

#[test]
fn samplers_must_be_open_and_used_once() {
    let plan = |open, rows| StepPlan { open, rows };
    let never = sampling(1, row(0, 1, &[1]));
    assert_refused(plan(vec![open(0)], vec![never]), "sampler slot 1 was never opened");
    let beyond = sampling(2, row(0, 1, &[1]));
    assert_refused(plan(vec![], vec![beyond]), "sampler slot 2 was never opened");
    assert_refused(plan(vec![open(0), open(2)], vec![]), "there are 2 of them");
    let twice = vec![sampling(0, row(0, 1, &[1])), sampling(0, row(0, 1, &[2]))];
    assert_refused(plan(vec![open(0)], twice), "two rows sample with sampler slot 0");
    let unknown = SamplerOpen { prompt: vec![1, VOCAB], ..open(0) };
    assert_refused(plan(vec![unknown], vec![]), "outside the vocabulary");
    for penalty in [0.0, -1.0, f32::NAN, f32::INFINITY] {
        let params = SamplingParams { repetition_penalty: penalty, ..SamplingParams::GREEDY };
        let bad = SamplerOpen { params, ..open(0) };
        assert_refused(plan(vec![bad], vec![]), "repetition penalty");
    }
}

#[test]
fn two_rows_may_share_a_block_but_not_a_position() {
    let plan = |rows| StepPlan { open: vec![], rows };
    let overlapping = vec![row(0, 10, &[3]), row(9, 4, &[3])];
    assert_refused(plan(overlapping), "two rows write the same position of slot 3");
    let across = vec![row(0, 20, &[3, 4]), row(0, 20, &[5, 4])];
    assert_refused(plan(across), "slot 4");
    let mut sim = sim();
    let chunks = vec![row(0, 10, &[3, 4]), row(10, 10, &[3, 4]), row(0, 5, &[5])];
    sim.submit(plan(chunks)).expect("disjoint positions");
    // A shared prefix: both read slot 3, each writes its own tail.
    let sharing = vec![row(16, 1, &[3, 4]), row(16, 1, &[3, 5])];
    sim.submit(plan(sharing)).expect("reading is shared");
    sim.submit(plan(vec![row(99, 1, &[0, 1, 2, 3, 4, 5, 6])])).expect("the last position");
}

#[test]
fn copies_are_checked_before_any_is_made() {
    let mut sim = sim();
    let size = sim.caps().block_bytes;
    let before = blocks(&mut sim);
    for bad in [
        BlockCopy::In { slot: SlotIdx(1), bytes: vec![1; size - 1] },
        BlockCopy::In { slot: SlotIdx(8), bytes: vec![1; size] },
        BlockCopy::Out { slot: SlotIdx(8), bytes: vec![] },
    ] {
        let good = BlockCopy::In { slot: SlotIdx(0), bytes: vec![1; size] };
        assert!(matches!(sim.copy(vec![good, bad]), Err(ExecError::InvalidPlan(_))));
        assert_eq!(blocks(&mut sim), before);
    }
}

#[test]
fn each_ticket_is_good_for_one_wait_of_its_kind() {
    let mut sim = sim();
    let plan = || StepPlan { open: vec![], rows: vec![row(0, 1, &[0])] };
    let first = sim.submit(plan()).expect("valid");
    let copy = sim.copy(vec![]).expect("valid");
    let second = sim.submit(plan()).expect("valid");
    assert!(matches!(sim.wait(copy, &[]), Err(ExecError::UnknownTicket(_))));
    assert!(matches!(sim.wait_copy(first), Err(ExecError::UnknownTicket(_))));
    sim.wait(second, &[]).expect("any order");
    sim.wait(first, &[]).expect("still there");
    sim.wait_copy(copy).expect("still there");
    assert!(matches!(sim.wait(first, &[]), Err(ExecError::UnknownTicket(_))));
    assert!(matches!(sim.wait(Ticket(99), &[]), Err(ExecError::UnknownTicket(_))));
}
