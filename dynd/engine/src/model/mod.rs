//! Models: what a file holds, described the same way whatever the format.

mod adjust;
mod defaults;
mod error;
mod fingerprint;
mod gguf;
mod layout;
mod mapped;
#[expect(clippy::module_inception, reason = "the type is the module's centre")]
mod model;
mod open;
mod safetensors;
mod spec;
mod store;
mod tensor;
mod tiny;
mod view;

pub use adjust::Adjustments;
pub use defaults::GenerationDefaults;
pub use error::ModelError;
pub use model::Model;
pub use spec::{
    Activation, Ffn, Gating, LayerSpec, LayerTensor, ModelSpec, Rope, RopeLayout, RopeScaling,
    TensorId,
};
pub use tensor::{DType, Tensor};
