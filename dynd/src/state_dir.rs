//! The daemon's directories on disk: created, checked, and held by one daemon at a time.

use std::fs::{self, File};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};

use crate::config::Directories;

/// Proof that this process owns the state directory; released when dropped or killed.
#[derive(Debug)]
pub struct StateDir {
    path: PathBuf,
    _lock: File,
}

impl StateDir {
    /// Creates both directories where missing (mode 0700), checks that files can be written, and
    /// takes the lock of the state directory.
    pub fn open(directories: &Directories) -> anyhow::Result<Self> {
        for (path, flag) in
            [(&directories.state, "--state-dir"), (&directories.cache, "--cache-dir")]
        {
            create_writable(path).with_context(|| {
                format!(
                    "cannot write to {}. Make it writable for this user or choose another \
                     directory with {flag}",
                    path.display()
                )
            })?;
        }
        let path = directories.state.clone();
        let lock = File::create(path.join("lock"))
            .with_context(|| format!("cannot create {}", path.join("lock").display()))?;
        match flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(StateDir { path, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => bail!(
                "another dynd uses the state directory {}. Stop it, or give this one its own \
                 with --state-dir",
                path.display()
            ),
            Err(error) => Err(io::Error::from(error))
                .with_context(|| format!("cannot lock {}", path.join("lock").display())),
        }
    }

    /// The secret with which texts are signed and sealed that clients carry back: the one kept
    /// here, else `fresh`, which is kept from now on. It outlives the process, since an agent may
    /// resume a session days later.
    pub fn sealing_key(&self, fresh: [u8; 32]) -> anyhow::Result<[u8; 32]> {
        let file = self.path.join("sealing-key");
        let told = || format!("cannot keep {}", file.display());
        match fs::read(&file) {
            Ok(bytes) => {
                if let Ok(key) = bytes.try_into() {
                    return Ok(key);
                }
                tracing::warn!(file = %file.display(), "not a key of 32 bytes; making a new one");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(told),
        }
        let temporary = self.path.join("sealing-key.new");
        let mut options = fs::OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        let mut new = options.open(&temporary).with_context(told)?;
        new.write_all(&fresh).and_then(|()| new.sync_all()).with_context(told)?;
        fs::rename(&temporary, &file).with_context(told)?;
        Ok(fresh)
    }

    /// Publishes the bound address in the file `address`, whole or not at all.
    pub fn publish_address(&self, address: SocketAddr) -> anyhow::Result<()> {
        let (file, temporary) = (self.path.join("address"), self.path.join("address.new"));
        fs::write(&temporary, format!("{address}\n"))
            .and_then(|()| fs::rename(&temporary, &file))
            .with_context(|| format!("cannot write {}", file.display()))
    }
}

impl Drop for StateDir {
    fn drop(&mut self) {
        // A leftover file would send clients to a port that is someone else's by then. Nothing can
        // be done if this fails.
        let _ = fs::remove_file(self.path.join("address"));
    }
}

fn create_writable(path: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    let probe = path.join(".write-test");
    fs::write(&probe, b"")?;
    fs::remove_file(&probe)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directories(root: &Path) -> Directories {
        Directories { state: root.join("state"), cache: root.join("cache") }
    }

    #[test]
    fn the_sealing_key_outlives_the_daemon_and_is_nobody_elses() {
        use std::os::unix::fs::PermissionsExt;

        let root = tempfile::tempdir().expect("a directory");
        let directories = directories(root.path());
        let key = |fresh| StateDir::open(&directories)?.sealing_key(fresh);
        assert_eq!(key([1; 32]).expect("kept"), [1; 32]);
        assert_eq!(key([2; 32]).expect("kept"), [1; 32]);
        let file = directories.state.join("sealing-key");
        let mode = fs::metadata(&file).expect("there").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        fs::write(&file, b"torn").expect("written");
        assert_eq!(key([3; 32]).expect("replaced"), [3; 32]);
    }

    #[test]
    fn one_daemon_per_state_directory() {
        let root = tempfile::tempdir().expect("temporary directory");
        let first = StateDir::open(&directories(root.path())).expect("first");
        let error = StateDir::open(&directories(root.path())).expect_err("second").to_string();
        assert!(error.contains("another dynd") && error.contains("--state-dir"), "{error}");
        drop(first);
        StateDir::open(&directories(root.path())).expect("free again");
    }

    #[test]
    fn a_file_in_the_way_is_named_with_the_fix() {
        let root = tempfile::tempdir().expect("temporary directory");
        fs::write(root.path().join("cache"), b"").expect("write");
        let error = StateDir::open(&directories(root.path())).expect_err("a file in the way");
        let message = format!("{error:#}");
        assert!(message.contains("cache") && message.contains("--cache-dir"), "{message}");
    }

    #[test]
    fn the_address_is_gone_after_a_stop() {
        let root = tempfile::tempdir().expect("temporary directory");
        let state = StateDir::open(&directories(root.path())).expect("open");
        state.publish_address(SocketAddr::from(([127, 0, 0, 1], 9))).expect("publish");
        let file = root.path().join("state/address");
        assert_eq!(fs::read_to_string(&file).expect("read"), "127.0.0.1:9\n");
        drop(state);
        assert!(!file.exists());
    }
}
