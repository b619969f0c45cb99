//! On the way to the archive: what is pending is given to the store, awaited, shown, and checkpointed.

use loopforge_core::checkpoint;
use loopforge_store::{StoreError, StoredCheckpoint};

use crate::error::EngineError;
use crate::journal::Position;

use super::{Kept, Run};

impl Run {
    /// Archives what is pending, and waits until nothing is under way.
    pub(crate) async fn flush(&mut self) -> Result<(), EngineError> {
        if self.journal.has_pending() {
            self.give().await;
        }
        self.journal.hurry();
        while self.journal.is_under_way() {
            self.journal.answered().await;
            self.take_archived().await?;
        }
        Ok(())
    }

    /// Gives what is pending to the store, and goes on if it tells of reads only. Until [`Self::flush`] has returned, nothing but reads
    /// may be made.
    pub(super) async fn submit(&mut self) -> Result<(), EngineError> {
        // A notice says how the run stands, and may say nothing that isn't archived.
        if self.journal.is_binding()
            || self.journal.pending().iter().any(|record| self.hooks.wants(record, &self.state))
        {
            return self.flush().await;
        }
        self.give().await;
        if self.journal.is_half_full() {
            self.journal.hurry();
        }
        while self.journal.is_full() {
            self.journal.answered().await;
            self.take_archived().await?;
        }
        Ok(())
    }

    pub(super) async fn give(&mut self) {
        let position =
            Position { status: self.state.status(), wake_at: self.state.wake_at(), steps: self.state.totals.steps };
        // A resume looks for notices that are owed after the checkpoint only.
        let owes =
            !self.hooks.is_idle() || self.journal.pending().iter().any(|record| self.hooks.wants(record, &self.state));
        let checkpoint = (self.is_checkpoint_due() && !owes).then(|| self.checkpoint());
        self.journal.submit(position, checkpoint).await;
    }

    /// Shows what was archived since the last time, and sends the notices that it asks for.
    pub(super) async fn take_archived(&mut self) -> Result<(), EngineError> {
        if !self.journal.is_under_way() {
            return Ok(());
        }
        let id = self.id;
        let on_trouble =
            |error: &StoreError| tracing::warn!(run = %id, "nothing is done until this is archived: {error}");
        let archived = self.journal.take_archived(&self.cancel, on_trouble).await?;
        self.show(&archived);
        for record in &archived {
            self.hooks.take(record, &self.state);
        }
        Ok(())
    }

    pub(super) fn is_checkpoint_due(&self) -> bool {
        let limits = &self.prepared.task.limits;
        let steps = self.state.totals.steps - self.kept.steps;
        steps >= limits.checkpoint_interval.max(1)
            || (steps > 0 && self.kept.at.elapsed() >= limits.checkpoint_max_age.0)
    }

    /// A checkpoint of the state as it is now.
    pub(super) fn checkpoint(&mut self) -> StoredCheckpoint {
        self.kept = Kept { steps: self.state.totals.steps, at: tokio::time::Instant::now() };
        StoredCheckpoint { seq: self.state.head, at: self.state.last_at, bytes: checkpoint::write(&self.state) }
    }

    /// Keeps a checkpoint that has come of age while nothing was appended.
    pub(super) async fn keep_checkpoint(&mut self) -> Result<(), EngineError> {
        let settled = self.hooks.is_idle() && !self.journal.has_pending() && !self.journal.is_under_way();
        if !self.is_checkpoint_due() || !settled {
            return Ok(());
        }
        let checkpoint = self.checkpoint();
        match self.store.save_checkpoint(self.journal.lease(), checkpoint).await {
            Ok(()) => {}
            Err(StoreError::LeaseLost(run)) => return Err(EngineError::Fenced(run)),
            // A checkpoint is never the only copy of anything.
            Err(error) => tracing::warn!(run = %self.id, "no checkpoint was kept: {error}"),
        }
        Ok(())
    }
}
