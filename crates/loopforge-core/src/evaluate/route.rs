//! The route: one visible match.

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
