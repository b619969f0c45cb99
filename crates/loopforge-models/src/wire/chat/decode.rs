//! Replies.

use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, Block, ErrorKind, ModelError, Opaque, StopReason, ToolCall, Usage};
use serde_json::json;

use super::calls::Calls;
use super::reasoning::Reasoning;
use super::{CALL_EXTRA, CONTENT_PART};
use crate::Delta;
use crate::http::Progress;
use crate::sse::Event;
use crate::wire::json::{self, count, text};
use crate::wire::{Draft, Options};

/// Reads one reply.
#[derive(Debug, Default)]
pub(in crate::wire) struct Decoder {
    provider: String,
    model: String,
    draft: Draft,
    reasoning: Reasoning,
    /// Texts and parts of the content, in order.
    content: Vec<Block>,
    calls: Calls,
    refused: bool,
    done: bool,
}

impl Decoder {
    pub(in crate::wire) fn new(options: &Options) -> Self {
        Self { provider: options.provider.clone(), model: options.model.clone(), ..Self::default() }
    }

    fn chunk(&mut self, chunk: &Json, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<Progress, ModelError> {
        if let Some(id) = text(chunk, "id") {
            self.draft.id.get_or_insert_with(|| id.to_owned());
        }
        if let Some(model) = text(chunk, "model") {
            self.draft.model.get_or_insert_with(|| model.to_owned());
        }
        for place in [chunk.get("usage"), chunk.pointer("/x_groq/usage"), chunk.pointer("/choices/0/usage")] {
            if let Some(found) = place.filter(|found| found.is_object()) {
                self.draft.usage = usage(found);
            }
        }
        let choices = chunk.get("choices").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        for choice in choices {
            if choice.get("index").and_then(Json::as_u64).unwrap_or_default() > 0 {
                continue;
            }
            if let Some(error) = json::error_in(choice) {
                return Err(error);
            }
            for key in ["delta", "message"] {
                if let Some(message) = choice.get(key).filter(|message| message.is_object()) {
                    self.message(message, deltas)?;
                }
            }
            if let Some(reason) = text(choice, "finish_reason") {
                self.draft.stop = Some(stop(reason)?);
            }
        }
        Ok(Progress::Piece)
    }

    /// A whole message, or a piece of one: they have the same members.
    fn message(&mut self, message: &Json, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<(), ModelError> {
        if let Some(more) = self.reasoning.add(message) {
            deltas(Delta::Reasoning(more));
        }
        match message.get("content") {
            Some(Json::String(more)) => self.text(more, deltas),
            Some(Json::Array(parts)) => {
                for part in parts {
                    match (part.get("type").and_then(Json::as_str), part.get("text").and_then(Json::as_str)) {
                        (Some("text" | "output_text") | None, Some(more)) => self.text(more, deltas),
                        _ => self.content.push(self.opaque(json!({ CONTENT_PART: part }))),
                    }
                }
            }
            _ => {}
        }
        if let Some(more) = text(message, "refusal") {
            self.refused = true;
            self.text(more, deltas);
        }
        if let Some(calls) = message.get("tool_calls").and_then(Json::as_array) {
            for call in calls.iter().filter(|call| call.is_object()) {
                if self.calls.add(call)?
                    && let Some(begun) = self.calls.0.last()
                {
                    deltas(Delta::Call(&begun.name));
                }
            }
        }
        Ok(())
    }

    fn text(&mut self, more: &str, deltas: &mut dyn FnMut(Delta<'_>)) {
        if more.is_empty() {
            return;
        }
        deltas(Delta::Text(more));
        match self.content.last_mut() {
            Some(Block::Text { text }) => text.push_str(more),
            _ => self.content.push(Block::text(more)),
        }
    }

    fn opaque(&self, value: Json) -> Block {
        Block::Opaque(Opaque { provider: self.provider.clone(), model: self.model.clone(), value })
    }
}

impl crate::wire::Decoder for Decoder {
    fn event(&mut self, event: &Event, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<Progress, ModelError> {
        let data = event.data.trim();
        if data == "[DONE]" {
            self.done = true;
            return Ok(Progress::End);
        }
        if data.is_empty() {
            return Ok(Progress::KeepAlive);
        }
        let chunk = json::read(data, &mut self.draft.marks)?;
        if let Some(error) = json::error_in(&chunk) {
            return Err(error);
        }
        if event.name == "error" {
            return Err(crate::http::classified(200, &crate::http::Said::from_json(&chunk), None));
        }
        self.chunk(&chunk, deltas)
    }

    fn whole(&mut self, body: Json) -> Result<(), ModelError> {
        if body.get("choices").and_then(Json::as_array).is_none_or(Vec::is_empty) {
            return Err(json::unreadable("what came has no `choices`: it is no answer of a model"));
        }
        self.done = true;
        self.chunk(&body, &mut |_| {}).map(|_| ())
    }

    fn finish(&mut self) -> Result<Draft, ModelError> {
        let mut draft = std::mem::take(&mut self.draft);
        // The reason for stopping is no end: what follows it, the use, can be cut off as well.
        if !self.done {
            return Err(json::truncated("its stream has no end"));
        }
        if let Some(value) = std::mem::take(&mut self.reasoning).finish() {
            draft.blocks.push(self.opaque(value));
        }
        draft.blocks.append(&mut self.content);
        for call in std::mem::take(&mut self.calls).0 {
            if call.name.is_empty() {
                return Err(json::unreadable("a call of the reply has no name"));
            }
            if !call.extra.is_empty() {
                draft.blocks.push(self.opaque(json!({ CALL_EXTRA: call.extra })));
            }
            draft.blocks.push(Block::ToolCall(ToolCall {
                id: call.id,
                provider_id: None,
                name: call.name,
                arguments: Arguments::read(call.arguments),
            }));
        }
        if self.refused {
            draft.stop = Some(StopReason::Refused);
        }
        Ok(draft)
    }

    fn usage(&self) -> Usage {
        self.draft.usage
    }
}

/// Reasons of OpenAI and others. Some are errors that came too late for a status.
fn stop(reason: &str) -> Result<StopReason, ModelError> {
    Ok(match reason {
        "stop" | "eos" | "stop_sequence" | "end_turn" => StopReason::End,
        "tool_calls" | "function_call" | "tool_use" => StopReason::ToolCalls,
        "length" | "max_tokens" | "model_length" => StopReason::Length,
        "content_filter" | "sensitive" | "refusal" | "safety" | "SAFETY" => StopReason::Refused,
        "insufficient_system_resource" => {
            return Err(ModelError::new(ErrorKind::Overloaded, "the provider has no room now, and cut the reply off"));
        }
        "error" | "network_error" | "abort" => {
            return Err(json::truncated(&format!("the provider gives `{reason}` as the reason")));
        }
        other => StopReason::Other(other.to_owned()),
    })
}

/// Use, as OpenAI, DeepSeek, Moonshot and gateways to Anthropic tell it.
pub(super) fn usage(json: &Json) -> Usage {
    let first = |places: &[&str]| places.iter().find_map(|place| count(json, place));
    let input = first(&["/prompt_tokens", "/input_tokens"]);
    let written = first(&["/completion_tokens", "/output_tokens"]);
    // With some providers reasoning is no part of the completion, but always of the total.
    let output = match (count(json, "/total_tokens"), input, written) {
        (Some(total), Some(input), Some(written)) => Some(written.max(total.saturating_sub(input))),
        (_, _, written) => written,
    };
    Usage {
        input,
        cached_input: first(&["/prompt_tokens_details/cached_tokens", "/prompt_cache_hit_tokens", "/cached_tokens"]),
        cache_write: first(&["/prompt_tokens_details/cache_creation_tokens", "/cache_creation_input_tokens"]),
        output,
        reasoning: count(json, "/completion_tokens_details/reasoning_tokens"),
    }
}
