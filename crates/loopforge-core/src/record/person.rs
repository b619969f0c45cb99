//! Events between a run and the people who decide.

use serde::{Deserialize, Serialize};

use super::ActionId;
use crate::id::BranchId;

/// Of [`super::Event::QuestionAsked`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionAsked {
    /// The branch that waits; none when the run as a whole waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The action that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<ActionId>,
    /// What it is about.
    pub about: About,
    /// The question, for a person.
    pub question: String,
}

/// What a question is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum About {
    /// Whether an effect happened.
    UnknownEffect,
    /// What to do after a failure.
    Failure,
    /// Whether more steps may run.
    Limit,
    /// What to do about repetition.
    Loop,
    /// Something that a model needs to know and no tool tells.
    Information,
}

/// What a person can answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    /// The effect happened: go on from there.
    Happened,
    /// It did not happen: make the call (again).
    Not,
    /// Stop the run.
    Abort,
    /// Go on: try again, or run on.
    Continue,
    /// Give this item up and go on with the rest.
    Skip,
    /// What was asked for: [`QuestionAnswered::text`].
    Told,
}

/// Of [`super::Event::QuestionAnswered`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct QuestionAnswered {
    /// The branch that waited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The answer.
    pub answer: Answer,
    /// The answer in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// Who gave it.
    pub by: String,
}
