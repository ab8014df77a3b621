//! Binds the control socket: takes over one that a dead daemon left, never one that is alive, and
//! never touches a file that is not a socket.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use dynd_proto::socket::SocketPath;

use super::ControlError;

/// A bound control socket. Removes its file when dropped.
#[derive(Debug)]
pub struct ControlListener {
    socket: UnixListener,
    guard: SocketGuard,
}

/// Removes the socket while the lock is still held, so that no other daemon's is hit.
#[derive(Debug)]
pub(super) struct SocketGuard {
    path: PathBuf,
    _lock: File,
}

impl ControlListener {
    /// Binds at `at`, whose directory must exist. Holds `<path>.lock` locked for its life: of two
    /// daemons that start at the same time only one finds the socket stale.
    pub fn bind(at: &SocketPath) -> Result<Self, ControlError> {
        let path = &at.path;
        let failed = |source| ControlError::Bind { path: path.clone(), source };
        check_free(path)?;
        let lock = lock_beside(path)?;
        // Whoever held the lock until now may have bound in between.
        if check_free(path)? == Found::Stale {
            fs::remove_file(path).map_err(failed)?;
        }
        let socket = UnixListener::bind(path).map_err(failed)?;
        let guard = SocketGuard { path: path.clone(), _lock: lock };
        fs::set_permissions(path, Permissions::from_mode(at.owner.socket_mode()))
            .map_err(failed)?;
        socket.set_nonblocking(true).map_err(failed)?;
        Ok(ControlListener { socket, guard })
    }

    pub fn path(&self) -> &Path {
        &self.guard.path
    }

    pub(super) fn into_parts(self) -> (UnixListener, SocketGuard) {
        (self.socket, self.guard)
    }
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(path = %self.path.display(), %error, "control socket not removed");
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Found {
    Nothing,
    Stale,
}

/// What is at `path`; an error when it is alive or no socket.
fn check_free(path: &Path) -> Result<Found, ControlError> {
    let failed = |source| ControlError::Bind { path: path.to_owned(), source };
    let found = match fs::symlink_metadata(path) {
        Ok(found) => found,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Found::Nothing),
        Err(error) => return Err(failed(error)),
    };
    if !found.file_type().is_socket() {
        return Err(ControlError::NotASocket { path: path.to_owned() });
    }
    match UnixStream::connect(path) {
        Ok(_) => Err(ControlError::AlreadyRunning { path: path.to_owned() }),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(Found::Stale),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Nothing),
        Err(error) => Err(failed(error)),
    }
}

fn lock_beside(path: &Path) -> Result<File, ControlError> {
    let mut lock_path = path.as_os_str().to_owned();
    lock_path.push(".lock");
    let failed = |source| ControlError::Bind { path: path.to_owned(), source };
    let lock = File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&lock_path)
        .map_err(failed)?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => {
            Err(ControlError::AlreadyRunning { path: path.to_owned() })
        }
        Err(fs::TryLockError::Error(source)) => Err(failed(source)),
    }
}
