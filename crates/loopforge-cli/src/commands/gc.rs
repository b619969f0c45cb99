//! `loopforge gc`

use std::path::Path;
use std::time::Duration;

use clap::{Args, ValueEnum};
use comfy_table::Cell;
use loopforge::retention::{Rule, choose};
use loopforge_core::record::RunStatus;
use loopforge_core::time::Span;
use loopforge_store::{Pruned, RunInfo, StoreError};
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::{Output, status_cell, table};
use crate::text::{bytes, line, safe, span};

/// Remove ended runs by rule, and what no run needs any more.
///
/// Without `--apply` it only says what it would remove. Runs that go on, or could, are never removed; `resolve RUN --abort` ends one.
#[derive(Debug, Args)]
pub struct Gc {
    /// Runs whose last record is older than this: `30d`
    #[arg(long, value_name = "SPAN", value_parser = age)]
    pub older_than: Option<Span>,
    /// All but the newest N of each name
    #[arg(long, value_name = "N")]
    pub keep: Option<usize>,
    /// Runs that ended so; may be given more than once
    #[arg(long, value_enum)]
    pub status: Vec<Ended>,
    /// The folders of removed runs, with what they made, too
    #[arg(long)]
    pub files: bool,
    /// Do it
    #[arg(long, conflicts_with = "dry_run")]
    pub apply: bool,
    /// Only say what would be removed (this is the default)
    #[arg(long)]
    pub dry_run: bool,
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Ended {
    /// All criteria held
    Succeeded,
    /// Not
    Failed,
    /// A person stopped it
    Cancelled,
}

impl From<Ended> for RunStatus {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Succeeded => Self::Succeeded,
            Ended::Failed => Self::Failed,
            Ended::Cancelled => Self::Cancelled,
        }
    }
}

/// An age: a span, or days.
fn age(text: &str) -> Result<Span, String> {
    const DAY: u64 = 24 * 60 * 60;
    match text.strip_suffix('d').map(str::parse::<u64>) {
        Some(Ok(days)) => Ok(Span(Duration::from_secs(days.saturating_mul(DAY)))),
        _ => Span::parse(text).map_err(|error| format!("{error}, or `30d`")),
    }
}

impl Gc {
    /// Carries it out.
    ///
    /// # Errors
    /// The store can't be read, or for `--apply` written to; what was removed until then stays removed.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = if self.apply { context.open()? } else { context.look()? };
        let rule = Rule {
            older_than: self.older_than.map(|span| span.0),
            keep: self.keep,
            statuses: self.status.iter().copied().map(RunStatus::from).collect(),
        };
        let runs = store.runs(usize::MAX).await?;
        let chosen = choose(&runs, &rule, loopforge::clock::now());
        let ids: Vec<_> = chosen.iter().map(|run| run.id).collect();
        let pruned = match store.prune(&ids, self.apply).await {
            Err(error @ (StoreError::Corrupt(_) | StoreError::Newer { .. })) => {
                return Err(CliError::from(error).hint("what a damaged run needs is not known, so nothing was removed"));
            }
            pruned => pruned?,
        };
        let mut folders = Vec::new();
        if self.files {
            for run in chosen.iter().filter(|run| is_its_own(run)) {
                if self.apply {
                    remove_folder(&run.workspace)?;
                }
                folders.push(run.workspace.as_str());
            }
        }
        let mut out = Output::new();
        if context.json {
            out.json(&json!({
                "applied": self.apply,
                "runs": chosen.iter().map(|run| json!({
                    "run": run.id, "name": run.name, "status": run.status, "updated_at": run.updated_at.to_string(),
                })).collect::<Vec<_>>(),
                "folders": folders,
                "removed": {
                    "runs": pruned.runs, "records": pruned.records, "checkpoints": pruned.checkpoints,
                    "blobs": pruned.blobs, "tasks": pruned.tasks, "bytes": pruned.bytes,
                },
            }))?;
        } else if !chosen.is_empty() {
            let mut rows = table(&["RUN", "NAME", "STATUS", "ENDED"], "NAME");
            for run in &chosen {
                let ago = loopforge::clock::now().since(run.updated_at);
                rows.add_row(vec![
                    Cell::new(run.id),
                    Cell::new(line(&run.name, 60)),
                    status_cell(run.status.name()),
                    Cell::new(format!("{} ago", span(ago))),
                ]);
            }
            out.table(&rows, 0)?;
        }
        out.finish()?;
        say(&pruned, self.apply, folders.len());
        Ok(Exit::Success)
    }
}

fn say(pruned: &Pruned, applied: bool, folders: usize) {
    if *pruned == Pruned::default() {
        crate::say!("there is nothing to remove");
        return;
    }
    let Pruned { runs, records, checkpoints, blobs, tasks, bytes: size } = pruned;
    let verb = if applied { "removed" } else { "would remove" };
    crate::say!(
        "{verb} {runs} runs with {records} records, {checkpoints} checkpoints, {blobs} large values and {tasks} tasks, {folders} folders: \
         {}",
        bytes(*size)
    );
    if applied {
        crate::say!("the room inside the store is used again; `sqlite3 FILE vacuum` makes the file smaller");
    } else {
        crate::say!("nothing was changed; `--apply` does it");
    }
}

/// Whether a folder was made for this run alone: it has the run's name.
fn is_its_own(run: &RunInfo) -> bool {
    Path::new(&run.workspace).file_name().is_some_and(|name| name == run.id.to_string().as_str())
}

fn remove_folder(folder: &str) -> Result<(), CliError> {
    match std::fs::remove_dir_all(folder) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(CliError::io(&format!("the folder `{}` can't be removed", safe(folder)), error))
        }
        _ => Ok(()),
    }
}
