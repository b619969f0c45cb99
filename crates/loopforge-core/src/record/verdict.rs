//! Events of judgement: verdicts, routes, loops, checks of criteria.

use serde::{Deserialize, Serialize};

use crate::agent::{Response, Withheld};
use crate::id::{BranchId, StepNo};
use crate::time::Timestamp;

/// What the guard found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LoopKind {
    /// The same call with the same outcome.
    Repetition,
    /// A cycle of several calls with the same outcomes.
    Cycle,
    /// Different calls, none of which brought anything useful.
    Fruitless,
}

/// Of [`super::Event::LoopFound`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct LoopFound {
    /// The branch whose call completed it.
    pub branch: BranchId,
    /// What it is.
    pub what: LoopKind,
    /// Length of the cycle; 1 for a repetition.
    pub period: u32,
    /// How often it came round.
    pub rounds: u32,
    /// The tools in it.
    pub tools: Vec<String>,
    /// What is done about it, where a model made it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub response: Option<Response>,
    /// The calls that are out of reach of the branch from now on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub withheld: Vec<Withheld>,
}

/// Of [`super::Event::StepEvaluated`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StepEvaluated {
    /// The branch.
    pub branch: BranchId,
    /// The step.
    pub step: StepNo,
    /// The judgement.
    pub verdict: Verdict,
}

/// The evaluator's judgement of a step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// Four scores.
    pub scores: Scores,
    /// Where it leads.
    pub route: Route,
    /// Why, in a sentence.
    pub reason: String,
}

/// Four numbers from 0 (bad) to 1 (good), each with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scores {
    /// How much of the goal is reached.
    pub completion: Score,
    /// Whether results fit what was expected.
    pub consistency: Score,
    /// How much of the limits is left.
    pub resources: Score,
    /// Whether work goes on without failures in a row.
    pub stability: Score,
}

/// One number with its reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Score(pub f32, pub String);

/// Where a verdict leads.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(tag = "to", rename_all = "snake_case")]
pub enum Route {
    /// On with the next entry of this subgoal.
    Continue,
    /// This branch has done its part: the item, or all entries.
    BranchDone,
    /// Set the item aside until then, and go on with the rest.
    Defer {
        /// Not before this instant.
        due: Timestamp,
    },
    /// The item can't be had: note it and go on with the rest.
    GiveUp,
    /// Do the same entry again, once, with what went wrong in view.
    Correct,
    /// The subgoal begins anew on another way; what was found stays.
    Replan,
    /// A person decides.
    Person,
    /// The subgoal has failed.
    Fail,
}

impl Route {
    /// Whether the branch is closed by it.
    #[must_use]
    pub const fn ends_branch(self) -> bool {
        matches!(self, Self::BranchDone | Self::Defer { .. } | Self::GiveUp | Self::Fail)
    }
}

/// A criterion and whether it holds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Check {
    /// The rule.
    pub rule: String,
    /// Whether it holds.
    pub holds: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}
