//! One patrol as a process of its own, followed record by record.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use loopforge_core::record::{Event, Record};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::commands::plain;
use crate::error::{CliError, Exit};

use super::shop::Shop;

/// How long a patrol is followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// To its end.
    End,
    /// Until so many steps are archived; then the process gets SIGKILL.
    Steps(usize),
}

/// Starts patrols of one shop, in one folder.
pub(super) struct Patrol {
    folder: PathBuf,
    program: PathBuf,
    deliver_to: String,
    urls: String,
    json: bool,
}

impl Patrol {
    pub(super) fn new(folder: &Path, shop: &Shop, json: bool) -> Result<Self, CliError> {
        let program =
            std::env::current_exe().map_err(|error| CliError::io("this program's file can't be found", error))?;
        Ok(Self {
            folder: folder.to_owned(),
            program,
            deliver_to: shop.reports_url(),
            urls: format!("{}/urls.txt", shop.base_url()),
            json,
        })
    }

    /// Starts a patrol of today's pages. Returns the run's id.
    pub(super) async fn start(&self, until: Until) -> Result<String, CliError> {
        let list = fetch_list(&self.urls).await?;
        let path = self.folder.join("urls.txt");
        std::fs::write(&path, list).map_err(|error| CliError::io("the list of pages can't be written", error))?;
        let pages = format!("pages=@{}", path.display());
        let deliver_to = format!("deliver_to={}", self.deliver_to);
        let task = self.folder.join("task.yaml").display().to_string();
        self.follow(&["run", &task, "--input", &pages, "--input", &deliver_to], until).await
    }

    /// Resumes the last run, to its end.
    pub(super) async fn resume(&self) -> Result<String, CliError> {
        self.follow(&["resume", "--last"], Until::End).await
    }

    async fn follow(&self, arguments: &[&str], until: Until) -> Result<String, CliError> {
        let store = self.folder.join("loopforge.db");
        let mut child = Command::new(&self.program)
            .arg("--json")
            .arg("--store")
            .arg(&store)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| CliError::io("a patrol can't be started", error))?;
        let mut steps = 0;
        let mut run = None;
        let Some(stdout) = child.stdout.take() else { return Err(failed("its output is missing")) };
        let mut lines = BufReader::new(stdout).lines();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Ok(record) = serde_json::from_str::<Record>(&line) {
                if !self.json
                    && let Some(text) = plain(&record)
                {
                    crate::tell!("  {text}");
                }
                steps += usize::from(matches!(record.event, Event::StepEvaluated(_)));
            } else if let Ok(end) = serde_json::from_str::<Value>(&line) {
                run = end["end"]["run"].as_str().map(str::to_owned);
            }
            if until == Until::Steps(steps) {
                child.start_kill().map_err(|error| CliError::io("the patrol can't be killed", error))?;
                break;
            }
        }
        self.end(child, until, run).await
    }

    async fn end(&self, mut child: Child, until: Until, run: Option<String>) -> Result<String, CliError> {
        let mut said = String::new();
        if let Some(mut stderr) = child.stderr.take() {
            // What it said is only shown when something went wrong.
            let _ = stderr.read_to_string(&mut said).await;
        }
        let status = child.wait().await.map_err(|error| CliError::io("the patrol can't be awaited", error))?;
        match (until, run) {
            (Until::Steps(_), _) if status.success() => Err(failed("it ended before it could be killed")),
            (Until::Steps(_), _) => self.last_run().await,
            (Until::End, Some(run)) if status.success() => Ok(run),
            (Until::End, _) => Err(failed(&format!("{status}: {said}"))),
        }
    }

    async fn last_run(&self) -> Result<String, CliError> {
        let store = super::findings::open(&self.folder)?;
        let last = store.runs(1).await?;
        last.first().map(|run| run.id.to_string()).ok_or_else(|| failed("it left no run"))
    }
}

fn failed(why: &str) -> CliError {
    CliError::new(Exit::Failed, format!("a patrol did not end as it must: {why}"))
}

/// Asks the shop for its list of pages, as a person would with a browser.
async fn fetch_list(url: &str) -> Result<String, CliError> {
    use loopforge_core::id::{ActionNo, RunId, StepNo};
    use loopforge_core::record::ActionId;
    use loopforge_tools::builtin::{BuiltinConfig, find};
    let problem = |why: String| CliError::new(Exit::Failed, format!("the shop's list can't be fetched: {why}"));
    let config = BuiltinConfig { allow: vec!["127.0.0.1:*".to_owned()] };
    let tool = find("http_get", &config).map_err(|error| problem(error.to_string()))?;
    let here = std::sync::Arc::new(PathBuf::from("."));
    let context = loopforge_tools::CallContext {
        run: RunId(uuid::Uuid::nil()),
        action: ActionId { step: StepNo(0), action: ActionNo(0) },
        attempt: 1,
        step_token: None,
        timeout: std::time::Duration::from_secs(10),
        cancel: tokio_util::sync::CancellationToken::new(),
        workspace: std::sync::Arc::clone(&here),
        base: here,
    };
    let result = tool.call(serde_json::json!({ "url": url }), &context).await;
    match result.data["body"].as_str() {
        Some(body) if result.is_ok() => Ok(body.to_owned()),
        _ => Err(problem(result.error.unwrap_or_default())),
    }
}
