//! The list of facts that checks rely on is what a run gives to expressions.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeSet;

use super::{Catalog, FACTS, facts, read};
use crate::id::RunId;
use crate::payload::BlobCache;
use crate::run::RunState;

#[test]
fn the_listed_facts_are_those_of_a_run() {
    let file = "name: a\ngoal: b\nsubgoals: [{ id: x, steps: [{ wait: 1s }] }]\n";
    let task = read(file, "task.yaml", &Catalog::default()).unwrap();
    let state = RunState::new(RunId(uuid::Uuid::nil()), &task);
    let value = |root| state.fact(&task, root, &BlobCache::default()).unwrap();
    let roots: BTreeSet<&str> = FACTS.iter().map(|fact| fact.root).collect();
    for root in roots.into_iter().filter(|root| !["inputs", "state"].contains(root)) {
        let given = if root == "subgoals" { value(root)["x"].clone() } else { value(root) };
        let given: BTreeSet<&str> = given.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(facts::fields(root).into_iter().collect::<BTreeSet<_>>(), given, "of {root}");
    }
}
