//! Puts one served model together: file, tokenizer, template, executor, worker.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use dynd_api::{ModelInfo, Serving};
use dynd_core::{BLOCK_TOKENS, Clock, Domain, DomainParts};
use dynd_engine::cpu::kv_arena::KvGeometry;
use dynd_engine::cpu::{CpuConfig, CpuExecutor, Isa, KvDtype};
use dynd_engine::model::Model;
use dynd_engine::{Caps, Executor};
use dynd_protocol::CHOICES_MAX;
use dynd_text::{
    AnswerFormat, ChatTemplate, GrammarFactory, PromptBuilder, PromptRules, Tokenizer,
    TokenizerConfig,
};
use dynd_worker::{WorkerConfig, WorkerHandle};

use crate::config::{self, BUILTIN, Config};
use crate::memory;

/// Share of the memory left after the weights that KV blocks take unless configured.
const POOL_SHARE_PERCENT: u64 = 40;

/// Larger than any template there is.
const TEMPLATE_BYTES_MAX: u64 = 1 << 20;

/// A model ready to answer, and what a person wants to know of it.
#[derive(Debug)]
pub struct Assembled {
    pub serving: Serving,
    pub architecture: String,
    pub quantisation: &'static str,
}

/// Whether the configured model's files are there: cheap, and worth knowing before sockets are opened.
pub fn check_files(config: &Config) -> anyhow::Result<()> {
    let path = model_path(config);
    if path != BUILTIN && path.starts_with("builtin:") {
        bail!("there is no built-in model {path}; the one there is is called {BUILTIN}");
    }
    if path != BUILTIN && !Path::new(path).exists() {
        bail!(
            "there is no model at {path}. Give a .gguf file, a safetensors directory, or \
             {BUILTIN}; models are not looked up or downloaded by name"
        );
    }
    let templates = config.models.values().filter_map(|entry| entry.chat_template.as_deref());
    for template in templates {
        let metadata = std::fs::metadata(template).with_context(|| {
            format!(
                "there is no chat template at {:?} (a relative path is taken from the directory dynd \
                 is started in)",
                template.display().to_string()
            )
        })?;
        if !metadata.is_file() {
            bail!("the chat template {} is not a file", template.display());
        }
        if !(1..=TEMPLATE_BYTES_MAX).contains(&metadata.len()) {
            bail!(
                "the chat template {} has {} bytes; it must have between 1 and \
                 {TEMPLATE_BYTES_MAX}",
                template.display(),
                metadata.len()
            );
        }
    }
    Ok(())
}

fn model_path(config: &Config) -> &str {
    config.models.first_key_value().map_or(BUILTIN, |(_, entry)| entry.path.as_str())
}

/// Loads the configured model and starts its worker. Takes seconds; call it off the async threads.
///
/// The worker computes with what `wrap` makes of the executor and the model's tokenizer.
pub fn assemble<E: Executor + 'static>(
    config: &Config,
    clock: &Arc<dyn Clock>,
    wrap: &impl Fn(CpuExecutor, &Arc<Tokenizer>) -> E,
) -> anyhow::Result<Assembled> {
    let configured = config.models.first_key_value();
    let path = model_path(config);
    let mut model = Model::open(Path::new(path))?;
    if let Some((name, entry)) = configured {
        entry.adjustments().and_then(|adjustments| model.adjust(&adjustments)).map_err(|why| {
            anyhow::anyhow!("the settings of model {name:?} do not fit it: {why}")
        })?;
    }
    let template = configured.and_then(|(_, entry)| entry.chat_template.as_deref());
    let TextSide { tokenizer, template, mut answers } = text_side(&model, template)?;
    if let Some((_, entry)) = configured {
        if let Some(format) = &entry.tool_format {
            answers.tools = format.parse().context("models.*.tool_format")?;
        }
        if let Some(format) = &entry.reasoning_format {
            answers.reasoning = format.parse().context("models.*.reasoning_format")?;
        }
    }
    tracing::info!(tools = %answers.tools, reasoning = %answers.reasoning, "answer format");
    let spec = model.spec();
    if tokenizer.vocab_size() > spec.vocab {
        bail!(
            "the tokenizer of {path} has {} tokens but the model only {}: they do not belong \
             together. Get both from the same source",
            tokenizer.vocab_size(),
            spec.vocab
        );
    }
    // Hashing reads every weight, and so does packing: doing both at once reads the file once.
    let (executor, fingerprint) = std::thread::scope(|scope| {
        let fingerprint = scope.spawn(|| model.fingerprint());
        let executor = cpu_executor(config, &model);
        (executor, fingerprint.join())
    });
    let executor = executor?;
    let Ok(fingerprint) = fingerprint else { bail!("hashing the weights of {path} failed") };
    let domain = domain(&model, &fingerprint, &tokenizer, executor.caps());
    let tokenizer = Arc::new(tokenizer);
    let executor = wrap(executor, &tokenizer);
    let worker = Arc::new(start_worker(config, executor, domain, clock)?);
    let window = worker.info().window;
    let asked = configured.and_then(|(_, entry)| entry.max_context);
    if asked.is_some_and(|tokens| tokens > window as usize) {
        tracing::warn!(
            window,
            max_context = asked,
            "the KV pool holds less than max_context; raise kv.pool"
        );
    }
    let (name, aliases) = match configured {
        Some((name, entry)) if !name.is_empty() => (name.as_str(), entry.aliases.clone()),
        _ => (model.name(), Vec::new()),
    };
    let info = ModelInfo {
        id: name.into(),
        aliases,
        context_window: window,
        created_s: clock.wall().0 / 1000,
    };
    Ok(Assembled {
        architecture: spec.architecture.clone(),
        quantisation: model.quantisation(),
        serving: Serving {
            model: info,
            grammars: GrammarFactory::new(Arc::clone(&tokenizer)),
            prompts: PromptBuilder::new(
                Arc::clone(&tokenizer),
                Arc::new(template),
                answers,
                PromptRules::from(&config.prompts),
            ),
            tokenizer,
            worker,
            domain,
            defaults: model.defaults().clone(),
        },
    })
}

/// What turns conversations into tokens and tokens into answers.
struct TextSide {
    tokenizer: Tokenizer,
    template: ChatTemplate,
    answers: AnswerFormat,
}

/// Tokenizer and template, from wherever this model keeps them; the template from a file of its own if
/// there is one, which must then be of use.
fn text_side(model: &Model, template_file: Option<&Path>) -> anyhow::Result<TextSide> {
    let (tokenizer, own_source) = if let Some(vocab) = model.gguf_vocab() {
        let tokenizer = Tokenizer::from_gguf(vocab)
            .with_context(|| format!("tokenizer of {}", model.name()))?;
        (tokenizer, vocab.chat_template.clone())
    } else if let Some(directory) = model.directory() {
        text_files(directory)?
    } else {
        (Tokenizer::bytes(), None)
    };
    let tokenizer = tokenizer.with_end_tokens(&model.defaults().eos_ids);
    let given = template_file
        .map(|path| {
            std::fs::read_to_string(path)
                .with_context(|| format!("cannot read the chat template {}", path.display()))
        })
        .transpose()?;
    let source = given.or(own_source);
    let has_token = |text: &str| tokenizer.special_id(text).is_some();
    let answers = AnswerFormat::detect(source.as_deref().unwrap_or_default(), has_token);
    let template = match source {
        Some(source) => {
            let bos = tokenizer.bos().and_then(|id| tokenizer.special_text(id));
            let eos = tokenizer.end_tokens().first().and_then(|id| tokenizer.special_text(*id));
            match (ChatTemplate::new(&source, bos, eos), template_file) {
                (Ok(template), Some(path)) => {
                    template
                        .try_out()
                        .with_context(|| format!("chat template {}", path.display()))?;
                    template
                }
                (Ok(template), None) => template,
                (Err(error), Some(path)) => {
                    return Err(error).with_context(|| format!("chat template {}", path.display()));
                }
                (Err(error), None) => {
                    tracing::warn!(%error, "falling back to ChatML");
                    ChatTemplate::chatml()
                }
            }
        }
        None => {
            tracing::info!("the model brings no chat template; using ChatML");
            ChatTemplate::chatml()
        }
    };
    Ok(TextSide { tokenizer, template, answers })
}

/// Reads `tokenizer.json` and, where present, `tokenizer_config.json` and `chat_template.jinja`.
fn text_files(directory: &Path) -> anyhow::Result<(Tokenizer, Option<String>)> {
    let path = directory.join("tokenizer.json");
    let bytes = std::fs::read(&path).with_context(|| {
        format!("cannot read {}; a safetensors model needs it beside the weights", path.display())
    })?;
    let tokenizer = Tokenizer::from_json(&bytes).with_context(|| path.display().to_string())?;
    let path = directory.join("tokenizer_config.json");
    let config = match std::fs::read(&path) {
        Ok(bytes) => {
            TokenizerConfig::from_json(&bytes).with_context(|| path.display().to_string())?
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => TokenizerConfig::default(),
        Err(error) => return Err(error).with_context(|| path.display().to_string()),
    };
    let template = std::fs::read_to_string(directory.join("chat_template.jinja")).ok();
    Ok((tokenizer.with_config(&config), template.or(config.chat_template)))
}

fn cpu_executor(config: &Config, model: &Model) -> anyhow::Result<CpuExecutor> {
    let isa = match config.cpu.isa {
        config::Isa::Auto => None,
        config::Isa::Avx512Vnni => Some(Isa::Avx512Vnni),
        config::Isa::Avx2 => Some(Isa::Avx2),
        config::Isa::Portable => Some(Isa::Portable),
    };
    if let Some(isa) = isa.filter(|isa| !isa.supported()) {
        bail!("cpu.isa = \"{isa}\": this CPU does not have it. Use \"auto\"");
    }
    let threads = match config.cpu.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from),
        threads => threads,
    };
    let kv_dtype = match config.kv.dtype {
        config::KvDtype::F32 => KvDtype::F32,
        config::KvDtype::F16 => KvDtype::F16,
        config::KvDtype::Bf16 => KvDtype::Bf16,
    };
    let executor = CpuExecutor::new(
        model,
        CpuConfig {
            threads,
            isa,
            kv_dtype,
            slots: pool_slots(config, model, kv_dtype)?,
            sampler_slots: u32::try_from(config.limits.running)?,
        },
    )?;
    Ok(executor)
}

/// Blocks of the pool: what is configured, else a share of the memory that the weights leave.
fn pool_slots(config: &Config, model: &Model, dtype: KvDtype) -> anyhow::Result<u32> {
    let spec = model.spec();
    let geometry = KvGeometry {
        layers: spec.layers.len(),
        kv_heads: spec.kv_heads,
        head_dim: spec.head_dim,
        dtype,
    };
    let block_bytes = geometry.block_bytes() as u64;
    let bytes = match config.kv.pool {
        Some(size) => size.0,
        None => {
            let available = memory::available_bytes()
                .context("cannot tell how much memory there is; set kv.pool, e.g. \"4GiB\"")?;
            available.saturating_sub(model.file_bytes()) / 100 * POOL_SHARE_PERCENT
        }
    };
    let slots = bytes / block_bytes;
    if slots < 2 {
        bail!(
            "a KV pool of {bytes} bytes holds {slots} blocks of {block_bytes} bytes; at least 2 \
             are needed. Raise kv.pool, or free memory"
        );
    }
    // More than a slot index can name is more than any machine has.
    Ok(u32::try_from(slots).unwrap_or(u32::MAX))
}

fn domain(model: &Model, weights: &[u8; 32], tokenizer: &Tokenizer, caps: &Caps) -> Domain {
    let spec = model.spec();
    let windows: Vec<_> = spec.layers.iter().map(|layer| layer.window).collect();
    let ropes: Vec<_> = spec.layers.iter().map(|layer| &layer.rope).collect();
    Domain::new(&DomainParts {
        weights,
        tokenizer: &tokenizer.fingerprint(),
        geometry: &format!(
            "layers={} kv_heads={} head_dim={} windows={windows:?}",
            spec.layers.len(),
            spec.kv_heads,
            spec.head_dim
        ),
        kv_dtype: caps.kv_dtype,
        rope: &format!("{:?} {ropes:?}", spec.rope_layout),
        numerics: &caps.numerics,
        scope: b"",
    })
}

fn start_worker(
    config: &Config,
    executor: impl Executor + 'static,
    domain: Domain,
    clock: &Arc<dyn Clock>,
) -> anyhow::Result<WorkerHandle> {
    let caps = executor.caps().clone();
    let limits = &config.limits;
    let worker = WorkerConfig {
        domain,
        rows_max: u32::try_from(limits.running)?,
        step_tokens_max: u32::try_from(limits.step_tokens)?,
        // The API bounds the requests; the worker counts each choice of them as a job.
        jobs_max: u32::try_from(limits.requests)?.saturating_mul(CHOICES_MAX),
        drafts_max: u32::try_from(config.speculation.max_drafts)?,
    };
    let handle = dynd_worker::spawn("worker-cpu0", executor, &worker, clock.clone())
        .context("cannot start the worker's thread")?;
    tracing::info!(
        device = %caps.device,
        kv_dtype = caps.kv_dtype,
        pool_blocks = caps.slots,
        pool_tokens = u64::from(caps.slots) * BLOCK_TOKENS as u64,
        block_bytes = caps.block_bytes,
        window = handle.info().window,
        "worker started"
    );
    Ok(handle)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_template_file_replaces_the_models_own_or_is_refused() {
        let directory = tempfile::tempdir().expect("a folder");
        let path = directory.path().join("template.jinja");
        let given = |source: &str| {
            std::fs::write(&path, source).expect("written");
            text_side(&Model::tiny(), Some(&path))
        };
        let own = text_side(&Model::tiny(), None).expect("the built-in model has no fault");
        assert_eq!(own.answers.tools.to_string(), "hermes");
        let coder =
            "{% for tool in tools %}<tool_call>\n<function={% endfor %}{{ messages[0].content }}";
        let coder = given(coder);
        assert_eq!(coder.expect("a template").answers.tools.to_string(), "qwen3-coder");
        let Err(broken) = given("{% for %}") else { panic!("no template") };
        assert!(broken.to_string().contains("template.jinja"), "{broken}");
        for useless in ["", "{{ 1 / 0 }}", "nothing of it"] {
            let Err(error) = given(useless) else { panic!("{useless:?} is of no use") };
            assert!(error.to_string().contains("template.jinja"), "{error}");
        }
        let missing = directory.path().join("missing.jinja");
        let Err(missing) = text_side(&Model::tiny(), Some(&missing)) else { panic!("no file") };
        assert!(missing.to_string().contains("missing.jinja"), "{missing}");
    }
}
