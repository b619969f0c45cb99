//! Commands as tools, with real children.

mod ending;
mod escapes;
mod results;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopforge_core::id::{ActionNo, RunId, StepNo, StepToken};
use loopforge_core::json::Json;
use loopforge_core::record::ActionId;
use loopforge_core::task::{Grants, Sandbox, SandboxSwitch};
use loopforge_core::tool::{Contract, ToolResult};
use loopforge_tools::process::{ProcessConfig, ProcessTool};
use loopforge_tools::{CallContext, Tool};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// A task's folder with a workspace beside it.
struct Bench {
    folder: TempDir,
}

impl Bench {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        std::fs::create_dir_all(folder.path().join("task")).unwrap();
        std::fs::create_dir_all(folder.path().join("workspace")).unwrap();
        Self { folder }
    }

    fn base(&self) -> PathBuf {
        self.folder.path().join("task").canonicalize().unwrap()
    }

    fn workspace(&self) -> PathBuf {
        self.folder.path().join("workspace").canonicalize().unwrap()
    }

    /// A file beside the task file.
    fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.base().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    fn context(&self) -> CallContext {
        let action = ActionId { step: StepNo(3), action: ActionNo(0) };
        let run = RunId(uuid::Uuid::from_u128(7));
        CallContext {
            run,
            action,
            attempt: 1,
            step_token: Some(StepToken::of(run, 0, action.step, action.action)),
            timeout: Duration::from_secs(60),
            cancel: CancellationToken::new(),
            workspace: Arc::new(self.workspace()),
            base: Arc::new(self.base()),
        }
    }

    /// Calls `command` in the sandbox with these grants.
    async fn call(&self, command: &[&str], grants: Grants) -> ToolResult {
        tool(command, Some(Sandbox::Grants(grants))).call(json!({}), &self.context()).await
    }

    /// Runs a Python script in the sandbox.
    async fn python(&self, script: &str, grants: Grants) -> ToolResult {
        self.call(&["/usr/bin/python3", "-c", &script.replace('{', "{{").replace('}', "}}")], grants).await
    }

    /// Runs a shell script in the sandbox.
    async fn shell(&self, script: &str, grants: Grants) -> ToolResult {
        self.call(&["sh", "-c", &script.replace('{', "{{").replace('}', "}}")], grants).await
    }
}

fn config(command: &[&str]) -> ProcessConfig {
    let words = command.iter().map(|word| (*word).to_owned()).collect();
    let contract = Contract::read("test", json!({ "type": "object" }));
    ProcessConfig {
        helper: Some(env!("CARGO_BIN_EXE_loopforge-sandbox-helper").into()),
        ..ProcessConfig::new(words, contract)
    }
}

fn write_config(command: &[&str]) -> ProcessConfig {
    ProcessConfig { contract: Contract::write("test", json!({ "type": "object" })), ..config(command) }
}

fn tool(command: &[&str], sandbox: Option<Sandbox>) -> ProcessTool {
    ProcessTool::new(ProcessConfig { sandbox, ..config(command) }).unwrap()
}

fn off() -> Option<Sandbox> {
    Some(Sandbox::Switch(SandboxSwitch::Off))
}

/// Waits until something holds, at most ten seconds.
async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < Duration::from_secs(10), "not within 10 s: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// How many processes have `marker` on their command line.
fn processes_with(marker: &str) -> usize {
    let Ok(entries) = std::fs::read_dir("/proc") else { return 0 };
    entries
        .flatten()
        .filter(|entry| {
            std::fs::read(entry.path().join("cmdline"))
                .is_ok_and(|line| String::from_utf8_lossy(&line).split('\0').any(|word| word == marker))
        })
        .count()
}

/// The text of a result that is text.
fn text(result: &ToolResult) -> &str {
    result.data["text"].as_str().unwrap_or_else(|| panic!("no text in {result:?}"))
}

fn lines(path: &Path) -> Vec<String> {
    std::fs::read_to_string(path).unwrap_or_default().lines().map(str::to_owned).collect()
}

fn object(data: &Json) -> &serde_json::Map<String, Json> {
    data.as_object().unwrap_or_else(|| panic!("no object: {data}"))
}
