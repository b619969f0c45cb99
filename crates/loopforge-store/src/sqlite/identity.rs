//! Is the file at a path still the one that was opened?
//!
//! SQLite goes on writing to a file that was deleted or moved away: each commit succeeds, and all is gone with the last
//! handle.

use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::StoreError;

/// What tells a file from any other, whatever it is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    pub(crate) fn of(path: &Path) -> std::io::Result<Self> {
        let file = std::fs::metadata(path)?;
        Ok(Self { device: file.dev(), inode: file.ino() })
    }

    /// Makes sure that `path` still names the file that was opened as this one. By its path alone: to open a database
    /// beside SQLite, and close it, would drop SQLite's locks on it.
    pub(crate) fn require_at(self, path: &Path) -> Result<(), StoreError> {
        match Self::of(path) {
            Ok(now) if now == self => Ok(()),
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                Err(StoreError::Unavailable(format!("{} can't be looked at: {error}", path.display())))
            }
            _ => Err(StoreError::Corrupt(format!(
                "{} was removed or replaced while it was open; what was archived is in the file that is gone, and \
                 nothing of this was written; start again with the right file",
                path.display()
            ))),
        }
    }
}
