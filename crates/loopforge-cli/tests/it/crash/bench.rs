//! A folder with a task, a store and a tally; the command in it, which can be killed at a chosen place.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use loopforge_core::expression::StateValue;
use loopforge_core::id::{RunId, Seq};
use loopforge_core::record::{Event, Record, RunStatus, SubgoalOutcome};
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::{EffectState, Store};
use serde_json::Value;
use tempfile::TempDir;

/// The program under test.
const LOOPFORGE: &str = env!("CARGO_BIN_EXE_loopforge");

/// More turns than any run here needs, so that one that never ends fails.
const TURNS: usize = 40;

/// How a process that got SIGKILL ended.
const KILLED: i32 = 9;

pub(super) struct Bench {
    folder: TempDir,
    task: PathBuf,
    inputs: Vec<String>,
}

/// How the command ended.
pub(super) struct Ended {
    pub(super) status: ExitStatus,
    /// The last line of `--json`.
    pub(super) end: Value,
    /// The records that `--json` showed.
    pub(super) shown: Vec<Value>,
    pub(super) said: String,
}

impl Ended {
    pub(super) fn was_killed(&self) -> bool {
        self.status.signal() == Some(KILLED)
    }
}

/// What must be the same whatever happened on the way.
#[derive(Debug, PartialEq)]
pub(super) struct Summary {
    state: BTreeMap<String, StateValue>,
    subgoals: Vec<(String, SubgoalOutcome)>,
    criteria: Vec<(String, bool)>,
}

impl Bench {
    /// A folder with `files` (name, content); the first is the task.
    pub(super) fn new(files: &[(&str, &str)], inputs: &[&str]) -> Self {
        let folder = TempDir::new().unwrap();
        for (name, content) in files {
            std::fs::write(folder.path().join(name), content).unwrap();
        }
        std::fs::create_dir(folder.path().join("out")).unwrap();
        let task = folder.path().join(files[0].0);
        Self { folder, task, inputs: inputs.iter().map(|&input| input.to_owned()).collect() }
    }

    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    fn command(&self, arguments: &[&str], kill_at: Option<&str>) -> Command {
        let mut command = Command::new(LOOPFORGE);
        command
            .args(arguments)
            .arg("--json")
            .current_dir(self.path())
            .env_remove("LOOPFORGE_STORE")
            .env_remove("LOOPFORGE_KILL_AT")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(place) = kill_at {
            command.env("LOOPFORGE_KILL_AT", place);
        }
        command
    }

    fn call(&self, arguments: &[&str], kill_at: Option<&str>) -> Ended {
        ended(self.command(arguments, kill_at).output().unwrap())
    }

    pub(super) fn run(&self, kill_at: Option<&str>) -> Ended {
        let arguments = self.run_arguments();
        self.call(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), kill_at)
    }

    pub(super) fn resume(&self, kill_at: Option<&str>) -> Ended {
        self.call(&["resume", "--last"], kill_at)
    }

    fn run_arguments(&self) -> Vec<String> {
        let mut arguments = vec!["run".to_owned(), self.task.display().to_string()];
        for input in &self.inputs {
            arguments.extend(["--input".to_owned(), input.clone()]);
        }
        arguments
    }

    /// Runs or resumes, and sends SIGKILL after `delay` unless it has ended by then.
    pub(super) fn kill_after(&self, delay: Duration) -> Ended {
        let arguments = if self.last_run().is_some() {
            vec!["resume".to_owned(), "--last".to_owned()]
        } else {
            self.run_arguments()
        };
        let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
        let mut child = self.command(&arguments, None).spawn().unwrap();
        std::thread::sleep(delay);
        // Its output fits into the pipe's buffer or it waits for us to read: both are states to be killed in.
        child.kill().unwrap();
        ended(child.wait_with_output().unwrap())
    }

    /// Goes on until the run has ended, as a person would: resumes, and answers questions by what the tally says.
    pub(super) fn finish(&self) {
        for _ in 0..TURNS {
            let ended = if self.last_run().is_some() { self.resume(None) } else { self.run(None) };
            match ended.status.code() {
                Some(0) => return,
                Some(3) => self.answer(&ended.end),
                // It was killed between the end and the exit code.
                Some(2) if ended.said.contains("has ended") => return,
                _ => panic!("{:?}: {}\n{}", ended.status, ended.end, ended.said),
            }
        }
        panic!("the run does not end");
    }

    /// Answers every question of a report truthfully.
    fn answer(&self, end: &Value) {
        let run = end["end"]["run"].as_str().unwrap();
        let records = self.records();
        let questions = end["end"]["questions"].as_array().unwrap();
        assert!(!questions.is_empty(), "waits for nobody: {end}");
        for question in questions {
            assert_eq!(question["about"], "unknown_effect", "{question}");
            let step = question["step"].as_u64().unwrap();
            let token = records
                .iter()
                .rev()
                .find_map(|record| match &record.event {
                    Event::ActionStarted(started) if started.id.step.0 == step => Some(started.token.to_string()),
                    _ => None,
                })
                .unwrap();
            let happened = self.tally().iter().any(|line| line.starts_with(&token));
            let answer = if happened { "--happened" } else { "--not" };
            let resolved = self.call(&["resolve", run, &step.to_string(), answer], None);
            assert!(resolved.status.success(), "{}", resolved.said);
        }
    }

    pub(super) fn tally(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path().join("out/tally.txt")).unwrap_or_default();
        text.lines().map(str::to_owned).collect()
    }

    /// The last word of each line, sorted: what was written.
    pub(super) fn written(&self) -> Vec<String> {
        let mut texts: Vec<_> = self
            .tally()
            .iter()
            .map(|line| line.split(['\t', ' ']).next_back().unwrap_or_default().to_owned())
            .collect();
        texts.sort();
        texts
    }

    fn look<T>(&self, look: impl AsyncFnOnce(SqliteStore, RunId) -> T) -> Option<T> {
        let path = self.path().join(".loopforge/loopforge.db");
        if !path.exists() {
            return None;
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            // Killed while it made the store: there is no run in it.
            let store = SqliteStore::open(&path).unwrap();
            let runs = store.runs(10).await.unwrap();
            assert!(runs.len() <= 1, "one run is enough");
            match runs.first() {
                Some(run) => Some(look(store, run.id).await),
                None => None,
            }
        })
    }

    pub(super) fn last_run(&self) -> Option<RunId> {
        self.look(async |_, run| run)
    }

    /// The archive as it is now.
    pub(super) fn records(&self) -> Vec<Record> {
        self.look(async |store, run| store.records(run, Seq(0), usize::MAX).await.unwrap()).unwrap_or_default()
    }

    /// The value of a key of state, for comparing.
    pub(super) fn state(&self, key: &str) -> String {
        self.look(async |store, run| format!("{:?}", store.state_value(run, key, None).await.unwrap())).unwrap()
    }

    /// What the run came to. The store must be sound, and every effect confirmed.
    pub(super) fn summary(&self) -> Summary {
        let summary = self.look(async |store, run| {
            assert_eq!(store.run(run).await.unwrap().status, RunStatus::Succeeded);
            assert_eq!(store.check().await.unwrap(), []);
            for effect in store.effects(run).await.unwrap() {
                assert_eq!(effect.state, EffectState::Confirmed, "{effect:?}");
            }
            let (mut subgoals, mut criteria) = (Vec::new(), Vec::new());
            for record in store.records(run, Seq(0), usize::MAX).await.unwrap() {
                match record.event {
                    Event::SubgoalEnded(ended) => subgoals.push((ended.subgoal, ended.outcome)),
                    Event::RunEnded(ended) => {
                        criteria.extend(ended.checks.into_iter().map(|check| (check.rule, check.holds)));
                    }
                    _ => {}
                }
            }
            Summary { state: store.state(run, None).await.unwrap(), subgoals, criteria }
        });
        summary.unwrap()
    }

    /// Checks that what was shown is archived, as it was shown. The archive may hold more.
    pub(super) fn assert_archived(&self, shown: &[Value]) {
        let records = self.records();
        for line in shown {
            let seq = line["seq"].as_u64().unwrap();
            let record = &records[usize::try_from(seq - 1).unwrap()];
            // Through its text, as it was shown: numbers have more digits as values.
            let archived: Value = serde_json::from_str(&serde_json::to_string(record).unwrap()).unwrap();
            assert_eq!(&archived, line, "record {seq} was shown otherwise");
        }
    }

    /// Checks that nothing of `recorded`, the archive at some kill, was lost.
    pub(super) fn assert_kept(&self, recorded: &[Record]) {
        let now = self.records();
        assert!(now.len() >= recorded.len());
        assert_eq!(&now[..recorded.len()], recorded, "what was recorded stays");
    }
}

fn ended(output: std::process::Output) -> Ended {
    let text = String::from_utf8_lossy(&output.stdout);
    let end = text.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    // A kill may cut the last line off.
    let lines = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let shown = lines.filter(|line| line["seq"].is_u64()).collect();
    Ended { status: output.status, end, shown, said: String::from_utf8_lossy(&output.stderr).into_owned() }
}
