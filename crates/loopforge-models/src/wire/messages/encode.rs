//! Requests.

use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, Block, Request, Role, ToolChoice};
use serde_json::{Map, json};

use crate::wire::chat::is_own;
use crate::wire::{self, Names, Options};

/// The provider wants a limit. This is one that every model of it allows.
const MAX_OUTPUT: u32 = 8192;
/// The most marks in a request. Source: Anthropic's documentation of prompt caching.
const MAX_MARKS: usize = 4;

pub(in crate::wire) fn encode(request: &Request, options: &Options, names: &Names) -> Json {
    let mut body = json!({
        "model": options.model,
        "stream": true,
        "max_tokens": request.max_output_tokens.or(options.max_output_tokens).unwrap_or(MAX_OUTPUT),
    });
    let mut marks = MAX_MARKS;
    // Tools stand before the system text, so that one mark at the end of both is enough.
    if !request.tools.is_empty() {
        let mut tools: Vec<Json> = request
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "name": names.wire(&tool.name), "description": tool.description, "input_schema": tool.parameters,
                })
            })
            .collect();
        if request.system.is_empty()
            && let Some(last) = tools.last_mut()
        {
            mark(last);
            marks -= 1;
        }
        body["tools"] = Json::Array(tools);
        let mut choice = match &request.tool_choice {
            ToolChoice::Auto => json!({ "type": "auto" }),
            ToolChoice::None => json!({ "type": "none" }),
            ToolChoice::Required => json!({ "type": "any" }),
            ToolChoice::Tool(name) => json!({ "type": "tool", "name": names.wire(name) }),
        };
        let plain = request.tool_choice == ToolChoice::Auto;
        if !request.parallel_calls && request.tool_choice != ToolChoice::None {
            choice["disable_parallel_tool_use"] = json!(true);
        }
        if !plain || !request.parallel_calls {
            body["tool_choice"] = choice;
        }
    }
    if !request.system.is_empty() {
        let mut system = json!({ "type": "text", "text": request.system });
        mark(&mut system);
        marks -= 1;
        body["system"] = json!([system]);
    }
    body["messages"] = Json::Array(messages(request, options, names, marks));
    if let Some(temperature) = request.temperature.filter(|_| request.effort.is_none()) {
        // While it thinks, the model takes no other temperature than its own.
        body["temperature"] = json!(wire::temperature(temperature));
    }
    if !request.stop.is_empty() {
        body["stop_sequences"] = json!(request.stop);
    }
    let mut output = Map::new();
    if let Some(effort) = request.effort {
        body["thinking"] = json!({ "type": "adaptive" });
        output.insert("effort".to_owned(), json!(effort.name()));
    }
    if let Some(wanted) = &request.output {
        output.insert("format".to_owned(), json!({ "type": "json_schema", "schema": wanted.schema }));
    }
    if !output.is_empty() {
        body["output_config"] = Json::Object(output);
    }
    body
}

/// Messages with alternating roles; the last `marks` ends of stable beginnings are marked for the cache.
fn messages(request: &Request, options: &Options, names: &Names, marks: usize) -> Vec<Json> {
    let ends: Vec<usize> = (0..request.messages.len()).filter(|place| request.messages[*place].prefix_end).collect();
    let ends = &ends[ends.len().saturating_sub(marks)..];
    let mut all: Vec<(&str, Vec<Json>)> = Vec::new();
    for (place, message) in request.messages.iter().enumerate() {
        let mut parts: Vec<Json> =
            message.blocks.iter().filter_map(|block| part(message.role, block, options, names)).collect();
        if ends.contains(&place)
            // Reasoning can't carry a mark.
            && let Some(last) = parts.iter_mut().rev().find(|part| {
                matches!(part["type"].as_str(), Some("text" | "tool_use" | "tool_result"))
            })
        {
            mark(last);
        }
        if parts.is_empty() {
            continue;
        }
        let role = if message.role == Role::Assistant { "assistant" } else { "user" };
        match all.last_mut() {
            Some((last, before)) if *last == role => before.append(&mut parts),
            _ => all.push((role, parts)),
        }
    }
    all.into_iter().map(|(role, parts)| json!({ "role": role, "content": parts })).collect()
}

fn part(role: Role, block: &Block, options: &Options, names: &Names) -> Option<Json> {
    match (role, block) {
        // Blank text is refused.
        (Role::User | Role::Assistant, Block::Text { text }) => {
            (!text.trim().is_empty()).then(|| json!({ "type": "text", "text": text }))
        }
        (Role::Assistant, Block::ToolCall(call)) => {
            let input = match &call.arguments {
                Arguments::Object { value, .. } => Json::Object(value.clone()),
                Arguments::Malformed(malformed) => json!({ "malformed_arguments": malformed.text }),
            };
            Some(json!({ "type": "tool_use", "id": call.id, "name": names.wire(&call.name), "input": input }))
        }
        (Role::Assistant, Block::Opaque(opaque)) if is_own(opaque, options) => Some(opaque.value.clone()),
        (Role::Tool, Block::ToolResult(result)) => {
            let mut part = json!({ "type": "tool_result", "tool_use_id": result.call, "content": result.content });
            if result.is_error {
                part["is_error"] = json!(true);
            }
            Some(part)
        }
        _ => None,
    }
}

fn mark(part: &mut Json) {
    part["cache_control"] = json!({ "type": "ephemeral" });
}
