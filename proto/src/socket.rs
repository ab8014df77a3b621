//! Where the control socket is: one look-up for the daemon that binds it and the client that
//! connects to it.
//!
//! In order: the path a person gave; `$XDG_RUNTIME_DIR/dyn/control.sock`; `/run/dyn/control.sock`,
//! the service's; `control.sock` in a directory of the user's own under the system's temporary
//! directory. The daemon takes the first it may use, a client the first that exists. Neither binds
//! nor connects.

use std::fs::{self, DirBuilder, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Directory of the service's socket.
const SERVICE_DIR: &str = "/run/dyn";
const SOCKET_NAME: &str = "control.sock";
/// What `sockaddr_un` holds on Linux, without its terminating zero.
const PATH_BYTES_MAX: usize = 107;

#[derive(Debug, Error)]
pub enum SocketPathError {
    #[error(
        "control socket path {} has {length} bytes, {PATH_BYTES_MAX} are possible: \
         choose a shorter one with --control", path.display()
    )]
    TooLong { path: PathBuf, length: usize },
    #[error(
        "{} is not a directory of yours that only you can enter ({reason}): \
         remove it, or choose another place with --control", path.display()
    )]
    Unsafe { path: PathBuf, reason: &'static str },
    #[error(
        "cannot create {} for the control socket: {source}: \
         choose a writable place with --control", path.display()
    )]
    Create { path: PathBuf, source: io::Error },
}

/// Who may use a socket at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// Mode 0600.
    User,
    /// Mode 0660: the service's group may connect, as far as its peer check lets it.
    Service,
}

impl Owner {
    pub fn socket_mode(self) -> u32 {
        match self {
            Owner::User => 0o600,
            Owner::Service => 0o660,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SocketPath {
    pub path: PathBuf,
    pub owner: Owner,
}

/// What the look-up reads of the process.
#[derive(Debug, Clone)]
pub struct Environment {
    pub xdg_runtime_dir: Option<PathBuf>,
    /// Set by systemd for a service with a `RuntimeDirectory=`.
    pub runtime_directory: Option<PathBuf>,
    pub service_dir: PathBuf,
    pub temp_dir: PathBuf,
    pub uid: u32,
}

impl Environment {
    /// Reads the environment and the effective user id of this process.
    pub fn of_process() -> Self {
        let path = |name| std::env::var_os(name).map(PathBuf::from);
        // systemd separates several directories by colons; the first is ours.
        let runtime_directory = path("RUNTIME_DIRECTORY").and_then(|list| {
            let list = list.into_os_string().into_string().ok()?;
            list.split(':').next().map(PathBuf::from)
        });
        Environment {
            xdg_runtime_dir: path("XDG_RUNTIME_DIR"),
            runtime_directory,
            service_dir: SERVICE_DIR.into(),
            temp_dir: std::env::temp_dir(),
            uid: rustix::process::geteuid().as_raw(),
        }
    }

    /// The socket a client connects to: the first that exists, else the first there could be (for
    /// the error message). Changes nothing. A directory under the temporary one that is not safely
    /// the user's own is passed over.
    pub fn for_client(&self, explicit: Option<&Path>) -> SocketPath {
        if let Some(path) = explicit {
            return self.at(path.to_owned());
        }
        let mut candidates = self.candidates();
        let exists = |candidate: &SocketPath| {
            let is_safe = candidate.path.parent() != Some(&self.own_temp_dir())
                || self.check_own(&self.own_temp_dir()).is_ok();
            is_safe && candidate.path.exists()
        };
        let found = candidates.iter().position(exists).unwrap_or(0);
        candidates.swap_remove(found)
    }

    /// The socket the daemon binds. Creates its directory (0700, or 0755 for the service) if that
    /// is missing, and refuses a directory under the temporary one that others could have made.
    pub fn for_daemon(&self, explicit: Option<&Path>) -> Result<SocketPath, SocketPathError> {
        let chosen = match explicit {
            Some(path) => self.at(path.to_owned()),
            None => self.choose(),
        };
        let length = chosen.path.as_os_str().len();
        if length > PATH_BYTES_MAX {
            return Err(SocketPathError::TooLong { path: chosen.path, length });
        }
        let Some(dir) = chosen.path.parent().filter(|dir| !dir.as_os_str().is_empty()) else {
            return Ok(chosen);
        };
        let mode = match chosen.owner {
            Owner::User => 0o700,
            Owner::Service => 0o755,
        };
        if !dir.is_dir() {
            let created = DirBuilder::new().mode(mode).create(dir);
            if let Err(source) = created
                && source.kind() != io::ErrorKind::AlreadyExists
            {
                return Err(SocketPathError::Create { path: dir.to_owned(), source });
            }
        }
        if explicit.is_none() && dir == self.own_temp_dir() {
            self.check_own(dir)
                .map_err(|reason| SocketPathError::Unsafe { path: dir.to_owned(), reason })?;
        }
        Ok(chosen)
    }

    /// The first place this process may bind at.
    fn choose(&self) -> SocketPath {
        let is_service = self.uid == 0
            || self.runtime_directory.as_ref() == Some(&self.service_dir)
            || fs::metadata(&self.service_dir)
                .is_ok_and(|dir| dir.is_dir() && dir.uid() == self.uid);
        let wanted = |candidate: &SocketPath| candidate.owner == Owner::User || is_service;
        let own_temp = || self.at(self.own_temp_dir().join(SOCKET_NAME));
        self.candidates().into_iter().find(wanted).unwrap_or_else(own_temp)
    }

    fn candidates(&self) -> Vec<SocketPath> {
        let is_usable = |dir: &&PathBuf| {
            dir.is_absolute()
                && fs::metadata(dir).is_ok_and(|found| found.is_dir() && found.uid() == self.uid)
        };
        // A runtime directory that `su` or `sudo` left behind belongs to another user.
        let xdg = self.xdg_runtime_dir.as_ref().filter(is_usable).map(|dir| dir.join("dyn"));
        [xdg, Some(self.service_dir.clone()), Some(self.own_temp_dir())]
            .into_iter()
            .flatten()
            .map(|dir| self.at(dir.join(SOCKET_NAME)))
            .collect()
    }

    fn at(&self, path: PathBuf) -> SocketPath {
        let is_service = path.parent() == Some(&self.service_dir);
        SocketPath { path, owner: if is_service { Owner::Service } else { Owner::User } }
    }

    fn own_temp_dir(&self) -> PathBuf {
        self.temp_dir.join(format!("dyn-{}", self.uid))
    }

    /// Anyone may create a name in the temporary directory, so a directory there counts only when
    /// it is a real one, ours, and closed to others.
    fn check_own(&self, dir: &Path) -> Result<(), &'static str> {
        let found: Metadata = fs::symlink_metadata(dir).map_err(|_| "it cannot be read")?;
        if !found.is_dir() {
            return Err("it is not a directory");
        }
        if found.uid() != self.uid {
            return Err("it belongs to another user");
        }
        if found.permissions().mode() & 0o077 != 0 {
            return Err("other users can enter it");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Places {
        _root: tempfile::TempDir,
        env: Environment,
    }

    /// A machine with a temporary directory and nothing else; `uid` is this process's own.
    fn places() -> Places {
        let root = tempfile::tempdir().unwrap();
        let temp_dir = root.path().join("tmp");
        fs::create_dir(&temp_dir).unwrap();
        let uid = fs::metadata(&temp_dir).unwrap().uid();
        let env = Environment {
            xdg_runtime_dir: None,
            runtime_directory: None,
            service_dir: root.path().join("run-dyn"),
            temp_dir,
            uid,
        };
        Places { _root: root, env }
    }

    fn touch(path: &Path) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }

    #[test]
    fn an_explicit_path_wins_in_both() {
        let Places { _root, mut env } = places();
        env.xdg_runtime_dir = Some(env.temp_dir.clone());
        let explicit = env.temp_dir.join("own/c.sock");
        assert_eq!(env.for_client(Some(&explicit)).path, explicit);
        let daemon = env.for_daemon(Some(&explicit)).unwrap();
        assert_eq!(daemon, SocketPath { path: explicit, owner: Owner::User });
        let made = fs::metadata(env.temp_dir.join("own")).unwrap();
        assert_eq!(made.permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_runtime_directory_comes_first_if_it_is_ours() {
        let Places { _root, mut env } = places();
        let xdg = env.temp_dir.join("xdg");
        env.xdg_runtime_dir = Some(xdg.clone());
        assert!(!env.for_daemon(None).unwrap().path.starts_with(&xdg), "it does not exist");
        fs::create_dir(&xdg).unwrap();
        assert_eq!(env.for_daemon(None).unwrap().path, xdg.join("dyn/control.sock"));
        assert_eq!(env.for_client(None).path, xdg.join("dyn/control.sock"));
        let other = Environment { uid: env.uid + 1, ..env };
        assert!(!other.for_client(None).path.starts_with(&xdg), "left behind by another user");
    }

    #[test]
    fn the_service_uses_its_own_directory_and_mode() {
        let Places { _root, env } = places();
        let path = env.service_dir.join("control.sock");
        let service = Environment {
            uid: env.uid,
            runtime_directory: Some(env.service_dir.clone()),
            ..env.clone()
        };
        let expected = SocketPath { path, owner: Owner::Service };
        assert_eq!(service.for_daemon(None).unwrap(), expected);
        assert_eq!(expected.owner.socket_mode(), 0o660);
        assert_eq!(Environment { uid: 0, ..env }.for_daemon(None).unwrap(), expected);
    }

    #[test]
    fn a_user_without_a_runtime_directory_gets_a_private_one() {
        let Places { _root, env } = places();
        let env = Environment { service_dir: "/nonexistent/dyn".into(), ..env };
        let other = Environment { uid: env.uid + 1, ..env.clone() };
        let expected = other.own_temp_dir().join("control.sock");
        assert_eq!(other.choose(), SocketPath { path: expected, owner: Owner::User });
        let own = env.own_temp_dir();
        fs::create_dir(&own).unwrap();
        fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(env.check_own(&own), Ok(()));
        fs::set_permissions(&own, fs::Permissions::from_mode(0o750)).unwrap();
        assert_eq!(env.check_own(&own), Err("other users can enter it"));
        assert_eq!(other.check_own(&own), Err("it belongs to another user"));
        let link = env.temp_dir.join("link");
        symlink(&own, &link).unwrap();
        assert_eq!(env.check_own(&link), Err("it is not a directory"));
    }

    #[test]
    fn a_client_takes_the_first_socket_that_exists() {
        let Places { _root, mut env } = places();
        let xdg = env.temp_dir.join("xdg");
        fs::create_dir(&xdg).unwrap();
        env.xdg_runtime_dir = Some(xdg.clone());
        let own = env.own_temp_dir().join("control.sock");
        touch(&own);
        fs::set_permissions(env.own_temp_dir(), fs::Permissions::from_mode(0o777)).unwrap();
        assert_ne!(env.for_client(None).path, own, "anyone could have put it there");
        fs::set_permissions(env.own_temp_dir(), fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(env.for_client(None).path, own);
        let service = env.service_dir.join("control.sock");
        touch(&service);
        assert_eq!(env.for_client(None).path, service);
        touch(&xdg.join("dyn/control.sock"));
        assert_eq!(env.for_client(None).path, xdg.join("dyn/control.sock"));
    }

    #[test]
    fn a_path_the_kernel_cannot_hold_is_refused_with_the_fix() {
        let Places { _root, env } = places();
        let long = env.temp_dir.join("x".repeat(108));
        let error = env.for_daemon(Some(&long)).unwrap_err().to_string();
        assert!(error.contains("--control"), "{error}");
    }
}
