//! Where things lie: config files, and the state and cache directories of a user or a service.

use std::path::{Path, PathBuf};

use directories::ProjectDirs;

use super::ConfigError;

const SYSTEM_CONFIG: &str = "/etc/dyn/dynd.toml";

/// Config files in the order in which they are read, later ones winning. A file that was asked for
/// is listed even when it does not exist, so that reading it reports that.
pub(super) fn config_files(asked_for: Option<&Path>) -> Vec<PathBuf> {
    let user = ProjectDirs::from("", "", "dyn").map(|dirs| dirs.config_dir().join("dynd.toml"));
    let main = match asked_for {
        Some(path) => Some(path.to_owned()),
        None => [Some(PathBuf::from(SYSTEM_CONFIG)), user]
            .into_iter()
            .flatten()
            .find(|path| path.exists()),
    };
    let Some(main) = main else { return Vec::new() };
    let mut parts: Vec<PathBuf> = main
        .with_extension("toml.d")
        .read_dir()
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    parts.sort();
    let mut files = vec![main];
    files.append(&mut parts);
    files
}

/// The daemon's two directories: `state` is durable, `cache` is disposable.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Directories {
    pub state: PathBuf,
    pub cache: PathBuf,
}

impl Directories {
    /// Configured paths, else systemd's (`STATE_DIRECTORY`, `CACHE_DIRECTORY`), else the user's.
    /// Creates nothing.
    pub fn find(
        server: &super::Server,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Self, ConfigError> {
        let user = ProjectDirs::from("", "", "dyn");
        let pick =
            |configured: &Option<PathBuf>, variable: &str, user: Option<PathBuf>, flag: &str| {
                configured
                    .clone()
                    // systemd separates several directories by colons; the first is ours.
                    .or_else(|| Some(environment(variable)?.split(':').next()?.into()))
                    .or(user)
                    .ok_or_else(|| {
                        ConfigError::Invalid(format!(
                            "no home directory to put files under; set {flag} or {variable}"
                        ))
                    })
            };
        Ok(Directories {
            state: pick(
                &server.state_dir,
                "STATE_DIRECTORY",
                user.as_ref().map(|dirs| {
                    dirs.state_dir().unwrap_or_else(|| dirs.data_local_dir()).to_owned()
                }),
                "--state-dir",
            )?,
            cache: pick(
                &server.cache_dir,
                "CACHE_DIRECTORY",
                user.as_ref().map(|dirs| dirs.cache_dir().to_owned()),
                "--cache-dir",
            )?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Server;

    #[test]
    fn configured_wins_over_systemd_over_user() {
        let systemd = |name: &str| (name == "STATE_DIRECTORY").then(|| "sys:other".to_owned());
        let mut server = Server::default();
        assert_eq!(Directories::find(&server, systemd).expect("found").state, Path::new("sys"));
        server.state_dir = Some("mine".into());
        assert_eq!(Directories::find(&server, systemd).expect("found").state, Path::new("mine"));
    }

    #[test]
    fn drop_in_files_follow_the_main_file_in_order() {
        let directory = tempfile::tempdir().expect("temporary directory");
        let main = directory.path().join("dynd.toml");
        let parts = directory.path().join("dynd.toml.d");
        std::fs::create_dir(&parts).expect("create");
        for name in ["20-b.toml", "10-a.toml", "ignored.txt"] {
            std::fs::write(parts.join(name), "").expect("write");
        }
        let files = config_files(Some(&main));
        assert_eq!(files, [main, parts.join("10-a.toml"), parts.join("20-b.toml")]);
    }
}
