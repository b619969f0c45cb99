//! Whether lifecycle states can be reached, and whether hooks do one thing.

use std::collections::BTreeSet;

use super::super::problem::{Finding, ProblemCode};
use super::super::{Hook, HookAction, HookEvent, Lifecycle};
use super::{Checker, join};

impl Checker<'_, '_, '_> {
    pub(super) fn lifecycle(&mut self, states: &Lifecycle) {
        let known = state_names(states);
        if !known.contains(states.initial.as_str()) {
            self.unknown_state("states.initial", &states.initial, &known);
        }
        let mut slips = false;
        for (from, targets) in &states.transitions {
            let path = join("states.transitions", from);
            for (position, to) in targets.iter().enumerate() {
                // A last state needs no line of its own; a slip would look like one, so that it must be much like another.
                let listed = states.transitions.contains_key(to);
                let near = super::super::problem::nearest(to, states.transitions.keys().map(String::as_str));
                if !listed && near.is_some() {
                    slips = true;
                    let finding = Finding::new(ProblemCode::UnknownName, format!("there is no state `{to}`"))
                        .remedy(format!("if it is a state of its own, add `{to}: []` to `transitions`"));
                    self.add(&format!("{path}[{position}]"), Finding { nearest: near, ..finding });
                }
            }
        }
        let mut reached = BTreeSet::from([states.initial.as_str()]);
        let mut open = vec![states.initial.as_str()];
        while let Some(from) = open.pop() {
            for to in states.transitions.get(from).into_iter().flatten() {
                if reached.insert(to) {
                    open.push(to);
                }
            }
        }
        if known.contains(states.initial.as_str()) && !slips {
            for state in states.transitions.keys().filter(|state| !reached.contains(state.as_str())) {
                let message = format!("no way leads from `{}` to `{state}`", states.initial);
                let finding = Finding::new(ProblemCode::Unreachable, message)
                    .remedy("add it to the transitions of a state before it, or remove it");
                self.add_key(&join("states.transitions", state), finding);
            }
        }
        for (state, tools) in &states.tools {
            let path = join("states.tools", state);
            if !known.contains(state.as_str()) {
                let finding = Finding::new(ProblemCode::UnknownName, format!("there is no state `{state}`"));
                self.add_key(&path, finding.known(state, "states", &known));
            }
            for (position, tool) in tools.iter().enumerate() {
                if !self.task.tools.contains_key(tool) {
                    let finding = Finding::new(ProblemCode::UnknownName, format!("the task lists no tool `{tool}`"));
                    let finding = finding.known(tool, "tools", self.task.tools.keys());
                    self.add(&format!("{path}[{position}]"), finding);
                }
            }
        }
    }

    /// A step goes to `state`.
    pub(super) fn enter(&mut self, path: &str, state: &str) {
        let Some(states) = &self.task.states else {
            let finding = Finding::new(ProblemCode::UnknownName, "the task has no `states` to enter")
                .remedy(format!("add `states: {{ initial: NEW, transitions: {{ NEW: [{state}] }} }}`"));
            return self.add(path, finding);
        };
        let known = state_names(states);
        if !known.contains(state) {
            return self.unknown_state(path, state, &known);
        }
        if !states.transitions.values().flatten().any(|to| to == state) {
            let finding = Finding::new(ProblemCode::Unreachable, format!("no transition leads to `{state}`"))
                .remedy("add it to the transitions of a state, or remove this step");
            self.add(path, finding);
        }
    }

    fn unknown_state(&mut self, path: &str, state: &str, known: &BTreeSet<&str>) {
        let finding = Finding::new(ProblemCode::UnknownName, format!("there is no state `{state}`"));
        self.add(path, finding.known(state, "states", known));
    }

    pub(super) fn hook(&mut self, path: &str, hook: &Hook) {
        if hook.action.is_none() && hook.webhook.is_none() && hook.process.is_none() {
            let finding = Finding::new(ProblemCode::Missing, "this hook does nothing")
                .remedy("give it `do`, `webhook` or `process`");
            self.add_key(path, finding);
        }
        if hook.webhook.is_some() && hook.process.is_some() {
            let finding = Finding::new(ProblemCode::Conflict, "this hook has both `webhook` and `process`")
                .remedy("make two hooks of it");
            self.add_key(&format!("{path}.process"), finding);
        }
        if hook.every.is_some() && hook.on != HookEvent::StepCompleted {
            let finding = Finding::new(ProblemCode::Conflict, "`every` counts steps, and this is no `step_completed`");
            self.add_key(&format!("{path}.every"), finding.remedy("remove it"));
        }
        if let Some(every) = hook.every {
            self.at_least_one(&format!("{path}.every"), every);
        }
        if hook.action == Some(HookAction::PauseAndAlert)
            && !matches!(hook.on, HookEvent::LoopExceeded | HookEvent::LimitReached)
        {
            let finding = Finding::new(
                ProblemCode::Conflict,
                "`pause_and_alert` stops a run that goes in circles or past a limit",
            )
            .remedy("use it on `loop_exceeded` or `limit_reached`");
            self.add(&format!("{path}.do"), finding);
        }
        if let Some(url) = &hook.webhook
            && let Some(remedy) = bad_url(url)
        {
            let finding = Finding::new(ProblemCode::BadValue, format!("`{url}` is not a URL")).remedy(remedy);
            self.add(&format!("{path}.webhook"), finding);
        }
        if let Some(name) = &hook.secret_env {
            let path = format!("{path}.secret_env");
            if hook.webhook.is_none() {
                let finding = Finding::new(ProblemCode::Conflict, "`secret_env` signs a webhook, and there is none");
                self.add_key(&path, finding.remedy("add `webhook`, or remove it"));
            } else if name.is_empty() || name.contains(['$', '{', '=', ' ']) {
                let finding = Finding::new(ProblemCode::BadName, format!("`{name}` is not the name of a variable"));
                self.add(&path, finding.remedy("write the name only, such as `ALERT_KEY`; never the key itself"));
            }
        }
        if let Some(program) = &hook.process {
            self.program(&format!("{path}.process"), program);
        }
    }
}

fn state_names(states: &Lifecycle) -> BTreeSet<&str> {
    states
        .transitions
        .iter()
        .flat_map(|(from, targets)| std::iter::once(from).chain(targets))
        .map(String::as_str)
        .collect()
}

/// How `url` should be written; `None` when it is right. What comes from the environment can't be judged here.
fn bad_url(url: &str) -> Option<&'static str> {
    let mut rest = url;
    while let Some(start) = rest.find("${") {
        let inner = &rest[start + 2..];
        let Some((name, after)) = inner.split_once('}') else { return Some("`${` has no closing `}`") };
        let name = name.trim().strip_prefix("env.").unwrap_or("");
        if name.is_empty() || !name.chars().all(|character| character.is_ascii_alphanumeric() || character == '_') {
            return Some("only `${env.NAME}` is replaced here");
        }
        rest = after;
    }
    if url.starts_with("${") {
        return None;
    }
    let after = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    match after {
        Some(rest) if !rest.is_empty() && !rest.starts_with('/') && !url.contains(char::is_whitespace) => None,
        _ => Some("write it in full: `https://host/path`, or `${env.NAME}`"),
    }
}
