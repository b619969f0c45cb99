//! A store that keeps everything in memory, for simulation and tests.
//!
//! It does what [`crate::Store`] says, as a store on disk does it, but for one thing: with the process everything is
//! gone. So [`Durability`](crate::Durability) makes no difference here.

pub(crate) mod effects;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ContentHash, LeaseId, RunId, Seq, StepNo};
use loopforge_core::payload::{Blob, BlobRef};
use loopforge_core::record::{Event, Record, RunStatus};
use loopforge_core::time::Timestamp;
use uuid::Uuid;

use self::effects::{Changes, Draft, Effects, Tokens};
use crate::derive;
use crate::{
    Append, Appended, Clock, EffectInfo, Finding, Lease, NewRun, Owner, RunInfo, StateVersion, Store, StoreError,
    StoredCheckpoint, Worker,
};

/// How many checkpoints of a run are kept.
pub(crate) const CHECKPOINTS_KEPT: usize = 2;

/// A store in memory. A clone is a second handle on the same content.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
    clock: Clock,
}

#[derive(Debug, Default)]
struct Content {
    runs: BTreeMap<RunId, Run>,
    tasks: HashMap<ContentHash, Vec<u8>>,
    blobs: HashMap<ContentHash, Arc<[u8]>>,
    tokens: Tokens,
}

#[derive(Debug)]
struct Run {
    /// Its owner is only set when it is looked at, since a lease runs out by itself.
    info: RunInfo,
    records: Vec<Record>,
    state: BTreeMap<String, Vec<StateVersion>>,
    effects: Effects,
    checkpoints: BTreeMap<Seq, StoredCheckpoint>,
    epoch: u64,
    held: Option<Held>,
}

#[derive(Debug, Clone)]
struct Held {
    id: LeaseId,
    worker: String,
    label: String,
    until: Timestamp,
}

impl MemoryStore {
    /// An empty store with the machine's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty store whose leases run by `clock`.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self { content: Arc::default(), clock }
    }

    fn content(&self) -> MutexGuard<'_, Content> {
        // A panic under the lock can only be a bug in a test's callback; the content itself is replaced as a whole.
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Content {
    fn run(&self, run: RunId) -> Result<&Run, StoreError> {
        self.runs.get(&run).ok_or(StoreError::NoRun(run))
    }

    fn run_mut(&mut self, run: RunId) -> Result<&mut Run, StoreError> {
        self.runs.get_mut(&run).ok_or(StoreError::NoRun(run))
    }

    fn check_blobs(&self, records: &[Record], blobs: &[Blob]) -> Result<(), StoreError> {
        match derive::blobs_elsewhere(records, blobs).iter().find(|hash| !self.blobs.contains_key(hash)) {
            Some(hash) => Err(derive::missing_blob(hash)),
            None => Ok(()),
        }
    }

    fn add_blobs(&mut self, blobs: &[Blob]) {
        for blob in blobs {
            self.blobs.entry(blob.reference.hash).or_insert_with(|| Arc::clone(&blob.bytes));
        }
    }
}

impl Run {
    fn holds(&self, lease: &Lease) -> bool {
        self.epoch == lease.epoch && self.held.as_ref().is_some_and(|held| held.id == lease.id)
    }

    fn give_lease(&mut self, worker: &Worker, now: Timestamp) -> Lease {
        let id = LeaseId(Uuid::new_v4());
        let until = now.after(worker.lease_ttl);
        self.epoch += 1;
        self.held = Some(Held { id, worker: worker.id.clone(), label: worker.label.clone(), until });
        Lease { run: self.info.id, epoch: self.epoch, id, until, ttl: worker.lease_ttl, head: self.info.head }
    }

    fn renew(&mut self, until: Timestamp) {
        if let Some(held) = &mut self.held {
            held.until = until;
        }
    }

    fn look(&self, now: Timestamp) -> RunInfo {
        let owner = self.held.as_ref().filter(|held| held.until > now);
        let owner = owner.map(|held| Owner { id: held.worker.clone(), label: held.label.clone(), until: held.until });
        RunInfo { owner, ..self.info.clone() }
    }

    fn push(&mut self, records: Vec<Record>) {
        for record in records {
            if let Event::StateSaved(saved) = &record.event {
                self.state.entry(saved.key.clone()).or_default().push(StateVersion {
                    member: saved.member.clone(),
                    seq: record.seq,
                    at: record.at,
                    value: saved.value.clone(),
                });
            }
            self.info.head = record.seq;
            self.records.push(record);
        }
    }
}

/// What `records` change in the effects, or why they can't be appended.
fn draft(run: RunId, effects: &Effects, tokens: &Tokens, records: &[Record]) -> Result<Changes, StoreError> {
    let mut draft = Draft { run, effects, tokens, changes: Changes::default() };
    records.iter().try_for_each(|record| draft.add(record))?;
    Ok(draft.changes)
}

/// The value of a key from its versions, the oldest first.
pub(crate) fn fold_versions(versions: impl IntoIterator<Item = StateVersion>) -> Option<StateValue> {
    let mut value = None;
    for version in versions {
        value = Some(match (value, version.member) {
            (_, None) => StateValue::Single(version.value),
            (Some(StateValue::Members(mut members)), Some(member)) => {
                members.insert(member, version.value);
                StateValue::Members(members)
            }
            (_, Some(member)) => StateValue::Members(BTreeMap::from([(member, version.value)])),
        });
    }
    value
}

fn up_to(versions: &[StateVersion], at: Option<Seq>) -> impl Iterator<Item = StateVersion> {
    versions.iter().filter(move |version| at.is_none_or(|at| version.seq <= at)).cloned()
}

#[async_trait]
impl Store for MemoryStore {
    async fn create_run(&self, new: NewRun, worker: &Worker) -> Result<Lease, StoreError> {
        let now = self.clock.now();
        let mut guard = self.content();
        let content = &mut *guard;
        if content.runs.contains_key(&new.id) {
            return Err(StoreError::Exists(new.id));
        }
        derive::check_sequence(Seq(0), &new.records)?;
        content.check_blobs(&new.records, &new.blobs)?;
        let task = ContentHash::of(&new.task);
        let mut run = Run {
            info: RunInfo {
                id: new.id,
                name: new.name,
                task,
                workspace: new.workspace,
                base: new.base,
                status: RunStatus::Running,
                head: Seq(0),
                steps: 0,
                created_at: new.at,
                updated_at: new.at,
                wake_at: None,
                owner: None,
            },
            records: Vec::new(),
            state: BTreeMap::new(),
            effects: Effects::default(),
            checkpoints: BTreeMap::new(),
            epoch: 0,
            held: None,
        };
        let changes = draft(new.id, &run.effects, &content.tokens, &new.records)?;
        run.effects.accept(changes, &mut content.tokens, new.id);
        run.push(new.records);
        let lease = run.give_lease(worker, now);
        content.tasks.insert(task, new.task);
        content.add_blobs(&new.blobs);
        content.runs.insert(new.id, run);
        Ok(lease)
    }

    async fn claim_run(&self, run: RunId, worker: &Worker) -> Result<Lease, StoreError> {
        let now = self.clock.now();
        let mut content = self.content();
        let found = content.run_mut(run)?;
        if let Some(held) = found.held.as_ref().filter(|held| held.until > now && held.worker != worker.id) {
            let (owner, worker_id) = (held.label.clone(), held.worker.clone());
            return Err(StoreError::Held { run, owner, worker_id, until: held.until });
        }
        Ok(found.give_lease(worker, now))
    }

    async fn renew_lease(&self, lease: &Lease, ttl: Duration) -> Result<Timestamp, StoreError> {
        let until = self.clock.now().after(ttl);
        let mut content = self.content();
        let run = content.run_mut(lease.run)?;
        if !run.holds(lease) {
            return Err(StoreError::LeaseLost(lease.run));
        }
        run.renew(until);
        Ok(until)
    }

    async fn release_lease(&self, lease: &Lease) -> Result<(), StoreError> {
        let mut content = self.content();
        if let Some(run) = content.runs.get_mut(&lease.run).filter(|run| run.holds(lease)) {
            run.held = None;
        }
        Ok(())
    }

    async fn void_lease(&self, run: RunId, worker_id: &str) -> Result<(), StoreError> {
        let mut content = self.content();
        if let Some(run) = content.runs.get_mut(&run)
            && run.held.as_ref().is_some_and(|held| held.worker == worker_id)
        {
            run.held = None;
        }
        Ok(())
    }

    async fn append(&self, lease: &Lease, append: Append) -> Result<Appended, StoreError> {
        derive::check_sequence(append.expected_head, &append.records)?;
        let now = self.clock.now();
        let mut guard = self.content();
        let content = &mut *guard;
        let run = content.run(lease.run)?;
        if !run.holds(lease) || run.info.head != append.expected_head {
            let first = usize::try_from(append.expected_head.0).unwrap_or(usize::MAX);
            let there = run.records.get(first..).unwrap_or_default().iter().map(|record| record.id);
            let mine = there.take(append.records.len()).eq(append.records.iter().map(|record| record.id));
            return Ok(if mine { Appended::AlreadyMine } else { Appended::Fenced });
        }
        content.check_blobs(&append.records, &append.blobs)?;
        let changes = draft(lease.run, &run.effects, &content.tokens, &append.records)?;
        content.add_blobs(&append.blobs);
        let run = content.runs.get_mut(&lease.run).ok_or(StoreError::NoRun(lease.run))?;
        run.effects.accept(changes, &mut content.tokens, lease.run);
        run.push(append.records);
        run.renew(now.after(lease.ttl));
        run.info.status = append.status;
        run.info.steps = append.steps;
        run.info.wake_at = append.wake_at;
        run.info.updated_at = now;
        Ok(Appended::Written)
    }

    async fn save_checkpoint(&self, lease: &Lease, checkpoint: StoredCheckpoint) -> Result<(), StoreError> {
        let mut content = self.content();
        let run = content.run_mut(lease.run)?;
        if !run.holds(lease) {
            return Err(StoreError::LeaseLost(lease.run));
        }
        if checkpoint.seq > run.info.head {
            return Err(StoreError::Invalid(format!("there is no record {} to keep a checkpoint of", checkpoint.seq)));
        }
        run.checkpoints.insert(checkpoint.seq, checkpoint);
        while run.checkpoints.len() > CHECKPOINTS_KEPT {
            run.checkpoints.pop_first();
        }
        Ok(())
    }

    async fn load_checkpoint(&self, run: RunId) -> Result<Option<StoredCheckpoint>, StoreError> {
        Ok(self.content().run(run)?.checkpoints.values().next_back().cloned())
    }

    async fn records(&self, run: RunId, after: Seq, limit: usize) -> Result<Vec<Record>, StoreError> {
        let content = self.content();
        let records = content.runs.get(&run).map(|run| run.records.as_slice()).unwrap_or_default();
        let first = usize::try_from(after.0).unwrap_or(usize::MAX).min(records.len());
        Ok(records[first..].iter().take(limit).cloned().collect())
    }

    async fn step_records(&self, run: RunId, step: StepNo) -> Result<Vec<Record>, StoreError> {
        let content = self.content();
        let records = content.runs.get(&run).map(|run| run.records.as_slice()).unwrap_or_default();
        Ok(records.iter().filter(|record| record.event.step() == Some(step)).cloned().collect())
    }

    async fn run(&self, run: RunId) -> Result<RunInfo, StoreError> {
        Ok(self.content().run(run)?.look(self.clock.now()))
    }

    async fn runs(&self, limit: usize) -> Result<Vec<RunInfo>, StoreError> {
        let now = self.clock.now();
        let content = self.content();
        let mut runs: Vec<RunInfo> = content.runs.values().map(|run| run.look(now)).collect();
        runs.sort_by_key(|run| std::cmp::Reverse((run.created_at, run.id)));
        runs.truncate(limit);
        Ok(runs)
    }

    async fn task(&self, task: ContentHash) -> Result<Vec<u8>, StoreError> {
        self.content().tasks.get(&task).cloned().ok_or_else(|| StoreError::Corrupt(format!("task {task} is missing")))
    }

    async fn blob(&self, blob: &BlobRef) -> Result<Vec<u8>, StoreError> {
        let content = self.content();
        let bytes = content.blobs.get(&blob.hash);
        bytes.map(|bytes| bytes.to_vec()).ok_or_else(|| StoreError::Corrupt(format!("blob {} is missing", blob.hash)))
    }

    async fn state_value(&self, run: RunId, key: &str, at: Option<Seq>) -> Result<Option<StateValue>, StoreError> {
        let content = self.content();
        Ok(content.run(run)?.state.get(key).and_then(|versions| fold_versions(up_to(versions, at))))
    }

    async fn state(&self, run: RunId, at: Option<Seq>) -> Result<BTreeMap<String, StateValue>, StoreError> {
        let content = self.content();
        let keys = content.run(run)?.state.iter();
        Ok(keys.filter_map(|(key, versions)| Some((key.clone(), fold_versions(up_to(versions, at))?))).collect())
    }

    async fn state_history(
        &self,
        run: RunId,
        key: &str,
        member: Option<&str>,
    ) -> Result<Vec<StateVersion>, StoreError> {
        let content = self.content();
        let versions = content.run(run)?.state.get(key).map(Vec::as_slice).unwrap_or_default();
        let wanted = |version: &&StateVersion| member.is_none() || version.member.as_deref() == member;
        Ok(versions.iter().filter(wanted).cloned().collect())
    }

    async fn effect_by_key(&self, run: RunId, business_key: &str) -> Result<Option<EffectInfo>, StoreError> {
        let content = self.content();
        Ok(content.run(run)?.effects.holder(business_key).cloned())
    }

    async fn effects(&self, run: RunId) -> Result<Vec<EffectInfo>, StoreError> {
        Ok(self.content().run(run)?.effects.all().cloned().collect())
    }

    async fn check(&self) -> Result<Vec<Finding>, StoreError> {
        // There is nothing on a disk that could have rotted, and the methods above keep the rest.
        Ok(Vec::new())
    }
}
