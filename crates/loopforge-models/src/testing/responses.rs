//! The server's side of Responses.

use loopforge_core::json::Json;
use loopforge_core::model::{Block, Message, Reply, Request, Role, StopReason};
use serde_json::json;

use super::chat::{add_result, call_of, tool_of};
use super::{content_text, pieces, reply_id};

/// Reads a request, as far as scripts look at it.
pub(super) fn request(body: &Json) -> Request {
    let system = body["instructions"].as_str().unwrap_or_default();
    let mut request =
        Request::new(format!("served/{}", body["model"].as_str().unwrap_or_default()), system, Vec::new());
    for item in body["input"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let text = content_text(&item["content"]);
        match (item["type"].as_str(), item["role"].as_str()) {
            (Some("function_call"), _) => {
                add_block(&mut request, call_of(&item["call_id"], &item["name"], &item["arguments"]));
            }
            (Some("function_call_output"), _) => {
                let output = content_text(&item["output"]);
                add_result(&mut request, &item["call_id"], output, false);
            }
            (Some("message") | None, Some("assistant")) => add_block(&mut request, Block::text(text)),
            (Some("message") | None, _) => request.messages.push(Message::user(text)),
            _ => {}
        }
    }
    request.tools = body["tools"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|tool| tool_of(tool, "parameters"))
        .collect();
    request
}

/// Items of one turn of the model are one message.
fn add_block(request: &mut Request, block: Block) {
    match request.messages.last_mut() {
        Some(last) if last.role == Role::Assistant => last.blocks.push(block),
        _ => request.messages.push(Message::assistant(vec![block])),
    }
}

/// The events of a streamed reply.
pub(super) fn stream(reply: &Reply) -> Vec<String> {
    let event = |data: Json| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default());
    let id = reply_id(reply);
    let mut events = vec![event(
        json!({ "type": "response.created", "response": { "id": id, "model": reply.model, "status": "in_progress" } }),
    )];
    for (place, (block, item)) in reply.blocks.iter().zip(items(reply)).enumerate() {
        let begun = match block {
            Block::ToolCall(call) => {
                json!({ "type": "function_call", "name": call.name, "call_id": call.id, "arguments": "" })
            }
            _ => json!({ "type": item["type"] }),
        };
        events.push(event(json!({ "type": "response.output_item.added", "output_index": place, "item": begun })));
        let (kind, text) = match block {
            Block::Text { text } => ("response.output_text.delta", text.clone()),
            Block::ToolCall(call) => ("response.function_call_arguments.delta", call.arguments.text().to_owned()),
            Block::Opaque(opaque) => ("response.reasoning_summary_text.delta", opaque.readable().unwrap_or_default()),
            Block::ToolResult(_) => continue,
        };
        for piece in pieces(&text) {
            events.push(event(json!({ "type": kind, "output_index": place, "delta": piece })));
        }
        events.push(event(json!({ "type": "response.output_item.done", "output_index": place, "item": item })));
    }
    let response = document(reply);
    let kind = format!("response.{}", response["status"].as_str().unwrap_or("completed"));
    events.push(event(json!({ "type": kind, "response": response })));
    events
}

/// A reply that is not streamed.
pub(super) fn document(reply: &Reply) -> Json {
    let reason = match &reply.stop {
        StopReason::Length => Some("max_output_tokens"),
        StopReason::Refused => Some("content_filter"),
        StopReason::Other(other) => Some(other.as_str()),
        StopReason::End | StopReason::ToolCalls => None,
    };
    let usage = &reply.usage;
    json!({
        "id": reply_id(reply), "object": "response", "model": reply.model, "output": items(reply),
        "status": if reason.is_some() { "incomplete" } else { "completed" },
        "incomplete_details": reason.map(|reason| json!({ "reason": reason })),
        "usage": {
            "input_tokens": usage.input, "input_tokens_details": { "cached_tokens": usage.cached_input },
            "output_tokens": usage.output, "output_tokens_details": { "reasoning_tokens": usage.reasoning },
        },
    })
}

fn items(reply: &Reply) -> Vec<Json> {
    let item = |block: &Block| match block {
        Block::Text { text } => {
            json!({ "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
        }
        Block::ToolCall(call) => json!({
            "type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments.text(),
        }),
        Block::Opaque(opaque) => json!({
            "type": "reasoning", "encrypted_content": "opaque",
            "summary": [{ "type": "summary_text", "text": opaque.readable().unwrap_or_default() }],
        }),
        Block::ToolResult(_) => Json::Null,
    };
    reply.blocks.iter().map(item).collect()
}
