//! A store that keeps everything in memory, for simulation and tests.
//!
//! It does what [`crate::Store`] says, as a store on disk does it, but for one thing: with the process everything is
//! gone. So [`Durability`](crate::Durability) makes no difference here.

mod budget;
pub(crate) mod effects;
mod run;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{ContentHash, LeaseId, RecordId, RunId, Seq, StepNo};
use loopforge_core::model::Amount;
use loopforge_core::payload::{Blob, BlobRef};
use loopforge_core::record::{Record, RunStatus};
use loopforge_core::time::Timestamp;

use self::budget::{Budgets, Inbox};
use self::effects::{Changes, Draft, Effects, Tokens};
use crate::derive;
use crate::{
    AccountDay, Append, Appended, Clock, Day, EffectInfo, Finding, Lease, Message, NewRun, Page, Pages, Pruned,
    Reservation, Reserved, RunInfo, RunSize, StateVersion, Store, StoreError, StoredCheckpoint, Worker,
};

/// How many checkpoints of a run are kept.
pub(crate) const CHECKPOINTS_KEPT: usize = 2;

/// A store in memory. A clone is a second handle on the same content.
#[derive(Debug, Clone, Default)]
pub struct MemoryStore {
    content: Arc<Mutex<Content>>,
    clock: Clock,
}

#[derive(Debug, Clone, Default)]
struct Content {
    runs: BTreeMap<RunId, Run>,
    tasks: HashMap<ContentHash, Vec<u8>>,
    blobs: HashMap<ContentHash, Arc<[u8]>>,
    tokens: Tokens,
    budgets: Budgets,
}

#[derive(Debug, Clone)]
struct Run {
    /// Its owner is only set when it is looked at, since a lease runs out by itself.
    info: RunInfo,
    records: Vec<Record>,
    state: BTreeMap<String, Vec<StateVersion>>,
    effects: Effects,
    checkpoints: BTreeMap<Seq, StoredCheckpoint>,
    epoch: u64,
    held: Option<Held>,
    /// Workers that let their lease run out, since the last append.
    before: Vec<String>,
    inbox: Inbox,
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

    /// Removes `runs`, and what nobody needs then.
    fn prune(&mut self, runs: &[RunId]) -> Pruned {
        let mut pruned = Pruned::default();
        for run in runs.iter().filter_map(|run| self.runs.remove(run)) {
            pruned.runs += 1;
            pruned.records += run.records.len() as u64;
            pruned.bytes += run.record_bytes();
            drop_checkpoints(run.checkpoints, 0, &mut pruned);
            self.tokens.retain(|_, (user, _)| *user != run.info.id);
            self.budgets.forget(run.info.id);
        }
        for run in self.runs.values_mut().filter(|run| run.info.status.is_final()) {
            run.checkpoints = drop_checkpoints(std::mem::take(&mut run.checkpoints), 1, &mut pruned);
        }
        let needed: HashSet<ContentHash> = self.runs.values().flat_map(Run::blobs).collect();
        let tasks: HashSet<ContentHash> = self.runs.values().map(|run| run.info.task).collect();
        self.blobs.retain(|hash, bytes| {
            let keep = needed.contains(hash);
            pruned.blobs += u64::from(!keep);
            pruned.bytes += if keep { 0 } else { bytes.len() as u64 };
            keep
        });
        self.tasks.retain(|hash, text| {
            let keep = tasks.contains(hash);
            pruned.tasks += u64::from(!keep);
            pruned.bytes += if keep { 0 } else { text.len() as u64 };
            keep
        });
        pruned
    }

    /// Keeps the texts of tasks that `records` change to. They are among the blobs.
    fn add_tasks(&mut self, records: &[Record]) {
        for task in records.iter().filter_map(|record| derive::changed_task(&record.event)) {
            if let Some(text) = self.blobs.get(&task) {
                self.tasks.insert(task, text.to_vec());
            }
        }
    }

    fn create(&mut self, new: NewRun, status: RunStatus) -> Result<(), StoreError> {
        if self.runs.contains_key(&new.id) {
            return Err(StoreError::Exists(new.id));
        }
        derive::check_sequence(Seq(0), &new.records)?;
        self.check_blobs(&new.records, &new.blobs)?;
        let task = ContentHash::of(&new.task);
        let mut run = Run::new(RunInfo {
            id: new.id,
            name: new.name,
            task,
            workspace: new.workspace,
            base: new.base,
            status,
            head: Seq(0),
            steps: 0,
            created_at: new.at,
            updated_at: new.at,
            wake_at: None,
            owner: None,
        });
        let changes = draft(new.id, &run.effects, &self.tokens, &new.records)?;
        run.effects.accept(changes, &mut self.tokens, new.id);
        run.push(new.records);
        self.tasks.insert(task, new.task);
        self.add_blobs(&new.blobs);
        self.runs.insert(new.id, run);
        Ok(())
    }

    fn add_blobs(&mut self, blobs: &[Blob]) {
        for blob in blobs {
            self.blobs.entry(blob.reference.hash).or_insert_with(|| Arc::clone(&blob.bytes));
        }
    }
}

/// Drops all checkpoints but for the `kept` newest.
fn drop_checkpoints(
    mut checkpoints: BTreeMap<Seq, StoredCheckpoint>,
    kept: usize,
    pruned: &mut Pruned,
) -> BTreeMap<Seq, StoredCheckpoint> {
    while checkpoints.len() > kept
        && let Some((_, dropped)) = checkpoints.pop_first()
    {
        pruned.checkpoints += 1;
        pruned.bytes += dropped.bytes.len() as u64;
    }
    checkpoints
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
        let (now, id) = (self.clock.now(), new.id);
        let mut content = self.content();
        content.create(new, RunStatus::Running)?;
        Ok(content.run_mut(id)?.give_lease(worker, now))
    }

    async fn queue_run(&self, run: NewRun) -> Result<(), StoreError> {
        self.content().create(run, RunStatus::Queued)
    }

    async fn claim_due(&self, worker: &Worker, limit: usize, except: &[RunId]) -> Result<Vec<Lease>, StoreError> {
        let now = self.clock.now();
        let mut content = self.content();
        let mut due: Vec<(Timestamp, RunId)> = content
            .runs
            .values()
            .filter(|run| !run.is_held(now) && !except.contains(&run.info.id))
            .filter_map(|run| Some((run.ready_at()?, run.info.id)))
            .filter(|(ready, _)| *ready <= now)
            .collect();
        due.sort_unstable();
        due.truncate(limit);
        due.into_iter().map(|(_, run)| Ok(content.run_mut(run)?.give_lease(worker, now))).collect()
    }

    async fn beat(&self, worker: &Worker) -> Result<Timestamp, StoreError> {
        let until = self.clock.now().after(worker.lease_ttl);
        let mut content = self.content();
        for run in content.runs.values_mut() {
            if let Some(held) = run.held.as_mut().filter(|held| held.worker == worker.id) {
                held.until = held.until.max(until);
            }
        }
        Ok(until)
    }

    async fn next_due(&self) -> Result<Option<Timestamp>, StoreError> {
        let content = self.content();
        let due = |run: &Run| {
            let ready = run.ready_at()?;
            Some(run.held.as_ref().map_or(ready, |held| held.until))
        };
        Ok(content.runs.values().filter_map(due).min())
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
        if let Some(checkpoint) = &append.checkpoint {
            derive::check_checkpoint(checkpoint, &append.records)?;
        }
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
        content.add_tasks(&append.records);
        let run = content.runs.get_mut(&lease.run).ok_or(StoreError::NoRun(lease.run))?;
        run.effects.accept(changes, &mut content.tokens, lease.run);
        run.push(append.records);
        run.before.clear();
        run.renew(now.after(lease.ttl));
        run.info.status = append.status;
        run.info.steps = append.steps;
        run.info.wake_at = append.wake_at;
        run.info.updated_at = now;
        if let Some(checkpoint) = append.checkpoint {
            run.keep(checkpoint);
        }
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
        run.keep(checkpoint);
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

    async fn import_run(&self, info: RunInfo, task: Vec<u8>, pages: Arc<dyn Pages>) -> Result<(), StoreError> {
        let mut all = Page::default();
        let mut number = 0;
        while let Some(page) = pages.page(number)? {
            derive::check_sequence(Seq(all.records.len() as u64), &page.records)?;
            all.records.extend(page.records);
            all.blobs.extend(page.blobs);
            number += 1;
        }
        let last = derive::first_task(&all.records)?;
        let last = all.records.iter().rev().find_map(|record| derive::changed_task(&record.event)).unwrap_or(last);
        derive::check_imported(&info, Seq(all.records.len() as u64), last, &task)?;
        let mut guard = self.content();
        let content = &mut *guard;
        if content.runs.contains_key(&info.id) {
            return Err(StoreError::Exists(info.id));
        }
        content.check_blobs(&all.records, &all.blobs)?;
        let mut run = Run::new(RunInfo { owner: None, ..info });
        let changes = draft(run.info.id, &run.effects, &content.tokens, &all.records)?;
        run.effects.accept(changes, &mut content.tokens, run.info.id);
        content.add_blobs(&all.blobs);
        content.add_tasks(&all.records);
        run.push(all.records);
        content.tasks.insert(run.info.task, task);
        content.runs.insert(run.info.id, run);
        Ok(())
    }

    async fn size(&self, run: RunId) -> Result<RunSize, StoreError> {
        let content = self.content();
        let run = content.run(run)?;
        let blobs = run.blobs();
        Ok(RunSize {
            records: run.record_bytes(),
            blobs: blobs.iter().filter_map(|blob| content.blobs.get(blob)).map(|bytes| bytes.len() as u64).sum(),
            checkpoints: run.checkpoints.values().map(|kept| kept.bytes.len() as u64).sum(),
        })
    }

    async fn prune(&self, runs: &[RunId], apply: bool) -> Result<Pruned, StoreError> {
        let now = self.clock.now();
        let mut guard = self.content();
        for run in runs {
            derive::check_removable(&guard.run(*run)?.look(now))?;
        }
        // Without `apply` the same is done to a copy.
        let mut copy = Content::default();
        let content = if apply {
            &mut *guard
        } else {
            copy.clone_from(&guard);
            &mut copy
        };
        Ok(content.prune(runs))
    }

    async fn reserve(&self, wanted: &Reservation) -> Result<Reserved, StoreError> {
        let now = self.clock.now();
        let mut content = self.content();
        content.run(wanted.run)?;
        Ok(content.budgets.reserve(wanted, now))
    }

    async fn settle(&self, run: RunId, call: u32, spent: Amount) -> Result<(), StoreError> {
        let mut content = self.content();
        content.run(run)?;
        content.budgets.settle(run, call, spent);
        Ok(())
    }

    async fn reservations(&self, run: RunId) -> Result<Vec<(u32, Amount)>, StoreError> {
        let content = self.content();
        content.run(run)?;
        Ok(content.budgets.open(run))
    }

    async fn account(&self, account: &str) -> Result<AccountDay, StoreError> {
        Ok(self.content().budgets.account(account, Day::of(self.clock.now())))
    }

    async fn post(&self, run: RunId, message: &Message) -> Result<(), StoreError> {
        let mut content = self.content();
        let known = content.runs.values().any(|run| run.inbox.has(message.id));
        let run = content.run_mut(run)?;
        if !known {
            run.inbox.post(message);
        }
        Ok(())
    }

    async fn inbox(&self, run: RunId) -> Result<Vec<Message>, StoreError> {
        Ok(self.content().run(run)?.inbox.waiting())
    }

    async fn taken(&self, run: RunId, ids: &[RecordId]) -> Result<(), StoreError> {
        self.content().run_mut(run)?.inbox.taken(ids);
        Ok(())
    }

    async fn addressed(&self) -> Result<Vec<RunId>, StoreError> {
        Ok(self.content().runs.iter().filter(|(_, run)| !run.inbox.is_empty()).map(|(run, _)| *run).collect())
    }
}
