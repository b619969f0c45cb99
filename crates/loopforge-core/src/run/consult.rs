//! What the run as a whole asks models: to make and amend its plan, and whether the goal is reached.
//!
//! Like a step of a branch, a consultation is a sequence of records from which a crash anywhere goes on: it is started, a model is called,
//! and the reply stands in one append with what comes of it. While a plan is being made nothing new begins that it could change.

use crate::evaluate;
use crate::id::BranchId;
use crate::model::{ErrorKind, ModelError, Reply};
use crate::payload::Payload;
use crate::plan::{self, Consult, JUDGE, MAX_TRIES, PLANNER};
use crate::record::{
    Amendment, Cause, ConsultFailed, ConsultStarted, Event, Judged, ModelCalled, ModelFailed, ModelReplied,
    PlanAmended, Purpose, Replacement, RunPaused, SubgoalOutcome,
};
use crate::task::{Catalog, OnFailure, Task};
use crate::time::Timestamp;

use super::agent::{MODEL, Replied, said, when_again};
use super::next::View;
use super::{Draft, Failure, Idle, Move, Phase, Progress, RunState, SubgoalStatus, Thought, ThoughtState};

impl RunState {
    /// What is to be done about a consultation: the open one, or one that is due.
    pub(super) fn next_consult(&self, view: &View<'_>, may_start: bool, idle: &mut Idle) -> Option<Move> {
        let Some(consult) = &self.consult else {
            return may_start.then(|| self.due_consult(view)).flatten().map(started);
        };
        if let Some(failure) = &consult.failure {
            let reason = format!("no model answers ({}): {}", failure.code, failure.error);
            return self.paused.is_none().then(|| one(Event::RunPaused(RunPaused { reason })));
        }
        if consult.tries >= MAX_TRIES {
            return Some(one(given_up(consult)));
        }
        match consult.thought.as_ref().map(|thought| thought.state) {
            Some(ThoughtState::Called) => {
                idle.in_flight = true;
                None
            }
            Some(ThoughtState::Backoff { until }) if until > view.now => {
                idle.wake(until);
                None
            }
            None | Some(ThoughtState::Backoff { .. } | ThoughtState::Lost) => self.may_think().then_some(Move::Consult),
        }
    }

    /// The consultation of the planner that is due, if one is.
    fn due_consult(&self, view: &View<'_>) -> Option<ConsultStarted> {
        if !plan::has_planner(view.task) {
            return None;
        }
        if let [only] = self.subgoals.as_slice()
            && only.status == SubgoalStatus::Pending
            && !only.considered
            && plan::is_unplanned(view.task)
        {
            let reason = "the task has a goal and no subgoals".to_owned();
            return Some(wanted(Cause::NoPlan, Some(&only.id), None, reason));
        }
        if !self.may_replan(view.task) {
            return None;
        }
        let stuck = self.branches.iter().find_map(|(id, branch)| {
            let reason = branch.agent.as_ref()?.way_failed.as_ref()?;
            let waits = branch.phase == Phase::Ready && branch.item.is_none();
            waits.then(|| wanted(Cause::WayFailed, Some(&self.subgoals[branch.subgoal].id), Some(*id), reason.clone()))
        });
        stuck.or_else(|| {
            self.subgoals.iter().zip(&view.task.subgoals).find_map(|(progress, subgoal)| {
                let failed = progress.status == SubgoalStatus::Ended(SubgoalOutcome::Failed);
                let due = failed && !progress.considered && subgoal.on_failure == Some(OnFailure::Replan);
                due.then(|| {
                    let reason = progress.failure.clone().unwrap_or_else(|| "it failed".to_owned());
                    wanted(Cause::SubgoalFailed, Some(&progress.id), None, reason)
                })
            })
        })
    }

    /// Whether the planner may be asked after one more failure.
    fn may_replan(&self, task: &Task) -> bool {
        plan::has_planner(task) && self.plan.replans < task.limits.max_replans
    }

    /// Whether a consultation keeps this branch from its next step.
    pub(super) fn is_held(&self, id: BranchId) -> bool {
        self.consult.as_ref().is_some_and(|consult| consult.branch == Some(id))
    }

    /// What comes before a run ends so: the planner after a broken criterion, the judge after all rules.
    pub(super) fn before_the_end(&self, view: &View<'_>, end: &mut crate::record::RunEnded) -> Option<Move> {
        let may_replan = view.task.evaluator.allow_replan && !self.plan.kept && self.may_replan(view.task);
        if end.outcome != crate::record::RunOutcome::Succeeded {
            let only_criteria = self.subgoals.iter().all(|progress| progress.status.satisfies());
            return (may_replan && only_criteria)
                .then(|| started(wanted(Cause::CriteriaUnmet, None, None, end.reason.clone())));
        }
        if !view.task.evaluator.judge || view.task.model.is_none() {
            return None;
        }
        let Some(judged) = &self.judgement else {
            let mut consult = wanted(Cause::RulesHold, None, None, end.reason.clone());
            consult.purpose = Purpose::Judge;
            return Some(started(consult));
        };
        if judged.reached == Some(false) && may_replan {
            return Some(started(wanted(Cause::NotReached, None, None, judged.reason.clone())));
        }
        evaluate::judged(end, judged);
        None
    }

    /// The events of a reply to a consultation: the reply, and what comes of it. They belong into one append.
    ///
    /// `None` when this reply isn't awaited any more.
    #[must_use]
    pub fn take_consult(&self, view: &View<'_>, catalog: &Catalog, replied: &Replied) -> Option<Vec<Draft>> {
        let consult = self.consult.as_ref().filter(|consult| consult.awaits(replied.call))?;
        let reply = &replied.reply;
        let mut blobs = Vec::new();
        let blocks = Payload::stow(serde_json::to_value(&reply.blocks).unwrap_or_default(), &mut blobs);
        blobs.extend(replied.raw.clone());
        let event = Event::ModelReplied(ModelReplied {
            branch: None,
            step: None,
            call: replied.call,
            model: reply.model.clone(),
            marks: reply.marks.clone(),
            raw: replied.raw.as_ref().map(|blob| blob.reference),
            blocks,
            calls: u32::try_from(reply.calls().count()).unwrap_or(u32::MAX),
            says: said(reply),
            stop: reply.stop.clone(),
            usage: reply.usage,
            cost: replied.cost,
            adrift: false,
            took_us: u64::try_from(replied.took.as_micros()).unwrap_or(u64::MAX),
        });
        let then = match consult.purpose {
            Purpose::Judge => judge(replied.call, reply),
            Purpose::Plan | Purpose::Act => self.amend(view, catalog, consult, replied.call, reply),
        };
        let then = then.unwrap_or_else(|problems| {
            let last = consult.tries + 1 >= MAX_TRIES;
            Event::ConsultFailed(ConsultFailed { purpose: consult.purpose, problems, last })
        });
        Some(vec![Draft { event, blobs }, then.into()])
    }

    fn amend(
        &self,
        view: &View<'_>,
        catalog: &Catalog,
        consult: &Consult,
        call: u32,
        reply: &Reply,
    ) -> Result<Event, Vec<String>> {
        let arguments = plan::given(reply, PLANNER).map_err(|problem| vec![problem])?;
        let proposal = plan::propose(view.task, self, catalog, &arguments)?;
        Ok(Event::PlanAmended(PlanAmended {
            call,
            reason: proposal.reason,
            advice: proposal.advice,
            branch: consult.branch,
            amendment: proposal.amendment,
        }))
    }

    /// What becomes of a call for a consultation that brought no reply. `chain` is how many models can be asked.
    #[must_use]
    pub fn consult_failure(
        &self,
        task: &Task,
        call: u32,
        error: &ModelError,
        chain: u32,
        now: Timestamp,
    ) -> Option<ModelFailed> {
        let consult = self.consult.as_ref().filter(|consult| consult.awaits(call))?;
        let (retry_at, next_model) = when_again(task, consult.model, consult.model_failures, error, chain, now);
        Some(ModelFailed {
            branch: None,
            step: None,
            call,
            error: error.kind,
            reason: error.message.clone(),
            retry_at,
            next_model,
            usage: error.may_be_billed.then_some(*error.usage),
            cost: None,
        })
    }

    pub(super) fn consult_started(&mut self, event: &ConsultStarted) -> Result<(), String> {
        if self.consult.is_some() {
            return Err("a model is consulted already".to_owned());
        }
        self.consult = Some(Consult {
            purpose: event.purpose,
            cause: event.cause,
            subgoal: event.subgoal.clone(),
            branch: event.branch,
            reason: event.reason.clone(),
            thought: None,
            tries: 0,
            problems: Vec::new(),
            model: 0,
            model_failures: 0,
            failure: None,
        });
        Ok(())
    }

    pub(super) fn consult_called(&mut self, event: &ModelCalled) -> Result<(), String> {
        let next = self.models.calls.saturating_add(1);
        let consult = self.consult.as_mut().ok_or("no model is consulted")?;
        if consult.purpose != event.purpose {
            return Err("a model is consulted about something else".to_owned());
        }
        if consult.thought.as_ref().is_some_and(|thought| thought.state == ThoughtState::Called) {
            return Err("a model was asked already".to_owned());
        }
        if event.call != next {
            return Err(format!("model call {next} must come next"));
        }
        consult.thought = Some(Thought { call: event.call, state: ThoughtState::Called });
        self.models.calls = event.call;
        Ok(())
    }

    pub(super) fn consult_replied(&mut self, event: &ModelReplied) -> Result<(), String> {
        let consult = self.awaited(event.call)?;
        consult.thought = None;
        consult.model_failures = 0;
        Ok(())
    }

    pub(super) fn consult_call_failed(&mut self, event: &ModelFailed) -> Result<(), String> {
        let consult = self.awaited(event.call)?;
        consult.model_failures += 1;
        consult.model = event.next_model.unwrap_or(consult.model);
        consult.thought = None;
        match (event.retry_at, event.error) {
            (Some(until), _) => {
                consult.thought = Some(Thought { call: event.call, state: ThoughtState::Backoff { until } });
            }
            // The next prompt may fare better: it says what happened.
            (None, ErrorKind::Refused | ErrorKind::ContextTooLong) => {
                consult.tries += 1;
                consult.problems = vec![event.reason.clone()];
            }
            (None, _) => {
                consult.failure = Some(Failure {
                    tool: MODEL.to_owned(),
                    code: event.error.code(),
                    error: event.reason.clone(),
                    retry_after_ms: None,
                });
            }
        }
        Ok(())
    }

    fn awaited(&mut self, call: u32) -> Result<&mut Consult, String> {
        self.consult
            .as_mut()
            .filter(|consult| consult.awaits(call))
            .ok_or_else(|| format!("no reply to model call {call} is awaited"))
    }

    pub(super) fn consult_failed(&mut self, event: &ConsultFailed) -> Result<(), String> {
        let consult = self.consult.as_mut().filter(|consult| consult.purpose == event.purpose);
        let consult = consult.ok_or("no model is consulted about that")?;
        consult.tries += 1;
        consult.problems.clone_from(&event.problems);
        if !event.last {
            return Ok(());
        }
        match event.purpose {
            Purpose::Judge => {
                self.judgement = Some(Judged {
                    call: None,
                    reached: None,
                    reason: format!("the judge gave no answer that can be used: {}", event.problems.join("; ")),
                    verified: Vec::new(),
                    unverified: Vec::new(),
                });
                self.consult = None;
            }
            Purpose::Plan | Purpose::Act => self.settle_plan(false),
        }
        Ok(())
    }

    pub(super) fn plan_amended(&mut self, event: &PlanAmended) -> Result<(), String> {
        if self.consult.as_ref().is_none_or(|consult| consult.purpose != Purpose::Plan) {
            return Err("no planner was asked".to_owned());
        }
        let Amendment { add, drop, replace } = &event.amendment;
        for subgoal in add {
            if self.subgoals.iter().any(|progress| progress.id == subgoal.id) {
                return Err(format!("there is a subgoal `{}` already", subgoal.id));
            }
            self.subgoals.push(Progress::new(&subgoal.id));
        }
        for id in drop {
            self.take_out(id, event.branch, SubgoalOutcome::Dropped)?.dropped = Some(event.reason.clone());
        }
        for Replacement { id, with } in replace {
            if !self.subgoals.iter().any(|progress| progress.id == *with) {
                return Err(format!("there is no subgoal `{with}`"));
            }
            self.take_out(id, event.branch, SubgoalOutcome::Replaced)?.replaced_by = Some(with.clone());
        }
        if !event.amendment.is_empty() {
            // What they waited for may come after all.
            for progress in &mut self.subgoals {
                if progress.status == SubgoalStatus::Ended(SubgoalOutcome::Blocked) {
                    progress.status = SubgoalStatus::Pending;
                }
            }
            self.plan.amendments.push(event.amendment.clone());
            self.judgement = None;
        }
        self.settle_plan(!event.amendment.is_empty());
        Ok(())
    }

    /// Takes a subgoal out of the plan, with the branch that stands still in it.
    fn take_out(
        &mut self,
        id: &str,
        stuck: Option<BranchId>,
        outcome: SubgoalOutcome,
    ) -> Result<&mut Progress, String> {
        let position = self
            .subgoals
            .iter()
            .position(|progress| progress.id == id)
            .ok_or_else(|| format!("the plan has no subgoal `{id}`"))?;
        match self.subgoals[position].status {
            SubgoalStatus::Pending | SubgoalStatus::Ended(SubgoalOutcome::Failed | SubgoalOutcome::Blocked) => {}
            SubgoalStatus::Active => {
                if let Some(stuck) = stuck
                    && self.branches.get(&stuck).is_some_and(|b| b.subgoal == position && b.phase == Phase::Ready)
                {
                    self.branches.remove(&stuck);
                }
                if self.branches.values().any(|branch| branch.subgoal == position) {
                    return Err(format!("subgoal `{id}` is being worked on"));
                }
            }
            SubgoalStatus::Ended(_) => return Err(format!("subgoal `{id}` has ended")),
        }
        let progress = &mut self.subgoals[position];
        progress.status = SubgoalStatus::Ended(outcome);
        Ok(progress)
    }

    /// The plan is settled, changed or not: what it was asked about isn't asked again.
    fn settle_plan(&mut self, changed: bool) {
        let Some(consult) = self.consult.take() else { return };
        if consult.cause != Cause::NoPlan {
            self.plan.replans += 1;
        }
        match &consult.subgoal {
            Some(id) => {
                if let Some(progress) = self.subgoals.iter_mut().find(|progress| progress.id == *id) {
                    progress.considered = true;
                }
            }
            None => self.plan.kept = !changed,
        }
        if let Some(agent) = consult.branch.and_then(|id| self.branches.get_mut(&id)).and_then(|b| b.agent.as_mut()) {
            agent.way_failed = None;
        }
    }

    pub(super) fn judged(&mut self, event: &Judged) -> Result<(), String> {
        if self.consult.as_ref().is_none_or(|consult| consult.purpose != Purpose::Judge) {
            return Err("no judge was asked".to_owned());
        }
        self.consult = None;
        self.judgement = Some(event.clone());
        Ok(())
    }

    /// What kept a model from answering may be mended, and the call of the owner before is lost.
    pub(super) fn consult_resumed(&mut self) {
        if let Some(consult) = &mut self.consult
            && consult.failure.take().is_some()
        {
            consult.model = 0;
            consult.model_failures = 0;
        }
    }

    pub(super) fn lose_consult(&mut self) {
        if let Some(thought) = self.consult.as_mut().and_then(|consult| consult.thought.as_mut())
            && thought.state == ThoughtState::Called
        {
            thought.state = ThoughtState::Lost;
            self.models.lost += 1;
        }
    }
}

fn wanted(cause: Cause, subgoal: Option<&String>, branch: Option<BranchId>, reason: String) -> ConsultStarted {
    ConsultStarted { purpose: Purpose::Plan, cause, subgoal: subgoal.cloned(), branch, reason }
}

fn started(consult: ConsultStarted) -> Move {
    one(Event::ConsultStarted(consult))
}

fn given_up(consult: &Consult) -> Event {
    Event::ConsultFailed(ConsultFailed { purpose: consult.purpose, problems: consult.problems.clone(), last: true })
}

/// The judge's answer.
fn judge(call: u32, reply: &Reply) -> Result<Event, Vec<String>> {
    let arguments = plan::given(reply, JUDGE).map_err(|problem| vec![problem])?;
    let mut problems = Vec::new();
    let reached = arguments.get("reached").and_then(crate::json::Json::as_bool);
    if reached.is_none() {
        problems.push("`reached` must be true or false".to_owned());
    }
    let reason = arguments.get("reason").and_then(crate::json::Json::as_str).map(str::trim).unwrap_or_default();
    if reason.is_empty() {
        problems.push("`reason` is missing: say why".to_owned());
    }
    let verified = plan::argument_texts(&arguments, "verified", &mut problems);
    let unverified = plan::argument_texts(&arguments, "unverified", &mut problems);
    if problems.is_empty() {
        Ok(Event::Judged(Judged { call: Some(call), reached, reason: reason.to_owned(), verified, unverified }))
    } else {
        Err(problems)
    }
}

fn one(event: Event) -> Move {
    Move::Record(vec![event.into()])
}
