//! Signs of life between processes of one machine.
//!
//! A worker holds a lock on a file of its name as long as it lives; the kernel gives the lock up when the process ends,
//! however it ends. So whoever can take the lock knows that the worker is dead, and needn't wait for its lease to lapse. A process
//! that is only stopped keeps its lock, and its leases.

use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

/// A worker's sign of life; ends with it.
#[derive(Debug)]
pub(crate) struct Life {
    path: PathBuf,
    _lock: File,
}

impl Life {
    /// Begins to show that the worker lives.
    pub(crate) fn begin(folder: &Path, worker_id: &str) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let path = folder.join(worker_id);
        let lock = File::create(&path)?;
        lock.try_lock()?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // What stays behind is a file that nobody holds: it says the same.
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Whether the worker is known to be dead. A worker without a sign (of another machine, say) is not known to be.
pub(crate) fn is_dead(folder: &Path, worker_id: &str) -> bool {
    // The id becomes a file name; ids are hexadecimal digits.
    if !worker_id.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return false;
    }
    let path = folder.join(worker_id);
    let Ok(file) = File::open(&path) else { return false };
    match file.try_lock() {
        Ok(()) => {
            let _ = std::fs::remove_file(&path);
            true
        }
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => false,
    }
}
