//! Asking models and taking in what they answer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::{BranchId, Seq};
use loopforge_core::json::Json;
use loopforge_core::model::{ErrorKind, ModelError, Price, ToolSchema};
use loopforge_core::payload::{Blob, BlobKind};
use loopforge_core::prompt::{self, Frame, History, Prompt};
use loopforge_core::record::{Event, ModelCalled, ModelFailed, PromptRef, Purpose, Record};
use loopforge_core::run::{Replied, RunState, View};
use loopforge_core::task::Subgoal;
use loopforge_models::{Answer, CallContext, Exchange, Model};
use loopforge_store::Reservation;

use crate::clock;
use crate::error::EngineError;
use crate::prepare::Prepared;

use super::budget::{Room, spent, wait_for_room};
use super::{Done, Run};

/// Records that are read at once.
pub(super) const PAGE: usize = 500;

/// An answer of a model that was not taken in yet.
pub(super) struct Thought {
    /// The branch that asked; none for the run as a whole.
    branch: Option<BranchId>,
    call: u32,
    answer: Answer,
    took: Duration,
    /// What the model costs.
    price: Option<Price>,
    /// Whether it was asked: there may have been no room for it in its account's day.
    sent: bool,
}

impl Run {
    /// Asks a model what a branch does next. All that was decided before is archived first, and the intent of the call with it: from
    /// here on it may be billed.
    pub(super) async fn think(&mut self, branch: BranchId) -> Result<(), EngineError> {
        self.flush().await?;
        self.remember(branch).await?;
        let prepared = Arc::clone(&self.prepared);
        let call = self.state.models.calls.saturating_add(1);
        let (position, model, prompt, reserved, crowded) = loop {
            self.warn_of_budgets()?;
            let Some(state) = self.state.branches.get(&branch) else { return Ok(()) };
            let Some(agent) = &state.agent else { return Ok(()) };
            let position = self.state.budget.model.map_or(agent.model, |cheaper| cheaper.max(agent.model));
            let Some(model) = prepared.models.at(position).map(Arc::clone) else {
                return Err(EngineError::Invalid(format!("run {}: the task has no model", self.id)));
            };
            let tools = schemas(&prepared, &self.task.subgoals[state.subgoal]);
            let prompt = loop {
                match self.assemble(branch, &tools, &model.describe().name) {
                    Ok(Some(prompt)) => break prompt,
                    Ok(None) => return Ok(()),
                    Err(missing) => self.load(missing).await?,
                }
            };
            match self.make_room(call, &prompt, position).await? {
                Room::Granted(reserved) => break (position, model, prompt, reserved, None),
                Room::Crowded(wanted) => break (position, model, prompt, Some(wanted.amount), Some(wanted)),
                Room::Changed if self.state.is_out_of_budget() => return Ok(()),
                Room::Changed => {}
            }
        };
        let called = ModelCalled {
            branch: Some(branch),
            step: Some(self.state.branches[&branch].step),
            purpose: Purpose::Act,
            call,
            model: model.describe().name.clone(),
            prompt: PromptRef {
                digest: prompt.digest,
                upto: self.state.head,
                tokens: prompt.tokens,
                left_out: prompt.left_out,
            },
            max_output_tokens: prompt.request.max_output_tokens.unwrap_or_default(),
            reserved,
        };
        self.send(called, model, prompt, position, crowded).await
    }

    /// Archives the intent of a call, and makes it.
    pub(super) async fn send(
        &mut self,
        called: ModelCalled,
        model: Arc<dyn Model>,
        prompt: Prompt,
        position: u32,
        crowded: Option<Box<Reservation>>,
    ) -> Result<(), EngineError> {
        let (branch, call) = (called.branch, called.call);
        self.record(vec![Event::ModelCalled(called).into()])?;
        self.flush().await?;
        let cancel = self.thinking.child_token();
        self.asking.insert(call, cancel.clone());
        let (price, store) = (self.prepared.models.price(position), Arc::clone(&self.store));
        self.at_work.spawn(async move {
            let started = tokio::time::Instant::now();
            let sent = match &crowded {
                Some(wanted) => wait_for_room(&*store, wanted, &cancel).await,
                None => true,
            };
            let answer = if sent {
                model.call(&prompt.request, &CallContext::new(cancel)).await
            } else {
                let reason = "other runs have reserved what is left of the account's budget of the day";
                Answer { result: Err(ModelError::new(ErrorKind::RateLimited, reason)), exchange: Exchange::default() }
            };
            Done::Thought(Box::new(Thought { branch, call, answer, took: started.elapsed(), price, sent }))
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
        let frame = Frame { task: &self.task, state: &self.state, branch, history, tools, values: &self.values, model };
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
            let task = Arc::clone(&self.task);
            let Thought { branch, call, answer, took, price, sent } = thought;
            self.asking.remove(&call);
            let given_up = self.given_up.remove(&call);
            let reserved = self.state.models.reserved.get(&call).copied();
            // Its owner stops: the call is lost, and made again by the next one.
            if answer.result.is_err() && !given_up && self.cancel.is_cancelled() {
                continue;
            }
            // Before the record, so that a crash in between leaves nothing reserved for a call that has ended.
            let used = match &answer.result {
                Ok(reply) => Some(spent(&reply.usage, price.as_ref(), reserved)),
                // One that was cut off on the way was heard by the provider, whatever it says.
                Err(error) if sent && (error.may_be_billed || given_up) => {
                    Some(spent(&error.usage, price.as_ref(), reserved))
                }
                Err(_) => None,
            };
            self.settle_call(call, used.unwrap_or_default()).await?;
            let Some(branch) = branch else {
                if !sent && !given_up {
                    self.exceed_day(call).await?;
                }
                self.take_advice(call, answer, took, price, given_up || !sent)?;
                continue;
            };
            match answer.result {
                Ok(reply) => {
                    let raw = (!answer.exchange.response.is_empty())
                        .then(|| Blob::new(BlobKind::Bytes, answer.exchange.response.to_vec()));
                    let cost = price.and_then(|price| price.cost(&reply.usage));
                    let replied = Replied { call, reply, cost, raw, took };
                    let drafts = loop {
                        let view = View {
                            task: &task,
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
                // Nothing is wrong with the model: it is asked anew, at once.
                Err(error) if given_up || !sent => {
                    if !given_up {
                        self.exceed_day(call).await?;
                    }
                    let step = self.state.branches.get(&branch).map(|branch| branch.step);
                    let failed = ModelFailed {
                        branch: Some(branch),
                        step,
                        call,
                        error: if given_up { ErrorKind::Cancelled } else { error.kind },
                        reason: if given_up { "given up for a note".to_owned() } else { error.message.clone() },
                        retry_at: Some(clock::now()),
                        next_model: None,
                        usage: used.map(|_| *error.usage),
                        cost: price.and_then(|price| price.cost(&error.usage)),
                    };
                    if self.state.branches.get(&branch).is_some_and(|branch| branch.awaits(call)) {
                        self.record(vec![Event::ModelFailed(failed).into()])?;
                    }
                }
                Err(error) => {
                    let cost = price.and_then(|price| price.cost(&error.usage));
                    let failed =
                        self.state.model_failure(&task, branch, call, &error, prepared.models.len(), clock::now());
                    let failed =
                        failed.map(|failed| ModelFailed { cost: cost.filter(|_| failed.usage.is_some()), ..failed });
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
