//! Asking models and taking in what they answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::{BranchId, Seq};
use loopforge_core::json::Json;
use loopforge_core::model::ToolSchema;
use loopforge_core::payload::{Blob, BlobKind};
use loopforge_core::prompt::{self, Frame, History, Prompt};
use loopforge_core::record::{Event, ModelCalled, PromptRef, Purpose, Record};
use loopforge_core::run::{Replied, RunState, View};
use loopforge_core::task::Subgoal;
use loopforge_models::{Answer, CallContext};

use crate::clock;
use crate::error::EngineError;
use crate::prepare::Prepared;

use super::{Done, Run};

/// Records that are read at once.
const PAGE: usize = 500;

/// An answer of a model that was not taken in yet.
pub(super) struct Thought {
    branch: BranchId,
    call: u32,
    answer: Answer,
    took: Duration,
}

impl Run {
    /// Asks a model what a branch does next. All that was decided before is archived first, and the intent of the call with it: from
    /// here on it may be billed.
    pub(super) async fn think(&mut self, branch: BranchId) -> Result<(), EngineError> {
        self.flush().await?;
        self.remember(branch).await?;
        let prepared = Arc::clone(&self.prepared);
        let Some(state) = self.state.branches.get(&branch) else { return Ok(()) };
        let Some(agent) = &state.agent else { return Ok(()) };
        let Some(model) = prepared.models.at(agent.model).map(Arc::clone) else {
            return Err(EngineError::Invalid(format!("run {}: the task has no model", self.id)));
        };
        let tools = schemas(&prepared, &prepared.task.subgoals[state.subgoal]);
        let name = model.describe().name.clone();
        let prompt = loop {
            match self.assemble(branch, &tools, &name) {
                Ok(Some(prompt)) => break prompt,
                Ok(None) => return Ok(()),
                Err(missing) => self.load(missing).await?,
            }
        };
        let call = self.state.models.calls.saturating_add(1);
        let called = ModelCalled {
            branch: Some(branch),
            step: Some(self.state.branches[&branch].step),
            purpose: Purpose::Act,
            call,
            model: name,
            prompt: PromptRef {
                digest: prompt.digest,
                upto: self.state.head,
                tokens: prompt.tokens,
                left_out: prompt.left_out,
            },
            max_output_tokens: prompt.request.max_output_tokens.unwrap_or_default(),
        };
        self.record(vec![Event::ModelCalled(called).into()])?;
        self.flush().await?;
        let context = CallContext::new(self.thinking.child_token());
        self.at_work.spawn(async move {
            let started = tokio::time::Instant::now();
            let answer = model.call(&prompt.request, &context).await;
            Done::Thought(Box::new(Thought { branch, call, answer, took: started.elapsed() }))
        });
        Ok(())
    }

    fn assemble(
        &self,
        branch: BranchId,
        tools: &[ToolSchema],
        model: &str,
    ) -> Result<Option<Prompt>, loopforge_core::payload::NotLoaded> {
        let Some(history) = self.histories.get(&branch) else { return Ok(None) };
        let frame = Frame {
            task: &self.prepared.task,
            state: &self.state,
            branch,
            history,
            tools,
            values: &self.values,
            model,
        };
        prompt::assemble(&frame)
    }

    /// Brings the history of a branch into memory, after a resume.
    async fn remember(&mut self, branch: BranchId) -> Result<(), EngineError> {
        if self.histories.contains_key(&branch) {
            return Ok(());
        }
        let mut history = History::new(branch);
        let mut upto = Seq(0);
        loop {
            let page = self.store.records(self.id, upto, PAGE).await?;
            let full = page.len() == PAGE;
            for record in page {
                upto = record.seq;
                history.push(&record);
            }
            if !full {
                break;
            }
        }
        self.histories.insert(branch, history);
        Ok(())
    }

    /// Takes the answers in that came.
    pub(super) async fn take_thoughts(&mut self) -> Result<(), EngineError> {
        for thought in std::mem::take(&mut self.thoughts) {
            let prepared = Arc::clone(&self.prepared);
            let Thought { branch, call, answer, took } = thought;
            match answer.result {
                Ok(reply) => {
                    let raw = (!answer.exchange.response.is_empty())
                        .then(|| Blob::new(BlobKind::Bytes, answer.exchange.response.to_vec()));
                    let replied = Replied { call, reply, cost: None, raw, took };
                    let drafts = loop {
                        let view = View {
                            task: &prepared.task,
                            tools: prepared.toolbox.facts(),
                            values: &self.values,
                            now: clock::now(),
                        };
                        let Some(history) = self.histories.get(&branch) else { break None };
                        match self.state.take_reply(&view, branch, &replied, history) {
                            Ok(drafts) => break drafts,
                            Err(missing) => self.load(missing).await?,
                        }
                    };
                    self.record(drafts.unwrap_or_default())?;
                }
                // Its owner stops: the call is lost, and made again by the next one.
                Err(_) if self.cancel.is_cancelled() => {}
                Err(error) => {
                    let failed = self.state.model_failure(
                        &prepared.task,
                        branch,
                        call,
                        &error,
                        prepared.models.len(),
                        clock::now(),
                    );
                    self.record(failed.into_iter().map(|failed| Event::ModelFailed(failed).into()).collect())?;
                }
            }
        }
        Ok(())
    }
}

/// Keeps what prompts are made from. Called before the record changes the state.
pub(super) fn keep_history(histories: &mut HashMap<BranchId, History>, state: &RunState, record: &Record) {
    if let Event::StepStarted(started) = &record.event
        && started.agent
        && !state.branches.contains_key(&started.branch)
    {
        histories.insert(started.branch, History::new(started.branch));
    }
    for history in histories.values_mut() {
        history.push(record);
    }
    if let Event::StepEvaluated(evaluated) = &record.event
        && evaluated.verdict.route.ends_branch()
    {
        histories.remove(&evaluated.branch);
    }
}

/// The tools that a subgoal's model is told of. Arguments that the task gives to every call needn't be given.
pub(crate) fn schemas(prepared: &Prepared, subgoal: &Subgoal) -> Vec<ToolSchema> {
    prepared
        .toolbox
        .iter()
        .filter(|(name, _)| subgoal.tools.as_ref().is_none_or(|tools| tools.iter().any(|tool| tool == name)))
        .map(|(name, armed)| {
            let spec = prepared.task.tools.get(name);
            let mut parameters =
                spec.and_then(|spec| spec.input_schema.clone()).unwrap_or_else(|| armed.contract.input_schema.clone());
            let given: BTreeMap<_, _> = spec.map(|spec| spec.with.clone()).unwrap_or_default();
            if let Some(Json::Array(required)) = parameters.get_mut("required") {
                required.retain(|name| name.as_str().is_none_or(|name| !given.contains_key(name)));
            }
            ToolSchema {
                name: name.to_owned(),
                description: spec
                    .and_then(|spec| spec.description.clone())
                    .unwrap_or_else(|| armed.contract.description.clone()),
                parameters,
            }
        })
        .collect()
}
