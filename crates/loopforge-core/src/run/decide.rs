//! What a branch with an open step does next: the next entry of its workflow, an alternative, or the verdict on the step.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::evaluate::{self, Situation};
use crate::expression::{Expression, Template};
use crate::id::{BranchId, ContentHash};
use crate::json::{self, Json};
use crate::payload::{Blob, NotLoaded, Payload};
use crate::record::{
    ActionDecided, ActionFinished, ActionRefused, Event, LifecycleMoved, LoopFound, LoopKind, Outcome, OutcomeSource,
    SaveTarget, StateSaved, StepEvaluated, WaitStarted,
};
use crate::task::{Entry, SaveTo, Subgoal};
use crate::tool::{Code, Effect};

use super::next::View;
use super::{Action, Branch, Call, Draft, Move, RunState};

/// The wait before an item that was set aside is tried again, when its target named none.
const DEFER_WAIT: Duration = Duration::from_secs(5);

/// A tool that is passed over is tried again once in so many calls.
const ANOTHER_CHANCE: u32 = 5;

/// The longest wait for an item that was set aside. A target that asks for more is asked again after this time.
const LONGEST_DEFER: Duration = Duration::from_secs(3600);

/// An entry that comes next, and why it can't be done.
struct NextEntry<'a> {
    position: u32,
    entry: &'a Entry,
    problem: Option<String>,
}

impl RunState {
    pub(super) fn decide(&self, view: &View<'_>, id: BranchId, branch: &Branch) -> Result<Move, NotLoaded> {
        if let Some(found) = self.loop_found(view, id) {
            return Ok(Move::Record(vec![Event::LoopFound(found).into()]));
        }
        let subgoal = &view.task.subgoals[branch.subgoal];
        let locals = locals(subgoal, branch);
        if branch.failure.is_some()
            && let Some(entry) = subgoal.steps.get(branch.entry as usize)
        {
            // The alternatives of an entry stand for its call; after a refused change of state there is none.
            return match entry.or_else.get(branch.alternative as usize) {
                Some(alternative) => {
                    let position = branch.alternative + 1;
                    self.decide_call(view, id, branch, entry, position, &alternative.call, &alternative.with, &locals)
                }
                None => self.judge(view, id, branch, false),
            };
        }
        let Some(NextEntry { position, entry, problem }) = self.next_entry(view, subgoal, branch, &locals)? else {
            return self.judge(view, id, branch, false);
        };
        // In a `foreach` one step does the whole item; elsewhere a step does one entry.
        if branch.did && branch.item.is_none() {
            return self.judge(view, id, branch, true);
        }
        if let Some(problem) = problem {
            return self.fail_entry(view, id, branch, position, &problem);
        }
        if let Some(tool) = &entry.call {
            let moved = Branch { entry: position, ..branch.clone() };
            if let Some(first) = entry.or_else.first().filter(|_| self.is_downgraded(view, tool)) {
                return self.decide_call(view, id, &moved, entry, 1, &first.call, &first.with, &locals);
            }
            return self.decide_call(view, id, &moved, entry, 0, tool, &entry.with, &locals);
        }
        if let Some(span) = entry.wait {
            let until = view.now.after(span.0);
            return Ok(one(Event::WaitStarted(WaitStarted { branch: id, step: branch.step, entry: position, until })));
        }
        if let Some(to) = &entry.enter {
            let from = self.lifecycle.clone().unwrap_or_default();
            let states = view.task.states.as_ref();
            let legal =
                states.is_some_and(|states| states.transitions.get(&from).is_some_and(|next| next.contains(to)));
            let moved = LifecycleMoved { branch: id, entry: position, from, to: to.clone() };
            return Ok(one(if legal { Event::LifecycleMoved(moved) } else { Event::LifecycleRefused(moved) }));
        }
        self.decide_set(view, id, branch, position, entry, &locals)
    }

    /// Whether a tool is passed over where there is an alternative: it kept failing. Now and then it gets another chance.
    fn is_downgraded(&self, view: &View<'_>, tool: &str) -> bool {
        self.ailing.get(tool).is_some_and(|ailing| {
            ailing.failures >= view.task.limits.replan_after.max(1)
                && ailing.passed_over % ANOTHER_CHANCE != ANOTHER_CHANCE - 1
        })
    }

    /// The next entry whose `when` holds. One whose `when` has no value is returned with the reason: passing it over
    /// could skip a write unseen.
    fn next_entry<'a>(
        &self,
        view: &View<'_>,
        subgoal: &'a Subgoal,
        branch: &Branch,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Option<NextEntry<'a>>, NotLoaded> {
        for (position, entry) in (0..).zip(&subgoal.steps).skip(branch.entry as usize) {
            let next = |problem| Ok(Some(NextEntry { position, entry, problem }));
            match &entry.when {
                None => return next(None),
                Some(when) => match self.holds(view, when, locals)? {
                    Ok(true) => return next(None),
                    Ok(false) => {}
                    Err(reason) => return next(Some(format!("`when: {when}` has no value: {reason}"))),
                },
            }
        }
        Ok(None)
    }

    #[expect(clippy::too_many_arguments, reason = "an entry and its alternatives differ only in the last ones")]
    fn decide_call(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        entry: &Entry,
        alternative: u32,
        tool: &str,
        with: &BTreeMap<String, Template>,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Move, NotLoaded> {
        let defaults = view.task.tools.get(tool).map(|spec| &spec.with);
        let mut blobs = Vec::new();
        let filled = self.fill_arguments(view, defaults, with, locals)?;
        let save = match &entry.save {
            Some(save) => self.save_target(view, save, branch, locals)?.map(Some),
            None => Ok(None),
        };
        let facts = view.tools.get(tool);
        let (arguments, save, problem) = match (filled, save) {
            (Ok(arguments), Ok(save)) => (arguments, save, None),
            (Err(problem), _) => (Json::Null, None, Some(problem)),
            (Ok(arguments), Err(problem)) => (arguments, None, Some(problem)),
        };
        let digest = ContentHash::of(json::canonical(&arguments).as_bytes());
        let business_key = facts.and_then(|facts| business_key(tool, &facts.effect_key, &arguments));
        let decided = ActionDecided {
            branch: id,
            id: branch.next_action(),
            entry: branch.entry,
            alternative,
            tool: tool.to_owned(),
            effect: facts.map_or(Effect::Write, |facts| facts.effect),
            digest,
            business_key,
            arguments: Payload::stow(arguments, &mut blobs),
            save,
            // The first alternative without a failure before it stands in for a tool that kept failing.
            instead_of: (alternative == 1 && branch.failure.is_none()).then(|| entry.call.clone()).flatten(),
        };
        let action = decided.id;
        let mut drafts = vec![Draft { event: Event::ActionDecided(decided), blobs }];
        if let Some(reason) = problem {
            drafts.push(
                Event::ActionRefused(ActionRefused {
                    branch: id,
                    id: action,
                    code: Code::InvalidArgument,
                    check: "arguments".to_owned(),
                    reason,
                })
                .into(),
            );
        }
        Ok(Move::Record(drafts))
    }

    fn fill_arguments(
        &self,
        view: &View<'_>,
        defaults: Option<&BTreeMap<String, Template>>,
        with: &BTreeMap<String, Template>,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Result<Json, String>, NotLoaded> {
        let mut arguments = serde_json::Map::new();
        let templates = defaults.into_iter().flatten().filter(|(name, _)| !with.contains_key(*name)).chain(with);
        for (name, template) in templates {
            match self.with_scope(view, locals, |scope| template.fill(scope))? {
                Ok(value) => {
                    arguments.insert(name.clone(), value);
                }
                Err(reason) => return Ok(Err(format!("argument `{name}`: {reason}"))),
            }
        }
        Ok(Ok(Json::Object(arguments)))
    }

    fn save_target(
        &self,
        view: &View<'_>,
        save: &SaveTo,
        branch: &Branch,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Result<SaveTarget, String>, NotLoaded> {
        let member = match &save.member {
            None => None,
            Some(member) => match self.member(view, member, locals)? {
                Ok(member) => Some(member),
                Err(reason) => return Ok(Err(format!("`save: {save}`: {reason}"))),
            },
        };
        let local = member.is_none() && branch.item.is_some();
        Ok(Ok(SaveTarget { name: save.name.clone(), member, local }))
    }

    fn member(
        &self,
        view: &View<'_>,
        member: &Expression,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Result<String, String>, NotLoaded> {
        Ok(self.with_scope(view, locals, |scope| member.evaluate(scope))?.and_then(|value| match value {
            Json::String(text) => Ok(text),
            Json::Number(number) => Ok(number.to_string()),
            other => Err(format!("`{member}` is {other}, and can't name a member")),
        }))
    }

    fn decide_set(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        position: u32,
        entry: &Entry,
        locals: &BTreeMap<String, Payload>,
    ) -> Result<Move, NotLoaded> {
        let mut drafts = Vec::new();
        for (key, template) in &entry.set {
            let value = match self.with_scope(view, locals, |scope| template.fill(scope))? {
                Ok(value) => value,
                Err(reason) => return self.fail_entry(view, id, branch, position, &format!("`set: {key}`: {reason}")),
            };
            let mut blobs = Vec::new();
            let value = Payload::stow(value, &mut blobs);
            let event = Event::StateSaved(StateSaved {
                branch: Some(id),
                step: Some(branch.step),
                entry: Some(position),
                key: key.clone(),
                member: None,
                value,
                by: None,
            });
            drafts.push(Draft { event, blobs });
        }
        Ok(Move::Record(drafts))
    }

    /// An expression without a value fails the step as a call would.
    fn fail_entry(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        position: u32,
        reason: &str,
    ) -> Result<Move, NotLoaded> {
        let failed = Branch {
            entry: position,
            failure: Some(super::Failure {
                tool: "entry".to_owned(),
                code: Code::InvalidArgument,
                error: reason.to_owned(),
                retry_after_ms: None,
            }),
            ..branch.clone()
        };
        self.judge(view, id, &failed, false)
    }

    /// The verdict on the open step.
    fn judge(&self, view: &View<'_>, id: BranchId, branch: &Branch, more_entries: bool) -> Result<Move, NotLoaded> {
        let subgoal = &view.task.subgoals[branch.subgoal];
        let limits = &view.task.limits;
        let failure = branch.failure.as_ref();
        let asked = failure.and_then(|failure| failure.retry_after_ms).map(Duration::from_millis);
        let deterministic = failure
            .and_then(|failure| view.tools.get(&failure.tool))
            .is_none_or(|facts| facts.deterministic || facts.effect == Effect::Write);
        let situation = Situation {
            failure: failure.map(|failure| (failure.code, failure.error.as_str())),
            can_correct: !branch.corrected && !deterministic,
            can_defer: branch.can_defer(subgoal),
            rounds_left: branch.rounds < limits.defer_rounds,
            on_failure: subgoal.on_failure.unwrap_or_default(),
            due: view.now.after(asked.unwrap_or(DEFER_WAIT).min(LONGEST_DEFER)),
            more_entries,
        };
        let (route, reason) = evaluate::route(&situation);
        let scores = evaluate::scores(view.task, self, branch, route, self.max_steps(view.task), view.now);
        let verdict = crate::record::Verdict { scores, route, reason };
        Ok(one(Event::StepEvaluated(StepEvaluated { branch: id, step: branch.step, verdict })))
    }

    fn loop_found(&self, view: &View<'_>, id: BranchId) -> Option<LoopFound> {
        if let Some(found) = self.window.find_loop() {
            return Some(LoopFound {
                branch: id,
                what: found.what,
                period: u32::try_from(found.period).unwrap_or(u32::MAX),
                rounds: u32::try_from(found.rounds).unwrap_or(u32::MAX),
                tools: found.tools,
                response: None,
                withheld: Vec::new(),
            });
        }
        let fruitless = self.totals.fruitless_in_row;
        (fruitless >= view.task.limits.max_continuous_loops.max(1)).then(|| LoopFound {
            branch: id,
            what: LoopKind::Fruitless,
            period: 1,
            rounds: fruitless,
            tools: self.last_call.iter().map(|last| last.tool.clone()).collect(),
            response: None,
            withheld: Vec::new(),
        })
    }

    /// The events of an outcome: the outcome itself, and what it brings into state.
    ///
    /// `None` when the action isn't open any more: it was completed in another way before.
    #[must_use]
    pub fn finish(
        &self,
        call: Call,
        attempt: u32,
        source: OutcomeSource,
        result: Outcome,
        blobs: Vec<Blob>,
        took: Duration,
    ) -> Option<Vec<Draft>> {
        let (branch, action) = self.action(call.action)?;
        let mut drafts = Vec::with_capacity(2);
        let saved = result.is_ok().then(|| saved(branch, action, &result.data)).flatten();
        let finished = ActionFinished {
            branch,
            id: call.action,
            attempt,
            source,
            result,
            took_us: u64::try_from(took.as_micros()).unwrap_or(u64::MAX),
        };
        drafts.push(Draft { event: Event::ActionFinished(finished), blobs });
        drafts.extend(saved.map(|saved| Draft::from(Event::StateSaved(saved))));
        Some(drafts)
    }
}

/// What a result brings into state. It refers to the same blobs as the result.
fn saved(branch: BranchId, action: &Action, data: &Payload) -> Option<StateSaved> {
    let save = action.save.as_ref().filter(|save| !save.local)?;
    Some(StateSaved {
        branch: Some(branch),
        step: Some(action.id.step),
        entry: None,
        key: save.name.clone(),
        member: save.member.clone(),
        value: data.clone(),
        by: None,
    })
}

/// The names that a branch's expressions can read: what it saved, and its item.
pub(super) fn locals(subgoal: &Subgoal, branch: &Branch) -> BTreeMap<String, Payload> {
    let mut locals = branch.locals.clone();
    if let (Some(foreach), Some(input)) = (&subgoal.foreach, &branch.input) {
        locals.insert(foreach.name.clone(), input.clone());
    }
    locals
}

/// Names an effect in business terms: the tool, and the arguments that the task says identify it.
pub(super) fn business_key(tool: &str, fields: &[String], arguments: &Json) -> Option<String> {
    if fields.is_empty() {
        return None;
    }
    let chosen: serde_json::Map<String, Json> =
        fields.iter().map(|field| (field.clone(), arguments.get(field).cloned().unwrap_or(Json::Null))).collect();
    Some(format!("{tool}:{}", json::canonical(&Json::Object(chosen))))
}

fn one(event: Event) -> Move {
    Move::Record(vec![event.into()])
}
