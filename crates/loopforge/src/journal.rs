//! What a run has decided and not yet archived, on its way to the store.
//!
//! Records wait here until one of them must survive something; then all go in one append. A read that was decided rides
//! with the evaluation of its step; the intent of a write goes at once, before the write is made.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::{ContentHash, RecordId, Seq};
use loopforge_core::payload::{Blob, BlobRef};
use loopforge_core::record::{Event, Record, RunStatus};
use loopforge_core::run::Draft;
use loopforge_core::time::Timestamp;
use loopforge_core::tool::Effect;
use loopforge_store::{Append, Appended, Durability, Lease, Store, StoreError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock;
use crate::error::EngineError;
use crate::killpoint::{self, When};

/// The wait between tries to append while the store fails.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// While trouble lasts, it is told again after this time.
const TOLD_AGAIN: Duration = Duration::from_secs(30);

/// Blobs whose presence in the store is remembered, so that a page that is saved again isn't sent again.
const KNOWN_BLOBS: usize = 4096;

pub(crate) struct Journal {
    store: Arc<dyn Store>,
    lease: Lease,
    archived: Seq,
    pending: Vec<Record>,
    blobs: HashMap<ContentHash, Blob>,
    known: HashSet<ContentHash>,
    level: Option<Durability>,
    last_at: Timestamp,
    /// Until when the lease lasts at least, on the clock that runs since the machine was started.
    held_until: Duration,
    /// How long a failing store is waited for before the run is given up (and can be resumed).
    patience: Duration,
}

/// What an append says of the run besides its records.
pub(crate) struct Position {
    pub(crate) status: RunStatus,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) steps: u64,
}

impl Journal {
    pub(crate) fn new(store: Arc<dyn Store>, lease: Lease, last_at: Timestamp, patience: Duration) -> Self {
        Self {
            archived: lease.head,
            held_until: clock::since_boot() + lease.ttl,
            store,
            lease,
            pending: Vec::new(),
            blobs: HashMap::new(),
            known: HashSet::new(),
            level: None,
            last_at,
            patience,
        }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Until when the lease lasts at least: what begins later may be somebody else's to do.
    pub(crate) fn held_until(&self) -> Duration {
        self.held_until
    }

    /// Renews the lease.
    pub(crate) async fn renew(&mut self) -> Result<(), StoreError> {
        let asked = clock::since_boot();
        self.store.renew_lease(&self.lease, self.lease.ttl).await?;
        self.held_until = asked + self.lease.ttl;
        Ok(())
    }

    /// Gives a draft its place and time. It isn't archived yet.
    pub(crate) fn write(&mut self, draft: Draft) -> &Record {
        // The clock may step back; the archive's times don't.
        self.last_at = self.last_at.max(clock::now());
        let seq = Seq(self.archived.0 + self.pending.len() as u64 + 1);
        let record = Record { seq, id: RecordId(Uuid::now_v7()), at: self.last_at, event: draft.event };
        for blob in draft.blobs {
            let hash = blob.reference.hash;
            if !self.known.contains(&hash) {
                self.blobs.insert(hash, blob);
            }
        }
        self.level = self.level.max(needs(&record.event));
        let position = self.pending.len();
        self.pending.push(record);
        &self.pending[position]
    }

    /// Asks that what is pending survives a loss of power before anything else is done.
    pub(crate) fn harden(&mut self) {
        if !self.pending.is_empty() {
            self.level = Some(Durability::Hard);
        }
    }

    /// Whether something must be archived before the run goes on.
    pub(crate) fn is_due(&self) -> bool {
        self.level.is_some()
    }

    /// Whether anything waits to be archived.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// A blob that isn't archived yet.
    pub(crate) fn pending_blob(&self, reference: &BlobRef) -> Option<&Blob> {
        self.blobs.get(&reference.hash)
    }

    /// Archives what is pending, and returns it. After `Ok` it is as durable as its events need.
    ///
    /// A store that fails is tried again until it heals, `cancel` fires or patience ends; meanwhile nothing else is done.
    pub(crate) async fn flush(
        &mut self,
        position: Position,
        cancel: &CancellationToken,
        mut on_trouble: impl FnMut(&StoreError),
    ) -> Result<Vec<Record>, EngineError> {
        if self.pending.is_empty() {
            self.level = None;
            return Ok(Vec::new());
        }
        let append = Append {
            expected_head: self.archived,
            records: std::mem::take(&mut self.pending),
            blobs: self.blobs.values().cloned().collect(),
            status: position.status,
            wake_at: position.wake_at,
            steps: position.steps,
            durability: self.level.unwrap_or(Durability::Soft),
        };
        let last = Seq(self.archived.0 + append.records.len() as u64);
        killpoint::at_append(last, When::Before);
        if let Err(error) = self.append(&append, cancel, &mut on_trouble).await {
            // Nothing of it was written: it still waits.
            self.pending = append.records;
            return Err(error);
        }
        killpoint::at_append(last, When::After);
        self.archived = last;
        if self.known.len() > KNOWN_BLOBS {
            self.known.clear();
        }
        self.known.extend(self.blobs.drain().map(|(hash, _)| hash));
        self.level = None;
        Ok(append.records)
    }

    /// One append, tried again while the store may heal.
    async fn append(
        &mut self,
        append: &Append,
        cancel: &CancellationToken,
        on_trouble: &mut impl FnMut(&StoreError),
    ) -> Result<(), EngineError> {
        let started = tokio::time::Instant::now();
        let mut told: Option<tokio::time::Instant> = None;
        let first = clock::since_boot();
        loop {
            match self.store.append(&self.lease, append.clone()).await {
                Ok(Appended::Written | Appended::AlreadyMine) => {
                    // Whichever try it was that extended it.
                    self.held_until = first + self.lease.ttl;
                    return Ok(());
                }
                Ok(Appended::Fenced) => return Err(EngineError::Fenced(self.lease.run)),
                Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::ReadOnly(_)))
                    if started.elapsed() < self.patience && !cancel.is_cancelled() =>
                {
                    if told.is_none_or(|at| at.elapsed() >= TOLD_AGAIN) {
                        on_trouble(&error);
                        told = Some(tokio::time::Instant::now());
                    }
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_WAIT) => {}
                        () = cancel.cancelled() => {}
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// What an event must survive before the run goes on; `None` for one that can be made again from the records before it.
///
/// Source: the table in `docs/design/durability.md`.
fn needs(event: &Event) -> Option<Durability> {
    match event {
        // Made again by the same decision after a crash; a read can be made again too.
        Event::SubgoalStarted(_)
        | Event::SubgoalEnded(_)
        | Event::StepStarted(_)
        | Event::ActionDecided(_)
        | Event::ActionRefused(_)
        | Event::StateSaved(_)
        | Event::LifecycleMoved(_)
        | Event::LifecycleRefused(_)
        | Event::LoopFound(_)
        | Event::ActionFinished(_) => None,
        // Losing it costs a repeated try or notice.
        Event::AttemptFailed(_) | Event::HookSent(_) => Some(Durability::Soft),
        // The world may change after it, or somebody relies on it.
        Event::RunStarted(_)
        | Event::RunResumed(_)
        | Event::ActionStarted(_)
        | Event::ActionUnknown(_)
        | Event::ActionNotHappened(_)
        | Event::WaitStarted(_)
        | Event::WaitEnded(_)
        | Event::QuestionAsked(_)
        | Event::QuestionAnswered(_)
        | Event::StepEvaluated(_)
        | Event::LimitReached(_)
        | Event::LimitsRaised(_)
        | Event::ChangesAccepted(_)
        | Event::RunPaused(_)
        | Event::RunEnded(_) => Some(Durability::Hard),
    }
}

/// Whether the outcome of a call with this effect must be archived as soon as it is known.
pub(crate) fn outcome_is_due(effect: Effect) -> bool {
    effect == Effect::Write
}
