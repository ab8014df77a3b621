//! Joins defaults, files, environment and flags into one [`Config`], and says which layer is wrong.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::{Table, Value};

use super::{Config, ModelEntry, paths};
use crate::cli::Args;

#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read config file {}: {source}. Check the path and its permissions", path.display())]
    Read { path: PathBuf, source: std::io::Error },
    /// `message` holds line and column.
    #[error("config file {}: {message}", path.display())]
    File { path: PathBuf, message: String },
    #[error("environment variable {name}: {message}")]
    Environment { name: String, message: String },
    #[error("{0}")]
    Invalid(String),
}

/// Reads all layers. `environment` is the process's variables, passed in so that tests need none.
pub fn load(
    args: &Args,
    environment: impl Iterator<Item = (String, String)>,
) -> Result<Config, ConfigError> {
    let mut merged = Table::new();
    for path in paths::config_files(args.config.as_deref()) {
        merge(&mut merged, read_file(&path)?);
    }
    for (name, value) in environment {
        if let Some(layer) = environment_layer(&name, &value)? {
            merge(&mut merged, layer);
        }
    }
    let mut config: Config = merged
        .try_into()
        .map_err(|error: toml::de::Error| ConfigError::Invalid(explain(error.message())))?;
    apply_flags(&mut config, args);
    validate(&config)?;
    Ok(config)
}

fn read_file(path: &Path) -> Result<Table, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let problem = |error: &toml::de::Error| {
        let place = error.span().map(|span| position(&text, span.start));
        let place = place.map(|(line, column)| format!("line {line}, column {column}: "));
        ConfigError::File {
            path: path.to_owned(),
            message: place.unwrap_or_default() + &explain(error.message()),
        }
    };
    // Each file is valid on its own, so that an error points into the file that has it.
    toml::from_str::<Config>(&text).map_err(|error| problem(&error))?;
    toml::from_str::<Table>(&text).map_err(|error| problem(&error))
}

/// `DYND_TABLE__KEY=value` as a table of one key; `None` for other variables.
fn environment_layer(name: &str, value: &str) -> Result<Option<Table>, ConfigError> {
    let Some(path) = name.strip_prefix("DYND_") else { return Ok(None) };
    let Some((table, key)) = path.split_once("__") else { return Ok(None) };
    let problem = |message: String| ConfigError::Environment { name: name.to_owned(), message };
    // Numbers, booleans and lists read as in TOML; anything else is a string.
    let parsed = toml::from_str::<Table>(&format!("value = {value}"))
        .ok()
        .and_then(|mut table| table.remove("value"))
        .filter(|value| !matches!(value, Value::Table(_) | Value::Datetime(_)));
    let value = parsed.unwrap_or_else(|| Value::String(value.to_owned()));
    let mut inner = Table::new();
    inner.insert(key.to_lowercase(), value);
    let mut layer = Table::new();
    layer.insert(table.to_lowercase(), Value::Table(inner));
    Config::deserialize(layer.clone()).map_err(|error| problem(explain(error.message())))?;
    Ok(Some(layer))
}

/// Deep merge: `over` wins key by key, tables are joined.
fn merge(under: &mut Table, over: Table) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Value::Table(below)), Value::Table(above)) => merge(below, above),
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

fn apply_flags(config: &mut Config, args: &Args) {
    let server = &mut config.server;
    if let Some(listen) = args.listen {
        server.listen = listen;
    }
    for (flag, key) in [
        (&args.control, &mut server.control),
        (&args.state_dir, &mut server.state_dir),
        (&args.cache_dir, &mut server.cache_dir),
    ] {
        if flag.is_some() {
            key.clone_from(flag);
        }
    }
    server.insecure_no_auth |= args.insecure_no_auth;
    if let Some(path) = &args.model {
        config.models.clear();
        config
            .models
            .insert(String::new(), ModelEntry { path: path.clone(), ..ModelEntry::default() });
    }
    if args.max_context.is_some() {
        if config.models.is_empty() {
            let path = super::BUILTIN.to_owned();
            config.models.insert(String::new(), ModelEntry { path, ..ModelEntry::default() });
        }
        for entry in config.models.values_mut() {
            entry.max_context = args.max_context;
        }
    }
}

/// The events of two steps fit the channel to a reader.
const DRAFTS_MAX: usize = 31;

fn validate(config: &Config) -> Result<(), ConfigError> {
    let invalid = |message: String| Err(ConfigError::Invalid(message));
    let server = &config.server;
    if !server.listen.ip().is_loopback() && !server.insecure_no_auth {
        return invalid(format!(
            "refusing to listen on {}: it is reachable from other machines and this version has \
             no keys or TLS. Listen on 127.0.0.1, or pass --insecure-no-auth if the network is \
             trusted",
            server.listen
        ));
    }
    if config.models.len() > 1 {
        let names: Vec<_> = config.models.keys().map(String::as_str).collect();
        return invalid(format!(
            "this version serves one model per daemon, the configuration names {}: {}. Remove \
             the others or run one dynd for each",
            names.len(),
            names.join(", ")
        ));
    }
    for (name, entry) in &config.models {
        if let Err(why) = entry.check() {
            return invalid(match name.as_str() {
                "" => why,
                name => format!("models.{name}: {why}"),
            });
        }
    }
    if config.speculation.max_drafts > DRAFTS_MAX {
        let drafts = config.speculation.max_drafts;
        return invalid(format!(
            "speculation.max_drafts is {drafts}; it must be at most {DRAFTS_MAX}"
        ));
    }
    let limits = &config.limits;
    for (name, value, most) in [
        ("limits.requests", limits.requests, 65_536),
        ("limits.running", limits.running, 4_096),
        ("limits.step_tokens", limits.step_tokens, 1 << 20),
        ("sessions.max", config.sessions.max, 10_000_000),
        ("cpu.threads", config.cpu.threads.max(1), 4_096),
    ] {
        if !(1..=most).contains(&value) {
            return invalid(format!("{name} is {value}; it must be between 1 and {most}"));
        }
    }
    Ok(())
}

fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = &text[..text.floor_char_boundary(offset)];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    (line, column)
}

/// Adds "did you mean" to serde's `unknown field` message, which lists the known names.
fn explain(message: &str) -> String {
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let suggestion = message
        .starts_with("unknown field")
        .then(|| {
            let (wrong, known) = quoted.split_first()?;
            known.iter().copied().min_by_key(|name| edit_distance(wrong, name)).filter(|name| {
                edit_distance(wrong, name) <= 2
                    || name.starts_with(wrong)
                    || wrong.starts_with(name)
            })
        })
        .flatten();
    match suggestion {
        Some(name) => format!("{message}; did you mean `{name}`?"),
        None => message.to_owned(),
    }
}

/// Levenshtein distance.
fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &cb) in b.iter().enumerate() {
            let substitute = diagonal + usize::from(ca != cb);
            diagonal = row[j + 1];
            row[j + 1] = substitute.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use dynd_engine::model::RopeScaling;

    use super::*;
    use crate::config::KvDtype;
    use clap::Parser;
    use dynd_core::ByteSize;

    fn args(extra: &[&str]) -> Args {
        Args::parse_from(["dynd"].iter().chain(extra))
    }

    fn from_file(
        text: &str,
        extra: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Config, String> {
        let directory = tempfile::tempdir().expect("temporary directory");
        let path = directory.path().join("dynd.toml");
        std::fs::write(&path, text).expect("write config");
        let mut args = args(extra);
        args.config = Some(path);
        let environment = environment.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        load(&args, environment).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_win_over_environment_over_file() {
        let file = "[server]\nlisten = '127.0.0.1:1'\n[limits]\nrunning = 1\n[kv]\ndtype = 'f32'";
        let environment = [("DYND_LIMITS__RUNNING", "2"), ("DYND_SERVER__LISTEN", "127.0.0.1:2")];
        let config = from_file(file, &["--listen", "127.0.0.1:3"], &environment).expect("valid");
        assert_eq!(config.server.listen.port(), 3);
        assert_eq!(config.limits.running, 2);
        assert_eq!(config.kv.dtype, KvDtype::F32);
        assert_eq!(config.limits.requests, 256, "the default stays");
    }

    #[test]
    fn environment_values_are_typed() {
        let config = from_file(
            "",
            &[],
            &[("DYND_KV__POOL", "8GiB"), ("DYND_SERVER__STRICT_MODELS", "true")],
        )
        .expect("valid");
        assert_eq!(config.kv.pool, Some(ByteSize(8 << 30)));
        assert!(config.server.strict_models);
        let bytes = from_file("", &[], &[("DYND_KV__POOL", "163840")]).expect("valid");
        assert_eq!(bytes.kv.pool, Some(ByteSize(163_840)));
    }

    #[test]
    fn unknown_keys_say_where_and_what_was_meant() {
        let error = from_file("[server]\nlissen = 1", &[], &[]).expect_err("unknown key");
        assert!(error.contains("line 2, column 1"), "{error}");
        assert!(error.contains("did you mean `listen`?"), "{error}");
        let error = from_file("", &[], &[("DYND_KV__DTYP", "f32")]).expect_err("unknown key");
        assert!(error.contains("DYND_KV__DTYP") && error.contains("`dtype`?"), "{error}");
    }

    #[test]
    fn broken_toml_says_where() {
        let error = from_file("[server]\nlisten = ", &[], &[]).expect_err("broken");
        assert!(error.contains("line 2"), "{error}");
    }

    #[test]
    fn other_machines_are_refused_unless_told() {
        let error = from_file("", &["--listen", "0.0.0.0:80"], &[]).expect_err("refused");
        assert!(error.contains("--insecure-no-auth"), "{error}");
        let allowed = from_file("", &["--listen", "0.0.0.0:80", "--insecure-no-auth"], &[]);
        assert!(allowed.is_ok());
    }

    #[test]
    fn a_missing_file_that_was_asked_for_is_an_error() {
        let mut args = args(&[]);
        args.config = Some("does-not-exist.toml".into());
        let error = load(&args, std::iter::empty()).expect_err("missing").to_string();
        assert!(error.contains("does-not-exist.toml"), "{error}");
    }

    #[test]
    fn limits_without_meaning_are_refused_by_name() {
        for (table, key) in [("limits", "running"), ("limits", "requests"), ("sessions", "max")] {
            for value in ["0", "99999999999"] {
                let file = format!("[{table}]\n{key} = {value}");
                let error = from_file(&file, &[], &[]).expect_err("no such limit");
                assert!(error.contains(&format!("{table}.{key}")), "{error}");
            }
        }
    }

    #[test]
    fn a_model_can_be_set_otherwise_than_its_files_say() {
        let file = "[models.a]\npath = 'a.gguf'\nmax_context = 1000\n\
            rope = { scaling = 'yarn', factor = 4, original_context = 32768 }\n\
            sampling = { temperature = 0.5 }";
        let config = from_file(file, &["--max-context", "2000"], &[]).expect("valid");
        let adjustments = config.models["a"].adjustments().expect("whole");
        assert_eq!(adjustments.max_context, Some(2000), "the flag wins");
        assert_eq!(adjustments.sampling.temperature, Some(0.5));
        let Some(RopeScaling::Yarn { factor, original_context, .. }) = adjustments.rope_scaling
        else {
            panic!("{adjustments:?}")
        };
        assert_eq!((factor, original_context), (4.0, 32768));
        let alone = from_file("", &["--max-context", "64"], &[]).expect("valid");
        assert_eq!(alone.models[""].max_context, Some(64), "of the built-in model");
        for (rope, missing) in [
            ("scaling = 'yarn', factor = 4", "rope.original_context"),
            ("scaling = 'linear'", "rope.factor"),
            ("factor = 4", "rope.scaling"),
            ("scaling = 'linear', factor = 2, beta_fast = 3", "rope.beta_fast"),
            ("scaling = 'none', factor = 2", "rope.factor"),
            ("scaling = 'linear', factor = 0", "rope.factor is 0"),
            ("scaling = 'linear', factor = nan", "rope.factor is NaN"),
            ("scaling = 'yarn', factor = 2, original_context = 0", "rope.original_context is 0"),
            ("scaling = 'yarn', factor = 2, original_context = 64, beta_fast = 1", "beta_slow"),
            ("base = 1e300", "rope.base is inf"),
        ] {
            let file = format!("[models.a]\npath = 'a.gguf'\nrope = {{ {rope} }}");
            let error = from_file(&file, &[], &[]).expect_err("not whole");
            assert!(error.contains("models.a") && error.contains(missing), "{error}");
        }
    }

    #[test]
    fn settings_that_no_model_can_have_are_refused_before_it_is_looked_at() {
        for (setting, part) in [
            ("max_context = 1", "at least 2"),
            ("tool_format = 'xx'", "\"xx\""),
            ("reasoning_format = 'xx'", "\"xx\""),
            ("aliases = ['']", "alias"),
            ("sampling = { temperature = -1 }", "sampling.temperature is -1"),
            ("sampling = { top_p = 1.5 }", "sampling.top_p is 1.5"),
        ] {
            let file = format!("[models.a]\npath = 'a.gguf'\n{setting}");
            let error = from_file(&file, &[], &[]).expect_err("nonsense");
            assert!(error.contains("models.a: ") && error.contains(part), "{error}");
        }
        let error = from_file("", &["--max-context", "0"], &[]).expect_err("no room");
        assert!(error.contains("max_context is 0"), "{error}");
    }

    #[test]
    fn two_models_are_refused() {
        let file = "[models.a]\npath = 'a.gguf'\n[models.b]\npath = 'b.gguf'";
        let error = from_file(file, &[], &[]).expect_err("two models");
        assert!(error.contains("a, b"), "{error}");
    }
}
