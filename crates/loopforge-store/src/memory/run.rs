//! One run as the memory keeps it.

use std::collections::{BTreeMap, HashSet};

use loopforge_core::id::{ContentHash, LeaseId, Seq};
use loopforge_core::record::{Event, Record, RunStatus};
use loopforge_core::time::Timestamp;
use uuid::Uuid;

use super::budget::Inbox;
use super::effects::Effects;
use super::{CHECKPOINTS_KEPT, Held, Run};
use crate::{Lease, Owner, RunInfo, StateVersion, StoredCheckpoint, Worker, derive};

impl Run {
    pub(super) fn new(info: RunInfo) -> Self {
        Self {
            info: RunInfo { head: Seq(0), ..info },
            records: Vec::new(),
            state: BTreeMap::new(),
            effects: Effects::default(),
            checkpoints: BTreeMap::new(),
            epoch: 0,
            held: None,
            before: Vec::new(),
            inbox: Inbox::default(),
        }
    }

    /// The blobs to which its records refer.
    pub(super) fn blobs(&self) -> HashSet<ContentHash> {
        let mut blobs = HashSet::new();
        for record in &self.records {
            record.event.for_each_blob(&mut |blob| {
                blobs.insert(blob.hash);
            });
        }
        blobs
    }

    pub(super) fn record_bytes(&self) -> u64 {
        self.records.iter().map(|record| serde_json::to_vec(record).map_or(0, |text| text.len() as u64)).sum()
    }

    pub(super) fn holds(&self, lease: &Lease) -> bool {
        self.epoch == lease.epoch && self.held.as_ref().is_some_and(|held| held.id == lease.id)
    }

    pub(super) fn give_lease(&mut self, worker: &Worker, now: Timestamp) -> Lease {
        let id = LeaseId(Uuid::new_v4());
        let until = now.after(worker.lease_ttl);
        self.epoch += 1;
        if let Some(held) = self.held.take().filter(|held| held.worker != worker.id) {
            self.before.push(held.worker);
        }
        self.held = Some(Held { id, worker: worker.id.clone(), label: worker.label.clone(), until });
        let (head, before) = (self.info.head, self.before.clone());
        Lease { run: self.info.id, epoch: self.epoch, id, until, ttl: worker.lease_ttl, head, before }
    }

    pub(super) fn renew(&mut self, until: Timestamp) {
        if let Some(held) = &mut self.held {
            held.until = until;
        }
    }

    pub(super) fn keep(&mut self, checkpoint: StoredCheckpoint) {
        self.checkpoints.insert(checkpoint.seq, checkpoint);
        while self.checkpoints.len() > CHECKPOINTS_KEPT {
            self.checkpoints.pop_first();
        }
    }

    pub(super) fn is_held(&self, now: Timestamp) -> bool {
        self.held.as_ref().is_some_and(|held| held.until > now)
    }

    /// From when on a worker may claim it, but for leases.
    pub(super) fn ready_at(&self) -> Option<Timestamp> {
        match self.info.status {
            RunStatus::Queued | RunStatus::Running => Some(self.info.updated_at),
            RunStatus::Waiting => self.info.wake_at,
            RunStatus::Paused | RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled => None,
        }
    }

    pub(super) fn look(&self, now: Timestamp) -> RunInfo {
        let owner = self.held.as_ref().filter(|held| held.until > now);
        let owner = owner.map(|held| Owner { id: held.worker.clone(), label: held.label.clone(), until: held.until });
        RunInfo { owner, ..self.info.clone() }
    }

    pub(super) fn push(&mut self, records: Vec<Record>) {
        for record in records {
            if let Event::StateSaved(saved) = &record.event {
                self.state.entry(saved.key.clone()).or_default().push(StateVersion {
                    member: saved.member.clone(),
                    seq: record.seq,
                    at: record.at,
                    value: saved.value.clone(),
                });
            }
            if let Some(task) = derive::changed_task(&record.event) {
                self.info.task = task;
            }
            self.info.head = record.seq;
            self.records.push(record);
        }
    }
}
