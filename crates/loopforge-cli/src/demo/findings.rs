//! What the demonstration found, counted from the archive and from the shop's log.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use loopforge_core::expression::StateValue;
use loopforge_core::id::{RunId, Seq};
use loopforge_core::payload::{BlobCache, NotLoaded, Payload};
use loopforge_core::record::{Event, Route};
use loopforge_store::Store;
use loopforge_store::sqlite::SqliteStore;
use serde_json::{Value, json};

use crate::error::{CliError, Exit};
use crate::text::line;

use super::shop::{Change, Day, Shop, expected_differences};

/// Opens the demonstration's store for looking.
pub(super) fn open(folder: &Path) -> Result<Arc<dyn Store>, CliError> {
    Ok(Arc::new(SqliteStore::open_read_only(&folder.join("loopforge.db"))?))
}

/// The pages whose step is archived as done.
pub(super) async fn archived_pages(folder: &Path, run: &str) -> Result<BTreeSet<String>, CliError> {
    let store = open(folder)?;
    let mut of_branch = std::collections::BTreeMap::new();
    let mut pages = BTreeSet::new();
    for record in records(store.as_ref(), run).await? {
        match record.event {
            Event::StepStarted(step) => {
                let page = step.input.as_ref().and_then(|input| input.inline.as_str()).map(str::to_owned);
                of_branch.insert(step.branch, page);
            }
            Event::StepEvaluated(step) if step.verdict.route == Route::BranchDone => {
                pages.extend(of_branch.get(&step.branch).cloned().flatten());
            }
            _ => {}
        }
    }
    Ok(pages)
}

async fn records(store: &dyn Store, run: &str) -> Result<Vec<loopforge_core::record::Record>, CliError> {
    let run = RunId::from_str(run).map_err(|error| CliError::usage(error.to_string()))?;
    Ok(store.records(run, Seq(0), usize::MAX).await?)
}

/// What the second patrol found, and what it cost.
pub(super) struct Findings {
    run: String,
    steps: u64,
    changed: Vec<[String; 4]>,
    added: Vec<String>,
    removed: Vec<String>,
    given_up: Vec<String>,
    made_good: Vec<String>,
    retried: usize,
    archived_before: usize,
    fetched_again: Vec<String>,
    on_their_way: usize,
    deliveries: Vec<u32>,
    report: String,
    missed: Vec<String>,
}

impl Findings {
    pub(super) async fn collect(
        folder: &Path,
        shop: &Shop,
        run: &str,
        archived: &BTreeSet<String>,
        at_the_kill: usize,
    ) -> Result<Self, CliError> {
        let store = open(folder)?;
        let id = RunId::from_str(run).map_err(|error| CliError::usage(error.to_string()))?;
        let path = |url: &str| url.strip_prefix(shop.base_url()).unwrap_or(url).to_owned();
        let differences = state(store.as_ref(), id, "differences").await?;
        let report = state(store.as_ref(), id, "report").await?;
        let list = |name: &str| differences[name].as_array().cloned().unwrap_or_default();
        let key = |item: &Value| path(item["key"].as_str().unwrap_or_default());
        let changed: Vec<[String; 4]> = list("changed")
            .iter()
            .map(|item| {
                let field = item["field"].as_str().unwrap_or_default().to_owned();
                [key(item), field, shown(&item["from"]), shown(&item["to"])]
            })
            .collect();
        let added: Vec<String> = list("added").iter().map(key).collect();
        let removed: Vec<String> = list("removed").iter().map(key).collect();
        let log = shop.log();
        let after = &log[at_the_kill.min(log.len())..];
        let before: BTreeSet<&str> = log[..at_the_kill.min(log.len())]
            .iter()
            .filter(|entry| entry.day == Day::Second)
            .map(|entry| entry.path.as_str())
            .collect();
        let archived: BTreeSet<String> = archived.iter().map(|url| path(url)).collect();
        let fetched_again =
            after.iter().map(|entry| &entry.path).filter(|path| archived.contains(*path)).cloned().collect();
        let on_their_way: BTreeSet<&str> = after
            .iter()
            .map(|entry| entry.path.as_str())
            .filter(|path| before.contains(path) && !archived.contains(*path))
            .collect();
        let all = records(store.as_ref(), run).await?;
        let (made_good, given_up, retried) = deferrals(&all, &path);
        let steps = all.iter().filter(|record| matches!(record.event, Event::StepEvaluated(_))).count() as u64;
        let missed = missed(&changed, &added, &removed);
        let file = report["html"]["path"].as_str().unwrap_or_default();
        Ok(Self {
            run: run.to_owned(),
            steps,
            changed,
            added,
            removed,
            given_up,
            made_good,
            retried,
            archived_before: archived.len(),
            fetched_again,
            on_their_way: on_their_way.len(),
            deliveries: shop.deliveries().iter().map(|delivery| delivery.times).collect(),
            report: folder.join("runs").join(run).join(file).display().to_string(),
            missed,
        })
    }

    /// What is not as it must be.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if !self.fetched_again.is_empty() {
            problems.push(format!("pages that were archived were fetched again: {}", self.fetched_again.join(", ")));
        }
        if self.deliveries != [1, 1] {
            problems.push(format!("two reports must arrive once each, and arrived {:?} times", self.deliveries));
        }
        if !self.missed.is_empty() {
            problems.push(format!("changes of the shop were not found: {}", self.missed.join(", ")));
        }
        if self.made_good.is_empty() {
            problems.push("no page was set aside and made good".to_owned());
        }
        problems
    }

    pub(super) fn document(&self) -> Value {
        json!({
            "run": self.run, "steps": self.steps, "changed": self.changed, "added": self.added, "removed": self.removed,
            "given_up": self.given_up, "deferred_and_made_good": self.made_good, "retries": self.retried,
            "archived_before_the_kill": self.archived_before, "fetched_again": self.fetched_again,
            "deliveries": self.deliveries, "report": self.report, "problems": self.problems(),
        })
    }

    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a String doesn't fail.
        let _ = writeln!(
            text,
            "Differences found: {} changed fields, {} new, {} gone",
            self.changed.len(),
            self.added.len(),
            self.removed.len()
        );
        for [page, field, from, to] in &self.changed {
            let _ = writeln!(text, "  {page:<34} {field:<12} {} -> {}", line(from, 32), line(to, 32));
        }
        for page in &self.added {
            let _ = writeln!(text, "  {page:<34} new");
        }
        for page in &self.removed {
            let _ = writeln!(text, "  {page:<34} gone");
        }
        let _ = writeln!(text, "Set aside and made good:  {}", none_or(&self.made_good));
        let _ = writeln!(text, "Given up, with a reason:  {}", none_or(&self.given_up));
        let _ = writeln!(text, "Failed tries made again:  {}", self.retried);
        let _ = writeln!(
            text,
            "Repeated after the kill:  {}",
            if self.fetched_again.is_empty() {
                format!(
                    "nothing. {} pages were archived before it, and the shop saw none of them again \
                     ({} that were on their way were read anew)",
                    self.archived_before, self.on_their_way
                )
            } else {
                none_or(&self.fetched_again)
            }
        );
        let times: Vec<String> = self.deliveries.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            text,
            "Reports delivered:        {}, each of them {} time",
            times.len(),
            times.first().map_or("0", String::as_str)
        );
        let _ = writeln!(text, "The report:               {}", self.report);
        text
    }
}

fn none_or(list: &[String]) -> String {
    if list.is_empty() { "none".to_owned() } else { list.join(", ") }
}

/// A value as it stood on the page, where it was kept.
fn shown(value: &Value) -> String {
    match value {
        Value::Object(reading) => match reading.get("text") {
            Some(Value::String(text)) => text.clone(),
            _ => value.to_string(),
        },
        Value::String(text) => text.clone(),
        Value::Null => "–".to_owned(),
        other => other.to_string(),
    }
}

/// The pages that were set aside and done later, those that were given up, and the tries that were made again.
fn deferrals(
    records: &[loopforge_core::record::Record],
    path: &dyn Fn(&str) -> String,
) -> (Vec<String>, Vec<String>, usize) {
    let mut of_branch = std::collections::BTreeMap::new();
    let (mut aside, mut made_good, mut given_up, mut retried) = (BTreeSet::new(), Vec::new(), Vec::new(), 0);
    for record in records {
        match &record.event {
            Event::StepStarted(step) => {
                if let Some(page) = step.input.as_ref().and_then(|input| input.inline.as_str()) {
                    of_branch.insert(step.branch, path(page));
                }
            }
            Event::AttemptFailed(_) => retried += 1,
            Event::StepEvaluated(step) => {
                let Some(page) = of_branch.get(&step.branch) else { continue };
                match step.verdict.route {
                    Route::Defer { .. } => {
                        aside.insert(page.clone());
                    }
                    Route::BranchDone if aside.contains(page) => made_good.push(page.clone()),
                    Route::GiveUp => given_up.push(format!("{page} ({})", line(&step.verdict.reason, 60))),
                    _ => {}
                }
            }
            _ => {}
        }
    }
    (made_good, given_up, retried)
}

/// Changes that the shop made and the patrol did not find.
fn missed(changed: &[[String; 4]], added: &[String], removed: &[String]) -> Vec<String> {
    expected_differences()
        .iter()
        .filter(|difference| match &difference.change {
            Change::Added => !added.contains(&difference.path),
            Change::Removed => !removed.contains(&difference.path),
            Change::Changed { before, after, .. } => !changed.iter().any(|[page, _, from, to]| {
                page == &difference.path && from.contains(before.as_str()) && to.contains(after.as_str())
            }),
        })
        .map(|difference| difference.path.clone())
        .collect()
}

async fn state(store: &dyn Store, run: RunId, key: &str) -> Result<Value, CliError> {
    match store.state_value(run, key, None).await? {
        Some(StateValue::Single(payload)) => open_payload(store, &payload).await,
        Some(StateValue::Members(_)) | None => {
            Err(CliError::new(Exit::Failed, format!("the patrol left nothing under `{key}` in its state")))
        }
    }
}

/// A value with everything that was kept apart.
async fn open_payload(store: &dyn Store, payload: &Payload) -> Result<Value, CliError> {
    let mut blobs = BlobCache::default();
    loop {
        match payload.open(&blobs) {
            Ok(value) => return Ok(value),
            Err(NotLoaded::Blob(blob)) => blobs.insert(blob, &store.blob(&blob).await?),
            Err(other) => return Err(CliError::io("a value can't be read", other)),
        }
    }
}
