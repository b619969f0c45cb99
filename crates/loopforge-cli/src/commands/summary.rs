//! Every record as one line, for whoever reads an archive.

use loopforge_core::record::{Event, Order, OutcomeSource, PlanAmended, Route, Verdict};
use loopforge_core::run::SubgoalStatus;

use crate::text::{line, span};
use crate::view::glance;

use super::progress::{outcome_name, settled_by};

/// What a record says, in one safe line of at most `width` characters.
pub(crate) fn summary(event: &Event, width: usize) -> String {
    line(&text(event), width)
}

fn text(event: &Event) -> String {
    match event {
        Event::RunStarted(event) => format!("{} (LoopForge {}): {}", event.name, event.version, event.goal),
        Event::RunResumed(event) => match event.checkpoint {
            Some(seq) => format!("{}, from the checkpoint at record {seq}", event.worker),
            None => format!("{}, from the first record", event.worker),
        },
        Event::SubgoalStarted(event) => match &event.list {
            Some(list) => format!("{}: {} items", event.subgoal, list.count),
            None => event.subgoal.clone(),
        },
        Event::SubgoalEnded(event) => {
            format!("{}: {}, {}", event.subgoal, SubgoalStatus::Ended(event.outcome).name(), event.reason)
        }
        Event::StepStarted(event) => {
            let item = match (event.item, &event.input) {
                (Some(item), Some(input)) => format!("[{item}] {}", glance(input, 60)),
                (Some(item), None) => format!("[{item}]"),
                (None, _) => String::new(),
            };
            format!(
                "{}{item}; {} of {} done, next: {}",
                event.subgoal, event.basis.done, event.basis.of, event.basis.next
            )
        }
        Event::ModelCalled(event) => {
            let left_out = match event.prompt.left_out {
                0 => String::new(),
                steps => format!(", {steps} steps left out"),
            };
            format!("{}, call {}, about {} tokens{left_out}", event.model, event.call, event.prompt.tokens)
        }
        Event::ModelReplied(event) => {
            let tokens = |count: Option<u64>| count.map_or_else(|| "?".to_owned(), |count| count.to_string());
            let cost = event.cost.map(|cost| format!(", {cost}")).unwrap_or_default();
            let says = event.says.as_ref().map(|says| format!(": {says}")).unwrap_or_default();
            format!(
                "{} calls, {} tokens in, {} out{cost}, {}{says}",
                event.calls,
                tokens(event.usage.input),
                tokens(event.usage.output),
                span(std::time::Duration::from_micros(event.took_us))
            )
        }
        Event::ModelFailed(event) => {
            let then = match (event.retry_at, event.next_model) {
                (Some(_), Some(_)) => "; the next model is asked".to_owned(),
                (Some(at), None) => format!("; again at {at}"),
                (None, _) => String::new(),
            };
            format!("{}: {}{then}", event.error, event.reason)
        }
        Event::ConsultStarted(event) => format!("{}: {}", event.cause.words(), event.reason),
        Event::ConsultFailed(event) => {
            let then = if event.last { "; it is not asked again" } else { "" };
            format!("{}{then}", event.problems.join("; "))
        }
        Event::PlanAmended(event) => amended(event),
        Event::Judged(event) => {
            let word = match event.reached {
                Some(true) => "reached",
                Some(false) => "not reached",
                None => "no answer",
            };
            format!("{word}: {}", event.reason)
        }
        Event::ActionDecided(event) => {
            let key = event.business_key.as_ref().map(|key| format!(", key {key}")).unwrap_or_default();
            let other =
                if event.alternative > 0 { format!(", alternative {}", event.alternative) } else { String::new() };
            format!(
                "{}.{} {} {} ({}{other}{key})",
                event.id.step,
                event.id.action,
                event.tool,
                glance(&event.arguments, 80),
                event.effect
            )
        }
        Event::ActionRefused(event) => format!("{} by {}: {}", event.id, event.check, event.reason),
        Event::ActionStarted(event) => {
            format!("{} {}, try {}, token {}", event.id, event.tool, event.attempt, event.token)
        }
        Event::AttemptFailed(event) => {
            format!("{} try {}: {}, {}; again at {}", event.id, event.attempt, event.code, event.error, event.retry_at)
        }
        Event::ActionFinished(event) => {
            let result = &event.result;
            let said = match &result.error {
                Some(error) => format!(": {error}"),
                None => format!(" {}", glance(&result.data, 80)),
            };
            let how = match settled_by(event.source) {
                Some(how) => format!(", {how}"),
                None => format!(", {}", span(std::time::Duration::from_micros(event.took_us))),
            };
            format!("{} {}{how}{said}", event.id, result.code)
        }
        Event::ActionUnknown(event) => format!("{}: {}", event.id, event.reason),
        Event::ActionNotHappened(event) => {
            let who = match event.source {
                OutcomeSource::Person => "a person",
                OutcomeSource::StatusQuery => "the status query",
                OutcomeSource::Call
                | OutcomeSource::Loop
                | OutcomeSource::Cache
                | OutcomeSource::FirstResult
                | OutcomeSource::LateAnswer => "the tool",
            };
            format!("{}: {who} says so; {}", event.id, event.note)
        }
        Event::StateSaved(event) => {
            let member = event.member.as_ref().map(|member| format!("[{member}]")).unwrap_or_default();
            let who = match (&event.by, event.step) {
                (Some(by), _) => format!(" (by {by})"),
                (None, None) => " (by a person)".to_owned(),
                (None, Some(_)) => String::new(),
            };
            format!("{}{member} = {}{who}", event.key, glance(&event.value, 80))
        }
        Event::WaitStarted(event) => format!("until {}", event.until),
        Event::WaitEnded(event) => format!("branch {}", event.branch),
        Event::QuestionAsked(event) => event.question.clone(),
        Event::QuestionAnswered(event) => {
            format!("{} says: {}", event.by, event.text.clone().unwrap_or_else(|| word(&event.answer)))
        }
        Event::LifecycleMoved(event) | Event::LifecycleRefused(event) => format!("{} -> {}", event.from, event.to),
        Event::LoopFound(event) => {
            let response = event.response.map(|response| format!(": {}", word(&response))).unwrap_or_default();
            format!("{} of {} ({} rounds){response}", word(&event.what), event.tools.join(", "), event.rounds)
        }
        Event::StepEvaluated(event) => led(&event.verdict),
        Event::LimitReached(event) => format!("{} = {}", event.limit, event.value),
        Event::LimitsRaised(event) => {
            let steps = event.max_steps.map(|steps| format!("max_steps {steps}, ")).unwrap_or_default();
            let time = event
                .max_duration_ms
                .map(|ms| format!("max_duration {}, ", span(std::time::Duration::from_millis(ms))))
                .unwrap_or_default();
            let tokens = event.tokens.map(|tokens| format!("tokens {tokens}, ")).unwrap_or_default();
            let cost = event.cost.map(|cost| format!("cost_usd {cost}, ")).unwrap_or_default();
            format!("{steps}{time}{tokens}{cost}by {}", event.by)
        }
        Event::BudgetWarned(event) => {
            format!(
                "{} at {} %: {} of {} used, {} left",
                event.budget, event.percent, event.used, event.limit, event.left
            )
        }
        Event::BudgetStaged(event) => format!("{}: {}", event.stage.name(), event.reason),
        Event::NoteTaken(event) => format!("{} says{}: {}", event.by, if event.now { ", now" } else { "" }, event.text),
        Event::OrderTaken(event) => {
            let order = match &event.order {
                Order::Pause => "pause",
                Order::Unpause => "go on",
                Order::Cancel => "stop",
                Order::Note { .. } => "note",
            };
            format!("{} says: {order}", event.by)
        }
        Event::ChangesAccepted(event) => {
            let mut said = Vec::new();
            if let Some(version) = &event.version {
                said.push(format!("LoopForge {} instead of {}", version.to, version.from));
            }
            if let Some(task) = &event.task {
                said.push(format!("task {} instead of {}", task.to.hash, task.from.hash));
                said.extend(task.changes.iter().cloned());
            }
            format!("{} accepts: {}", event.by, said.join("; "))
        }
        Event::RunPaused(event) => event.reason.clone(),
        Event::RunEnded(event) => format!("{}: {}", outcome_name(event.outcome), event.reason),
        Event::HookSent(event) => {
            let error = event.error.as_ref().map(|error| format!("; failed: {error}")).unwrap_or_default();
            format!("{} by {} about record {}{error}", word(&event.on), event.via, event.about)
        }
    }
}

/// Where a verdict leads and why.
pub(crate) fn led(verdict: &Verdict) -> String {
    let route = route(&verdict.route);
    // Some reasons begin with the very words.
    if verdict.reason.starts_with(&route) { verdict.reason.clone() } else { format!("{route}: {}", verdict.reason) }
}

/// Where a verdict leads, in words.
pub(crate) fn route(route: &Route) -> String {
    match route {
        Route::Continue => "continue".to_owned(),
        Route::BranchDone => "done".to_owned(),
        Route::Defer { due } => format!("deferred until {due}"),
        Route::GiveUp => "given up".to_owned(),
        Route::Correct => "once more".to_owned(),
        Route::Replan => "another way".to_owned(),
        Route::Person => "a person decides".to_owned(),
        Route::Fail => "failed".to_owned(),
    }
}

/// The word that stands for a value in the archive.
pub(crate) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        _ => String::new(),
    }
}

/// What a planner changed, and why.
pub(crate) fn amended(event: &PlanAmended) -> String {
    let amendment = &event.amendment;
    let mut parts: Vec<String> = amendment
        .replace
        .iter()
        .map(|replacement| format!("{} instead of {}", replacement.with, replacement.id))
        .collect();
    let new = amendment.add.iter().map(|subgoal| &subgoal.id);
    let new: Vec<&str> =
        new.filter(|id| !amendment.replace.iter().any(|other| other.with == **id)).map(String::as_str).collect();
    if !new.is_empty() {
        parts.push(format!("new: {}", new.join(", ")));
    }
    if !amendment.drop.is_empty() {
        parts.push(format!("dropped: {}", amendment.drop.join(", ")));
    }
    let changes = if parts.is_empty() { "nothing changes".to_owned() } else { parts.join("; ") };
    format!("{changes} ({})", event.reason)
}
