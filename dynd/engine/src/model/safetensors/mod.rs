//! Folders as Hugging Face publishes them: `config.json` and safetensors files.

mod directory;
mod header;
mod json;
pub(super) mod names;
mod rope;
mod settings;

use std::path::Path;

use self::json::Object;
use super::error::ModelError;
use super::mapped::read_json;
use super::open::Opened;

/// Opens a folder and describes it; tensors are not yet checked against the description.
pub(super) fn open(directory: &Path) -> Result<Opened, ModelError> {
    let config_path = directory.join("config.json");
    let Some(config) = read_json(&config_path)? else {
        return Err(ModelError::not_a_model(directory, "there is no config.json in it"));
    };
    let root = Object::new(&config_path, &config);
    let (architecture, text) = settings::architecture(root)?;
    let store = directory::open(directory)?;
    let has_output = store.position("lm_head.weight").is_some();
    let (spec, layout) = settings::spec(architecture, root, text, has_output)?;

    let generation_path = directory.join("generation_config.json");
    let generation = read_json(&generation_path)?;
    let generation = generation.as_ref().map(|value| Object::new(&generation_path, value));
    let defaults = settings::defaults(generation, root, text, spec.vocab)?;
    Ok(Opened {
        name: name(directory),
        spec,
        layout,
        store,
        directory: Some(directory.to_owned()),
        vocab: None,
        defaults,
        quantisation: None,
        place: names::place,
        ignorable: names::ignorable,
    })
}

/// The folder's name; in a Hugging Face cache, whose folders are called by hashes, the model's.
fn name(directory: &Path) -> String {
    let full = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let own = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let parent = full.parent().filter(|parent| own(parent) == "snapshots");
    let cached = parent.and_then(Path::parent).map(own).and_then(|folder| {
        let (_, name) = folder.strip_prefix("models--")?.rsplit_once("--")?;
        Some(name.to_owned())
    });
    cached.unwrap_or_else(|| own(&full))
}
