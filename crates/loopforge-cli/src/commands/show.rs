//! `loopforge show RUN`

use std::io::Write;
use std::path::Path;

use clap::Args;
use loopforge_core::record::{RunEnded, Score, Verdict};
use loopforge_core::run::{GivenUp, Progress, RunState, SubgoalStatus};
use loopforge_core::task::Task;
use loopforge_store::Store;
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Exit, resume_hint};
use crate::output::{self, Output};
use crate::text::{bytes, line, safe, span};
use crate::view::{self, View, ending};

use super::ls::{document, size, size_document};
use super::summary::led;

/// Show how far a run is, what it waits for, and how it ended.
#[derive(Debug, Args)]
pub struct Show {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// How many of its files, and of the items given up, are listed
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,
    /// How much it takes up in the store, too; all its records are read for it
    #[arg(long)]
    pub size: bool,
}

/// A file in the run's folder.
struct File {
    path: String,
    size: u64,
}

impl Show {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or a store that can't be read.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let view = View::load(context, store.as_ref(), id).await?;
        let ended = ending(store.as_ref(), &view.info).await?;
        let files = files(Path::new(&view.info.workspace));
        let mut out = Output::new();
        if context.json {
            let mut whole = whole(store.as_ref(), &view, ended.as_ref(), &files).await?;
            if self.size {
                whole["size"] = size_document(size(store.as_ref(), id).await?);
            }
            out.json(&whole)?;
        } else {
            head(&mut out, &view)?;
            if let (Some(task), Some(state)) = (&view.task, &view.state) {
                for progress in &state.subgoals {
                    subgoal(&mut out, task, state, progress)?;
                    for given_up in progress.given_up.iter().take(self.limit) {
                        let item = line(&item(store.as_ref(), given_up).await?, 60);
                        let reason = line(&given_up.reason, 100);
                        writeln!(out, "      given up  [{}] {item}: {}, {reason}", given_up.position, given_up.code)?;
                    }
                    if progress.given_up.len() > self.limit {
                        writeln!(out, "      and {} more", progress.given_up.len() - self.limit)?;
                    }
                }
                usage(&mut out, task, state)?;
                if let Some(last) = &state.verdict {
                    verdict(&mut out, last, "")?;
                }
            }
            end(&mut out, ended.as_ref())?;
            place(&mut out, &view, &files, self.limit)?;
            if self.size {
                match size(store.as_ref(), id).await? {
                    Some(size) => writeln!(
                        out,
                        "size      {} in the store: {} of records, {} of large values, {} of checkpoints",
                        bytes(size.total()),
                        bytes(size.records),
                        bytes(size.blobs),
                        bytes(size.checkpoints)
                    )?,
                    None => writeln!(out, "size      not known: a record is damaged")?,
                }
            }
            next(&mut out, &view)?;
        }
        out.finish()?;
        Ok(Exit::Success)
    }
}

fn head(out: &mut Output, view: &View) -> Result<(), CliError> {
    let info = &view.info;
    writeln!(out, "{}  {}  {}", info.id, line(&info.name, 60), output::status(view.status()))?;
    if let Some(task) = &view.task {
        writeln!(out, "goal      {}", line(&task.goal, 200))?;
    }
    let written = view.state.as_ref().map(|state| &state.version).filter(|version| *version != loopforge::VERSION);
    let version =
        written.map(|version| format!(", last worked on by LoopForge {}", line(version, 40))).unwrap_or_default();
    writeln!(out, "task      {}{version}", info.task)?;
    let last = loopforge::clock::now().since(info.updated_at);
    writeln!(out, "started   {}; last record {} ({} ago)", info.created_at, info.head, span(last))?;
    if let Some(owner) = &info.owner {
        writeln!(out, "owner     {}, until {}", line(&owner.label, 60), owner.until)?;
    }
    if let Some(gone) = &view.gone {
        writeln!(out, "owner     none: {} is gone", line(&gone.label, 60))?;
    }
    for problem in &view.problems {
        writeln!(out, "problem   {}", safe(problem))?;
    }
    Ok(())
}

fn subgoal(out: &mut Output, task: &Task, state: &RunState, progress: &Progress) -> Result<(), CliError> {
    let at = task.subgoals.iter().position(|subgoal| subgoal.id == progress.id);
    let entries = at.map_or(0, |at| task.subgoals[at].steps.len());
    let entry = state.branches.values().find(|branch| Some(branch.subgoal) == at).map_or(0, |branch| branch.entry);
    let mut text = match &progress.list {
        Some(list) => format!("{} of {} items", progress.done, list.count),
        None if progress.status == SubgoalStatus::Active && entries == 0 => "a model works on it".to_owned(),
        None if progress.status == SubgoalStatus::Active => format!("{entry} of {entries} entries"),
        None => String::new(),
    };
    let mut more = |words: String| {
        if !text.is_empty() {
            text.push_str(", ");
        }
        text.push_str(&words);
    };
    if !progress.deferred.is_empty() {
        let due = progress.deferred.iter().map(|deferred| deferred.due).min();
        let due = due.map(|due| format!(" (the next is due {due})")).unwrap_or_default();
        more(format!("{} set aside{due}", progress.deferred.len()));
    }
    if !progress.given_up.is_empty() {
        more(format!("{} given up", progress.given_up.len()));
    }
    if let Some(failure) = &progress.failure {
        more(line(failure, 120));
    }
    // Padded before it is coloured: colours have a width in bytes, not on the screen.
    let word = progress.status.name();
    let pad = " ".repeat(8_usize.saturating_sub(word.len()));
    let text = if text.is_empty() { text } else { format!("  {text}") };
    Ok(writeln!(out, "  {}{pad}  {}{text}", output::status(word), progress.id)?)
}

async fn item(store: &dyn Store, given_up: &GivenUp) -> Result<String, CliError> {
    let (item, _) = view::open(store, &given_up.item).await?;
    Ok(crate::text::short(&item, 60))
}

fn usage(out: &mut Output, task: &Task, state: &RunState) -> Result<(), CliError> {
    let totals = &state.totals;
    let elapsed = state.last_at.since(state.started_at);
    let limit = state.raised.max_duration_ms.map(std::time::Duration::from_millis);
    let limit = limit.or_else(|| task.limits.max_duration.map(|limit| limit.0));
    let of = limit.map(|limit| format!(" of {}", span(limit))).unwrap_or_default();
    writeln!(
        out,
        "used      {} of {} steps, {}{of}; {} calls, {} failed, {} retries, {} refused, {} set aside, {} resumes",
        totals.steps,
        state.max_steps(task),
        span(elapsed),
        totals.calls,
        totals.failures,
        totals.retries,
        totals.refusals,
        totals.deferrals,
        totals.resumes
    )?;
    super::budget::lines(out, task, state)?;
    if let Some(lifecycle) = &state.lifecycle {
        writeln!(out, "state     {}", line(lifecycle, 60))?;
    }
    Ok(())
}

/// A verdict with its scores; `indent` before each line.
pub fn verdict(out: &mut Output, verdict: &Verdict, indent: &str) -> Result<(), CliError> {
    writeln!(out, "{indent}verdict   {}", line(&led(verdict), 160))?;
    let scores = &verdict.scores;
    let named = [
        ("completion", &scores.completion),
        ("consistency", &scores.consistency),
        ("resources", &scores.resources),
        ("stability", &scores.stability),
    ];
    for (name, Score(value, reason)) in named {
        writeln!(out, "{indent}  {name:<11} {value:.2}  {}", line(reason, 120))?;
    }
    Ok(())
}

fn end(out: &mut Output, ended: Option<&RunEnded>) -> Result<(), CliError> {
    let Some(ended) = ended else { return Ok(()) };
    writeln!(out, "ended     {}: {}", super::progress::outcome_name(ended.outcome), line(&ended.reason, 200))?;
    for check in &ended.checks {
        let mark = if check.holds { "holds     " } else { "not so    " };
        let reason = check.reason.as_ref().map(|reason| format!(" ({})", line(reason, 120))).unwrap_or_default();
        writeln!(out, "  {mark}  {}{reason}", line(&check.rule, 120))?;
    }
    for unverified in &ended.unverified {
        writeln!(out, "  unverified  {}", line(unverified, 160))?;
    }
    Ok(())
}

fn place(out: &mut Output, view: &View, files: &[File], limit: usize) -> Result<(), CliError> {
    let size: u64 = files.iter().map(|file| file.size).sum();
    let count = files.len();
    writeln!(out, "folder    {} ({count} files, {})", safe(&view.info.workspace), bytes(size))?;
    for file in files.iter().take(limit) {
        writeln!(out, "  {:>9}  {}", bytes(file.size), safe(&file.path))?;
    }
    if count > limit {
        writeln!(out, "  and {} more", count - limit)?;
    }
    Ok(())
}

fn next(out: &mut Output, view: &View) -> Result<(), CliError> {
    let info = &view.info;
    let run = info.id.to_string();
    for open in view.questions() {
        writeln!(out, "question  {}", safe(&open.text))?;
        writeln!(out, "{}", open.advice(&run))?;
    }
    for (step, behind) in view.held() {
        writeln!(
            out,
            "held      step {step}: it would have the same effect as step {behind}, and waits for that answer"
        )?;
    }
    if info.status.is_final() {
        return Ok(());
    }
    if let Some(state) = &view.state {
        if let Some(stopped) = &state.stopped {
            match super::budget::raise(&stopped.limit).trim_start() {
                "" => writeln!(
                    out,
                    "stopped   at {} = {}; a new day begins at midnight (UTC)",
                    stopped.limit, stopped.value
                )?,
                raise => writeln!(out, "stopped   at {} = {}; {raise} raises it", stopped.limit, stopped.value)?,
            }
        }
        if let Some(paused) = &state.paused {
            writeln!(out, "paused    {}", line(paused, 160))?;
        }
    }
    if let Some(at) = info.wake_at {
        writeln!(out, "waits     until {at}")?;
    }
    match &info.owner {
        Some(_) => writeln!(out, "follow it with: loopforge watch {run}")?,
        None => writeln!(out, "go on with: {}", resume_hint(info.id))?,
    }
    Ok(())
}

async fn whole(store: &dyn Store, view: &View, ended: Option<&RunEnded>, files: &[File]) -> Result<Value, CliError> {
    let mut whole = document(view);
    whole["task"] = json!(view.info.task);
    whole["workspace"] = json!(view.info.workspace);
    whole["base"] = json!(view.info.base);
    whole["files"] = files.iter().map(|file| json!({ "path": file.path, "size": file.size })).collect();
    whole["ended"] = json!(ended);
    let (Some(task), Some(state)) = (&view.task, &view.state) else { return Ok(whole) };
    whole["version"] = json!(state.version);
    whole["goal"] = json!(task.goal);
    let mut subgoals = Vec::new();
    for progress in &state.subgoals {
        let mut given_up = Vec::new();
        for one in &progress.given_up {
            let (item, _) = view::open(store, &one.item).await?;
            given_up.push(json!({ "position": one.position, "item": item, "code": one.code, "reason": one.reason }));
        }
        subgoals.push(json!({
            "id": progress.id,
            "status": progress.status.name(),
            "items": progress.list.as_ref().map(|list| list.count),
            "begun": progress.begun,
            "done": progress.done,
            "deferred": progress.deferred.iter().map(|one| {
                json!({ "position": one.item, "rounds": one.rounds, "due": one.due.to_string() })
            }).collect::<Vec<_>>(),
            "given_up": given_up,
            "failure": progress.failure,
        }));
    }
    whole["subgoals"] = Value::Array(subgoals);
    whole["totals"] = json!(state.totals);
    whole["limits"] = json!({
        "max_steps": state.max_steps(task),
        "max_duration_ms": state.raised.max_duration_ms.or_else(|| {
            task.limits.max_duration.map(|limit| u64::try_from(limit.0.as_millis()).unwrap_or(u64::MAX))
        }),
        "stopped": state.stopped,
    });
    whole["budget"] = super::budget::document(task, state);
    whole["elapsed_ms"] = json!(u64::try_from(state.last_at.since(state.started_at).as_millis()).unwrap_or(u64::MAX));
    whole["lifecycle"] = json!(state.lifecycle);
    whole["paused"] = json!(state.paused);
    whole["verdict"] = output::exact(&state.verdict);
    Ok(whole)
}

/// The files of a folder and its folders, by name. A folder that can't be read has none; links are not followed.
fn files(folder: &Path) -> Vec<File> {
    /// A run that makes more is counted up to here.
    const MOST: usize = 100_000;
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(&next).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            let path = entry.path();
            if about.is_dir() {
                folders.push(path);
            } else if found.len() < MOST {
                let name = path.strip_prefix(folder).unwrap_or(&path).display().to_string();
                found.push(File { path: name, size: about.len() });
            }
        }
    }
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}
