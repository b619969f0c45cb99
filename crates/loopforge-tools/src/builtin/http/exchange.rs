//! One request and its answer, redirects included.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use loopforge_core::time::Span;
use loopforge_core::tool::{Code, ToolResult};
use reqwest::header::{ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Method, StatusCode, Url};

use super::allow::{AllowList, NotAllowed};
use super::client::{self, Reuse};
use crate::CallContext;
use crate::builtin::arguments::invalid;
use crate::builtin::{BuiltinConfig, BuiltinError};

/// The size of a body above which the rest is left out, unless the call says otherwise.
pub(super) const DEFAULT_MAX_BYTES: u64 = 64 << 20;
/// What is read of the body of a refusal.
const REFUSAL_BYTES: u64 = 64 << 10;
const MAX_REDIRECTS: usize = 5;

/// The network as one tool may use it.
#[derive(Debug)]
pub(super) struct Network {
    client: reqwest::Client,
    allow: Arc<AllowList>,
}

/// What is to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub method: Method,
    pub url: Url,
    /// As the caller gave them. Any may be a secret, so only [`harmless`] ones follow a redirect to another origin.
    pub headers: HeaderMap,
    /// LoopForge's own; they follow.
    pub own_headers: HeaderMap,
    pub body: Option<Bytes>,
    pub max_bytes: u64,
}

/// What came back.
#[derive(Debug)]
pub(super) struct Answer {
    pub status: StatusCode,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Vec<u8>,
    /// Whether the body went on beyond the limit.
    pub truncated: bool,
}

impl Answer {
    /// A header as text, if it is text.
    pub(super) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.headers.get(name).and_then(|value| value.to_str().ok())
    }
}

impl Network {
    pub(super) fn new(tool: &'static str, config: &BuiltinConfig, reuse: Reuse) -> Result<Self, BuiltinError> {
        let allow = Arc::new(AllowList::read(&config.allow)?);
        Ok(Self { client: client::build(tool, Arc::clone(&allow), reuse)?, allow })
    }

    /// Sends a request and reads the answer, within the limits of the call.
    ///
    /// # Errors
    /// The result of the call when there is no whole answer.
    pub(super) async fn exchange(&self, outgoing: Outgoing, context: &CallContext) -> Result<Answer, ToolResult> {
        let progress = Progress::default();
        tokio::select! {
            biased;
            () = context.cancel.cancelled() => {
                Err(ToolResult::failure(Code::Cancelled, format!("cancelled while {progress}")))
            }
            answer = tokio::time::timeout(context.timeout, self.hops(outgoing, &progress)) => {
                answer.unwrap_or_else(|_| {
                    let limit = Span(context.timeout);
                    Err(ToolResult::failure(Code::Timeout, format!("no whole answer within {limit}: still {progress}")))
                })
            }
        }
    }

    async fn hops(&self, mut outgoing: Outgoing, progress: &Progress) -> Result<Answer, ToolResult> {
        for hop in 0..=MAX_REDIRECTS {
            self.allow.check_url(&outgoing.url).map_err(|refusal| refused(&refusal, hop))?;
            progress.waiting();
            let response = self.send(&outgoing, hop).await?;
            let Some(next) = redirect(&outgoing, &response)? else {
                return read(outgoing, response, progress).await;
            };
            if next.origin() != outgoing.url.origin() {
                outgoing.headers = harmless(&outgoing.headers);
            }
            outgoing.url = next;
        }
        Err(ToolResult::failure(
            Code::Permanent,
            format!("more than {MAX_REDIRECTS} redirects, the last one to {}", outgoing.url),
        ))
    }

    async fn send(&self, outgoing: &Outgoing, hop: usize) -> Result<reqwest::Response, ToolResult> {
        let mut request = self
            .client
            .request(outgoing.method.clone(), outgoing.url.clone())
            .headers(outgoing.headers.clone())
            .headers(outgoing.own_headers.clone());
        if let Some(body) = &outgoing.body {
            request = request.body(body.clone());
        }
        request.send().await.map_err(|error| {
            if let Some(refusal) = client::refusal(&error) {
                return refused(refusal, hop);
            }
            let (unmade, unconnected) = (error.is_builder(), error.is_connect());
            let told = client::chain(&error.without_url());
            if unmade {
                invalid(format!("the request can't be made: {told}"))
            } else if unconnected {
                let host = outgoing.url.host_str().unwrap_or_default();
                ToolResult::failure(Code::Unavailable, format!("cannot connect to {host}, nothing was sent: {told}"))
                    .not_sent()
            } else {
                ToolResult::failure(Code::Unavailable, format!("the connection broke before an answer came: {told}"))
            }
        })
    }
}

/// The headers that another origin may see.
fn harmless(headers: &HeaderMap) -> HeaderMap {
    [ACCEPT, ACCEPT_LANGUAGE, CONTENT_TYPE]
        .into_iter()
        .filter_map(|name| headers.get(&name).cloned().map(|value| (name, value)))
        .collect()
}

/// A refusal by the task's grants. Before the first hop nothing was sent; a redirect's target got nothing either, and the
/// server that redirected did not act.
fn refused(refusal: &NotAllowed, hop: usize) -> ToolResult {
    let after = if hop > 0 { "the server redirects elsewhere: " } else { "" };
    ToolResult::failure(Code::Refused, format!("{after}{refusal}")).not_sent()
}

/// Where an answer sends the request next, or `None` when it is to be read.
fn redirect(outgoing: &Outgoing, response: &reqwest::Response) -> Result<Option<Url>, ToolResult> {
    let status = response.status();
    let follows = match status.as_u16() {
        301..=303 => outgoing.method == Method::GET,
        307 | 308 => true,
        _ => false,
    };
    if !follows {
        return Ok(None);
    }
    let malformed = |what: String| ToolResult::failure(Code::MalformedOutput, what);
    let Some(location) = response.headers().get(LOCATION) else {
        return Err(malformed(format!("the server answered {status} without saying where to go (no `Location`)")));
    };
    // Many servers write UTF-8 there, against the letter of the standard.
    let location = String::from_utf8_lossy(location.as_bytes());
    match outgoing.url.join(&location) {
        Ok(url) => Ok(Some(url)),
        Err(error) => {
            Err(malformed(format!("the server answered {status} and leads to `{location}`, which is no URL: {error}")))
        }
    }
}

async fn read(outgoing: Outgoing, mut response: reqwest::Response, progress: &Progress) -> Result<Answer, ToolResult> {
    let status = response.status();
    let headers = response.headers().clone();
    let refusal = !status.is_success();
    let limit = if refusal { outgoing.max_bytes.min(REFUSAL_BYTES) } else { outgoing.max_bytes };
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let promised = response.content_length();
    let mut body: Vec<u8> = Vec::new();
    let mut truncated = false;
    loop {
        progress.read(body.len());
        match response.chunk().await {
            Ok(Some(chunk)) => {
                let room = limit - body.len();
                body.extend_from_slice(&chunk[..chunk.len().min(room)]);
                if chunk.len() > room {
                    truncated = true;
                    break;
                }
            }
            Ok(None) => break,
            // The status of a refusal says enough without its body.
            Err(_) if refusal => break,
            Err(error) => {
                let promised = promised.map(|length| format!(" of {length}")).unwrap_or_default();
                let told = client::chain(&error.without_url());
                return Err(ToolResult::failure(
                    Code::Unavailable,
                    format!("the connection broke after {}{promised} bytes of the body: {told}", body.len()),
                ));
            }
        }
    }
    Ok(Answer { status, url: outgoing.url, headers, body, truncated })
}

/// How far an exchange has come, for the sentence that says where it stopped.
#[derive(Debug, Default)]
struct Progress {
    /// 0 until the head of an answer has come, then 1 + the bytes of its body.
    bytes: AtomicU64,
}

impl Progress {
    fn waiting(&self) {
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn read(&self, bytes: usize) {
        self.bytes.store(bytes as u64 + 1, Ordering::Relaxed);
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.bytes.load(Ordering::Relaxed) {
            0 => f.write_str("connecting or waiting for the answer to begin"),
            read => write!(f, "reading the body ({} bytes so far)", read - 1),
        }
    }
}

/// Reads the URL of a call.
pub(super) fn read_url(text: &str) -> Result<Url, ToolResult> {
    let url = Url::parse(text.trim()).map_err(|error| {
        invalid(format!("`url` is not a web address ({error}): write it in full, as in `https://shop.example/p/1`"))
    })?;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(invalid("`url` carries a name or password: it would be archived; send it in a header instead"));
    }
    Ok(url)
}

/// Reads the headers of a call. Those that belong to the transport are refused.
pub(super) fn read_headers(headers: &BTreeMap<String, String>) -> Result<HeaderMap, ToolResult> {
    const TRANSPORT: [&str; 9] = [
        "connection",
        "content-length",
        "expect",
        "host",
        "idempotency-key",
        "keep-alive",
        "te",
        "transfer-encoding",
        "upgrade",
    ];
    let mut map = HeaderMap::new();
    for (name, value) in headers {
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|_| {
            invalid(format!("`headers` has `{name}`, which can't be a header's name: use letters, digits and `-`"))
        })?;
        if TRANSPORT.contains(&key.as_str()) {
            return Err(invalid(format!("`headers` has `{name}`, which LoopForge sets itself: leave it out")));
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            invalid(format!("the value of `{name}` in `headers` has characters that a header can't carry"))
        })?;
        map.insert(key, value);
    }
    Ok(map)
}
