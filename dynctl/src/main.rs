//! The `dynctl` binary: everything is in the library, which also gives the man pages and
//! completions their command tree.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(dynctl::run(std::env::args_os()))
}
