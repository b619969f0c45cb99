//! What a tool promises ([`Contract`]) and what a call brings ([`ToolResult`]).
//!
//! There is one contract for every kind of tool and one result shape for every outcome, so that the loop's treatment of
//! failures is written once. A tool's failure is data: it is archived, shown and judged.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::payload::Blob;

/// What a call does to the world.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Effect {
    /// Changes nothing outside: it can be made again.
    Read,
    /// Changes something outside: it is made once.
    Write,
}

impl fmt::Display for Effect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// The unified codes of results and failures. `0` is success; the numbers are part of the interface and never change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
pub enum Code {
    /// The call did what was asked.
    Success = 0,
    /// The arguments break the tool's schema, or the tool refused them. The tool did nothing.
    InvalidArgument = 1,
    /// What was asked for doesn't exist.
    NotFound = 2,
    /// No answer in time. For a write this means "unknown", never "did not happen".
    Timeout = 3,
    /// The target asks to wait.
    RateLimited = 4,
    /// The target can't be reached, broke off, or failed on its side (5xx).
    Unavailable = 5,
    /// Credentials are missing or refused.
    Unauthorized = 6,
    /// A refusal that trying again won't change (a business rule, a 4xx).
    Permanent = 7,
    /// The tool can't answer from what it has; somebody else must.
    InsufficientInformation = 8,
    /// The gateway refused the call: not listed, over quota, precondition not met. The tool was not called.
    Refused = 9,
    /// The call was cancelled before it ended.
    Cancelled = 10,
    /// The answer can't be understood (not the promised structure).
    MalformedOutput = 11,
    /// It can't be known whether the effect happened.
    Unknown = 12,
    /// The tool itself is broken (it crashed, it can't be started).
    Internal = 13,
}

impl Code {
    /// Whether the same call may succeed later: only then is it retried or deferred.
    #[must_use]
    pub const fn is_transient(self) -> bool {
        matches!(self, Self::Timeout | Self::RateLimited | Self::Unavailable)
    }

    /// Whether a write that ended so may have happened all the same.
    ///
    /// The target answered in all other cases, so its word holds.
    #[must_use]
    pub const fn leaves_effect_unknown(self) -> bool {
        matches!(
            self,
            Self::Timeout
                | Self::Unavailable
                | Self::Cancelled
                | Self::Unknown
                | Self::Internal
                | Self::MalformedOutput
        )
    }

    /// Whether what was asked is at fault, and not the line, the account or the target's state.
    #[must_use]
    pub const fn is_of_request(self) -> bool {
        matches!(self, Self::InvalidArgument)
    }

    /// The code's name as it stands in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::InvalidArgument => "invalid_argument",
            Self::NotFound => "not_found",
            Self::Timeout => "timeout",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Unauthorized => "unauthorized",
            Self::Permanent => "permanent",
            Self::InsufficientInformation => "insufficient_information",
            Self::Refused => "refused",
            Self::Cancelled => "cancelled",
            Self::MalformedOutput => "malformed_output",
            Self::Unknown => "unknown",
            Self::Internal => "internal",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How a tool's time limit is chosen when the task names none (R50).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeoutKind {
    /// 10 s.
    Query,
    /// 15 s.
    Write,
    /// 30 s.
    File,
}

impl TimeoutKind {
    /// The limit of this kind.
    #[must_use]
    pub const fn limit(self) -> Duration {
        match self {
            Self::Query => Duration::from_secs(10),
            Self::Write => Duration::from_secs(15),
            Self::File => Duration::from_secs(30),
        }
    }
}

/// When and how often a transient failure is tried again (R51).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RetryPolicy {
    /// Tries in all, the first included.
    pub max_attempts: u32,
    /// The wait after the first failure, after the second, ...; the last one holds for all further.
    pub backoff: Vec<Duration>,
    /// The longest wait that a target may ask for within a call. A longer one ends the call as failed, and the target is deferred.
    pub longest_wait: Duration,
}

impl Default for RetryPolicy {
    /// Three tries, 2 s and 10 s apart; a target may ask for at most a minute.
    fn default() -> Self {
        Self {
            max_attempts: 3,
            backoff: vec![Duration::from_secs(2), Duration::from_secs(10)],
            longest_wait: Duration::from_secs(60),
        }
    }
}

impl RetryPolicy {
    /// One try only.
    #[must_use]
    pub fn never() -> Self {
        Self { max_attempts: 1, ..Self::default() }
    }

    /// The wait before the try after `attempt` (1 for the first), or `None` when there is none.
    ///
    /// The target's own wait replaces the back-off where it is longer, and ends the tries where it is longer than
    /// [`Self::longest_wait`].
    #[must_use]
    pub fn wait_after(&self, attempt: u32, code: Code, asked: Option<Duration>) -> Option<Duration> {
        if !code.is_transient() || attempt >= self.max_attempts {
            return None;
        }
        let position = usize::try_from(attempt.saturating_sub(1)).unwrap_or(usize::MAX);
        let own = self.backoff.get(position).or(self.backoff.last()).copied().unwrap_or_default();
        let wait = own.max(asked.unwrap_or_default());
        (wait <= self.longest_wait.max(own)).then_some(wait)
    }
}

/// What a tool promises. The adapter gives it; the task may tighten it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Contract {
    /// One sentence for whoever plans with it.
    pub description: String,
    /// JSON Schema of the arguments, an object. Arguments that break it never reach the tool.
    pub input_schema: Json,
    /// What it does to the world.
    pub effect: Effect,
    /// A repeated call with the same step token changes nothing more.
    pub idempotent: bool,
    /// The answer depends on nothing but the arguments; a cached one is as good.
    pub deterministic: bool,
    /// Chooses the time limit where none is set.
    pub timeout: TimeoutKind,
    /// When to try again.
    pub retry: RetryPolicy,
    /// JSON pointers into `data` of values that matter verbatim (prices, ids, dates).
    pub key_fields: Vec<String>,
    /// JSON pointers into `data` of parts that change with every call (a request id, a date): not compared by the guard.
    pub volatile: Vec<String>,
    /// What an empty answer means, in a sentence ("no such order").
    pub meaning_of_empty: Option<String>,
}

impl Contract {
    /// A contract of a read with defaults for all else.
    #[must_use]
    pub fn read(description: impl Into<String>, input_schema: Json) -> Self {
        Self {
            description: description.into(),
            input_schema,
            effect: Effect::Read,
            idempotent: true,
            deterministic: false,
            timeout: TimeoutKind::Query,
            retry: RetryPolicy::default(),
            key_fields: Vec::new(),
            volatile: Vec::new(),
            meaning_of_empty: None,
        }
    }

    /// A contract of a write that can't be repeated safely.
    #[must_use]
    pub fn write(description: impl Into<String>, input_schema: Json) -> Self {
        Self {
            effect: Effect::Write,
            idempotent: false,
            timeout: TimeoutKind::Write,
            ..Self::read(description, input_schema)
        }
    }
}

/// What a call brought, in the one shape that every tool answers in (R48).
#[derive(Debug, Clone, PartialEq)]
pub struct ToolResult {
    /// [`Code::Success`], or why not.
    pub code: Code,
    /// The answer; `null` on failure, unless the failure brings something to look at.
    pub data: Json,
    /// What went wrong, in a sentence that names the remedy where there is one.
    pub error: Option<String>,
    /// Set when the answer is empty and the tool says what that means.
    pub meaning_of_empty: Option<String>,
    /// How long the target asks to wait before another try.
    pub retry_after: Option<Duration>,
    /// What was changed or left out on the way in ("3 NUL characters replaced", "cut at 1 MB"). Never silent.
    pub marks: Vec<String>,
    /// Bytes as they came, where `data` can't hold them exactly.
    pub raw: Option<Blob>,
    /// False when the tool knows that nothing reached the target (it could not connect), whatever the code says.
    pub effect_possible: bool,
}

impl ToolResult {
    /// An answer.
    #[must_use]
    pub fn success(data: Json) -> Self {
        Self {
            code: Code::Success,
            data,
            error: None,
            meaning_of_empty: None,
            retry_after: None,
            marks: Vec::new(),
            raw: None,
            effect_possible: true,
        }
    }

    /// A failure. `code` must not be [`Code::Success`].
    #[must_use]
    pub fn failure(code: Code, error: impl Into<String>) -> Self {
        debug_assert!(code != Code::Success);
        Self { code, error: Some(error.into()), ..Self::success(Json::Null) }
    }

    /// Adds the wait that the target asked for.
    #[must_use]
    pub fn retry_after(mut self, wait: Option<Duration>) -> Self {
        self.retry_after = wait;
        self
    }

    /// Adds a mark.
    #[must_use]
    pub fn mark(mut self, mark: impl Into<String>) -> Self {
        self.marks.push(mark.into());
        self
    }

    /// Says that nothing reached the target.
    #[must_use]
    pub fn not_sent(mut self) -> Self {
        self.effect_possible = false;
        self
    }

    /// Whether, for a write, it can't be said that the effect did or did not happen.
    #[must_use]
    pub fn leaves_effect_unknown(&self) -> bool {
        self.effect_possible && self.code.leaves_effect_unknown()
    }

    /// Whether the call did what was asked.
    #[must_use]
    pub fn is_ok(&self) -> bool {
        self.code == Code::Success
    }
}
