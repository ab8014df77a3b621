//! How the model's makers advise to sample, and where generation ends.
//!
//! Plain values; applying them is the caller's business.

/// Sampling settings that come with a model; `None` where it says nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct GenerationDefaults {
    pub temperature: Option<f32>,
    pub top_p: Option<f32>,
    pub top_k: Option<u32>,
    pub min_p: Option<f32>,
    pub repetition_penalty: Option<f32>,
    /// Tokens that end a generation, without repeats; all lie inside the vocabulary.
    pub eos_ids: Vec<u32>,
}

impl GenerationDefaults {
    /// Adds a token that ends generation; ignores one outside the vocabulary, which cannot occur.
    pub(super) fn add_eos(&mut self, id: i64, vocab: usize) {
        let Ok(id) = u32::try_from(id) else { return };
        if (id as usize) < vocab && !self.eos_ids.contains(&id) {
            self.eos_ids.push(id);
        }
    }

    /// Refuses values that a request may not use either, with the setting's name and what is wrong
    /// with it: every request that leaves the setting to the model would fail.
    pub(super) fn check(&self) -> Result<(), (&'static str, String)> {
        let within = |name, value: Option<f32>, least: f32, most: f32| match value {
            Some(value) if !(least..=most).contains(&value) => {
                Err((name, format!("is {value}, not between {least} and {most}")))
            }
            _ => Ok(()),
        };
        within("temperature", self.temperature, 0.0, 100.0)?;
        within("top_p", self.top_p, 0.0, 1.0)?;
        within("min_p", self.min_p, 0.0, 1.0)?;
        within("repetition_penalty", self.repetition_penalty, 0.01, 100.0)
    }
}
