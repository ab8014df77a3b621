//! safetensors files and indices whose numbers and names lie.

use std::path::Path;

use dynd_engine::model::{Model, ModelError};
use serde_json::{Value, json};

use super::open_within;

fn config() -> Value {
    json!({"model_type": "llama", "hidden_size": 8, "num_attention_heads": 2,
        "num_hidden_layers": 1, "intermediate_size": 8, "vocab_size": 4,
        "max_position_embeddings": 64, "rms_norm_eps": 1e-5})
}

/// Name and shape of every tensor of a model with [`config`].
fn shapes() -> Vec<(String, Vec<usize>)> {
    let mut shapes = vec![
        ("model.embed_tokens.weight".to_owned(), vec![4, 8]),
        ("model.norm.weight".to_owned(), vec![8]),
    ];
    for norm in ["input_layernorm", "post_attention_layernorm"] {
        shapes.push((format!("model.layers.0.{norm}.weight"), vec![8]));
    }
    for name in ["q_proj", "k_proj", "v_proj", "o_proj"] {
        shapes.push((format!("model.layers.0.self_attn.{name}.weight"), vec![8, 8]));
    }
    for name in ["gate_proj", "up_proj", "down_proj"] {
        shapes.push((format!("model.layers.0.mlp.{name}.weight"), vec![8, 8]));
    }
    shapes
}

/// The header of a good file and the length of its data.
fn header() -> (serde_json::Map<String, Value>, usize) {
    let mut header = serde_json::Map::new();
    let mut offset = 0;
    for (name, shape) in shapes() {
        let end = offset + shape.iter().product::<usize>() * 4;
        header.insert(name, json!({"dtype": "F32", "shape": shape, "data_offsets": [offset, end]}));
        offset = end;
    }
    (header, offset)
}

fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.resize(bytes.len() + data, 0);
    bytes
}

fn open(bytes: &[u8]) -> Result<Model, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config().to_string()).unwrap();
    std::fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
    open_within(folder.path(), bytes.len())
}

fn refused(bytes: &[u8], what: &str) {
    let error = open(bytes).map(|model| model.spec().clone()).unwrap_err().to_string();
    assert!(error.contains(what), "{what:?} is not in: {error}");
    assert!(error.len() < 1000, "messages stay short: {error}");
}

/// A good file with one tensor's row replaced.
fn with_row(row: Value) -> Vec<u8> {
    let (mut header, length) = header();
    header.insert("model.norm.weight".into(), row);
    file(&Value::Object(header).to_string(), length)
}

#[test]
fn the_file_that_the_others_are_made_from_is_good() {
    let (header, length) = header();
    open(&file(&Value::Object(header).to_string(), length)).unwrap();
}

#[test]
fn lengths_of_the_header() {
    let (header, length) = header();
    let good = file(&Value::Object(header).to_string(), length);
    for lie in [u64::MAX, 1 << 63, 1 << 40, good.len() as u64, good.len() as u64 - 7, 101 << 20] {
        let mut bytes = good.clone();
        bytes[..8].copy_from_slice(&lie.to_le_bytes());
        refused(&bytes, "its header claims");
    }
    for lie in [0, 1, 100] {
        let mut bytes = good.clone();
        bytes[..8].copy_from_slice(&u64::to_le_bytes(lie));
        refused(&bytes, "is malformed");
    }
    refused(b"1234567", "shorter than a safetensors header");
    refused(b"", "the file is empty");
}

#[test]
fn offsets() {
    // The row in place is [128, 160] of 32 bytes.
    let row = |start: u64, end: u64| {
        with_row(json!({"dtype": "F32", "shape": [8], "data_offsets": [start, end]}))
    };
    open(&row(128, 160)).unwrap();
    for (start, end) in [
        (160, 128),
        (128, 161),
        (128, 128),
        (0, u64::MAX),
        (u64::MAX, 31),
        (u64::MAX - 31, u64::MAX),
        (1 << 62, (1 << 62) + 31),
    ] {
        refused(&row(start, end), "offsets that do not fit its shape");
    }
    refused(&row(u64::MAX - 32, u64::MAX), "outside the file");
    refused(&row(1 << 40, (1 << 40) + 32), "reaches past the end");
    refused(&row(0, 32), "overlaps");
    refused(&row(96, 128), "overlaps");
    let (header, length) = header();
    let header = Value::Object(header).to_string();
    refused(&file(&header, length - 1), "reaches past the end");
    refused(&file(&header, length + 5), "5 bytes of its data belong to no tensor");
}

#[test]
fn shapes_and_types() {
    let row = |dtype: Value, shape: Value| {
        with_row(json!({"dtype": dtype, "shape": shape, "data_offsets": [128, 160]}))
    };
    for shape in [
        json!([0]),
        json!([1u64 << 40]),
        json!([u64::MAX]),
        json!([1u64 << 31, 1u64 << 31]),
        json!([1, 1, 1, 1, 8]),
        json!(vec![1; 100_000]),
    ] {
        refused(&row(json!("F32"), shape), "impossible shape");
    }
    for shape in [json!([-8]), json!([8.5]), json!("8"), json!(null), json!({"0": 8})] {
        refused(&row(json!("F32"), shape), "is malformed");
    }
    refused(&row(json!("F32"), json!([2, 4])), "has the shape [2, 4]");
    refused(&row(json!("BF16"), json!([8])), "offsets that do not fit");
    refused(&row(json!("BF16"), json!([16])), "has the shape [16]");
    for dtype in ["F8_E4M3", "U8", "I64", "F64", ""] {
        refused(&row(json!(dtype), json!([8])), &format!("is stored as {dtype:?}"));
    }
    refused(&row(json!(7), json!([8])), "is malformed");
}

#[test]
fn malformed_headers() {
    for header in ["[]", "{", "{}{}", "null", "\u{7f}", "{\"a\": 1}", "{\"a\": {}}", "{\"a\": []}"]
    {
        refused(&file(header, 0), "is malformed");
    }
    refused(&file(&"[".repeat(1 << 20), 0), "is malformed");
    refused(&file(&"{\"a\":".repeat(1 << 18), 0), "is malformed");
    let deep = format!("{{\"__metadata__\": {}", "[".repeat(1 << 18));
    refused(&file(&deep, 0), "is malformed");
    refused(&file("{}", 0), "lacks the tensor");
    let (header, length) = header();
    let twice = Value::Object(header).to_string().replace("model.norm", "model.embed_tokens");
    refused(&file(&twice, length), "two tensors are called");
    let long = format!("{{\"{}\": {{}}}}", "n".repeat(100_000));
    refused(&file(&long, 0), "is malformed");
}

#[test]
fn an_index_cannot_lead_out_of_the_folder() {
    let outside = tempfile::tempdir().unwrap();
    let folder = outside.path().join("model");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("config.json"), config().to_string()).unwrap();
    let (header, length) = header();
    let good = file(&Value::Object(header).to_string(), length);
    std::fs::write(outside.path().join("secret.safetensors"), &good).unwrap();
    std::fs::create_dir(folder.join("inner")).unwrap();
    std::fs::write(folder.join("inner/x.safetensors"), &good).unwrap();
    let open = |name: &Value| {
        let index = json!({"weight_map": {"model.norm.weight": name}}).to_string();
        std::fs::write(folder.join("model.safetensors.index.json"), &index).unwrap();
        open_within(&folder, 4096).unwrap_err().to_string()
    };
    let absolute = outside.path().join("secret.safetensors");
    for name in [
        json!("../secret.safetensors"),
        json!("inner/../../secret.safetensors"),
        json!("inner/x.safetensors"),
        json!("./../secret.safetensors"),
        json!("x.safetensors/"),
        json!("..\\secret.safetensors"),
        json!(".."),
        json!(""),
        json!(absolute),
        json!("/etc/passwd"),
        json!("config.json"),
        json!(7),
        json!(null),
    ] {
        let error = open(&name);
        assert!(error.contains("no file of the folder"), "{name}: {error}");
    }
    assert!(open(&json!("absent.safetensors")).contains("absent.safetensors"));
    assert!(open(&json!("a\0.safetensors")).contains("cannot read"));
    let broken = [json!({}), json!(7), json!({"weight_map": []}), json!({"weight_map": {}})];
    for index in broken {
        std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
        assert!(refusal(&folder).contains("weight_map"));
    }
    let many: serde_json::Map<_, _> =
        (0..5000).map(|i| (i.to_string(), json!(format!("{i}.safetensors")))).collect();
    let index = json!({"weight_map": many}).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    assert!(refusal(&folder).contains("more than 1024 files"));
}

#[test]
fn memory_follows_the_file_however_many_tensors_and_values_it_has() {
    let (mut header, mut length) = header();
    for number in 0..20_000 {
        let row = json!({"dtype": "F32", "shape": [], "data_offsets": [length, length + 4]});
        header.insert(format!("{number}"), row);
        length += 4;
    }
    refused(&file(&Value::Object(header).to_string(), length), "has no place in a llama model");
    let folder = tempfile::tempdir().unwrap();
    let config = format!("[{}0]", "0,".repeat(1 << 20));
    std::fs::write(folder.path().join("config.json"), &config).unwrap();
    let error = open_within(folder.path(), config.len()).unwrap_err().to_string();
    assert!(error.contains("it holds 1048577 values"), "{error}");
    std::fs::write(folder.path().join("config.json"), " ".repeat(5 << 20)).unwrap();
    let error = open_within(folder.path(), 0).unwrap_err().to_string();
    assert!(error.contains("are the limit"), "{error}");
}

fn refusal(folder: &Path) -> String {
    Model::open(folder).unwrap_err().to_string()
}

#[test]
fn things_that_are_no_files_are_refused_without_reading() {
    for name in ["model.safetensors", "config.json", "generation_config.json"] {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.json"), config().to_string()).unwrap();
        let (header, length) = header();
        let good = file(&Value::Object(header).to_string(), length);
        std::fs::write(folder.path().join("model.safetensors"), good).unwrap();
        let _ = std::fs::remove_file(folder.path().join(name));
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(name)).unwrap();
        assert!(refusal(folder.path()).contains("not a regular file"), "{name}");
    }
    assert!(refusal(Path::new("/dev/zero")).contains("not a regular file"));
}
