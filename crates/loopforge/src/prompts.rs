//! What a model was shown at a step, made again from the archive.

use std::collections::BTreeMap;

use loopforge_core::expression::Values;
use loopforge_core::id::{RunId, StepNo};
use loopforge_core::payload::NotLoaded;
use loopforge_core::prompt::{self, Frame, History, Prompt};
use loopforge_core::record::{Event, ModelCalled};
use loopforge_core::run::RunState;

use crate::driver::schemas;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::prepare::Prepared;

/// Records that are read at once.
const PAGE: usize = 500;

/// A prompt as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Shown {
    /// The call.
    pub called: ModelCalled,
    /// The prompt, made again.
    pub prompt: Prompt,
    /// Its hash is the one that was archived with the call: it is what was sent, byte for byte. It is not when another version of
    /// LoopForge makes prompts in another way, or the task was changed since.
    pub exact: bool,
}

impl Engine {
    /// The prompts of a step, one for each call of a model. Reads only.
    ///
    /// # Errors
    /// [`EngineError::Store`], [`EngineError::Archive`], [`EngineError::Task`] when the run can't be read.
    pub async fn prompts(&self, id: RunId, step: StepNo) -> Result<Vec<Shown>, EngineError> {
        let info = self.store.run(id).await?;
        let source = self.store.task(info.task).await?;
        let prepared = Prepared::from_store(source, info.base.as_ref(), &self.registry)?;
        let mut state = RunState::new(id, &prepared.task);
        let mut histories = BTreeMap::new();
        let mut inputs = BTreeMap::new();
        let mut shown = Vec::new();
        loop {
            let page = self.store.records(id, state.head, PAGE).await?;
            let full = page.len() == PAGE;
            for record in page {
                match &record.event {
                    Event::RunStarted(started) => inputs.clone_from(&started.inputs),
                    Event::StepStarted(started) if started.step > step => return Ok(shown),
                    Event::StepStarted(started) if started.agent => {
                        histories.entry(started.branch).or_insert_with(|| History::new(started.branch));
                    }
                    Event::ModelCalled(called) if called.step == Some(step) => {
                        let mut values = Values::new(inputs.clone(), true);
                        for (key, value) in self.store.state(id, Some(state.head)).await? {
                            values.load(&key, Some(value));
                        }
                        if let Some(history) = called.branch.and_then(|branch| histories.get(&branch))
                            && let Some(prompt) = self.assemble(&prepared, &state, called, history, &mut values).await?
                        {
                            let exact = prompt.digest == called.prompt.digest;
                            shown.push(Shown { called: called.clone(), prompt, exact });
                        }
                    }
                    _ => {}
                }
                for history in histories.values_mut() {
                    history.push(&record);
                }
                state.apply(&record).map_err(|source| EngineError::Archive { run: id, source })?;
            }
            if !full {
                return Ok(shown);
            }
        }
    }

    async fn assemble(
        &self,
        prepared: &Prepared,
        state: &RunState,
        called: &ModelCalled,
        history: &History,
        values: &mut Values,
    ) -> Result<Option<Prompt>, EngineError> {
        let Some((id, branch)) = called.branch.and_then(|id| Some((id, state.branches.get(&id)?))) else {
            return Ok(None);
        };
        let task = state.plan.of(&prepared.task);
        let tools = schemas(prepared, &task.subgoals[branch.subgoal]);
        loop {
            let frame = Frame { task: &task, state, branch: id, history, tools: &tools, values, model: &called.model };
            match prompt::assemble(&frame) {
                Ok(prompt) => return Ok(prompt),
                Err(NotLoaded::Blob(reference)) => {
                    let bytes = self.store.blob(&reference).await?;
                    values.blobs.insert(reference, &bytes);
                }
                // All of state was loaded before.
                Err(NotLoaded::State(_) | NotLoaded::WholeState) => return Ok(None),
            }
        }
    }
}
