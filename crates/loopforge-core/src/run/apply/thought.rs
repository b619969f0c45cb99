//! Calls of models: asked, replied, failed.

use crate::agent::Agent;
use crate::id::BranchId;
use crate::model::{ErrorKind, StopReason};
use crate::record::{ModelCalled, ModelFailed, ModelReplied};
use crate::run::agent::MODEL;
use crate::run::{Failure, Phase, RunState, Thought, ThoughtState};

impl RunState {
    pub(super) fn model_called(&mut self, event: &ModelCalled) -> Result<(), String> {
        let next = self.models.calls.saturating_add(1);
        let Some(id) = event.branch else { return self.consult_called(event) };
        let branch = self.branch_in(id, "model_called")?;
        if branch.agent.as_ref().is_none_or(|agent| agent.replied) {
            return Err("no model is to be asked there".to_owned());
        }
        if matches!(&branch.phase, Phase::Thinking { thought } if thought.state == ThoughtState::Called) {
            return Err("a model was asked there already".to_owned());
        }
        if event.call != next {
            return Err(format!("model call {next} must come next"));
        }
        branch.phase = Phase::Thinking { thought: Thought { call: event.call, state: ThoughtState::Called } };
        self.models.calls = event.call;
        Ok(())
    }

    pub(super) fn model_replied(&mut self, event: &ModelReplied) -> Result<(), String> {
        let Some(id) = event.branch else { return self.consult_replied(event) };
        let agent = self.thinking(id, event.call, "model_replied")?;
        agent.replied = true;
        agent.model_failures = 0;
        agent.adrift_in_row = if event.adrift { agent.adrift_in_row + 1 } else { 0 };
        if event.calls == 0 {
            match event.stop {
                StopReason::Length => agent.unusable = Some("the reply was cut off at its limit of tokens".to_owned()),
                StopReason::Refused => agent.unusable = Some("the model refused to answer".to_owned()),
                _ if event.says.is_none() => agent.unusable = Some("the reply was empty".to_owned()),
                _ => agent.claim.clone_from(&event.says),
            }
        }
        self.branch(id)?.phase = Phase::Deciding;
        Ok(())
    }

    pub(super) fn model_failed(&mut self, event: &ModelFailed) -> Result<(), String> {
        self.models.failures += 1;
        let Some(id) = event.branch else { return self.consult_call_failed(event) };
        let agent = self.thinking(id, event.call, "model_failed")?;
        // One that was given up for a note says nothing about the model.
        agent.model_failures += u32::from(event.error != ErrorKind::Cancelled);
        agent.model = event.next_model.unwrap_or(agent.model);
        let branch = self.branch(id)?;
        // The next prompt may fare better: it says what happened, and on another way it is short.
        if let (None, ErrorKind::Refused | ErrorKind::ContextTooLong, Some(agent)) =
            (event.retry_at, event.error, &mut branch.agent)
        {
            agent.replied = true;
            agent.unusable = Some(event.reason.clone());
            branch.phase = Phase::Deciding;
            return Ok(());
        }
        if let Some(until) = event.retry_at {
            branch.phase =
                Phase::Thinking { thought: Thought { call: event.call, state: ThoughtState::Backoff { until } } };
            return Ok(());
        }
        branch.failure = Some(Failure {
            tool: MODEL.to_owned(),
            code: event.error.code(),
            error: event.reason.clone(),
            retry_after_ms: None,
        });
        branch.phase = Phase::Deciding;
        Ok(())
    }

    /// The agent of a branch that waits for the reply to this call.
    pub(super) fn thinking(&mut self, id: BranchId, call: u32, kind: &'static str) -> Result<&mut Agent, String> {
        let branch = self.branch_in(id, kind)?;
        if !branch.awaits(call) {
            return Err(format!("no reply to model call {call} is awaited there"));
        }
        branch.agent.as_mut().ok_or_else(|| "no model works there".to_owned())
    }
}
