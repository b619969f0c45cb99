//! Driving one run: ask the core what is next, archive it, do it, archive what came of it, ask again.
//!
//! One task owns the run's state; calls run beside it and send back what came of them. Before a call is made, all that was
//! decided before it is archived as durably as it needs; before a read, it is on its way there (see `journal`).

mod admission;
mod archive;
mod budget;
mod call;
mod consult;
mod grounds;
mod inbox;
mod report;
mod think;

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::expression::Values;
use loopforge_core::id::{BranchId, ContentHash, RunId};
use loopforge_core::payload::NotLoaded;
use loopforge_core::prompt::History;
use loopforge_core::record::{About, ActionId, Event, Outcome, QuestionAsked, Record, RunPaused, RunStatus};
use loopforge_core::run::{Call, Draft, Idle, Move, RunState};
use loopforge_core::task::Task;
use loopforge_core::time::Timestamp;
use loopforge_store::{Lease, Store, StoreError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::engine::{Company, Engine, Options};
use crate::error::EngineError;
use crate::gateway::attempt::{Asked, Overdue, Tried};
use crate::hooks::Hooks;
use crate::journal::Journal;
use crate::prepare::Prepared;

pub(crate) use inbox::{Mail, taken};
pub use report::{OpenQuestion, Report};
pub(crate) use think::schemas;

/// How long a cancelled write is waited for when its owner leaves. Commands are killed well within it.
const LAST_WRITES: Duration = Duration::from_secs(5);

/// Sees every record once it is archived, in order.
pub type Watcher = Box<dyn FnMut(&Record) + Send>;

/// A run that this process owns.
pub struct Run {
    id: RunId,
    store: Arc<dyn Store>,
    options: Options,
    prepared: Arc<Prepared>,
    /// The task with its plan as it is now.
    task: Arc<Task>,
    workspace: Arc<PathBuf>,
    base: Arc<PathBuf>,
    state: RunState,
    values: Values,
    journal: Journal,
    watcher: Option<Watcher>,
    hooks: Hooks,
    /// Calls that run now, and status queries.
    at_work: JoinSet<Done>,
    in_flight: HashMap<ActionId, Flight>,
    /// Calls that the core asked for and that were not made yet.
    ready: Vec<Call>,
    /// Calls that must wait for another one: the same effect is open, or the tool is busy.
    held: Vec<Call>,
    overdue: (UnboundedSender<Overdue>, UnboundedReceiver<Overdue>),
    /// Answers of reads that are still good.
    cache: HashMap<(String, ContentHash), (Outcome, Timestamp)>,
    /// Status queries that were made for an action without an answer.
    asked: HashMap<ActionId, u32>,
    grounds: grounds::Grounds,
    /// What prompts are made from, for each branch on which a model works.
    histories: HashMap<BranchId, History>,
    /// Answers of models that were not taken in yet.
    thoughts: Vec<think::Thought>,
    /// Fires when models need not answer any more.
    thinking: CancellationToken,
    /// Models that are asked now, by the number of the call.
    asking: HashMap<u32, CancellationToken>,
    /// Of these, those that are given up for a note.
    given_up: HashSet<u32>,
    /// Tells whether somebody told the run something.
    mail: Arc<Mail>,
    /// What it was told may not have been taken yet.
    not_heard: bool,
    kept: Kept,
    cancel: CancellationToken,
}

/// A call that runs now.
struct Flight {
    abort: AbortHandle,
    cancel: CancellationToken,
    /// It may change the world, so it isn't dropped.
    write: bool,
    tool: String,
}

/// The last checkpoint.
struct Kept {
    steps: u64,
    at: tokio::time::Instant,
}

/// What a task beside the driver brings.
enum Done {
    Tried(Box<Tried>),
    Thought(Box<think::Thought>),
    Asked(Asked),
}

impl Run {
    pub(crate) fn new(
        engine: &Engine,
        prepared: Arc<Prepared>,
        state: RunState,
        values: Values,
        lease: Lease,
        workspace: PathBuf,
        watcher: Option<Watcher>,
    ) -> Self {
        let (store, heart) = (Arc::clone(&engine.store), engine.heart.clone());
        let journal = Journal::new(store, lease, state.last_at, engine.options.store_patience, heart);
        Self {
            id: state.run,
            store: Arc::clone(&engine.store),
            options: engine.options.clone(),
            workspace: Arc::new(workspace),
            base: Arc::new(prepared.base.clone()),
            hooks: Hooks::new(&prepared, state.run),
            task: planned(&prepared, &state),
            kept: Kept { steps: state.totals.steps, at: tokio::time::Instant::now() },
            prepared,
            state,
            values,
            journal,
            watcher,
            at_work: JoinSet::new(),
            in_flight: HashMap::new(),
            ready: Vec::new(),
            held: Vec::new(),
            overdue: unbounded_channel(),
            cache: HashMap::new(),
            asked: HashMap::new(),
            grounds: grounds::Grounds::default(),
            histories: HashMap::new(),
            thoughts: Vec::new(),
            thinking: CancellationToken::new(),
            asking: HashMap::new(),
            given_up: HashSet::new(),
            mail: Arc::clone(&engine.mail),
            not_heard: true,
            cancel: CancellationToken::new(),
        }
    }

    /// The run's id.
    #[must_use]
    pub fn id(&self) -> RunId {
        self.id
    }

    /// The run's state now.
    #[must_use]
    pub fn state(&self) -> &RunState {
        &self.state
    }

    /// The task.
    #[must_use]
    pub fn prepared(&self) -> &Arc<Prepared> {
        &self.prepared
    }

    /// Goes on with another task. The record that says so must be the next that is written.
    pub(crate) fn change_task(&mut self, prepared: Arc<Prepared>) {
        self.hooks.change(&prepared);
        self.prepared = prepared;
        self.task = planned(&self.prepared, &self.state);
    }

    /// Notices for these records may not have been sent.
    pub(crate) fn owe(&mut self, records: Vec<Record>) {
        for record in &records {
            self.hooks.take(record, &self.state);
        }
    }

    pub(crate) fn show(&mut self, records: &[Record]) {
        if let Some(watcher) = &mut self.watcher {
            records.iter().for_each(watcher);
        }
    }

    /// Carries the run out until it ends, waits for a person, is stopped at a limit, or `cancel` fires.
    ///
    /// After `Ok` everything that the report says is archived and the lease is given up.
    ///
    /// # Errors
    /// [`EngineError::Store`] when the store fails for longer than is waited for: what is archived stays, and a resume goes on from
    /// there. [`EngineError::Fenced`] when another worker took the run up: this one has changed nothing since.
    pub async fn drive(mut self, cancel: CancellationToken) -> Result<Report, EngineError> {
        self.cancel = cancel;
        let worked = match self.settle_lost().await {
            Ok(()) if self.options.stop_before_lapse => self.work_while_held().await,
            Ok(()) => self.work().await,
            Err(error) => Err(error),
        };
        // Whatever still runs belongs to nobody now. Reads may be made again; writes are found to be unknown.
        for flight in self.in_flight.values() {
            flight.cancel.cancel();
        }
        let report = match worked {
            Ok(interrupted) => {
                // Models that are still asked are not listened to any more. What fails here, the next owner does.
                if let Err(error) = self.settle_lost().await {
                    tracing::warn!(run = %self.id, "what calls may have used can't be booked now: {error}");
                }
                self.finish_notices().await?;
                Ok(report::make(&self.state, interrupted))
            }
            Err(error) => Err(error),
        };
        if matches!(report, Err(EngineError::Lapsed(_))) {
            self.drop_all().await;
        } else {
            self.leave().await;
        }
        report
    }

    /// Works until the lease is about to run out. Then another may take the run up, so all that is under way ends before.
    async fn work_while_held(&mut self) -> Result<bool, EngineError> {
        let (held, margin, id) = (self.journal.held().clone(), self.margin(), self.id);
        tokio::select! {
            // First, so that one who was stopped for long does nothing more.
            biased;
            () = held.nearly_over(margin) => Err(EngineError::Lapsed(id)),
            worked = self.work() => worked,
        }
    }

    /// How long before its end a lease that can't be renewed is taken for lost: the time in which commands are ended.
    fn margin(&self) -> Duration {
        (self.options.lease_ttl / 4).min(LAST_WRITES * 2)
    }

    /// Ends all that is under way, within what is left of the lease, and asks the store for nothing more.
    async fn drop_all(mut self) {
        let deadline = tokio::time::Instant::now() + self.margin() / 2;
        while self.in_flight.values().any(|flight| flight.write) {
            match tokio::time::timeout_at(deadline, self.at_work.join_next()).await {
                Ok(Some(Ok(Done::Tried(tried)))) => drop(self.in_flight.remove(&tried.call.action)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.at_work.shutdown().await;
    }

    /// Gives the lease up, once no write of this owner is at work any more: the next one asks whether they happened.
    pub(crate) async fn leave(mut self) {
        let deadline = tokio::time::Instant::now() + LAST_WRITES;
        while self.in_flight.values().any(|flight| flight.write) {
            match tokio::time::timeout_at(deadline, self.at_work.join_next()).await {
                Ok(Some(Ok(Done::Tried(tried)))) => drop(self.in_flight.remove(&tried.call.action)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        self.at_work.shutdown().await;
        self.journal.abandon().await;
        if let Err(error) = self.store.release_lease(self.journal.lease()).await {
            tracing::warn!(run = %self.id, "the lease could not be given up; it lapses by itself: {error}");
        }
    }

    /// Returns whether the run was interrupted.
    async fn work(&mut self) -> Result<bool, EngineError> {
        loop {
            if self.cancel.is_cancelled() {
                self.interrupt().await?;
                return Ok(true);
            }
            if self.listen().await? {
                self.interrupt().await?;
                return Ok(true);
            }
            self.take_finished()?;
            self.take_archived().await?;
            self.take_thoughts().await?;
            let in_flight = |id: ActionId| {
                self.in_flight.contains_key(&id) || self.ready.iter().chain(&self.held).any(|call| call.action == id)
            };
            let prepared = &self.prepared;
            let next = self.state.next(&self.task, prepared.toolbox.facts(), &self.values, clock::now(), &in_flight);
            match next {
                Err(missing) => self.load(missing).await?,
                Ok(Move::Record(drafts)) => self.record(drafts)?,
                Ok(Move::Call(call)) => self.ready.push(call),
                Ok(Move::Calibrate(call)) => self.calibrate(call).await?,
                // Calls that are ready don't wait for a model to think.
                Ok(Move::Think(_)) if !self.ready.is_empty() => self.make_calls().await?,
                Ok(Move::Think(branch)) => self.think(branch).await?,
                Ok(Move::Consult) if !self.ready.is_empty() => self.make_calls().await?,
                Ok(Move::Consult) => self.consult().await?,
                Ok(Move::Ended(_)) => {
                    self.flush().await?;
                    return Ok(false);
                }
                Ok(Move::Idle(idle)) => {
                    if !self.ready.is_empty() {
                        self.make_calls().await?;
                    } else if self.journal.is_due() {
                        self.submit().await?;
                    } else if self.settle(idle).await? {
                        return Ok(false);
                    }
                }
            }
        }
    }

    /// Applies events and puts them on their way to the archive.
    pub(crate) fn record(&mut self, drafts: Vec<Draft>) -> Result<(), EngineError> {
        for draft in drafts {
            let of_agent =
                !self.histories.is_empty() || matches!(&draft.event, Event::StepStarted(started) if started.agent);
            let record = self.journal.write(draft);
            if of_agent {
                think::keep_history(&mut self.histories, &self.state, record);
            }
            self.state.apply(record).map_err(|source| EngineError::Archive { run: self.id, source })?;
            match &record.event {
                Event::StateSaved(saved) => {
                    self.values.save(&saved.key, saved.member.as_deref(), saved.value.clone());
                }
                Event::PlanAmended(_) => {
                    self.task = planned(&self.prepared, &self.state);
                    let state = &self.state;
                    self.histories.retain(|branch, _| state.branches.contains_key(branch));
                }
                Event::LoopFound(found) if self.hooks.pauses_on_loops() && self.state.question.is_none() => {
                    let question = format!(
                        "The run goes round in a circle ({}, {} rounds). Continue, or abort?",
                        found.tools.join(", "),
                        found.rounds
                    );
                    let asked = QuestionAsked { branch: None, action: None, about: About::Loop, question };
                    let record = self.journal.write(Event::QuestionAsked(asked).into());
                    self.state.apply(record).map_err(|source| EngineError::Archive { run: self.id, source })?;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Brings what an expression reads into memory.
    async fn load(&mut self, missing: NotLoaded) -> Result<(), EngineError> {
        match missing {
            NotLoaded::Blob(reference) => {
                if let Some(blob) = self.journal.pending_blob(&reference) {
                    self.values.blobs.insert(reference, &blob.bytes);
                } else {
                    let bytes = self.store.blob(&reference).await?;
                    self.values.blobs.insert(reference, &bytes);
                }
            }
            NotLoaded::State(key) => {
                // What is pending for this key isn't in the store yet.
                self.journal.harden();
                self.flush().await?;
                let value = self.store.state_value(self.id, &key, None).await?;
                self.values.load(&key, value);
            }
            NotLoaded::WholeState => {
                self.journal.harden();
                self.flush().await?;
                for (key, value) in self.store.state(self.id, None).await? {
                    self.values.load(&key, Some(value));
                }
                self.values.loaded_whole();
            }
        }
        Ok(())
    }

    /// Waits until something happens. Returns true when nothing will happen by itself.
    async fn settle(&mut self, idle: Idle) -> Result<bool, EngineError> {
        self.values.blobs.trim(self.options.blob_memory);
        let waits = !self.at_work.is_empty();
        let wake = idle.wake_at.filter(|_| !idle.stopped);
        if !waits && wake.is_none() && self.hooks.is_idle() {
            let settled = !self.journal.is_under_way();
            // What is archived now may be owed a notice.
            self.flush().await?;
            return Ok(settled);
        }
        let until = wake.map(|at| at.since(clock::now())).unwrap_or(Duration::MAX);
        if !waits && self.hooks.is_idle() && self.is_left_to_others(wake, until) {
            let settled = !self.journal.is_under_way() && !self.journal.has_pending();
            self.flush().await?;
            if settled {
                return Ok(true);
            }
        }
        // An append renews the lease, too.
        let renew = self.journal.held_until().saturating_sub(clock::since_boot() + self.options.lease_ttl * 2 / 3);
        // A store that fails is not asked without a pause.
        let renew = renew.max(self.options.lease_ttl / 20);
        let mut renewed = false;
        tokio::select! {
            Some(done) = self.at_work.join_next(), if waits => self.take(done)?,
            Some(overdue) = self.overdue.1.recv() => self.take_overdue(overdue)?,
            Some(sent) = self.hooks.sent() => self.record(vec![Event::HookSent(sent).into()])?,
            () = self.journal.answered() => {}
            () = tokio::time::sleep(until.min(renew)) => renewed = until > renew,
            // Somebody may have told it something.
            () = tokio::time::sleep(inbox::LISTEN) => {}
            () = self.cancel.cancelled() => {}
        }
        if renewed {
            self.renew().await?;
        }
        Ok(false)
    }

    /// Whether a run that does nothing but wait is left to whoever claims it when its time has come. Then nothing but a row waits.
    fn is_left_to_others(&self, wake: Option<Timestamp>, wait: Duration) -> bool {
        match self.options.company {
            Company::Alone => false,
            Company::Shared { longest_wait } => {
                let claimable = self.state.status() == RunStatus::Waiting && self.state.wake_at() == wake;
                wait > longest_wait && claimable && self.ready.is_empty() && self.held.is_empty()
            }
        }
    }

    /// Nothing was appended for a while: the lease must not lapse meanwhile, and an old checkpoint is replaced.
    pub(super) async fn renew(&mut self) -> Result<(), EngineError> {
        match self.journal.renew().await {
            Ok(()) => self.keep_checkpoint().await,
            Err(StoreError::LeaseLost(run)) => Err(EngineError::Fenced(run)),
            Err(error) if error.is_transient() => {
                tracing::warn!(run = %self.id, "the lease could not be renewed: {error}");
                Ok(())
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Takes what has come back, without waiting.
    fn take_finished(&mut self) -> Result<(), EngineError> {
        while let Ok(overdue) = self.overdue.1.try_recv() {
            self.take_overdue(overdue)?;
        }
        while let Some(done) = self.at_work.try_join_next() {
            self.take(done)?;
        }
        Ok(())
    }

    /// Stops work so that a resume goes on from here: reads are dropped, writes are awaited, then the run is paused.
    async fn interrupt(&mut self) -> Result<(), EngineError> {
        // What a model has answered already is paid for.
        self.take_thoughts().await?;
        self.thinking.cancel();
        self.ready.clear();
        self.held.clear();
        for flight in self.in_flight.values().filter(|flight| !flight.write) {
            flight.abort.abort();
        }
        self.in_flight.retain(|_, flight| flight.write);
        let patience = self.prepared.task.limits.idle_timeout.0;
        let deadline = tokio::time::Instant::now() + patience;
        while !self.in_flight.is_empty() {
            match tokio::time::timeout_at(deadline, self.at_work.join_next()).await {
                Ok(Some(done)) => self.take(done)?,
                Ok(None) | Err(_) => break,
            }
        }
        // One that is shared goes on with the next worker, unless a person paused it.
        if self.options.company == Company::Alone && self.state.paused.is_none() {
            let reason = "interrupted".to_owned();
            self.record(vec![Event::RunPaused(RunPaused { reason }).into()])?;
        }
        // The archive is written to the end, although the interruption has been asked for.
        self.cancel = CancellationToken::new();
        self.flush().await
    }

    /// Waits a while for notices that are on their way.
    async fn finish_notices(&mut self) -> Result<(), EngineError> {
        /// A notice that takes longer is owed: a resume sends it again, under the same id.
        const PATIENCE: Duration = Duration::from_secs(45);
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !self.hooks.is_idle() {
            match tokio::time::timeout_at(deadline, self.hooks.sent()).await {
                Ok(Some(sent)) => self.record(vec![Event::HookSent(sent).into()])?,
                Ok(None) | Err(_) => break,
            }
        }
        self.flush().await
    }
}

/// The task with its plan as it is now.
fn planned(prepared: &Prepared, state: &RunState) -> Arc<Task> {
    match state.plan.of(&prepared.task) {
        std::borrow::Cow::Borrowed(_) => Arc::clone(&prepared.task),
        std::borrow::Cow::Owned(task) => Arc::new(task),
    }
}
