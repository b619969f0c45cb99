//! The file of a recording: a JSON document on each line, one for each call.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use bytes::Bytes;
use loopforge_core::id::ContentHash;
use loopforge_core::json::{Json, canonical};
use loopforge_core::model::{ModelError, Reply, Request};
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::http::Pieces;
use crate::wire::{self, Api, Names, Options, Reader};
use crate::{Answer, CallContext, Description, Exchange};

/// The format of the lines that this version writes and reads.
const FORMAT: u16 = 1;

/// One recorded call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    format: u16,
    /// `provider/model` of the model that answered.
    pub model: String,
    /// Hashes of the parts of the request: settings and tools, system text, each message.
    pub asked: Vec<String>,
    /// How the provider was spoken to; none for models that aren't spoken to over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api: Option<Api>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    status: Option<u16>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    headers: Vec<(String, String)>,
    request: Body,
    response: Body,
    /// Why there was no reply.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    error: Option<ModelError>,
}

/// Bytes: as text where they are some, else in base64.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Body {
    Text(String),
    Base64(String),
}

impl Body {
    fn of(bytes: &[u8]) -> Self {
        use base64::Engine as _;
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Text(text.to_owned()),
            Err(_) => Self::Base64(base64::engine::general_purpose::STANDARD.encode(bytes)),
        }
    }

    fn bytes(&self) -> Result<Bytes, String> {
        use base64::Engine as _;
        match self {
            Self::Text(text) => Ok(Bytes::copy_from_slice(text.as_bytes())),
            Self::Base64(text) => base64::engine::general_purpose::STANDARD
                .decode(text)
                .map(Bytes::from)
                .map_err(|error| format!("base64 that can't be read: {error}")),
        }
    }
}

impl Recorded {
    /// What there is to record of a call.
    #[must_use]
    pub fn new(model: &Description, request: &Request, answer: &Answer) -> Self {
        let exchange = &answer.exchange;
        Self {
            format: FORMAT,
            model: model.name.clone(),
            asked: asked(request),
            api: exchange.api,
            status: exchange.status,
            headers: exchange.headers.clone(),
            request: Body::of(&exchange.request),
            response: Body::of(&exchange.response),
            error: answer.result.as_ref().err().cloned(),
        }
    }

    /// The answer again: the bytes are read anew, by the code that reads live ones.
    pub(super) fn answer(&self, request: &Request, context: &CallContext) -> Answer {
        let (sent, came) = match (self.request.bytes(), self.response.bytes()) {
            (Ok(sent), Ok(came)) => (sent, came),
            // The lines of a file were checked when it was read.
            _ => (Bytes::new(), Bytes::new()),
        };
        let exchange = Exchange {
            api: self.api,
            request: sent,
            response: came.clone(),
            status: self.status,
            headers: self.headers.clone(),
            first_piece: None,
        };
        let result = match (&self.error, self.api) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(api)) => self.read(api, &came, request, context),
            (None, None) => serde_json::from_slice::<Reply>(&came)
                .map_err(|error| wire::unreadable(format!("the recording can't be read: {error}"))),
        };
        Answer { result, exchange }
    }

    fn read(&self, api: Api, came: &[u8], request: &Request, context: &CallContext) -> Result<Reply, ModelError> {
        let (provider, model) = self.model.split_once('/').unwrap_or(("", &self.model));
        let options = Options { provider: provider.to_owned(), model: model.to_owned(), ..Options::default() };
        let mut reader = Reader::new(wire::decoder(api, &options), context.on_delta.clone());
        reader.take(came)?;
        Ok(reader.finish()?.complete(request, &Names::of(&request.tools)))
    }
}

/// A file that recordings are added to.
#[derive(Debug)]
pub struct Cassette {
    path: PathBuf,
    file: Mutex<File>,
}

impl Cassette {
    /// Opens a file for recording; what it holds stays.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong.
    pub fn open(path: &Path) -> Result<Self, String> {
        let file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(path)
            .map_err(|error| format!("can't record to {}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: Mutex::new(file) })
    }

    /// Adds a call.
    ///
    /// # Errors
    /// A sentence that names the file and what is wrong; the call is not in it then, or its line is cut off.
    pub fn add(&self, recorded: &Recorded) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display| format!("can't record to {}: {error}", self.path.display());
        let mut line = serde_json::to_vec(recorded).map_err(|error| failed(&error))?;
        line.push(b'\n');
        let mut file = self.file.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        file.write_all(&line).map_err(|error| failed(&error))
    }
}

/// Reads all calls of a file.
pub(super) fn read(path: &Path) -> Result<Vec<Recorded>, String> {
    let text = std::fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
    let mut all = Vec::new();
    for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        let bad = |why: String| format!("{}, line {}: {why}", path.display(), number + 1);
        let json: Json = serde_json::from_str(line).map_err(|error| bad(error.to_string()))?;
        match json["format"].as_u64() {
            Some(format) if format == u64::from(FORMAT) => {}
            Some(format) => {
                return Err(bad(format!(
                    "recordings of format {format} can't be read by this version, which has {FORMAT}"
                )));
            }
            None => return Err(bad("this is no recording of a model".to_owned())),
        }
        let recorded: Recorded = serde_json::from_value(json).map_err(|error| bad(error.to_string()))?;
        recorded.request.bytes().and_then(|_| recorded.response.bytes()).map_err(bad)?;
        all.push(recorded);
    }
    Ok(all)
}

/// The parts of a request that an answer depends on, each as a hash, so that a difference can be named. The model's name is none of them.
pub(super) fn asked(request: &Request) -> Vec<String> {
    let hash = |value: Json| ContentHash::of(canonical(&value).as_bytes()).to_string();
    let settings = json!([
        request.tools,
        request.tool_choice,
        request.parallel_calls,
        request.output,
        request.max_output_tokens,
        request.temperature,
        request.effort,
        request.stop
    ]);
    let mut parts = vec![hash(settings), hash(json!(request.system))];
    // Marks for caches change nothing that the model sees.
    parts.extend(request.messages.iter().map(|message| hash(json!([message.role, message.blocks]))));
    parts
}

/// What a part of [`asked`] is, for people.
pub(super) fn part_name(place: usize) -> String {
    match place {
        0 => "the tools or the settings".to_owned(),
        1 => "the system text".to_owned(),
        message => format!("message {}", message - 1),
    }
}
