//! A store in one SQLite file, for one machine.
//!
//! One thread writes, a few connections read. The file, its `-wal` and its `-shm` belong together; whoever copies
//! a database that is in use copies all three, or uses `sqlite3 FILE .backup`.
//!
//! The tables stand in `migrations/sqlite/`, with views (`task_runs`, `task_steps`, `step_results`) for statistics of
//! your own: `sqlite3 FILE 'select * from task_steps'`.
//!
//! Sizes, measured for a step with a write, a decision of 300 bytes and a result of 2 KB that compresses to half: 2,660
//! bytes per step at 5,000 steps, of which 1,000 are the result, 900 the records and 400 the indexes. That is 1.4 times
//! what the same parts come to when each is compressed alone. Record bodies are compressed with a dictionary of what
//! records share (230 bytes of JSON become about 75); texts that people ask for stand in plain columns, and nowhere
//! else. Pages of 8 KiB save a tenth of that, but each commit writes whole pages: 500 runs at once get a tenth fewer
//! steps per second with them, and a fifth fewer with 16 KiB. So pages have 4 KiB.
//!
//! Flushes: a hard commit makes one, a soft one none. Writing the log back makes two more for every 2,000 pages (8
//! MiB), after the answers. Appends that were submitted wait up to 5 ms for others, so runs share flushes with each other
//! and with themselves.

mod append;
pub(crate) mod body;
mod budget;
mod check;
mod checkpoint;
pub(crate) mod content;
mod error;
mod identity;
mod import;
pub(crate) mod inbox;
mod lease;
mod log;
mod open;
mod prune;
mod queue;
mod read;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ContentHash, LeaseId, RecordId, RunId, Seq, StepNo};
use loopforge_core::model::Amount;
use loopforge_core::payload::BlobRef;
use loopforge_core::record::{Record, RunStatus};
use loopforge_core::time::Timestamp;
use uuid::Uuid;

use self::append::Batch;
use self::checkpoint::CheckpointRow;
use self::content::Content;
use self::error::Failed;
pub use self::open::{Options, sqlite_version};
use self::reader::Readers;
use self::writer::{Answer, Writer};
use crate::{
    AccountDay, Append, Appended, Clock, Day, EffectInfo, Finding, Lease, Message, NewRun, Pages, Pruned, Reservation,
    Reserved, RunInfo, RunSize, StateVersion, Store, StoreError, StoredCheckpoint, Ticket, Worker,
};

/// A store in an SQLite file. A clone is the same store; when the last one is dropped, what is waiting is written.
#[derive(Debug, Clone)]
pub struct SqliteStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    path: PathBuf,
    clock: Clock,
    // Before the writer, so that the writer closes the last connection: then SQLite puts the log away.
    readers: Readers,
    /// None: opened for looking only.
    writer: Option<Writer>,
}

impl SqliteStore {
    /// Opens the store at `path`, and makes it if there is none. The folder must be there.
    ///
    /// # Errors
    /// Nothing was changed when it is [`StoreError::NotAStore`], [`StoreError::Newer`] (a later version of LoopForge
    /// has changed it), [`StoreError::ReadOnly`], [`StoreError::Full`], [`StoreError::Corrupt`] or
    /// [`StoreError::Unavailable`] (locked for too long, or no such folder).
    pub fn open(path: &Path) -> Result<Self, StoreError> {
        Self::open_with(path, Options::default())
    }

    /// Opens the store at `path` as [`SqliteStore::open`] does, with other options.
    ///
    /// # Errors
    /// As [`SqliteStore::open`].
    pub fn open_with(path: &Path, options: Options) -> Result<Self, StoreError> {
        // Absolute, so that a process that changes its folder still finds it when it opens it again.
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let connection = open::open(&path, &options)?;
        let clock = options.clock.clone();
        let readers = Readers::new(path.clone(), options.clone());
        let writer = Writer::start(path.clone(), options, connection)
            .map_err(|error| StoreError::Unavailable(format!("the store's writer can't be started: {error}")))?;
        Ok(Self(Arc::new(Inner { path, clock, readers, writer: Some(writer) })))
    }

    /// Opens the store at `path` for looking: what writes answers [`StoreError::ReadOnly`].
    ///
    /// Works while another process writes to it, and on a disk that can't be written to. Neither the database nor
    /// anything in it is made or changed; where the folder can be written to, SQLite may leave its `-shm` and an empty
    /// `-wal` beside it.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`], [`StoreError::Newer`], [`StoreError::Corrupt`], [`StoreError::Unavailable`] (also
    /// when there is no such file).
    pub fn open_read_only(path: &Path) -> Result<Self, StoreError> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let options = Options::default();
        drop(open::open_read_only(&path, &options)?);
        let clock = options.clock.clone();
        Ok(Self(Arc::new(Inner { readers: Readers::new(path.clone(), options), path, clock, writer: None })))
    }

    /// Where the database is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0.path
    }

    async fn write<T: Send + 'static>(
        &self,
        hard: bool,
        operation: impl FnMut(&rusqlite::Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.queue(hard, true, operation).await?.await
    }

    /// Puts `operation` behind those that wait already. The answer comes after the commit; without `hurry`, when it is asked
    /// for or others come along.
    async fn queue<T: Send + 'static>(
        &self,
        hard: bool,
        hurry: bool,
        operation: impl FnMut(&rusqlite::Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<Answer<T>, StoreError> {
        match &self.0.writer {
            Some(writer) => writer.submit(hard, hurry, operation).await,
            None => Err(StoreError::ReadOnly(format!("{} was opened for looking only", self.0.path.display()))),
        }
    }

    async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&rusqlite::Connection) -> Result<T, Failed> + Send + 'static,
    ) -> Result<T, StoreError> {
        self.0.readers.run(read).await
    }
}

#[async_trait]
impl Store for SqliteStore {
    async fn create_run(&self, mut run: NewRun, worker: &Worker) -> Result<Lease, StoreError> {
        let batch = Batch::new(Seq(0), std::mem::take(&mut run.records), &run.blobs)?;
        let task = Content::of(&run.task);
        let (worker, id, clock) = (worker.clone(), LeaseId(Uuid::new_v4()), self.0.clock.clone());
        self.write(true, move |connection| {
            append::create(connection, &run, RunStatus::Running, &task, &batch)?;
            lease::claim(connection, run.id, &worker, id, clock.now())
        })
        .await
    }

    async fn queue_run(&self, mut run: NewRun) -> Result<(), StoreError> {
        let batch = Batch::new(Seq(0), std::mem::take(&mut run.records), &run.blobs)?;
        let task = Content::of(&run.task);
        self.write(true, move |connection| append::create(connection, &run, RunStatus::Queued, &task, &batch)).await
    }

    async fn claim_due(&self, worker: &Worker, limit: usize, except: &[RunId]) -> Result<Vec<Lease>, StoreError> {
        let (worker, except, clock) = (worker.clone(), except.to_vec(), self.0.clock.clone());
        // Looked for beside the writer, so that workers that find nothing hold nobody up.
        let now = clock.now();
        let due = self.read(move |connection| lease::due(connection, limit, &except, now)).await?;
        if due.is_empty() {
            return Ok(Vec::new());
        }
        self.write(true, move |connection| {
            let mut leases = Vec::new();
            for run in &due {
                match lease::claim_if_due(connection, *run, &worker, LeaseId(Uuid::new_v4()), clock.now())? {
                    Some(lease) => leases.push(lease),
                    // Another worker was quicker.
                    None => continue,
                }
            }
            Ok(leases)
        })
        .await
    }

    async fn beat(&self, worker: &Worker) -> Result<Timestamp, StoreError> {
        let (worker, clock) = (worker.clone(), self.0.clock.clone());
        self.write(false, move |connection| {
            let until = clock.now().after(worker.lease_ttl);
            lease::beat(connection, &worker.id, until).map(|()| until)
        })
        .await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(lease::next_due).await
    }

    async fn claim_run(&self, run: RunId, worker: &Worker) -> Result<Lease, StoreError> {
        let (worker, id, clock) = (worker.clone(), LeaseId(Uuid::new_v4()), self.0.clock.clone());
        self.write(true, move |connection| lease::claim(connection, run, &worker, id, clock.now())).await
    }

    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<Timestamp, StoreError> {
        let (lease, clock) = (lease.clone(), self.0.clock.clone());
        self.write(false, move |connection| {
            let until = clock.now().after(ttl);
            lease::renew(connection, &lease, until).map(|()| until)
        })
        .await
    }

    async fn release_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        let lease = lease.clone();
        self.write(false, move |connection| lease::release(connection, &lease)).await
    }

    async fn void_lease(&self, run: RunId, worker_id: &str) -> Result<(), StoreError> {
        let worker_id = worker_id.to_owned();
        self.write(true, move |connection| lease::void(connection, run, &worker_id)).await
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Appended, StoreError> {
        let mut ticket = self.submit(lease, append).await;
        ticket.hurry();
        ticket.await
    }

    async fn submit(&self, lease: &Lease, append: Append) -> Ticket {
        let (head, batch) = match append::prepare(lease, append) {
            Ok(prepared) => prepared,
            Err(error) => return Ticket::answered(Err(error)),
        };
        let (hard, clock) = (head.hard, self.0.clock.clone());
        let operation = move |connection: &rusqlite::Connection| append::append(connection, &head, &batch, clock.now());
        match self.queue(hard, false, operation).await {
            Ok(answer) => {
                let hurry = answer.hurry();
                Ticket::new(answer).on_hurry(hurry)
            }
            Err(error) => Ticket::answered(Err(error)),
        }
    }

    async fn save_checkpoint(&self, lease: &Lease, checkpoint: StoredCheckpoint) -> Result<(), StoreError> {
        let (lease, row) = (lease.clone(), CheckpointRow::new(&checkpoint));
        self.write(false, move |connection| {
            let (run, head) = lease::held(connection, &lease)?;
            if checkpoint.seq > head {
                let problem = format!("there is no record {} to keep a checkpoint of", checkpoint.seq);
                return Err(Failed::Refused(StoreError::Invalid(problem)));
            }
            row.write(connection, run)
        })
        .await
    }

    async fn load_checkpoint(&self, run: RunId) -> Result<Option<StoredCheckpoint>, StoreError> {
        self.read(move |connection| read::checkpoint(connection, run)).await
    }

    async fn records(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read(move |connection| read::records(connection, run, after, limit)).await
    }

    async fn step_records(&self, run: RunId, step: StepNo) -> Result<Vec<Record>, StoreError> {
        self.read(move |connection| read::step_records(connection, run, step)).await
    }

    async fn run(&self, run: RunId) -> Result<RunInfo, StoreError> {
        let now = self.0.clock.now();
        self.read(move |connection| read::run(connection, run, now)).await
    }

    async fn runs(&self, limit: usize) -> Result<Vec<RunInfo>, StoreError> {
        let now = self.0.clock.now();
        self.read(move |connection| read::runs(connection, limit, now)).await
    }

    async fn task(&self, task: ContentHash) -> Result<Vec<u8>, StoreError> {
        self.read(move |connection| read::task(connection, task)).await
    }

    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let hash = blob.hash;
        self.read(move |connection| read::blob(connection, hash)).await
    }

    async fn state_value(&self, run: RunId, key: &str, at: Option<Seq>) -> Result<Option<StateValue>, StoreError> {
        let key = key.to_owned();
        self.read(move |connection| read::state_value(connection, run, &key, at)).await
    }

    async fn state(&self, run: RunId, at: Option<Seq>) -> Result<BTreeMap<String, StateValue>, StoreError> {
        self.read(move |connection| read::state(connection, run, at)).await
    }

    async fn state_history(
        &self,
        run: RunId,
        key: &str,
        member: Option<&str>,
    ) -> Result<Vec<StateVersion>, StoreError> {
        let (key, member) = (key.to_owned(), member.map(str::to_owned));
        self.read(move |connection| read::state_history(connection, run, &key, member.as_deref())).await
    }

    async fn effect_by_key(&self, run: RunId, business_key: &str) -> Result<Option<EffectInfo>, StoreError> {
        let business_key = business_key.to_owned();
        self.read(move |connection| read::effect_by_key(connection, run, &business_key)).await
    }

    async fn effects(&self, run: RunId) -> Result<Vec<EffectInfo>, StoreError> {
        self.read(move |connection| read::effects(connection, run)).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        let path = self.0.path.clone();
        // What this store itself writes was judged when it was opened.
        let looks_only = self.0.writer.is_none();
        self.read(move |connection| {
            let log = if looks_only { log::check(&path) } else { None };
            Ok(log.into_iter().chain(check::check(connection)).collect())
        })
        .await
    }

    async fn import_run(&self, run: RunInfo, task: Vec<u8>, pages: Arc<dyn Pages>) -> Result<(), StoreError> {
        let content = Content::of(&task);
        self.write(true, move |connection| import::import(connection, &run, &task, &content, &*pages)).await
    }

    async fn size(&self, run: RunId) -> Result<RunSize, StoreError> {
        self.read(move |connection| prune::size(connection, run)).await
    }

    async fn prune(&self, runs: &[RunId], apply: bool) -> Result<Pruned, StoreError> {
        let (runs, clock) = (runs.to_vec(), self.0.clock.clone());
        let now = clock.now();
        let plan = self.read(move |connection| prune::plan(connection, &runs, now)).await?;
        if !apply {
            return Ok(plan.expected());
        }
        let mut pruned = Pruned::default();
        for run in plan.runs() {
            let clock = self.0.clock.clone();
            pruned += self.write(false, move |connection| prune::remove(connection, run, clock.now())).await?;
        }
        pruned += self.write(false, move |connection| prune::sweep(connection, &plan)).await?;
        Ok(pruned)
    }

    async fn reserve(&self, wanted: &Reservation) -> Result<Reserved, StoreError> {
        let (wanted, clock) = (wanted.clone(), self.0.clock.clone());
        self.write(false, move |connection| budget::reserve(connection, &wanted, clock.now())).await
    }

    async fn settle(&self, run: RunId, call: u32, spent: Amount) -> Result<(), StoreError> {
        self.write(false, move |connection| budget::settle(connection, run, call, spent)).await
    }

    async fn reservations(&self, run: RunId) -> Result<Vec<(u32, Amount)>, StoreError> {
        self.read(move |connection| budget::open(connection, run)).await
    }

    async fn account(&self, account: &str) -> Result<AccountDay, StoreError> {
        let (account, today) = (account.to_owned(), Day::of(self.0.clock.now()));
        self.read(move |connection| budget::account(connection, &account, today)).await
    }

    async fn post(&self, run: RunId, message: &Message) -> Result<(), StoreError> {
        let (id, content) = (message.id, serde_json::to_string(message).unwrap_or_default());
        self.write(true, move |connection| inbox::post(connection, run, id, &content)).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Message>, StoreError> {
        self.read(move |connection| inbox::waiting(connection, run)).await
    }

    async fn taken(&self, run: RunId, ids: &[RecordId]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.write(false, move |connection| inbox::taken(connection, run, &ids)).await
    }

    async fn addressed(&self) -> Result<Vec<RunId>, StoreError> {
        self.read(inbox::addressed).await
    }
}
