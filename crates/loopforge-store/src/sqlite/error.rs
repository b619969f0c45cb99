//! From SQLite's errors to ours: what can the caller do?

use std::path::Path;

use rusqlite::{Error, ErrorCode, ffi};

use crate::StoreError;

/// Room on a disk below which a failed write is put down to a lack of room.
///
/// A write-ahead log that can't grow its index fails with an I/O error of its own, not with "full".
const LITTLE_ROOM: u64 = 256 * 1024;

/// Why an operation inside a transaction did not go through.
#[derive(Debug)]
pub(crate) enum Failed {
    /// SQLite failed: the transaction is lost, and with it everything in it.
    Sql(Error),
    /// The operation refuses. What it wrote, it took back.
    Refused(StoreError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl Failed {
    pub(crate) fn into_store_error(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => store_error(&error, path),
            Self::Refused(error) => error,
        }
    }
}

/// Says in our terms what went wrong with the file at `path`.
pub(crate) fn store_error(error: &Error, path: &Path) -> StoreError {
    let place = path.display();
    let Error::SqliteFailure(failure, _) = error else {
        // A value of a type or length that nobody wrote.
        return StoreError::Corrupt(format!("{place}: {error}; run `loopforge doctor`, and restore a backup"));
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => {
            StoreError::Unavailable(format!("{place} is locked by another process"))
        }
        ErrorCode::DiskFull => StoreError::Full(format!("no room is left for {place}; make room, then go on")),
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => {
            StoreError::ReadOnly(format!("{place} or its folder can't be written to"))
        }
        ErrorCode::DatabaseCorrupt => {
            StoreError::Corrupt(format!("{place}: {error}; run `loopforge doctor`, and restore a backup"))
        }
        ErrorCode::NotADatabase => StoreError::NotAStore(format!("{place} is not an SQLite database")),
        ErrorCode::CannotOpen => match writable(path) {
            false => StoreError::ReadOnly(format!("{place} or its folder can't be written to")),
            true => StoreError::Unavailable(format!("{place} can't be opened: {error}")),
        },
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ => {
            StoreError::Corrupt(format!("{place} is shorter than it should be; restore a backup"))
        }
        ErrorCode::SystemIoFailure if room(path).is_some_and(|room| room < LITTLE_ROOM) => {
            StoreError::Full(format!("no room is left for {place}; make room, then go on"))
        }
        _ => StoreError::Unavailable(format!("{place}: {error}")),
    }
}

fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

fn room(path: &Path) -> Option<u64> {
    let disk = rustix::fs::statvfs(folder(path)).ok()?;
    Some(disk.f_bavail.saturating_mul(disk.f_frsize))
}

/// Whether file and folder may be written to, as far as can be told without trying. A missing file or folder counts as
/// writable.
pub(crate) fn writable(path: &Path) -> bool {
    use rustix::fs::{Access, access};
    use rustix::io::Errno;
    let refused =
        |path: &Path| matches!(access(path, Access::WRITE_OK), Err(Errno::ACCESS | Errno::ROFS | Errno::PERM));
    !refused(path) && !refused(folder(path))
}
