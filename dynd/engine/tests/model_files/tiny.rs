//! The built-in model.

use std::path::Path;

use dynd_engine::model::{LayerTensor, Model, TensorId};

use crate::support::values;

#[test]
fn the_built_in_model_is_always_the_same() {
    let model = Model::tiny();
    assert_eq!(model.name(), "builtin:tiny");
    let spec = model.spec();
    assert_eq!((spec.hidden, spec.heads, spec.kv_heads, spec.head_dim), (64, 4, 2, 16));
    assert_eq!((spec.vocab, spec.max_context, spec.layers.len()), (272, 8192, 2));
    assert_eq!(model.defaults().eos_ids, [257, 258]);
    let hex: String = model.fingerprint().iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "fe0ec61094fa127fa89222bcfd441302befdcd4082afcac0d15b1494be6470df");
    let by_path = Model::open(Path::new("builtin:tiny")).unwrap();
    assert_eq!(by_path.fingerprint(), model.fingerprint());
}

#[test]
fn no_layer_writes_the_constant_that_the_output_matrix_reads() {
    let model = Model::tiny();
    assert!(values(&model, TensorId::TokenEmbedding).chunks(64).all(|row| row[0] == 1.5));
    for layer in 0..2 {
        let out = values(&model, TensorId::Layer(layer, LayerTensor::AttentionOutput));
        assert!(out[..64].iter().all(|&weight| weight == 0.0));
        let down = values(&model, TensorId::Layer(layer, LayerTensor::Down));
        assert!(down[..128].iter().all(|&weight| weight == 0.0));
    }
    let output = values(&model, TensorId::Output);
    let preferred = |token: u8| output[usize::from(token) * 64];
    assert!(preferred(b' ') > preferred(b'e') && preferred(b'e') > preferred(b'E'));
    assert!(preferred(b'E') > preferred(200));
}
