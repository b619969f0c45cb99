//! What can be read from a run.

use std::collections::BTreeMap;

use loopforge_core::expression::{EvalError, Expression, Scope};
use loopforge_core::json::Json;
use loopforge_core::payload::{BlobCache, Payload};
use loopforge_core::record::{Event, Route};

use super::Sim;

impl Sim {
    pub(super) fn open(&mut self, payload: &Payload) -> Json {
        loop {
            match payload.open(&self.values.blobs) {
                Ok(value) => return value,
                Err(missing) => self.load(missing),
            }
        }
    }

    /// The state as expressions see it.
    pub(crate) fn seen_state(&mut self) -> Json {
        let whole = Expression::compile("state").unwrap();
        loop {
            let scope = Scope { values: &self.values, locals: &BTreeMap::new(), facts: &|_| None };
            match whole.evaluate(&scope) {
                Ok(value) => return value,
                Err(EvalError::NotLoaded(missing)) => self.load(missing),
                Err(other) => panic!("{other}"),
            }
        }
    }

    /// The state as the records tell it, and nothing else.
    pub(crate) fn told_state(&self) -> Json {
        let mut cache = BlobCache::default();
        let mut state = serde_json::Map::new();
        for (record, blobs) in self.archive.iter().flatten() {
            blobs.iter().for_each(|blob| cache.insert(blob.reference, &blob.bytes));
            let Event::StateSaved(saved) = &record.event else { continue };
            let value = saved.value.open(&cache).unwrap();
            match &saved.member {
                None => state.insert(saved.key.clone(), value),
                Some(member) => {
                    let entry = state.entry(saved.key.clone()).or_insert_with(|| Json::Object(serde_json::Map::new()));
                    entry.as_object_mut().unwrap().insert(member.clone(), value)
                }
            };
        }
        Json::Object(state)
    }

    /// Subgoals and items that were done, each as often as it was.
    pub(crate) fn done(&self) -> Vec<(String, Option<u32>)> {
        let mut of_branch = BTreeMap::new();
        let mut done = Vec::new();
        for event in self.events() {
            match event {
                Event::StepStarted(started) => {
                    of_branch.insert(started.branch, (started.subgoal.clone(), started.item));
                }
                Event::StepEvaluated(step) if step.verdict.route == Route::BranchDone => {
                    done.push(of_branch[&step.branch].clone());
                }
                _ => {}
            }
        }
        done.sort();
        done
    }

    /// Effects that were made, by what they do, each as often as it was made.
    pub(crate) fn made(&self) -> Vec<String> {
        let mut made: Vec<String> = self.effects.values().map(|made| made.what.clone()).collect();
        made.sort();
        made
    }

    /// The tools that were called, in order.
    pub(crate) fn decided(&self) -> Vec<&str> {
        self.events()
            .filter_map(|event| match event {
                Event::ActionDecided(decided) => Some(decided.tool.as_str()),
                _ => None,
            })
            .collect()
    }
}
