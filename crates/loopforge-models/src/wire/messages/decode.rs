//! Replies.

use std::collections::BTreeMap;

use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, Block, ModelError, Opaque, StopReason, ToolCall, Usage};
use serde_json::json;

use crate::Delta;
use crate::http::{Progress, Said, classified};
use crate::sse::Event;
use crate::wire::json::{self, count, text, unreadable};
use crate::wire::{Draft, Options};

/// Reads one reply.
#[derive(Debug, Default)]
pub(in crate::wire) struct Decoder {
    provider: String,
    model: String,
    draft: Draft,
    tokens: Tokens,
    parts: BTreeMap<u64, Part>,
    done: bool,
}

/// A part of the content as far as it has come.
#[derive(Debug)]
struct Part {
    /// The part as it began, with texts added.
    json: Json,
    /// The text of a call's arguments.
    input: String,
}

/// The counts as they are told; the latest word holds.
#[derive(Debug, Default, Clone, Copy)]
struct Tokens {
    input: Option<u64>,
    read: Option<u64>,
    written: Option<u64>,
    output: Option<u64>,
}

impl Decoder {
    pub(in crate::wire) fn new(options: &Options) -> Self {
        Self { provider: options.provider.clone(), model: options.model.clone(), ..Self::default() }
    }

    fn message(&mut self, message: &Json) {
        if let Some(id) = text(message, "id") {
            self.draft.id = Some(id.to_owned());
        }
        if let Some(model) = text(message, "model") {
            self.draft.model = Some(model.to_owned());
        }
        self.stop(message);
        self.tokens.take(message.get("usage"));
    }

    fn stop(&mut self, json: &Json) {
        if let Some(reason) = text(json, "stop_reason") {
            self.draft.stop = Some(match reason {
                "end_turn" | "stop_sequence" => StopReason::End,
                "tool_use" => StopReason::ToolCalls,
                "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
                "refusal" => StopReason::Refused,
                other => StopReason::Other(other.to_owned()),
            });
        }
    }

    fn begin(&mut self, place: u64, json: Json, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<(), ModelError> {
        if let ("tool_use", Some(name)) = (text(&json, "type").unwrap_or_default(), text(&json, "name")) {
            deltas(Delta::Call(name));
        }
        if let Some(more) = text(&json, "text") {
            deltas(Delta::Text(more));
        }
        if self.parts.insert(place, Part { json, input: String::new() }).is_some() {
            return Err(unreadable(format!("part {place} of the reply began twice")));
        }
        Ok(())
    }

    fn add(&mut self, place: u64, delta: &Json, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<(), ModelError> {
        let Some(part) = self.parts.get_mut(&place) else {
            return Err(unreadable(format!("a piece belongs to part {place} of the reply, which has not begun")));
        };
        match text(delta, "type").unwrap_or_default() {
            "text_delta" => {
                if let Some(more) = text(delta, "text") {
                    deltas(Delta::Text(more));
                    append(&mut part.json, "text", more);
                }
            }
            "thinking_delta" => {
                if let Some(more) = text(delta, "thinking") {
                    deltas(Delta::Reasoning(more));
                    append(&mut part.json, "thinking", more);
                }
            }
            "signature_delta" => {
                if let Some(more) = text(delta, "signature") {
                    append(&mut part.json, "signature", more);
                }
            }
            "input_json_delta" => part.input.push_str(text(delta, "partial_json").unwrap_or_default()),
            "citations_delta" => {
                if let (Some(citation), Json::Object(members)) = (delta.get("citation"), &mut part.json)
                    && let Json::Array(all) = members.entry("citations").or_insert_with(|| json!([]))
                {
                    all.push(citation.clone());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn block(&self, part: Part) -> Result<Block, ModelError> {
        Ok(match text(&part.json, "type").unwrap_or_default() {
            "text" => Block::text(part.json["text"].as_str().unwrap_or_default()),
            "tool_use" => {
                let Some(name) = text(&part.json, "name") else {
                    return Err(unreadable("a call of the reply has no name"));
                };
                // Without pieces the arguments stand at the beginning, where there are any.
                let arguments = match part.json.get("input") {
                    Some(input)
                        if part.input.is_empty() && !input.as_object().is_some_and(serde_json::Map::is_empty) =>
                    {
                        Arguments::of(input.clone())
                    }
                    _ => Arguments::read(part.input),
                };
                Block::ToolCall(ToolCall {
                    id: text(&part.json, "id").unwrap_or_default().to_owned(),
                    provider_id: None,
                    name: name.to_owned(),
                    arguments,
                })
            }
            _ => {
                let mut value = part.json;
                if !part.input.is_empty()
                    && let Arguments::Object { value: input, .. } = Arguments::read(part.input)
                {
                    set(&mut value, "input", Json::Object(input));
                }
                Block::Opaque(Opaque { provider: self.provider.clone(), model: self.model.clone(), value })
            }
        })
    }
}

impl crate::wire::Decoder for Decoder {
    fn event(&mut self, event: &Event, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<Progress, ModelError> {
        let data = event.data.trim();
        // Not of this form, but gateways end every stream so.
        if data.is_empty() || data == "[DONE]" {
            return Ok(Progress::KeepAlive);
        }
        let mut json = json::read(data, &mut self.draft.marks)?;
        let kind = text(&json, "type").unwrap_or(&event.name).to_owned();
        let place = count(&json, "/index").unwrap_or_default();
        match kind.as_str() {
            "message_start" => self.message(json.get("message").unwrap_or(&Json::Null)),
            "content_block_start" => {
                let block = json.get_mut("content_block").map(Json::take).unwrap_or_default();
                self.begin(place, block, deltas)?;
            }
            "content_block_delta" => self.add(place, &json["delta"], deltas)?,
            "content_block_stop" => {}
            "message_delta" => {
                self.stop(&json["delta"]);
                self.tokens.take(json.get("usage"));
            }
            "message_stop" => {
                self.done = true;
                return Ok(Progress::End);
            }
            "ping" => return Ok(Progress::KeepAlive),
            "error" => return Err(classified(200, &Said::from_json(&json), None)),
            _ => {
                if let Some(error) = json::error_in(&json) {
                    return Err(error);
                }
            }
        }
        Ok(Progress::Piece)
    }

    fn whole(&mut self, mut body: Json) -> Result<(), ModelError> {
        let Some(Json::Array(parts)) = body.get_mut("content").map(Json::take) else {
            return Err(unreadable("what came has no `content`: it is no answer of a model"));
        };
        self.message(&body);
        for (place, part) in parts.into_iter().enumerate() {
            self.begin(place as u64, part, &mut |_| {})?;
        }
        self.done = true;
        Ok(())
    }

    fn finish(&mut self) -> Result<Draft, ModelError> {
        if !self.done {
            return Err(json::truncated("its stream has no end"));
        }
        for part in std::mem::take(&mut self.parts).into_values() {
            let block = self.block(part)?;
            self.draft.blocks.push(block);
        }
        self.draft.usage = self.tokens.usage();
        Ok(std::mem::take(&mut self.draft))
    }

    fn usage(&self) -> Usage {
        self.tokens.usage()
    }
}

impl Tokens {
    fn take(&mut self, usage: Option<&Json>) {
        let Some(usage) = usage else { return };
        // The end repeats counts of the beginning, with some servers as 0.
        let latest = |place: &str, before: Option<u64>| before.max(count(usage, place));
        self.input = latest("/input_tokens", self.input);
        self.read = latest("/cache_read_input_tokens", self.read);
        self.written = latest("/cache_creation_input_tokens", self.written);
        self.output = latest("/output_tokens", self.output);
    }

    /// Here `input_tokens` are only those that the cache has nothing to do with.
    fn usage(self) -> Usage {
        Usage {
            input: self.input.map(|input| input + self.read.unwrap_or_default() + self.written.unwrap_or_default()),
            cached_input: self.read,
            cache_write: self.written,
            output: self.output,
            reasoning: None,
        }
    }
}

fn append(json: &mut Json, key: &str, more: &str) {
    match json.get_mut(key) {
        Some(Json::String(before)) => before.push_str(more),
        _ => set(json, key, json!(more)),
    }
}

fn set(json: &mut Json, key: &str, value: Json) {
    if let Json::Object(members) = json {
        members.insert(key.to_owned(), value);
    }
}
