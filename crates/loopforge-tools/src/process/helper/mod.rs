//! The helper: a small program between LoopForge and the command, in the same binary.
//!
//! It has two stages. The *supervisor* stays beside the command, adopts whatever the command leaves behind, and ends all
//! of it when the command has ended or LoopForge is gone. The *confined* stage builds the sandbox around itself and then
//! becomes the command. Both run in a fresh, single-threaded process: between fork and exec of LoopForge itself, which
//! has many threads, none of this could be done safely.

mod confined;
mod landlock_rules;
mod seccomp_rules;
mod supervisor;
mod support;
mod tree;

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;

pub use support::{SandboxSupport, sandbox_support};

/// The first argument with which a program is called to be the helper.
pub const HELPER_ARGUMENT: &str = "__sandbox";

/// The program that is running, also when its file was replaced since.
pub(super) const OWN_PROGRAM: &str = "/proc/self/exe";

const SUPERVISE: &str = "supervise";
const CONFINE: &str = "confine";

/// The arguments of the first stage, before the command.
pub(super) const SUPERVISOR_ARGUMENTS: [&str; 2] = [HELPER_ARGUMENT, SUPERVISE];

/// Is the helper: what a program does, at the very top of `main`, when its first argument is [`HELPER_ARGUMENT`].
///
/// `arguments` are those after it. Start no threads before. Returns when the command has ended; a problem is told to
/// LoopForge over the socket, and the exit code then is not 0.
pub fn sandbox_main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let stage = arguments.next().unwrap_or_default();
    let command: Vec<OsString> = arguments.collect();
    // The copy is closed on exec, so that the command never has it.
    let control = match std::io::stdin().as_fd().try_clone_to_owned() {
        Ok(descriptor) => UnixStream::from(descriptor),
        Err(_) => return ExitCode::from(64),
    };
    if stage == SUPERVISE {
        supervisor::supervise(&command, control)
    } else if stage == CONFINE {
        confined::become_command(&command, control)
    } else {
        ExitCode::from(64)
    }
}
