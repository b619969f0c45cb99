//! `loopforge ls`

use clap::Args;
use comfy_table::Cell;
use loopforge_core::id::RunId;
use loopforge_core::record::RunStatus;
use loopforge_store::{RunInfo, RunSize, Store, StoreError};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::{Output, status_cell, table};
use crate::text::{bytes, line, span};
use crate::view::{self, View};

/// List the runs of the store, the newest first.
#[derive(Debug, Args)]
pub struct Ls {
    /// How many at most
    #[arg(long, value_name = "N", default_value_t = 50)]
    pub limit: usize,
    /// How much each takes up in the store, too; all records are read for it
    #[arg(long)]
    pub size: bool,
}

impl Ls {
    /// Carries it out.
    ///
    /// # Errors
    /// There is no store, or it can't be read.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = context.look()?;
        let mut runs = store.runs(self.limit.saturating_add(1)).await?;
        let more = runs.len() > self.limit;
        runs.truncate(self.limit);
        let end = view::ends(&runs);
        let mut out = Output::new();
        let mut listed = Vec::new();
        let mut columns = vec!["RUN", "NAME", "STATUS", "STEPS", "AGE", "WAITS FOR"];
        if self.size {
            columns.insert(5, "SIZE");
        }
        let mut rows = table(&columns, "WAITS FOR");
        for info in runs {
            let id = info.id.to_string();
            let short = &id[id.len() - end..];
            // Only a run that goes on has something that it waits for, and only its archive knows what.
            let view = match info.status.is_final() {
                true => View { info, gone: None, task: None, state: None, problems: Vec::new() },
                false => View::load(context, store.as_ref(), info.id).await?,
            };
            let size = if self.size { Some(size(store.as_ref(), view.info.id).await?) } else { None };
            if context.json {
                let mut document = document(&view);
                if let Some(size) = size {
                    document["size"] = size_document(size);
                }
                listed.push(document);
                continue;
            }
            let age = loopforge::clock::now().since(view.info.created_at);
            let mut row = vec![
                Cell::new(short),
                Cell::new(line(&view.info.name, 40)),
                status_cell(view.status()),
                Cell::new(view.info.steps),
                Cell::new(span(age)),
                Cell::new(waits_for(&view, short)),
            ];
            if self.size {
                row.insert(5, Cell::new(size.flatten().map_or("damaged".to_owned(), |size| bytes(size.total()))));
            }
            rows.add_row(row);
        }
        if context.json {
            out.json(&json!({ "runs": listed, "more": more }))?;
        } else if rows.row_count() == 0 {
            crate::say!("this store holds no runs; `loopforge run FILE` starts one");
        } else {
            out.table(&rows, 0)?;
            if more {
                crate::say!("there are more; `--limit N` shows them");
            }
        }
        out.finish()?;
        Ok(Exit::Success)
    }
}

/// How much a run takes up; none when nobody knows, as a record can't be read.
pub async fn size(store: &dyn Store, run: RunId) -> Result<Option<RunSize>, CliError> {
    match store.size(run).await {
        Ok(size) => Ok(Some(size)),
        Err(StoreError::Corrupt(_) | StoreError::Newer { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// A size for programs.
pub fn size_document(size: Option<RunSize>) -> Value {
    json!(size.map(|size| json!({
        "records": size.records, "blobs": size.blobs, "checkpoints": size.checkpoints, "total": size.total(),
    })))
}

/// A run for programs: the same in `ls` and `show`.
pub fn document(view: &View) -> Value {
    let RunInfo { id, name, head, steps, created_at, updated_at, wake_at, owner, .. } = &view.info;
    let questions: Vec<_> = view
        .questions()
        .iter()
        .map(|open| {
            json!({ "step": open.step, "about": open.about, "question": open.text, "answers": open.answers(&id.to_string()) })
        })
        .collect();
    json!({
        "run": id,
        "name": name,
        "status": view.status(),
        "head": head,
        "steps": steps,
        "created_at": created_at.to_string(),
        "updated_at": updated_at.to_string(),
        "wake_at": wake_at.map(|at| at.to_string()),
        "gone": view.gone.as_ref().map(|gone| &gone.label),
        "owner": owner.as_ref().map(|owner| json!({ "label": owner.label, "until": owner.until.to_string() })),
        "questions": questions,
        "held": view.held().iter().map(|(step, behind)| json!({ "step": step, "behind": behind })).collect::<Vec<_>>(),
        "budget": view.task.as_ref().zip(view.state.as_ref()).map(|(task, state)| super::budget::document(task, state)),
        "problems": view.problems,
    })
}

fn waits_for(view: &View, short: &str) -> String {
    const WIDTH: usize = 80;
    if let Some(problem) = view.problems.first() {
        return line(problem, WIDTH);
    }
    if let Some(open) = view.questions().first() {
        // What is held up by the question comes first: the question is long, and is cut off.
        let held = view.held().first().map(|(step, _)| format!(" (step {step} too)")).unwrap_or_default();
        return line(&format!("a person{held}: {}", open.text), WIDTH);
    }
    let RunInfo { status, owner, wake_at, .. } = &view.info;
    match (status, owner, wake_at) {
        (_, Some(owner), Some(at)) => format!("{at} ({} waits)", line(&owner.label, 30)),
        (_, Some(owner), None) => format!("{} works on it", line(&owner.label, 30)),
        (RunStatus::Running | RunStatus::Queued, None, _) => match &view.gone {
            Some(gone) => format!("loopforge resume {short} ({} is gone)", line(&gone.label, 30)),
            None => format!("loopforge resume {short}"),
        },
        (RunStatus::Waiting, None, Some(at)) => format!("{at}, then: loopforge resume {short}"),
        (RunStatus::Waiting | RunStatus::Paused, None, _) => {
            let why = view.state.as_ref().and_then(|state| {
                let limit = state.stopped.as_ref().map(|stopped| format!("{} {}", stopped.limit, stopped.value));
                limit.or_else(|| state.paused.clone())
            });
            match why {
                Some(why) => format!("loopforge resume {short} ({})", line(&why, 40)),
                None => format!("loopforge resume {short}"),
            }
        }
        (RunStatus::Succeeded | RunStatus::Failed | RunStatus::Cancelled, None, _) => String::new(),
    }
}
