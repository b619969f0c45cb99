//! The route: one visible match.

use crate::agent::Response;
use crate::record::Route;
use crate::task::OnFailure;
use crate::time::Timestamp;
use crate::tool::Code;

/// What the route depends on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Situation<'a> {
    /// How the step failed: the code and the sentence of its last call. All alternatives have been tried.
    pub failure: Option<(Code, &'a str)>,
    /// The entry may be done once more: it has not been, and its call is a read whose answer can change.
    pub can_correct: bool,
    /// The branch is an item of a list whose failures are set aside.
    pub can_defer: bool,
    /// The item may be set aside once more.
    pub rounds_left: bool,
    /// What the task says about failures.
    pub on_failure: OnFailure,
    /// When an item that is set aside now is due again.
    pub due: Timestamp,
    /// The subgoal has further entries.
    pub more_entries: bool,
}

/// Says where a step leads, and why.
#[must_use]
pub fn route(situation: &Situation<'_>) -> (Route, String) {
    let Situation { can_correct, can_defer, rounds_left, on_failure, due, more_entries, .. } = *situation;
    match situation.failure {
        // Broken integrity: what came back has not the promised structure. It did not enter state.
        Some((Code::MalformedOutput, error)) if can_correct => {
            (Route::Correct, format!("broken result, once more: {error}"))
        }
        // A passing failure of one item does not hold up the others.
        Some((code, error)) if can_defer && code.is_transient() && rounds_left => {
            (Route::Defer { due }, format!("set aside ({code}): {error}"))
        }
        // An item that won't heal is noted, and the rest goes on.
        Some((code, error)) if can_defer => (Route::GiveUp, format!("given up ({code}): {error}")),
        Some((code, error)) if on_failure == OnFailure::Ask => (Route::Person, format!("{code}: {error}")),
        Some((code, error)) => (Route::Fail, format!("{code}: {error}")),
        None if more_entries => (Route::Continue, "on with the next entry".to_owned()),
        None => (Route::BranchDone, "all entries are done".to_owned()),
    }
}

/// What a subgoal's rule says of a claim that it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// `done_when` holds.
    Holds,
    /// It does not, and why.
    Refuted(String),
    /// There is no rule: only the model's word.
    NoRule,
}

/// What the route of a model's step depends on.
#[derive(Debug, Clone, PartialEq)]
pub struct AgentSituation<'a> {
    /// No model could be had: the code and the sentence of the last try.
    pub model_failure: Option<(Code, &'a str)>,
    /// What the rule says.
    pub proof: Proof,
    /// The model says that the subgoal is done.
    pub claim: Option<&'a str>,
    /// The reply could not be used, and why.
    pub unusable: Option<&'a str>,
    /// The model itself wants another way.
    pub gives_up: Option<&'a str>,
    /// What the guard did about a loop that goes on.
    pub guard: Option<Response>,
    /// All calls of the step failed; the last failure.
    pub only_failed: Option<&'a str>,
    /// Bad steps in a row before this one.
    pub bad_in_row: u32,
    /// So many in a row and the way has failed.
    pub replan_after: u32,
    /// Times that the subgoal may still begin anew.
    pub replans_left: u32,
    /// The branch is an item of a list whose failures are set aside.
    pub can_defer: bool,
    /// What the task says about failures.
    pub on_failure: OnFailure,
}

/// Says where a step of a model leads, and why. The reason is shown to the model at its next step.
#[must_use]
pub fn agent_route(situation: &AgentSituation<'_>) -> (Route, String) {
    let AgentSituation { bad_in_row, replan_after, replans_left, can_defer, on_failure, guard, .. } = *situation;
    let bad = bad_in_row + 1 >= replan_after;
    let ways_out = |reason: String| match (replans_left, can_defer, on_failure) {
        (1.., ..) => (Route::Replan, reason),
        (0, true, _) => (Route::GiveUp, format!("no way is left: {reason}")),
        (0, false, OnFailure::Ask) => (Route::Person, format!("no way is left: {reason}")),
        (0, false, _) => (Route::Fail, format!("no way is left: {reason}")),
    };
    match (&situation.proof, situation.claim) {
        _ if situation.model_failure.is_some() => {
            let (code, error) = situation.model_failure.unwrap_or((Code::Unavailable, ""));
            let reason = format!("no model answers ({code}): {error}");
            match on_failure {
                _ if can_defer => (Route::GiveUp, reason),
                OnFailure::Ask => (Route::Person, reason),
                _ => (Route::Fail, reason),
            }
        }
        // Rules come first: what they say is so, whether the model noticed or not.
        (Proof::Holds, _) => (Route::BranchDone, "its `done_when` holds".to_owned()),
        (Proof::NoRule, Some(_)) => {
            (Route::BranchDone, "the model says that it is done; no rule verifies it".to_owned())
        }
        _ if guard == Some(Response::Ask) => {
            (Route::Person, "the model goes round in a circle, whatever it is told".to_owned())
        }
        _ if guard == Some(Response::Replan) => ways_out("this way goes round in a circle".to_owned()),
        _ if situation.gives_up.is_some() => {
            ways_out(format!("the model gave this way up: {}", situation.gives_up.unwrap_or_default()))
        }
        (Proof::Refuted(why), Some(_)) if bad => ways_out(format!("said to be done {replan_after} times, but {why}")),
        (Proof::Refuted(why), Some(_)) => (Route::Correct, format!("said to be done, but {why}")),
        _ if situation.unusable.is_some() => {
            let reason = situation.unusable.unwrap_or_default().to_owned();
            if bad { ways_out(reason) } else { (Route::Correct, reason) }
        }
        _ if situation.only_failed.is_some() => {
            let reason = situation.only_failed.unwrap_or_default();
            if bad {
                ways_out(format!("{replan_after} steps in a row failed, the last with: {reason}"))
            } else {
                (Route::Correct, format!("nothing came of it: {reason}"))
            }
        }
        _ => (Route::Continue, "on with the next step".to_owned()),
    }
}
