//! Failures that people reported on other systems, each as a test with the real command. `docs/design/cases.md` lists all kinds,
//! also those whose tests stand elsewhere.
#![expect(clippy::unwrap_used, reason = "tests")]

mod configuration;
mod disks;
mod encoding;
mod frozen;
mod ghosts;
mod graph;
mod growth;
mod keys;
mod limits;
mod pauses;
mod queue;
mod storage;

use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::look::{Place, Said};

/// `tally.sh TEXT`: appends the step token and a text to a file outside the run, where a test counts what really happened.
const TALLY: &str = r#"
echo "$LOOPFORGE_STEP_TOKEN $1" >>tally.txt
printf '{"text":"%s"}' "$1"
"#;

/// `gate.sh NAME`: fails for good unless there is a file `open-NAME`.
const GATE: &str = r#"
[ -e "open-$1" ] || { echo "$1 is closed" >&2; exit 1; }
echo '{"open":true}'
"#;

/// Both tools, for a task's `tools`.
const TOOLS: &str = r#"
  tally: { process: [sh, tally.sh, "{text}"], sandbox: off }
  gate: { process: [sh, gate.sh, "{name}"], sandbox: off, effect: read }
"#;

/// A place with a task, given without its name and goal. `TOOLS` in it stands for both tools.
fn place(task: &str) -> Place {
    let place = Place::new();
    place.write("tally.sh", TALLY);
    place.write("gate.sh", GATE);
    place.write("task.yaml", &format!("name: case\ngoal: Be tested.\n{}", task.replace("TOOLS", TOOLS.trim())));
    place
}

/// The lines of the tally: a token and a text each.
fn tally(place: &Place) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(place.path().join("tally.txt")).unwrap_or_default();
    let line = |line: &str| line.split_once(' ').map(|(token, text)| (token.to_owned(), text.to_owned())).unwrap();
    text.lines().map(line).collect()
}

/// What was told, in order.
fn told(place: &Place) -> Vec<String> {
    tally(place).into_iter().map(|(_, text)| text).collect()
}

/// Carries a command out in a process that is killed at `at`.
fn killed(place: &Place, arguments: &[&str], at: &str) {
    let status =
        place.command(arguments).env("LOOPFORGE_KILL_AT", at).stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status.unwrap()), Some(9), "{arguments:?} at {at}");
}

/// Starts a command that nobody listens to.
fn spawned(place: &Place, arguments: &[&str]) -> Child {
    place.command(arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn signal(signal: &str, process: u32) {
    assert!(Command::new("kill").args([signal, &process.to_string()]).status().unwrap().success());
}

/// The records of a run.
fn records(place: &Place, run: &str) -> Vec<Value> {
    let said = place.loopforge(&["trace", run, "--json"]);
    assert_eq!(said.code, 0, "{said:?}");
    said.json_lines()
}

fn kinds(records: &[Value]) -> Vec<&str> {
    records.iter().map(|record| record["kind"].as_str().unwrap()).collect()
}

/// Positions (from 1) of the records of a kind.
fn positions(records: &[Value], kind: &str) -> Vec<u64> {
    records.iter().filter(|record| record["kind"] == kind).map(|record| record["seq"].as_u64().unwrap()).collect()
}

/// The step that a run with `--json` said it waits for.
fn asked_step(said: &Said) -> String {
    let lines = said.json_lines();
    lines[lines.len() - 1]["end"]["questions"][0]["step"].to_string()
}
