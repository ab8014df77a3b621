//! A cached block is as good as a computed one, bit for bit, and nothing else is: what stands in
//! the blocks of a table decides the logits, all of it and nothing around it.

mod harness;

use dynd_core::{BLOCK_TOKENS, LogitsWanted, TokenId};
use dynd_engine::Executor;
use dynd_engine::cpu::{CpuExecutor, Isa, KvDtype};
use harness::{MODELS, Sequence, Slots};

const DTYPES: [KvDtype; 3] = [KvDtype::F32, KvDtype::F16, KvDtype::Bf16];

/// The longest prompt of a model: 150 tokens or more, over nine full blocks.
fn long_prompt(name: &str) -> Vec<TokenId> {
    harness::cases(name).into_iter().map(|case| case.prompt).max_by_key(Vec::len).expect("some")
}

fn computed(executor: &mut CpuExecutor, slots: &mut Slots, prompt: &[TokenId]) -> Sequence {
    let mut sequence = slots.sequence(1, prompt, 1);
    harness::prefill(executor, std::slice::from_mut(&mut sequence), usize::MAX);
    sequence
}

#[test]
fn a_shared_prefix_gives_the_same_bits_as_a_cold_start() {
    for name in MODELS {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        for dtype in DTYPES {
            let mut executor = harness::executor_with(&model, 2, dtype);
            let mut slots = Slots::new(3);
            let mut cold = slots.sequence(1, &prompt, 0);
            let expected =
                harness::prefill(&mut executor, std::slice::from_mut(&mut cold), usize::MAX);
            let vocab = expected[0].len() / prompt.len();
            for shared in [1, 4, (prompt.len() - 1) / BLOCK_TOKENS] {
                let mut warm = slots.sequence(2, &prompt, 0);
                warm.table[..shared].copy_from_slice(&cold.table[..shared]);
                warm.computed = shared * BLOCK_TOKENS;
                let got = harness::prefill(&mut executor, std::slice::from_mut(&mut warm), 13);
                let tail = &expected[0][shared * BLOCK_TOKENS * vocab..];
                assert_eq!(
                    harness::bits(&got[0]),
                    harness::bits(tail),
                    "{name}, {dtype:?}, {shared} shared blocks"
                );
            }
        }
    }
}

/// Blocks hold all layers and the window is a mask, so any cut can be gone on from.
#[test]
fn fr_012_a_turn_of_a_windowed_model_computes_only_its_new_tail() {
    for name in ["tiny-gemma3", "tiny-gptoss"] {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        let windows = model.spec().layers.iter().filter_map(|layer| layer.window);
        let window = windows.max().expect("some layers have a window");
        assert!(prompt.len() > 2 * window, "{name}: the prompt leaves the window");
        let mut executor = harness::executor(&model, 2);
        let mut slots = Slots::new(5);
        let mut cold = slots.sequence(1, &prompt, 0);
        let whole = harness::prefill(&mut executor, std::slice::from_mut(&mut cold), usize::MAX);
        let vocab = whole[0].len() / prompt.len();
        for shared in 1..=(prompt.len() - 1) / BLOCK_TOKENS {
            let mut next = slots.sequence(2, &prompt, 0);
            next.table[..shared].copy_from_slice(&cold.table[..shared]);
            next.computed = shared * BLOCK_TOKENS;
            let tail = harness::prefill(&mut executor, std::slice::from_mut(&mut next), usize::MAX);
            let expected = &whole[0][shared * BLOCK_TOKENS * vocab..];
            assert_eq!(tail[0].len() / vocab, prompt.len() - shared * BLOCK_TOKENS);
            assert_eq!(harness::bits(&tail[0]), harness::bits(expected), "{name}, {shared} blocks");
        }
    }
}

#[test]
fn one_other_prompt_token_changes_the_logits() {
    for name in MODELS {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        let mut executor = harness::executor(&model, 1);
        let mut next = |prompt: &[TokenId]| {
            let sequence = computed(&mut executor, &mut Slots::new(0), prompt);
            harness::bits(&harness::logits_after(&mut executor, &sequence, 5))
        };
        let expected = next(&prompt);
        for flipped in [0, 15, 16, 77, prompt.len() - 1] {
            let mut other = prompt.clone();
            other[flipped] = (other[flipped] + 1) % 500;
            assert_ne!(next(&other), expected, "{name}, token {flipped}");
        }
        assert_eq!(next(&prompt), expected, "{name}");
    }
}

#[test]
fn one_flipped_kv_byte_changes_the_logits() {
    for name in MODELS {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        let windowed = model.spec().layers.iter().any(|layer| layer.window.is_some());
        for dtype in DTYPES {
            let mut executor = harness::executor_with(&model, 1, dtype);
            let sequence = computed(&mut executor, &mut Slots::new(0), &prompt);
            let expected = harness::bits(&harness::logits_after(&mut executor, &sequence, 5));
            let slot = sequence.table[prompt.len() / BLOCK_TOKENS - 1];
            let block = harness::read_blocks(&mut executor, &[slot]).remove(0);
            let (mut changed, mut tried) = (0, 0);
            let width = if dtype == KvDtype::F32 { 4 } else { 2 };
            for element in (0..block.len() / width).step_by(53) {
                let mut flipped = block.clone();
                // The last byte of a little-endian float: sign and exponent.
                flipped[element * width + width - 1] ^= 0x40;
                harness::write_block(&mut executor, slot, &flipped);
                let got = harness::bits(&harness::logits_after(&mut executor, &sequence, 5));
                tried += 1;
                changed += usize::from(got != expected);
            }
            // In windowed layers part of the block is out of sight.
            let enough = if windowed { changed > tried / 2 } else { changed == tried };
            assert!(enough, "{name}, {dtype:?}: {changed} of {tried} flips show");
            harness::write_block(&mut executor, slot, &block);
            let restored = harness::bits(&harness::logits_after(&mut executor, &sequence, 5));
            assert_eq!(restored, expected, "{name}, {dtype:?}");
        }
    }
}

#[test]
fn blocks_copied_out_and_in_elsewhere_give_the_same_bits() {
    for name in MODELS {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        for dtype in DTYPES {
            let mut executor = harness::executor_with(&model, 1, dtype);
            let mut slots = Slots::new(0);
            let sequence = computed(&mut executor, &mut slots, &prompt);
            let expected = harness::bits(&harness::logits_after(&mut executor, &sequence, 5));
            let blocks = harness::read_blocks(&mut executor, &sequence.table);
            assert!(blocks.iter().all(|block| block.len() == executor.caps().block_bytes));

            let mut elsewhere = harness::executor_with(&model, 2, dtype);
            let mut moved = sequence.clone();
            for (slot, block) in moved.table.iter_mut().zip(&blocks) {
                *slot = slots.take();
                harness::write_block(&mut elsewhere, *slot, block);
            }
            let got = harness::bits(&harness::logits_after(&mut elsewhere, &moved, 5));
            assert_eq!(got, expected, "{name}, {dtype:?}");
            assert_eq!(harness::read_blocks(&mut elsewhere, &moved.table[..9]), blocks[..9]);
        }
    }
}

#[test]
fn what_stands_elsewhere_in_the_pool_does_not_matter() {
    for name in MODELS {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        let run = |filling: u8| {
            let mut executor = harness::executor(&model, 1);
            let block = vec![filling; executor.caps().block_bytes];
            for slot in 0..harness::SLOTS {
                harness::write_block(&mut executor, dynd_core::SlotIdx(slot), &block);
            }
            let mut sequence = Slots::new(0).sequence(1, &prompt, 0);
            let logits = harness::prefill(&mut executor, std::slice::from_mut(&mut sequence), 21);
            harness::bits(&logits[0])
        };
        // All ones are NaNs: one of them in a sum would show everywhere.
        assert_eq!(run(0xff), run(0), "{name}");
    }
}

#[test]
fn wanting_logits_or_not_changes_nothing() {
    let model = harness::model("tiny-llama");
    let prompt = long_prompt("tiny-llama");
    let mut executor = harness::executor(&model, 1);
    let sequence = Slots::new(0).sequence(1, &prompt, 0);
    let mut last = Vec::new();
    for logits in [LogitsWanted::All, LogitsWanted::Last, LogitsWanted::None] {
        let row = sequence.row(prompt.len(), logits);
        let output = harness::step(&mut executor, vec![row]).rows.remove(0);
        assert_eq!(output.sampled, []);
        let vocab = model.spec().vocab;
        match logits {
            LogitsWanted::All => {
                assert_eq!(output.logits.len(), prompt.len() * vocab);
                last = output.logits[(prompt.len() - 1) * vocab..].to_vec();
            }
            LogitsWanted::Last => assert_eq!(harness::bits(&output.logits), harness::bits(&last)),
            LogitsWanted::None => assert!(output.logits.is_empty()),
        }
    }
}

/// Block ids do not name the instruction set, so a block may come from a machine with another one.
#[test]
fn every_instruction_set_gives_the_same_bits() {
    for name in MODELS {
        let model = harness::model(name);
        let prompt = long_prompt(name);
        for dtype in DTYPES {
            let on = |isa| {
                let mut executor = harness::executor_on(&model, 2, dtype, isa);
                let mut sequence = Slots::new(0).sequence(1, &prompt, 0);
                let one = std::slice::from_mut(&mut sequence);
                let logits = harness::prefill(&mut executor, one, 50);
                let blocks = harness::read_blocks(&mut executor, &sequence.table);
                (harness::bits(&logits[0]), blocks)
            };
            let fastest = on(None);
            for isa in Isa::ALL.into_iter().filter(|isa| isa.supported()) {
                assert!(on(Some(isa)) == fastest, "{name}, {dtype:?}, {isa}");
            }
        }
    }
}
