//! For tests of stores and of what stands on them: a clock to be moved by hand, a store that fails on demand, and
//! [`samples`] of runs and records.

pub mod samples;

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ContentHash, RecordId, RunId, Seq, StepNo};
use loopforge_core::model::Amount;
use loopforge_core::payload::BlobRef;
use loopforge_core::record::Record;
use loopforge_core::time::Timestamp;
use tokio::sync::watch;

use crate::{
    AccountDay, Append, Appended, Clock, EffectInfo, Finding, Lease, Message, NewRun, Pages, Pruned, Reservation,
    Reserved, RunInfo, RunSize, StateVersion, Store, StoreError, StoredCheckpoint, Ticket, Worker,
};

/// A clock that stands still until it is moved. Clones show the same time.
#[derive(Debug, Clone)]
pub struct ManualClock(Arc<AtomicI64>);

impl ManualClock {
    /// A clock that shows `start`.
    #[must_use]
    pub fn new(start: Timestamp) -> Self {
        Self(Arc::new(AtomicI64::new(start.0)))
    }

    /// The time that it shows.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }

    /// Moves it on.
    pub fn advance(&self, span: Duration) {
        self.0.fetch_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// A clock for a store, moved by this one.
    #[must_use]
    pub fn clock(&self) -> Clock {
        let this = self.clone();
        Clock::from_fn(move || this.now())
    }
}

/// What goes wrong with one writing call (all methods of [`Store`] that write).
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Nothing goes wrong.
    None,
    /// The call fails before anything was written.
    BeforeCommit(StoreError),
    /// The call writes, and then fails: its acknowledgement is lost.
    AfterCommit(StoreError),
}

/// A store whose writing calls fail as they are told to, and whose answers to submitted appends can be held back.
#[derive(Debug)]
pub struct Faulty<S> {
    inner: S,
    faults: Mutex<VecDeque<Fault>>,
    submitted: AtomicU64,
    let_out: watch::Sender<u64>,
}

impl<S: Store> Faulty<S> {
    /// A store that does not fail yet.
    pub fn new(inner: S) -> Self {
        Self { inner, faults: Mutex::default(), submitted: AtomicU64::new(0), let_out: watch::Sender::new(u64::MAX) }
    }

    /// Lets out the answers to the first `count` appends that are submitted, and holds later ones back, as a slow disk
    /// does. What they say is done already.
    pub fn let_answers_out(&self, count: u64) {
        self.let_out.send_replace(count);
    }

    /// Plans the faults of the next writing calls, one each, after those that are planned already.
    pub fn plan(&self, faults: impl IntoIterator<Item = Fault>) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).extend(faults);
    }

    /// The store inside.
    pub fn inner(&self) -> &S {
        &self.inner
    }

    async fn write<T: Send>(&self, call: impl Future<Output = Result<T, StoreError>> + Send) -> Result<T, StoreError> {
        let fault = self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front().unwrap_or(Fault::None);
        match fault {
            Fault::None => call.await,
            Fault::BeforeCommit(error) => Err(error),
            Fault::AfterCommit(error) => {
                call.await?;
                Err(error)
            }
        }
    }
}

#[async_trait]
impl<S: Store> Store for Faulty<S> {
    async fn create_run(&self, run: NewRun, worker: &Worker) -> Result<Lease, StoreError> {
        self.write(self.inner.create_run(run, worker)).await
    }

    async fn claim_run(&self, run: RunId, worker: &Worker) -> Result<Lease, StoreError> {
        self.write(self.inner.claim_run(run, worker)).await
    }

    async fn queue_run(&self, run: NewRun) -> Result<(), StoreError> {
        self.write(self.inner.queue_run(run)).await
    }

    async fn claim_due(&self, worker: &Worker, limit: usize, except: &[RunId]) -> Result<Vec<Lease>, StoreError> {
        self.write(self.inner.claim_due(worker, limit, except)).await
    }

    async fn beat(&self, worker: &Worker) -> Result<Timestamp, StoreError> {
        self.write(self.inner.beat(worker)).await
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        self.inner.next_due().await
    }

    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<Timestamp, StoreError> {
        self.write(self.inner.renew_lease(lease, ttl)).await
    }

    async fn release_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        self.write(self.inner.release_lease(lease)).await
    }

    async fn void_lease(&self, run: RunId, worker_id: &str) -> Result<(), StoreError> {
        self.write(self.inner.void_lease(run, worker_id)).await
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Appended, StoreError> {
        self.write(self.inner.append(lease, append)).await
    }

    async fn submit(&self, lease: &Lease, append: Append) -> Ticket {
        let answer = self.append(lease, append).await;
        let number = self.submitted.fetch_add(1, Ordering::SeqCst);
        let mut let_out = self.let_out.subscribe();
        Ticket::new(async move {
            // Without the store there is nobody left who could hold it back.
            let _ = let_out.wait_for(|count| number < *count).await;
            answer
        })
    }

    async fn save_checkpoint(&self, lease: &Lease, checkpoint: StoredCheckpoint) -> Result<(), StoreError> {
        self.write(self.inner.save_checkpoint(lease, checkpoint)).await
    }

    async fn load_checkpoint(&self, run: RunId) -> Result<Option<StoredCheckpoint>, StoreError> {
        self.inner.load_checkpoint(run).await
    }

    async fn records(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError> {
        self.inner.records(run, after, limit).await
    }

    async fn step_records(&self, run: RunId, step: StepNo) -> Result<Vec<Record>, StoreError> {
        self.inner.step_records(run, step).await
    }

    async fn run(&self, run: RunId) -> Result<RunInfo, StoreError> {
        self.inner.run(run).await
    }

    async fn runs(&self, limit: usize) -> Result<Vec<RunInfo>, StoreError> {
        self.inner.runs(limit).await
    }

    async fn task(&self, task: ContentHash) -> Result<Vec<u8>, StoreError> {
        self.inner.task(task).await
    }

    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        self.inner.blob(blob).await
    }

    async fn state_value(&self, run: RunId, key: &str, at: Option<Seq>) -> Result<Option<StateValue>, StoreError> {
        self.inner.state_value(run, key, at).await
    }

    async fn state(&self, run: RunId, at: Option<Seq>) -> Result<BTreeMap<String, StateValue>, StoreError> {
        self.inner.state(run, at).await
    }

    async fn state_history(
        &self,
        run: RunId,
        key: &str,
        member: Option<&str>,
    ) -> Result<Vec<StateVersion>, StoreError> {
        self.inner.state_history(run, key, member).await
    }

    async fn effect_by_key(&self, run: RunId, business_key: &str) -> Result<Option<EffectInfo>, StoreError> {
        self.inner.effect_by_key(run, business_key).await
    }

    async fn effects(&self, run: RunId) -> Result<Vec<EffectInfo>, StoreError> {
        self.inner.effects(run).await
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        self.inner.check().await
    }

    async fn import_run(&self, run: RunInfo, task: Vec<u8>, pages: Arc<dyn Pages>) -> Result<(), StoreError> {
        self.write(self.inner.import_run(run, task, pages)).await
    }

    async fn size(&self, run: RunId) -> Result<RunSize, StoreError> {
        self.inner.size(run).await
    }

    async fn prune(&self, runs: &[RunId], apply: bool) -> Result<Pruned, StoreError> {
        self.write(self.inner.prune(runs, apply)).await
    }

    async fn reserve(&self, wanted: &Reservation) -> Result<Reserved, StoreError> {
        self.write(self.inner.reserve(wanted)).await
    }

    async fn settle(&self, run: RunId, call: u32, spent: Amount) -> Result<(), StoreError> {
        self.write(self.inner.settle(run, call, spent)).await
    }

    async fn reservations(&self, run: RunId) -> Result<Vec<(u32, Amount)>, StoreError> {
        self.inner.reservations(run).await
    }

    async fn account(&self, account: &str) -> Result<AccountDay, StoreError> {
        self.inner.account(account).await
    }

    async fn post(&self, run: RunId, message: &Message) -> Result<(), StoreError> {
        self.write(self.inner.post(run, message)).await
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Message>, StoreError> {
        self.inner.inbox(run).await
    }

    async fn taken(&self, run: RunId, ids: &[RecordId]) -> Result<(), StoreError> {
        self.write(self.inner.taken(run, ids)).await
    }

    async fn addressed(&self) -> Result<Vec<RunId>, StoreError> {
        self.inner.addressed().await
    }
}
