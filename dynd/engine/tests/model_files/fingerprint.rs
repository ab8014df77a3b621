//! Persisted KV is keyed by the fingerprint: it must differ whenever results may, and not otherwise.

use dynd_engine::model::Model;

use crate::gguf::open;
use crate::gguf_file as g;
use crate::support::{editable, open_edited, reference};

#[test]
fn fr_076_other_weights_of_equal_name_and_shape_have_another_fingerprint() {
    let original = Model::open(&reference("tiny-qwen3")).unwrap();
    let bytes = std::fs::read(reference("tiny-qwen3").join("model.safetensors")).unwrap();
    let header = 8 + u64::from_le_bytes(*bytes.first_chunk().unwrap()) as usize;
    // The first, some middle and the very last byte of the data.
    for place in [header, (header + bytes.len()) / 2, bytes.len() - 1] {
        let folder = editable("tiny-qwen3", "config.json");
        let mut changed = bytes.clone();
        changed[place] ^= 1;
        std::fs::remove_file(folder.path().join("model.safetensors")).unwrap();
        std::fs::write(folder.path().join("model.safetensors"), changed).unwrap();
        let model = Model::open(folder.path()).unwrap();
        assert_eq!(model.spec(), original.spec());
        assert_ne!(model.fingerprint(), original.fingerprint(), "byte {place}");
    }
}

#[test]
fn fr_076_settings_that_change_results_change_the_fingerprint() {
    let original = open(&g::small_llama()).unwrap().fingerprint();
    for (key, value) in [
        ("llama.rope.freq_base", g::f32(10_001.0)),
        ("llama.attention.layer_norm_rms_epsilon", g::f32(1e-6)),
        ("llama.rope.scaling.factor", g::f32(2.0)),
    ] {
        let mut file = g::small_llama();
        file.set(key, value);
        assert_ne!(open(&file).unwrap().fingerprint(), original, "{key}");
    }
    let factors = |last: f32| {
        let mut file = g::small_llama();
        let mut factors = [1.0; 8];
        factors[7] = last;
        file.add_f32("rope_freqs.weight", &[8], &factors);
        open(&file).unwrap().fingerprint()
    };
    assert_ne!(factors(2.0), factors(3.0));
    let gating = open_edited("tiny-qwen3-moe", "config.json", |config| {
        config.insert("norm_topk_prob".into(), false.into());
    });
    let moe = Model::open(&reference("tiny-qwen3-moe")).unwrap();
    assert_ne!(gating.unwrap().fingerprint(), moe.fingerprint());
}

#[test]
fn names_order_template_and_context_length_do_not_count() {
    let original = open(&g::small_llama()).unwrap();
    let mut file = g::small_llama();
    file.set("general.name", g::str("another name"));
    file.set("tokenizer.chat_template", g::str("{{ other }}"));
    file.set("llama.context_length", g::u32(128));
    file.tensors.reverse();
    let model = open(&file).unwrap();
    assert_eq!(model.fingerprint(), original.fingerprint());
    assert_eq!(model.fingerprint(), model.fingerprint());
}
