//! `builtin:tiny`: a small llama-like model whose weights come from a fixed seed, so that everything
//! runs without a file. It speaks printable nonsense.
//!
//! Its weights are made with integer arithmetic, square roots and single multiplications only: the
//! same bits on every platform. Vocabulary: the 256 bytes, `<|im_start|>`, `<|im_end|>`,
//! `<|endoftext|>`, then padding. It hardly ever ends by itself.

use super::defaults::GenerationDefaults;
use super::error::ModelError;
use super::layout::{Architecture, Layout, Presence, Size, ids, size};
use super::mapped::Mapped;
use super::open::Opened;
use super::safetensors::names;
use super::spec::{
    Activation, Ffn, LayerSpec, LayerTensor, ModelSpec, Rope, RopeLayout, RopeScaling, TensorId,
};
use super::store::{Entry, Store, checked_shape};
use super::tensor::DType;

pub(super) const NAME: &str = "builtin:tiny";

const SEED: u64 = 0x6479_6e64_2074_696e;
const LAYERS: usize = 2;
const BYTES: usize = 256;
const END_IDS: [i64; 2] = [257, 258];
/// 256 bytes and 3 special tokens, padded to a multiple of 16.
const VOCAB: usize = 272;

/// The first element of the residual stream is a constant that no layer writes to. The output matrix
/// uses it to prefer some bytes.
const CONSTANT: f32 = 1.5;

/// Describes and makes the model.
pub(super) fn open() -> Result<Opened, ModelError> {
    let spec = spec();
    let layout = Layout {
        architecture: Architecture::Llama,
        qkv_bias: Presence::Never,
        output_bias: Presence::Never,
        output: Presence::Required,
    };
    let mut defaults = GenerationDefaults::default();
    END_IDS.into_iter().for_each(|id| defaults.add_eos(id, VOCAB));
    Ok(Opened {
        name: NAME.into(),
        store: weights(&spec, &layout)?,
        spec,
        layout,
        directory: None,
        vocab: None,
        defaults,
        quantisation: None,
        place: names::place,
        ignorable: |_| false,
    })
}

fn spec() -> ModelSpec {
    let rope = Rope { base: 10_000.0, scaling: RopeScaling::None };
    ModelSpec {
        architecture: "llama".into(),
        hidden: 64,
        heads: 4,
        kv_heads: 2,
        head_dim: 16,
        vocab: VOCAB,
        max_context: 8192,
        embedding_scale: 1.0,
        norm_eps: 1e-5,
        norm_plus_one: false,
        attention_scale: 0.25,
        rope_layout: RopeLayout::Halves,
        ffn: Ffn::Dense { width: 128, activation: Activation::Silu },
        layers: vec![LayerSpec { window: None, rope }; LAYERS],
    }
}

fn weights(spec: &ModelSpec, layout: &Layout) -> Result<Store, ModelError> {
    let mut bytes = Vec::new();
    let mut entries = Vec::new();
    let present = ids(spec).filter(|&id| layout.presence(id) == Presence::Required);
    for (number, id) in present.enumerate() {
        let size = size(spec, id).expect("ids names tensors of the spec");
        let values = tensor(number as u64, id, size);
        let (dims, rank) = match size {
            Size::Vector(n) => ([n as u64, 1], 1),
            Size::Matrix(rows, columns) => ([rows as u64, columns as u64], 2),
        };
        let (shape, rank) =
            checked_shape(dims[..rank].iter().copied()).expect("the dimensions are constants");
        entries.push(Entry {
            name: names::place(layout.architecture, spec, id).name.into(),
            start: bytes.len() as u64,
            shape,
            rank,
            dtype: DType::F32,
            file: 0,
        });
        bytes.extend(values.iter().flat_map(|value| value.to_le_bytes()));
    }
    Store::new(vec![Mapped::in_memory(NAME, bytes)], entries)
}

/// Scales keep activations near 1, make attention pick some positions over others, and spread logits
/// enough for the text to depend on the whole context.
fn tensor(number: u64, id: TensorId, size: Size) -> Vec<f32> {
    let (rows, columns) = match size {
        Size::Vector(n) => {
            let mut norm: Vec<f32> = uniform(number, n).map(|u| 1.0 + 0.25 * u).collect();
            if id == TensorId::OutputNorm {
                norm[0] = 1.0;
            }
            return norm;
        }
        Size::Matrix(rows, columns) => (rows, columns),
    };
    let gain = match id {
        TensorId::Output => 3.0,
        TensorId::Layer(_, LayerTensor::Query | LayerTensor::Key) => 2.0,
        _ => 1.5,
    };
    let scale = match id {
        TensorId::TokenEmbedding => 1.0,
        // Uniform values of this amplitude keep the variance, times the gain.
        _ => (3.0 / columns as f32).sqrt() * gain,
    };
    let mut matrix: Vec<f32> = uniform(number, rows * columns).map(|u| u * scale).collect();
    match id {
        TensorId::TokenEmbedding => {
            matrix.chunks_exact_mut(columns).for_each(|row| row[0] = CONSTANT);
        }
        TensorId::Output => {
            let rows = matrix.chunks_exact_mut(columns).enumerate();
            rows.for_each(|(token, row)| row[0] = preference(token));
        }
        TensorId::Layer(_, LayerTensor::AttentionOutput | LayerTensor::Down) => {
            matrix[..columns].fill(0.0);
        }
        _ => {}
    }
    matrix
}

/// How much more likely a token is than a lower-case letter.
fn preference(token: usize) -> f32 {
    if token >= BYTES {
        return -40.0;
    }
    match token as u8 {
        b' ' => 8.0,
        b',' | b'.' => 1.0,
        b'a'..=b'z' => 0.0,
        b'\n' => -1.0,
        b'!'..=b'~' => -12.0,
        _ => -40.0,
    }
}

/// Numbers in `[-1, 1)` with 24 bits each, a function of the seed, the tensor and the index.
fn uniform(tensor: u64, count: usize) -> impl Iterator<Item = f32> {
    (0..count as u64).map(move |index| {
        let bits = splitmix64(SEED, tensor << 32 | index) >> 40;
        (bits as i32 - (1 << 23)) as f32 / (1 << 23) as f32
    })
}

/// The output of splitmix64 at a position of the sequence that begins at `seed`.
fn splitmix64(seed: u64, position: u64) -> u64 {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut z = seed.wrapping_add(position.wrapping_add(1).wrapping_mul(GOLDEN));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
