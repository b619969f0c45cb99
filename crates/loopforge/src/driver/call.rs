//! Making calls and taking in what comes of them.

use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::StepToken;
use loopforge_core::json::Json;
use loopforge_core::record::{
    ActionNotHappened, ActionStarted, ActionUnknown, AttemptFailed, Event, Outcome, OutcomeSource,
};
use loopforge_core::run::{Action, ActionState, Call};
use loopforge_core::tool::{Effect, ToolResult};
use loopforge_tools::{CallContext, EffectStatus};
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;

use crate::answer::unknown_effect;
use crate::clock;
use crate::error::EngineError;
use crate::gateway::attempt::{self, Asked, Overdue, Tried};
use crate::gateway::{Armed, StatusVia, outcome};
use crate::journal;

use super::admission::Admission;
use super::{Done, Flight, Run};

impl Run {
    /// Makes all calls that are ready: checks them, archives the intents of writes, then starts them.
    pub(super) async fn make_calls(&mut self) -> Result<(), EngineError> {
        let mut admitted: Vec<(Call, Json)> = Vec::new();
        for call in std::mem::take(&mut self.ready) {
            match self.admit(call, &admitted).await? {
                Admission::Make(arguments) => {
                    self.intend(call)?;
                    admitted.push((call, arguments));
                }
                Admission::Settled => {}
                Admission::Hold => self.held.push(call),
            }
        }
        // Nothing is acted on before it is archived: verdicts of earlier steps and intents of these calls. Only a read, which can
        // be made again, may be made while they are on their way.
        if admitted.iter().any(|(call, _)| !self.is_read(*call)) {
            self.flush().await?;
        } else if self.journal.is_due() {
            self.submit().await?;
        }
        // Whoever was stopped for longer than its lease finds out here, before it does anything.
        if !admitted.is_empty() && clock::since_boot() >= self.journal.held_until() {
            self.renew().await?;
        }
        for (call, arguments) in admitted {
            self.dispatch(call, arguments);
        }
        Ok(())
    }

    fn is_read(&self, call: Call) -> bool {
        self.state.action(call.action).is_some_and(|(_, action)| action.effect == Effect::Read)
    }

    /// Archives the intent of a write. A read has none: it can be made again.
    fn intend(&mut self, call: Call) -> Result<(), EngineError> {
        let Some((_, action)) = self.state.action(call.action) else { return Ok(()) };
        if action.effect == Effect::Read {
            return Ok(());
        }
        let started = ActionStarted {
            branch: call.branch,
            id: call.action,
            attempt: action.attempts + 1,
            token: self.token(call),
            tool: action.tool.clone(),
            business_key: action.business_key.clone(),
        };
        self.record(vec![Event::ActionStarted(started).into()])
    }

    fn token(&self, call: Call) -> StepToken {
        StepToken::of(self.id, self.state.incarnation, call.action.step, call.action.action)
    }

    fn context(&self, call: Call, action: &Action, timeout: Duration, cancel: CancellationToken) -> CallContext {
        let write = action.effect == Effect::Write;
        CallContext {
            run: self.id,
            action: call.action,
            attempt: if write { action.attempts } else { action.attempts + 1 },
            step_token: write.then(|| self.token(call)),
            timeout: timeout.min(self.prepared.task.limits.idle_timeout.0),
            cancel,
            workspace: Arc::clone(&self.workspace),
            base: Arc::clone(&self.base),
        }
    }

    fn dispatch(&mut self, call: Call, arguments: Json) {
        let Some((_, action)) = self.state.action(call.action) else { return };
        let Some(armed) = self.prepared.toolbox.get(&action.tool).map(Arc::clone) else { return };
        let cancel = CancellationToken::new();
        let context = self.context(call, action, armed.timeout, cancel.clone());
        let write = action.effect == Effect::Write;
        let tool = action.tool.clone();
        let idle_timeout = self.prepared.task.limits.idle_timeout.0;
        let overdue = self.overdue.0.clone();
        let held_until = self.journal.held_until();
        let work = attempt::run(armed, arguments, context, call, attempt::Limits { idle_timeout, held_until }, overdue);
        let abort = self.at_work.spawn(async move { Done::Tried(Box::new(work.await)) });
        self.in_flight.insert(call.action, Flight { abort, cancel, write, tool });
    }

    /// Takes in what a task beside the driver brought.
    pub(super) fn take(&mut self, done: Result<Done, JoinError>) -> Result<(), EngineError> {
        // Something has ended: what waited for it may go on.
        self.ready.append(&mut self.held);
        match done {
            Ok(Done::Tried(tried)) => {
                self.in_flight.remove(&tried.call.action);
                self.take_result(*tried)
            }
            Ok(Done::Thought(thought)) => {
                self.thoughts.push(*thought);
                Ok(())
            }
            Ok(Done::Asked(asked)) => {
                self.in_flight.remove(&asked.call.action);
                self.take_status(asked)
            }
            // A read that was dropped; its place in `in_flight` went with it.
            Err(_) => Ok(()),
        }
    }

    pub(super) fn take_overdue(&mut self, overdue: Overdue) -> Result<(), EngineError> {
        let still_started =
            self.state.action(overdue.call.action).is_some_and(|(_, action)| action.state == ActionState::Started);
        if !still_started {
            return Ok(());
        }
        let reason = format!("no answer within {:?}; it is still waited for", overdue.timeout);
        let unknown = ActionUnknown { branch: overdue.call.branch, id: overdue.call.action, reason };
        self.record(vec![Event::ActionUnknown(unknown).into()])
    }

    fn take_result(&mut self, tried: Tried) -> Result<(), EngineError> {
        let Tried { call, attempt, result, took, late } = tried;
        let Some((_, action)) = self.state.action(call.action) else { return Ok(()) };
        let action = action.clone();
        let prepared = Arc::clone(&self.prepared);
        let Some(armed) = prepared.toolbox.get(&action.tool) else { return Ok(()) };
        let write = action.effect == Effect::Write;
        if result.is_ok() {
            let source = if late { OutcomeSource::LateAnswer } else { OutcomeSource::Call };
            return self.finish_action(call, attempt, source, armed, result, took);
        }
        // A repeated call with the same token changes nothing more where the target honours it.
        if write && result.leaves_effect_unknown() && !(armed.contract.idempotent && result.code.is_transient()) {
            let error = result.error.unwrap_or_else(|| result.code.name().to_owned());
            return self.became_unknown(call, &action, format!("{}: {error}", result.code));
        }
        let tries = attempt.saturating_sub(action.lost);
        let wait = armed.contract.retry.wait_after(tries, result.code, result.retry_after);
        // A write that was declared unknown can't be back to a passing failure: ask first.
        let retriable = !(write && action.state != ActionState::Started);
        if let Some(wait) = wait.filter(|_| retriable) {
            let failed = AttemptFailed {
                branch: call.branch,
                id: call.action,
                attempt,
                code: result.code,
                error: result.error.unwrap_or_else(|| result.code.name().to_owned()),
                retry_at: clock::now().after(wait),
                asked_wait_ms: result.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
            };
            return self.record(vec![Event::AttemptFailed(failed).into()]);
        }
        if write && result.leaves_effect_unknown() {
            let error = result.error.unwrap_or_else(|| result.code.name().to_owned());
            return self.became_unknown(call, &action, format!("{} after {attempt} tries: {error}", result.code));
        }
        self.finish_action(call, attempt, OutcomeSource::Call, armed, result, took)
    }

    fn became_unknown(&mut self, call: Call, action: &Action, reason: String) -> Result<(), EngineError> {
        if matches!(action.state, ActionState::Unknown { .. } | ActionState::Asked(_)) {
            return Ok(());
        }
        let unknown = ActionUnknown { branch: call.branch, id: call.action, reason };
        self.record(vec![Event::ActionUnknown(unknown).into()])
    }

    pub(super) fn finish_action(
        &mut self,
        call: Call,
        attempt: u32,
        source: OutcomeSource,
        armed: &Armed,
        result: ToolResult,
        took: Duration,
    ) -> Result<(), EngineError> {
        let (outcome, blobs) = outcome::archive(armed, result);
        if armed.cache.is_some()
            && outcome.is_ok()
            && let Some((_, action)) = self.state.action(call.action)
        {
            self.cache.insert((action.tool.clone(), action.digest), (outcome.clone(), clock::now()));
        }
        self.finish_outcome(call, attempt, source, outcome, blobs, took)
    }

    pub(super) fn finish_outcome(
        &mut self,
        call: Call,
        attempt: u32,
        source: OutcomeSource,
        outcome: Outcome,
        blobs: Vec<loopforge_core::payload::Blob>,
        took: Duration,
    ) -> Result<(), EngineError> {
        let Some((_, action)) = self.state.action(call.action) else { return Ok(()) };
        let effect = action.effect;
        if let Some(drafts) = self.state.finish(call, attempt, source, outcome, blobs, took) {
            self.record(drafts)?;
            if journal::outcome_is_due(effect) {
                self.journal.harden();
            }
        }
        Ok(())
    }

    /// Finds out whether an effect happened, in the way that the tool offers (R42). Never a blind repetition.
    pub(super) async fn calibrate(&mut self, call: Call) -> Result<(), EngineError> {
        let Some((_, action)) = self.state.action(call.action) else { return Ok(()) };
        let action = action.clone();
        let ActionState::Unknown { reason } = &action.state else { return Ok(()) };
        let prepared = Arc::clone(&self.prepared);
        let Some(armed) = prepared.toolbox.get(&action.tool) else {
            return self.record(vec![unknown_effect(call.branch, &action, reason).into()]);
        };
        if armed.contract.idempotent && action.tries() < armed.contract.retry.max_attempts {
            // The target honours the token: the same call with the same token changes nothing more.
            self.ready.push(call);
            return Ok(());
        }
        let tries = self.asked.get(&call.action).copied().unwrap_or(0) as usize;
        if armed.status == StatusVia::Nobody || tries > self.options.ask_again.len() {
            return self.record(vec![unknown_effect(call.branch, &action, reason).into()]);
        }
        let wait = tries.checked_sub(1).and_then(|last| self.options.ask_again.get(last)).copied().unwrap_or_default();
        self.flush().await?;
        self.ask(call, &action, armed, wait);
        Ok(())
    }

    fn ask(&mut self, call: Call, action: &Action, armed: &Arc<Armed>, wait: Duration) {
        let cancel = CancellationToken::new();
        let asking = match &armed.status {
            StatusVia::Tool(name) => self.prepared.toolbox.get(name).map(Arc::clone),
            StatusVia::Itself | StatusVia::Nobody => Some(Arc::clone(armed)),
        };
        let asks_itself = armed.status == StatusVia::Itself;
        let timeout = asking.as_ref().map_or(armed.timeout, |tool| tool.timeout);
        let context = self.context(call, action, timeout, cancel.clone());
        let payload = action.arguments.clone();
        let blobs: Vec<_> =
            payload.holes.iter().filter_map(|hole| self.journal.pending_blob(&hole.blob).cloned()).collect();
        let store = Arc::clone(&self.store);
        let work = async move {
            tokio::time::sleep(wait).await;
            let mut cache = loopforge_core::payload::BlobCache::default();
            for blob in blobs {
                cache.insert(blob.reference, &blob.bytes);
            }
            let arguments = loop {
                match payload.open(&cache) {
                    Ok(arguments) => break arguments,
                    Err(loopforge_core::payload::NotLoaded::Blob(reference)) => match store.blob(&reference).await {
                        Ok(bytes) => cache.insert(reference, &bytes),
                        Err(error) => return Asked { call, status: EffectStatus::Unknown(error.to_string()) },
                    },
                    Err(other) => return Asked { call, status: EffectStatus::Unknown(other.to_string()) },
                }
            };
            match asking {
                Some(tool) if asks_itself => attempt::ask_itself(tool, arguments, context, call).await,
                Some(tool) => attempt::ask_tool(tool, arguments, context, call).await,
                None => Asked { call, status: EffectStatus::Unknown("the task lists no such status tool".to_owned()) },
            }
        };
        let abort = self.at_work.spawn(async move { Done::Asked(work.await) });
        let tool = action.tool.clone();
        self.in_flight.insert(call.action, Flight { abort, cancel, write: false, tool });
    }

    fn take_status(&mut self, asked: Asked) -> Result<(), EngineError> {
        let call = asked.call;
        let Some((_, action)) = self.state.action(call.action) else { return Ok(()) };
        let action = action.clone();
        match asked.status {
            EffectStatus::Happened(data) => {
                self.asked.remove(&call.action);
                let prepared = Arc::clone(&self.prepared);
                let Some(armed) = prepared.toolbox.get(&action.tool) else { return Ok(()) };
                let result = ToolResult::success(data);
                self.finish_action(call, action.attempts, OutcomeSource::StatusQuery, armed, result, Duration::ZERO)
            }
            EffectStatus::NotHappened => {
                self.asked.remove(&call.action);
                let not_happened = ActionNotHappened {
                    branch: call.branch,
                    id: call.action,
                    source: OutcomeSource::StatusQuery,
                    note: "the status query found nothing".to_owned(),
                };
                self.record(vec![Event::ActionNotHappened(not_happened).into()])
            }
            EffectStatus::Unknown(why) => {
                tracing::warn!(run = %self.id, action = %call.action, "a status query brought no answer: {why}");
                *self.asked.entry(call.action).or_default() += 1;
                Ok(())
            }
        }
    }
}
