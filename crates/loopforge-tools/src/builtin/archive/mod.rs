//! `archive_put` and `archive_get`: what one run leaves for the next.
//!
//! A collection is a folder beside the task file, an entry one JSON file in it, named by run, step and action. Run ids sort by
//! the time of the run's start, so names sort by time, and no index is needed. An entry is never overwritten: a step that a
//! rollback made again leaves a second one, which sorts after the first.

mod get;
mod put;

pub(super) use get::ArchiveGet;
pub(super) use put::ArchivePut;

use std::path::{Path, PathBuf};

use loopforge_core::id::{RunId, StepToken};
use loopforge_core::json::Json;
use loopforge_core::tool::ToolResult;
use serde::{Deserialize, Serialize};

use super::arguments::invalid;
use super::folder;
use crate::CallContext;

/// Where collections stand, below the folder of the task file.
const DEFAULT_DIR: &str = "archive";
const ENDING: &str = ".json";

/// An entry as it stands in its file.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The run that wrote it.
    run: RunId,
    /// The step that wrote it.
    step: u64,
    /// The effect that wrote it; tells a repeated call from another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    step_token: Option<StepToken>,
    /// When that run started, RFC 3339.
    run_started_at: Option<String>,
    /// What was archived.
    entry: Json,
}

impl Entry {
    fn of(entry: Json, context: &CallContext) -> Self {
        Self {
            run: context.run,
            step: context.action.step.0,
            step_token: context.step_token.clone(),
            run_started_at: started_at(context.run),
            entry,
        }
    }
}

/// The time in a run's id. No clock is asked, so that a repeated call writes the same bytes.
fn started_at(run: RunId) -> Option<String> {
    let (seconds, nanoseconds) = run.0.get_timestamp()?.to_unix();
    let instant = jiff::Timestamp::new(i64::try_from(seconds).ok()?, i32::try_from(nanoseconds).ok()?).ok()?;
    Some(format!("{instant:.3}"))
}

/// The id of the `round`-th entry of an action, 1 for the first. Ids sort by time.
fn id_of(context: &CallContext, round: u32) -> String {
    let (run, action) = (context.run, context.action);
    let first = format!("{run}-{:06}-{:03}", action.step.0, action.action.0);
    if round == 1 { first } else { format!("{first}-r{round:03}") }
}

/// The folder of a collection, below the folder of the task file.
fn folder_of(collection: &str, dir: Option<&str>) -> Result<PathBuf, ToolResult> {
    let dir = folder::read_path("dir", dir.unwrap_or(DEFAULT_DIR))?;
    let name = folder::read_path("collection", collection)?;
    if name.components().count() != 1 {
        return Err(invalid(format!(
            "`collection` is `{collection}`, which has a `/`: give a plain name, as in `product-pages`"
        )));
    }
    Ok(dir.join(name))
}

fn file_of(folder: &Path, id: &str) -> PathBuf {
    folder.join(format!("{id}{ENDING}"))
}
