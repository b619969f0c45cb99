//! Archives that were written once and stay readable (CKP-07). The files under `tests/archives` are never edited: a change that can't
//! read them is a new format.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use loopforge_core::id::RunId;
use loopforge_core::record::{Event, Record};
use loopforge_core::run::RunState;
use loopforge_core::task::{Builtin, Catalog, Task, read_stored};
use loopforge_core::tool::Effect;

use crate::laws;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/archives/1")
}

fn task_of(name: &str) -> Task {
    let source = std::fs::read(folder().join(format!("{name}.yaml"))).unwrap();
    let tools = ["fetch", "put", "ask", "never", "get"].map(|tool| {
        let effect = if matches!(tool, "put" | "ask") { Effect::Write } else { Effect::Read };
        (tool.to_owned(), Builtin { input_schema: serde_json::json!({ "type": "object" }), effect, network: false })
    });
    read_stored(&source, &Catalog { builtins: tools.into() }).unwrap_or_else(|problems| panic!("{problems}"))
}

fn lines_of(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(format!("{name}.jsonl"))).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn names() -> Vec<String> {
    let mut names: Vec<_> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

fn records_of(name: &str) -> Vec<Record> {
    lines_of(name)
        .iter()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|error| panic!("{name}: {error}: {line}")))
        .collect()
}

#[test]
fn archives_of_format_1_are_read_and_lead_to_the_same_end() {
    for name in names() {
        let records = records_of(&name);
        let states = laws::fold(RunId(uuid::Uuid::nil()), &task_of(&name), &records);
        let end: &RunState = states.last().unwrap();
        let Some(Event::RunEnded(ended)) =
            records.iter().rev().map(|record| &record.event).find(|event| !matches!(event, Event::HookSent(_)))
        else {
            panic!("{name} has no end");
        };
        assert_eq!(end.ended, Some(ended.outcome), "{name}");
    }
}

/// Nothing of a record is passed over when it is read: what is written again is what was read.
#[test]
fn reading_and_writing_keeps_every_field() {
    for name in names() {
        for (line, record) in lines_of(&name).iter().zip(records_of(&name)) {
            assert_eq!(&serde_json::to_string(&record).unwrap(), line, "{name}");
        }
    }
}

#[test]
fn the_archives_hold_every_kind_of_event() {
    let there: BTreeSet<&str> =
        names().iter().flat_map(|name| records_of(name)).map(|record| record.event.kind()).collect();
    let all = BTreeSet::from([
        "run_started",
        "run_resumed",
        "subgoal_started",
        "subgoal_ended",
        "step_started",
        "action_decided",
        "action_refused",
        "action_started",
        "attempt_failed",
        "action_finished",
        "action_unknown",
        "action_not_happened",
        "state_saved",
        "wait_started",
        "wait_ended",
        "question_asked",
        "question_answered",
        "lifecycle_moved",
        "lifecycle_refused",
        "loop_found",
        "step_evaluated",
        "limit_reached",
        "limits_raised",
        "run_paused",
        "run_ended",
        "hook_sent",
    ]);
    assert_eq!(there, all);
}
