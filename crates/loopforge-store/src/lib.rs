//! Where the archive lives.
//!
//! [`Store`] speaks of runs, records and leases, not of tables. Each method is one transaction that means something.
//! What a method promises stands in its docs, and [`conformance`] has a function for each clause, run for every
//! backend.
//!
//! Three backends: [`memory::MemoryStore`] for simulation, [`sqlite::SqliteStore`] for one machine,
//! [`postgres::PostgresStore`] for many. [`testing`] has what tests of stores, and of what stands on them, need: a clock to
//! be moved by hand, and a store that fails on demand.

pub mod conformance;
pub mod dispatch;
pub mod memory;
pub mod postgres;
pub mod sqlite;
pub mod testing;

mod budget;
mod clock;
mod derive;
mod error;
mod inbox;
mod ticket;

pub use budget::{AccountDay, Day, DayLimit, Reservation, Reserved};
pub use clock::Clock;
pub use dispatch::{Dispatch, Hint};
pub use error::StoreError;
pub use inbox::Message;
pub use ticket::Ticket;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ContentHash, LeaseId, RecordId, RunId, Seq, StepNo, StepToken};
use loopforge_core::model::Amount;
use loopforge_core::payload::{Blob, BlobRef, Payload};
use loopforge_core::record::{ActionId, Outcome, Record, RunStatus};
use loopforge_core::time::Timestamp;

/// The truth about runs. All methods are safe to call from many tasks at once, and a future that is dropped half-way
/// leaves either all or nothing of its call.
///
/// The tables (`state`, `effect`) are made from the records of an append, in the same transaction, so archive and state
/// can't disagree.
///
/// State: `StateSaved` writes a version of a state value at the record's `seq`; nothing is ever overwritten. A version
/// without a member replaces the key as a whole, members included; a version with a member that comes after a single
/// value replaces that value and begins a new map.
///
/// Effects: `ActionStarted` makes an effect row (state `started`); `ActionUnknown` makes it `unknown`; `ActionFinished`
/// of an action with an effect row makes it `confirmed` (code success), `failed` (the target's word), or `unknown`
/// (by [`loopforge_core::tool::Code::leaves_effect_unknown`]); `ActionNotHappened` makes it `not_happened`. `confirmed`
/// is final: what comes after it changes nothing. An effect that is started, unknown or confirmed holds its business
/// key. One that comes to be so late (an answer after another action had taken the free key) holds none.
#[async_trait]
pub trait Store: Send + Sync + fmt::Debug {
    /// Stores a run with its task, its first records and its blobs, and gives its lease to `worker`. One hard commit.
    ///
    /// Its status is [`RunStatus::Running`] until the next append.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is a run of that id; nothing was changed. Otherwise as [`Store::append`].
    async fn create_run(&self, run: NewRun, worker: &Worker) -> Result<Lease, StoreError>;

    /// Makes `worker` the owner of a run, with a new epoch and a lease id drawn at random. One hard commit.
    ///
    /// While a lease is live, only the worker of the same `worker.id` gets a new one; then the old lease is void. A
    /// lease that has run out or was given up is there for anybody. [`Lease::before`] tells who let one run out.
    ///
    /// # Errors
    /// [`StoreError::Held`] when another worker's lease is live; it says whose and until when. [`StoreError::NoRun`].
    async fn claim_run(&self, run: RunId, worker: &Worker) -> Result<Lease, StoreError>;

    /// Stores a run that nobody works on yet, as [`Store::create_run`] does. Its status is [`RunStatus::Queued`] until the
    /// first append, and it is due. One hard commit.
    ///
    /// # Errors
    /// As [`Store::create_run`].
    async fn queue_run(&self, run: NewRun) -> Result<(), StoreError>;

    /// Makes `worker` the owner of runs that are due and not among `except`, at most `limit`, each with a lease as
    /// [`Store::claim_run`] gives it. Those that have been due for longest come first, as far as can be told cheaply. One hard
    /// commit. Workers that claim at the same time get different runs, and don't wait for each other.
    ///
    /// A run is due when nobody has a live lease on it and it is queued or running, or waits for a time that has come. One
    /// that waits for a person, is paused or has ended isn't. A run that became due a moment ago may be passed over; the next
    /// claims find it.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: the claim may have gone through; the next one of this store and worker brings its leases.
    async fn claim_due(&self, worker: &Worker, limit: usize, except: &[RunId]) -> Result<Vec<Lease>, StoreError>;

    /// The worker's heartbeat: until `now + ttl`, which is returned, none of its leases lapses. Like a renewal, it brings
    /// leases that ran out to life again where nobody has taken the run. It doesn't tell which leases were lost: the next
    /// append does.
    async fn beat(&self, worker: &Worker) -> Result<Timestamp, StoreError>;

    /// When the next run is due, as things stand: a run that somebody works on is due when its lease ends. `None` when no run
    /// will be due unless somebody does something.
    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError>;

    /// Extends a lease to `now + ttl`. One that has run out comes to life again if nobody has taken the run.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`] when it is no longer the newest, or was given up. [`StoreError::NoRun`].
    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<Timestamp, StoreError>;

    /// Gives a lease up. Giving up one that is void changes nothing and is no error.
    async fn release_lease(&self, lease: &Lease) -> Result<(), StoreError>;

    /// Voids the lease that the worker with this id has on a run, before it lapses. For a worker that is known to be
    /// dead: one that lives is fenced off, as by any newer claim. Changes nothing when it has none.
    async fn void_lease(&self, run: RunId, worker_id: &str) -> Result<(), StoreError>;

    /// Appends records, with their blobs and what follows from them for state and effects. One transaction, or nothing.
    ///
    /// After `Ok(Written)` or `Ok(AlreadyMine)` the records survive a crash of the process; with [`Durability::Hard`]
    /// also the loss of power, together with everything that was appended to this store before. The lease is extended
    /// by the way, as [`Store::renew_lease`] does.
    ///
    /// The records' `seq` must follow `expected_head` without a gap. When the head is not `expected_head`, or the lease
    /// is not the newest, nothing is written: if the records at these places have the ids of `append.records`, an
    /// earlier try succeeded and its acknowledgement was lost (`AlreadyMine`), else the writer is fenced off
    /// (`Fenced`).
    ///
    /// # Errors
    /// [`StoreError::Unavailable`]: safe to try again. [`StoreError::Full`], [`StoreError::ReadOnly`],
    /// [`StoreError::Corrupt`]: nothing of this append was written. [`StoreError::Duplicate`]: a step token or business
    /// key of an `ActionStarted` is in use by another action, or its own effect is confirmed; nothing was written.
    /// [`StoreError::Invalid`]: no records, a gap in their `seq`, a blob that is neither here nor stored, another token
    /// for the same action, or a checkpoint of another record than the last; nothing was written. [`StoreError::NoRun`].
    async fn append(&self, lease: &Lease, append: Append) -> Result<Appended, StoreError>;

    /// Gives an append to the store without waiting for its commit. When this returns, the append has its place: behind
    /// all that was submitted for this run before, ahead of whatever is called for it later. The [`Ticket`] tells what
    /// becomes of it, as [`Store::append`] would.
    ///
    /// When an append is not written, none that was submitted behind it is: each follows a head that never came to be
    /// (`Fenced`). So the oldest ticket says what is wrong, and trying again begins with it.
    ///
    /// The default waits for the commit, which keeps every promise and gains nothing.
    async fn submit(&self, lease: &Lease, append: Append) -> Ticket {
        Ticket::answered(self.append(lease, append).await)
    }

    /// Keeps a checkpoint. It is never the only copy of anything; older ones of the run may be dropped (at least two
    /// are kept). One with the same `seq` is replaced. A soft commit.
    ///
    /// # Errors
    /// [`StoreError::LeaseLost`], or [`StoreError::Invalid`] when it is of a record that isn't there; nothing was
    /// written.
    async fn save_checkpoint(&self, lease: &Lease, checkpoint: StoredCheckpoint) -> Result<(), StoreError>;

    /// The newest checkpoint whose bytes have the hash that was stored with them; damaged ones are passed over.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn load_checkpoint(&self, run: RunId) -> Result<Option<StoredCheckpoint>, StoreError>;

    /// The records after `after`, in order, at most `limit`. None is a good answer, also for an unknown run.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] names the record that can't be read; [`StoreError::Newer`] when its format is later than
    /// [`loopforge_core::record::FORMAT`].
    async fn records(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError>;

    /// The records of one step, in order. What belongs to a step is told by [`loopforge_core::record::Event::step`].
    async fn step_records(&self, run: RunId, step: StepNo) -> Result<Vec<Record>, StoreError>;

    /// What there is to know of a run without reading its archive.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn run(&self, run: RunId) -> Result<RunInfo, StoreError>;

    /// Runs, the newest first, at most `limit`.
    async fn runs(&self, limit: usize) -> Result<Vec<RunInfo>, StoreError>;

    /// The text of a task, byte for byte as it was given.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is missing or its hash is another.
    async fn task(&self, task: ContentHash) -> Result<Vec<u8>, StoreError>;

    /// The content of a blob.
    ///
    /// # Errors
    /// [`StoreError::Corrupt`] when it is missing or its hash is another.
    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError>;

    /// The value of a state key at `at` (after that record), or now; `None` when it has none.
    async fn state_value(&self, run: RunId, key: &str, at: Option<Seq>) -> Result<Option<StateValue>, StoreError>;

    /// All state at `at`, or now.
    async fn state(&self, run: RunId, at: Option<Seq>) -> Result<BTreeMap<String, StateValue>, StoreError>;

    /// All versions of a state key (and of one member, if given), the oldest first.
    async fn state_history(&self, run: RunId, key: &str, member: Option<&str>)
    -> Result<Vec<StateVersion>, StoreError>;

    /// The effect that holds this business key in this run: the one that is started, unknown or confirmed.
    async fn effect_by_key(&self, run: RunId, business_key: &str) -> Result<Option<EffectInfo>, StoreError>;

    /// The effects of a run, in the order in which they were started.
    async fn effects(&self, run: RunId) -> Result<Vec<EffectInfo>, StoreError>;

    /// Checks hashes, gaps in sequences and the agreement of state with the archive. Changes nothing.
    async fn check(&self) -> Result<Vec<Finding>, StoreError>;

    /// Stores a run as another store had it: the same ids, times and content, and everything that follows from its
    /// records. Nobody owns it then; `run.owner` says nothing. One hard commit, or nothing.
    ///
    /// `pages` is read from its first page to its end, perhaps more than once, and never as a whole into memory by a
    /// store that has a disk. Its records follow each other from seq 1 to `run.head`, and each blob stands in the page
    /// of the first record that refers to it, or before. Other writers may have to wait for the end of the import.
    ///
    /// # Errors
    /// [`StoreError::Exists`] when there is a run of that id. [`StoreError::Invalid`] when records are missing or
    /// don't follow, a blob is nowhere, or task and head are not those of `run`. What [`Pages::page`] answers.
    /// Otherwise as [`Store::append`]. Nothing was written in any of these.
    async fn import_run(&self, run: RunInfo, task: Vec<u8>, pages: Arc<dyn Pages>) -> Result<(), StoreError>;

    /// How much a run takes up. Its records are read for it, so that takes time for a long one.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; [`StoreError::Corrupt`] when a record can't be read, so that nobody knows its blobs.
    async fn size(&self, run: RunId) -> Result<RunSize, StoreError>;

    /// Removes `runs` with all that is theirs; then, in the whole store, what nobody needs any more: blobs and tasks
    /// to which no run refers, and the checkpoints of ended runs but for the newest. Without `apply` nothing is changed,
    /// and the answer tells what would be removed.
    ///
    /// A run is removed as a whole or not at all. Runs that go on, and appends that happen meanwhile, lose nothing.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when one of `runs` has not ended, [`StoreError::Held`] when somebody owns it,
    /// [`StoreError::NoRun`]; [`StoreError::Corrupt`] or [`StoreError::Newer`] when a record of a run that stays can't
    /// be read, so that nobody knows what it needs. Nothing was removed in any of these. After another error runs of
    /// `runs` may have been removed; calling again goes on.
    async fn prune(&self, runs: &[RunId], apply: bool) -> Result<Pruned, StoreError>;

    /// Reserves what a call of a model may use, from its account's day: atomically, so that all runs of the account together
    /// never go over the limit. The day is that of the store's clock, in UTC. A soft commit.
    ///
    /// A call has one reservation. Repeated before it was settled, the new one takes the place of the old one, also when the
    /// new one is refused; repeated after that, nothing changes.
    ///
    /// # Errors
    /// [`StoreError::NoRun`]; nothing is reserved then.
    async fn reserve(&self, wanted: &Reservation) -> Result<Reserved, StoreError>;

    /// Puts what a call did use in the place of what was reserved for it, on the day of the reservation. Nothing used gives
    /// all of it back. A call that has no reservation, or was settled before, changes nothing. A soft commit.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn settle(&self, run: RunId, call: u32, spent: Amount) -> Result<(), StoreError>;

    /// The calls of a run whose reservations aren't settled, with what is reserved for each.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn reservations(&self, run: RunId) -> Result<Vec<(u32, Amount)>, StoreError>;

    /// How an account stands today. One that nobody knows has used nothing.
    async fn account(&self, account: &str) -> Result<AccountDay, StoreError>;

    /// Tells a run something. Whoever works on it, now or later, finds it in [`Store::inbox`]; no lease is needed. Telling
    /// the same message again, by its id, changes nothing, also when it was taken long ago. A hard commit.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn post(&self, run: RunId, message: &Message) -> Result<(), StoreError>;

    /// What a run was told and nobody has taken yet, in the order in which it came.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn inbox(&self, run: RunId) -> Result<Vec<Message>, StoreError>;

    /// Says that messages are in the archive of their run. A soft commit: if it is lost, they are in the inbox again, and the
    /// archive tells that they were taken.
    ///
    /// # Errors
    /// [`StoreError::NoRun`].
    async fn taken(&self, run: RunId, ids: &[RecordId]) -> Result<(), StoreError>;

    /// The runs that were told something that nobody has taken yet.
    async fn addressed(&self) -> Result<Vec<RunId>, StoreError>;
}

/// The content of a run to be imported, page by page.
pub trait Pages: Send + Sync + fmt::Debug {
    /// The page of that number, from 0 on; none after the last one. The same number gives the same page. May block.
    ///
    /// # Errors
    /// It can't be read; the import ends with this error.
    fn page(&self, number: usize) -> Result<Option<Page>, StoreError>;
}

/// A part of a run to be imported.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Records that follow those of the page before.
    pub records: Vec<Record>,
    /// Blobs that come with them.
    pub blobs: Vec<Blob>,
}

/// How much a run takes up, in bytes as they are stored: compressed, and without what the database adds for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunSize {
    /// Its records.
    pub records: u64,
    /// The blobs that its records refer to. Those that other runs refer to as well are counted for each.
    pub blobs: u64,
    /// Its checkpoints.
    pub checkpoints: u64,
}

impl RunSize {
    /// All of it.
    #[must_use]
    pub const fn total(&self) -> u64 {
        self.records + self.blobs + self.checkpoints
    }
}

/// What was removed, or would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pruned {
    /// Runs.
    pub runs: u64,
    /// Their records.
    pub records: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Blobs.
    pub blobs: u64,
    /// Tasks.
    pub tasks: u64,
    /// How much all of it took up, as [`RunSize`] counts.
    pub bytes: u64,
}

impl std::ops::AddAssign for Pruned {
    fn add_assign(&mut self, other: Self) {
        self.runs += other.runs;
        self.records += other.records;
        self.checkpoints += other.checkpoints;
        self.blobs += other.blobs;
        self.tasks += other.tasks;
        self.bytes += other.bytes;
    }
}

/// Who works on runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worker {
    /// Unique among the processes alive: made when the process starts.
    pub id: String,
    /// For people: host and process.
    pub label: String,
    /// How long a lease lasts without renewal.
    pub lease_ttl: Duration,
}

/// The right to append to a run. Held by one worker at a time; a newer one makes it void.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lease {
    /// The run.
    pub run: RunId,
    /// Rises with each claim.
    pub epoch: u64,
    /// Drawn by the claimer: an epoch alone can be issued twice.
    pub id: LeaseId,
    /// When it ends unless it is renewed.
    pub until: Timestamp,
    /// How long it lasts without renewal.
    pub ttl: Duration,
    /// The head of the archive at the claim.
    pub head: Seq,
    /// Workers that had the run and never gave it up, since the last append; by [`Worker::id`], the latest last. What
    /// they started may still be at work: whoever asks whether it happened must know first that it has ended.
    ///
    /// A worker whose lease was voided is not among them.
    pub before: Vec<String>,
}

/// A run to be stored.
#[derive(Debug, Clone)]
pub struct NewRun {
    /// Its id.
    pub id: RunId,
    /// The task's name.
    pub name: String,
    /// The task's text, byte for byte.
    pub task: Vec<u8>,
    /// Where files of the run go, and from where the task's relative paths are read. Absolute paths.
    pub workspace: String,
    /// The folder of the task file. An absolute path.
    pub base: String,
    /// When.
    pub at: Timestamp,
    /// The first records, from seq 1.
    pub records: Vec<Record>,
    /// Their blobs.
    pub blobs: Vec<Blob>,
}

/// Records to be appended.
#[derive(Debug, Clone)]
pub struct Append {
    /// The `seq` of the last record that is there already.
    pub expected_head: Seq,
    /// What to append; not empty.
    pub records: Vec<Record>,
    /// The blobs that they refer to and that may not be there yet.
    pub blobs: Vec<Blob>,
    /// The run's status after them.
    pub status: RunStatus,
    /// When the run is to be looked at again, if it waits for a time.
    pub wake_at: Option<Timestamp>,
    /// Steps that were evaluated so far, for lists.
    pub steps: u64,
    /// What must survive what.
    pub durability: Durability,
    /// A checkpoint of the run as it is after the last of these records, kept with them as [`Store::save_checkpoint`]
    /// keeps one, in the same transaction.
    pub checkpoint: Option<StoredCheckpoint>,
}

/// What an append must survive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Durability {
    /// A crash of the process.
    Soft,
    /// A loss of power.
    Hard,
}

/// What became of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Appended {
    /// Written now.
    Written,
    /// An earlier try had written it.
    AlreadyMine,
    /// Another owner has the run; nothing was written.
    Fenced,
}

/// A checkpoint as it is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredCheckpoint {
    /// The record after which it was taken.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The serialised state of the run.
    pub bytes: Vec<u8>,
}

/// What there is to know of a run without reading its archive.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInfo {
    /// Its id.
    pub id: RunId,
    /// The task's name.
    pub name: String,
    /// The task.
    pub task: ContentHash,
    /// Where its files are.
    pub workspace: String,
    /// The folder of the task file.
    pub base: String,
    /// As the last append left it. [`RunInfo::owner`] tells whether somebody works on it.
    pub status: RunStatus,
    /// The last record.
    pub head: Seq,
    /// Steps evaluated.
    pub steps: u64,
    /// When it was created.
    pub created_at: Timestamp,
    /// When something was last appended.
    pub updated_at: Timestamp,
    /// When it is to be looked at again.
    pub wake_at: Option<Timestamp>,
    /// Who holds a live lease.
    pub owner: Option<Owner>,
}

/// Who holds a live lease.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owner {
    /// The worker's id, as [`Worker::id`] has it.
    pub id: String,
    /// The worker's label.
    pub label: String,
    /// Until when, unless it is renewed.
    pub until: Timestamp,
}

/// One version of a state value.
#[derive(Debug, Clone, PartialEq)]
pub struct StateVersion {
    /// The member of the map under the key.
    pub member: Option<String>,
    /// The record that wrote it.
    pub seq: Seq,
    /// When.
    pub at: Timestamp,
    /// The value.
    pub value: Payload,
}

/// What is known of an effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EffectState {
    /// The call was started; its outcome is not archived.
    Started,
    /// It happened.
    Confirmed,
    /// The target refused it: it did not happen.
    Failed,
    /// It can't be said.
    Unknown,
    /// It was found that it did not happen; the call may be made again.
    NotHappened,
}

impl EffectState {
    /// The word, as it stands in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Started => "started",
            Self::Confirmed => "confirmed",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::NotHappened => "not_happened",
        }
    }
}

/// An effect of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct EffectInfo {
    /// The action.
    pub action: ActionId,
    /// The tool.
    pub tool: String,
    /// Its idempotency key.
    pub token: StepToken,
    /// Its name in business terms.
    pub business_key: Option<String>,
    /// What is known of it.
    pub state: EffectState,
    /// When the first try was started.
    pub started_at: Timestamp,
    /// Tries that were started.
    pub attempts: u32,
    /// Its first outcome. One that left the effect unknown gives way to a later one.
    pub outcome: Option<Outcome>,
}

/// Something wrong with a store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The run, where it concerns one.
    pub run: Option<RunId>,
    /// What is wrong.
    pub problem: String,
    /// What to do.
    pub remedy: String,
}

/// The record ids of an append, for comparing with what is there.
#[must_use]
pub fn record_ids(records: &[Record]) -> Vec<RecordId> {
    records.iter().map(|record| record.id).collect()
}
