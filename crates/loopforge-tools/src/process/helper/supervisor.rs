//! The first stage: starts the command by way of the second, and sees to it that nothing outlives the call.
//!
//! SIGTERM ends the call as the end of LoopForge does.

use std::ffi::OsString;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, WaitStatus, getpid, pidfd_open, set_child_subreaper};

use super::tree::{Tree, descendants};
use super::{CONFINE, HELPER_ARGUMENT, OWN_PROGRAM};
use crate::process::wire::{Order, Report};

/// How often the processes are counted and orphans reaped.
const ROUND: Duration = Duration::from_millis(50);

pub(super) fn supervise(command: &[OsString], mut control: UnixStream) -> ExitCode {
    // First: while it isn't set up, the signal ends this process, which has started nothing then. Whoever takes over a run from a LoopForge
    // that is stopped sends it.
    let told_to_end = Arc::new(AtomicBool::new(false));
    let listens = signal_hook::flag::register(signal_hook::consts::SIGTERM, Arc::clone(&told_to_end));
    if let Err(error) = listens {
        let _ =
            Report::NotConfined { message: format!("the helper can't listen to signals: {error}") }.send(&mut control);
        return ExitCode::FAILURE;
    }
    let report = match start(command, &mut control) {
        Ok((child, order)) => match watch(child, &order, &mut control, &told_to_end) {
            Ok(report) => report,
            Err(error) => Report::NotConfined { message: format!("the helper failed: {error}") },
        },
        Err(report) => report,
    };
    let ended = matches!(report, Report::Ended { .. });
    let told = report.send(&mut control);
    if ended && told.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Starts the command. An error is the report to send; then nothing runs.
fn start(command: &[OsString], control: &mut UnixStream) -> Result<(Pid, Order), Report> {
    let failed =
        |what: &str, error: &dyn std::fmt::Display| Report::NotConfined { message: format!("{what}: {error}") };
    let (order, document) = Order::receive(control).map_err(|error| failed("the helper got no order", &error))?;
    set_child_subreaper(Some(getpid())).map_err(|error| failed("cannot adopt orphans", &error))?;
    let (mut ours, theirs) = UnixStream::pair().map_err(|error| failed("cannot make a socket", &error))?;
    let child = Command::new(OWN_PROGRAM)
        .args([HELPER_ARGUMENT, CONFINE])
        .args(command)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .map_err(|error| failed("cannot start the helper's second stage", &error))?;
    let pid = Pid::from_child(&child);
    // A write that fails is explained by what the second stage says, or by its end.
    let _ = order.send(&document, &mut ours);
    let mut reply = Vec::new();
    let _ = ours.read_to_end(&mut reply);
    if reply.is_empty() {
        return Ok((pid, order));
    }
    let mut child = child;
    let _ = child.wait();
    Err(serde_json::from_slice(&reply)
        .unwrap_or_else(|error| failed("the helper's second stage spoke unintelligibly", &error)))
}

/// Waits for the end of the command, of LoopForge, or of patience, and ends whatever is left.
fn watch(pid: Pid, order: &Order, control: &mut UnixStream, told_to_end: &AtomicBool) -> std::io::Result<Report> {
    let mut tree = Tree::new(pid);
    // Without a descriptor of the process (kernels before 5.3) its end is noticed a round later.
    let process = pidfd_open(pid, PidfdFlags::empty()).ok();
    let _ = Report::Started { pid: pid.as_raw_nonzero().get() }.send(control);
    let cap = order.confinement.as_ref().map(|confinement| confinement.limits.processes);
    let mut too_many = false;
    let mut given_up = false;
    let mut status = None;
    while status.is_none() && !given_up && !too_many {
        given_up = wait_for_change(control, process.as_ref())? || told_to_end.load(Ordering::Relaxed);
        status = tree.reap();
        too_many = status.is_none() && cap.is_some_and(|cap| descendants().len() > cap);
    }
    let left_behind = if status.is_some() { descendants().len() } else { 0 };
    let immortal = if too_many { tree.kill() } else { tree.end() };
    let status = status.or_else(|| tree.reap());
    Ok(Report::Ended {
        code: status.and_then(WaitStatus::exit_status),
        signal: status.and_then(WaitStatus::terminating_signal),
        left_behind,
        immortal,
        too_many,
    })
}

/// Sleeps until something may have changed. Returns whether LoopForge wants an end, or is gone.
fn wait_for_change(control: &mut UnixStream, process: Option<&OwnedFd>) -> std::io::Result<bool> {
    let round = Timespec { tv_sec: 0, tv_nsec: ROUND.subsec_nanos().into() };
    let mut sources = vec![PollFd::from_borrowed_fd(control.as_fd(), PollFlags::IN | PollFlags::RDHUP)];
    if let Some(process) = process {
        sources.push(PollFd::from_borrowed_fd(process.as_fd(), PollFlags::IN));
    }
    match poll(&mut sources, Some(&round)) {
        // Nothing more is ever sent, so whatever arrives is the end.
        Ok(_) => Ok(!sources[0].revents().is_empty()),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
