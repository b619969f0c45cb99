//! The legal transitions, as one table.

use super::{ActionState, Branch, Phase};

/// A phase, by name. `None` is a branch that doesn't exist yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PhaseName {
    /// No such branch yet.
    None,
    /// [`Phase::Ready`].
    Ready,
    /// [`Phase::Deciding`].
    Deciding,
    /// [`Phase::Thinking`].
    Thinking,
    /// [`Phase::Acting`].
    Acting,
    /// [`Phase::Waiting`].
    Waiting,
}

/// Where a call stands, by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum CallName {
    /// [`ActionState::Decided`].
    Decided,
    /// [`ActionState::Started`].
    Started,
    /// [`ActionState::Backoff`].
    Backoff,
    /// [`ActionState::Unknown`].
    Unknown,
    /// [`ActionState::Asked`].
    Asked,
}

use PhaseName::{Acting, Deciding, Ready, Thinking, Waiting};

/// In which phase of its branch a record may stand. Events that aren't listed belong to the run as a whole, or to no branch.
pub const TABLE: &[(PhaseName, &str)] = &[
    (PhaseName::None, "step_started"),
    (Ready, "step_started"),
    (Deciding, "model_called"),
    (Thinking, "model_called"),
    (Thinking, "model_replied"),
    (Thinking, "model_failed"),
    (Deciding, "action_decided"),
    // A reply of a model decides several.
    (Acting, "action_decided"),
    (Deciding, "state_saved"),
    (Deciding, "wait_started"),
    (Deciding, "lifecycle_moved"),
    (Deciding, "lifecycle_refused"),
    (Deciding, "loop_found"),
    (Deciding, "step_evaluated"),
    (Acting, "action_refused"),
    (Acting, "action_started"),
    (Acting, "attempt_failed"),
    (Acting, "action_finished"),
    (Acting, "action_unknown"),
    (Acting, "action_not_happened"),
    (Acting, "question_asked"),
    (Acting, "question_answered"),
    // The results of the other calls of a step are saved as they come.
    (Acting, "state_saved"),
    (Waiting, "question_answered"),
    (Waiting, "wait_ended"),
];

/// What may be archived of a call that stands so.
pub const CALLS: &[(CallName, &str)] = &[
    (CallName::Decided, "action_refused"),
    // A model asks a person.
    (CallName::Decided, "question_asked"),
    (CallName::Decided, "action_started"),
    (CallName::Decided, "attempt_failed"),
    (CallName::Decided, "action_finished"),
    (CallName::Started, "attempt_failed"),
    (CallName::Started, "action_finished"),
    (CallName::Started, "action_unknown"),
    (CallName::Backoff, "action_refused"),
    (CallName::Backoff, "action_started"),
    (CallName::Backoff, "attempt_failed"),
    (CallName::Backoff, "action_finished"),
    // With the same token, where the target honours it.
    (CallName::Unknown, "action_started"),
    (CallName::Unknown, "action_finished"),
    (CallName::Unknown, "action_not_happened"),
    (CallName::Unknown, "question_asked"),
    // A late answer completes the call, also after a person was asked.
    (CallName::Asked, "action_finished"),
    (CallName::Asked, "action_not_happened"),
];

/// The name of a branch's phase.
#[must_use]
pub fn phase_name(branch: Option<&Branch>) -> PhaseName {
    match branch.map(|branch| &branch.phase) {
        None => PhaseName::None,
        Some(Phase::Ready) => Ready,
        Some(Phase::Deciding) => Deciding,
        Some(Phase::Thinking { .. }) => Thinking,
        Some(Phase::Acting { .. }) => Acting,
        Some(Phase::Waiting { .. }) => Waiting,
    }
}

/// The name of where a call stands.
#[must_use]
pub const fn call_name(state: &ActionState) -> CallName {
    match state {
        ActionState::Decided => CallName::Decided,
        ActionState::Started => CallName::Started,
        ActionState::Backoff { .. } => CallName::Backoff,
        ActionState::Unknown { .. } => CallName::Unknown,
        ActionState::Asked(_) => CallName::Asked,
    }
}
