//! What a branch does on which a model works: ask it, take its reply apart into actions, judge the step.

use std::time::Duration;

use serde_json::json;

use crate::agent::{Agent, Control, Handle, LONGEST_WAIT_S, Response, resolve};
use crate::evaluate::{self, AgentSituation, Proof};
use crate::id::{ActionNo, BranchId, ContentHash};
use crate::json::{self, Json};
use crate::model::{Arguments, ErrorKind, ModelError, Money, Reply, ToolCall};
use crate::payload::{Blob, NotLoaded, Payload};
use crate::prompt::History;
use crate::record::{
    About, ActionDecided, ActionFinished, ActionId, ActionRefused, Event, LoopFound, LoopKind, ModelFailed,
    ModelReplied, Outcome, OutcomeSource, QuestionAsked, Route, RunPaused, StateSaved, StepEvaluated, Verdict,
    WaitStarted,
};
use crate::task::{OnLimit, Task, is_name};
use crate::time::Timestamp;
use crate::tool::{Code, Effect};

use super::decide::{business_key, locals};
use super::next::View;
use super::{Branch, Draft, Move, RunState, Thought};

/// What stands as the tool of a failure of the model itself.
pub(super) const MODEL: &str = "model";

/// The waits before a model that can't be had is asked again: half an hour in all. A provider's outage is no reason to give a run of
/// days up, and after it the run pauses and can be resumed.
const MODEL_WAITS: [Duration; 9] = [
    Duration::from_secs(1),
    Duration::from_secs(4),
    Duration::from_secs(15),
    Duration::from_secs(30),
    Duration::from_secs(60),
    Duration::from_secs(120),
    Duration::from_secs(300),
    Duration::from_secs(600),
    Duration::from_secs(600),
];

/// Characters of a model's words that stand in records beside the reply itself.
const SAID: usize = 500;

/// A reply, with what the driver knows of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Replied {
    /// The call that it answers.
    pub call: u32,
    /// The reply.
    pub reply: Reply,
    /// What it cost, where the price is known.
    pub cost: Option<Money>,
    /// What came over the wire.
    pub raw: Option<Blob>,
    /// From the request to its end.
    pub took: Duration,
}

impl RunState {
    pub(super) fn decide_agent(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        agent: &Agent,
    ) -> Result<Option<Move>, NotLoaded> {
        if let Some(failure) = &branch.failure {
            // Nothing of the task has failed: once somebody has mended the key, the account or the line, a resume goes on here.
            if failure.tool == MODEL && !failure.code.is_of_request() {
                let reason = format!("no model answers ({}): {}", failure.code, failure.error);
                return Ok(self.paused.is_none().then(|| one(Event::RunPaused(RunPaused { reason }))));
            }
            return self.judge_agent(view, id, branch, agent).map(Some);
        }
        if !agent.replied {
            return Ok(self.may_think().then_some(Move::Think(id)));
        }
        if let Some(found) = agent_loop(view, id, branch, agent) {
            return Ok(Some(one(Event::LoopFound(found))));
        }
        if let Some(until) = agent.wait.filter(|until| *until > view.now) {
            let wait = WaitStarted { branch: id, step: branch.step, entry: branch.entry, until };
            return Ok(Some(one(Event::WaitStarted(wait))));
        }
        self.judge_agent(view, id, branch, agent).map(Some)
    }

    /// Whether a model may be asked now.
    pub(super) fn may_think(&self) -> bool {
        self.paused.is_none() && !self.aborted && !self.is_out_of_time() && !self.is_out_of_budget()
    }

    /// The events of a reply: the reply itself, and the actions that its tool calls decide. They belong into one append, so that a
    /// crash never parts a call from the reply that made it.
    ///
    /// `None` when the branch doesn't wait for this reply any more.
    ///
    /// # Errors
    /// [`NotLoaded`]: load it and ask again.
    pub fn take_reply(
        &self,
        view: &View<'_>,
        id: BranchId,
        replied: &Replied,
        history: &History,
    ) -> Result<Option<Vec<Draft>>, NotLoaded> {
        let Some(branch) = self.branches.get(&id).filter(|branch| branch.awaits(replied.call)) else {
            return Ok(None);
        };
        let Some(agent) = &branch.agent else { return Ok(None) };
        let reply = &replied.reply;
        let calls: Vec<&ToolCall> = reply.calls().collect();
        let mut blobs = Vec::new();
        let blocks = Payload::stow(serde_json::to_value(&reply.blocks).unwrap_or_default(), &mut blobs);
        let event = Event::ModelReplied(ModelReplied {
            branch: Some(id),
            step: Some(branch.step),
            call: replied.call,
            model: reply.model.clone(),
            marks: reply.marks.clone(),
            raw: replied.raw.as_ref().map(|blob| blob.reference),
            blocks,
            calls: u32::try_from(calls.len()).unwrap_or(u32::MAX),
            says: said(reply),
            stop: reply.stop.clone(),
            usage: reply.usage,
            cost: replied.cost,
            adrift: evaluate::is_adrift(view.task, &view.task.subgoals[branch.subgoal], reply),
            took_us: u64::try_from(replied.took.as_micros()).unwrap_or(u64::MAX),
        });
        blobs.extend(replied.raw.clone());
        let mut drafts = vec![Draft { event, blobs }];
        for (position, call) in (0..).zip(calls) {
            let action = ActionId { step: branch.step, action: ActionNo(position) };
            self.take_call(view, id, branch, agent, action, call, history, &mut drafts)?;
        }
        Ok(Some(drafts))
    }

    /// One tool call of a reply.
    #[expect(clippy::too_many_arguments, reason = "all of it names the one call")]
    fn take_call(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        agent: &Agent,
        action: ActionId,
        call: &ToolCall,
        history: &History,
        drafts: &mut Vec<Draft>,
    ) -> Result<(), NotLoaded> {
        let (mut arguments, malformed) = match &call.arguments {
            Arguments::Object { value, .. } => (self.with_defaults(view, branch, &call.name, value)?, None),
            Arguments::Malformed(malformed) => (Json::String(malformed.text.clone()), Some(&malformed.why)),
        };
        let control = Control::find(&call.name);
        // `recall` takes a handle itself.
        let unresolved = match control {
            Some(Control::Recall) => Ok(()),
            _ => resolve(&mut arguments, &|action| history.result(action, &view.values.blobs))?,
        };
        let facts = view.tools.get(&call.name);
        let digest = ContentHash::of(json::canonical(&arguments).as_bytes());
        let effect = match (control, facts) {
            (Some(_), _) | (None, None) => Effect::Read,
            (None, Some(facts)) => facts.effect,
        };
        let mut blobs = Vec::new();
        let decided = ActionDecided {
            branch: id,
            id: action,
            entry: action.action.0,
            alternative: 0,
            tool: call.name.clone(),
            effect,
            digest,
            business_key: facts.and_then(|facts| business_key(&call.name, &facts.effect_key, &arguments)),
            arguments: Payload::stow(arguments.clone(), &mut blobs),
            save: None,
            instead_of: None,
        };
        drafts.push(Draft { event: Event::ActionDecided(decided), blobs });
        let refuse = |code, check: &str, reason: String| {
            Draft::from(Event::ActionRefused(ActionRefused {
                branch: id,
                id: action,
                code,
                check: check.to_owned(),
                reason,
            }))
        };
        if let Some(why) = malformed {
            let reason = format!("{why}: send the call again, complete");
            drafts.push(refuse(Code::InvalidArgument, "arguments", reason));
        } else if let Err(reason) = unresolved {
            drafts.push(refuse(Code::InvalidArgument, "handle", reason));
        } else if let Some(control) = control {
            match self.obey(view, id, branch, action, control, &arguments, history)? {
                Ok(mut done) => drafts.append(&mut done),
                Err(reason) => drafts.push(refuse(Code::InvalidArgument, "schema", reason)),
            }
        } else if facts.is_none() {
            let mut names: Vec<&str> = view.tools.keys().map(String::as_str).collect();
            names.extend(Control::ALL.iter().map(|control| control.name()));
            let reason = format!("there is no tool `{}`; there are: {}", call.name, names.join(", "));
            drafts.push(refuse(Code::Refused, "whitelist", reason));
        } else if agent.is_withheld(&call.name, digest) {
            let reason = format!(
                "`{}` with these arguments brought the same again and again, so it is out of reach now: do something else",
                call.name
            );
            drafts.push(refuse(Code::Refused, "repetition", reason));
        }
        Ok(())
    }

    /// The arguments that the task gives to every call of a tool, under those that the model gives. A default without a value is left
    /// out: the schema then says what is missing.
    fn with_defaults(
        &self,
        view: &View<'_>,
        branch: &Branch,
        tool: &str,
        given: &serde_json::Map<String, Json>,
    ) -> Result<Json, NotLoaded> {
        let mut arguments = given.clone();
        let locals = locals(&view.task.subgoals[branch.subgoal], branch);
        for (name, template) in view.task.tools.get(tool).into_iter().flat_map(|spec| &spec.with) {
            if !arguments.contains_key(name)
                && let Ok(value) = self.with_scope(view, &locals, |scope| template.fill(scope))?
            {
                arguments.insert(name.clone(), value);
            }
        }
        Ok(Json::Object(arguments))
    }

    /// What becomes of a model call that brought no reply: another try, the next model of the chain, or none.
    ///
    /// `chain` is how many models the task names.
    #[must_use]
    pub fn model_failure(
        &self,
        task: &Task,
        id: BranchId,
        call: u32,
        error: &ModelError,
        chain: u32,
        now: Timestamp,
    ) -> Option<ModelFailed> {
        let branch = self.branches.get(&id).filter(|branch| branch.awaits(call))?;
        let agent = branch.agent.as_ref()?;
        let (retry_at, next_model) = when_again(task, agent.model, agent.model_failures, error, chain, now);
        Some(ModelFailed {
            branch: Some(id),
            step: Some(branch.step),
            call,
            error: error.kind,
            reason: error.message.clone(),
            retry_at,
            next_model,
            usage: error.may_be_billed.then_some(*error.usage),
            cost: None,
        })
    }

    /// Does what a model tells the loop to do. The inner error is for the model: nothing was done.
    #[expect(clippy::too_many_arguments, reason = "all of it names the one call")]
    fn obey(
        &self,
        view: &View<'_>,
        id: BranchId,
        branch: &Branch,
        action: ActionId,
        control: Control,
        arguments: &Json,
        history: &History,
    ) -> Result<Result<Vec<Draft>, String>, NotLoaded> {
        let text = |key: &str| match arguments.get(key) {
            Some(Json::String(text)) if !text.trim().is_empty() => Ok(text.clone()),
            Some(Json::String(_)) => Err(format!("`{key}` is empty")),
            Some(other) => Err(format!("`{key}` must be a text, and is {other}")),
            None => Err(format!("`{key}` is missing")),
        };
        let result = match control {
            Control::Finish => text("summary").map(|_| json!("noted: the runtime checks it now")),
            Control::Replan => text("reason").map(|_| json!("noted: another way is tried")),
            Control::Wait => match arguments.get("seconds").and_then(Json::as_u64) {
                Some(seconds @ 1..=LONGEST_WAIT_S) => Ok(json!(format!("{seconds} seconds have passed"))),
                _ => Err(format!("`seconds` must be a whole number from 1 to {LONGEST_WAIT_S}")),
            },
            Control::Recall => match text("handle").map(|text| (Handle::read(&text), text)) {
                Ok((Some(handle), _)) => {
                    let mut value = Json::String(handle.to_string());
                    let found = resolve(&mut value, &|action| history.result(action, &view.values.blobs))?;
                    found.map(|()| excerpt(&value, arguments))
                }
                Ok((None, text)) => Err(format!("`{text}` is no handle: write @step.call, such as @12.0")),
                Err(reason) => Err(reason),
            },
            Control::AskPerson => match text("question") {
                Ok(question) => {
                    let asked =
                        QuestionAsked { branch: Some(id), action: Some(action), about: About::Information, question };
                    return Ok(Ok(vec![Event::QuestionAsked(asked).into()]));
                }
                Err(reason) => Err(reason),
            },
            Control::GetState => match text("key") {
                Ok(key) => match view.values.state(&key)? {
                    Some(value) => Ok(value),
                    None => match view.values.input(&key)? {
                        Some(value) => Ok(value),
                        None => Err(format!("state holds nothing under `{key}`, and no input is called so")),
                    },
                },
                Err(reason) => Err(reason),
            },
            Control::SetState => {
                let key = match text("key") {
                    Ok(key) if is_name(&key) => key,
                    Ok(key) => return Ok(Err(format!("`{key}` can't be a key: letters, digits and `_`"))),
                    Err(reason) => return Ok(Err(reason)),
                };
                let Some(value) = arguments.get("value") else { return Ok(Err("`value` is missing".to_owned())) };
                // Passed over, a member that is no text would let one value replace a whole map.
                let member = match arguments.get("member") {
                    None | Some(Json::Null) => None,
                    Some(Json::String(member)) => Some(member.clone()),
                    Some(other) => return Ok(Err(format!("`member` must be a text, and is {other}"))),
                };
                let mut blobs = Vec::new();
                let saved = Event::StateSaved(StateSaved {
                    branch: Some(id),
                    step: Some(branch.step),
                    entry: None,
                    key,
                    member,
                    by: None,
                    value: Payload::stow(value.clone(), &mut blobs),
                });
                let mut drafts = control_result(id, action, json!("kept"));
                drafts.push(Draft { event: saved, blobs });
                return Ok(Ok(drafts));
            }
        };
        Ok(result.map(|data| control_result(id, action, data)))
    }

    /// The verdict on a step of a model.
    fn judge_agent(&self, view: &View<'_>, id: BranchId, branch: &Branch, agent: &Agent) -> Result<Move, NotLoaded> {
        let subgoal = &view.task.subgoals[branch.subgoal];
        let limits = &view.task.limits;
        let proof = match &subgoal.done_when {
            // Of one item of a list, the rule of the whole says nothing.
            Some(rule) if branch.item.is_none() => match self.holds(view, rule, &locals(subgoal, branch))? {
                Ok(true) => Proof::Holds,
                Ok(false) => Proof::Refuted(format!("`{rule}` does not hold")),
                Err(reason) => Proof::Refuted(format!("`{rule}` has no value: {reason}")),
            },
            _ => Proof::NoRule,
        };
        let situation = AgentSituation {
            model_failure: branch.failure.as_ref().map(|failure| (failure.code, failure.error.as_str())),
            proof,
            claim: agent.claim.as_deref(),
            unusable: agent.unusable.as_deref(),
            gives_up: agent.gives_up.as_deref(),
            // Only for the step that completed the loop; the next ones have another chance.
            guard: agent.guard.filter(|_| branch.looped),
            only_failed: agent.only_failed().then(|| agent.last_failure.as_deref().unwrap_or("the call failed")),
            bad_in_row: agent.bad_in_row,
            replan_after: limits.replan_after.max(1),
            replans_left: limits.max_replans.saturating_sub(agent.replans),
            can_defer: branch.can_defer(subgoal),
            on_failure: subgoal.on_failure.unwrap_or_default(),
        };
        let (route, reason) = evaluate::agent_route(&situation);
        let reason = if route == Route::Continue {
            evaluate::reminder(agent, subgoal, view.task).unwrap_or(reason)
        } else {
            reason
        };
        let scores = evaluate::scores(view.task, self, branch, route, self.max_steps(view.task), view.now);
        let verdict = Verdict { scores, route, reason };
        Ok(one(Event::StepEvaluated(StepEvaluated { branch: id, step: branch.step, verdict })))
    }

    /// The action that may start now, if its place among the others of its reply allows it: reads run side by side, a write alone.
    pub(super) fn is_its_turn(branch: &Branch, position: usize) -> bool {
        let super::Phase::Acting { actions } = &branch.phase else { return true };
        if branch.agent.is_none() {
            return true;
        }
        let earlier = &actions[..position];
        match actions[position].effect {
            Effect::Write => earlier.is_empty(),
            Effect::Read => earlier.iter().all(|action| action.effect == Effect::Read),
        }
    }

    /// The refusal of a write whose forerunner in the same reply failed: the model decided on it without knowing that.
    pub(super) fn rash_write(id: BranchId, branch: &Branch, position: usize) -> Option<Move> {
        let super::Phase::Acting { actions } = &branch.phase else { return None };
        let action = &actions[position];
        let failed = branch.agent.as_ref().is_some_and(|agent| agent.failed > 0);
        (failed && action.effect == Effect::Write).then(|| {
            one(Event::ActionRefused(ActionRefused {
                branch: id,
                id: action.id,
                code: Code::Refused,
                check: "order".to_owned(),
                reason: "a call before it in the same reply failed: look at that first, then decide anew".to_owned(),
            }))
        })
    }
}

impl Branch {
    /// Whether the branch waits for the reply to this model call.
    #[must_use]
    pub fn awaits(&self, call: u32) -> bool {
        matches!(&self.phase, super::Phase::Thinking { thought: Thought { call: open, .. } } if *open == call)
    }
}

/// A part of a result that is too long to be shown whole.
fn excerpt(value: &Json, arguments: &Json) -> Json {
    /// Characters that are shown at once.
    const SHOWN: usize = 6000;
    /// Of these, before what was looked for.
    const BEFORE: usize = 500;
    let text = match value {
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    let characters: Vec<char> = text.chars().collect();
    let from =
        arguments.get("from").and_then(Json::as_u64).map_or(0, |from| usize::try_from(from).unwrap_or(usize::MAX));
    let from = from.min(characters.len());
    let from = match arguments.get("query").and_then(Json::as_str).filter(|query| !query.is_empty()) {
        None => from,
        Some(query) => {
            let rest: String = characters[from..].iter().collect();
            match rest.find(query) {
                Some(at) => (from + rest[..at].chars().count()).saturating_sub(BEFORE),
                None => return json!({ "found": false, "characters": characters.len() }),
            }
        }
    };
    let until = from.saturating_add(SHOWN).min(characters.len());
    let part: String = characters[from..until].iter().collect();
    json!({ "from": from, "until": until, "characters": characters.len(), "text": part })
}

fn control_result(branch: BranchId, id: ActionId, data: Json) -> Vec<Draft> {
    let fingerprint = ContentHash::of(json::canonical(&data).as_bytes());
    let mut blobs = Vec::new();
    let result = Outcome {
        code: Code::Success,
        data: Payload::stow(data, &mut blobs),
        error: None,
        meaning_of_empty: None,
        retry_after_ms: None,
        marks: Vec::new(),
        raw: None,
        key_fields: std::collections::BTreeMap::new(),
        effect_excluded: false,
        fingerprint,
    };
    let finished = ActionFinished { branch, id, attempt: 1, source: OutcomeSource::Loop, result, took_us: 0 };
    vec![Draft { event: Event::ActionFinished(finished), blobs }]
}

/// When a model is asked again after an error, and which one: the same, or the next of the chain.
pub(super) fn when_again(
    task: &Task,
    model: u32,
    failures: u32,
    error: &ModelError,
    chain: u32,
    now: Timestamp,
) -> (Option<Timestamp>, Option<u32>) {
    let next = (model + 1 < chain).then_some(model + 1);
    let on_limit = task.model.as_ref().map(|model| model.on_limit).unwrap_or_default();
    let limit = matches!(error.kind, ErrorKind::RateLimited | ErrorKind::Overloaded | ErrorKind::QuotaExhausted);
    let own = MODEL_WAITS.get(failures as usize).copied();
    match next {
        // Another model may answer at once what this one can't.
        Some(next) if limit && on_limit == OnLimit::Fallback => (Some(now), Some(next)),
        _ if error.is_transient() && (own.is_some() || limit) => {
            let longest = MODEL_WAITS[MODEL_WAITS.len() - 1];
            // At a limit the provider's word counts, however long it is: that is what `wait` asks for.
            let wait = own.unwrap_or(longest).max(error.retry_after.unwrap_or_default());
            (Some(now.after(wait)), None)
        }
        Some(next) if error.is_transient() || error.needs_operator() => (Some(now), Some(next)),
        _ => (None, None),
    }
}

/// What a reply says besides its calls, for readers of the archive.
pub(super) fn said(reply: &Reply) -> Option<String> {
    let text = reply.text();
    let text = text.trim();
    (!text.is_empty()).then(|| shorten(text))
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(SAID).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

fn agent_loop(view: &View<'_>, id: BranchId, branch: &Branch, agent: &Agent) -> Option<LoopFound> {
    if branch.looped {
        return None;
    }
    let (what, period, rounds, tools, calls) = if let Some(found) = agent.window.find_loop() {
        let calls = agent.window.last(found.period);
        (found.what, found.period, found.rounds, found.tools, calls)
    } else {
        let limit = view.task.limits.max_continuous_loops.max(1);
        // The open step counts as soon as it is over; by now it is known whether it brought anything.
        let fruitless = agent.fruitless_in_row + u32::from(!branch.useful);
        if fruitless < limit {
            return None;
        }
        let tools = agent.window.last(1).iter().map(|seen| seen.tool.clone()).collect();
        (LoopKind::Fruitless, 1, fruitless as usize, tools, Vec::new())
    };
    let response = match (Response::after(agent.guard), what) {
        // There is no single call to be taken away.
        (Response::Withhold, LoopKind::Fruitless) => Response::Replan,
        (response, _) => response,
    };
    let withheld = match response {
        Response::Withhold => calls
            .iter()
            .map(|seen| crate::agent::Withheld { tool: seen.tool.clone(), digest: seen.digest })
            .filter(|held| Control::find(&held.tool).is_none())
            .collect(),
        _ => Vec::new(),
    };
    Some(LoopFound {
        branch: id,
        what,
        period: u32::try_from(period).unwrap_or(u32::MAX),
        rounds: u32::try_from(rounds).unwrap_or(u32::MAX),
        tools,
        response: Some(response),
        withheld,
    })
}

fn one(event: Event) -> Move {
    Move::Record(vec![event.into()])
}
