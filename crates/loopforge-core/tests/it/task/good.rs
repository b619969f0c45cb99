//! Files that are right are read as they are meant.

use loopforge_core::task::{self, HookEvent, Net, OnFailure, Sandbox, SandboxSwitch};

use super::catalog;

const PATROL: &str = include_str!("../../corpus/task/good/patrol.yaml");

#[test]
fn the_whole_schema_is_read() {
    let task = task::read(PATROL, "patrol.yaml", &catalog()).map_err(|problems| problems.to_string());
    let task = task.unwrap();
    assert_eq!(task.name, "product-page-patrol");
    assert_eq!(task.subgoals[0].on_failure, Some(OnFailure::Defer));
    assert_eq!(task.subgoals[0].foreach.as_ref().unwrap().parallel, 4);
    assert_eq!(task.hooks[0].on, HookEvent::StepCompleted);
    assert_eq!(task.tools["tidy"].sandbox, Some(Sandbox::Switch(SandboxSwitch::Off)));
    match &task.tools["tally"].sandbox {
        Some(Sandbox::Grants(grants)) => assert_eq!(grants.net, Net::None),
        other => panic!("{other:?}"),
    }
}

#[test]
fn serde_reads_what_the_reader_read() {
    let task = task::read(PATROL, "patrol.yaml", &catalog()).unwrap();
    let json = serde_json::to_string(&task).unwrap();
    assert_eq!(serde_json::from_str::<task::Task>(&json).unwrap(), task);
    assert_eq!(task::read(&json, "patrol.json", &catalog()).map_err(|problems| problems.to_string()), Ok(task));
}
