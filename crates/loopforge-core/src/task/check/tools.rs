//! Whether a tool comes from somewhere, and whether what the task says about it fits.

use super::super::problem::{Finding, ProblemCode};
use super::super::{Grants, Retry, Sandbox, Status, ToolSpec};
use super::arguments::properties;
use super::{Checker, join};
use crate::evaluate::grounding::Grounding;
use crate::tool::Effect;

impl<'a> Checker<'a, '_, '_> {
    pub(super) fn tool(&mut self, name: &str, tool: &'a ToolSpec) {
        let path = &join("tools", name);
        let fits = |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
        if name.is_empty() || name.len() > 64 || !name.chars().all(fits) {
            let finding = Finding::new(ProblemCode::BadName, format!("`{name}` can't be the name of a tool"))
                .remedy("up to 64 letters of a to z, digits, `_` and `-`");
            self.add_key(path, finding);
        }
        self.source(path, name, tool);
        self.network(path, tool);
        self.effect(path, name, tool);
        self.status(path, name, tool);
        self.times(path, tool);
        self.schema(&format!("{path}.input_schema"), tool.input_schema.as_ref());
        self.schema(&format!("{path}.output_schema"), tool.output_schema.as_ref());
        self.pointers(&format!("{path}.key_fields"), &tool.key_fields);
        self.pointers(&format!("{path}.volatile"), &tool.volatile);
        if let Err((kind, why)) = Grounding::compile(&tool.grounded) {
            let why = why.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
            let finding = Finding::new(ProblemCode::BadValue, format!("this is not a regular expression: {why}"));
            self.add(&join(&format!("{path}.grounded"), &kind), finding.remedy("write one like `ORD-[0-9]+`"));
        }
        if let Some(requires) = &tool.requires {
            self.expression(&format!("{path}.requires"), requires, &[]);
        }
        let with = format!("{path}.with");
        for (argument, template) in &tool.with {
            self.template(&join(&with, argument), template, &[]);
        }
        self.default_arguments(&with, name, tool);
    }

    fn source(&mut self, path: &str, name: &str, tool: &ToolSpec) {
        match (&tool.builtin, &tool.process) {
            (Some(_), Some(_)) => {
                let finding = Finding::new(ProblemCode::Conflict, format!("`{name}` has both `builtin` and `process`"));
                self.add_key(
                    &format!("{path}.process"),
                    finding.remedy("keep one; list the other as a tool of its own"),
                );
            }
            (None, None) => {
                let remedy = if self.catalog.builtins.contains_key(name) {
                    format!("add `builtin: {name}`")
                } else {
                    "add `builtin: NAME`, or `process: [PROGRAM, ARGUMENT, ...]`".to_owned()
                };
                let finding =
                    Finding::new(ProblemCode::Missing, format!("nothing says where the tool `{name}` comes from"));
                self.add_key(path, finding.remedy(remedy));
            }
            (Some(builtin), None) => {
                if !self.catalog.builtins.contains_key(builtin) {
                    let finding =
                        Finding::new(ProblemCode::UnknownName, format!("there is no built-in tool `{builtin}`"));
                    let finding = finding.known(builtin, "built-in tools", self.catalog.builtins.keys());
                    self.add(&format!("{path}.builtin"), finding);
                }
            }
            (None, Some(program)) => {
                self.program(&format!("{path}.process"), program);
                self.placeholders(path, name, tool, program);
            }
        }
    }

    /// `{name}` in a program's arguments. Braces may mean something to the program, so only what looks like a slip is reported.
    fn placeholders(&mut self, path: &str, name: &str, tool: &ToolSpec, program: &[String]) {
        let Some(schema) = &tool.input_schema else { return };
        let known = properties(schema);
        for (position, argument) in program.iter().enumerate() {
            for part in argument
                .replace("{{", "")
                .split('{')
                .skip(1)
                .filter_map(|rest| rest.split_once('}'))
                .map(|(inner, _)| inner)
            {
                let nearest = super::super::problem::nearest(part, known.iter().copied());
                if known.contains(part) || nearest.is_none() {
                    continue;
                }
                let finding = Finding::new(ProblemCode::BadArgument, format!("`{name}` has no argument `{part}`"));
                self.add_within(&format!("{path}.process[{position}]"), part, Finding { nearest, ..finding });
            }
        }
    }

    fn network(&mut self, path: &str, tool: &ToolSpec) {
        let network = tool.builtin.as_ref().and_then(|name| self.catalog.builtins.get(name)).map(|found| found.network);
        match network {
            Some(true) if tool.allow.is_empty() => {
                let finding = Finding::new(ProblemCode::Missing, "nothing says which hosts this tool may reach")
                    .remedy("add `allow: [shop.example]`; `*.example.com` stands for all below, `127.0.0.1:*` for all ports");
                self.add_key(path, finding);
            }
            Some(false) if !tool.allow.is_empty() => {
                let finding =
                    Finding::new(ProblemCode::Conflict, "this tool reaches no hosts").remedy("remove `allow`");
                self.add_key(&format!("{path}.allow"), finding);
            }
            None if tool.process.is_some() && !tool.allow.is_empty() => {
                let finding = Finding::new(ProblemCode::Conflict, "hosts can't be chosen for a process")
                    .remedy("remove `allow`; `sandbox: { net: any }` opens the network as a whole");
                self.add_key(&format!("{path}.allow"), finding);
            }
            _ => {}
        }
        for (position, pattern) in tool.allow.iter().enumerate() {
            if let Some(remedy) = bad_host(pattern) {
                let finding = Finding::new(ProblemCode::BadValue, format!("`{pattern}` is not a host"));
                self.add(&format!("{path}.allow[{position}]"), finding.remedy(remedy));
            }
        }
        match &tool.sandbox {
            Some(_) if tool.builtin.is_some() => {
                let finding = Finding::new(ProblemCode::Conflict, "only a process has a sandbox").remedy("remove it");
                self.add_key(&format!("{path}.sandbox"), finding);
            }
            Some(Sandbox::Grants(grants)) => self.grants(&format!("{path}.sandbox"), grants),
            Some(Sandbox::Switch(_)) | None => {}
        }
    }

    fn grants(&mut self, path: &str, grants: &Grants) {
        for (key, paths) in [("read", &grants.read), ("write", &grants.write)] {
            for (position, granted) in paths.iter().enumerate() {
                let remedy = if granted.trim().is_empty() {
                    "name a folder or file; `.` is the folder of the task file"
                } else if granted.split(['/', '\\']).any(|part| part == "..") {
                    "a grant doesn't climb: write the whole path, from `/`"
                } else {
                    continue;
                };
                let finding =
                    Finding::new(ProblemCode::BadValue, format!("`{granted}` can't be granted")).remedy(remedy);
                self.add(&format!("{path}.{key}[{position}]"), finding);
            }
        }
        for (position, name) in grants.env.iter().enumerate() {
            if name.is_empty() || name.contains(['=', '$', ' ']) {
                let finding = Finding::new(ProblemCode::BadName, format!("`{name}` is not the name of a variable"))
                    .remedy("write the name only, such as `LANG`; its value comes from the environment");
                self.add(&format!("{path}.env[{position}]"), finding);
            }
        }
        for (key, limit) in [("memory_mb", grants.memory_mb), ("cpu_s", grants.cpu_s)] {
            if let Some(limit) = limit {
                self.at_least_one(&format!("{path}.{key}"), limit);
            }
        }
    }

    fn effect(&mut self, path: &str, name: &str, tool: &'a ToolSpec) {
        let own = tool.builtin.as_ref().and_then(|name| self.catalog.builtins.get(name)).map(|found| found.effect);
        if own == Some(Effect::Write) && tool.effect == Some(Effect::Read) {
            let finding =
                Finding::new(ProblemCode::Conflict, format!("`{name}` changes the world and can't be a `read`"));
            self.add(&format!("{path}.effect"), finding.remedy("remove `effect`"));
        }
        let effect = self.effect_of(tool);
        if effect == Effect::Read {
            for (key, given) in [("effect_key", !tool.effect_key.is_empty()), ("status", tool.status.is_some())] {
                if given {
                    let finding = Finding::new(ProblemCode::Conflict, format!("`{name}` is a read, and has no effect"))
                        .remedy(format!("remove `{key}`, or say `effect: write`"));
                    self.add_key(&format!("{path}.{key}"), finding);
                }
            }
        } else if tool.cache.is_some() {
            let finding =
                Finding::new(ProblemCode::Conflict, format!("`{name}` is a write: a cached answer would skip it"));
            let finding = finding.remedy("remove `cache`, or say `effect: read` if it changes nothing");
            self.add_key(&format!("{path}.cache"), finding);
        }
        let known: Vec<&str> = self.schemas(tool).into_iter().flat_map(properties).collect();
        for (position, key) in tool.effect_key.iter().enumerate() {
            if !known.is_empty() && !known.contains(&key.as_str()) {
                let finding = Finding::new(ProblemCode::UnknownName, format!("`{name}` has no argument `{key}`"));
                self.add(&format!("{path}.effect_key[{position}]"), finding.known(key, "arguments", &known));
            }
        }
    }

    fn effect_of(&self, tool: &ToolSpec) -> Effect {
        let builtin = tool.builtin.as_ref().and_then(|name| self.catalog.builtins.get(name));
        tool.effect.or(builtin.map(|found| found.effect)).unwrap_or(Effect::Write)
    }

    fn status(&mut self, path: &str, name: &str, tool: &ToolSpec) {
        let path = format!("{path}.status");
        let asked = match &tool.status {
            None => return,
            Some(Status::Process(process)) => return self.program(&format!("{path}.process"), &process.process),
            Some(Status::Tool(asked)) => asked,
        };
        match self.task.tools.get(asked) {
            None => {
                let finding = Finding::new(ProblemCode::UnknownName, format!("there is no tool `{asked}`"));
                let others = self.task.tools.keys().filter(|other| *other != name);
                self.add(&path, finding.known(asked, "tools", others));
            }
            Some(found) if self.effect_of(found) == Effect::Write => {
                let message =
                    format!("`{asked}` is a write, and asking whether an effect happened must change nothing");
                let remedy = if asked == name {
                    "name a tool of its own that only asks, with `effect: read`".to_owned()
                } else {
                    format!("say `effect: read` at `{asked}` if it changes nothing")
                };
                self.add(&path, Finding::new(ProblemCode::Conflict, message).remedy(remedy));
            }
            Some(_) => {}
        }
    }

    fn times(&mut self, path: &str, tool: &ToolSpec) {
        self.not_zero(&format!("{path}.timeout"), tool.timeout);
        self.not_zero(&format!("{path}.cache"), tool.cache);
        for (key, count) in [("max_calls", tool.max_calls), ("concurrency", tool.concurrency)] {
            if let Some(count) = count {
                self.at_least_one(&format!("{path}.{key}"), count.into());
            }
        }
        if let Some(Retry { max_attempts, backoff, .. }) = &tool.retry {
            if let Some(attempts) = max_attempts {
                self.at_least_one(&format!("{path}.retry.max_attempts"), (*attempts).into());
            }
            if backoff.as_ref().is_some_and(Vec::is_empty) {
                let finding = Finding::new(ProblemCode::BadValue, "a list of no waits")
                    .remedy("write the waits, such as `[2s, 10s]`, or `max_attempts: 1` for a single try");
                self.add(&format!("{path}.retry.backoff"), finding);
            }
        }
    }
}

/// How `pattern` should be written; `None` when it is right.
fn bad_host(pattern: &str) -> Option<String> {
    if let Some((_, rest)) = pattern.split_once("://") {
        let host = rest.split('/').next().unwrap_or(rest);
        return Some(format!("write the host only: `{host}`"));
    }
    if let Some((host, _)) = pattern.split_once('/') {
        return Some(format!("write the host only, without a path: `{host}`"));
    }
    let (host, port) = match pattern.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((address, rest)) => {
            if address.parse::<std::net::Ipv6Addr>().is_err() {
                return Some("between brackets stands an IPv6 address, such as `[::1]`".to_owned());
            }
            ("", if rest.is_empty() { None } else { Some(rest.strip_prefix(':').unwrap_or("?")) })
        }
        None if pattern.parse::<std::net::Ipv6Addr>().is_ok() => {
            return Some(format!("an IPv6 address stands in brackets: `[{pattern}]`"));
        }
        None => match pattern.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (pattern, None),
        },
    };
    if port.is_some_and(|port| port != "*" && port.parse::<u16>().is_err()) {
        return Some("after `:` stands a port, or `*` for all".to_owned());
    }
    let name = host.strip_prefix("*.").unwrap_or(host);
    let label = |label: &str| {
        !label.is_empty() && label.chars().all(|character| character.is_alphanumeric() || "-_".contains(character))
    };
    let right = pattern.starts_with('[') || host == "*" || name.split('.').all(label);
    (!right).then(|| "write a host such as `shop.example`, `*.example.com` or `127.0.0.1:*`".to_owned())
}
