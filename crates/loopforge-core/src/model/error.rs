//! Why there is no reply.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::reply::Usage;
use crate::tool::Code;

/// Why a call of a model brought no reply. Nothing of what it may have said was used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{message}")]
pub struct ModelError {
    /// What can be done now.
    pub kind: ErrorKind,
    /// What happened, in a sentence without secrets; with the remedy where there is one.
    pub message: String,
    /// The wait that the provider asks for. `None` where it said nothing that makes sense.
    #[serde(default, rename = "retry_after_ms", with = "millis", skip_serializing_if = "Option::is_none")]
    pub retry_after: Option<Duration>,
    /// The status of the answer, where there was one. 200 for an error in a stream.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<u16>,
    /// The provider's own code (`insufficient_quota`, `overloaded_error`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The provider's id of the request, for its support.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Tokens may have been used, and will be paid for: the prompt was sent, and no refusal came before the model began.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub may_be_billed: bool,
    /// What the provider had said about use before it broke off.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub usage: Box<Usage>,
    /// Of [`ErrorKind::Unauthorized`]: the same key worked before in this process, and the provider named no lasting reason. Gateways
    /// under load do that; a few tries are worth it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub key_worked_before: bool,
}

fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage::default()
}

impl ModelError {
    /// An error of a kind. Nothing was billed.
    #[must_use]
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            retry_after: None,
            status: None,
            code: None,
            request_id: None,
            may_be_billed: false,
            usage: Box::default(),
            key_worked_before: false,
        }
    }

    /// Adds the wait that the provider asked for.
    #[must_use]
    pub const fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// Adds the status of the answer.
    #[must_use]
    pub const fn status(mut self, status: u16) -> Self {
        self.status = Some(status);
        self
    }

    /// Says that tokens may have been used.
    #[must_use]
    pub fn billed(mut self, usage: Usage) -> Self {
        self.may_be_billed = true;
        *self.usage = usage;
        self
    }

    /// Whether the same request may succeed later: only then is it tried again.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        match self.kind {
            ErrorKind::Unauthorized => self.key_worked_before,
            kind => kind.is_transient(),
        }
    }

    /// Whether only a person can help: the key, the account, the configuration.
    #[must_use]
    pub const fn needs_operator(&self) -> bool {
        !self.is_transient()
            && matches!(
                self.kind,
                ErrorKind::Unauthorized | ErrorKind::QuotaExhausted | ErrorKind::NoSuchModel | ErrorKind::NotConfigured
            )
    }
}

/// What a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The provider asks to slow down. Wait, or take another model.
    RateLimited,
    /// The provider, or the model, has no room for anybody now. Wait, or take another model.
    Overloaded,
    /// It can't be reached, failed on its side, or broke off before it answered. Try again.
    Unavailable,
    /// The deadline of the call passed. Try again.
    TimedOut,
    /// The connection stayed open and nothing came for longer than the limit. Try again.
    Idle,
    /// The answer broke off: it has no end. What had come is discarded. Try again.
    Truncated,
    /// What came is no answer of a model: a page of a gateway, a wrong content type, pieces that can't be put together. Try again a
    /// few times; then look at the address.
    Unreadable,
    /// The prompt doesn't fit into the window. Make it shorter.
    ContextTooLong,
    /// The provider refuses the request as it is. Sending it again brings the same.
    InvalidRequest,
    /// The provider refuses the content. Sending it again brings the same.
    Refused,
    /// The key is missing at the provider, wrong, or not allowed. A person must look.
    Unauthorized,
    /// There is no such model for this key. A person must look.
    NoSuchModel,
    /// The account is empty, or over its limit for a long time. A person must look.
    QuotaExhausted,
    /// It can't be called as it is configured (no key in the environment). Nothing was sent.
    NotConfigured,
    /// The caller cancelled. The connection is closed.
    Cancelled,
    /// A recording, or a script, has no answer to this request. Nothing was sent.
    NoAnswer,
}

impl ErrorKind {
    /// Whether the same request may succeed later. [`Self::Unauthorized`] may under a condition: see [`ModelError::is_transient`].
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::RateLimited
                | Self::Overloaded
                | Self::Unavailable
                | Self::TimedOut
                | Self::Idle
                | Self::Truncated
                | Self::Unreadable
        )
    }

    /// The code of results that says the same.
    #[must_use]
    pub const fn code(self) -> Code {
        match self {
            Self::RateLimited => Code::RateLimited,
            Self::Overloaded | Self::Unavailable | Self::Truncated => Code::Unavailable,
            Self::TimedOut | Self::Idle => Code::Timeout,
            Self::Unreadable => Code::MalformedOutput,
            Self::ContextTooLong | Self::InvalidRequest => Code::InvalidArgument,
            Self::Refused | Self::QuotaExhausted | Self::NotConfigured | Self::NoAnswer => Code::Permanent,
            Self::Unauthorized => Code::Unauthorized,
            Self::NoSuchModel => Code::NotFound,
            Self::Cancelled => Code::Cancelled,
        }
    }

    /// Its name as it stands in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::RateLimited => "rate_limited",
            Self::Overloaded => "overloaded",
            Self::Unavailable => "unavailable",
            Self::TimedOut => "timed_out",
            Self::Idle => "idle",
            Self::Truncated => "truncated",
            Self::Unreadable => "unreadable",
            Self::ContextTooLong => "context_too_long",
            Self::InvalidRequest => "invalid_request",
            Self::Refused => "refused",
            Self::Unauthorized => "unauthorized",
            Self::NoSuchModel => "no_such_model",
            Self::QuotaExhausted => "quota_exhausted",
            Self::NotConfigured => "not_configured",
            Self::Cancelled => "cancelled",
            Self::NoAnswer => "no_answer",
        }
    }

    /// All of them.
    pub const ALL: [Self; 16] = [
        Self::RateLimited,
        Self::Overloaded,
        Self::Unavailable,
        Self::TimedOut,
        Self::Idle,
        Self::Truncated,
        Self::Unreadable,
        Self::ContextTooLong,
        Self::InvalidRequest,
        Self::Refused,
        Self::Unauthorized,
        Self::NoSuchModel,
        Self::QuotaExhausted,
        Self::NotConfigured,
        Self::Cancelled,
        Self::NoAnswer,
    ];
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Spans as whole milliseconds, rounded up: a wait is never made shorter than it was asked for.
mod millis {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    #[expect(clippy::ref_option, reason = "serde's form")]
    pub(super) fn serialize<S: Serializer>(span: &Option<Duration>, serializer: S) -> Result<S::Ok, S::Error> {
        span.map(|span| u64::try_from(span.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX)).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Duration>, D::Error> {
        Ok(Option::<u64>::deserialize(deserializer)?.map(Duration::from_millis))
    }
}
