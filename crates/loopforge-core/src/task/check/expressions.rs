//! Whether the names in expressions can have a value.

use super::super::facts;
use super::super::problem::{Finding, ProblemCode, nearest};
use super::super::{Subgoal, Task};
use super::Checker;
use crate::expression::{Expression, ROOTS, Template};

/// Functions that people look for, to name the one that was meant.
const FUNCTIONS: &[&str] = &[
    "size",
    "contains",
    "startsWith",
    "endsWith",
    "matches",
    "string",
    "int",
    "double",
    "bool",
    "has",
    "all",
    "exists",
    "exists_one",
    "map",
    "filter",
    "split",
    "join",
    "replace",
    "trim",
    "lowerAscii",
    "upperAscii",
    "substring",
    "indexOf",
    "distinct",
    "flatten",
    "sort",
    "reverse",
    "slice",
    "min",
    "max",
    "abs",
    "ceil",
    "floor",
    "round",
];

impl Checker<'_, '_, '_> {
    pub(super) fn template(&mut self, path: &str, template: &Template, locals: &[&str]) {
        for expression in template.expressions() {
            self.expression(path, expression, locals);
        }
    }

    /// `locals` are the names that can be read besides the roots.
    pub(super) fn expression(&mut self, path: &str, expression: &Expression, locals: &[&str]) {
        for function in expression.unknown_functions() {
            let finding = if FUNCTIONS.contains(&function) {
                Finding::new(ProblemCode::BadExpression, format!("`{function}` is not called like this")).remedy(
                    "see the functions and macros of CEL: `size(list)`, `list.map(x, ...)`, `text.contains(part)`",
                )
            } else {
                let finding = Finding::new(ProblemCode::UnknownName, format!("there is no function `{function}`"));
                match nearest(function, FUNCTIONS.iter().copied()) {
                    Some(nearest) => Finding { nearest: Some(nearest), ..finding },
                    None => finding.remedy("functions are those of CEL, such as `size`, `contains`, `exists`, `map`"),
                }
            };
            self.add_within(path, function, finding);
        }
        // A macro that isn't known leaves its names without a value.
        let names_are_known = expression.unknown_functions().next().is_none();
        for read in expression.paths() {
            let [name, fields @ ..] = read else { continue };
            match name.as_str() {
                // A saved name goes before a root, but none can be called like one.
                local if locals.contains(&local) => {}
                "inputs" => self.input_read(path, fields),
                "state" => self.state_read(path, fields),
                "subgoals" => self.subgoal_read(path, fields),
                root if ROOTS.contains(&root) => self.fact_read(path, root, root, fields),
                other if names_are_known => self.unknown_root(path, other, locals),
                _ => {}
            }
        }
    }

    fn input_read(&mut self, path: &str, fields: &[String]) {
        let Some(name) = fields.first() else { return };
        if !self.task.inputs.contains_key(name) {
            let finding = Finding::new(ProblemCode::UnknownName, format!("there is no input `{name}`"));
            self.add_within(path, name, finding.known(name, "inputs", self.task.inputs.keys()));
        }
    }

    fn state_read(&mut self, path: &str, fields: &[String]) {
        let Some(key) = fields.first() else { return };
        // A model can set any key.
        if self.saved.contains(key) || self.task.subgoals.iter().any(Subgoal::is_agent) {
            return;
        }
        let finding = Finding::new(ProblemCode::UnknownName, format!("nothing saves or sets `state.{key}`"));
        let kept = self.task.subgoals.iter().find(|subgoal| saves(subgoal).any(|save| save == (key, false)));
        let finding = match kept.and_then(|subgoal| subgoal.foreach.as_ref()) {
            Some(foreach) => finding.remedy(format!(
                "in a `foreach`, `save: {key}` is kept for one item only; write `save: \"{key}[{}]\"` for a map of all",
                foreach.name
            )),
            None => finding.known(key, "keys of state", &self.saved),
        };
        self.add_within(path, key, finding);
    }

    fn subgoal_read(&mut self, path: &str, fields: &[String]) {
        let Some(id) = fields.first() else { return };
        if !self.task.subgoals.iter().any(|subgoal| subgoal.id == *id) {
            let ids = self.task.subgoals.iter().map(|subgoal| &subgoal.id);
            let finding = Finding::new(ProblemCode::UnknownName, format!("there is no subgoal `{id}`"));
            return self.add_within(path, id, finding.known(id, "subgoals", ids));
        }
        self.fact_read(path, "subgoals", &format!("subgoals.{id}"), &fields[1..]);
    }

    fn fact_read(&mut self, path: &str, root: &str, shown: &str, fields: &[String]) {
        let Some(field) = fields.first() else { return };
        let known = facts::fields(root);
        if !known.contains(&field.as_str()) {
            let finding = Finding::new(ProblemCode::UnknownName, format!("`{shown}` has no `{field}`"));
            self.add_within(path, field, finding.known(field, "fields", known));
        }
    }

    fn unknown_root(&mut self, path: &str, name: &str, locals: &[&str]) {
        let finding = Finding::new(ProblemCode::UnknownName, format!("`{name}` has no value here"));
        let finding = if self.task.inputs.contains_key(name) {
            finding.remedy(format!("it is an input: write `inputs.{name}`"))
        } else if self.saved.iter().any(|key| key == name) {
            finding.remedy(format!("it stands in state: write `state.{name}`"))
        } else if self.task.subgoals.iter().any(|subgoal| subgoal.id == name) {
            finding.remedy(format!("it is a subgoal: write `subgoals.{name}`"))
        } else if name == "env" {
            finding.remedy("expressions can't read the environment; give the value as an input")
        } else {
            finding.known(name, "names", locals.iter().chain(ROOTS))
        };
        self.add_within(path, name, finding);
    }
}

/// What the steps of a subgoal save or set, and whether it goes to state.
fn saves(subgoal: &Subgoal) -> impl Iterator<Item = (&String, bool)> {
    let per_item = subgoal.foreach.is_some();
    subgoal.steps.iter().flat_map(move |entry| {
        let saved = entry.save.iter().map(move |save| (&save.name, !per_item || save.member.is_some()));
        saved.chain(entry.set.keys().map(|key| (key, true)))
    })
}

pub(super) fn saved_keys(task: &Task) -> Vec<String> {
    let mut keys: Vec<String> =
        task.subgoals.iter().flat_map(saves).filter(|(_, state)| *state).map(|(key, _)| key.clone()).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
