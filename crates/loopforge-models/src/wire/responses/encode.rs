//! Requests.

use loopforge_core::json::Json;
use loopforge_core::model::{Block, Request, Role, ToolChoice};
use serde_json::json;

use crate::wire::chat::{arguments_text, is_own, is_strict};
use crate::wire::{self, Names, Options};

pub(in crate::wire) fn encode(request: &Request, options: &Options, names: &Names) -> Json {
    let mut body = json!({
        "model": options.model,
        "stream": true,
        "store": false,
        "input": input(request, options, names),
    });
    if options.official {
        body["include"] = json!(["reasoning.encrypted_content"]);
        if let Some(key) = &request.cache_key {
            body["prompt_cache_key"] = json!(key);
        }
    }
    if !request.system.is_empty() {
        body["instructions"] = json!(request.system);
    }
    if !request.tools.is_empty() {
        body["tools"] = request
            .tools
            .iter()
            .map(|tool| {
                json!({
                    "type": "function", "name": names.wire(&tool.name), "description": tool.description,
                    "parameters": tool.parameters, "strict": false,
                })
            })
            .collect();
        match &request.tool_choice {
            ToolChoice::Auto => {}
            ToolChoice::None => body["tool_choice"] = json!("none"),
            ToolChoice::Required => body["tool_choice"] = json!("required"),
            ToolChoice::Tool(name) => body["tool_choice"] = json!({ "type": "function", "name": names.wire(name) }),
        }
        if !request.parallel_calls {
            body["parallel_tool_calls"] = json!(false);
        }
    }
    if let Some(limit) = request.max_output_tokens.or(options.max_output_tokens) {
        body["max_output_tokens"] = json!(limit);
    }
    if let Some(temperature) = request.temperature {
        body["temperature"] = json!(wire::temperature(temperature));
    }
    if let Some(effort) = request.effort {
        body["reasoning"] = json!({ "effort": effort.name() });
    }
    if let Some(output) = &request.output {
        body["text"] = json!({ "format": {
            "type": "json_schema", "name": output.name, "schema": output.schema, "strict": is_strict(&output.schema),
        } });
    }
    body
}

fn input(request: &Request, options: &Options, names: &Names) -> Vec<Json> {
    let mut items = Vec::new();
    for message in &request.messages {
        for block in &message.blocks {
            match (message.role, block) {
                (Role::User, Block::Text { text }) => items.push(json!({
                    "type": "message", "role": "user", "content": [{ "type": "input_text", "text": text }],
                })),
                (Role::Assistant, Block::Text { text }) => items.push(json!({
                    "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }],
                })),
                (Role::Assistant, Block::ToolCall(call)) => items.push(json!({
                    "type": "function_call", "call_id": call.id, "name": names.wire(&call.name),
                    "arguments": arguments_text(call),
                })),
                (Role::Assistant, Block::Opaque(opaque)) if is_own(opaque, options) => items.push(opaque.value.clone()),
                (Role::Tool, Block::ToolResult(result)) => items.push(json!({
                    "type": "function_call_output", "call_id": result.call, "output": result.content,
                })),
                _ => {}
            }
        }
    }
    items
}
