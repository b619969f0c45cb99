//! `loopforge doctor`

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use loopforge_store::postgres::{Durable, PostgresStore};
use loopforge_store::sqlite::sqlite_version;
use loopforge_store::{RunInfo, Store};
use loopforge_tools::process::sandbox_support;
use rustix::fs::{Access, access, statvfs};
use serde::Serialize;
use serde_json::json;

use crate::context::{Context, Place};
use crate::error::{CliError, Exit};
use crate::output::{self, Output};
use crate::text::{bytes, safe};
use crate::view::status;

/// Check this machine and the store. Changes nothing.
#[derive(Debug, Args)]
pub struct Doctor {}

/// How a check came out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Level {
    Ok,
    /// It works, with less than there could be.
    Warning,
    /// It doesn't work.
    Problem,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    level: Level,
    about: &'static str,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    remedy: Option<String>,
}

impl Finding {
    fn new(level: Level, about: &'static str, found: impl Into<String>) -> Self {
        Self { level, about, found: found.into(), remedy: None }
    }

    fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }
}

impl Doctor {
    /// Carries it out.
    ///
    /// # Errors
    /// Standard output can't be written to. What is wrong with the machine is a finding, with exit code 5.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let mut findings = vec![
            Finding::new(
                Level::Ok,
                "version",
                format!("LoopForge {}, SQLite {}", loopforge::VERSION, sqlite_version()),
            ),
            sandbox(),
        ];
        folder(context.place.folder(), &mut findings);
        store(context, &mut findings).await;
        let wrong = findings.iter().filter(|finding| finding.level == Level::Problem).count();
        let mut out = Output::new();
        if context.json {
            out.json(&json!({ "ok": wrong == 0, "findings": findings }))?;
        } else {
            for finding in &findings {
                let word = match finding.level {
                    Level::Ok => "ok",
                    Level::Warning => "warning",
                    Level::Problem => "problem",
                };
                let pad = " ".repeat(7 - word.len());
                writeln!(out, "{}{pad}  {:<8} {}", output::status(word), finding.about, safe(&finding.found))?;
                if let Some(remedy) = &finding.remedy {
                    writeln!(out, "         remedy:  {}", safe(remedy))?;
                }
            }
        }
        out.finish()?;
        if wrong > 0 {
            crate::say!("{wrong} of {} things are wrong", findings.len());
            return Ok(Exit::Environment);
        }
        Ok(Exit::Success)
    }
}

fn sandbox() -> Finding {
    let support = sandbox_support();
    let landlock = support.landlock.map_or_else(|| "no Landlock".to_owned(), |version| format!("Landlock {version}"));
    let found = format!("{landlock}; {}", support.enforced.join("; "));
    let gaps = support.gaps.join("; ");
    match (support.is_sufficient(), gaps.is_empty()) {
        (true, true) => Finding::new(Level::Ok, "sandbox", found),
        (true, false) => Finding::new(Level::Ok, "sandbox", format!("{found}. Not here: {gaps}")),
        (false, _) => Finding::new(Level::Warning, "sandbox", format!("processes can't be confined: {gaps}"))
            .remedy("use Linux 5.13 or later, or run the processes that you trust with `sandbox: off`"),
    }
}

/// The nearest folder that is there: the store's own, or where it would be made.
fn existing_folder(folder: &Path) -> PathBuf {
    let absolute = std::path::absolute(folder).unwrap_or_else(|_| folder.to_owned());
    let mut folder = absolute.as_path();
    while !folder.exists() {
        match folder.parent() {
            Some(parent) => folder = parent,
            None => break,
        }
    }
    folder.to_owned()
}

fn folder(store: &Path, findings: &mut Vec<Finding>) {
    /// Less than this, and a run that fetches pages fills the disk.
    const LITTLE: u64 = 1_000_000_000;
    /// Less than this, and the next commits may fail.
    const TOO_LITTLE: u64 = 50_000_000;
    let folder = existing_folder(store);
    let shown = folder.display();
    findings.push(match access(&folder, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) => Finding::new(Level::Ok, "folder", format!("{shown} can be written to")),
        Err(error) => Finding::new(Level::Problem, "folder", format!("{shown} can't be written to: {error}"))
            .remedy("make it writable, or choose another store with `--store`"),
    });
    findings.push(match statvfs(&folder) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let found = format!("{} free at {shown}", bytes(free));
            let level = match free {
                0..TOO_LITTLE => Level::Problem,
                TOO_LITTLE..LITTLE => Level::Warning,
                LITTLE.. => Level::Ok,
            };
            let finding = Finding::new(level, "disk", found);
            if level == Level::Ok {
                finding
            } else {
                finding.remedy("make room; runs stop when the store is full, and can be resumed")
            }
        }
        Err(error) => Finding::new(Level::Warning, "disk", format!("the free space can't be read: {error}")),
    });
}

async fn store(context: &Context, findings: &mut Vec<Finding>) {
    let shown = context.place.to_string();
    if let Place::File(path) = &context.place
        && !path.exists()
    {
        let found = format!("there is none at {shown} yet; `loopforge run` makes it");
        findings.push(Finding::new(Level::Ok, "store", found));
        return;
    }
    if let Err(error) = look(context, findings).await {
        let found = format!("{shown}: {}", error.message);
        let finding = Finding::new(Level::Problem, "store", found);
        // A hint that leads back here helps nobody.
        let hint = error.hints.into_iter().find(|hint| !hint.contains("doctor"));
        findings
            .push(finding.remedy(hint.unwrap_or_else(|| "restore a backup; `--store` names another store".to_owned())));
    }
}

/// What a server promises, which the runs in it rest on.
async fn server(url: &str, findings: &mut Vec<Finding>) -> Result<(), CliError> {
    /// A transaction that is open for longer keeps dead rows alive.
    const LONG: Duration = Duration::from_secs(60);
    let server = PostgresStore::new_read_only(url)?.server().await?;
    let promise = match server.durable {
        None => "a copy; only its primary can say what a commit survives",
        Some(Durable::Nothing) => "a commit survives no loss of power: `fsync` is off",
        Some(Durable::OneServer) => "a commit survives a loss of power; there is no standby",
        Some(Durable::AsynchronousCopy) => {
            "a commit survives a loss of power; a failover to the standby can lose the last moments"
        }
        Some(Durable::SynchronousCopy) => "a commit survives a loss of power, and of the server",
    };
    let found = format!("PostgreSQL {}: {promise}", server.version);
    findings.push(match server.durable {
        Some(Durable::Nothing) => Finding::new(Level::Warning, "server", found).remedy("set `fsync = on`"),
        _ => Finding::new(Level::Ok, "server", found),
    });
    if server.waits_for_a_copy {
        let found = "commits wait for a standby, and none is there: no run goes on";
        let remedy = "bring the standby back, or take it out of `synchronous_standby_names`";
        findings.push(Finding::new(Level::Problem, "server", found).remedy(remedy));
    }
    if server.oldest_transaction > LONG {
        let found = format!("a transaction has been open for {} s", server.oldest_transaction.as_secs());
        let remedy = "end it (`pg_stat_activity` names it): dead rows pile up behind it";
        findings.push(Finding::new(Level::Warning, "server", found).remedy(remedy));
    }
    Ok(())
}

async fn look(context: &Context, findings: &mut Vec<Finding>) -> Result<(), CliError> {
    if let Place::Postgres(url) = &context.place {
        server(url, findings).await?;
    }
    let store = context.look()?;
    let damage = store.check().await?;
    let runs: Vec<_> = store.runs(usize::MAX).await?.into_iter().map(|run| context.present(run).0).collect();
    let size = match &context.place {
        Place::File(path) => bytes(std::fs::metadata(path).map_or(0, |about| about.len())) + ", ",
        Place::Postgres(_) => String::new(),
    };
    let open = runs.iter().filter(|run| !run.status.is_final()).count();
    let found = format!("{}: {size}{} runs, {open} not ended", context.place, runs.len());
    if damage.is_empty() {
        findings.push(Finding::new(Level::Ok, "store", format!("{found}; no damage found")));
    }
    let whole = damage.is_empty();
    for one in damage {
        let run = one.run.map(|run| format!("{run}: ")).unwrap_or_default();
        findings.push(Finding::new(Level::Problem, "store", format!("{run}{}", one.problem)).remedy(one.remedy));
    }
    if whole {
        room(store.as_ref(), &runs, findings).await?;
    }
    let interrupted: Vec<_> = runs.iter().filter(|run| status(run) == "interrupted").collect();
    if let Some(last) = interrupted.first() {
        let found = format!("{} interrupted, the last is {} ({})", interrupted.len(), last.id, last.name);
        findings.push(Finding::new(Level::Warning, "runs", found).remedy("loopforge resume --all"));
    }
    Ok(())
}

/// What takes up most, and what could be removed.
async fn room(store: &dyn Store, runs: &[RunInfo], findings: &mut Vec<Finding>) -> Result<(), CliError> {
    /// Less than this is not worth a word.
    const LITTLE: u64 = 100_000_000;
    let mut largest = None;
    for run in runs {
        let size = store.size(run.id).await?.total();
        largest = largest.max(Some((size, run.id)));
    }
    let rubbish = store.prune(&[], false).await?;
    let Some((size, run)) = largest else { return Ok(()) };
    let found = format!("the largest run is {run} ({}); {} that no run needs", bytes(size), bytes(rubbish.bytes));
    findings.push(match rubbish.bytes {
        LITTLE.. => Finding::new(Level::Warning, "room", found).remedy("`loopforge gc --apply` gives it back"),
        _ => Finding::new(Level::Ok, "room", found),
    });
    Ok(())
}
