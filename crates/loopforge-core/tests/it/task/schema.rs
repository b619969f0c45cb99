//! The published schema says what the reader does.

use std::collections::BTreeSet;

use loopforge_core::task::{self, NOT_AVAILABLE};
use serde_json::{Value, json};

use super::catalog;

const PUBLISHED: &str = include_str!("../../snapshots/task.schema.json");

/// What changes here, changes for everybody's editor. To accept a change: `UPDATE_SCHEMA=1 cargo test -p loopforge-core schema`.
#[test]
fn the_schema_is_the_published_one() {
    let schema = serde_json::to_string_pretty(&task::json_schema()).unwrap() + "\n";
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/snapshots/task.schema.json");
        #[expect(clippy::disallowed_methods, reason = "the core reads and writes no files; its tests may")]
        std::fs::write(path, &schema).unwrap();
    }
    assert!(schema == PUBLISHED, "the schema changed: run with UPDATE_SCHEMA=1 and look at the difference");
}

#[test]
fn it_accepts_a_good_task_and_refuses_an_unknown_key() {
    let validator = jsonschema::draft202012::options().build(&task::json_schema()).unwrap();
    let task = task::read(include_str!("../../corpus/task/good/patrol.yaml"), "patrol.yaml", &catalog()).unwrap();
    let mut json = serde_json::to_value(&task).unwrap();
    let errors: Vec<String> = validator.iter_errors(&json).map(|error| error.to_string()).collect();
    assert_eq!(errors, Vec::<String>::new());
    json["tiemout"] = json!(1);
    assert!(!validator.is_valid(&json));
}

/// Where each definition stands in a file, around one unknown key.
const PLACES: &[(&str, &str)] = &[
    ("", "zzzzzzzzz: 1"),
    ("Input", "inputs: { a: { zzzzzzzzz: 1 } }"),
    ("ToolSpec", "tools: { a: { zzzzzzzzz: 1 } }"),
    ("StatusProcess", "tools: { a: { status: { zzzzzzzzz: 1 } } }"),
    ("Retry", "tools: { a: { retry: { zzzzzzzzz: 1 } } }"),
    ("Grants", "tools: { a: { sandbox: { zzzzzzzzz: 1 } } }"),
    ("Subgoal", "subgoals: [{ zzzzzzzzz: 1 }]"),
    ("ForEach", "subgoals: [{ foreach: { zzzzzzzzz: 1 } }]"),
    ("Entry", "subgoals: [{ steps: [{ zzzzzzzzz: 1 }] }]"),
    ("Alternative", "subgoals: [{ steps: [{ or_else: [{ zzzzzzzzz: 1 }] }] }]"),
    ("ModelSpec", "model: { zzzzzzzzz: 1 }"),
    ("Budget", "budget: { zzzzzzzzz: 1 }"),
    ("PerDay", "budget: { per_day: { zzzzzzzzz: 1 } }"),
    ("ModelPrice", "budget: { prices: { a: { zzzzzzzzz: 1 } } }"),
    ("Limits", "loop: { zzzzzzzzz: 1 }"),
    ("Evaluator", "evaluator: { zzzzzzzzz: 1 }"),
    ("Lifecycle", "states: { zzzzzzzzz: 1 }"),
    ("Hook", "hooks: [{ zzzzzzzzz: 1 }]"),
];

/// The reader is written by hand, and the schema derived from the types: their keys must be the same.
#[test]
fn reader_and_schema_know_the_same_keys() {
    let schema = task::json_schema();
    for (definition, file) in PLACES {
        let of = if definition.is_empty() { &schema } else { &schema["$defs"][definition] };
        let properties = of["properties"].as_object().unwrap_or_else(|| panic!("no definition {definition}"));
        let name = if definition.is_empty() { "Task" } else { definition };
        let refused = |key: &str| NOT_AVAILABLE.iter().any(|part| part.definition == name && part.key == key);
        let published: BTreeSet<&str> = properties.keys().map(String::as_str).filter(|key| !refused(key)).collect();
        let problems = task::read(file, "task.yaml", &catalog()).unwrap_err();
        let remedy =
            problems.all().iter().find(|problem| problem.message.contains("zzzzzzzzz")).unwrap().remedy.clone();
        let remedy = remedy.unwrap();
        let known: BTreeSet<&str> = remedy.trim_start_matches("known keys: ").split(", ").collect();
        assert_eq!(known, published, "of {name}");
    }
    let listed: BTreeSet<&str> = PLACES.iter().map(|(definition, _)| *definition).collect();
    for (name, of) in schema["$defs"].as_object().unwrap() {
        assert!(of.get("properties").is_none() || listed.contains(name.as_str()), "{name} is not compared");
    }
}

#[test]
fn parts_that_are_refused_are_published_as_such() {
    let schema = task::json_schema();
    for part in NOT_AVAILABLE {
        let of = if part.definition == "Task" { &schema } else { &schema["$defs"][part.definition] };
        let property = &of["properties"][part.key];
        assert_eq!(property["deprecated"], Value::Bool(true), "{}.{}", part.definition, part.key);
    }
}

#[test]
fn harmless_values_are_accepted() {
    let file = "name: a\ngoal: b\ntools: { t: { process: [t], approval: never } }\nsubgoals: [{ id: x, steps: [{ call: t }] }]\n\
                evaluator: { judge: false, allow_replan: false }\n";
    assert!(task::read(file, "task.yaml", &catalog()).is_ok());
}

/// Keys and facts that the reference forgets are found here.
#[test]
fn the_reference_names_every_key_and_fact() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/task-file.md");
    #[expect(clippy::disallowed_methods, reason = "the core reads no files; its tests may")]
    let reference = std::fs::read_to_string(path).unwrap();
    let schema = task::json_schema();
    let definitions = schema["$defs"].as_object().unwrap().values().chain([&schema]);
    for key in definitions.filter_map(|of| of["properties"].as_object()).flat_map(|properties| properties.keys()) {
        assert!(reference.contains(&format!("`{key}`")), "`{key}` is not in the reference");
    }
    for fact in task::FACTS {
        let line = format!("| `{}.{}` | {} | {} |", fact.root, fact.field, fact.kind, fact.about);
        assert!(reference.contains(&line), "{line}");
    }
}

#[test]
fn a_model_says_how_its_server_is_spoken_to() {
    let file = "name: a\ngoal: b\nmodel:\n  use: local/qwen\n  base_url: http://127.0.0.1:1/v1\n  api: messages\n  \
                headers: { x-team: '${env.TEAM}' }\n  body: { stream_options: null, top_k: 5 }\nsubgoals: [{ id: x, goal: y }]\n";
    let model = task::read(file, "task.yaml", &catalog()).unwrap().model.unwrap();
    assert_eq!(model.api, Some(loopforge_core::model::Api::Messages));
    assert_eq!(model.headers["x-team"], "${env.TEAM}");
    assert_eq!((&model.body["stream_options"], &model.body["top_k"]), (&Value::Null, &Value::from(5)));
    let wrong = file.replace("api: messages", "api: soap");
    let problems = task::read(&wrong, "task.yaml", &catalog()).unwrap_err();
    assert!(problems.to_string().contains("not one of chat, responses, messages"), "{problems}");
}
