//! The fold: what each event changes.

mod owner;
mod person;
mod thought;

use crate::guard::Seen;
use crate::id::{BranchId, ContentHash, RecordId, Seq};
use crate::record::{
    About, ActionDecided, ActionFinished, ActionId, Event, Order, Record, Route, StepEvaluated, StepStarted,
    SubgoalOutcome,
};
use crate::time::Timestamp;
use crate::tool::{Code, Effect};

use super::transitions::{CALLS, TABLE, call_name, phase_name};
use super::{
    Action, ActionState, Branch, Deferred, Failure, GivenUp, LastCall, Phase, Progress, Question, RunState,
    SubgoalStatus, WaitFor,
};

/// A record that can't follow what is there. The archive is damaged, or there is a bug in the writer; it is never skipped.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("record {seq} (`{kind}`) is illegal here: {reason}")]
pub struct IllegalEvent {
    /// Its place.
    pub seq: Seq,
    /// Its kind.
    pub kind: &'static str,
    /// Why.
    pub reason: String,
}

impl RunState {
    /// Applies one archived record.
    ///
    /// # Errors
    /// [`IllegalEvent`] when it can't follow; the state is then not to be used further.
    pub fn apply(&mut self, record: &Record) -> Result<(), IllegalEvent> {
        let illegal = |reason: String| IllegalEvent { seq: record.seq, kind: record.event.kind(), reason };
        if record.seq != self.head.next() {
            return Err(illegal(format!("record {} must come next", self.head.next())));
        }
        self.fold(record).map_err(illegal)?;
        self.head = record.seq;
        self.last_at = record.at;
        Ok(())
    }

    fn fold(&mut self, record: &Record) -> Result<(), String> {
        let first = self.head == Seq(0);
        if first != matches!(record.event, Event::RunStarted(_)) {
            return Err("`run_started` is the first record, and only the first".to_owned());
        }
        if self.ended.is_some() && !matches!(record.event, Event::HookSent(_)) {
            return Err("the run has ended".to_owned());
        }
        match &record.event {
            Event::RunStarted(event) => {
                self.started_at = record.at;
                self.task = event.task;
                self.version.clone_from(&event.version);
            }
            Event::RunResumed(event) => {
                self.version.clone_from(&event.version);
                self.run_resumed();
            }
            Event::SubgoalStarted(event) => {
                let progress = self.progress(&event.subgoal)?;
                if progress.status != SubgoalStatus::Pending {
                    return Err(format!("subgoal `{}` was started before", event.subgoal));
                }
                progress.status = SubgoalStatus::Active;
                progress.list.clone_from(&event.list);
            }
            Event::SubgoalEnded(event) => {
                let open = self.open_branches(&event.subgoal);
                let progress = self.progress(&event.subgoal)?;
                let never_begun = matches!(event.outcome, SubgoalOutcome::Skipped | SubgoalOutcome::Blocked);
                let expected = if never_begun { SubgoalStatus::Pending } else { SubgoalStatus::Active };
                if progress.status != expected {
                    return Err(format!("subgoal `{}` is {}", event.subgoal, progress.status.name()));
                }
                if open > 0 {
                    return Err(format!("subgoal `{}` has {open} branches at work", event.subgoal));
                }
                progress.status = SubgoalStatus::Ended(event.outcome);
                if event.outcome == SubgoalOutcome::Failed {
                    progress.failure.get_or_insert_with(|| event.reason.clone());
                }
            }
            Event::StepStarted(event) => self.step_started(event)?,
            Event::ModelCalled(event) => {
                self.model_called(event)?;
                self.models.called(event.call, event.reserved);
            }
            Event::ModelReplied(event) => {
                self.model_replied(event)?;
                self.models.count(event.call, &event.usage, event.cost);
            }
            Event::ModelFailed(event) => {
                self.model_failed(event)?;
                self.models.failed(event.call, event.usage.as_ref(), event.cost);
            }
            Event::ConsultStarted(event) => self.consult_started(event)?,
            Event::ConsultFailed(event) => self.consult_failed(event)?,
            Event::PlanAmended(event) => self.plan_amended(event)?,
            Event::Judged(event) => self.judged(event)?,
            Event::ActionDecided(event) => self.action_decided(event)?,
            Event::ActionRefused(event) => {
                let action = self.take_action(event.branch, event.id, "action_refused")?;
                self.totals.refusals += 1;
                if let Some(calls) = self.calls.get_mut(&action.tool) {
                    *calls = calls.saturating_sub(1);
                }
                let subgoal = self.branch(event.branch)?.subgoal;
                if let Some(calls) = self.subgoals[subgoal].calls.get_mut(&action.tool) {
                    *calls = calls.saturating_sub(1);
                }
                // What was refused goes round in circles as well as what failed.
                if let Some(agent) = &mut self.branch(event.branch)?.agent {
                    agent.window.push(Seen {
                        tool: action.tool.clone(),
                        digest: action.digest,
                        code: event.code,
                        fingerprint: ContentHash::of(event.check.as_bytes()),
                    });
                }
                self.call_failed(
                    event.branch,
                    Failure { tool: action.tool, code: event.code, error: event.reason.clone(), retry_after_ms: None },
                )?;
            }
            Event::ActionStarted(event) => {
                let action = self.open_action(event.branch, event.id, "action_started")?;
                if action.effect == Effect::Read {
                    return Err("a read has no intent".to_owned());
                }
                let next = action.attempts.saturating_add(1);
                if event.attempt != next {
                    return Err(format!("try {next} must come next"));
                }
                action.attempts = event.attempt;
                action.state = ActionState::Started;
            }
            Event::AttemptFailed(event) => {
                let action = self.open_action(event.branch, event.id, "attempt_failed")?;
                action.attempts = event.attempt;
                action.state = ActionState::Backoff { until: event.retry_at };
                self.totals.retries += 1;
            }
            Event::ActionFinished(event) => self.action_finished(event, record.at)?,
            Event::ActionUnknown(event) => {
                let action = self.open_action(event.branch, event.id, "action_unknown")?;
                action.state = ActionState::Unknown { reason: event.reason.clone() };
            }
            Event::ActionNotHappened(event) => {
                let action = self.open_action(event.branch, event.id, "action_not_happened")?;
                action.state = ActionState::Decided;
            }
            Event::StateSaved(event) => {
                if let Some(id) = event.branch {
                    let branch = self.branch_in(id, "state_saved")?;
                    if event.member.is_none() {
                        branch.locals.insert(event.key.clone(), event.value.clone());
                    }
                    if let Some(entry) = event.entry {
                        branch.did(entry);
                    }
                    branch.useful = true;
                }
            }
            Event::WaitStarted(event) => {
                let branch = self.branch_in(event.branch, "wait_started")?;
                branch.did(event.entry);
                branch.phase = Phase::Waiting { on: WaitFor::Time(event.until) };
            }
            Event::WaitEnded(event) => {
                let branch = self.branch_in(event.branch, "wait_ended")?;
                if !matches!(branch.phase, Phase::Waiting { on: WaitFor::Time(_) }) {
                    return Err("the branch doesn't wait for a time".to_owned());
                }
                branch.phase = Phase::Deciding;
                // Time has passed, so the same question may have another answer.
                if let Some(agent) = &mut branch.agent {
                    agent.window.clear();
                }
            }
            Event::QuestionAsked(event) => self.question_asked(event)?,
            Event::QuestionAnswered(event) => self.question_answered(event)?,
            Event::LifecycleMoved(event) => {
                if self.lifecycle.as_deref() != Some(event.from.as_str()) {
                    return Err(format!("the lifecycle is not at `{}`", event.from));
                }
                self.branch_in(event.branch, "lifecycle_moved")?.did(event.entry);
                self.lifecycle = Some(event.to.clone());
            }
            Event::LifecycleRefused(event) => {
                let branch = self.branch_in(event.branch, "lifecycle_refused")?;
                branch.failure = Some(Failure {
                    tool: "enter".to_owned(),
                    code: Code::Refused,
                    error: format!("the lifecycle can't go from `{}` to `{}`", event.from, event.to),
                    retry_after_ms: None,
                });
            }
            Event::LoopFound(event) => {
                let branch = self.branch_in(event.branch, "loop_found")?;
                match &mut branch.agent {
                    Some(agent) => {
                        agent.guard = event.response;
                        agent.withheld.extend(event.withheld.iter().cloned());
                        agent.window.clear();
                        agent.fruitless_in_row = 0;
                        branch.looped = true;
                    }
                    None => {
                        self.window.clear();
                        self.totals.fruitless_in_row = 0;
                    }
                }
            }
            Event::StepEvaluated(event) => self.step_evaluated(event, record)?,
            Event::LimitReached(event) => self.stopped = Some(event.clone()),
            Event::LimitsRaised(event) => {
                self.raised.max_steps = event.max_steps.or(self.raised.max_steps);
                self.raised.max_duration_ms = event.max_duration_ms.or(self.raised.max_duration_ms);
                self.raised.tokens = event.tokens.or(self.raised.tokens);
                self.raised.cost = event.cost.or(self.raised.cost);
                if event.tokens.is_some() || event.cost.is_some() {
                    self.budget_raised();
                }
                self.stopped = None;
                if self.question.as_ref().is_some_and(|question| question.about == About::Limit) {
                    self.question = None;
                }
            }
            Event::BudgetWarned(event) => {
                self.budget.warned.insert(event.budget.clone(), event.clone());
            }
            Event::BudgetStaged(event) => self.staged(event),
            Event::NoteTaken(event) => self.heard(event.id),
            Event::OrderTaken(event) => {
                self.heard(event.id);
                match event.order {
                    Order::Pause => self.paused = Some(format!("{} paused it", event.by)),
                    Order::Unpause => self.paused = None,
                    Order::Cancel => self.aborted = true,
                    Order::Note { .. } => return Err("a note has a record of its own".to_owned()),
                }
            }
            Event::RunPaused(event) => self.paused = Some(event.reason.clone()),
            Event::RunEnded(event) => self.ended = Some(event.outcome),
            Event::HookSent(event) => self.told = self.told.max(event.about),
            Event::ChangesAccepted(event) => {
                if let Some(change) = &event.task {
                    self.task_changed(change)?;
                }
            }
        }
        Ok(())
    }

    fn heard(&mut self, id: RecordId) {
        /// Messages that are remembered: whoever takes one tells the store at once, so that only the last few can come again.
        const REMEMBERED: usize = 64;
        self.heard.push(id);
        if self.heard.len() > REMEMBERED {
            self.heard.remove(0);
        }
    }

    fn step_started(&mut self, event: &StepStarted) -> Result<(), String> {
        let phase = phase_name(self.branches.get(&event.branch));
        require(TABLE, phase, "step_started")?;
        if event.step != self.last_step.next() {
            return Err(format!("step {} must come next", self.last_step.next()));
        }
        let position = self
            .subgoals
            .iter()
            .position(|progress| progress.id == event.subgoal)
            .ok_or_else(|| format!("the task has no subgoal `{}`", event.subgoal))?;
        if let Some(branch) = self.branches.get_mut(&event.branch) {
            branch.open_step(event.step);
        } else {
            if event.branch != self.last_branch.next() {
                return Err(format!("branch {} must come next", self.last_branch.next()));
            }
            let progress = &mut self.subgoals[position];
            if progress.status != SubgoalStatus::Active {
                return Err(format!("subgoal `{}` is {}", progress.id, progress.status.name()));
            }
            let mut rounds = 0;
            match event.item {
                Some(item) if item == progress.begun => progress.begun += 1,
                Some(item) => {
                    let set_aside = progress
                        .deferred
                        .iter()
                        .position(|deferred| deferred.item == item)
                        .ok_or_else(|| format!("item {item} is neither the next one nor set aside"))?;
                    rounds = progress.deferred.remove(set_aside).rounds;
                }
                None => {}
            }
            let mut branch = Branch::new(position, event, rounds);
            branch.open_step(event.step);
            self.branches.insert(event.branch, branch);
            self.last_branch = event.branch;
        }
        self.last_step = event.step;
        Ok(())
    }

    fn action_decided(&mut self, event: &ActionDecided) -> Result<(), String> {
        let branch = self.branch_in(event.branch, "action_decided")?;
        if branch.agent.is_none() && !matches!(branch.phase, Phase::Deciding) {
            return Err("a call is at work already".to_owned());
        }
        if event.id != branch.next_action() {
            return Err(format!("action {} must come next", branch.next_action()));
        }
        branch.actions += 1;
        branch.entry = event.entry;
        branch.alternative = event.alternative;
        branch.failure = None;
        let action = Action {
            id: event.id,
            tool: event.tool.clone(),
            effect: event.effect,
            arguments: event.arguments.clone(),
            digest: event.digest,
            business_key: event.business_key.clone(),
            save: event.save.clone(),
            attempts: 0,
            lost: 0,
            state: ActionState::Decided,
        };
        let subgoal = branch.subgoal;
        let by_model = branch.agent.is_some();
        match &mut branch.phase {
            Phase::Acting { actions } => actions.push(action),
            phase => *phase = Phase::Acting { actions: vec![action] },
        }
        if by_model {
            *self.subgoals[subgoal].calls.entry(event.tool.clone()).or_default() += 1;
        }
        *self.calls.entry(event.tool.clone()).or_default() += 1;
        if let Some(ailing) = event.instead_of.as_ref().and_then(|tool| self.ailing.get_mut(tool)) {
            ailing.passed_over += 1;
        }
        Ok(())
    }

    fn action_finished(&mut self, event: &ActionFinished, at: Timestamp) -> Result<(), String> {
        let action = self.take_action(event.branch, event.id, "action_finished")?;
        let result = &event.result;
        let seen = Seen {
            tool: action.tool.clone(),
            digest: action.digest,
            code: result.code,
            fingerprint: result.fingerprint,
        };
        let novel = match &mut self.branch(event.branch)?.agent {
            Some(agent) => agent.finished(seen, action.effect, &action.arguments, at),
            None => self.window.push(seen),
        };
        self.totals.calls += 1;
        self.last_call = Some(LastCall { tool: action.tool.clone(), code: result.code, error: result.error.clone() });
        if result.code.is_transient() {
            let ailing = self.ailing.entry(action.tool.clone()).or_default();
            ailing.failures += 1;
            ailing.passed_over = 0;
        } else {
            self.ailing.remove(&action.tool);
        }
        if !result.is_ok() {
            self.totals.failures += 1;
            let error = result.error.clone().unwrap_or_else(|| result.code.name().to_owned());
            return self.call_failed(
                event.branch,
                Failure { tool: action.tool, code: result.code, error, retry_after_ms: result.retry_after_ms },
            );
        }
        let branch = self.branch(event.branch)?;
        let subgoal = branch.subgoal;
        branch.useful |= novel;
        if let Some(save) = action.save.filter(|save| save.local) {
            branch.locals.insert(save.name, result.data.clone());
        }
        branch.did(branch.entry);
        branch.settle();
        self.subgoals[subgoal].last = Some(Code::Success);
        Ok(())
    }

    /// A call of this branch failed for good: the entry is still to be done, by its next alternative.
    fn call_failed(&mut self, id: BranchId, failure: Failure) -> Result<(), String> {
        let branch = self.branch(id)?;
        let subgoal = branch.subgoal;
        let code = failure.code;
        match &mut branch.agent {
            // The model sees it and decides what else to do.
            Some(agent) => {
                agent.failed += 1;
                agent.last_failure = Some(format!("{}: {}", failure.tool, failure.error));
            }
            None => branch.failure = Some(failure),
        }
        branch.settle();
        self.subgoals[subgoal].last = Some(code);
        Ok(())
    }

    fn step_evaluated(&mut self, event: &StepEvaluated, record: &Record) -> Result<(), String> {
        let branch = self.branch_in(event.branch, "step_evaluated")?;
        if branch.step != event.step {
            return Err(format!("step {} is open", branch.step));
        }
        // An entry without a value fails the step, and no other record says so.
        let failed = !matches!(event.verdict.route, Route::Continue | Route::BranchDone);
        let useful = branch.useful;
        if let Some(agent) = &mut branch.agent {
            agent.stepped(failed, useful && !branch.looped);
        }
        self.totals.steps += 1;
        self.totals.failures_in_row = if failed { self.totals.failures_in_row + 1 } else { 0 };
        self.totals.fruitless_in_row = if useful { 0 } else { self.totals.fruitless_in_row + 1 };
        self.verdict = Some(event.verdict.clone());
        let branch = self.branch(event.branch)?;
        match event.verdict.route {
            Route::Continue => branch.phase = Phase::Ready,
            Route::Replan => {
                let whole = branch.item.is_none();
                if let Some(agent) = &mut branch.agent {
                    agent.replan();
                    agent.way_failed = whole.then(|| event.verdict.reason.clone());
                }
                branch.failure = None;
                branch.phase = Phase::Ready;
            }
            Route::Correct => {
                branch.corrected = true;
                branch.failure = None;
                branch.alternative = 0;
                branch.phase = Phase::Ready;
            }
            Route::Person => {
                let text = event.verdict.reason.clone();
                let question = Question { about: About::Failure, action: None, text };
                branch.phase = Phase::Waiting { on: WaitFor::Person(question) };
            }
            Route::BranchDone => {
                let (branch, progress) = self.close(event.branch)?;
                progress.done += 1;
                if branch.item.is_none() {
                    progress.summary = branch.agent.and_then(|agent| agent.claim);
                }
            }
            Route::Defer { due } => {
                let (branch, progress) = self.close(event.branch)?;
                let item = branch.item.ok_or("only an item can be set aside")?;
                progress.deferred.push(Deferred { item, rounds: branch.rounds + 1, due });
                self.totals.deferrals += 1;
            }
            Route::GiveUp => self.give_up(event.branch, &event.verdict.reason),
            Route::Fail => {
                let (_, progress) = self.close(event.branch)?;
                progress.failure =
                    Some(format!("step {} (record {}): {}", event.step, record.seq, event.verdict.reason));
            }
        }
        Ok(())
    }

    fn give_up(&mut self, id: BranchId, reason: &str) {
        let Ok((branch, progress)) = self.close(id) else { return };
        let (code, reason) = match branch.failure {
            Some(failure) => (failure.code, failure.error),
            None => (Code::Permanent, reason.to_owned()),
        };
        match branch.item {
            Some(position) => {
                progress.given_up.push(GivenUp { position, item: branch.input.unwrap_or_default(), code, reason });
            }
            None => progress.failure = Some(reason),
        }
    }

    fn close(&mut self, id: BranchId) -> Result<(Branch, &mut Progress), String> {
        let branch = self.branches.remove(&id).ok_or_else(|| format!("there is no branch {id}"))?;
        let progress = &mut self.subgoals[branch.subgoal];
        Ok((branch, progress))
    }

    fn progress(&mut self, subgoal: &str) -> Result<&mut Progress, String> {
        self.subgoals
            .iter_mut()
            .find(|progress| progress.id == subgoal)
            .ok_or_else(|| format!("the task has no subgoal `{subgoal}`"))
    }

    fn open_branches(&self, subgoal: &str) -> usize {
        self.branches.values().filter(|branch| self.subgoals[branch.subgoal].id == subgoal).count()
    }

    fn branch(&mut self, id: BranchId) -> Result<&mut Branch, String> {
        self.branches.get_mut(&id).ok_or_else(|| format!("there is no branch {id}"))
    }

    fn branch_in(&mut self, id: BranchId, kind: &'static str) -> Result<&mut Branch, String> {
        require(TABLE, phase_name(self.branches.get(&id)), kind)?;
        self.branch(id)
    }

    fn open_action(&mut self, branch: BranchId, id: ActionId, kind: &'static str) -> Result<&mut Action, String> {
        let branch = self.branch_in(branch, kind)?;
        let Phase::Acting { actions } = &mut branch.phase else {
            return Err("the branch makes no calls".to_owned());
        };
        let action =
            actions.iter_mut().find(|action| action.id == id).ok_or_else(|| format!("action {id} is not open"))?;
        require(CALLS, call_name(&action.state), kind)?;
        Ok(action)
    }

    fn take_action(&mut self, branch: BranchId, id: ActionId, kind: &'static str) -> Result<Action, String> {
        self.open_action(branch, id, kind)?;
        let Phase::Acting { actions } = &mut self.branch(branch)?.phase else {
            return Err("the branch makes no calls".to_owned());
        };
        let position = actions.iter().position(|action| action.id == id).ok_or("the action is not open")?;
        Ok(actions.remove(position))
    }
}

fn require<S: Copy + PartialEq + std::fmt::Debug>(table: &[(S, &str)], state: S, kind: &str) -> Result<(), String> {
    let legal = table.iter().any(|(from, event)| *from == state && *event == kind);
    if legal { Ok(()) } else { Err(format!("not in {state:?}")) }
}
