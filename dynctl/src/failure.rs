//! What can go wrong, how it is told, and the one place where it becomes an exit status.

use std::io;
use std::path::Path;

use tonic::{Code, Status};

/// The exit status of a check that answered, and found something wrong.
pub(crate) const PROBLEMS_FOUND: u8 = 9;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Failed,
    Usage,
    NotFound,
    Permission,
    Unreachable,
    Timeout,
    Interrupted,
}

impl Kind {
    pub(crate) fn exit_status(self) -> u8 {
        match self {
            Kind::Failed => 1,
            Kind::Usage => 2,
            Kind::NotFound => 3,
            Kind::Permission => 4,
            Kind::Unreachable => 5,
            Kind::Timeout => 7,
            Kind::Interrupted => 130,
        }
    }

    /// Stable name, for scripts.
    pub(crate) fn code(self) -> &'static str {
        match self {
            Kind::Failed => "failed",
            Kind::Usage => "usage",
            Kind::NotFound => "not_found",
            Kind::Permission => "permission_denied",
            Kind::Unreachable => "daemon_unreachable",
            Kind::Timeout => "timeout",
            Kind::Interrupted => "interrupted",
        }
    }
}

/// What, why and how to fix it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: Kind,
    pub(crate) what: String,
    pub(crate) why: Option<String>,
    pub(crate) fix: Option<String>,
}

impl Failure {
    pub(crate) fn new(kind: Kind, what: impl Into<String>) -> Self {
        Failure { kind, what: what.into(), why: None, fix: None }
    }

    pub(crate) fn why(mut self, why: impl Into<String>) -> Self {
        self.why = Some(why.into()).filter(|why| !why.is_empty());
        self
    }

    pub(crate) fn fix(mut self, fix: impl Into<String>) -> Self {
        self.fix = Some(fix.into()).filter(|fix| !fix.is_empty());
        self
    }

    /// Standard output cannot be written.
    pub(crate) fn output(error: &io::Error) -> Self {
        Failure::new(Kind::Failed, "cannot write the answer")
            .why(error.to_string())
            .fix("check where standard output goes: a full disk, a closed file?")
    }

    /// The socket does not let us in.
    pub(crate) fn connect(socket: &Path, error: &io::Error) -> Self {
        let what = format!("cannot reach dynd at {}", socket.display());
        let start = "start it with `dynd --model builtin:tiny` (or `systemctl start dynd`), \
                     or name the socket of a running one with --control SOCKET";
        match error.kind() {
            io::ErrorKind::PermissionDenied => Failure::new(Kind::Permission, what)
                .why("you may not use this socket")
                .fix("run dynctl as the user that runs dynd, or as root"),
            io::ErrorKind::NotFound => Failure::new(Kind::Unreachable, what)
                .why("there is no such socket: dynd is not running, or uses another one")
                .fix(start),
            io::ErrorKind::ConnectionRefused => Failure::new(Kind::Unreachable, what)
                .why("nobody listens there: dynd has stopped without removing its socket")
                .fix(start),
            _ => Failure::new(Kind::Unreachable, what).why(error.to_string()).fix(start),
        }
    }

    /// The daemon, or the connection to it, refused a call.
    pub(crate) fn call(status: &Status) -> Self {
        let message = status.message();
        match status.code() {
            Code::NotFound => Failure::new(Kind::NotFound, message)
                .fix("see `dynctl session ls` for the sessions there are"),
            Code::InvalidArgument => Failure::new(Kind::Usage, message)
                .fix("give more of the id; see `dynctl session ls`"),
            Code::FailedPrecondition => Failure::new(Kind::Failed, message).fix(
                "set sessions.show_text = true in its configuration and start it again, or leave \
                 --show-text out",
            ),
            Code::PermissionDenied => Failure::new(Kind::Permission, message)
                .fix("run dynctl as the user that runs dynd, or as root"),
            Code::Unavailable | Code::Cancelled => {
                Failure::new(Kind::Unreachable, "dynd closed the connection")
                    .why(message)
                    .fix("it may be stopping: try again, or look into its log")
            }
            Code::DeadlineExceeded => Failure::new(Kind::Timeout, message),
            Code::Unimplemented => Failure::new(Kind::Failed, "dynd does not know this question")
                .why("it is an older version than this dynctl")
                .fix("see `dynctl version`"),
            _ => Failure::new(Kind::Failed, "dynd did not answer as expected")
                .why(message)
                .fix("is this the control socket of a dynd? See `dynctl version`"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_refusal_has_its_exit_status_and_a_fix() {
        for (code, exit_status) in [
            (Code::NotFound, 3),
            (Code::InvalidArgument, 2),
            (Code::FailedPrecondition, 1),
            (Code::PermissionDenied, 4),
            (Code::Unavailable, 5),
            (Code::Unimplemented, 1),
            (Code::Internal, 1),
        ] {
            let failure = Failure::call(&Status::new(code, "m"));
            assert_eq!(failure.kind.exit_status(), exit_status, "{code:?}");
            assert!(failure.fix.is_some(), "{code:?}");
        }
        for (kind, exit_status) in [
            (io::ErrorKind::NotFound, 5),
            (io::ErrorKind::ConnectionRefused, 5),
            (io::ErrorKind::PermissionDenied, 4),
            (io::ErrorKind::Other, 5),
        ] {
            let failure = Failure::connect(Path::new("/s"), &kind.into());
            assert_eq!(failure.kind.exit_status(), exit_status, "{kind:?}");
            assert!(failure.why.is_some() && failure.fix.is_some(), "{kind:?}");
        }
    }
}
