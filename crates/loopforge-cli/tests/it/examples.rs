#![expect(clippy::unwrap_used, reason = "tests")]

use std::path::{Path, PathBuf};

use loopforge_core::task::{Builtin, Catalog, Task, read};
use loopforge_core::tool::Effect;
use loopforge_tools::builtin::{self, BuiltinConfig};

/// The folder of an example.
pub(crate) fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// The task of an example; a problem in it fails the test with its text.
pub(crate) fn task(name: &str) -> Task {
    let path = folder(name).join("task.yaml");
    let source = std::fs::read_to_string(&path).unwrap();
    read(&source, &path.display().to_string(), &catalog()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn catalog() -> Catalog {
    let builtins = builtin::names()
        .map(|name| {
            let tool = builtin::find(name, &BuiltinConfig::default()).unwrap();
            let contract = tool.contract();
            let about = Builtin {
                input_schema: contract.input_schema.clone(),
                effect: contract.effect,
                network: name.starts_with("http_"),
            };
            (name.to_owned(), about)
        })
        .collect();
    Catalog { builtins }
}

#[test]
fn every_example_is_a_valid_task() {
    let mut names: Vec<_> = std::fs::read_dir(folder("."))
        .unwrap()
        .map(|entry| entry.unwrap())
        .filter(|entry| entry.path().join("task.yaml").exists())
        .map(|entry| entry.file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert!(names.contains(&"writes".to_owned()), "{names:?}");
    for name in names {
        assert!(!task(&name).subgoals.is_empty(), "{name}");
    }
}

#[test]
fn the_writes_example_has_all_three_kinds_of_write() {
    let task = task("writes");
    let kinds = ["repeatable", "askable", "plain"].map(|name| {
        let tool = &task.tools[name];
        assert_ne!(tool.effect, Some(Effect::Read), "{name}");
        (tool.idempotent == Some(true), tool.status.is_some())
    });
    assert_eq!(kinds, [(true, false), (false, true), (false, false)]);
}
