//! A run goes on although its task, or LoopForge, is another than before (R83).

use std::sync::Arc;

use loopforge_core::payload::{Blob, BlobKind};
use loopforge_core::record::{ChangesAccepted, Event, TaskChange, VersionChange};
use loopforge_core::run::{Draft, is_compatible};

use crate::VERSION;
use crate::driver::Run;
use crate::engine::{Engine, TaskText};
use crate::error::{ChangedTask, EngineError};
use crate::prepare::Prepared;

impl Engine {
    /// Compares what a run goes on with with what it had. Returns the record that says what `by` accepts, if there is anything to
    /// accept, and gives the run its other task.
    pub(crate) async fn accept(
        &self,
        run: &mut Run,
        text: Option<TaskText>,
        by: Option<String>,
    ) -> Result<Option<Draft>, EngineError> {
        let version = other_version(&run.state().version);
        let other = match text {
            Some(text) => self.other_task(run, text).await?,
            None => None,
        };
        if version.is_none() && other.is_none() {
            return Ok(None);
        }
        let refused = other.as_ref().is_some_and(|(changed, _)| !changed.difference.refusals.is_empty());
        let Some(by) = by.filter(|_| !refused) else {
            let task = other.map(|(changed, _)| Box::new(changed));
            return Err(EngineError::Changed { run: run.id(), version, task });
        };
        let mut blobs = Vec::new();
        let task = other.map(|(changed, prepared)| {
            let [from, to] =
                [&run.prepared().source, &prepared.source].map(|text| Blob::new(BlobKind::Text, text.clone()));
            let subgoals = prepared.task.subgoals.iter().map(|subgoal| subgoal.id.clone()).collect();
            let change =
                TaskChange { from: from.reference, to: to.reference, subgoals, changes: changed.difference.changes };
            blobs.extend([from, to]);
            run.change_task(prepared);
            change
        });
        Ok(Some(Draft { event: Event::ChangesAccepted(ChangesAccepted { by, version, task }), blobs }))
    }

    /// The other task that `text` is; none when it is the run's own. A run can be lent to another thread, but not shared with one.
    async fn other_task(
        &self,
        run: &mut Run,
        text: TaskText,
    ) -> Result<Option<(ChangedTask, Arc<Prepared>)>, EngineError> {
        let old = Arc::clone(run.prepared());
        if text.source == old.source {
            return Ok(None);
        }
        let new = Prepared::from_source(text.source, &text.origin, &old.base, &self.registry)?;
        let inputs = self.started(run.id()).await?.inputs;
        let difference = run.state().difference(&old.task, &new.task, &inputs);
        Ok(Some((ChangedTask { origin: text.origin, from: old.hash, to: new.hash, difference }, new)))
    }
}

/// The two versions, where a run that `written` worked on can't go on with this one without anybody being asked.
pub(crate) fn other_version(written: &str) -> Option<VersionChange> {
    let change = || VersionChange { from: written.to_owned(), to: VERSION.to_owned() };
    (!is_compatible(written, VERSION)).then(change)
}
