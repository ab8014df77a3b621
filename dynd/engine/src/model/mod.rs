//! Models: what a file holds, described the same way whatever the format.

mod spec;
mod tensor;

pub use spec::{
    Activation, Ffn, Gating, LayerSpec, LayerTensor, ModelSpec, Rope, RopeLayout, RopeScaling,
    TensorId,
};
pub use tensor::{DType, Tensor};
