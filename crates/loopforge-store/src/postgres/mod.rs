//! A store in PostgreSQL, for many machines.
//!
//! Replication, failover and time are PostgreSQL's; ours are the statements in `append` and `lease`. The tables stand in
//! `migrations/postgres/`, in a schema of their own (`loopforge`), with views (`task_runs`, `task_steps`, `step_results`) for
//! statistics of your own: `select * from loopforge.task_steps`.
//!
//! Addresses are `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, as libpq has them: several hosts, `host=/folder` of a socket,
//! `sslmode`, `sslrootcert`. `schema=NAME` names another schema. Writing connections want the host that can be written to,
//! so an address with all hosts of a cluster survives a failover.
//!
//! A soft commit has `synchronous_commit` off: it survives this process, and is lost with the server's last moments. A hard
//! one waits for the disk, and for the replicas that `synchronous_standby_names` asks for. Claims are always hard: a lease
//! that is forgotten could be given out twice.
//!
//! Appends of all runs of a process share transactions of two round trips each; see `writer`.

mod address;
mod append;
mod budget;
mod check;
mod claims;
mod columns;
mod create;
mod effects;
mod error;
mod hints;
mod import;
mod inbox;
mod lease;
mod open;
mod pool;
mod prune;
mod read;
mod rows;
mod server;
mod text;
mod tls;
mod writer;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{ClientWrapper, Pool};
use futures_util::future::BoxFuture;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ContentHash, LeaseId, RecordId, RunId, Seq, StepNo};
use loopforge_core::model::Amount;
use loopforge_core::payload::BlobRef;
use loopforge_core::record::{Record, RunStatus};
use loopforge_core::time::Timestamp;
use tokio::sync::OnceCell;
use uuid::Uuid;

use self::address::Address;
use self::append::Item;
use self::claims::Claims;
use self::create::New;
use self::error::Failed;
pub use self::hints::PostgresHints;
use self::import::Import;
use self::pool::{Tries, settle};
use self::rows::Rows;
pub use self::server::{Durable, ServerInfo};
use self::writer::{LANES, Lanes};
use crate::dispatch::WithPolling;
use crate::sqlite::content::Content;
use crate::{
    AccountDay, Append, Appended, Clock, EffectInfo, Finding, Lease, Message, NewRun, Pages, Pruned, Reservation,
    Reserved, RunInfo, RunSize, StateVersion, Store, StoreError, StoredCheckpoint, Ticket, Worker,
};

/// Connections for what isn't an append: claims, heartbeats, new runs.
const OTHER_WRITERS: usize = 4;
/// Connections for reading.
const READERS: usize = 4;

/// How a database is used.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Options {
    /// How long an operation is tried again while the server can't be reached. 5 seconds.
    pub patience: Duration,
    /// Where the time of leases comes from, instead of the server's clock. For tests.
    pub clock: Option<Clock>,
}

impl Default for Options {
    fn default() -> Self {
        Self { patience: Duration::from_secs(5), clock: None }
    }
}

/// A store in PostgreSQL. A clone is the same store. It belongs to the runtime in which it was first used.
#[derive(Clone)]
pub struct PostgresStore(Arc<Inner>);

struct Inner {
    core: Arc<Core>,
    ready: OnceCell<()>,
    looks_only: bool,
    lanes: OnceLock<Lanes>,
    claims: Mutex<Claims>,
}

/// What all parts of a store use.
pub(crate) struct Core {
    address: Address,
    /// The address without passwords, for messages.
    place: String,
    options: Options,
    readers: Pool,
    writers: Pool,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore").field(&self.0.core.place).finish()
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

impl Core {
    /// The time, where it isn't the server's.
    fn now(&self) -> Option<i64> {
        self.options.clock.as_ref().map(|clock| clock.now().0)
    }
}

impl PostgresStore {
    /// The store at an address. Nothing is connected yet: the first operation makes the tables where there are none, and
    /// answers [`StoreError::NotAStore`], [`StoreError::Newer`] or [`StoreError::Corrupt`] where they are others.
    ///
    /// # Errors
    /// [`StoreError::NotAStore`] when the address can't be read.
    pub fn new(url: &str) -> Result<Self, StoreError> {
        Self::with(url, Options::default(), false)
    }

    /// The same with other options.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_with(url: &str, options: Options) -> Result<Self, StoreError> {
        Self::with(url, options, false)
    }

    /// The store at an address, for looking: what writes answers [`StoreError::ReadOnly`], and no tables are made. A copy
    /// that can't be written to will do.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn new_read_only(url: &str) -> Result<Self, StoreError> {
        Self::with(url, Options::default(), true)
    }

    /// Connects, and makes the tables where there are none.
    ///
    /// # Errors
    /// As [`Self::new`] says; also [`StoreError::Unavailable`], [`StoreError::ReadOnly`].
    pub async fn open(url: &str) -> Result<Self, StoreError> {
        let store = Self::new(url)?;
        store.ready().await?;
        Ok(store)
    }

    fn with(url: &str, options: Options, looks_only: bool) -> Result<Self, StoreError> {
        let address = Address::parse(url)?;
        let tls = tls::connector(&address.tls)?;
        let core = Core {
            place: address.to_string(),
            readers: pool::pool(address.for_reading(), &tls, READERS, options.patience)?,
            writers: pool::pool(address.for_writing(), &tls, LANES + OTHER_WRITERS, options.patience)?,
            address,
            options,
        };
        Ok(Self(Arc::new(Inner {
            core: Arc::new(core),
            ready: OnceCell::new(),
            looks_only,
            lanes: OnceLock::new(),
            claims: Mutex::default(),
        })))
    }

    /// Its address, without passwords.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.0.core.place
    }

    /// Hints between all processes that use this store, and a look at least every `interval`. Needs a runtime.
    #[must_use]
    pub fn dispatch(&self, interval: Duration) -> WithPolling<PostgresHints> {
        WithPolling::new(PostgresHints::start(&self.0.core), interval)
    }

    /// What the server promises, and what is in its way.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub async fn server(&self) -> Result<ServerInfo, StoreError> {
        self.read(|client, _| Box::pin(server::look(client))).await
    }

    async fn ready(&self) -> Result<(), StoreError> {
        let core = &self.0.core;
        let prepare = || async {
            let mut tries = Tries::new(core.options.patience);
            loop {
                let result = async {
                    if self.0.looks_only {
                        let connection = core.readers.get().await?;
                        let result = open::require(&connection, &core.address).await;
                        return settle(connection, result);
                    }
                    let mut connection = core.writers.get().await?;
                    let result = open::prepare(&mut connection, &core.address).await;
                    settle(connection, result)
                };
                match result.await {
                    Err(failed) if tries.again(&failed).await => {}
                    result => return result.map_err(|failed| failed.into_store_error(&core.place)),
                }
            }
        };
        self.0.ready.get_or_try_init(prepare).await.map(|_| ())
    }

    fn may_write(&self) -> Result<(), StoreError> {
        match self.0.looks_only {
            true => Err(StoreError::ReadOnly(format!("{} was opened for looking only", self.0.core.place))),
            false => Ok(()),
        }
    }

    fn lanes(&self) -> &Lanes {
        self.0.lanes.get_or_init(|| Lanes::start(&self.0.core))
    }

    /// Waits for the appends of a run that were submitted: what is called now comes behind them.
    async fn settle(&self, run: RunId) {
        if let Some(lanes) = self.0.lanes.get() {
            lanes.settle(run).await;
        }
    }

    /// Runs an operation that may be repeated, to its end, also when the caller doesn't wait for it.
    async fn write<T: Send + 'static>(
        &self,
        operation: impl for<'c> Fn(&'c ClientWrapper, Option<i64>) -> BoxFuture<'c, Result<T, Failed>>
        + Send
        + Sync
        + 'static,
    ) -> Result<T, StoreError> {
        self.may_write()?;
        self.ready().await?;
        let core = Arc::clone(&self.0.core);
        let place = core.place.clone();
        let work = tokio::spawn(async move {
            let mut tries = Tries::new(core.options.patience);
            loop {
                let result = async {
                    let connection = core.writers.get().await?;
                    let result = operation(&connection, core.now()).await;
                    if result.is_err() {
                        // It may have stopped between two statements of a transaction.
                        let _ = connection.batch_execute("rollback").await;
                    }
                    settle(connection, result)
                };
                match result.await {
                    Err(failed) if tries.again(&failed).await => {}
                    result => return result,
                }
            }
        });
        match work.await {
            Ok(result) => result.map_err(|failed| failed.into_store_error(&place)),
            Err(error) => Err(StoreError::Unavailable(format!("{place}: an operation did not end: {error}"))),
        }
    }

    async fn read<T: Send>(
        &self,
        operation: impl for<'c> Fn(&'c ClientWrapper, Option<i64>) -> BoxFuture<'c, Result<T, Failed>> + Send + Sync,
    ) -> Result<T, StoreError> {
        self.ready().await?;
        let core = &self.0.core;
        let mut tries = Tries::new(core.options.patience);
        loop {
            let result = async {
                let connection = core.readers.get().await?;
                let result = operation(&connection, core.now()).await;
                settle(connection, result)
            };
            match result.await {
                Err(failed) if tries.again(&failed).await => {}
                result => return result.map_err(|failed| failed.into_store_error(&core.place)),
            }
        }
    }

    async fn create(&self, mut run: NewRun, lease: Option<(Worker, LeaseId)>) -> Result<Option<Lease>, StoreError> {
        let rows = Rows::new(Seq(0), std::mem::take(&mut run.records), &run.blobs)?;
        run.blobs = Vec::new();
        let task = Content::of(&std::mem::take(&mut run.task));
        let new = Arc::new(New { run, task, rows, lease, tried: AtomicBool::new(false) });
        let core = Arc::clone(&self.0.core);
        self.write(move |client, now| {
            let (new, core) = (Arc::clone(&new), Arc::clone(&core));
            Box::pin(async move { create::create(client, &new, &core.address, now).await })
        })
        .await
    }
}

#[async_trait]
impl Store for PostgresStore {
    async fn create_run(&self, run: NewRun, worker: &Worker) -> Result<Lease, StoreError> {
        let id = run.id;
        let lease = self.create(run, Some((worker.clone(), LeaseId(Uuid::new_v4())))).await?;
        lease.ok_or(StoreError::NoRun(id))
    }

    async fn queue_run(&self, run: NewRun) -> Result<(), StoreError> {
        self.create(run, None).await.map(|_| ())
    }

    async fn claim_run(&self, run: RunId, worker: &Worker) -> Result<Lease, StoreError> {
        self.settle(run).await;
        let (worker, id) = (worker.clone(), LeaseId(Uuid::new_v4()));
        self.write(move |client, now| {
            let worker = worker.clone();
            Box::pin(async move { lease::claim(client, run, &worker, id, now).await })
        })
        .await
    }

    async fn claim_due(&self, worker: &Worker, limit: usize, except: &[RunId]) -> Result<Vec<Lease>, StoreError> {
        self.claim_those_due(worker, limit, except).await
    }

    async fn beat(&self, worker: &Worker) -> Result<Timestamp, StoreError> {
        let worker = worker.clone();
        self.write(move |client, now| {
            let worker = worker.clone();
            Box::pin(async move { lease::beat(client, &worker, now).await })
        })
        .await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.read(|client, _| Box::pin(lease::next_due(client))).await
    }

    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<Timestamp, StoreError> {
        self.settle(lease.run).await;
        let lease = lease.clone();
        self.write(move |client, now| {
            let lease = lease.clone();
            Box::pin(async move { lease::renew(client, &lease, ttl, now).await })
        })
        .await
    }

    async fn release_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        self.settle(lease.run).await;
        let lease = lease.clone();
        self.write(move |client, now| {
            let lease = lease.clone();
            Box::pin(async move { lease::release(client, &lease, now).await })
        })
        .await
    }

    async fn void_lease(&self, run: RunId, worker_id: &str) -> Result<(), StoreError> {
        self.settle(run).await;
        let worker_id = worker_id.to_owned();
        self.write(move |client, now| {
            let worker_id = worker_id.clone();
            Box::pin(async move { lease::void(client, run, &worker_id, now).await })
        })
        .await
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Appended, StoreError> {
        self.submit(lease, append).await.await
    }

    async fn submit(&self, lease: &Lease, append: Append) -> Ticket {
        let ready = match self.may_write() {
            Ok(()) => self.ready().await,
            refused => refused,
        };
        match ready.and_then(|()| Item::new(lease, append)) {
            Ok(item) => self.lanes().submit(item).await,
            Err(error) => Ticket::answered(Err(error)),
        }
    }

    async fn save_checkpoint(&self, lease: &Lease, checkpoint: StoredCheckpoint) -> Result<(), StoreError> {
        self.settle(lease.run).await;
        let content = Arc::new(Content::of(&checkpoint.bytes));
        let (lease, checkpoint) = (lease.clone(), StoredCheckpoint { bytes: Vec::new(), ..checkpoint });
        self.write(move |client, _| {
            let (lease, checkpoint, content) = (lease.clone(), checkpoint.clone(), Arc::clone(&content));
            Box::pin(async move { lease::save_checkpoint(client, &lease, &checkpoint, &content).await })
        })
        .await
    }

    async fn load_checkpoint(&self, run: RunId) -> Result<Option<StoredCheckpoint>, StoreError> {
        self.read(move |client, _| Box::pin(read::checkpoint(client, run))).await
    }

    async fn records(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.read(move |client, _| Box::pin(read::records(client, run, after, limit))).await
    }

    async fn step_records(&self, run: RunId, step: StepNo) -> Result<Vec<Record>, StoreError> {
        self.read(move |client, _| Box::pin(read::step_records(client, run, step))).await
    }

    async fn run(&self, run: RunId) -> Result<RunInfo, StoreError> {
        self.read(move |client, now| Box::pin(read::run(client, run, now))).await
    }

    async fn runs(&self, limit: usize) -> Result<Vec<RunInfo>, StoreError> {
        self.read(move |client, now| Box::pin(read::runs(client, limit, now))).await
    }

    async fn task(&self, task: ContentHash) -> Result<Vec<u8>, StoreError> {
        self.read(move |client, _| Box::pin(read::task(client, task))).await
    }

    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let hash = blob.hash;
        self.read(move |client, _| Box::pin(read::blob(client, hash))).await
    }

    async fn state_value(&self, run: RunId, key: &str, at: Option<Seq>) -> Result<Option<StateValue>, StoreError> {
        let name: Arc<str> = key.into();
        let mut state = self
            .read(move |client, _| {
                let name = Arc::clone(&name);
                Box::pin(async move { read::state(client, run, at, Some(&name)).await })
            })
            .await?;
        Ok(state.remove(key))
    }

    async fn state(&self, run: RunId, at: Option<Seq>) -> Result<BTreeMap<String, StateValue>, StoreError> {
        self.read(move |client, _| Box::pin(read::state(client, run, at, None))).await
    }

    async fn state_history(
        &self,
        run: RunId,
        key: &str,
        member: Option<&str>,
    ) -> Result<Vec<StateVersion>, StoreError> {
        let asked: Arc<(String, Option<String>)> = Arc::new((key.to_owned(), member.map(str::to_owned)));
        self.read(move |client, _| {
            let asked = Arc::clone(&asked);
            Box::pin(async move { read::state_history(client, run, &asked.0, asked.1.as_deref()).await })
        })
        .await
    }

    async fn effect_by_key(&self, run: RunId, business_key: &str) -> Result<Option<EffectInfo>, StoreError> {
        let key: Arc<str> = business_key.into();
        self.read(move |client, _| {
            let key = Arc::clone(&key);
            Box::pin(async move { read::effect_by_key(client, run, &key).await })
        })
        .await
    }

    async fn effects(&self, run: RunId) -> Result<Vec<EffectInfo>, StoreError> {
        self.read(move |client, _| Box::pin(read::effects(client, run))).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.read(|client, _| Box::pin(check::check(client))).await
    }

    async fn import_run(&self, run: RunInfo, task: Vec<u8>, pages: Arc<dyn Pages>) -> Result<(), StoreError> {
        let import = Arc::new(Import { content: Content::of(&task), run, text: task, pages });
        let core = Arc::clone(&self.0.core);
        self.write(move |client, now| {
            let (import, core) = (Arc::clone(&import), Arc::clone(&core));
            Box::pin(async move { import::import(client, &import, &core.address, now).await })
        })
        .await
    }

    async fn size(&self, run: RunId) -> Result<RunSize, StoreError> {
        self.read(move |client, _| Box::pin(prune::size(client, run))).await
    }

    async fn prune(&self, runs: &[RunId], apply: bool) -> Result<Pruned, StoreError> {
        let runs: Arc<[RunId]> = runs.into();
        let plan = self
            .read(move |client, now| {
                let runs = Arc::clone(&runs);
                Box::pin(async move { prune::plan(client, &runs, now).await })
            })
            .await?;
        let plan = Arc::new(plan);
        if !apply {
            return Ok(plan.expected);
        }
        let mut pruned = Pruned::default();
        for run in plan.runs.iter().copied() {
            pruned +=
                self.write(move |client, now| Box::pin(async move { prune::remove(client, run, now).await })).await?;
        }
        let core = Arc::clone(&self.0.core);
        pruned += self
            .write(move |client, _| {
                let (plan, core) = (Arc::clone(&plan), Arc::clone(&core));
                Box::pin(async move { prune::sweep(client, &plan, &core.address).await })
            })
            .await?;
        Ok(pruned)
    }

    async fn reserve(&self, wanted: &Reservation) -> Result<Reserved, StoreError> {
        let wanted = wanted.clone();
        self.write(move |client, now| {
            let wanted = wanted.clone();
            Box::pin(async move { budget::reserve(client, &wanted, now).await })
        })
        .await
    }

    async fn settle(&self, run: RunId, call: u32, spent: Amount) -> Result<(), StoreError> {
        self.write(move |client, _| Box::pin(budget::settle(client, run, call, spent))).await
    }

    async fn reservations(&self, run: RunId) -> Result<Vec<(u32, Amount)>, StoreError> {
        self.read(move |client, _| Box::pin(budget::open(client, run))).await
    }

    async fn account(&self, account: &str) -> Result<AccountDay, StoreError> {
        let account = account.to_owned();
        self.read(move |client, now| {
            let account = account.clone();
            Box::pin(async move { budget::account(client, &account, now).await })
        })
        .await
    }

    async fn post(&self, run: RunId, message: &Message) -> Result<(), StoreError> {
        let (id, content) = (message.id, serde_json::to_string(message).unwrap_or_default());
        self.write(move |client, _| {
            let content = content.clone();
            Box::pin(async move { inbox::post(client, run, id, &content).await })
        })
        .await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Message>, StoreError> {
        self.read(move |client, _| Box::pin(inbox::waiting(client, run))).await
    }

    async fn taken(&self, run: RunId, ids: &[RecordId]) -> Result<(), StoreError> {
        let ids = ids.to_vec();
        self.write(move |client, _| {
            let ids = ids.clone();
            Box::pin(async move { inbox::taken(client, run, &ids).await })
        })
        .await
    }

    async fn addressed(&self) -> Result<Vec<RunId>, StoreError> {
        self.read(move |client, _| Box::pin(inbox::addressed(client))).await
    }
}

/// The status of a run that nobody has worked on yet, or that somebody is about to.
const fn first_status(leased: bool) -> RunStatus {
    if leased { RunStatus::Running } else { RunStatus::Queued }
}
