//! Events of what the run as a whole asks a model for: its plan, and whether the goal is reached.

use serde::{Deserialize, Serialize};

use super::Purpose;
use crate::id::BranchId;
use crate::task::Subgoal;

/// Why a model is consulted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The task has a goal and no subgoals.
    NoPlan,
    /// A way to a subgoal was given up.
    WayFailed,
    /// A subgoal failed whose `on_failure` is `replan`.
    SubgoalFailed,
    /// All subgoals have ended, and a criterion doesn't hold.
    CriteriaUnmet,
    /// All rules hold, and the judge says that the goal is not reached.
    NotReached,
    /// All rules hold, and a model is to judge.
    RulesHold,
}

impl Cause {
    /// In words.
    #[must_use]
    pub const fn words(self) -> &'static str {
        match self {
            Self::NoPlan => "the goal has no subgoals yet",
            Self::WayFailed => "a way to a subgoal failed",
            Self::SubgoalFailed => "a subgoal failed",
            Self::CriteriaUnmet => "a criterion does not hold",
            Self::NotReached => "the judge says that the goal is not reached",
            Self::RulesHold => "all rules hold",
        }
    }
}

/// Of [`super::Event::ConsultStarted`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsultStarted {
    /// What for.
    pub purpose: Purpose,
    /// Why.
    pub cause: Cause,
    /// The subgoal that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgoal: Option<String>,
    /// The branch that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// What happened, in a sentence.
    pub reason: String,
}

/// Of [`super::Event::ConsultFailed`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ConsultFailed {
    /// What for.
    pub purpose: Purpose,
    /// Why the answer can't be used: everything that is wrong with it.
    pub problems: Vec<String>,
    /// The model is not asked again: a plan stays as it is, and what failed takes its course.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub last: bool,
}

/// Of [`super::Event::PlanAmended`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PlanAmended {
    /// The call of the model that said so.
    pub call: u32,
    /// Why, in the planner's words.
    pub reason: String,
    /// What the planner tells whoever works on the subgoal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
    /// The branch that waited for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// The difference.
    #[serde(default, skip_serializing_if = "Amendment::is_empty")]
    pub amendment: Amendment,
}

/// A difference between two plans.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Amendment {
    /// New subgoals, after all that were there.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub add: Vec<Subgoal>,
    /// Subgoals that are not needed any more.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<String>,
    /// Subgoals whose place one of the new ones takes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub replace: Vec<Replacement>,
}

impl Amendment {
    /// Whether it changes nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.add.is_empty() && self.drop.is_empty() && self.replace.is_empty()
    }
}

/// A subgoal in another's place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Replacement {
    /// The one before.
    pub id: String,
    /// The one from now on: what needed the one before needs this one.
    pub with: String,
}

/// Of [`super::Event::Judged`]: a model's word on whether the goal is reached. It is judged, not verified.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Judged {
    /// The call of the model that said so; none when no usable answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<u32>,
    /// Whether it is reached; none when no usable answer came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reached: Option<bool>,
    /// Why.
    pub reason: String,
    /// What of the goal is shown to be reached, and by what.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub verified: Vec<String>,
    /// What isn't.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unverified: Vec<String>,
}
