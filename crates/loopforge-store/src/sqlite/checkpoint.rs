//! Checkpoints as rows.

use rusqlite::{Connection, params};

use super::body::signed;
use super::content::Content;
use super::error::Failed;
use crate::StoredCheckpoint;
use crate::memory::CHECKPOINTS_KEPT;

/// A checkpoint, ready to be written.
#[derive(Debug)]
pub(crate) struct CheckpointRow {
    pub(crate) seq: i64,
    at: i64,
    content: Content,
}

impl CheckpointRow {
    pub(crate) fn new(checkpoint: &StoredCheckpoint) -> Self {
        Self { seq: signed(checkpoint.seq.0), at: checkpoint.at.0, content: Content::of(&checkpoint.bytes) }
    }

    /// Keeps it, in place of the oldest.
    pub(crate) fn write(&self, connection: &Connection, run: i64) -> Result<(), Failed> {
        let Content { hash, size, compressed, bytes } = &self.content;
        connection
            .prepare_cached(
                "insert or replace into checkpoint (run, seq, at, hash, size, codec, content) \
                 values (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            )?
            .execute(params![run, self.seq, self.at, hash, size, compressed, bytes])?;
        connection
            .prepare_cached(
                "delete from checkpoint where run = ?1 and seq < ( \
                     select min(seq) from (select seq from checkpoint where run = ?1 order by seq desc limit ?2))",
            )?
            .execute(params![run, signed(CHECKPOINTS_KEPT as u64)])?;
        Ok(())
    }
}
