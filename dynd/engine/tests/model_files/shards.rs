//! Models in several files, in both formats.

use std::path::Path;

use dynd_engine::model::{Model, ModelError};

use crate::gguf_file::{self as g, File};
use crate::support::reference;

/// Splits the small model into parts of the given numbers of tensors.
fn parts(sizes: &[usize]) -> Vec<File> {
    let whole = g::small_llama();
    let mut tensors = whole.tensors.iter().cloned();
    let count = sizes.len() as u16;
    let part = |(number, &size): (usize, &usize)| {
        let mut file = if number == 0 { whole.clone() } else { File::new() };
        file.set("split.no", g::u16(number as u16));
        file.set("split.count", g::u16(count));
        file.set("split.tensors.count", g::i32(whole.tensors.len() as i32));
        file.tensors = tensors.by_ref().take(size).collect();
        file
    };
    sizes.iter().enumerate().map(part).collect()
}

fn write(folder: &Path, files: &[File]) {
    for (index, file) in files.iter().enumerate() {
        let name = format!("small-{:05}-of-{:05}.gguf", index + 1, files.len());
        std::fs::write(folder.join(name), file.build()).unwrap();
    }
}

fn open(files: &[File], part: usize) -> Result<Model, ModelError> {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), files);
    Model::open(&folder.path().join(format!("small-{part:05}-of-{:05}.gguf", files.len())))
}

#[test]
fn any_part_of_a_split_model_opens_the_whole() {
    let expected = crate::gguf::open(&g::small_llama()).unwrap();
    for part in 1..=3 {
        let model = open(&parts(&[0, 5, 6]), part).unwrap();
        assert_eq!(model.name(), "small");
        assert_eq!(model.spec(), expected.spec());
        assert_eq!(model.fingerprint(), expected.fingerprint(), "content counts, not files");
        assert_eq!(model.gguf_vocab().unwrap().tokens.len(), 8);
        assert!(model.file_bytes() > expected.file_bytes());
    }
}

#[test]
fn incomplete_or_mixed_parts_are_refused() {
    let error = |files: &[File]| open(files, 1).unwrap_err().to_string();

    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &parts(&[4, 4, 3]));
    std::fs::remove_file(folder.path().join("small-00002-of-00003.gguf")).unwrap();
    let missing = Model::open(&folder.path().join("small-00001-of-00003.gguf")).unwrap_err();
    assert!(missing.to_string().contains("small-00002-of-00003.gguf"), "{missing}");

    let mut swapped = parts(&[4, 4, 3]);
    swapped.swap(1, 2);
    assert!(error(&swapped).contains("split.no is not 1"));

    let mut foreign = parts(&[4, 7]);
    foreign[1].set("split.count", g::u16(9));
    assert!(error(&foreign).contains("belongs to another set of parts"));

    let mut renamed = parts(&[4, 7]);
    renamed[0].set("split.count", g::u16(3));
    assert!(error(&renamed).contains("says it has 3 parts, its name says 2"));

    let mut short = parts(&[4, 7]);
    short[1].tensors.pop();
    assert!(error(&short).contains("hold 10 tensors, not 11"));

    let mut twice = parts(&[4, 7]);
    let again = twice[0].tensors[0].clone();
    twice[1].tensors[6] = again;
    assert!(error(&twice).contains("two tensors are called \"token_embd.weight\""));

    let nameless = folder.path().join("part.gguf");
    std::fs::copy(folder.path().join("small-00001-of-00003.gguf"), &nameless).unwrap();
    let error = Model::open(&nameless).unwrap_err().to_string();
    assert!(error.contains("NAME-00001-of-0000N.gguf"), "{error}");
}

/// Writes tensors of a reference model into two safetensors files and an index.
fn split_safetensors(name: &str, folder: &Path) {
    let bytes = std::fs::read(reference(name).join("model.safetensors")).unwrap();
    let file = safetensors::SafeTensors::deserialize(&bytes).unwrap();
    let (left, right): (Vec<_>, Vec<_>) =
        file.tensors().into_iter().partition(|(name, _)| name.contains("layers.0"));
    let mut map = serde_json::Map::new();
    for (file, tensors) in [("a.safetensors", left), ("b.safetensors", right)] {
        for (name, _) in &tensors {
            map.insert(name.clone(), file.into());
        }
        let data = safetensors::serialize(tensors, None).unwrap();
        std::fs::write(folder.join(file), data).unwrap();
    }
    let index = serde_json::json!({"metadata": {}, "weight_map": map}).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    std::fs::copy(reference(name).join("config.json"), folder.join("config.json")).unwrap();
}

#[test]
fn an_index_joins_safetensors_files() {
    let folder = tempfile::tempdir().unwrap();
    split_safetensors("tiny-gptoss", folder.path());
    let joined = Model::open(folder.path()).unwrap();
    let single = Model::open(&reference("tiny-gptoss")).unwrap();
    assert_eq!(joined.spec(), single.spec());
    assert_eq!(joined.fingerprint(), single.fingerprint());

    std::fs::remove_file(folder.path().join("a.safetensors")).unwrap();
    let error = Model::open(folder.path()).unwrap_err().to_string();
    assert!(error.contains("a.safetensors"), "{error}");
}

#[test]
fn a_model_in_a_hugging_face_cache_has_the_models_name() {
    let cache = tempfile::tempdir().unwrap();
    let folder = cache.path().join("models--Org--Tiny-Llama/snapshots/0a1b2c");
    std::fs::create_dir_all(&folder).unwrap();
    for file in ["config.json", "model.safetensors"] {
        let blob = std::fs::canonicalize(reference("tiny-llama").join(file)).unwrap();
        std::os::unix::fs::symlink(blob, folder.join(file)).unwrap();
    }
    assert_eq!(Model::open(&folder).unwrap().name(), "Tiny-Llama");
}
