//! Looking at runs, with the real command.
#![expect(clippy::unwrap_used, reason = "tests")]

mod archive;
mod care;
mod damage;
mod graph;
mod odd;
mod person;
mod runs;
mod watch;

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use loopforge_cli::text::is_unsafe;
use serde_json::Value;
use tempfile::TempDir;

/// A task of two subgoals: a list with an item that fails, and what comes after it.
pub(crate) const SMALL: &str = r#"
name: small
goal: Greet everybody who can be greeted.
inputs:
  names: { value: [Ada, nobody, Grace] }
tools:
  greet:
    description: Greets.
    process: [sh, greet.sh, "{name}"]
    sandbox: off
    effect: read
    input_schema: { type: object, required: [name], properties: { name: { type: string } } }
  keep:
    builtin: file_write
subgoals:
  - id: greet
    foreach: { in: inputs.names, as: name }
    steps:
      - call: greet
        with: { name: "${ name }" }
        save: "greetings[name]"
    on_failure: defer
  - id: report
    needs: [greet]
    steps:
      - set: { count: "${ 1 }" }
      - set: { count: "${ size(state.greetings) }" }
      - call: keep
        with: { path: report.md, content: "${ 'Greeted ' + string(state.count) }" }
evaluator:
  criteria:
    - state.count >= 2
"#;

pub(crate) const GREET: &str = r#"
case "$1" in
  nobody) echo "there is nobody" >&2; exit 1 ;;
  *) echo "{\"greeting\": \"Hello, $1\"}" ;;
esac
"#;

/// A folder with a store of its own.
pub(crate) struct Place {
    folder: TempDir,
}

/// What a command said.
#[derive(Debug)]
pub(crate) struct Said {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Said {
    pub(crate) fn of(output: Output) -> Self {
        Self {
            code: output.status.code().unwrap_or(-1),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// The one JSON document on standard output.
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// JSON Lines on standard output.
    pub(crate) fn json_lines(&self) -> Vec<Value> {
        self.out
            .lines()
            .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}")))
            .collect()
    }

    /// Nothing in it moves a terminal.
    pub(crate) fn is_safe(&self) -> bool {
        let allowed = |character| matches!(character, '\n' | '\t');
        [&self.out, &self.err].iter().all(|text| text.chars().all(|one| allowed(one) || !is_unsafe(one)))
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: TempDir::new().unwrap() }
    }

    /// A place in which the small run has been carried out.
    pub(crate) fn with_small_run() -> Self {
        let place = Self::new();
        place.write("greet.sh", GREET);
        place.write("task.yaml", SMALL);
        let said = place.loopforge(&["run", "task.yaml"]);
        assert_eq!(said.code, 0, "{said:?}");
        place
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn store(&self) -> PathBuf {
        self.path().join(".loopforge/loopforge.db")
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopforge"));
        command.args(arguments).current_dir(self.path()).stdin(Stdio::null());
        for name in ["LOOPFORGE_STORE", "LOOPFORGE_LOG", "LOOPFORGE_LEASE_SECONDS"] {
            command.env_remove(name);
        }
        command.env("USER", "tester");
        command
    }

    pub(crate) fn loopforge(&self, arguments: &[&str]) -> Said {
        Said::of(self.command(arguments).output().unwrap())
    }

    /// The id of the last run.
    pub(crate) fn run(&self) -> String {
        self.loopforge(&["ls", "--json"]).json()["runs"][0]["run"].as_str().unwrap().to_owned()
    }

    /// Text with what differs from run to run replaced.
    pub(crate) fn masked(&self, text: &str) -> String {
        let folder = self.path().canonicalize().unwrap().display().to_string();
        let mut text = text.replace(&folder, "FOLDER").replace(&self.path().display().to_string(), "FOLDER");
        if self.store().exists() {
            let run = self.run();
            text = text.replace(&run, "RUN").replace(&run[run.len() - 6..], "RUNEND");
        }
        for (pattern, name) in [
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME"),
            (r"\b\d+(\.\d)? (ms|s)\b", "SPAN"),
            (r"\b[0-9a-f]{32}\b", "TOKEN"),
            (r"process \d+", "process PID"),
            // Columns are as wide as what stands in them.
            (r"(\S) {2,}", "$1  "),
            (r"(?m)^ +(\d+)  TIME", "$1  TIME"),
        ] {
            text = regex::Regex::new(pattern).unwrap().replace_all(&text, name).into_owned();
        }
        text
    }
}

/// Waits until something holds, as long as a slow machine may need.
pub(crate) fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what} did not come about");
        std::thread::sleep(Duration::from_millis(20));
    }
}
