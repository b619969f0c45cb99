//! The plan of a run: the subgoals of its task, and what a planner made of them since.
//!
//! A task is never changed. What a planner changes is an [`Amendment`], archived as a difference; the plan is the task with all of them.
//! Subgoals are only ever added at the end, so that a position names the same one for ever; one that was dropped or replaced keeps its place.

mod consult;
mod propose;

pub use consult::{Consult, JUDGE, MAX_TRIES, PLANNER, judge_tool, plan_tool};
pub(crate) use consult::{argument_texts, given};
pub(crate) use propose::propose;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::record::Amendment;
use crate::task::{Mode, OnFailure, Subgoal, Task};

/// The most subgoals of a plan, dropped and replaced ones included.
pub const MAX_SUBGOALS: usize = 50;

/// What a planner made of the task's subgoals.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Plan {
    /// The differences, the oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub amendments: Vec<Amendment>,
    /// Times that the planner was asked after a failure.
    #[serde(default)]
    pub replans: u32,
    /// The planner was asked about the plan as a whole and left it as it is.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
}

impl Plan {
    /// Whether it is the task's own.
    #[must_use]
    pub const fn is_untouched(&self) -> bool {
        self.amendments.is_empty() && self.replans == 0 && !self.kept
    }

    /// The task with its plan as it is now: what all decisions look at.
    #[must_use]
    pub fn of<'a>(&self, task: &'a Task) -> Cow<'a, Task> {
        if self.amendments.is_empty() {
            return Cow::Borrowed(task);
        }
        let mut planned = task.clone();
        for added in self.amendments.iter().flat_map(|amendment| &amendment.add) {
            // Another task that the run goes on with may have taken it over.
            if !planned.subgoals.iter().any(|subgoal| subgoal.id == added.id) {
                let on_failure = added.on_failure.or(Some(OnFailure::Replan));
                planned.subgoals.push(Subgoal { on_failure, ..added.clone() });
            }
        }
        let moved = self.moved();
        for subgoal in &mut planned.subgoals {
            for need in &mut subgoal.needs {
                follow(&moved, need);
            }
        }
        Cow::Owned(planned)
    }

    /// Where replaced subgoals went.
    fn moved(&self) -> BTreeMap<&str, &str> {
        self.amendments
            .iter()
            .flat_map(|amendment| &amendment.replace)
            .map(|replacement| (replacement.id.as_str(), replacement.with.as_str()))
            .collect()
    }

    /// Whether a planner added this subgoal.
    #[must_use]
    pub fn added(&self, id: &str) -> bool {
        self.amendments.iter().flat_map(|amendment| &amendment.add).any(|subgoal| subgoal.id == id)
    }
}

/// Goes from a replaced subgoal to the one in its place. A chain ends, since each replacement is younger than what it replaces.
fn follow(moved: &BTreeMap<&str, &str>, id: &mut String) {
    for _ in 0..=moved.len() {
        match moved.get(id.as_str()) {
            Some(next) => *id = (*next).to_owned(),
            None => return,
        }
    }
}

/// Whether the task has a planner.
#[must_use]
pub const fn has_planner(task: &Task) -> bool {
    task.model.is_some() && matches!(task.limits.mode, Mode::PlanExecute)
}

/// Whether the task has a goal and no subgoals of its own.
#[must_use]
pub fn is_unplanned(task: &Task) -> bool {
    matches!(task.subgoals.as_slice(), [only] if *only == Subgoal::whole(&task.goal))
}
