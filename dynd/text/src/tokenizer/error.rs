//! Why a tokenizer could not be built.

/// Each message says what is wrong with the file and what would help.
#[derive(Debug, thiserror::Error)]
pub enum TokenizerError {
    #[error("tokenizer.json cannot be read: {0}; download the file again")]
    Json(String),
    #[error("tokenizer.json has a {0} model, which is not supported; BPE and Unigram models are")]
    Model(String),
    #[error("tokenizer_config.json cannot be read: {0}; download the file again")]
    Config(#[source] serde_json::Error),
    #[error(
        "the GGUF file has a '{0}' tokenizer, which is not supported; 'gpt2' (BPE) and 'llama' \
         (SentencePiece) are"
    )]
    GgufModel(String),
    #[error(
        "the GGUF file names the pre-tokenizer '{0}', which is not known; guessing one would give \
         wrong tokens: use a safetensors model with its tokenizer.json"
    )]
    PreTokenizer(String),
    #[error("the GGUF file's vocabulary is damaged: {0}; download the file again")]
    Vocabulary(String),
}
