//! Replies.

use std::collections::BTreeMap;

use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, Block, ModelError, Opaque, StopReason, ToolCall, Usage};

use crate::Delta;
use crate::http::{Progress, Said, classified};
use crate::sse::Event;
use crate::wire::json::{self, count, text};
use crate::wire::{Draft, Options};

/// Reads one reply.
///
/// Items count once they are done; the pieces before are for showing only.
#[derive(Debug, Default)]
pub(in crate::wire) struct Decoder {
    provider: String,
    model: String,
    draft: Draft,
    /// Whole items, by their place in the reply.
    items: BTreeMap<u64, Json>,
    /// Places of items that began.
    begun: BTreeMap<u64, ()>,
    done: bool,
}

impl Decoder {
    pub(in crate::wire) fn new(options: &Options) -> Self {
        Self { provider: options.provider.clone(), model: options.model.clone(), ..Self::default() }
    }

    /// Takes the response object, whose `output` is complete once its status says so.
    fn response(&mut self, response: &Json, complete: bool) -> Result<(), ModelError> {
        if let Some(id) = text(response, "id") {
            self.draft.id = Some(id.to_owned());
        }
        if let Some(model) = text(response, "model") {
            self.draft.model = Some(model.to_owned());
        }
        if let Some(found) = response.get("usage").filter(|found| found.is_object()) {
            self.draft.usage = usage(found);
        }
        if !complete {
            return Ok(());
        }
        if let Some(error) = response.get("error").filter(|error| error.is_object()) {
            return Err(classified(200, &Said::from_json(error), None));
        }
        let output = response.get("output").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
        for (place, item) in output.iter().enumerate() {
            self.items.entry(place as u64).or_insert_with(|| item.clone());
        }
        let reason = response.pointer("/incomplete_details/reason").and_then(Json::as_str);
        self.draft.stop = Some(match (text(response, "status"), reason) {
            (Some("completed") | None, None) => StopReason::End,
            (_, Some("max_output_tokens" | "max_tokens")) => StopReason::Length,
            (_, Some("content_filter")) => StopReason::Refused,
            (Some("failed" | "cancelled"), _) => {
                return Err(json::truncated("the provider says that it failed, without a reason"));
            }
            (_, Some(other)) | (Some(other), None) => StopReason::Other(other.to_owned()),
        });
        self.done = true;
        Ok(())
    }

    fn item(&mut self, item: &Json) -> Result<(), ModelError> {
        match text(item, "type") {
            Some("message") => {
                let parts = item.get("content").and_then(Json::as_array).map(Vec::as_slice).unwrap_or_default();
                let mut whole = String::new();
                for part in parts {
                    if let Some(refusal) = text(part, "refusal") {
                        self.draft.stop = Some(StopReason::Refused);
                        whole.push_str(refusal);
                    } else if let Some(more) = text(part, "text") {
                        whole.push_str(more);
                    }
                }
                self.draft.blocks.push(Block::text(whole));
            }
            Some("function_call") => {
                let Some(name) = text(item, "name") else {
                    return Err(json::unreadable("a call of the reply has no name"));
                };
                let arguments = match item.get("arguments") {
                    Some(Json::String(text)) => Arguments::read(text.as_str()),
                    None => Arguments::read(""),
                    Some(other) => Arguments::of(other.clone()),
                };
                self.draft.blocks.push(Block::ToolCall(ToolCall {
                    id: text(item, "call_id").or_else(|| text(item, "id")).unwrap_or_default().to_owned(),
                    provider_id: None,
                    name: name.to_owned(),
                    arguments,
                }));
            }
            _ => self.draft.blocks.push(Block::Opaque(Opaque {
                provider: self.provider.clone(),
                model: self.model.clone(),
                value: item.clone(),
            })),
        }
        Ok(())
    }
}

impl crate::wire::Decoder for Decoder {
    fn event(&mut self, event: &Event, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<Progress, ModelError> {
        let data = event.data.trim();
        // Not of this form, but gateways end every stream so.
        if data == "[DONE]" {
            return Ok(Progress::KeepAlive);
        }
        if data.is_empty() {
            return Ok(Progress::KeepAlive);
        }
        let json = json::read(data, &mut self.draft.marks)?;
        let kind = text(&json, "type").unwrap_or(&event.name);
        let place = count(&json, "/output_index");
        match kind {
            "response.created" | "response.in_progress" | "response.queued" => {
                self.response(json.get("response").unwrap_or(&Json::Null), false)?;
            }
            "response.output_item.added" => {
                if let Some(place) = place {
                    self.begun.insert(place, ());
                }
                if let Some(name) = json.get("item").and_then(|item| text(item, "name")) {
                    deltas(Delta::Call(name));
                }
            }
            "response.output_item.done" => {
                // Without a place (llama.cpp) it follows the ones before.
                let next = || self.items.keys().last().map_or(0, |last| last + 1);
                if let Some(item) = json.get("item") {
                    let place = place.unwrap_or_else(next);
                    self.items.insert(place, item.clone());
                }
            }
            "response.output_text.delta" | "response.refusal.delta" => {
                if let Some(more) = text(&json, "delta") {
                    deltas(Delta::Text(more));
                }
            }
            "response.reasoning_summary_text.delta" | "response.reasoning_text.delta" => {
                if let Some(more) = text(&json, "delta") {
                    deltas(Delta::Reasoning(more));
                }
            }
            "response.completed" | "response.incomplete" | "response.failed" => {
                self.response(json.get("response").unwrap_or(&Json::Null), true)?;
                return Ok(Progress::End);
            }
            "error" => return Err(classified(200, &Said::from_json(&json), None)),
            _ => {
                if let Some(error) = json::error_in(&json) {
                    return Err(error);
                }
            }
        }
        Ok(Progress::Piece)
    }

    fn whole(&mut self, body: Json) -> Result<(), ModelError> {
        if !body.get("output").is_some_and(Json::is_array) {
            return Err(json::unreadable("what came has no `output`: it is no answer of a model"));
        }
        self.response(&body, true)
    }

    fn finish(&mut self) -> Result<Draft, ModelError> {
        if !self.done {
            return Err(json::truncated("its stream has no end"));
        }
        // At the limit of output the last item may have no end; it is left out, as it would be at any other place.
        if self.draft.stop == Some(StopReason::End)
            && let Some(place) = self.begun.keys().find(|place| !self.items.contains_key(*place))
        {
            return Err(json::truncated(&format!("part {place} of it has no end")));
        }
        for item in std::mem::take(&mut self.items).into_values() {
            self.item(&item)?;
        }
        Ok(std::mem::take(&mut self.draft))
    }

    fn usage(&self) -> Usage {
        self.draft.usage
    }
}

fn usage(json: &Json) -> Usage {
    Usage {
        input: count(json, "/input_tokens"),
        cached_input: count(json, "/input_tokens_details/cached_tokens"),
        cache_write: None,
        output: count(json, "/output_tokens"),
        reasoning: count(json, "/output_tokens_details/reasoning_tokens"),
    }
}
