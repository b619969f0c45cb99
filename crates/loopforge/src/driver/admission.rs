//! Whether a call can be made now: the gateway's checks, earlier results, and what it must wait for.

use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::BranchId;
use loopforge_core::json::Json;
use loopforge_core::record::{ActionRefused, Event, Outcome, OutcomeSource};
use loopforge_core::run::{Action, ActionState, Branch, Call, Phase};
use loopforge_core::tool::{Code, Effect, ToolResult};
use loopforge_store::EffectState;

use crate::clock;
use crate::error::EngineError;
use crate::gateway::admit::{self, Refusal};
use crate::gateway::{Armed, outcome};

use super::Run;

/// What the checks before a call lead to.
pub(super) enum Admission {
    /// It can be made, with these arguments.
    Make(Json),
    /// It isn't made: its outcome is known, or it was refused. The records are written.
    Settled,
    /// It must wait for another call.
    Hold,
}

impl Run {
    /// Says whether a call can be made now.
    pub(super) async fn admit(&mut self, call: Call, admitted: &[(Call, Json)]) -> Result<Admission, EngineError> {
        let Some((branch_id, action)) = self.state.action(call.action).map(|(id, action)| (id, action.clone())) else {
            return Ok(Admission::Settled);
        };
        let prepared = Arc::clone(&self.prepared);
        let armed = prepared.toolbox.get(&action.tool);
        let arguments = loop {
            match action.arguments.open(&self.values.blobs) {
                Ok(arguments) => break arguments,
                Err(missing) => self.load(missing).await?,
            }
        };
        // What may have happened already was let through before; whether it should happen is no question any more.
        let repeats = matches!(action.state, ActionState::Unknown { .. });
        if !repeats && let Some(refusal) = self.objection(branch_id, &action, armed, &arguments).await? {
            return self.refuse(call, refusal);
        }
        let Some(armed) = armed else { return Ok(Admission::Settled) };
        if action.tries() >= armed.contract.retry.max_attempts && action.effect == Effect::Write {
            let tries = action.tries();
            let result =
                ToolResult::failure(Code::Unavailable, format!("it did not take effect in {tries} tries")).not_sent();
            self.finish_action(call, action.attempts, OutcomeSource::Call, armed, result, Duration::ZERO)?;
            return Ok(Admission::Settled);
        }
        if action.attempts == 0
            && let Some(key) = &action.business_key
        {
            if self.is_open_elsewhere(&action, key, admitted) {
                return Ok(Admission::Hold);
            }
            if let Some(known) = self.first_result(call, &action, key).await? {
                return Ok(known);
            }
        }
        if let Some(outcome) = self.cached(&action, armed) {
            self.finish_outcome(
                call,
                action.attempts.max(1),
                OutcomeSource::Cache,
                outcome,
                Vec::new(),
                Duration::ZERO,
            )?;
            return Ok(Admission::Settled);
        }
        let busy = self.in_flight.values().filter(|flight| flight.tool == action.tool).count()
            + admitted.iter().filter(|(other, _)| self.tool_of(*other) == Some(&action.tool)).count();
        if armed.concurrency.is_some_and(|limit| busy >= limit) {
            return Ok(Admission::Hold);
        }
        Ok(Admission::Make(arguments))
    }

    /// The first check that speaks against a call.
    async fn objection(
        &mut self,
        branch_id: BranchId,
        action: &Action,
        armed: Option<&Arc<Armed>>,
        arguments: &Json,
    ) -> Result<Option<Refusal>, EngineError> {
        let task = Arc::clone(&self.task);
        let branch: &Branch = &self.state.branches[&branch_id];
        if let Err(refusal) = admit::check(&task, &self.state, branch, action, armed.map(Arc::as_ref), arguments) {
            return Ok(Some(refusal));
        }
        let Some(armed) = armed else { return Ok(None) };
        if let Some(refusal) = self.check_grounds(&action.tool, armed, arguments).await? {
            return Ok(Some(refusal));
        }
        let Some(rule) = &armed.requires else { return Ok(None) };
        let holds = loop {
            match self.state.precondition(&task, &self.values, branch_id, rule) {
                Ok(holds) => break holds,
                Err(missing) => self.load(missing).await?,
            }
        };
        Ok(admit::precondition(&action.tool, rule.source(), holds))
    }

    fn refuse(&mut self, call: Call, refusal: Refusal) -> Result<Admission, EngineError> {
        let refused = ActionRefused {
            branch: call.branch,
            id: call.action,
            code: refusal.code,
            check: refusal.check.to_owned(),
            reason: refusal.reason,
        };
        self.record(vec![Event::ActionRefused(refused).into()])?;
        Ok(Admission::Settled)
    }

    fn tool_of(&self, call: Call) -> Option<&String> {
        self.state.action(call.action).map(|(_, action)| &action.tool)
    }

    /// Whether another action of this run is about to have, or may have had, the same effect.
    fn is_open_elsewhere(&self, action: &Action, key: &str, admitted: &[(Call, Json)]) -> bool {
        let same = |other: &Action| other.id != action.id && other.business_key.as_deref() == Some(key);
        self.state.branches.values().any(|branch| match &branch.phase {
            Phase::Acting { actions } => actions.iter().any(|other| {
                same(other) && (other.attempts > 0 || admitted.iter().any(|(call, _)| call.action == other.id))
            }),
            _ => false,
        })
    }

    /// The same effect was made before in this run: its first result is this call's, too (R41).
    async fn first_result(&mut self, call: Call, action: &Action, key: &str) -> Result<Option<Admission>, EngineError> {
        // What became of the other one may be decided and not archived yet.
        self.flush().await?;
        let Some(effect) = self.store.effect_by_key(self.id, key).await? else { return Ok(None) };
        if effect.action == action.id {
            return Ok(None);
        }
        match (effect.state, effect.outcome) {
            (EffectState::Confirmed, outcome) => {
                let outcome = outcome.unwrap_or_else(outcome::without_data);
                self.finish_outcome(call, 1, OutcomeSource::FirstResult, outcome, Vec::new(), Duration::ZERO)?;
                Ok(Some(Admission::Settled))
            }
            (EffectState::Started | EffectState::Unknown, _) => {
                let reason = format!(
                    "the same effect was started in step {} and its outcome is not known: `loopforge effects {}` shows it",
                    effect.action.step, self.id
                );
                self.refuse(call, Refusal { code: Code::Refused, check: "effect_key", reason }).map(Some)
            }
            (EffectState::Failed | EffectState::NotHappened, _) => Ok(None),
        }
    }

    fn cached(&self, action: &Action, armed: &Armed) -> Option<Outcome> {
        let good_for = armed.cache?;
        let (outcome, at) = self.cache.get(&(action.tool.clone(), action.digest))?;
        (clock::now().since(*at) < good_for).then(|| outcome.clone())
    }
}
