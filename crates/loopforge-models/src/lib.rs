//! The models that LoopForge calls.
//!
//! A [`Model`] makes one call and reports; it never retries, waits or falls back by itself: that is the loop's, where it is seen.
//! [`build`] makes one from its name, `provider/model`. How providers are spoken to stands in `wire` (pure: bytes and values) and `http`.

mod http;
mod prices;
mod provider;
mod recording;
pub mod script;
mod setup;
pub mod sse;
pub mod testing;
mod wire;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use loopforge_core::model::{ModelError, Reply, Request};
use tokio_util::sync::CancellationToken;

pub use http::Secret;
pub use prices::Prices;
pub use recording::{Cassette, Recorded, Recorder, Replay};
pub use setup::{Setup, SetupError, build, build_with};
pub use wire::Api;

/// One model of one provider.
#[async_trait]
pub trait Model: Send + Sync + fmt::Debug {
    /// What is known of it before a call.
    fn describe(&self) -> &Description;

    /// Makes one call: one request over the network at most, whatever becomes of it.
    ///
    /// The call ends soon after `context.cancel` fires, `context.timeout` has passed, or nothing came for as long as `context.patience`
    /// allows; the connection is closed then. Dropping the future closes it, too.
    async fn call(&self, request: &Request, context: &CallContext) -> Answer;
}

/// What is known of a model before a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Description {
    /// `provider/model`, as in the task file.
    pub name: String,
    /// The part before the slash: names blocks that only this provider understands.
    pub provider: String,
    /// The part after it: the name that is sent.
    pub model: String,
    /// Tokens of input and output together, where they are known.
    pub context_window: Option<u64>,
    /// The most tokens of output, where it is known.
    pub max_output_tokens: Option<u32>,
    /// Where requests go, without secrets; empty where nothing is sent.
    pub address: String,
}

/// What surrounds a call.
#[derive(Clone)]
pub struct CallContext {
    /// The most time for the whole call. `None` leaves a slow healthy stream alone.
    pub timeout: Option<Duration>,
    /// How long a silent server is waited for.
    pub patience: Patience,
    /// Fires when the call is to be given up.
    pub cancel: CancellationToken,
    /// Is told of the pieces of the reply as they come, for showing them. They are no reply: it may still fail.
    pub on_delta: Option<OnDelta>,
}

/// Is told of the pieces of a reply.
pub type OnDelta = Arc<dyn Fn(Delta<'_>) + Send + Sync>;

impl CallContext {
    /// A context without a limit of the whole, with the usual patience.
    #[must_use]
    pub fn new(cancel: CancellationToken) -> Self {
        Self { timeout: None, patience: Patience::default(), cancel, on_delta: None }
    }
}

impl fmt::Debug for CallContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallContext")
            .field("timeout", &self.timeout)
            .field("patience", &self.patience)
            .field("cancel", &self.cancel)
            .finish_non_exhaustive()
    }
}

/// How long a silent server is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience {
    /// Until the first bytes of the body, and from one piece of the reply to the next while the server does nothing but keep the
    /// connection alive: long prompts and long thoughts take their time.
    pub first: Duration,
    /// Without a single byte, once there were some.
    pub gap: Duration,
}

impl Default for Patience {
    /// Five minutes for the first piece, one without a byte.
    fn default() -> Self {
        Self { first: Duration::from_secs(300), gap: Duration::from_secs(60) }
    }
}

/// A piece of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delta<'a> {
    /// More text.
    Text(&'a str),
    /// More of its reasoning, where that can be read.
    Reasoning(&'a str),
    /// A call begins.
    Call(&'a str),
}

/// What a call brought.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The reply, or why there is none.
    pub result: Result<Reply, ModelError>,
    /// What went over the wire, also after a failure.
    pub exchange: Exchange,
}

/// What went over the wire, exactly. It holds no key: headers that carry one are not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Exchange {
    /// The form in which a provider was spoken to; none for models that aren't spoken to over HTTP.
    pub api: Option<Api>,
    /// The body that was sent; empty where nothing was.
    pub request: Bytes,
    /// The body that came, as far as it came.
    pub response: Bytes,
    /// The status, once there was one.
    pub status: Option<u16>,
    /// Headers of the answer that say something about it: its type, its id, waits and limits.
    pub headers: Vec<(String, String)>,
    /// The time from sending until the first bytes of the body.
    pub first_piece: Option<Duration>,
}
