//! Who descends from this process, and how to end them all.
//!
//! As a subreaper the supervisor becomes the parent of every orphan below it, so a command that forks twice, starts a
//! session of its own, or ignores signals stays within reach.

use std::collections::HashMap;
use std::fs;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, kill_process, wait};

/// How long a process that got SIGTERM has to end.
const GRACE: Duration = Duration::from_secs(1);
/// How long to go on with SIGKILL. Only a process that hangs in the kernel outlives it.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(5);

/// The descendants of this process, and the statuses of children that ended.
#[derive(Debug)]
pub(super) struct Tree {
    command: Pid,
    status: Option<WaitStatus>,
}

impl Tree {
    /// Watches over `command`, a child of this process.
    pub(super) fn new(command: Pid) -> Self {
        Self { command, status: None }
    }

    /// Takes leave of children that ended, adopted ones too. Returns how the command ended, once it has.
    pub(super) fn reap(&mut self) -> Option<WaitStatus> {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == self.command {
                self.status = Some(status);
            }
        }
        self.status
    }

    /// Ends every descendant: SIGTERM, after a second SIGKILL. Returns how many didn't end.
    pub(super) fn end(&mut self) -> usize {
        let started = Instant::now();
        let mut told = Vec::new();
        loop {
            self.reap();
            let alive = descendants();
            if alive.is_empty() || started.elapsed() > GRACE + PATIENCE {
                return alive.len();
            }
            if started.elapsed() < GRACE {
                for pid in alive {
                    if !told.contains(&pid) {
                        told.push(pid);
                        let _ = kill_process(pid, Signal::TERM);
                        // A stopped process would not see the signal.
                        let _ = kill_process(pid, Signal::CONT);
                    }
                }
            } else {
                // Stopped first, so that a fork bomb doesn't grow while it is being counted.
                for pid in &alive {
                    let _ = kill_process(*pid, Signal::STOP);
                }
                for pid in descendants() {
                    let _ = kill_process(pid, Signal::KILL);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Ends every descendant with SIGKILL at once. Returns how many didn't end.
    pub(super) fn kill(&mut self) -> usize {
        let started = Instant::now();
        loop {
            self.reap();
            let alive = descendants();
            if alive.is_empty() || started.elapsed() > PATIENCE {
                return alive.len();
            }
            for signal in [Signal::STOP, Signal::KILL] {
                for pid in &descendants() {
                    let _ = kill_process(*pid, signal);
                }
            }
            std::thread::sleep(PAUSE);
        }
    }
}

/// All processes that descend from this one.
pub(super) fn descendants() -> Vec<Pid> {
    let me = getpid();
    let mut found = Vec::new();
    let mut open = vec![me];
    while let Some(pid) = open.pop() {
        let Some(children) = children_of(pid) else {
            // The kernel has no lists of children, or the process just ended.
            if pid == me {
                return descendants_by_scan(me);
            }
            continue;
        };
        for child in children {
            if !found.contains(&child) {
                found.push(child);
                open.push(child);
            }
        }
    }
    found
}

fn children_of(pid: Pid) -> Option<Vec<Pid>> {
    let mut children = Vec::new();
    for task in fs::read_dir(format!("/proc/{pid}/task")).ok()? {
        let Ok(list) = fs::read_to_string(task.ok()?.path().join("children")) else {
            if pid == getpid() {
                return None;
            }
            continue;
        };
        children.extend(list.split_ascii_whitespace().filter_map(read_pid));
    }
    Some(children)
}

fn descendants_by_scan(root: Pid) -> Vec<Pid> {
    let mut children: HashMap<Pid, Vec<Pid>> = HashMap::new();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(read_pid) else { continue };
        let Ok(stat) = fs::read_to_string(entry.path().join("stat")) else { continue };
        // The name stands in parentheses and may hold anything; state and parent follow the last one.
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_ascii_whitespace().nth(1));
        if let Some(parent) = parent.and_then(read_pid) {
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = Vec::new();
    let mut open = vec![root];
    while let Some(pid) = open.pop() {
        for child in children.remove(&pid).unwrap_or_default() {
            found.push(child);
            open.push(child);
        }
    }
    found
}

fn read_pid(text: &str) -> Option<Pid> {
    text.parse().ok().and_then(Pid::from_raw)
}
