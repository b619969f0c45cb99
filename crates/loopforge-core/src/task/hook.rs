//! The `hooks` of a task: what is told to whom, and when.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What is told to whom, and when.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Hook {
    /// When.
    pub on: HookEvent,
    /// Only every so many times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<u64>,
    /// What LoopForge itself does.
    #[serde(default, rename = "do", skip_serializing_if = "Option::is_none")]
    pub action: Option<HookAction>,
    /// A URL that gets a signed JSON document by POST. `${env.NAME}` is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook: Option<String>,
    /// The environment variable with the key that signs the webhook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_env: Option<String>,
    /// A program that gets the JSON document on its standard input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Vec<String>>,
}

/// The moments that a hook can wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookEvent {
    /// A step was evaluated.
    StepCompleted,
    /// A run was taken up from a checkpoint.
    CheckpointRestored,
    /// The guard found repetition or no progress.
    LoopExceeded,
    /// A person must decide something.
    PersonNeeded,
    /// A limit was reached.
    LimitReached,
    /// A budget is nearly used up.
    BudgetWarning,
    /// The run ended.
    Finished,
}

/// What LoopForge itself does at such a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum HookAction {
    /// A line in the log.
    Log,
    /// A line in the log with the subgoals and what state holds.
    LogStateSummary,
    /// The run waits for a person.
    PauseAndAlert,
}
