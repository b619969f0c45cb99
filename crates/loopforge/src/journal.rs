//! What a run has decided and not yet archived, on its way to the store.
//!
//! Records wait here until one of them must survive something; then all go in one append. A read that was decided rides
//! with the evaluation of its step; the intent of a write goes at once, before the write is made.
//!
//! An append that tells of reads only may be under way while the run makes more of them, since a read can be made again.
//! Everything else waits until nothing is under way (see `docs/design/durability.md`).

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use loopforge_core::id::{ContentHash, RecordId, Seq};
use loopforge_core::payload::{Blob, BlobRef};
use loopforge_core::record::{Event, Record, RunStatus};
use loopforge_core::run::Draft;
use loopforge_core::time::Timestamp;
use loopforge_core::tool::Effect;
use loopforge_store::{Append, Appended, Durability, Lease, Store, StoreError, StoredCheckpoint, Ticket};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock;
use crate::error::EngineError;
use crate::heart::{Heart, Held};
use crate::killpoint::{self, When};

/// The wait between tries to append while the store fails.
const RETRY_WAIT: Duration = Duration::from_millis(500);

/// While trouble lasts, it is told again after this time.
const TOLD_AGAIN: Duration = Duration::from_secs(30);

/// Blobs whose presence in the store is remembered, so that a page that is saved again isn't sent again.
const KNOWN_BLOBS: usize = 4096;

/// Appends that may be under way at once: what a crash can cost is so many steps of reads, and a disk that flushes while the
/// next ones are made serves several with each flush.
const UNDER_WAY: usize = 8;

pub(crate) struct Journal {
    store: Arc<dyn Store>,
    lease: Lease,
    /// The last record that was given to the store.
    submitted: Seq,
    under_way: VecDeque<UnderWay>,
    pending: Vec<Record>,
    blobs: HashMap<ContentHash, Blob>,
    known: HashSet<ContentHash>,
    level: Option<Durability>,
    /// Whether something pending must be archived before even a read is made.
    binding: bool,
    last_at: Timestamp,
    /// Until when the lease lasts at least, on the clock that runs since the machine was started.
    held: Held,
    /// How long a failing store is waited for before the run is given up (and can be resumed).
    patience: Duration,
}

/// An append whose answer is not taken yet.
struct UnderWay {
    append: Append,
    /// When it was first given to the store, on the clock that runs since the machine was started.
    given: Duration,
    ticket: Ticket,
    answer: Option<Result<Appended, StoreError>>,
}

impl UnderWay {
    fn last(&self) -> Seq {
        Seq(self.append.expected_head.0 + self.append.records.len() as u64)
    }

    async fn answered(&mut self) -> &Result<Appended, StoreError> {
        match &mut self.answer {
            Some(answer) => answer,
            none => none.insert((&mut self.ticket).await),
        }
    }
}

/// What an append says of the run besides its records.
pub(crate) struct Position {
    pub(crate) status: RunStatus,
    pub(crate) wake_at: Option<Timestamp>,
    pub(crate) steps: u64,
}

impl Journal {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        lease: Lease,
        last_at: Timestamp,
        patience: Duration,
        heart: Heart,
    ) -> Self {
        Self {
            submitted: lease.head,
            under_way: VecDeque::new(),
            held: Held::new(heart, clock::since_boot() + lease.ttl),
            store,
            lease,
            pending: Vec::new(),
            blobs: HashMap::new(),
            known: HashSet::new(),
            level: None,
            binding: false,
            last_at,
            patience,
        }
    }

    pub(crate) fn lease(&self) -> &Lease {
        &self.lease
    }

    /// Until when the lease lasts at least: what begins later may be somebody else's to do.
    pub(crate) fn held_until(&self) -> Duration {
        self.held.until()
    }

    /// The same, for whoever watches it.
    pub(crate) fn held(&self) -> &Held {
        &self.held
    }

    /// Renews the lease.
    pub(crate) async fn renew(&mut self) -> Result<(), StoreError> {
        // The worker's heartbeat does it for all of its runs.
        if self.held.left_by_heart() > self.lease.ttl / 2 {
            return Ok(());
        }
        let asked = clock::since_boot();
        self.store.renew_lease(&self.lease, self.lease.ttl).await?;
        self.held.extend(asked + self.lease.ttl);
        Ok(())
    }

    /// Gives a draft its place and time. It isn't archived yet.
    pub(crate) fn write(&mut self, draft: Draft) -> &Record {
        // The clock may step back; the archive's times don't.
        self.last_at = self.last_at.max(clock::now());
        let seq = Seq(self.submitted.0 + self.pending.len() as u64 + 1);
        let record = Record { seq, id: RecordId(Uuid::now_v7()), at: self.last_at, event: draft.event };
        for blob in draft.blobs {
            let hash = blob.reference.hash;
            if !self.known.contains(&hash) {
                self.blobs.insert(hash, blob);
            }
        }
        self.level = self.level.max(needs(&record.event));
        self.binding |= binds(&record.event);
        let position = self.pending.len();
        self.pending.push(record);
        &self.pending[position]
    }

    /// Asks that what is pending survives a loss of power before anything else is done.
    pub(crate) fn harden(&mut self) {
        if !self.pending.is_empty() {
            self.level = Some(Durability::Hard);
            self.binding = true;
        }
    }

    /// Whether something must be archived before the run goes on.
    pub(crate) fn is_due(&self) -> bool {
        self.level.is_some()
    }

    /// Whether even a read must wait for what is pending.
    pub(crate) fn is_binding(&self) -> bool {
        self.binding
    }

    /// Whether anything waits to be archived.
    pub(crate) fn has_pending(&self) -> bool {
        !self.pending.is_empty()
    }

    /// The records that wait to be archived.
    pub(crate) fn pending(&self) -> &[Record] {
        &self.pending
    }

    /// A blob that isn't archived yet.
    pub(crate) fn pending_blob(&self, reference: &BlobRef) -> Option<&Blob> {
        let under_way = || self.under_way.iter().flat_map(|under_way| &under_way.append.blobs);
        self.blobs.get(&reference.hash).or_else(|| under_way().find(|blob| blob.reference.hash == reference.hash))
    }

    /// Gives what is pending to the store. [`Self::take_archived`] tells when it is archived.
    pub(crate) async fn submit(&mut self, position: Position, checkpoint: Option<StoredCheckpoint>) {
        self.level = self.level.max(Some(Durability::Soft)).filter(|_| !self.pending.is_empty());
        let Some(durability) = self.level.take() else { return };
        self.binding = false;
        let append = Append {
            expected_head: self.submitted,
            records: std::mem::take(&mut self.pending),
            blobs: self.blobs.values().cloned().collect(),
            status: position.status,
            wake_at: position.wake_at,
            steps: position.steps,
            durability,
            checkpoint,
        };
        self.submitted = Seq(self.submitted.0 + append.records.len() as u64);
        if self.known.len() > KNOWN_BLOBS {
            self.known.clear();
        }
        // What refers to them comes behind this append, or not at all.
        self.known.extend(self.blobs.drain().map(|(hash, _)| hash));
        killpoint::at_append(self.submitted, When::Before);
        let given = clock::since_boot();
        let ticket = self.store.submit(&self.lease, append.clone()).await;
        self.under_way.push_back(UnderWay { append, given, ticket, answer: None });
    }

    /// Whether appends are under way.
    pub(crate) fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Whether as many appends are under way as may be.
    pub(crate) fn is_full(&self) -> bool {
        self.under_way.len() >= UNDER_WAY
    }

    /// Whether half as many are: then the store had better begin, so that flushing and computing overlap.
    pub(crate) fn is_half_full(&self) -> bool {
        self.under_way.len() >= UNDER_WAY / 2
    }

    /// Waits until the oldest append that is under way has its answer; for ever when none is. Can be dropped at any time.
    pub(crate) async fn answered(&mut self) {
        match self.under_way.front_mut() {
            Some(oldest) => {
                oldest.answered().await;
            }
            None => std::future::pending().await,
        }
    }

    /// Says that somebody waits for all that is under way.
    pub(crate) fn hurry(&mut self) {
        if let Some(newest) = self.under_way.back_mut() {
            newest.ticket.hurry();
        }
    }

    /// Returns the records that were archived since the last time, each as durable as its event needs.
    ///
    /// A store that fails is tried again until it heals, `cancel` fires or patience ends; meanwhile nothing else is done.
    pub(crate) async fn take_archived(
        &mut self,
        cancel: &CancellationToken,
        mut on_trouble: impl FnMut(&StoreError),
    ) -> Result<Vec<Record>, EngineError> {
        let mut archived = Vec::new();
        while let Some(oldest) = self.under_way.front_mut() {
            match oldest.answered().now_or_never() {
                None => break,
                Some(Ok(Appended::Written | Appended::AlreadyMine)) => {}
                // First what was archived is shown; the trouble is still there then.
                Some(_) if !archived.is_empty() => break,
                Some(Ok(Appended::Fenced)) => return Err(EngineError::Fenced(self.lease.run)),
                Some(Err(_)) => self.append_again(cancel, &mut on_trouble).await?,
            }
            let Some(oldest) = self.under_way.pop_front() else { break };
            killpoint::at_append(oldest.last(), When::After);
            // Whichever try it was that extended the lease.
            self.held.extend(oldest.given + self.lease.ttl);
            archived.extend(oldest.append.records);
        }
        Ok(archived)
    }

    /// Waits until the store is done with all that it was given, whatever comes of it.
    pub(crate) async fn abandon(&mut self) {
        self.hurry();
        while let Some(mut oldest) = self.under_way.pop_front() {
            oldest.answered().await;
        }
    }

    /// Appends all that is under way again, after the first try of the oldest failed. Returns when the oldest is archived.
    async fn append_again(
        &mut self,
        cancel: &CancellationToken,
        on_trouble: &mut impl FnMut(&StoreError),
    ) -> Result<(), EngineError> {
        for under_way in &mut self.under_way {
            under_way.answered().await;
        }
        self.append_oldest(cancel, on_trouble).await?;
        for behind in self.under_way.iter_mut().skip(1) {
            // Its first try found a head that was not there, or failed in the same way.
            if !matches!(behind.answer, Some(Ok(Appended::Written | Appended::AlreadyMine))) {
                behind.ticket = self.store.submit(&self.lease, behind.append.clone()).await;
                behind.answer = None;
            }
        }
        Ok(())
    }

    /// Appends the oldest that is under way as long as the store may heal.
    async fn append_oldest(
        &mut self,
        cancel: &CancellationToken,
        on_trouble: &mut impl FnMut(&StoreError),
    ) -> Result<(), EngineError> {
        let Some(oldest) = self.under_way.front_mut() else { return Ok(()) };
        let started = tokio::time::Instant::now();
        let mut told: Option<tokio::time::Instant> = None;
        loop {
            match oldest.answered().await {
                Ok(Appended::Written | Appended::AlreadyMine) => return Ok(()),
                Ok(Appended::Fenced) => return Err(EngineError::Fenced(self.lease.run)),
                Err(error @ (StoreError::Unavailable(_) | StoreError::Full(_) | StoreError::ReadOnly(_)))
                    if started.elapsed() < self.patience && !cancel.is_cancelled() =>
                {
                    if told.is_none_or(|at| at.elapsed() >= TOLD_AGAIN) {
                        on_trouble(error);
                        told = Some(tokio::time::Instant::now());
                    }
                    tokio::select! {
                        () = tokio::time::sleep(RETRY_WAIT) => {}
                        () = cancel.cancelled() => {}
                    }
                    oldest.answer = Some(self.store.append(&self.lease, oldest.append.clone()).await);
                }
                Err(error) => return Err(error.clone().into()),
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
        | Event::ConsultStarted(_)
        | Event::StepStarted(_)
        | Event::ActionDecided(_)
        | Event::ActionRefused(_)
        | Event::StateSaved(_)
        | Event::LifecycleMoved(_)
        | Event::LifecycleRefused(_)
        | Event::LoopFound(_)
        | Event::BudgetWarned(_)
        | Event::ActionFinished(_) => None,
        // Losing it costs a repeated try or notice, or a call of a model.
        Event::AttemptFailed(_)
        | Event::HookSent(_)
        | Event::ModelCalled(_)
        | Event::ModelReplied(_)
        | Event::ModelFailed(_)
        | Event::ConsultFailed(_)
        | Event::PlanAmended(_)
        | Event::Judged(_) => Some(Durability::Soft),
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
        | Event::BudgetStaged(_)
        | Event::NoteTaken(_)
        | Event::OrderTaken(_)
        | Event::ChangesAccepted(_)
        | Event::RunPaused(_)
        | Event::RunEnded(_) => Some(Durability::Hard),
    }
}

/// Whether even a read waits until an event is archived. Verdicts and failed tries of reads are made again by making the reads
/// again; those of a write come with its outcome, which binds. A model's reply was paid for.
fn binds(event: &Event) -> bool {
    match event {
        Event::StepEvaluated(_) | Event::AttemptFailed(_) | Event::HookSent(_) => false,
        _ => needs(event).is_some(),
    }
}

/// Whether the outcome of a call with this effect must be archived as soon as it is known.
pub(crate) fn outcome_is_due(effect: Effect) -> bool {
    effect == Effect::Write
}
