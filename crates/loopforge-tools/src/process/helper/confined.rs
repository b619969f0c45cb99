//! The second stage: closes the sandbox around itself and becomes the command.

use std::ffi::OsString;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode, Stdio};

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit, setsid};
use rustix::thread::set_no_new_privs;

use super::{landlock_rules, seccomp_rules};
use crate::process::wire::{Confinement, Limits, Order, Report};

/// Returns only when the command could not be executed.
pub(super) fn become_command(command: &[OsString], mut control: UnixStream) -> ExitCode {
    let report = match prepare(&mut control) {
        Ok(input) => execute(command, input),
        Err(message) => Report::NotConfined { message },
    };
    let _ = report.send(&mut control);
    ExitCode::FAILURE
}

/// Builds everything up; the command's standard input comes back.
fn prepare(control: &mut UnixStream) -> Result<std::fs::File, String> {
    let (order, document) = Order::receive(control).map_err(|error| format!("the helper got no order: {error}"))?;
    // The document waits in memory rather than in a pipe: nobody has to feed it while the command runs, and a command
    // that never reads it blocks nobody.
    let descriptor = memfd_create("loopforge-arguments", MemfdFlags::CLOEXEC)
        .map_err(|error| format!("cannot hold the arguments in memory: {error}"))?;
    let mut input = std::fs::File::from(descriptor);
    input
        .write_all(&document)
        .and_then(|()| input.seek(SeekFrom::Start(0)))
        .map_err(|error| format!("cannot hold the arguments in memory: {error}"))?;
    // All of ours close by themselves; whoever started LoopForge may have left others open.
    close_fds::set_fds_cloexec(3, &[]);
    setsid().map_err(|error| format!("cannot start a session: {error}"))?;
    // If the supervisor itself is killed, the command goes with it.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(|error| format!("cannot tie it to us: {error}"))?;
    if let Some(confinement) = &order.confinement {
        confine(confinement)?;
    }
    Ok(input)
}

/// From here on this process can do no more than the command may.
fn confine(confinement: &Confinement) -> Result<(), String> {
    set_limits(&confinement.limits)?;
    set_no_new_privs(true).map_err(|error| format!("cannot renounce new privileges: {error}"))?;
    landlock_rules::restrict(confinement)?;
    seccomp_rules::restrict(confinement.network)
}

fn execute(command: &[OsString], input: std::fs::File) -> Report {
    let Some((program, arguments)) = command.split_first() else {
        return Report::NotExecuted { message: "there is no command".to_owned(), errno: None };
    };
    let error = Command::new(program).args(arguments).stdin(Stdio::from(input)).exec();
    Report::NotExecuted { message: error.to_string(), errno: error.raw_os_error() }
}

fn set_limits(limits: &Limits) -> Result<(), String> {
    set_limit(Resource::As, limits.memory_bytes, "address space")?;
    set_limit(Resource::Fsize, limits.file_bytes, "file size")?;
    set_limit(Resource::Nofile, limits.open_files, "open files")?;
    set_limit(Resource::Core, 0, "core dumps")?;
    if let Some(seconds) = limits.cpu_s {
        // SIGXCPU at the limit, SIGKILL a second later.
        let hard = getrlimit(Resource::Cpu).maximum.unwrap_or(u64::MAX).min(seconds + 1);
        let new = Rlimit { current: Some(seconds.min(hard)), maximum: Some(hard) };
        setrlimit(Resource::Cpu, new).map_err(|error| format!("cannot limit processor time: {error}"))?;
    }
    // Counts all processes of the user, not ours alone: the headroom goes on top of those that run already. The
    // supervisor counts as well, since this limit doesn't hold for root.
    set_limit(Resource::Nproc, tasks_on_host() + limits.processes as u64, "processes")
}

fn set_limit(resource: Resource, value: u64, name: &str) -> Result<(), String> {
    let value = getrlimit(resource).maximum.map_or(value, |maximum| maximum.min(value));
    setrlimit(resource, Rlimit { current: Some(value), maximum: Some(value) })
        .map_err(|error| format!("cannot limit {name}: {error}"))
}

/// Threads on this host, of all users (the last number but one of `/proc/loadavg`).
fn tasks_on_host() -> u64 {
    std::fs::read_to_string("/proc/loadavg")
        .ok()
        .and_then(|text| text.split_ascii_whitespace().nth(3)?.split_once('/')?.1.parse().ok())
        .unwrap_or(32_768)
}
