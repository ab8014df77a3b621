//! What a loader finds, and the check that its tensors are exactly those of its spec.
//!
//! After [`Opened::verify`] an executor can trust every shape.

use std::path::{Path, PathBuf};

use dynd_core::GgufVocab;

use super::defaults::GenerationDefaults;
use super::error::{ModelError, quote};
use super::layout::{Architecture, Layout, Presence, check_spec, ids, size};
use super::spec::{ModelSpec, TensorId};
use super::store::Store;
use super::view::{self, Place};

/// A model as its files describe it.
#[derive(Debug)]
pub(super) struct Opened {
    pub(super) name: String,
    pub(super) spec: ModelSpec,
    pub(super) layout: Layout,
    pub(super) store: Store,
    pub(super) directory: Option<PathBuf>,
    pub(super) vocab: Option<GgufVocab>,
    pub(super) defaults: GenerationDefaults,
    /// The publisher's name for the storage types; `None` asks for the most common one.
    pub(super) quantisation: Option<&'static str>,
    /// How the format names tensors.
    pub(super) place: fn(Architecture, &ModelSpec, TensorId) -> Place,
    /// Names that may be there without a place in the transformer.
    pub(super) ignorable: fn(&str) -> bool,
}

impl Opened {
    /// Checks bounds of the spec, then that every tensor it needs is there in the right shape and
    /// that nothing else is. Drops tensors that change nothing.
    pub(super) fn verify(&mut self) -> Result<(), ModelError> {
        check_spec(&self.spec)
            .map_err(|(key, what)| ModelError::setting(&self.settings_path(), key, what))?;
        let mut used = vec![false; self.store.entries().len()];
        for id in ids(&self.spec) {
            let presence = self.layout.presence(id);
            if presence == Presence::Never {
                continue;
            }
            let place = (self.place)(self.layout.architecture, &self.spec, id);
            let Some(position) = self.store.position(&place.name) else {
                if presence == Presence::Optional {
                    continue;
                }
                return Err(ModelError::MissingTensor {
                    path: self.store.first_file().path().to_owned(),
                    name: place.name,
                    architecture: self.layout.architecture.name(),
                });
            };
            let size = size(&self.spec, id).expect("ids names tensors of the spec");
            view::check(&self.store, &self.store.entries()[position], size, place.cut)?;
            used[position] = true;
        }
        self.refuse_others(&used)?;
        self.store.retain(&used);
        Ok(())
    }

    /// A tensor without a place would be a rule that is not applied: results would be wrong.
    fn refuse_others(&self, used: &[bool]) -> Result<(), ModelError> {
        let mut others = self.store.entries().iter().zip(used).filter(|(_, used)| !**used);
        let Some((entry, _)) = others.find(|(entry, _)| !(self.ignorable)(&entry.name)) else {
            return Ok(());
        };
        let family = self.layout.architecture.name();
        Err(ModelError::unsupported(
            self.store.path(entry),
            format!("tensor {} has no place in a {family} model", quote(&entry.name)),
            "it is of a newer or modified kind: use another model, or a newer version",
        ))
    }

    fn settings_path(&self) -> PathBuf {
        match &self.directory {
            Some(directory) => directory.join("config.json"),
            None => Path::to_owned(self.store.first_file().path()),
        }
    }
}
