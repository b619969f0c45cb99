//! A server of models for tests: it plays a script over real connections, in the form in which it is asked.
//!
//! For tests of whoever uses models over HTTP. It runs on this machine's loopback, keeps what it was asked, and fails as the script says:
//! with a status, in the middle of a stream, or by silence.

mod chat;
mod connection;
mod messages;
mod responses;

use std::sync::{Arc, Mutex, PoisonError};

use loopforge_core::json::Json;
use loopforge_core::model::{ErrorKind, ModelError, Reply, Request};
use serde_json::json;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::script::{Fault, Script, ScriptModel};
use crate::wire::Api;

/// A server that plays a script. It ends when it is dropped.
#[derive(Debug)]
pub struct ModelServer {
    address: std::net::SocketAddr,
    shared: Arc<Shared>,
    stop: CancellationToken,
}

/// A request that the server got.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// The form, by the path.
    pub api: Api,
    /// The body.
    pub body: Json,
    /// The key that was sent, if any.
    pub key: Option<String>,
    /// The rule that answered; none where none fits.
    pub rule: Option<String>,
}

#[derive(Debug)]
struct Shared {
    script: ScriptModel,
    asked: Mutex<Vec<Asked>>,
}

impl ModelServer {
    /// Starts a server on a free port.
    ///
    /// # Errors
    /// No port can be had.
    pub async fn start(script: Script) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let server = Self {
            address: listener.local_addr()?,
            shared: Arc::new(Shared { script: ScriptModel::new("served/script", script), asked: Mutex::default() }),
            stop: CancellationToken::new(),
        };
        let (shared, stop) = (Arc::clone(&server.shared), server.stop.clone());
        tokio::spawn(async move {
            loop {
                let stream = tokio::select! {
                    () = stop.cancelled() => return,
                    accepted = listener.accept() => accepted,
                };
                let Ok((stream, _)) = stream else { continue };
                let (shared, stop) = (Arc::clone(&shared), stop.clone());
                tokio::spawn(async move {
                    tokio::select! {
                        () = stop.cancelled() => {}
                        // The client went away: there is nobody to tell.
                        _ = connection::serve(stream, &shared) => {}
                    }
                });
            }
        });
        Ok(server)
    }

    /// The `base_url` for models, of all three forms.
    #[must_use]
    pub fn base_url(&self) -> String {
        format!("http://{}/v1", self.address)
    }

    /// What it was asked, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// What is sent for a request.
struct Answer {
    delay: std::time::Duration,
    status: u16,
    headers: Vec<(&'static str, String)>,
    /// Events of a stream, or one document.
    parts: Vec<String>,
    end: End,
}

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// As it should.
    Whole,
    /// With the connection, after half of it.
    Cut,
    /// Never: nothing is sent until the client goes.
    Silent,
}

impl Shared {
    /// What is sent for a request to `path`.
    fn answer(&self, path: &str, key: Option<String>, body: &[u8]) -> Answer {
        let api = match path {
            _ if path.ends_with("/chat/completions") => Api::Chat,
            _ if path.ends_with("/responses") => Api::Responses,
            _ if path.ends_with("/messages") => Api::Messages,
            _ => return failure(Api::Chat, &ModelError::new(ErrorKind::NoSuchModel, "there is nothing here")),
        };
        let json: Json = serde_json::from_slice(body).unwrap_or_default();
        let played = match request(api, &json) {
            Ok(request) => self.script.play(&request),
            Err(problem) => Err(ModelError::new(ErrorKind::InvalidRequest, problem)),
        };
        let streamed = json["stream"] == true;
        let rule = played.as_ref().ok().map(|played| played.rule.clone());
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).push(Asked { api, body: json, key, rule });
        let played = match played {
            Ok(played) => played,
            Err(error) => return failure(api, &error),
        };
        if let Some(Fault::Error(error)) = &played.fault {
            return Answer { delay: played.delay, ..failure(api, &error.to_error()) };
        }
        let parts = match (api, streamed) {
            (Api::Chat, true) => chat::stream(&played.reply),
            (Api::Responses, true) => responses::stream(&played.reply),
            (Api::Messages, true) => messages::stream(&played.reply),
            (Api::Chat, false) => vec![chat::document(&played.reply).to_string()],
            (Api::Responses, false) => vec![responses::document(&played.reply).to_string()],
            (Api::Messages, false) => vec![messages::document(&played.reply).to_string()],
        };
        let kind = if streamed { "text/event-stream" } else { "application/json" };
        let end = match played.fault {
            Some(Fault::Cut) => End::Cut,
            Some(Fault::Silent) => End::Silent,
            Some(Fault::Error(_)) | None => End::Whole,
        };
        Answer { delay: played.delay, status: 200, headers: vec![("content-type", kind.to_owned())], parts, end }
    }
}

fn request(api: Api, body: &Json) -> Result<Request, String> {
    let request = match api {
        Api::Chat => chat::request(body),
        Api::Responses => responses::request(body),
        Api::Messages => messages::request(body),
    };
    // As providers do: a conversation with holes is refused.
    match request.unpaired() {
        Some(problem) => Err(problem),
        None => Ok(request),
    }
}

/// An error as providers send it.
fn failure(api: Api, error: &ModelError) -> Answer {
    let (status, code, kind) = match error.kind {
        ErrorKind::RateLimited => (429, "rate_limit_exceeded", "rate_limit_error"),
        ErrorKind::Overloaded => {
            (if api == Api::Messages { 529 } else { 503 }, "server_overloaded", "overloaded_error")
        }
        ErrorKind::ContextTooLong => (400, "context_length_exceeded", "invalid_request_error"),
        ErrorKind::Refused => (400, "content_filter", "invalid_request_error"),
        ErrorKind::Unauthorized => (401, "invalid_api_key", "authentication_error"),
        ErrorKind::NoSuchModel => (404, "model_not_found", "not_found_error"),
        ErrorKind::QuotaExhausted => (429, "insufficient_quota", "billing_error"),
        ErrorKind::InvalidRequest | ErrorKind::NoAnswer | ErrorKind::NotConfigured => {
            (400, "invalid_value", "invalid_request_error")
        }
        ErrorKind::TimedOut => (504, "timeout", "timeout_error"),
        ErrorKind::Unavailable
        | ErrorKind::Idle
        | ErrorKind::Truncated
        | ErrorKind::Unreadable
        | ErrorKind::Cancelled => (500, "server_error", "api_error"),
    };
    // Anthropic has no code for it, only words.
    let long = if error.kind == ErrorKind::ContextTooLong { "prompt is too long: " } else { "" };
    let message = format!("{long}{}", error.message);
    let body = match api {
        Api::Chat | Api::Responses => json!({ "error": { "message": message, "type": kind, "code": code } }),
        Api::Messages => json!({ "type": "error", "error": { "type": kind, "message": message } }),
    };
    let mut headers = vec![("content-type", "application/json".to_owned())];
    if let Some(wait) = error.retry_after {
        headers.push(("retry-after-ms", wait.as_millis().to_string()));
        headers.push(("retry-after", wait.as_secs_f32().ceil().to_string()));
    }
    Answer { delay: std::time::Duration::ZERO, status, headers, parts: vec![body.to_string()], end: End::Whole }
}

/// The id of a reply, from what it says.
fn reply_id(reply: &Reply) -> String {
    let hash = loopforge_core::id::ContentHash::of(&crate::script::to_bytes(reply)).to_string();
    hash.chars().filter(char::is_ascii_alphanumeric).take(16).collect()
}

/// Cuts a text into pieces, as models do. Characters stay whole, JSON doesn't.
fn pieces(text: &str) -> Vec<String> {
    let letters: Vec<char> = text.chars().collect();
    letters.chunks(7).map(|piece| piece.iter().collect()).collect()
}

/// The text of a `content`: a text, or a list of parts with texts.
fn content_text(content: &Json) -> String {
    match content {
        Json::String(text) => text.clone(),
        Json::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n"),
        _ => String::new(),
    }
}
