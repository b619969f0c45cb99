//! The forms in which providers speak: requests are written, replies are read.
//!
//! Pure: bytes in, values out. A recording is read by the same code as a live reply.

mod chat;
mod ids;
mod json;
mod messages;
mod names;
mod reader;
mod responses;
#[cfg(test)]
mod testing;

use bytes::Bytes;
use loopforge_core::json::Json;
pub use loopforge_core::model::Api;
use loopforge_core::model::{Block, ModelError, Reply, Request, StopReason, Usage};
use serde_json::Map;

use crate::Delta;
use crate::http::Progress;
use crate::sse::Event;

pub(crate) use json::unreadable;
pub(crate) use names::Names;
pub(crate) use reader::Reader;

/// What shapes requests to one model besides the prompt.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Options {
    /// The provider's name, which marks opaque blocks.
    pub(crate) provider: String,
    /// The model's name as it is sent.
    pub(crate) model: String,
    /// The server is the provider's own, not one that only speaks like it: its newer fields are known.
    pub(crate) official: bool,
    /// The server refuses a message of the user right after results of tools (Mistral does).
    pub(crate) no_user_after_results: bool,
    /// The most tokens of output, where the request says nothing.
    pub(crate) max_output_tokens: Option<u32>,
    /// Members that replace those of the body; `null` takes one out.
    pub(crate) body: Map<String, Json>,
}

/// A request on its way out.
#[derive(Debug)]
pub(crate) struct Encoded {
    pub(crate) body: Bytes,
    pub(crate) names: Names,
}

/// Writes a request.
pub(crate) fn encode(api: Api, request: &Request, options: &Options) -> Encoded {
    let names = Names::of(&request.tools);
    let mut body = match api {
        Api::Chat => chat::encode(request, options, &names),
        Api::Responses => responses::encode(request, options, &names),
        Api::Messages => messages::encode(request, options, &names),
    };
    if let Json::Object(members) = &mut body {
        for (key, value) in &options.body {
            match value {
                Json::Null => members.remove(key),
                value => members.insert(key.clone(), value.clone()),
            };
        }
    }
    Encoded { body: body.to_string().into(), names }
}

/// A temperature in as many digits as people give: `0.2`, also where it was a shorter float before.
fn temperature(value: f64) -> f64 {
    (value * 1000.0).round() / 1000.0
}

/// What reads the replies of `api`.
pub(crate) fn decoder(api: Api, options: &Options) -> Box<dyn Decoder> {
    match api {
        Api::Chat => Box::new(chat::Decoder::new(options)),
        Api::Responses => Box::new(responses::Decoder::new(options)),
        Api::Messages => Box::new(messages::Decoder::new(options)),
    }
}

/// Reads one reply.
pub(crate) trait Decoder: Send {
    /// Takes an event of a stream.
    fn event(&mut self, event: &Event, deltas: &mut dyn FnMut(Delta<'_>)) -> Result<Progress, ModelError>;

    /// Takes a reply that came as one document: some servers don't stream.
    fn whole(&mut self, body: Json) -> Result<(), ModelError>;

    /// Ends the reply. It is an error where the reply has no end.
    fn finish(&mut self) -> Result<Draft, ModelError>;

    /// What is known of use so far.
    fn usage(&self) -> Usage;
}

/// A reply as the provider gave it: ids and names are still the provider's.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    pub(crate) id: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) blocks: Vec<Block>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Usage,
    pub(crate) marks: Vec<String>,
}

impl Draft {
    /// Makes ids unique and names the task's own, and cleans texts.
    pub(crate) fn complete(mut self, request: &Request, names: &Names) -> Reply {
        let mut nul = 0;
        for block in &mut self.blocks {
            match block {
                Block::Text { text } => {
                    let (clean, cleaned) = loopforge_core::json::clean_text(std::mem::take(text));
                    nul += cleaned.nul;
                    *text = clean;
                }
                Block::ToolCall(call) => call.name = names.own(&call.name).to_owned(),
                Block::Opaque(_) | Block::ToolResult(_) => {}
            }
        }
        if nul > 0 {
            self.marks.push(format!("{nul} × NUL replaced"));
        }
        self.blocks.retain(|block| !matches!(block, Block::Text { text } if text.is_empty()));
        ids::make_unique(&mut self.blocks, request, &mut self.marks);
        let calls = self.blocks.iter().any(|block| matches!(block, Block::ToolCall(_)));
        let stop = match self.stop {
            // Several servers say `stop` although the reply ends in calls.
            Some(StopReason::End | StopReason::Other(_)) | None if calls => StopReason::ToolCalls,
            Some(stop) => stop,
            None => StopReason::Other("the provider gave no reason".to_owned()),
        };
        Reply { id: self.id, model: self.model, blocks: self.blocks, stop, usage: self.usage, marks: self.marks }
    }
}
