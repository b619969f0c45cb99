//! What is to be done next in a run.

use std::collections::BTreeMap;

use crate::evaluate;
use crate::expression::{EvalError, Expression, Scope, Values};
use crate::id::BranchId;
use crate::json::Json;
use crate::payload::{Blob, NotLoaded, Payload};
use crate::record::{
    About, ActionId, Event, LimitReached, List, QuestionAsked, RunEnded, RunOutcome, StepStarted, SubgoalEnded,
    SubgoalOutcome, SubgoalStarted, WaitEnded,
};
use crate::task::{OnFailure, OnMaxSteps, Subgoal, Task};
use crate::time::Timestamp;

use super::{ActionState, Branch, Draft, Phase, Progress, RunState, SubgoalStatus, ThoughtState, ToolFacts, WaitFor};

/// The next thing to do. There is always exactly one answer; the driver does it and asks again.
#[derive(Debug, Clone, PartialEq)]
pub enum Move {
    /// Archive these events; they belong together.
    Record(Vec<Draft>),
    /// Make this call.
    Call(Call),
    /// Find out whether this call's effect happened.
    Calibrate(Call),
    /// Ask a model what this branch does next.
    Think(BranchId),
    /// Ask a model what the run as a whole wants to know.
    Consult,
    /// Nothing can be done now.
    Idle(Idle),
    /// The run has ended.
    Ended(RunOutcome),
}

/// Names a call that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// The branch.
    pub branch: BranchId,
    /// The action.
    pub action: ActionId,
}

/// Why nothing can be done now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Idle {
    /// Something is due at this time.
    pub wake_at: Option<Timestamp>,
    /// A call that was made hasn't ended.
    pub in_flight: bool,
    /// A person must answer.
    pub person: bool,
    /// The run is paused, or stopped at a limit.
    pub stopped: bool,
}

impl Idle {
    pub(super) fn wake(&mut self, at: Timestamp) {
        self.wake_at = Some(self.wake_at.map_or(at, |earlier| earlier.min(at)));
    }
}

/// What a decision looks at.
pub struct View<'a> {
    /// The task.
    pub task: &'a Task,
    /// Its tools.
    pub tools: &'a BTreeMap<String, ToolFacts>,
    /// Inputs and state, as far as they are loaded.
    pub values: &'a Values,
    /// The time.
    pub now: Timestamp,
}

impl RunState {
    /// Says what is to be done next.
    ///
    /// Pure: the same arguments give the same answer. `in_flight` tells which calls have been made and haven't ended; they
    /// are not asked for again. After [`Move::Record`] the events must be applied before asking again.
    ///
    /// # Errors
    /// [`NotLoaded`]: an expression reads something that `values` doesn't hold; load it and ask again.
    pub fn next(
        &self,
        task: &Task,
        tools: &BTreeMap<String, ToolFacts>,
        values: &Values,
        now: Timestamp,
        in_flight: &dyn Fn(ActionId) -> bool,
    ) -> Result<Move, NotLoaded> {
        let view = View { task, tools, values, now };
        if let Some(outcome) = self.ended {
            return Ok(Move::Ended(outcome));
        }
        if self.aborted && self.branches.values().all(|branch| !branch.is_in_flight(in_flight)) {
            return Ok(record(RunEnded {
                outcome: RunOutcome::Cancelled,
                reason: "a person stopped it".to_owned(),
                checks: Vec::new(),
                unverified: self.unfinished(),
                judged: None,
            }));
        }
        let mut idle = Idle { stopped: self.paused.is_some() || self.is_out_of_time(), ..Idle::default() };
        if self.stopped.is_none() && self.question.is_none() && self.paused.is_none() {
            match self.deadline(task) {
                Some(deadline) if deadline <= now => return Ok(self.limit_reached(&view).unwrap_or(Move::Idle(idle))),
                Some(deadline) => idle.wake(deadline),
                None => {}
            }
        }
        let may_start = self.paused.is_none() && !self.aborted && self.question.is_none() && self.stopped.is_none();
        idle.person = self.question.is_some();
        if let Some(next) = self.next_consult(&view, may_start, &mut idle) {
            return Ok(next);
        }
        for (id, branch) in &self.branches {
            let may_start = may_start && !self.is_held(*id);
            if let Some(next) = self.next_in_branch(&view, *id, branch, may_start, in_flight, &mut idle)? {
                return Ok(next);
            }
        }
        if may_start {
            for (position, progress) in self.subgoals.iter().enumerate() {
                if let Some(next) = self.next_in_subgoal(&view, position, progress, &mut idle)? {
                    return Ok(next);
                }
            }
            // The end, too, waits for the plan.
            let all_ended = self.consult.is_none()
                && self.subgoals.iter().all(|progress| matches!(progress.status, SubgoalStatus::Ended(_)));
            if all_ended {
                return self.end(&view);
            }
        }
        idle.stopped |= self.stopped.is_some();
        Ok(Move::Idle(idle))
    }

    fn next_in_branch(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        may_start: bool,
        in_flight: &dyn Fn(ActionId) -> bool,
        idle: &mut Idle,
    ) -> Result<Option<Move>, NotLoaded> {
        Ok(match &branch.phase {
            // A person is to say whether it goes round in a circle: until then nothing is added to it.
            Phase::Deciding if self.question.as_ref().is_some_and(|open| open.about == About::Loop) => None,
            Phase::Deciding => match &branch.agent {
                Some(agent) => self.decide_agent(view, id, branch, agent)?,
                None => Some(self.decide(view, id, branch)?),
            },
            Phase::Thinking { thought } => match thought.state {
                ThoughtState::Called => {
                    idle.in_flight = true;
                    None
                }
                ThoughtState::Backoff { until } if until > view.now => {
                    idle.wake(until);
                    None
                }
                ThoughtState::Backoff { .. } | ThoughtState::Lost => self.may_think().then_some(Move::Think(id)),
            },
            Phase::Ready if may_start => Some(match self.limit_reached(view) {
                Some(reached) => reached,
                None => self.start_step(view, id, branch),
            }),
            Phase::Ready => None,
            Phase::Waiting { on: WaitFor::Person(_) } => {
                idle.person = true;
                None
            }
            Phase::Waiting { on: WaitFor::Time(until) } if *until <= view.now && !self.is_out_of_time() => {
                Some(record(Event::WaitEnded(WaitEnded { branch: id })))
            }
            Phase::Waiting { on: WaitFor::Time(until) } => {
                idle.wake(*until);
                None
            }
            Phase::Acting { actions } => {
                for (position, action) in actions.iter().enumerate() {
                    let call = Call { branch: id, action: action.id };
                    if in_flight(action.id) {
                        idle.in_flight = true;
                        continue;
                    }
                    match &action.state {
                        ActionState::Decided if !Self::is_its_turn(branch, position) => idle.in_flight = true,
                        ActionState::Decided if self.paused.is_none() => {
                            return Ok(Some(Self::rash_write(id, branch, position).unwrap_or(Move::Call(call))));
                        }
                        ActionState::Backoff { until }
                            if *until <= view.now && self.paused.is_none() && !self.is_out_of_time() =>
                        {
                            return Ok(Some(Move::Call(call)));
                        }
                        ActionState::Backoff { until } => idle.wake(*until),
                        ActionState::Unknown { .. } => return Ok(Some(Move::Calibrate(call))),
                        ActionState::Asked(_) => idle.person = true,
                        // The driver that started it has it in flight; one that takes over makes it unknown.
                        ActionState::Started | ActionState::Decided => idle.in_flight = true,
                    }
                }
                None
            }
        })
    }

    fn next_in_subgoal(
        &self,
        view: &View<'_>,
        position: usize,
        progress: &Progress,
        idle: &mut Idle,
    ) -> Result<Option<Move>, NotLoaded> {
        let subgoal = &view.task.subgoals[position];
        match progress.status {
            SubgoalStatus::Ended(_) => Ok(None),
            // A plan that is being made may change what hasn't begun.
            SubgoalStatus::Pending if self.consult.is_some() => Ok(None),
            SubgoalStatus::Pending => self.begin_subgoal(view, subgoal),
            SubgoalStatus::Active => {
                let open = self.branches.values().filter(|branch| branch.subgoal == position).count();
                if progress.failure.is_none()
                    && let Some(next) = self.open_branch(view, subgoal, progress, open, idle)?
                {
                    return Ok(Some(next));
                }
                // What is left may only have no room now, or not be due yet.
                if open > 0 || (progress.failure.is_none() && progress.has_more()) {
                    return Ok(None);
                }
                self.end_subgoal(view, subgoal, progress).map(Some)
            }
        }
    }

    fn begin_subgoal(&self, view: &View<'_>, subgoal: &Subgoal) -> Result<Option<Move>, NotLoaded> {
        let ended = |outcome, reason: String| {
            Ok(Some(record(Event::SubgoalEnded(SubgoalEnded { subgoal: subgoal.id.clone(), outcome, reason }))))
        };
        for need in &subgoal.needs {
            let Some(needed) = self.subgoals.iter().find(|progress| &progress.id == need) else {
                return ended(SubgoalOutcome::Blocked, format!("the task has no subgoal `{need}`"));
            };
            match needed.status {
                status if status.satisfies() => {}
                SubgoalStatus::Ended(outcome) => {
                    let word = SubgoalStatus::Ended(outcome).name();
                    return ended(SubgoalOutcome::Blocked, format!("it needs `{need}`, which is {word}"));
                }
                SubgoalStatus::Pending | SubgoalStatus::Active => return Ok(None),
            }
        }
        let no_locals = BTreeMap::new();
        if let Some(when) = &subgoal.when {
            match self.holds(view, when, &no_locals)? {
                Ok(true) => {}
                Ok(false) => return ended(SubgoalOutcome::Skipped, format!("`{when}` does not hold")),
                Err(reason) => {
                    return Ok(Some(self.fail_at_start(subgoal, format!("`when: {when}` has no value: {reason}"))));
                }
            }
        }
        let started = |list| Event::SubgoalStarted(SubgoalStarted { subgoal: subgoal.id.clone(), list });
        let Some(foreach) = &subgoal.foreach else {
            return Ok(Some(record(started(None))));
        };
        let items = match self.value(view, &foreach.list, &no_locals)? {
            Ok(Json::Array(items)) => Ok(items),
            Ok(other) => Err(format!("`{}` is {}, and not a list", foreach.list, kind_of(&other))),
            Err(reason) => Err(reason),
        };
        match items {
            Ok(items) => {
                let count = u32::try_from(items.len()).unwrap_or(u32::MAX);
                let mut blobs = Vec::new();
                let items = Payload::stow(Json::Array(items), &mut blobs);
                Ok(Some(Move::Record(vec![Draft { event: started(Some(List { items, count })), blobs }])))
            }
            Err(reason) => Ok(Some(self.fail_at_start(subgoal, reason))),
        }
    }

    /// A subgoal that can't begin, since an expression of it has no value.
    fn fail_at_start(&self, subgoal: &Subgoal, reason: String) -> Move {
        let started = SubgoalStarted { subgoal: subgoal.id.clone(), list: None };
        let failed = SubgoalEnded { subgoal: subgoal.id.clone(), outcome: SubgoalOutcome::Failed, reason };
        Move::Record(vec![Event::SubgoalStarted(started).into(), Event::SubgoalEnded(failed).into()])
    }

    /// Opens a branch for the next item, for one that was set aside, or for the subgoal as a whole.
    fn open_branch(
        &self,
        view: &View<'_>,
        subgoal: &Subgoal,
        progress: &Progress,
        open: usize,
        idle: &mut Idle,
    ) -> Result<Option<Move>, NotLoaded> {
        let moving = self.branches.values().filter(|branch| !matches!(branch.phase, Phase::Waiting { .. })).count();
        let parallel = subgoal.foreach.as_ref().map_or(1, |foreach| foreach.parallel.max(1));
        if open >= parallel as usize || moving >= view.task.limits.parallel.max(1) as usize {
            return Ok(None);
        }
        let Some(list) = &progress.list else {
            return Ok(progress.has_more().then(|| {
                self.limit_reached(view).unwrap_or_else(|| {
                    self.open_step(self.last_branch.next(), subgoal, progress, None, None, Vec::new())
                })
            }));
        };
        let item = if progress.begun < list.count {
            progress.begun
        } else {
            // The main line is through: what was set aside is tried again, the first that is due.
            match progress.deferred.iter().min_by_key(|deferred| deferred.due) {
                None => return Ok(None),
                Some(next) if next.due > view.now => {
                    idle.wake(next.due);
                    return Ok(None);
                }
                Some(next) => next.item,
            }
        };
        if let Some(reached) = self.limit_reached(view) {
            return Ok(Some(reached));
        }
        let mut blobs = Vec::new();
        let input = Payload::stow(list.items.item(item as usize, &view.values.blobs)?, &mut blobs);
        Ok(Some(self.open_step(self.last_branch.next(), subgoal, progress, Some(item), Some(input), blobs)))
    }

    fn end_subgoal(&self, view: &View<'_>, subgoal: &Subgoal, progress: &Progress) -> Result<Move, NotLoaded> {
        let (outcome, reason) = if let Some(failure) = &progress.failure {
            (SubgoalOutcome::Failed, failure.clone())
        } else {
            let unmet = match &subgoal.done_when {
                None => None,
                Some(rule) => match self.holds(view, rule, &BTreeMap::new())? {
                    Ok(true) => None,
                    Ok(false) => Some(format!("`{rule}` does not hold")),
                    Err(reason) => Some(format!("`{rule}` has no value: {reason}")),
                },
            };
            match (unmet, progress.given_up.len()) {
                (Some(unmet), _) => (SubgoalOutcome::Failed, format!("its steps have ended, but {unmet}")),
                (None, 0) => (
                    SubgoalOutcome::Done,
                    progress.summary.clone().unwrap_or_else(|| match &subgoal.done_when {
                        Some(rule) if subgoal.is_agent() => format!("`{rule}` holds"),
                        _ => "all its steps have ended".to_owned(),
                    }),
                ),
                (None, given_up) => (
                    SubgoalOutcome::Partial,
                    format!("{} of {} items are done, {given_up} were given up", progress.done, progress.begun),
                ),
            }
        };
        Ok(record(Event::SubgoalEnded(SubgoalEnded { subgoal: subgoal.id.clone(), outcome, reason })))
    }

    /// All subgoals have ended: the criteria decide.
    fn end(&self, view: &View<'_>) -> Result<Move, NotLoaded> {
        let mut checks = Vec::new();
        for rule in &view.task.evaluator.criteria {
            let outcome = self.holds(view, rule, &BTreeMap::new())?;
            checks.push(evaluate::check(rule, outcome));
        }
        let mut end = evaluate::end(view.task, &self.subgoals, checks);
        Ok(self.before_the_end(view, &mut end).unwrap_or_else(|| record(Event::RunEnded(end))))
    }

    /// When the run's time is up.
    fn deadline(&self, task: &Task) -> Option<Timestamp> {
        let raised = self.raised.max_duration_ms.map(std::time::Duration::from_millis);
        raised.or(task.limits.max_duration.map(|span| span.0)).map(|max| self.started_at.after(max))
    }

    /// Whether the run was stopped since its time is up: then neither waits nor further tries go on.
    pub(super) fn is_out_of_time(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped.limit == "max_duration")
    }

    /// The record that a limit is reached, once no further step may start.
    fn limit_reached(&self, view: &View<'_>) -> Option<Move> {
        let max_steps = self.max_steps(view.task);
        let reached = if let Some(deadline) = self.deadline(view.task).filter(|deadline| *deadline <= view.now) {
            let value = crate::time::Span(deadline.since(self.started_at)).to_string();
            LimitReached { limit: "max_duration".to_owned(), value }
        } else if self.last_step.0 >= max_steps {
            LimitReached { limit: "max_steps".to_owned(), value: max_steps.to_string() }
        } else {
            return None;
        };
        let question = format!(
            "The run has reached `{}` ({}). Raise it with `loopforge resume {} --max-steps N` or `--max-duration SPAN`, or abort.",
            reached.limit, reached.value, self.run
        );
        let mut drafts = vec![Draft::from(Event::LimitReached(reached))];
        if view.task.limits.on_max_steps == OnMaxSteps::Ask {
            let asked = QuestionAsked { branch: None, action: None, about: About::Limit, question };
            drafts.push(Event::QuestionAsked(asked).into());
        }
        Some(Move::Record(drafts))
    }

    fn start_step(&self, view: &View<'_>, id: BranchId, branch: &Branch) -> Move {
        let progress = &self.subgoals[branch.subgoal];
        let subgoal = &view.task.subgoals[branch.subgoal];
        self.open_step(id, subgoal, progress, branch.item, branch.input.clone(), Vec::new())
    }

    fn open_step(
        &self,
        branch: BranchId,
        subgoal: &Subgoal,
        progress: &Progress,
        item: Option<u32>,
        input: Option<Payload>,
        blobs: Vec<Blob>,
    ) -> Move {
        let entry = self.branches.get(&branch).map_or(0, |branch| branch.entry);
        let event = Event::StepStarted(StepStarted {
            branch,
            step: self.last_step.next(),
            subgoal: subgoal.id.clone(),
            item,
            input,
            agent: subgoal.is_agent(),
            basis: evaluate::basis(subgoal, progress, entry),
        });
        Move::Record(vec![Draft { event, blobs }])
    }

    /// What is not finished, for a report on a run that ends early.
    pub(super) fn unfinished(&self) -> Vec<String> {
        self.subgoals
            .iter()
            .filter(|progress| !progress.status.satisfies())
            .map(|progress| format!("subgoal `{}` is {}", progress.id, progress.status.name()))
            .collect()
    }

    /// Evaluates a tool's precondition for a branch. The inner error is a sentence: the rule has no value.
    ///
    /// # Errors
    /// [`NotLoaded`]: load it and ask again.
    pub fn precondition(
        &self,
        task: &Task,
        values: &Values,
        branch: BranchId,
        rule: &Expression,
    ) -> Result<Result<bool, String>, NotLoaded> {
        let no_tools = BTreeMap::new();
        let view = View { task, tools: &no_tools, values, now: self.last_at };
        let locals = self.branches.get(&branch).map(|branch| branch.locals.clone()).unwrap_or_default();
        self.holds(&view, rule, &locals)
    }

    /// Evaluates a rule. The inner error is a sentence: the rule has no value.
    pub(super) fn holds(
        &self,
        view: &View<'_>,
        rule: &Expression,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Result<bool, String>, NotLoaded> {
        self.with_scope(view, locals, |scope| rule.holds(scope))
    }

    fn value(
        &self,
        view: &View<'_>,
        expression: &Expression,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Result<Json, String>, NotLoaded> {
        self.with_scope(view, locals, |scope| expression.evaluate(scope))
    }

    pub(super) fn with_scope<T>(
        &self,
        view: &View<'_>,
        locals: &BTreeMap<String, Payload>,
        evaluate: impl FnOnce(&Scope<'_>) -> Result<T, EvalError>,
    ) -> Result<Result<T, String>, NotLoaded> {
        let facts = |root: &str| self.fact(view.task, root, &view.values.blobs);
        match evaluate(&Scope { values: view.values, locals, facts: &facts }) {
            Ok(value) => Ok(Ok(value)),
            Err(EvalError::NotLoaded(missing)) => Err(missing),
            Err(EvalError::Invalid { message, .. }) => Ok(Err(message)),
        }
    }
}

impl Progress {
    /// Whether there is something for which no branch was opened yet.
    fn has_more(&self) -> bool {
        match &self.list {
            Some(list) => self.begun < list.count || !self.deferred.is_empty(),
            None => self.done == 0,
        }
    }
}

impl Branch {
    fn is_in_flight(&self, in_flight: &dyn Fn(ActionId) -> bool) -> bool {
        matches!(&self.phase, Phase::Acting { actions } if actions.iter().any(|action| in_flight(action.id)))
    }

    /// Whether a failure of this branch only sets its item aside.
    pub(super) fn can_defer(&self, subgoal: &Subgoal) -> bool {
        self.item.is_some() && subgoal.on_failure == Some(OnFailure::Defer)
    }
}

fn record(event: impl Into<Event>) -> Move {
    Move::Record(vec![event.into().into()])
}

impl From<RunEnded> for Event {
    fn from(event: RunEnded) -> Self {
        Self::RunEnded(event)
    }
}

fn kind_of(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "a map",
    }
}
