//! Signs of life between processes of one machine.
//!
//! A worker holds a lock on a file of its name as long as it lives; the kernel gives the lock up when the process ends,
//! however it ends. So whoever can take the lock knows that the worker is dead, and needn't wait for its lease to lapse. A process
//! that is only stopped keeps its lock, and its leases.
//!
//! A second lock, `ID.calls`, is inherited by the helpers of commands, which outlive the worker by the moment that it takes
//! them to end what they started. Until they are gone a command may still have its effect, so nobody may ask whether it
//! happened: a worker counts as dead only when both locks are free.
//!
//! A worker that was stopped for longer than its lease, or is too slow, lives on, and so do its commands. They are ended by
//! whoever takes the run up: the helpers of a run are found by the lock that they hold and the run that they were given.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use loopforge_core::id::RunId;
use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};

/// How long the helpers of a dead worker are waited for. They kill what doesn't end within a second.
const HELPERS_PATIENCE: Duration = Duration::from_secs(15);

/// How long a worker's own lock is tried for. A child that the worker had just forked holds a copy until it becomes a helper.
const OWN_PATIENCE: Duration = Duration::from_secs(1);

/// How often a lock is tried meanwhile.
const ROUND: Duration = Duration::from_millis(20);

/// A worker's sign of life; ends with it.
#[derive(Debug)]
pub(crate) struct Life {
    folder: PathBuf,
    worker_id: String,
    _own: File,
    _calls: File,
}

impl Life {
    /// Begins to show that the worker lives.
    pub(crate) fn begin(folder: &Path, worker_id: &str) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        // The lock that says more is taken first, so that a worker is never found dead while it begins.
        let calls = File::create(calls_path(folder, worker_id))?;
        calls.try_lock()?;
        // Inherited by helpers; these keep it from the commands themselves.
        fcntl_setfd(&calls, FdFlags::empty())?;
        let own = File::create(folder.join(worker_id))?;
        own.try_lock()?;
        Ok(Self { folder: folder.to_owned(), worker_id: worker_id.to_owned(), _own: own, _calls: calls })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // What stays behind is a file that nobody holds: it says the same.
        forget(&self.folder, &self.worker_id);
    }
}

/// Whether the worker is known to be dead, with all that it started. A worker without a sign (of another machine, say) is
/// not known to be.
pub(crate) async fn is_dead(folder: &Path, worker_id: &str) -> bool {
    if !is_worker_id(worker_id) {
        return false;
    }
    let (own, calls) = (folder.join(worker_id), calls_path(folder, worker_id));
    own.exists() && becomes_free(&own, OWN_PATIENCE).await && becomes_free(&calls, HELPERS_PATIENCE).await
}

/// Whether the worker is known to be gone: it showed signs of life, and has none now. What it started may still be ending.
#[must_use]
pub fn is_gone(folder: &Path, worker_id: &str) -> bool {
    is_worker_id(worker_id) && is_free(&folder.join(worker_id))
}

/// Ends the commands that a worker of this machine, which has lost the run, started for it. Returns false when some are still there.
///
/// Of a worker that has left no signs (it ended in order, or it is of another machine) nothing is known.
pub(crate) async fn end_calls(folder: &Path, worker_id: &str, run: RunId) -> bool {
    if !is_worker_id(worker_id) {
        return true;
    }
    let (own, calls) = (folder.join(worker_id), calls_path(folder, worker_id));
    let deadline = tokio::time::Instant::now() + HELPERS_PATIENCE;
    loop {
        // Once the worker is dead, its helpers end by themselves, whichever run they work for.
        let over = if own.exists() && !is_free(&own) {
            let helpers = helpers(&calls, &own, run);
            for helper in &helpers {
                let _ = kill_process(*helper, Signal::TERM);
                // One that is stopped would not see the signal.
                let _ = kill_process(*helper, Signal::CONT);
            }
            helpers.is_empty()
        } else {
            !calls.exists() || is_free(&calls)
        };
        if over || tokio::time::Instant::now() >= deadline {
            return over;
        }
        tokio::time::sleep(ROUND).await;
    }
}

/// The helpers that hold the lock `calls` and work for `run`.
fn helpers(calls: &Path, own: &Path, run: RunId) -> Vec<Pid> {
    let (Ok(calls), Ok(own)) = (calls.canonicalize(), own.canonicalize()) else { return Vec::new() };
    let Ok(processes) = std::fs::read_dir("/proc") else { return Vec::new() };
    let mark = format!("LOOPFORGE_RUN={run}");
    let helper = |process: std::fs::DirEntry| {
        let pid = Pid::from_raw(process.file_name().to_str()?.parse().ok()?)?;
        let mut holds = false;
        for file in std::fs::read_dir(process.path().join("fd")).ok()?.flatten() {
            let file = std::fs::read_link(file.path()).unwrap_or_default();
            // The worker itself, or a child that it has just forked.
            if file == own {
                return None;
            }
            holds |= file == calls;
        }
        let given = std::fs::read(process.path().join("environ")).ok()?;
        (holds && given.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes())).then_some(pid)
    };
    processes.flatten().filter_map(helper).collect()
}

/// The id becomes a file name; ids are hexadecimal digits.
fn is_worker_id(worker_id: &str) -> bool {
    !worker_id.is_empty() && worker_id.bytes().all(|byte| byte.is_ascii_hexdigit())
}

async fn becomes_free(path: &Path, patience: Duration) -> bool {
    let deadline = tokio::time::Instant::now() + patience;
    while path.exists() && !is_free(path) {
        if tokio::time::Instant::now() >= deadline {
            return false;
        }
        tokio::time::sleep(ROUND).await;
    }
    true
}

/// Whether the file is there and nobody holds its lock.
fn is_free(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    match file.try_lock() {
        Ok(()) => true,
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}

fn calls_path(folder: &Path, worker_id: &str) -> PathBuf {
    folder.join(format!("{worker_id}.calls"))
}

/// Takes the signs of a dead worker away. Not before its lease is void: whoever comes then must still see that it is dead.
pub(crate) fn forget(folder: &Path, worker_id: &str) {
    let _ = std::fs::remove_file(folder.join(worker_id));
    let _ = std::fs::remove_file(calls_path(folder, worker_id));
}
