//! Finds the rule for a request, and makes its answer.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use loopforge_core::expression::{EvalError, Scope, Values};
use loopforge_core::json::Json;
use loopforge_core::model::{
    Arguments, Block, CallResult, ErrorKind, Message, ModelError, Opaque, Reply, Request, Role, StopReason, ToolCall,
    Usage,
};
use loopforge_core::payload::Payload;
use serde_json::json;

use super::file::{Fault, Part, Pattern, Rule, Script};
use crate::wire::{Draft, Names};

/// What expressions of every rule see.
///
/// `turn` is 1 before the model has said anything; `text` the last message, `user` the last one of the user, `system` the system text,
/// `conversation` all of it; `calls` the calls so far (`tool`, `with`, `result` as text, `data` as JSON where it is some, `ok`); `tools` the
/// names of what is offered.
pub(super) const NAMES: &[&str] = &["turn", "text", "user", "system", "conversation", "calls", "tools"];

/// Bytes of text in a token, about.
const BYTES_PER_TOKEN: u64 = 4;

/// How often each rule has answered in this process.
#[derive(Debug)]
pub(super) struct Counts(Vec<AtomicU32>);

impl Counts {
    pub(super) fn of(script: &Script) -> Self {
        Self(script.rules.iter().map(|_| AtomicU32::new(0)).collect())
    }

    /// Takes one of the times that a rule has left.
    fn take(&self, place: usize, times: u32) -> bool {
        let left = |count: u32| (count < times).then_some(count + 1);
        self.0[place].fetch_update(Ordering::Relaxed, Ordering::Relaxed, left).is_ok()
    }
}

/// What a script plays.
#[derive(Debug, Clone, PartialEq)]
pub struct Played {
    /// The rule's name, or its place.
    pub rule: String,
    /// The whole answer, also where a fault keeps some of it back.
    pub reply: Reply,
    /// The wait before it.
    pub delay: Duration,
    /// What goes wrong.
    pub fault: Option<Fault>,
}

impl Script {
    pub(super) fn play(&self, request: &Request, counts: &Counts) -> Result<Played, ModelError> {
        let seen = Seen::of(request);
        for (place, rule) in self.rules.iter().enumerate() {
            let title = rule.title(place);
            let failed = |error: EvalError| no_answer(format!("{title}: {error}"));
            let Some(names) = rule.fits(&seen).map_err(failed)? else { continue };
            if rule.times.is_some_and(|times| !counts.take(place, times)) {
                continue;
            }
            let reply = rule.reply(&names, &seen, request).map_err(failed)?;
            return Ok(Played { rule: title, reply, delay: rule.delay(), fault: rule.fault.clone() });
        }
        let text: String = seen.text.chars().take(200).collect();
        Err(no_answer(format!("no rule of the script fits turn {}; the last message is: {text}", seen.turn)))
    }
}

type Known = BTreeMap<String, Payload>;

impl Rule {
    /// The names for its expressions, if it fits.
    fn fits(&self, seen: &Seen) -> Result<Option<Known>, EvalError> {
        let when = &self.when;
        let holds = when.turn.is_none_or(|turn| turn == seen.turn)
            && when.after.as_ref().is_none_or(|tool| seen.after.contains(tool))
            && when.offered.as_ref().is_none_or(|tool| seen.tools.contains(tool));
        if !holds {
            return Ok(None);
        }
        let mut names = Known::new();
        let mut add = |name: &str, value: Json| names.insert(name.to_owned(), Payload::inline(value));
        let texts = [
            (&when.text, &seen.text),
            (&when.user, &seen.user),
            (&when.system, &seen.system),
            (&when.conversation, &seen.conversation),
        ];
        for (pattern, text) in texts {
            let Some(Pattern(pattern)) = pattern else { continue };
            let Some(found) = pattern.captures(text) else { return Ok(None) };
            for name in pattern.capture_names().flatten() {
                add(name, json!(found.name(name).map_or("", |found| found.as_str())));
            }
        }
        for (name, Pattern(pattern)) in &self.find {
            let mut all: Vec<&str> = Vec::new();
            for found in pattern.captures_iter(&seen.conversation) {
                let text = found.get(1).or_else(|| found.get(0)).map_or("", |found| found.as_str());
                if !all.contains(&text) {
                    all.push(text);
                }
            }
            add(name, json!(all));
        }
        let mut values = Vec::new();
        for (name, expression) in &self.values {
            values.push((name, with_scope(&names, seen, |scope| expression.evaluate(scope))?));
        }
        for (name, value) in values {
            names.insert(name.clone(), Payload::inline(value));
        }
        if let Some(condition) = &when.condition
            && !with_scope(&names, seen, |scope| condition.holds(scope))?
        {
            return Ok(None);
        }
        Ok(Some(names))
    }

    fn reply(&self, names: &Known, seen: &Seen, request: &Request) -> Result<Reply, EvalError> {
        let (provider, model) = request.model.split_once('/').unwrap_or(("script", &request.model));
        let mut draft = Draft { model: Some(model.to_owned()), ..Draft::default() };
        for part in &self.reply {
            let call = |name: &str, id: &Option<String>, text: String| {
                Block::ToolCall(ToolCall {
                    id: id.clone().unwrap_or_default(),
                    provider_id: None,
                    name: name.to_owned(),
                    arguments: Arguments::read(text),
                })
            };
            draft.blocks.push(match part {
                Part::Say { say } => Block::text(as_text(with_scope(names, seen, |scope| say.fill(scope))?)),
                Part::Think { think } => Block::Opaque(Opaque {
                    provider: provider.to_owned(),
                    model: model.to_owned(),
                    value: json!({ "thinking": as_text(with_scope(names, seen, |scope| think.fill(scope))?) }),
                }),
                Part::Call { call: name, with, id } => {
                    call(name, id, with_scope(names, seen, |scope| with.fill(scope))?.to_string())
                }
                Part::Raw { call: name, raw, id } => call(name, id, raw.clone()),
            });
        }
        let written = serde_json::to_string(&draft.blocks).map_or(0, |text| text.len() as u64);
        draft.usage = self.usage.unwrap_or_else(|| Usage {
            input: Some(seen.size.div_ceil(BYTES_PER_TOKEN)),
            output: Some(written.div_ceil(BYTES_PER_TOKEN)),
            ..Usage::default()
        });
        draft.stop = Some(self.stop.clone().unwrap_or(StopReason::End));
        Ok(draft.complete(request, &Names::default()))
    }
}

fn with_scope<T>(names: &Known, seen: &Seen, read: impl FnOnce(&Scope<'_>) -> T) -> T {
    let facts = |name: &str| seen.fact(name);
    read(&Scope { values: &Values::default(), locals: names, facts: &facts })
}

fn as_text(value: Json) -> String {
    match value {
        Json::String(text) => text,
        other => other.to_string(),
    }
}

/// What a request shows to rules.
struct Seen {
    turn: u32,
    text: String,
    user: String,
    system: String,
    conversation: String,
    /// Tools whose results came last.
    after: Vec<String>,
    tools: Vec<String>,
    calls: Json,
    size: u64,
}

impl Seen {
    fn of(request: &Request) -> Self {
        let last_of = |role: Role| request.messages.iter().rev().find(|message| message.role == role);
        let mut conversation = request.system.clone();
        for message in &request.messages {
            conversation.push('\n');
            conversation.push_str(&text_of(message));
        }
        let last_results: Vec<&CallResult> = last_of(Role::Tool).into_iter().flat_map(results).collect();
        // A status message may follow the results; the model has not answered them all the same.
        let unanswered = request.messages.iter().rev().take_while(|message| message.role != Role::Assistant);
        let open = unanswered.clone().any(|message| message.role == Role::Tool);
        let tool_of = |id: &str| request.calls().find(|call| call.id == id).map(|call| call.name.clone());
        Self {
            turn: u32::try_from(request.messages.iter().filter(|message| message.role == Role::Assistant).count())
                .unwrap_or(u32::MAX)
                .saturating_add(1),
            text: request.messages.last().map(text_of).unwrap_or_default(),
            user: last_of(Role::User).map(text_of).unwrap_or_default(),
            system: request.system.clone(),
            after: if open {
                last_results.iter().filter_map(|result| tool_of(&result.call)).collect()
            } else {
                Vec::new()
            },
            tools: request.tools.iter().map(|tool| tool.name.clone()).collect(),
            calls: calls(request),
            size: (conversation.len()
                + request.tools.iter().map(|tool| tool.parameters.to_string().len()).sum::<usize>())
                as u64,
            conversation,
        }
    }

    fn fact(&self, name: &str) -> Option<Json> {
        Some(match name {
            "turn" => json!(self.turn),
            "text" => json!(self.text),
            "user" => json!(self.user),
            "system" => json!(self.system),
            "conversation" => json!(self.conversation),
            "calls" => self.calls.clone(),
            "tools" => json!(self.tools),
            _ => return None,
        })
    }
}

fn results(message: &Message) -> impl Iterator<Item = &CallResult> {
    message.blocks.iter().filter_map(|block| match block {
        Block::ToolResult(result) => Some(result),
        Block::Text { .. } | Block::ToolCall(_) | Block::Opaque(_) => None,
    })
}

fn text_of(message: &Message) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for block in &message.blocks {
        match block {
            Block::Text { text } => parts.push(text),
            Block::ToolResult(result) => parts.push(&result.content),
            Block::ToolCall(_) | Block::Opaque(_) => {}
        }
    }
    parts.join("\n")
}

/// The calls of the conversation with what they brought.
fn calls(request: &Request) -> Json {
    let all: Vec<&CallResult> = request.messages.iter().flat_map(results).collect();
    request
        .calls()
        .map(|call| {
            let result = all.iter().find(|result| result.call == call.id);
            let data = result.and_then(|result| data_of(&result.content));
            // Not every form says of a result that it is an error; the result itself does.
            let failed =
                result.is_none_or(|result| result.is_error) || data.as_ref().is_some_and(|data| data["ok"] == false);
            json!({
                "tool": call.name,
                "with": call.arguments.object(),
                "result": result.map(|result| result.content.as_str()),
                "data": data,
                "ok": !failed,
            })
        })
        .collect()
}

/// A result as JSON. The loop puts a handle before it, `@3.1: {...}`.
fn data_of(content: &str) -> Option<Json> {
    let after = content.strip_prefix('@').and_then(|rest| rest.split_once(": ")).map(|(_, after)| after);
    serde_json::from_str(content).ok().or_else(|| serde_json::from_str(after?).ok())
}

fn no_answer(message: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::NoAnswer, message)
}
