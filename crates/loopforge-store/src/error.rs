//! Why a store did not do what was asked.

use loopforge_core::id::RunId;
use loopforge_core::time::Timestamp;

/// Why a store did not do what was asked. Variants follow what a caller can do.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum StoreError {
    /// The store can't be reached now, or is locked for longer than the limit. Try again.
    #[error("the store is not available: {0}")]
    Unavailable(String),
    /// No room is left. Make room, then resume.
    #[error("the store is full: {0}")]
    Full(String),
    /// It can't be written to.
    #[error("the store is read-only: {0}")]
    ReadOnly(String),
    /// Something in it is damaged.
    #[error("the store is damaged: {0}")]
    Corrupt(String),
    /// It was written by a later version of LoopForge.
    #[error(
        "the store is newer than this program: it has {found}, and this program knows {known}; nothing was changed"
    )]
    Newer {
        /// What the store has.
        found: String,
        /// What this program knows.
        known: String,
    },
    /// It is not a store of LoopForge.
    #[error("this is not a LoopForge store: {0}")]
    NotAStore(String),
    /// The call breaks this contract: an error in the caller. Nothing was written.
    #[error("the store was called wrongly: {0}")]
    Invalid(String),
    /// There is no such run.
    #[error("there is no run {0}")]
    NoRun(RunId),
    /// There is a run of that id already.
    #[error("run {0} exists already")]
    Exists(RunId),
    /// Another worker owns the run.
    #[error("run {run} is held by {owner} until {until}")]
    Held {
        /// The run.
        run: RunId,
        /// The owner's label.
        owner: String,
        /// The owner's id.
        worker_id: String,
        /// When its lease ends, unless it is renewed.
        until: Timestamp,
    },
    /// The lease is no longer the newest.
    #[error("the lease on run {0} is lost: another worker has taken it up")]
    LeaseLost(RunId),
    /// A step token or business key is in use by another action.
    #[error("the effect `{key}` was started by another action before")]
    Duplicate {
        /// The token or key.
        key: String,
    },
}

impl StoreError {
    /// Whether the same call may succeed later without anybody doing anything.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Unavailable(_))
    }
}
