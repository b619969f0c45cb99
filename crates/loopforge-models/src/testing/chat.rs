//! The server's side of chat completions.

use loopforge_core::json::Json;
use loopforge_core::model::{
    Arguments, Block, CallResult, Message, Reply, Request, Role, StopReason, ToolCall, ToolSchema,
};
use serde_json::{Map, json};

use super::{content_text, pieces, reply_id};

/// Reads a request, as far as scripts look at it.
pub(super) fn request(body: &Json) -> Request {
    let mut request = Request::new(format!("served/{}", body["model"].as_str().unwrap_or_default()), "", Vec::new());
    for message in body["messages"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = content_text(&message["content"]);
        match message["role"].as_str() {
            Some("system" | "developer") => request.system.push_str(&text),
            Some("assistant") => {
                let mut blocks = if text.is_empty() { Vec::new() } else { vec![Block::text(text)] };
                for call in message["tool_calls"].as_array().map(Vec::as_slice).unwrap_or_default() {
                    blocks.push(call_of(&call["id"], &call["function"]["name"], &call["function"]["arguments"]));
                }
                request.messages.push(Message::assistant(blocks));
            }
            Some("tool") => add_result(&mut request, &message["tool_call_id"], text, false),
            _ => request.messages.push(Message::user(text)),
        }
    }
    request.tools = body["tools"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|tool| tool_of(&tool["function"], "parameters"))
        .collect();
    request
}

pub(super) fn call_of(id: &Json, name: &Json, arguments: &Json) -> Block {
    Block::ToolCall(ToolCall {
        id: id.as_str().unwrap_or_default().to_owned(),
        provider_id: None,
        name: name.as_str().unwrap_or_default().to_owned(),
        arguments: match arguments {
            Json::String(text) => Arguments::read(text.as_str()),
            other => Arguments::of(other.clone()),
        },
    })
}

pub(super) fn tool_of(tool: &Json, parameters: &str) -> ToolSchema {
    ToolSchema {
        name: tool["name"].as_str().unwrap_or_default().to_owned(),
        description: tool["description"].as_str().unwrap_or_default().to_owned(),
        parameters: tool[parameters].clone(),
    }
}

/// Adds a result to the message of results that is being read.
pub(super) fn add_result(request: &mut Request, call: &Json, content: String, is_error: bool) {
    let result = CallResult { call: call.as_str().unwrap_or_default().to_owned(), content, is_error };
    match request.messages.last_mut() {
        Some(last) if last.role == Role::Tool => last.blocks.push(Block::ToolResult(result)),
        _ => request.messages.push(Message::results(vec![result])),
    }
}

/// The events of a streamed reply.
pub(super) fn stream(reply: &Reply) -> Vec<String> {
    let id = reply_id(reply);
    let chunk = |delta: Json, reason: Json| {
        let choice = json!({ "index": 0, "delta": delta, "finish_reason": reason });
        format!(
            "data: {}\n\n",
            json!({ "id": id, "object": "chat.completion.chunk", "model": reply.model, "choices": [choice] })
        )
    };
    let mut events = vec![chunk(json!({ "role": "assistant", "content": null }), Json::Null)];
    let mut index = 0;
    for block in &reply.blocks {
        match block {
            Block::Text { text } => {
                events.extend(pieces(text).into_iter().map(|piece| chunk(json!({ "content": piece }), Json::Null)));
            }
            Block::Opaque(opaque) => {
                let text = opaque.readable().unwrap_or_default();
                events.extend(
                    pieces(&text).into_iter().map(|piece| chunk(json!({ "reasoning_content": piece }), Json::Null)),
                );
            }
            Block::ToolCall(call) => {
                let mut piece = |function: Json, more: Option<&str>| {
                    let mut call =
                        Map::from_iter([("index".to_owned(), json!(index)), ("function".to_owned(), function)]);
                    if let Some(id) = more {
                        call.insert("id".to_owned(), json!(id));
                        call.insert("type".to_owned(), json!("function"));
                    }
                    events.push(chunk(json!({ "tool_calls": [call] }), Json::Null));
                };
                piece(json!({ "name": call.name, "arguments": "" }), Some(&call.id));
                for text in pieces(call.arguments.text()) {
                    piece(json!({ "arguments": text }), None);
                }
                index += 1;
            }
            Block::ToolResult(_) => {}
        }
    }
    events.push(chunk(json!({}), json!(finish_reason(reply))));
    events.push(format!("data: {}\n\n", json!({ "id": id, "choices": [], "usage": usage(reply) })));
    events.push("data: [DONE]\n\n".to_owned());
    events
}

/// A reply that is not streamed.
pub(super) fn document(reply: &Reply) -> Json {
    let calls: Vec<Json> = reply
        .calls()
        .map(|call| {
            json!({ "id": call.id, "type": "function",
                "function": { "name": call.name, "arguments": call.arguments.text() } })
        })
        .collect();
    let mut message = json!({ "role": "assistant", "content": reply.text() });
    if !calls.is_empty() {
        message["tool_calls"] = Json::Array(calls);
    }
    json!({ "id": reply_id(reply), "object": "chat.completion", "model": reply.model, "usage": usage(reply),
        "choices": [{ "index": 0, "message": message, "finish_reason": finish_reason(reply) }] })
}

fn finish_reason(reply: &Reply) -> &str {
    match &reply.stop {
        StopReason::End => "stop",
        StopReason::ToolCalls => "tool_calls",
        StopReason::Length => "length",
        StopReason::Refused => "content_filter",
        StopReason::Other(other) => other,
    }
}

fn usage(reply: &Reply) -> Json {
    let usage = &reply.usage;
    json!({
        "prompt_tokens": usage.input, "completion_tokens": usage.output, "total_tokens": usage.total(),
        "prompt_tokens_details": { "cached_tokens": usage.cached_input },
        "completion_tokens_details": { "reasoning_tokens": usage.reasoning },
    })
}
