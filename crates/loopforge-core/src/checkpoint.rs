//! Checkpoints: a run's state at a record, kept so that resuming need not read the whole archive.
//!
//! A checkpoint is never the only copy of anything. Law, tested with properties: folding all records gives the same state as
//! a checkpoint and the records after it. One that can't be read is passed over, never read as something empty.

use serde::{Deserialize, Serialize};

use crate::record::FORMAT;
use crate::run::RunState;

/// A checkpoint as it is written.
#[derive(Debug, Serialize, Deserialize)]
struct Written<S> {
    /// The format of the records from which it was folded.
    format: u16,
    /// Changes whenever a field of [`RunState`] changes its meaning. An older one is not read: the archive is.
    layout: u16,
    state: S,
}

/// The layout that this version writes, and the only one that it reads.
const LAYOUT: u16 = 2;

/// Why a checkpoint is not used. The archive is folded from an older one, or from its first record.
#[derive(Debug, thiserror::Error)]
pub enum Unusable {
    /// It is damaged.
    #[error("the checkpoint can't be read: {0}")]
    Damaged(#[from] serde_json::Error),
    /// It was written by another version.
    #[error("the checkpoint has format {format} and layout {layout}; this version writes {FORMAT} and {LAYOUT}")]
    OtherVersion {
        /// Its format.
        format: u16,
        /// Its layout.
        layout: u16,
    },
}

/// Writes a checkpoint.
#[must_use]
pub fn write(state: &RunState) -> Vec<u8> {
    serde_json::to_vec(&Written { format: FORMAT, layout: LAYOUT, state })
        .expect("a run's state has text keys and no values that JSON can't hold")
}

/// Reads a checkpoint.
///
/// # Errors
/// [`Unusable`]; nothing is put in place of what can't be read.
pub fn read(bytes: &[u8]) -> Result<RunState, Unusable> {
    #[derive(Deserialize)]
    struct Head {
        format: u16,
        layout: u16,
    }
    let head: Head = serde_json::from_slice(bytes)?;
    if head.format != FORMAT || head.layout != LAYOUT {
        return Err(Unusable::OtherVersion { format: head.format, layout: head.layout });
    }
    let written: Written<RunState> = serde_json::from_slice(bytes)?;
    Ok(written.state)
}
