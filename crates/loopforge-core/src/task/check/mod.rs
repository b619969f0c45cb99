//! Whether a task makes sense: names lead somewhere, nothing waits for itself, nothing contradicts.

mod arguments;
mod expressions;
mod lifecycle;
mod subgoals;
mod tools;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use super::decode::Place;
use super::problem::{Finding, ProblemCode, Report};
use super::{Budget, Catalog, Input, ModelSpec, Stage, Subgoal, Task, is_name};
use crate::agent::Control;
use crate::expression::{Expression, ROOTS};
use crate::json::Json;

/// Adds what is wrong with `task` to `report`.
pub(super) fn check(task: &Task, catalog: &Catalog, places: &HashMap<String, Place>, report: &mut Report<'_, '_>) {
    let broken = report.found().iter().map(|problem| parent(&problem.path).to_owned()).collect();
    let mut checker = Checker { task, catalog, places, report, broken, saved: expressions::saved_keys(task) };
    checker.task();
}

/// The types of JSON Schema.
const TYPES: &[&str] = &["array", "boolean", "integer", "null", "number", "object", "string"];

/// The fewest tokens of a prompt: the rules, a goal, a few tools and one step fit in.
const MIN_CONTEXT: u64 = 2000;

struct Checker<'a, 's, 't> {
    task: &'a Task,
    catalog: &'a Catalog,
    places: &'a HashMap<String, Place>,
    report: &'a mut Report<'s, 't>,
    /// Paths of values with a key that was not understood. What seems to be missing there may be that key.
    broken: HashSet<String>,
    /// The keys of state that something saves or sets.
    saved: Vec<String>,
}

impl Checker<'_, '_, '_> {
    fn task(&mut self) {
        let task = self.task;
        if task.name.is_empty()
            || task.name.starts_with('.')
            || task.name.chars().count() > 100
            || !task.name.chars().all(|character| character.is_alphanumeric() || "-_.".contains(character))
        {
            let finding = Finding::new(ProblemCode::BadName, format!("`{}` can't be a task's name", task.name)).remedy(
                "it is used in file names: up to 100 letters, digits, `-`, `_` and `.`, not beginning with `.`",
            );
            self.add("name", finding);
        }
        if task.goal.trim().is_empty() {
            self.add(
                "goal",
                Finding::new(ProblemCode::Missing, "the goal says nothing").remedy("say what is to be reached"),
            );
        }
        for (name, input) in &task.inputs {
            self.input(name, input);
        }
        for (name, tool) in &task.tools {
            self.tool(name, tool);
            self.control_name(name);
        }
        if let Some(model) = &task.model {
            self.model(model);
        }
        self.subgoals();
        self.limits();
        if let Some(budget) = &task.budget {
            self.budget(budget);
        }
        for (position, rule) in task.evaluator.criteria.iter().enumerate() {
            self.expression(&format!("evaluator.criteria[{position}]"), rule, &[]);
        }
        if task.evaluator.judge && task.model.is_none() {
            let finding = Finding::new(ProblemCode::Missing, "the task has no model that could judge");
            self.add("evaluator.judge", finding.remedy("name a model: `model: provider/name`"));
        }
        if let Some(states) = &task.states {
            self.lifecycle(states);
        }
        for (position, hook) in task.hooks.iter().enumerate() {
            self.hook(&format!("hooks[{position}]"), hook);
        }
    }

    /// A model calls tools and the loop's own controls by name.
    fn control_name(&mut self, name: &str) {
        if self.task.subgoals.iter().any(Subgoal::is_agent) && Control::find(name).is_some() {
            let message = format!("a model tells the loop by `{name}` what to do");
            let finding = Finding::new(ProblemCode::BadName, message).remedy("give the tool another name");
            self.add_key(&join("tools", name), finding);
        }
    }

    fn model(&mut self, model: &ModelSpec) {
        let names = std::iter::once(("model".to_owned(), &model.name))
            .chain(model.fallback.iter().enumerate().map(|(at, name)| (format!("model.fallback[{at}]"), name)))
            .chain(model.summarizer.iter().map(|name| ("model.summarizer".to_owned(), name)));
        for (path, name) in names {
            let complete =
                name.split_once('/').is_some_and(|(provider, model)| !provider.is_empty() && !model.is_empty());
            if !complete {
                let finding = Finding::new(ProblemCode::BadValue, format!("`{name}` names no model"))
                    .remedy("write `provider/name`, such as `openai/gpt-5-mini` or `anthropic/claude-haiku-4-5`");
                let path = if path == "model" && self.places.contains_key("model.use") {
                    "model.use".to_owned()
                } else {
                    path
                };
                self.add(&path, finding);
            }
        }
        for (key, value) in [("context_window", model.context_window), ("context_budget", model.context_budget)] {
            if let Some(value) = value.filter(|value| *value < MIN_CONTEXT) {
                let message = format!("{value} tokens are too few for a goal, tools and one step");
                let finding = Finding::new(ProblemCode::BadValue, message).remedy(format!("at least {MIN_CONTEXT}"));
                self.add(&format!("model.{key}"), finding);
            }
        }
    }

    fn input(&mut self, name: &str, input: &Input) {
        let path = join("inputs", name);
        if let Some(finding) = bad_name(name, "an input") {
            self.add_key(&path, finding);
        }
        let given = [
            ("lines", input.lines.is_some()),
            ("text", input.text.is_some()),
            ("json", input.json.is_some()),
            ("value", input.value.is_some()),
        ];
        let given: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
        if let [first, second, ..] = given.as_slice() {
            let message = format!("`{name}` has both `{first}` and `{second}`");
            self.add_key(&format!("{path}.{second}"), Finding::new(ProblemCode::Conflict, message).remedy("keep one"));
        }
        for (key, file) in [("lines", &input.lines), ("text", &input.text), ("json", &input.json)] {
            if file.as_ref().is_some_and(|file| file.trim().is_empty()) {
                let finding = Finding::new(ProblemCode::BadValue, "no file is named").remedy("give its path");
                self.add(&format!("{path}.{key}"), finding);
            }
        }
    }

    fn limits(&mut self) {
        let limits = &self.task.limits;
        let at_least_one = [
            ("max_steps", limits.max_steps),
            ("checkpoint_interval", limits.checkpoint_interval),
            ("max_calls_per_tool", limits.max_calls_per_tool.into()),
            ("max_continuous_loops", limits.max_continuous_loops.into()),
            ("replan_after", limits.replan_after.into()),
            ("parallel", limits.parallel.into()),
            ("max_tokens_per_step", limits.max_tokens_per_step),
        ];
        for (key, value) in at_least_one {
            self.at_least_one(&format!("loop.{key}"), value);
        }
        let spans = [
            ("max_duration", limits.max_duration),
            ("checkpoint_max_age", Some(limits.checkpoint_max_age)),
            ("idle_timeout", Some(limits.idle_timeout)),
        ];
        for (key, span) in spans {
            self.not_zero(&format!("loop.{key}"), span);
        }
    }

    fn budget(&mut self, budget: &Budget) {
        let per_day = budget.per_day.unwrap_or_default();
        for (key, limit) in [("tokens", budget.tokens), ("per_day.tokens", per_day.tokens)] {
            if let Some(limit) = limit {
                self.at_least_one(&format!("budget.{key}"), limit);
            }
        }
        for (key, limit) in [("cost_usd", budget.cost_usd), ("per_day.cost_usd", per_day.cost_usd)] {
            if let Some(limit) = limit {
                self.at_least_one(&format!("budget.{key}"), limit.0.picodollars);
            }
        }
        if budget.per_day.is_some() && budget.account.is_none() {
            let finding =
                Finding::new(ProblemCode::Missing, "a budget of a day belongs to an account, and none is named")
                    .remedy("add `account: NAME`; all runs that name it share the budget");
            self.add("budget.per_day", finding);
        }
        if budget.account.as_ref().is_some_and(|account| account.trim().is_empty()) {
            let finding =
                Finding::new(ProblemCode::BadValue, "an account without a name").remedy("write `account: NAME`");
            self.add("budget.account", finding);
        }
        let stop = budget.on_exceed.iter().position(|stage| *stage == Stage::Stop);
        if let Some(position) = stop.filter(|position| position + 1 < budget.on_exceed.len()) {
            let finding =
                Finding::new(ProblemCode::Conflict, "what stands after `stop` never happens").remedy("put `stop` last");
            self.add(&format!("budget.on_exceed[{}]", position + 1), finding);
        }
        if self.task.model.is_none() {
            let finding = Finding::new(ProblemCode::Conflict, "a budget limits models, and the task has none")
                .remedy("remove `budget`, or name a `model`");
            self.add_key("budget", finding);
        }
    }

    fn at_least_one(&mut self, path: &str, value: u64) {
        if value == 0 {
            self.add(path, Finding::new(ProblemCode::BadValue, "0 would let nothing happen").remedy("write 1 or more"));
        }
    }

    fn not_zero(&mut self, path: &str, span: Option<crate::time::Span>) {
        if span.is_some_and(|span| span.0.is_zero()) {
            let finding = Finding::new(ProblemCode::BadValue, "no time at all would let nothing happen");
            self.add(path, finding.remedy("give a time such as `10s`"));
        }
    }

    fn schema(&mut self, path: &str, schema: Option<&Json>) {
        let Some(schema) = schema else { return };
        if !(schema.is_object() || schema.is_boolean()) {
            let finding = Finding::new(ProblemCode::BadSchema, "a JSON Schema is a map")
                .remedy("for example `{ type: object, properties: { id: { type: string } }, required: [id] }`");
            return self.add(path, finding);
        }
        if let Err(error) = jsonschema::validator_for(schema) {
            let pointer = error.instance_path().as_str();
            let value = schema.pointer(pointer);
            let finding = match value {
                Some(Json::String(name)) if pointer.ends_with("/type") => {
                    let message = format!("not a JSON Schema: there is no type `{name}`");
                    Finding::new(ProblemCode::BadSchema, message).known(name, "types", TYPES)
                }
                _ => Finding::new(ProblemCode::BadSchema, format!("not a JSON Schema: {error}")),
            };
            self.add_inside(path, pointer, finding);
        }
    }

    fn pointers(&mut self, path: &str, pointers: &[String]) {
        for (position, pointer) in pointers.iter().enumerate().filter(|(_, pointer)| !is_pointer(pointer)) {
            let example = pointer.trim_start_matches(['$', '.']).replace('.', "/");
            let finding = Finding::new(ProblemCode::BadPointer, format!("`{pointer}` is not a JSON pointer"))
                .remedy(format!("it begins with `/`: `/{}`", example.trim_start_matches('/')));
            self.add(&format!("{path}[{position}]"), finding);
        }
    }

    fn program(&mut self, path: &str, program: &[String]) {
        if program.first().is_none_or(|first| first.trim().is_empty()) {
            let finding = Finding::new(ProblemCode::BadValue, "no program is named")
                .remedy("write the program and its arguments: `[python3, tally.py]`");
            self.add(path, finding);
        }
    }

    /// Adds a problem at the value of `path`, or at the nearest part around it that stands in the file.
    fn add(&mut self, path: &str, finding: Finding) {
        let range = self.place(path).map_or(0..0, |place| place.node.span.clone());
        self.add_at(range, path, finding);
    }

    /// Adds a problem at the part of the value of `path` to which a JSON pointer leads.
    fn add_inside(&mut self, path: &str, pointer: &str, finding: Finding) {
        let range = self.place(path).map_or(0..0, |place| place.node.at(pointer).span.clone());
        self.add_at(range, &format!("{path}{}", dotted(pointer)), finding);
    }

    fn add_key(&mut self, path: &str, finding: Finding) {
        let range = self.place(path).map_or(0..0, |place| place.key.clone());
        self.add_at(range, path, finding);
    }

    /// Adds a problem at `part` of the value of `path`.
    fn add_within(&mut self, path: &str, part: &str, finding: Finding) {
        let range = self.place(path).map_or(0..0, |place| place.node.span.clone());
        let written = self.report.source.text().get(range.clone()).unwrap_or_default();
        let range = match find_word(written, part) {
            Some(position) => range.start + position..range.start + position + part.len(),
            None => range,
        };
        self.add_at(range, path, finding);
    }

    fn add_at(&mut self, range: Range<usize>, path: &str, finding: Finding) {
        if !(finding.code == ProblemCode::Missing && self.broken.contains(path)) {
            self.report.add(range, path.to_owned(), finding);
        }
    }

    fn place(&self, path: &str) -> Option<&Place> {
        let mut path = path;
        loop {
            match self.places.get(path) {
                Some(place) => return Some(place),
                None if path.is_empty() => return None,
                None => path = parent(path),
            }
        }
    }
}

/// What is wrong with a name that expressions are to read.
fn bad_name(name: &str, what: &str) -> Option<Finding> {
    let remedy = if ROOTS.contains(&name) && what != "an input" {
        "it is a name of LoopForge's own: choose another"
    } else if !is_name(name) {
        "expressions read it: letters of a to z, digits and `_`, not beginning with a digit"
    } else if Expression::compile(name).is_err() {
        "it is a word of the expression language: choose another"
    } else {
        return None;
    };
    Some(Finding::new(ProblemCode::BadName, format!("`{name}` can't be the name of {what}")).remedy(remedy))
}

/// Where `part` stands in `text` as a word of its own, not as a piece of another.
fn find_word(text: &str, part: &str) -> Option<usize> {
    let joins = |character: Option<char>| character.is_some_and(|joined| joined.is_alphanumeric() || joined == '_');
    text.match_indices(part)
        .map(|(position, _)| position)
        .find(|position| {
            !joins(text[..*position].chars().next_back()) && !joins(text[position + part.len()..].chars().next())
        })
        .or_else(|| text.find(part))
}

fn parent(path: &str) -> &str {
    path.rfind(['.', '[']).map_or("", |end| &path[..end])
}

/// The path of the member `key`.
fn join(path: &str, key: &str) -> String {
    format!("{path}{}", super::decode::member_path(path, key))
}

fn is_pointer(text: &str) -> bool {
    (text.is_empty() || text.starts_with('/')) && !text.replace("~0", "").replace("~1", "").contains('~')
}

/// A JSON pointer as the rest of a path.
fn dotted(pointer: &str) -> String {
    pointer.split('/').skip(1).fold(String::new(), |path, part| match part.parse::<usize>() {
        Ok(position) => format!("{path}[{position}]"),
        Err(_) => format!("{path}.{part}"),
    })
}
