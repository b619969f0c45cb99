//! Whether a call gives a tool what its schema asks for.

use std::collections::{BTreeMap, BTreeSet};

use super::super::ToolSpec;
use super::super::problem::{Finding, ProblemCode};
use super::{Checker, join};
use crate::expression::Template;
use crate::json::Json;

impl<'a> Checker<'a, '_, '_> {
    /// The schemas that arguments of `tool` must fulfil: its own, and what the task adds.
    pub(super) fn schemas(&self, tool: &'a ToolSpec) -> Vec<&'a Json> {
        let builtin = tool.builtin.as_ref().and_then(|name| self.catalog.builtins.get(name));
        builtin.map(|builtin| &builtin.input_schema).into_iter().chain(&tool.input_schema).collect()
    }

    /// `call` is the path of a call.
    pub(super) fn arguments(&mut self, call: &str, name: &str, with: &BTreeMap<String, Template>) {
        let Some(tool) = self.task.tools.get(name) else { return };
        let path = &format!("{call}.with");
        for schema in self.schemas(tool) {
            let meant = self.argument_names(path, name, with, schema);
            let missing: Vec<&str> = required(schema)
                .filter(|argument| !with.contains_key(*argument) && !tool.with.contains_key(*argument))
                .filter(|argument| !meant.iter().any(|meant| meant == argument))
                .collect();
            if !missing.is_empty() {
                let list = missing.join("`, `");
                let finding = Finding::new(ProblemCode::BadArgument, format!("`{name}` is called without `{list}`"))
                    .remedy(format!("add `with: {{ {}: ... }}`", missing.join(": ..., ")));
                if with.is_empty() {
                    self.add(&format!("{call}.call"), finding);
                } else {
                    self.add_key(path, finding);
                }
            }
            self.constants(path, name, with, schema);
        }
    }

    /// The tool's own `with` gives part of the arguments, so that nothing is missing yet.
    pub(super) fn default_arguments(&mut self, path: &str, name: &str, tool: &'a ToolSpec) {
        for schema in self.schemas(tool) {
            self.argument_names(path, name, &tool.with, schema);
            self.constants(path, name, &tool.with, schema);
        }
    }

    /// Reports names that the schema doesn't have, and returns those that were meant.
    fn argument_names(
        &mut self,
        path: &str,
        name: &str,
        with: &BTreeMap<String, Template>,
        schema: &Json,
    ) -> Vec<String> {
        let mut meant = Vec::new();
        if schema.get("additionalProperties") != Some(&Json::Bool(false)) || schema.get("patternProperties").is_some() {
            return meant;
        }
        let known = properties(schema);
        for argument in with.keys().filter(|argument| !known.contains(argument.as_str())) {
            let finding = Finding::new(ProblemCode::BadArgument, format!("`{name}` has no argument `{argument}`"));
            let finding = finding.known(argument, "arguments", &known);
            meant.extend(finding.nearest.clone());
            self.add_key(&join(path, argument), finding);
        }
        meant
    }

    /// Checks the arguments whose values are known already.
    fn constants(&mut self, path: &str, name: &str, with: &BTreeMap<String, Template>, schema: &Json) {
        let Some(of) = schema.get("properties").and_then(Json::as_object) else { return };
        for (argument, template) in with.iter().filter(|(_, template)| template.expressions().is_empty()) {
            let Some(mut part) = of.get(argument).cloned() else { continue };
            // What the part refers to stands at the top of the whole schema.
            if let (Some(part), Some(whole)) = (part.as_object_mut(), schema.as_object()) {
                for key in ["$defs", "definitions"] {
                    if let Some(definitions) = whole.get(key) {
                        part.entry(key).or_insert_with(|| definitions.clone());
                    }
                }
            }
            let Ok(validator) = jsonschema::validator_for(&part) else { continue };
            let value = template.constant();
            if let Some(value) = value
                && let Some(error) = validator.iter_errors(&value).next()
            {
                let message = format!("argument `{argument}` of `{name}`: {error}");
                let finding = Finding::new(ProblemCode::BadArgument, message);
                self.add_inside(&join(path, argument), error.instance_path().as_str(), finding);
            }
        }
    }
}

pub(super) fn properties(schema: &Json) -> BTreeSet<&str> {
    schema.get("properties").and_then(Json::as_object).into_iter().flatten().map(|(name, _)| name.as_str()).collect()
}

fn required(schema: &Json) -> impl Iterator<Item = &str> {
    schema.get("required").and_then(Json::as_array).into_iter().flatten().filter_map(Json::as_str)
}
