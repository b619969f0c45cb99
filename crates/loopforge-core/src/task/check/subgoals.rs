//! Whether subgoals can all be reached, and what their steps do.

use std::collections::BTreeMap;

use super::super::problem::{Finding, ProblemCode};
use super::super::{Entry, Mode, OnFailure, Subgoal};
use super::{Checker, bad_name, join};
use crate::expression::{ROOTS, Template};

impl<'a> Checker<'a, '_, '_> {
    pub(super) fn subgoals(&mut self) {
        let subgoals = &self.task.subgoals;
        if subgoals.is_empty() {
            let finding = Finding::new(ProblemCode::Missing, "there are no subgoals, so nothing would be done")
                .remedy("add one: `- { id: work, steps: [{ call: TOOL, with: { ... } }] }`");
            self.add_key("subgoals", finding);
        }
        for (position, subgoal) in subgoals.iter().enumerate() {
            let path = format!("subgoals[{position}]");
            if let Some(finding) = bad_name(&subgoal.id, "a subgoal").filter(|_| !ROOTS.contains(&subgoal.id.as_str()))
            {
                self.add(&format!("{path}.id"), finding);
            }
            if let Some(first) = subgoals[..position].iter().position(|other| other.id == subgoal.id) {
                let message = format!("`{}` is the id of another subgoal too", subgoal.id);
                let finding = Finding::new(ProblemCode::DuplicateName, message)
                    .remedy(format!("choose another; `subgoals[{first}]` has it already"));
                self.add(&format!("{path}.id"), finding);
            }
            self.subgoal(&path, subgoal);
        }
        self.cycles();
    }

    fn subgoal(&mut self, path: &str, subgoal: &'a Subgoal) {
        self.needs(path, subgoal);
        if let Some(rule) = &subgoal.when {
            self.expression(&format!("{path}.when"), rule, &[]);
        }
        if let Some(rule) = &subgoal.done_when {
            self.expression(&format!("{path}.done_when"), rule, &[]);
        }
        for (position, tool) in subgoal.tools.iter().flatten().enumerate() {
            self.tool_name(&format!("{path}.tools[{position}]"), tool);
        }
        let mut locals: Vec<&str> = Vec::new();
        if let Some(foreach) = &subgoal.foreach {
            let path = format!("{path}.foreach");
            self.expression(&format!("{path}.in"), &foreach.list, &[]);
            if let Some(finding) = bad_name(&foreach.name, "an item") {
                self.add(&format!("{path}.as"), finding);
            }
            self.at_least_one(&format!("{path}.parallel"), foreach.parallel.into());
            locals.push(&foreach.name);
        }
        if subgoal.is_agent() {
            self.agent(path, subgoal);
        }
        if subgoal.on_failure == Some(OnFailure::Replan) {
            self.planner(&format!("{path}.on_failure"), "`replan` needs a planner");
        }
        for (position, entry) in subgoal.steps.iter().enumerate() {
            let path = format!("{path}.steps[{position}]");
            self.entry(&path, entry, subgoal, &locals);
            if let Some(save) = entry.save.as_ref().filter(|save| save.member.is_none()) {
                locals.push(&save.name);
            }
            locals.extend(entry.set.keys().map(String::as_str));
        }
    }

    /// A subgoal without steps: a model decides them.
    fn agent(&mut self, path: &str, subgoal: &Subgoal) {
        if self.task.model.is_none() {
            let message = format!("`{}` has no steps, and the task has no model that could decide them", subgoal.id);
            let finding = Finding::new(ProblemCode::Missing, message).remedy(
                "say what is done: `steps: [{ call: TOOL, with: { ... } }]`, or who decides: `model: provider/name`",
            );
            self.add_key(path, finding);
        }
        if subgoal.goal.as_ref().is_none_or(|goal| goal.trim().is_empty()) {
            let message = format!("`{}` has neither steps nor a goal", subgoal.id);
            self.add_key(
                path,
                Finding::new(ProblemCode::Missing, message).remedy("say what is to be reached: `goal: ...`"),
            );
        }
    }

    /// Something that only a planner can do.
    pub(super) fn planner(&mut self, path: &str, message: &str) {
        let remedy = if self.task.model.is_none() {
            "name a model: `model: provider/name`"
        } else if self.task.limits.mode == Mode::React {
            "remove `mode: react` from `loop`"
        } else {
            return;
        };
        self.add(path, Finding::new(ProblemCode::Conflict, message).remedy(remedy));
    }

    fn needs(&mut self, path: &str, subgoal: &Subgoal) {
        for (position, needed) in subgoal.needs.iter().enumerate() {
            let path = format!("{path}.needs[{position}]");
            if subgoal.needs[..position].contains(needed) {
                let finding = Finding::new(ProblemCode::DuplicateName, format!("`{needed}` is named twice"));
                self.add(&path, finding.remedy("remove one of the two"));
            } else if *needed == subgoal.id {
                let finding =
                    Finding::new(ProblemCode::Cycle, format!("`{needed}` needs itself and would never begin"));
                self.add(&path, finding.remedy("remove it"));
            } else if !self.task.subgoals.iter().any(|other| other.id == *needed) {
                let ids = self.task.subgoals.iter().map(|other| &other.id).filter(|id| **id != subgoal.id);
                let finding = Finding::new(ProblemCode::UnknownName, format!("there is no subgoal `{needed}`"));
                self.add(&path, finding.known(needed, "subgoals", ids));
            }
        }
    }

    /// Reports each ring of needs once, at the subgoal of it that stands first, and what waits for a ring.
    fn cycles(&mut self) {
        let subgoals = &self.task.subgoals;
        let position: BTreeMap<&str, usize> =
            subgoals.iter().enumerate().rev().map(|(position, subgoal)| (subgoal.id.as_str(), position)).collect();
        let needs = |at: usize| {
            let id = subgoals[at].id.as_str();
            subgoals[at]
                .needs
                .iter()
                .filter(move |needed| *needed != id)
                .filter_map(|needed| position.get(needed.as_str()))
        };
        // What can begin after what can begin; the rest waits in a ring, or for one.
        let mut waits: Vec<usize> = (0..subgoals.len()).map(|at| needs(at).count()).collect();
        let mut needed_by = vec![Vec::new(); subgoals.len()];
        for at in 0..subgoals.len() {
            needs(at).for_each(|needed| needed_by[*needed].push(at));
        }
        let mut can_begin = vec![false; subgoals.len()];
        let mut ready: Vec<usize> = (0..subgoals.len()).filter(|at| waits[*at] == 0).collect();
        while let Some(next) = ready.pop() {
            can_begin[next] = true;
            for after in &needed_by[next] {
                waits[*after] -= 1;
                if waits[*after] == 0 {
                    ready.push(*after);
                }
            }
        }
        let mut reported = vec![false; subgoals.len()];
        for start in (0..subgoals.len()).filter(|at| !can_begin[*at]) {
            let mut way = vec![start];
            let mut at = start;
            // Following needs that can't begin leads into a ring within as many moves as there are subgoals.
            let ring = loop {
                let Some(next) = needs(at).copied().find(|needed| !can_begin[*needed]) else { break None };
                if let Some(entered) = way.iter().position(|passed| *passed == next) {
                    break Some(way[entered..].to_vec());
                }
                way.push(next);
                at = next;
            };
            let Some(ring) = ring else { continue };
            if ring.iter().any(|member| reported[*member]) {
                continue;
            }
            ring.iter().for_each(|member| reported[*member] = true);
            let first = ring.iter().copied().min().unwrap_or(start);
            let turn = ring.iter().position(|member| *member == first).unwrap_or(0);
            let names = ring[turn..].iter().chain(&ring[..=turn]).map(|member| subgoals[*member].id.as_str());
            let message = format!("these subgoals wait for each other: {}", names.collect::<Vec<_>>().join(" -> "));
            let finding = Finding::new(ProblemCode::Cycle, message).remedy("remove one of these needs");
            self.add(&format!("subgoals[{first}].needs"), finding);
        }
    }

    fn entry(&mut self, path: &str, entry: &Entry, subgoal: &Subgoal, locals: &[&str]) {
        self.entry_kind(path, entry);
        if let Some(rule) = &entry.when {
            self.expression(&format!("{path}.when"), rule, locals);
        }
        if let Some(tool) = &entry.call {
            self.call(path, tool, &entry.with, subgoal, locals);
        }
        for (position, alternative) in entry.or_else.iter().enumerate() {
            let path = format!("{path}.or_else[{position}]");
            self.call(&path, &alternative.call, &alternative.with, subgoal, locals);
        }
        if let Some(save) = &entry.save {
            let path = format!("{path}.save");
            if let Some(finding) = bad_name(&save.name, "what is saved") {
                self.add(&path, finding);
            }
            if subgoal.foreach.as_ref().is_some_and(|foreach| foreach.name == save.name) {
                let message = format!("`{}` is the item of this `foreach` already", save.name);
                self.add(&path, Finding::new(ProblemCode::Conflict, message).remedy("save under another name"));
            }
            if let Some(member) = &save.member {
                self.expression(&path, member, locals);
            }
        }
        for (key, template) in &entry.set {
            let path = join(&format!("{path}.set"), key);
            let finding = bad_name(key, "a key of state").map(|finding| match key.strip_prefix("state.") {
                Some(plain) => finding.remedy(format!("`set` writes to state anyway: write `{plain}`")),
                None => finding,
            });
            if let Some(finding) = finding {
                self.add_key(&path, finding);
            }
            self.template(&path, template, locals);
        }
        if let Some(state) = &entry.enter {
            self.enter(&format!("{path}.enter"), state);
        }
    }

    fn entry_kind(&mut self, path: &str, entry: &Entry) {
        let kinds = [
            ("call", entry.call.is_some()),
            ("set", !entry.set.is_empty()),
            ("wait", entry.wait.is_some()),
            ("enter", entry.enter.is_some()),
        ];
        let given: Vec<&str> = kinds.iter().filter(|(_, given)| *given).map(|(key, _)| *key).collect();
        match given.as_slice() {
            [] => {
                let finding = Finding::new(ProblemCode::Missing, "this step does nothing")
                    .remedy("give it one of `call`, `set`, `wait`, `enter`");
                self.add_key(path, finding);
            }
            [_] => {}
            [first, second, ..] => {
                let finding =
                    Finding::new(ProblemCode::Conflict, format!("this step has both `{first}` and `{second}`"))
                        .remedy("make two steps of it");
                self.add_key(&format!("{path}.{second}"), finding);
            }
        }
        let of_calls =
            [("with", !entry.with.is_empty()), ("save", entry.save.is_some()), ("or_else", !entry.or_else.is_empty())];
        for (key, _) in
            of_calls.iter().filter(|(_, given)| *given && entry.call.is_none() && !kinds.iter().all(|kind| !kind.1))
        {
            let finding = Finding::new(ProblemCode::Conflict, format!("`{key}` has a meaning only beside `call`"));
            self.add_key(&format!("{path}.{key}"), finding.remedy("remove it, or add `call`"));
        }
    }

    fn call(&mut self, path: &str, tool: &str, with: &BTreeMap<String, Template>, subgoal: &Subgoal, locals: &[&str]) {
        let at = format!("{path}.call");
        if self.tool_name(&at, tool)
            && let Some(tools) = &subgoal.tools
            && !tools.iter().any(|listed| listed == tool)
        {
            let message = format!("`{}` may not call `{tool}`: its `tools` don't list it", subgoal.id);
            let finding = Finding::new(ProblemCode::Conflict, message);
            let finding = finding.remedy(format!("add `{tool}` to the subgoal's `tools`")).known(tool, "tools", tools);
            self.add(&at, finding);
        }
        for (argument, template) in with {
            self.template(&join(&format!("{path}.with"), argument), template, locals);
        }
        self.arguments(path, tool, with);
    }

    /// Whether the task lists the tool.
    fn tool_name(&mut self, path: &str, tool: &str) -> bool {
        let listed = self.task.tools.contains_key(tool);
        if !listed {
            let finding = Finding::new(ProblemCode::UnknownName, format!("the task lists no tool `{tool}`"));
            let finding = if self.catalog.builtins.contains_key(tool) {
                finding.remedy(format!("list it under `tools`: `{tool}: {{ builtin: {tool} }}`"))
            } else {
                finding.known(tool, "tools", self.task.tools.keys())
            };
            self.add(path, finding);
        }
        listed
    }
}
