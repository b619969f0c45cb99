//! What follows from a record for the tables beside the archive, said once for all backends.

use std::collections::BTreeSet;

use loopforge_core::id::{ContentHash, Seq, StepToken};
use loopforge_core::payload::{Blob, BlobRef};
use loopforge_core::record::{ActionId, Event, Record};
use loopforge_core::tool::Code;

use crate::{EffectState, RunInfo, StoreError, StoredCheckpoint};

/// What an event says about an effect.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum EffectNews {
    /// A call was started.
    Started { tool: String, token: StepToken, business_key: Option<String>, attempt: u32 },
    /// A call of the action ended. Says nothing when the action has no effect row: then it is a read. `unknown`: the
    /// outcome doesn't say whether it happened.
    Finished { code: Code, unknown: bool },
    /// It can't be said whether it happened.
    Unknown,
    /// It did not happen.
    NotHappened,
}

impl EffectNews {
    /// What `event` says, and of which action.
    pub(crate) fn of(event: &Event) -> Option<(ActionId, Self)> {
        match event {
            Event::ActionStarted(started) => Some((
                started.id,
                Self::Started {
                    tool: started.tool.clone(),
                    token: started.token.clone(),
                    business_key: started.business_key.clone(),
                    attempt: started.attempt,
                },
            )),
            Event::ActionFinished(finished) => Some((
                finished.id,
                Self::Finished { code: finished.result.code, unknown: finished.result.leaves_effect_unknown() },
            )),
            Event::ActionUnknown(unknown) => Some((unknown.id, Self::Unknown)),
            Event::ActionNotHappened(not) => Some((not.id, Self::NotHappened)),
            _ => None,
        }
    }

    /// The state of the effect after this.
    pub(crate) const fn state(&self) -> EffectState {
        match self {
            Self::Started { .. } => EffectState::Started,
            Self::Finished { code: Code::Success, .. } => EffectState::Confirmed,
            Self::Finished { unknown: true, .. } => EffectState::Unknown,
            Self::Finished { .. } => EffectState::Failed,
            Self::Unknown => EffectState::Unknown,
            Self::NotHappened => EffectState::NotHappened,
        }
    }
}

impl EffectState {
    /// Whether an effect in this state holds its business key: it happened, or may have.
    #[must_use]
    pub const fn holds_key(self) -> bool {
        matches!(self, Self::Started | Self::Unknown | Self::Confirmed)
    }

    /// The state of that word.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Started, Self::Confirmed, Self::Failed, Self::Unknown, Self::NotHappened]
            .into_iter()
            .find(|state| state.name() == name)
    }
}

/// Checks that records follow `head` without a gap.
pub(crate) fn check_sequence(head: Seq, records: &[Record]) -> Result<(), StoreError> {
    if records.is_empty() {
        return Err(StoreError::Invalid("there are no records to append".to_owned()));
    }
    for (expected, record) in (head.0 + 1..).zip(records) {
        if record.seq.0 != expected {
            return Err(StoreError::Invalid(format!("record {} stands where {expected} belongs", record.seq)));
        }
    }
    Ok(())
}

/// Checks that a checkpoint is of the last of the records with which it comes.
pub(crate) fn check_checkpoint(checkpoint: &StoredCheckpoint, records: &[Record]) -> Result<(), StoreError> {
    if records.last().is_some_and(|last| last.seq == checkpoint.seq) {
        return Ok(());
    }
    Err(StoreError::Invalid(format!(
        "a checkpoint of record {} comes with an append that ends elsewhere",
        checkpoint.seq
    )))
}

/// The blobs that `records` refer to and that don't come with them: they must be stored already.
pub(crate) fn blobs_elsewhere(records: &[Record], with_them: &[Blob]) -> BTreeSet<ContentHash> {
    let mut wanted = BTreeSet::new();
    for record in records {
        record.event.for_each_blob(&mut |blob: &BlobRef| {
            wanted.insert(blob.hash);
        });
    }
    for blob in with_them {
        wanted.remove(&blob.reference.hash);
    }
    wanted
}

/// The task that a run has after `event`, where it changes it. Its text is the blob of that hash.
pub(crate) fn changed_task(event: &Event) -> Option<ContentHash> {
    match event {
        Event::ChangesAccepted(accepted) => accepted.task.as_ref().map(|change| change.to.hash),
        _ => None,
    }
}

/// What a run to be imported must be like in the end.
pub(crate) fn check_imported(run: &RunInfo, head: Seq, task: ContentHash, text: &[u8]) -> Result<(), StoreError> {
    let wrong = |what: String| Err(StoreError::Invalid(format!("{}: {what}; nothing was imported", run.id)));
    if head != run.head {
        return wrong(format!("its records end at {head}, and it says that they end at {}", run.head));
    }
    if task != run.task || ContentHash::of(text) != run.task {
        return wrong("the task is another than its records say".to_owned());
    }
    Ok(())
}

/// The task that a run begins with.
pub(crate) fn first_task(records: &[Record]) -> Result<ContentHash, StoreError> {
    match records.first().map(|record| &record.event) {
        Some(Event::RunStarted(started)) => Ok(started.task),
        _ => Err(StoreError::Invalid("the first record is not `run_started`".to_owned())),
    }
}

/// Nobody may take away what a run that isn't over needs.
pub(crate) fn check_removable(run: &RunInfo) -> Result<(), StoreError> {
    if let Some(owner) = &run.owner {
        return Err(StoreError::Held {
            run: run.id,
            owner: owner.label.clone(),
            worker_id: owner.id.clone(),
            until: owner.until,
        });
    }
    if !run.status.is_final() {
        let problem = format!("{} is {}: only a run that has ended can be removed", run.id, run.status);
        return Err(StoreError::Invalid(problem));
    }
    Ok(())
}

/// Every try of an action has the same token: by it the target knows a repeat.
pub(crate) fn another_token(action: ActionId) -> StoreError {
    StoreError::Invalid(format!("action {action} was started with another step token before"))
}

pub(crate) fn missing_blob(hash: &ContentHash) -> StoreError {
    StoreError::Invalid(format!("blob {hash} is neither in the append nor in the store"))
}
