//! Signs of life between processes of one machine.
//!
//! A worker holds a lock on a file of its name as long as it lives; the kernel gives the lock up when the process ends,
//! however it ends. So whoever can take the lock knows that the worker is dead, and needn't wait for its lease to lapse. A process
//! that is only stopped keeps its lock, and its leases.
//!
//! A second lock, `ID.calls`, is inherited by the helpers of commands, which outlive the worker by the moment that it takes
//! them to end what they started. Until they are gone a command may still have its effect, so nobody may ask whether it
//! happened: a worker counts as dead only when both locks are free.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::{FdFlags, fcntl_setfd};

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
    // The id becomes a file name; ids are hexadecimal digits.
    if !worker_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    let (own, calls) = (folder.join(worker_id), calls_path(folder, worker_id));
    own.exists() && becomes_free(&own, OWN_PATIENCE).await && becomes_free(&calls, HELPERS_PATIENCE).await
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
