//! What a person, or a program, sees of a run while it goes on, and its last lines.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use loopforge::{Report, Watcher};
use loopforge_core::id::StepNo;
use loopforge_core::record::{Event, OutcomeSource, Record, Route, RunOutcome, RunStatus};
use loopforge_core::run::SubgoalStatus;
use loopforge_core::task::Task;
use serde_json::json;

use crate::context::Context;
use crate::error::{Exit, resume_hint};
use crate::text::{entry, safe};
use crate::view::Open;

/// Shows records as they are archived: JSON Lines, a bar on a terminal, or plain lines elsewhere.
#[derive(Clone)]
pub(crate) struct Progress {
    json: bool,
    bar: ProgressBar,
    shown: Arc<Mutex<Shown>>,
}

/// What was seen so far, for the bar.
#[derive(Default)]
struct Shown {
    subgoals: usize,
    ended: usize,
    items: u64,
    done: u64,
}

impl Progress {
    /// For a new run.
    pub(crate) fn new(json: bool, task: &Task) -> Self {
        let progress = Self::resumed(json);
        progress.of_task(task);
        progress
    }

    /// For a run whose task isn't known yet.
    pub(crate) fn resumed(json: bool) -> Self {
        let bar = if json || !std::io::stderr().is_terminal() {
            ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden())
        } else {
            ProgressBar::new_spinner()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {elapsed} {wide_msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(120));
        Self { json, bar, shown: Arc::default() }
    }

    /// Says which task it is.
    pub(crate) fn of_task(&self, task: &Task) {
        if let Ok(mut shown) = self.shown.lock() {
            shown.subgoals = task.subgoals.len();
        }
    }

    /// What the engine calls with every archived record.
    pub(crate) fn watcher(&self) -> Watcher {
        let progress = self.clone();
        Box::new(move |record| progress.see(record))
    }

    fn see(&self, record: &Record) {
        if self.json {
            // A closed pipe ends the talk, not the run.
            if let Ok(text) = serde_json::to_string(record) {
                let _ = writeln!(std::io::stdout().lock(), "{text}");
            }
            return;
        }
        if let Some(text) = plain(record) {
            if self.bar.is_hidden() {
                let _ = writeln!(std::io::stderr().lock(), "{text}");
            } else {
                self.bar.println(text);
            }
        }
        let Ok(mut shown) = self.shown.lock() else { return };
        match &record.event {
            Event::SubgoalStarted(event) => {
                shown.items = event.list.as_ref().map_or(0, |list| u64::from(list.count));
                shown.done = 0;
            }
            Event::SubgoalEnded(_) => shown.ended += 1,
            Event::StepEvaluated(event) if event.verdict.route == Route::BranchDone => shown.done += 1,
            _ => {}
        }
        let items = if shown.items > 0 { format!(", {} of {} items", shown.done, shown.items) } else { String::new() };
        self.bar.set_message(format!("{} of {} subgoals{items}", shown.ended, shown.subgoals));
    }

    /// Takes the bar away.
    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// A record as one line, if a person wants to see it while a run goes on.
pub(crate) fn plain(record: &Record) -> Option<String> {
    const WIDTH: usize = 140;
    const COLUMN: usize = 10;
    let (verb, text) = match &record.event {
        Event::RunStarted(event) => ("started", event.name.clone()),
        Event::RunResumed(event) => match event.checkpoint {
            Some(seq) => ("resumed", format!("from the checkpoint at record {seq}")),
            None => ("resumed", "from the first record".to_owned()),
        },
        Event::SubgoalStarted(event) => match &event.list {
            Some(list) => ("subgoal", format!("{}: {} items", event.subgoal, list.count)),
            None => ("subgoal", event.subgoal.clone()),
        },
        Event::SubgoalEnded(event) => {
            (SubgoalStatus::Ended(event.outcome).name(), format!("{}: {}", event.subgoal, event.reason))
        }
        Event::ModelFailed(event) => {
            let what = format!("{}{} ({})", at_step(event.step), event.error, event.reason);
            match (event.retry_at, event.next_model) {
                (Some(at), None) => ("model", format!("{what}, again at {at}")),
                (Some(_), Some(_)) => ("model", format!("{what}, the next model is asked")),
                (None, _) => ("model", what),
            }
        }
        Event::ModelReplied(event) => match &event.says {
            Some(says) => ("says", format!("{}{says}", at_step(event.step))),
            None => return None,
        },
        Event::PlanAmended(event) => ("plan", super::summary::amended(event)),
        Event::ConsultFailed(_) | Event::Judged(_) => ("judged", super::summary::summary(&record.event, WIDTH)),
        Event::ActionRefused(event) => {
            ("refused", format!("step {}: {}: {}", event.id.step, event.check, event.reason))
        }
        Event::AttemptFailed(event) => {
            let next = event.attempt + 1;
            ("retrying", format!("step {}: {} ({}), try {next}", event.id.step, event.code, event.error))
        }
        Event::ActionUnknown(event) => ("unknown", format!("step {}: {}", event.id.step, event.reason)),
        Event::ActionNotHappened(event) => {
            ("settled", format!("step {}: it did not happen; it is made now", event.id.step))
        }
        Event::ActionFinished(event) => ("settled", format!("step {}: {}", event.id.step, settled_by(event.source)?)),
        Event::WaitStarted(event) => ("waiting", format!("step {} until {}", event.step, event.until)),
        Event::QuestionAsked(event) => ("question", event.question.clone()),
        Event::LifecycleMoved(event) => ("state", format!("{} -> {}", event.from, event.to)),
        Event::LifecycleRefused(event) => ("refused", format!("state {} -> {}", event.from, event.to)),
        Event::LoopFound(event) => ("loop", format!("{} ({} rounds)", event.tools.join(", "), event.rounds)),
        Event::StepEvaluated(event) => {
            let verb = match event.verdict.route {
                Route::Continue | Route::BranchDone => return None,
                Route::Defer { .. } => "deferred",
                Route::GiveUp => "given up",
                Route::Correct => "once more",
                Route::Replan => "new way",
                Route::Person | Route::Fail => "failed",
            };
            (verb, format!("step {}: {}", event.step, event.verdict.reason))
        }
        Event::LimitReached(event) => ("limit", format!("{} = {}", event.limit, event.value)),
        Event::BudgetWarned(event) => {
            ("budget", format!("{}: {} % used, {} of {} left", event.budget, event.percent, event.left, event.limit))
        }
        Event::BudgetStaged(event) => ("budget", format!("{}: {}", event.stage.name(), event.reason)),
        Event::NoteTaken(event) => ("note", format!("{}: {}", event.by, event.text)),
        Event::OrderTaken(_) => ("order", super::summary::summary(&record.event, WIDTH)),
        Event::LimitsRaised(_) => ("limits", "raised".to_owned()),
        Event::ChangesAccepted(_) => ("accepted", super::summary::summary(&record.event, WIDTH)),
        Event::RunPaused(event) => ("paused", event.reason.clone()),
        Event::RunEnded(event) => (outcome_name(event.outcome), event.reason.clone()),
        Event::StepStarted(_)
        | Event::ModelCalled(_)
        | Event::ConsultStarted(_)
        | Event::ActionDecided(_)
        | Event::ActionStarted(_)
        | Event::StateSaved(_)
        | Event::WaitEnded(_)
        | Event::QuestionAnswered(_)
        | Event::HookSent(_) => return None,
    };
    Some(entry(verb, COLUMN, &text, WIDTH))
}

/// The step of a model call; nothing where the run as a whole asks.
fn at_step(step: Option<StepNo>) -> String {
    step.map(|step| format!("step {step}: ")).unwrap_or_default()
}

/// How an outcome came about without a call's own answer; none for that.
pub(crate) fn settled_by(source: OutcomeSource) -> Option<&'static str> {
    Some(match source {
        OutcomeSource::Cache => "answered from the archive",
        OutcomeSource::FirstResult => "the same effect was made before: its first result stands",
        OutcomeSource::StatusQuery => "the status query says it happened: it is not made again",
        OutcomeSource::LateAnswer => "the late answer completes it",
        OutcomeSource::Person => "a person answers for it",
        OutcomeSource::Call | OutcomeSource::Loop => return None,
    })
}

/// The word for how a run ended.
pub(crate) const fn outcome_name(outcome: RunOutcome) -> &'static str {
    match outcome {
        RunOutcome::Succeeded => RunStatus::Succeeded.name(),
        RunOutcome::Failed => RunStatus::Failed.name(),
        RunOutcome::Cancelled => RunStatus::Cancelled.name(),
    }
}

/// The last lines of a run, and the exit code that they mean.
pub(crate) fn conclude(context: &Context, report: &Report) -> Exit {
    let exit = exit_of(report);
    if context.json {
        let questions: Vec<_> = report
            .questions
            .iter()
            .map(|question| json!({ "step": question.step, "about": question.about, "question": question.text }))
            .collect();
        let document = json!({ "end": {
            "run": report.run.to_string(), "status": report.status, "exit": exit as u8, "steps": report.totals.steps,
            "calls": report.totals.calls, "questions": questions, "wake_at": report.wake_at.map(|at| at.to_string()),
        }});
        let _ = writeln!(std::io::stdout().lock(), "{document}");
        return exit;
    }
    let totals = &report.totals;
    // A reader that has gone is no reason to end with a panic: the run is archived, and the exit code says the rest.
    let mut out = std::io::stdout().lock();
    let _ = writeln!(
        out,
        "{}  {}  {} steps, {} calls, {} retries, {} set aside",
        report.run, report.status, totals.steps, totals.calls, totals.retries, totals.deferrals
    );
    for (subgoal, status) in &report.subgoals {
        let _ = writeln!(out, "  {subgoal}: {status}");
    }
    let id = report.run;
    for question in &report.questions {
        let open = Open { step: question.step, about: question.about, text: question.text.clone() };
        crate::say!("waits for a person: {}", safe(&open.text));
        crate::say!("{}", open.advice(&id.to_string()));
    }
    for (step, behind) in &report.held {
        crate::say!("step {step} would have the same effect as step {behind}, and waits for that answer");
    }
    match exit {
        Exit::Limit => {
            let limit = report.stopped.as_ref().map_or("", |stopped| stopped.limit.as_str());
            let raise = super::budget::raise(limit);
            crate::say!("stopped at `{limit}`; what was done stays. Go on with: {}{raise}", resume_hint(id));
        }
        Exit::Waiting if !report.questions.is_empty() => crate::say!("  then go on with: {}", resume_hint(id)),
        Exit::Interrupted | Exit::Waiting => crate::say!("Go on with: {}", resume_hint(id)),
        Exit::Success | Exit::Failed | Exit::Usage | Exit::Environment => {
            crate::say!("Look further: loopforge show {id}, loopforge trace {id}");
        }
    }
    exit
}

fn exit_of(report: &Report) -> Exit {
    match (report.outcome, report.status) {
        (Some(RunOutcome::Succeeded), _) => Exit::Success,
        (Some(RunOutcome::Failed | RunOutcome::Cancelled), _) => Exit::Failed,
        _ if report.interrupted => Exit::Interrupted,
        _ if !report.questions.is_empty() => Exit::Waiting,
        _ if report.stopped.is_some() => Exit::Limit,
        (None, RunStatus::Paused) => Exit::Interrupted,
        (None, _) => Exit::Waiting,
    }
}
