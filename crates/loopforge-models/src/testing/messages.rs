//! The server's side of Messages.

use loopforge_core::json::Json;
use loopforge_core::model::{Block, Message, Reply, Request, StopReason};
use serde_json::json;

use super::chat::{add_result, call_of, tool_of};
use super::{content_text, pieces, reply_id};

/// Reads a request, as far as scripts look at it.
pub(super) fn request(body: &Json) -> Request {
    let system = content_text(&body["system"]);
    let mut request =
        Request::new(format!("served/{}", body["model"].as_str().unwrap_or_default()), system, Vec::new());
    for message in body["messages"].as_array().map(Vec::as_slice).unwrap_or_default() {
        let whole = [json!({ "type": "text", "text": message["content"] })];
        let parts = message["content"].as_array().map_or(whole.as_slice(), Vec::as_slice);
        if message["role"] == "assistant" {
            let blocks = parts.iter().filter_map(|part| match part["type"].as_str() {
                Some("text") => Some(Block::text(part["text"].as_str().unwrap_or_default())),
                Some("tool_use") => Some(call_of(&part["id"], &part["name"], &part["input"])),
                _ => None,
            });
            request.messages.push(Message::assistant(blocks.collect()));
            continue;
        }
        for part in parts {
            match part["type"].as_str() {
                Some("tool_result") => {
                    let is_error = part["is_error"] == true;
                    add_result(&mut request, &part["tool_use_id"], content_text(&part["content"]), is_error);
                }
                _ => request.messages.push(Message::user(part["text"].as_str().unwrap_or_default())),
            }
        }
    }
    request.tools = body["tools"]
        .as_array()
        .map(Vec::as_slice)
        .unwrap_or_default()
        .iter()
        .map(|tool| tool_of(tool, "input_schema"))
        .collect();
    request
}

/// The events of a streamed reply.
pub(super) fn stream(reply: &Reply) -> Vec<String> {
    let event = |data: Json| format!("event: {}\ndata: {data}\n\n", data["type"].as_str().unwrap_or_default());
    let mut begun = usage(reply);
    begun["output_tokens"] = json!(1);
    let start = json!({ "id": reply_id(reply), "type": "message", "role": "assistant", "model": reply.model, "content": [], "usage": begun });
    let mut events =
        vec![event(json!({ "type": "message_start", "message": start })), event(json!({ "type": "ping" }))];
    for (index, block) in reply.blocks.iter().enumerate() {
        let (start, key, kind, text) = match block {
            Block::Text { text } => (json!({ "type": "text", "text": "" }), "text", "text_delta", text.clone()),
            Block::ToolCall(call) => (
                json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": {} }),
                "partial_json",
                "input_json_delta",
                call.arguments.text().to_owned(),
            ),
            Block::Opaque(opaque) => (
                json!({ "type": "thinking", "thinking": "", "signature": "" }),
                "thinking",
                "thinking_delta",
                opaque.readable().unwrap_or_default(),
            ),
            Block::ToolResult(_) => continue,
        };
        events.push(event(json!({ "type": "content_block_start", "index": index, "content_block": start })));
        let mut delta =
            |delta: Json| events.push(event(json!({ "type": "content_block_delta", "index": index, "delta": delta })));
        for piece in pieces(&text) {
            delta(json!({ "type": kind, key: piece }));
        }
        if kind == "thinking_delta" {
            delta(json!({ "type": "signature_delta", "signature": "signed" }));
        }
        events.push(event(json!({ "type": "content_block_stop", "index": index })));
    }
    let end = json!({ "type": "message_delta", "delta": { "stop_reason": stop_reason(reply) }, "usage": { "output_tokens": reply.usage.output } });
    events.extend([event(end), event(json!({ "type": "message_stop" }))]);
    events
}

/// A reply that is not streamed.
pub(super) fn document(reply: &Reply) -> Json {
    let part = |block: &Block| match block {
        Block::Text { text } => json!({ "type": "text", "text": text }),
        Block::ToolCall(call) => {
            json!({ "type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments.object() })
        }
        Block::Opaque(opaque) => {
            json!({ "type": "thinking", "thinking": opaque.readable().unwrap_or_default(), "signature": "signed" })
        }
        Block::ToolResult(_) => Json::Null,
    };
    let content: Vec<Json> = reply.blocks.iter().map(part).collect();
    json!({ "id": reply_id(reply), "type": "message", "role": "assistant", "model": reply.model, "content": content,
        "stop_reason": stop_reason(reply), "usage": usage(reply) })
}

fn stop_reason(reply: &Reply) -> &str {
    match &reply.stop {
        StopReason::End => "end_turn",
        StopReason::ToolCalls => "tool_use",
        StopReason::Length => "max_tokens",
        StopReason::Refused => "refusal",
        StopReason::Other(other) => other,
    }
}

/// Here the parts that caches have to do with stand apart.
fn usage(reply: &Reply) -> Json {
    let usage = &reply.usage;
    let (read, written) = (usage.cached_input.unwrap_or_default(), usage.cache_write.unwrap_or_default());
    json!({
        "input_tokens": usage.input.map(|input| input.saturating_sub(read).saturating_sub(written)),
        "cache_read_input_tokens": read, "cache_creation_input_tokens": written, "output_tokens": usage.output,
    })
}
