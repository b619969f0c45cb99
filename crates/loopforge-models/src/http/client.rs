//! Sends one request and hands on what comes, with limits on silence.

use std::error::Error as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use jiff::Timestamp;
use loopforge_core::model::{ErrorKind, ModelError, Usage};
use reqwest::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::redirect::Policy;
use reqwest::{Response, Url};
use tokio::time::Instant;

use super::classify::{self, Said};
use super::secret::Secret;
use super::wait;
use crate::{CallContext, Exchange};

/// A connection that isn't there after this time won't come.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The most bytes of a reply. No model writes as much; a server that does is broken.
const MAX_REPLY: usize = 64 << 20;
/// The most bytes of an error that are read.
const MAX_ERROR: usize = 256 << 10;
/// How long the end of a connection is waited for after the end of the reply, so that it can be used again.
const LINGER: Duration = Duration::from_millis(500);
/// How long a connection is kept for the next call.
const POOL_IDLE: Duration = Duration::from_secs(30);
/// The longest header that is kept.
const MAX_HEADER: usize = 512;

/// How a key is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `Authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    ApiKey,
}

/// Where requests go.
#[derive(Debug)]
pub(crate) struct Endpoint {
    client: reqwest::Client,
    url: Url,
    headers: HeaderMap,
    key: Option<Secret>,
    key_worked: AtomicBool,
}

/// What the bytes of a reply are handed to.
pub(crate) trait Pieces: Send {
    /// Takes the next bytes.
    fn take(&mut self, bytes: &[u8]) -> Result<Progress, ModelError>;
    /// What is known of use so far.
    fn usage(&self) -> Usage;
}

/// What bytes brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Progress {
    /// Nothing that belongs to the reply.
    KeepAlive,
    /// Something of the reply.
    Piece,
    /// Its end.
    End,
}

/// What a request brought: the bytes, and how they ended.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(crate) exchange: Exchange,
    pub(crate) result: Result<(), ModelError>,
}

impl Endpoint {
    /// An address with what is sent along to it.
    pub(crate) fn new(
        url: Url,
        key: Option<(Secret, KeyHeader)>,
        fixed: &[(&'static str, &str)],
        extra: &[(String, String)],
    ) -> Result<Self, String> {
        // The process has one provider; whoever comes first installs it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/json"));
        let pairs = fixed.iter().map(|(name, value)| (*name, *value));
        for (name, value) in pairs.chain(extra.iter().map(|(name, value)| (name.as_str(), value.as_str()))) {
            let bad = || format!("`{name}` can't be sent as a header");
            let key = HeaderName::try_from(name).map_err(|_| bad())?;
            headers.insert(key, HeaderValue::from_str(value).map_err(|_| bad())?);
        }
        if let Some((secret, header)) = &key {
            let bad = |_| format!("the key in {} has characters that can't be sent", secret.source());
            let (name, text) = match header {
                KeyHeader::Bearer => (AUTHORIZATION, format!("Bearer {}", secret.reveal())),
                KeyHeader::ApiKey => (HeaderName::from_static("x-api-key"), secret.reveal().to_owned()),
            };
            let mut value = HeaderValue::from_str(&text).map_err(bad)?;
            value.set_sensitive(true);
            headers.insert(name, value);
        }
        let mut builder = reqwest::Client::builder()
            .user_agent(concat!("loopforge/", env!("CARGO_PKG_VERSION")))
            // A redirect would take the prompt, and `x-api-key`, elsewhere.
            .redirect(Policy::none())
            // One call is one request: what is tried again is seen, and decided, by the loop.
            .retry(reqwest::retry::never())
            // Kept bytes are those of the wire.
            .no_gzip()
            .connect_timeout(CONNECT_TIMEOUT)
            .pool_idle_timeout(POOL_IDLE);
        if url.scheme() == "http" {
            // On a kept connection that the server just closed, a request that never arrived looks like one that may be billed (llama.cpp
            // does that). Without TLS a new one costs next to nothing; with it the connection is HTTP/2 as a rule, which says goodbye.
            builder = builder.pool_max_idle_per_host(0);
        }
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let client = builder.build().map_err(|error| chain(&error))?;
        Ok(Self { client, url, headers, key: key.map(|(secret, _)| secret), key_worked: AtomicBool::new(false) })
    }

    /// The address, without anything secret in it.
    pub(crate) fn address(&self) -> String {
        let mut url = self.url.clone();
        let _ = url.set_password(None);
        let _ = url.set_username("");
        url.set_query(None);
        url.to_string()
    }

    /// Sends `body` once and hands what comes to `pieces`, until they have their end or the connection has.
    pub(crate) async fn send(&self, body: Bytes, context: &CallContext, pieces: &mut dyn Pieces) -> Transfer {
        let mut exchange = Exchange { request: body.clone(), ..Exchange::default() };
        let mut response = BytesMut::new();
        let result = self.transfer(body, context, pieces, &mut exchange, &mut response).await;
        exchange.response = self
            .key
            .as_ref()
            .map_or_else(|| response.clone().freeze(), |key| key.mask_bytes(response.clone().freeze()));
        let result = result.map_err(|mut error| {
            if let Some(key) = &self.key {
                error.message = key.mask(&error.message);
            }
            error.status = error.status.or(exchange.status);
            error.request_id = request_id(&exchange.headers);
            error
        });
        Transfer { exchange, result }
    }

    async fn transfer(
        &self,
        body: Bytes,
        context: &CallContext,
        pieces: &mut dyn Pieces,
        exchange: &mut Exchange,
        received: &mut BytesMut,
    ) -> Result<(), ModelError> {
        let mut clock = Clock::start(context);
        let request = self.client.post(self.url.clone()).headers(self.headers.clone()).body(body);
        let mut response = match clock.wait(request.send()).await {
            Ok(Ok(response)) => response,
            Ok(Err(error)) => return Err(not_sent(&error)),
            // It may have arrived, and been worked on.
            Err(stop) => return Err(stop.error(&clock, Usage::default())),
        };
        exchange.status = Some(response.status().as_u16());
        exchange.headers = kept(response.headers());
        if !response.status().is_success() {
            return Err(self.refusal(response, &mut clock, exchange, received).await);
        }
        self.key_worked.store(true, Ordering::Relaxed);
        loop {
            match clock.wait(response.chunk()).await {
                Ok(Ok(Some(bytes))) => {
                    exchange.first_piece.get_or_insert_with(|| clock.begun.elapsed());
                    if received.len() + bytes.len() > MAX_REPLY {
                        let message = format!("the reply is longer than {} MiB", MAX_REPLY >> 20);
                        return Err(ModelError::new(ErrorKind::Unreadable, message).billed(pieces.usage()));
                    }
                    received.extend_from_slice(&bytes);
                    let progress = pieces.take(&bytes).map_err(|error| error_in_stream(error, exchange))?;
                    if progress == Progress::End {
                        linger(&mut response, received, context).await;
                        return Ok(());
                    }
                    clock.heard(progress);
                }
                Ok(Ok(None)) => return Ok(()),
                Ok(Err(error)) => {
                    let message = format!("the connection broke off in the middle of the reply: {}", chain(&error));
                    return Err(ModelError::new(ErrorKind::Truncated, message).billed(pieces.usage()));
                }
                Err(stop) => return Err(stop.error(&clock, pieces.usage())),
            }
        }
    }

    /// What an answer with a bad status says. Reading it has limits, too; what came until then counts.
    async fn refusal(
        &self,
        mut response: Response,
        clock: &mut Clock<'_>,
        exchange: &Exchange,
        received: &mut BytesMut,
    ) -> ModelError {
        loop {
            match clock.wait(response.chunk()).await {
                Ok(Ok(Some(bytes))) => received.extend_from_slice(&bytes),
                Ok(Ok(None) | Err(_)) | Err(Stop::Silent) => break,
                Err(stop) => return stop.error(clock, Usage::default()),
            }
            clock.heard(Progress::Piece);
            if received.len() > MAX_ERROR {
                break;
            }
        }
        let text = String::from_utf8_lossy(received);
        let status = exchange.status.unwrap_or_default();
        let said = Said::read(&text);
        let asked = wait::asked(&exchange.headers, &text, Timestamp::now());
        let mut error = classify::error(status, &said, asked);
        if error.kind == ErrorKind::Unauthorized {
            match &self.key {
                Some(key) => {
                    error.message = format!("{}; the key is the one in {}", error.message, key.source());
                    let passing = status == 401 && !classify::key_is_dead(&said);
                    error.key_worked_before = passing && self.key_worked.load(Ordering::Relaxed);
                }
                None => error.message.push_str("; no key was sent: name its variable in `api_key_env`"),
            }
        }
        error
    }
}

/// A wait that stands in the headers holds for an error in the stream, too.
fn error_in_stream(mut error: ModelError, exchange: &Exchange) -> ModelError {
    if error.retry_after.is_none() && error.is_transient() {
        error.retry_after = wait::asked(&exchange.headers, &error.message, Timestamp::now());
    }
    error
}

/// Reads what is left after the end of the reply, which is nothing as a rule.
async fn linger(response: &mut Response, received: &mut BytesMut, context: &CallContext) {
    let rest = async {
        while let Ok(Some(bytes)) = response.chunk().await {
            if received.len() + bytes.len() > MAX_REPLY {
                break;
            }
            received.extend_from_slice(&bytes);
        }
    };
    tokio::select! {
        () = context.cancel.cancelled() => {}
        _ = tokio::time::timeout(LINGER, rest) => {}
    }
}

/// Why waiting ended before anything came.
#[derive(Debug, Clone, Copy)]
enum Stop {
    Cancelled,
    Deadline,
    Silent,
}

impl Stop {
    fn error(self, clock: &Clock<'_>, usage: Usage) -> ModelError {
        let after = clock.begun.elapsed().as_secs_f32();
        match self {
            Self::Cancelled => ModelError::new(ErrorKind::Cancelled, "the call was cancelled"),
            Self::Deadline => ModelError::new(
                ErrorKind::TimedOut,
                format!("the reply was not complete within the time limit of {after:.1} s"),
            ),
            Self::Silent if clock.last_byte.is_some() => ModelError::new(
                ErrorKind::Idle,
                format!("the server fell silent in the middle of the reply, after {after:.1} s"),
            ),
            Self::Silent => ModelError::new(ErrorKind::Idle, format!("the server said nothing for {after:.1} s")),
        }
        .billed(usage)
    }
}

/// The limits of a call.
struct Clock<'c> {
    context: &'c CallContext,
    begun: Instant,
    last_piece: Instant,
    last_byte: Option<Instant>,
}

impl<'c> Clock<'c> {
    fn start(context: &'c CallContext) -> Self {
        let begun = Instant::now();
        Self { context, begun, last_piece: begun, last_byte: None }
    }

    fn heard(&mut self, progress: Progress) {
        let now = Instant::now();
        self.last_byte = Some(now);
        if progress > Progress::KeepAlive {
            self.last_piece = now;
        }
    }

    async fn wait<F: Future>(&self, future: F) -> Result<F::Output, Stop> {
        let patience = self.context.patience;
        let mut silent = self.last_piece + patience.first;
        if let Some(last) = self.last_byte {
            silent = silent.min(last + patience.gap);
        }
        let deadline = self.context.timeout.map(|timeout| self.begun + timeout);
        let (until, stop) = match deadline {
            Some(deadline) if deadline <= silent => (deadline, Stop::Deadline),
            _ => (silent, Stop::Silent),
        };
        tokio::select! {
            biased;
            () = self.context.cancel.cancelled() => Err(Stop::Cancelled),
            output = future => Ok(output),
            () = tokio::time::sleep_until(until) => Err(stop),
        }
    }
}

fn not_sent(error: &reqwest::Error) -> ModelError {
    if error.is_connect() {
        return ModelError::new(ErrorKind::Unavailable, format!("the provider can't be reached: {}", chain(error)));
    }
    if error.is_builder() {
        return ModelError::new(ErrorKind::NotConfigured, format!("the request can't be sent: {}", chain(error)));
    }
    let message = format!("the connection broke off before an answer came: {}", chain(error));
    ModelError::new(ErrorKind::Unavailable, message).billed(Usage::default())
}

fn kept(headers: &HeaderMap) -> Vec<(String, String)> {
    let wanted = |name: &str| {
        matches!(name, "content-type" | "retry-after" | "retry-after-ms" | "request-id" | "x-request-id")
            || name.contains("ratelimit")
    };
    headers
        .iter()
        .filter(|(name, value)| wanted(name.as_str()) && value.len() <= MAX_HEADER)
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect()
}

fn request_id(headers: &[(String, String)]) -> Option<String> {
    wait::header(headers, "request-id").or_else(|| wait::header(headers, "x-request-id")).map(str::to_owned)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost"
        || host.ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// An error with its causes in one line, without the address, which can hold a key.
fn chain(error: &reqwest::Error) -> String {
    let mut text = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let part = cause.to_string();
        if !text.contains(&part) {
            if !text.is_empty() {
                text.push_str(": ");
            }
            text.push_str(&part);
        }
        source = cause.source();
    }
    if text.is_empty() { "no reason given".to_owned() } else { text }
}
