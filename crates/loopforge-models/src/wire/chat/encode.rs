//! Requests.

use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, Block, Message, Opaque, Request, Role, ToolCall, ToolChoice};
use serde_json::{Map, json};

use super::{CALL_EXTRA, CONTENT_PART};
use crate::wire::{self, Names, Options};

pub(in crate::wire) fn encode(request: &Request, options: &Options, names: &Names) -> Json {
    let mut body = json!({
        "model": options.model,
        "stream": true,
        "stream_options": { "include_usage": true },
        "messages": messages(request, options, names),
    });
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                json!({ "type": "function", "function": {
                    "name": names.wire(&tool.name), "description": tool.description, "parameters": tool.parameters,
                } })
            })
            .collect();
        match &request.tool_choice {
            // The default. Some servers refuse the member.
            ToolChoice::Auto => {}
            ToolChoice::None => body["tool_choice"] = json!("none"),
            ToolChoice::Required => body["tool_choice"] = json!("required"),
            ToolChoice::Tool(name) => {
                body["tool_choice"] = json!({ "type": "function", "function": { "name": names.wire(name) } });
            }
        }
        if !request.parallel_calls {
            body["parallel_tool_calls"] = json!(false);
        }
    }
    if let Some(limit) = request.max_output_tokens.or(options.max_output_tokens) {
        // OpenAI's newer models refuse the old name, most other servers don't know the new one.
        body[if options.official { "max_completion_tokens" } else { "max_tokens" }] = json!(limit);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(wire::temperature(temperature));
    }
    if let Some(effort) = request.effort {
        body["reasoning_effort"] = json!(effort.name());
    }
    if !request.stop.is_empty() {
        body["stop"] = json!(request.stop);
    }
    if let Some(output) = &request.output {
        body["response_format"] = json!({ "type": "json_schema", "json_schema": {
            "name": output.name, "schema": output.schema, "strict": is_strict(&output.schema),
        } });
    }
    if let (true, Some(key)) = (options.official, &request.cache_key) {
        body["prompt_cache_key"] = json!(key);
    }
    body
}

fn messages(request: &Request, options: &Options, names: &Names) -> Vec<Json> {
    let mut all = Vec::new();
    if !request.system.is_empty() {
        all.push(json!({ "role": "system", "content": request.system }));
    }
    // Some models want their reasoning back with every message that calls, also where there was none.
    let wants_reasoning = request.messages.iter().flat_map(|message| &message.blocks).any(
        |block| matches!(block, Block::Opaque(opaque) if is_own(opaque, options) && opaque.value.get("reasoning_content").is_some()),
    );
    for message in &request.messages {
        match message.role {
            Role::User => {
                let text = message.text();
                match all.last_mut() {
                    // Templates of several models want roles to alternate.
                    Some(last)
                        if last["role"] == "user" || (options.no_user_after_results && last["role"] == "tool") =>
                    {
                        let before = last["content"].as_str().unwrap_or_default();
                        last["content"] = json!(format!("{before}\n\n{text}"));
                    }
                    _ => all.push(json!({ "role": "user", "content": text })),
                }
            }
            Role::Assistant => all.extend(assistant(message, options, names, wants_reasoning)),
            Role::Tool => {
                for block in &message.blocks {
                    if let Block::ToolResult(result) = block {
                        all.push(json!({ "role": "tool", "tool_call_id": result.call, "content": result.content }));
                    }
                }
            }
        }
    }
    all
}

/// A message of the model as it was; none where nothing is left of it that can be sent.
fn assistant(message: &Message, options: &Options, names: &Names, wants_reasoning: bool) -> Option<Json> {
    let mut members = Map::new();
    let mut parts: Vec<Json> = Vec::new();
    let mut has_parts = false;
    let mut calls: Vec<Json> = Vec::new();
    let mut extra: Option<Map<String, Json>> = None;
    for block in &message.blocks {
        match block {
            Block::Text { text } => parts.push(json!({ "type": "text", "text": text })),
            Block::ToolCall(call) => {
                let mut wire = extra.take().unwrap_or_default();
                wire.insert("id".to_owned(), json!(call.id));
                wire.insert("type".to_owned(), json!("function"));
                wire.insert(
                    "function".to_owned(),
                    json!({ "name": names.wire(&call.name), "arguments": arguments_text(call) }),
                );
                calls.push(Json::Object(wire));
            }
            Block::Opaque(opaque) if is_own(opaque, options) => {
                let Json::Object(value) = &opaque.value else { continue };
                if let Some(Json::Object(members)) = value.get(CALL_EXTRA) {
                    extra = Some(members.clone());
                } else if let Some(part) = value.get(CONTENT_PART) {
                    parts.push(part.clone());
                    has_parts = true;
                } else {
                    members.extend(value.iter().map(|(key, value)| (key.clone(), value.clone())));
                }
            }
            Block::Opaque(_) | Block::ToolResult(_) => {}
        }
    }
    if calls.is_empty() {
        if parts.is_empty() {
            return None;
        }
        // Reasoning is wanted back between calls only; some servers refuse it elsewhere.
        members.remove("reasoning_content");
    } else if wants_reasoning && !members.contains_key("reasoning_content") {
        members.insert("reasoning_content".to_owned(), json!(""));
    }
    let content = if has_parts { Json::Array(parts) } else { json!(message.text()) };
    members.insert("role".to_owned(), json!("assistant"));
    members.insert("content".to_owned(), content);
    if !calls.is_empty() {
        members.insert("tool_calls".to_owned(), Json::Array(calls));
    }
    Some(Json::Object(members))
}

/// The arguments as text that every server can read: some parse them, and refuse the whole conversation for one bad call.
pub(in crate::wire) fn arguments_text(call: &ToolCall) -> String {
    match &call.arguments {
        Arguments::Object { text, .. } if !text.trim().is_empty() => text.clone(),
        Arguments::Object { .. } => "{}".to_owned(),
        Arguments::Malformed(malformed) => json!({ "malformed_arguments": malformed.text }).to_string(),
    }
}

/// Whether a block goes back where it came from.
pub(in crate::wire) fn is_own(opaque: &Opaque, options: &Options) -> bool {
    opaque.provider == options.provider && opaque.model == options.model
}

/// Whether a schema keeps to the rules that OpenAI has for `strict`: every object closed, every property required.
pub(in crate::wire) fn is_strict(schema: &Json) -> bool {
    match schema {
        Json::Object(members) => {
            if members.get("type").is_some_and(|kind| kind == "object") {
                let closed = members.get("additionalProperties") == Some(&Json::Bool(false));
                let required = members.get("required").and_then(Json::as_array);
                let all = members.get("properties").and_then(Json::as_object).is_none_or(|properties| {
                    properties
                        .keys()
                        .all(|key| required.is_some_and(|required| required.iter().any(|name| name == key)))
                });
                if !closed || !all {
                    return false;
                }
            }
            members.values().all(is_strict)
        }
        Json::Array(items) => items.iter().all(is_strict),
        _ => true,
    }
}
