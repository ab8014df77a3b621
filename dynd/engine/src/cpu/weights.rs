//! A model's tensors in the form the forward pass reads: packed matrices, plain vectors.
//!
//! Which rules apply to a layer follows from which tensors are there, not from the architecture.

use super::matrix::Matrix;
use super::project::Threads;
use crate::model::{Activation, Ffn, Gating, LayerTensor, Model, ModelSpec, TensorId};

#[derive(Debug)]
pub(super) struct Weights {
    pub(super) embedding: Matrix,
    pub(super) output_norm: Vec<f32>,
    /// `None`: the embedding serves.
    pub(super) output: Option<Matrix>,
    pub(super) layers: Vec<Layer>,
}

#[derive(Debug)]
pub(super) struct Layer {
    pub(super) attention_norm: Vec<f32>,
    pub(super) query: Projection,
    pub(super) key: Projection,
    pub(super) value: Projection,
    pub(super) query_norm: Option<Vec<f32>>,
    pub(super) key_norm: Option<Vec<f32>>,
    pub(super) sinks: Option<Vec<f32>>,
    pub(super) attention_output: Projection,
    pub(super) post_attention_norm: Option<Vec<f32>>,
    pub(super) ffn_norm: Vec<f32>,
    pub(super) post_ffn_norm: Option<Vec<f32>>,
    pub(super) ffn: LayerFfn,
}

#[derive(Debug)]
pub(super) enum LayerFfn {
    Dense(GatedFfn),
    Experts { router: Projection, experts: Vec<GatedFfn>, active: usize, gating: Gating },
}

/// `down(activation(gate(x), up(x)))`.
#[derive(Debug)]
pub(super) struct GatedFfn {
    pub(super) activation: Activation,
    pub(super) gate: Projection,
    pub(super) up: Projection,
    pub(super) down: Projection,
}

/// A matrix with the bias that some models add.
#[derive(Debug)]
pub(super) struct Projection {
    pub(super) matrix: Matrix,
    pub(super) bias: Option<Vec<f32>>,
}

impl Weights {
    pub(super) fn new(model: &Model, threads: &Threads) -> Self {
        let source = Source { model, threads, norm_plus_one: model.spec().norm_plus_one };
        Weights {
            embedding: source.matrix(TensorId::TokenEmbedding),
            output_norm: source.norm(TensorId::OutputNorm),
            output: source.optional_matrix(TensorId::Output),
            layers: (0..model.spec().layers.len())
                .map(|index| Layer::new(&source, model.spec(), index))
                .collect(),
        }
    }

    /// The matrix that turns hidden states into logits.
    pub(super) fn head(&self) -> &Matrix {
        self.output.as_ref().unwrap_or(&self.embedding)
    }
}

impl Layer {
    fn new(source: &Source<'_>, spec: &ModelSpec, index: usize) -> Self {
        use LayerTensor as T;
        let id = |tensor| TensorId::Layer(index, tensor);
        let projection = |matrix, bias| source.projection(id(matrix), id(bias));
        let ffn = match spec.ffn {
            Ffn::Dense { activation, .. } => LayerFfn::Dense(GatedFfn {
                activation,
                gate: source.without_bias(id(T::Gate)),
                up: source.without_bias(id(T::Up)),
                down: source.without_bias(id(T::Down)),
            }),
            Ffn::Experts { experts, activation, active, gating, .. } => LayerFfn::Experts {
                router: projection(T::Router, T::RouterBias),
                experts: (0..experts)
                    .map(|expert| GatedFfn {
                        activation,
                        gate: projection(T::ExpertGate(expert), T::ExpertGateBias(expert)),
                        up: projection(T::ExpertUp(expert), T::ExpertUpBias(expert)),
                        down: projection(T::ExpertDown(expert), T::ExpertDownBias(expert)),
                    })
                    .collect(),
                active,
                gating,
            },
        };
        Layer {
            attention_norm: source.norm(id(T::AttentionNorm)),
            query: projection(T::Query, T::QueryBias),
            key: projection(T::Key, T::KeyBias),
            value: projection(T::Value, T::ValueBias),
            query_norm: source.optional_norm(id(T::QueryNorm)),
            key_norm: source.optional_norm(id(T::KeyNorm)),
            sinks: source.vector(id(T::Sinks)),
            attention_output: projection(T::AttentionOutput, T::AttentionOutputBias),
            post_attention_norm: source.optional_norm(id(T::PostAttentionNorm)),
            ffn_norm: source.norm(id(T::FfnNorm)),
            post_ffn_norm: source.optional_norm(id(T::PostFfnNorm)),
            ffn,
        }
    }
}

/// Where tensors come from and what becomes of them.
struct Source<'a> {
    model: &'a Model,
    threads: &'a Threads,
    norm_plus_one: bool,
}

impl Source<'_> {
    fn optional_matrix(&self, id: TensorId) -> Option<Matrix> {
        let tensor = self.model.tensor(id)?;
        Some(Matrix::pack_with(&self.threads.pool, &tensor, self.threads.isa))
    }

    fn matrix(&self, id: TensorId) -> Matrix {
        self.optional_matrix(id).expect("an open model has every tensor its spec requires")
    }

    fn without_bias(&self, id: TensorId) -> Projection {
        Projection { matrix: self.matrix(id), bias: None }
    }

    fn projection(&self, matrix: TensorId, bias: TensorId) -> Projection {
        Projection { matrix: self.matrix(matrix), bias: self.vector(bias) }
    }

    fn vector(&self, id: TensorId) -> Option<Vec<f32>> {
        let row = self.optional_matrix(id)?;
        let mut vector = vec![0.0; row.columns()];
        row.row_f32(0, &mut vector);
        Some(vector)
    }

    fn norm(&self, id: TensorId) -> Vec<f32> {
        self.optional_norm(id).expect("an open model has every norm its spec requires")
    }

    /// A norm's weights, the `1 +` of some models included.
    fn optional_norm(&self, id: TensorId) -> Option<Vec<f32>> {
        let mut norm = self.vector(id)?;
        if self.norm_plus_one {
            norm.iter_mut().for_each(|weight| *weight += 1.0);
        }
        Some(norm)
    }
}
