//! Events between a run and the people who decide.

use serde::{Deserialize, Serialize};

use super::ActionId;
use crate::id::{BranchId, RecordId};
use crate::time::Timestamp;

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

/// What a person can tell a run, whoever works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "do", rename_all = "snake_case")]
pub enum Order {
    /// Something to be kept in mind.
    Note {
        /// The text.
        text: String,
        /// A call of a model that is under way is given up, and made anew with it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        now: bool,
    },
    /// Stop work, so that a resume goes on from there.
    Pause,
    /// Go on after a pause.
    Unpause,
    /// Stop for good.
    Cancel,
}

/// Of [`super::Event::NoteTaken`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NoteTaken {
    /// The message's id, by which it is not taken twice.
    #[serde(rename = "message")]
    pub id: RecordId,
    /// The text.
    pub text: String,
    /// Who.
    pub by: String,
    /// When it was told.
    pub told_at: Timestamp,
    /// A call of a model was given up for it, if one was under way.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub now: bool,
}

/// Of [`super::Event::OrderTaken`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OrderTaken {
    /// The message's id, by which it is not taken twice.
    #[serde(rename = "message")]
    pub id: RecordId,
    /// What is to be done.
    pub order: Order,
    /// Who says so.
    pub by: String,
    /// When it was told.
    pub told_at: Timestamp,
}
