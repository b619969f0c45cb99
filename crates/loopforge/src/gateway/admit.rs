//! The checks before a call, in this order: whitelist, lifecycle, schema, quota, precondition. Each refusal has a reason that
//! names the remedy. The tool was not called.

use loopforge_core::evaluate::grounding::Ungrounded;
use loopforge_core::json::Json;
use loopforge_core::run::{Action, Branch, RunState};
use loopforge_core::task::Task;
use loopforge_core::tool::Code;

use super::Armed;

/// Why a call is not made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// [`Code::InvalidArgument`] or [`Code::Refused`].
    pub code: Code,
    /// Which check.
    pub check: &'static str,
    /// Why, and what to do.
    pub reason: String,
}

impl Refusal {
    fn new(check: &'static str, reason: String) -> Self {
        Self { code: Code::Refused, check, reason }
    }
}

/// Checks everything that needs no expression.
///
/// # Errors
/// The first check that refuses.
pub fn check(
    task: &Task,
    state: &RunState,
    branch: &Branch,
    action: &Action,
    armed: Option<&Armed>,
    arguments: &Json,
) -> Result<(), Refusal> {
    let tool = &action.tool;
    let subgoal = &task.subgoals[branch.subgoal];
    let Some(armed) = armed else {
        let reason = format!("the task lists no tool `{tool}`: add it under `tools`");
        return Err(Refusal::new("whitelist", reason));
    };
    if subgoal.tools.as_ref().is_some_and(|allowed| !allowed.contains(tool)) {
        let reason = format!("subgoal `{}` may not call `{tool}`: its `tools` don't list it", subgoal.id);
        return Err(Refusal::new("whitelist", reason));
    }
    if let (Some(lifecycle), Some(now)) = (&task.states, &state.lifecycle)
        && let Some(allowed) = lifecycle.tools.get(now)
        && !allowed.contains(tool)
    {
        let reason = format!("`{tool}` is not allowed in state `{now}`; allowed are: {}", allowed.join(", "));
        return Err(Refusal::new("lifecycle", reason));
    }
    if let Some(broken) = armed.broken_input(arguments) {
        return Err(Refusal { code: Code::InvalidArgument, check: "schema", reason: broken });
    }
    // This call is counted already. What a model decides is counted for its subgoal, and always limited.
    let (calls, max) = match branch.agent {
        Some(_) => {
            let calls = state.subgoals[branch.subgoal].calls.get(tool).copied().unwrap_or(0);
            (calls, Some(armed.max_calls.unwrap_or(task.limits.max_calls_per_tool)))
        }
        None => (state.calls.get(tool).copied().unwrap_or(0), armed.max_calls),
    };
    if let Some(max) = max.filter(|max| calls > *max) {
        let reason = format!("`{tool}` has been called {max} times, which is its `max_calls`: go on without it");
        return Err(Refusal::new("quota", reason));
    }
    Ok(())
}

/// The refusal of a call with an identifier that this run never obtained.
#[must_use]
pub fn ungrounded(tool: &str, found: &Ungrounded) -> Refusal {
    let Ungrounded { kind, identifier, nearest } = found;
    let nearest = nearest.as_ref().map_or_else(
        || format!("no {kind} was obtained at all"),
        |nearest| format!("the nearest that was obtained is `{nearest}`"),
    );
    let reason =
        format!("`{identifier}` ({kind}) in the arguments of `{tool}` occurs in no result and no input; {nearest}");
    Refusal::new("grounding", reason)
}

/// The refusal of a call whose precondition doesn't hold.
#[must_use]
pub fn precondition(tool: &str, rule: &str, outcome: Result<bool, String>) -> Option<Refusal> {
    let why = match outcome {
        Ok(true) => return None,
        Ok(false) => "does not hold".to_owned(),
        Err(reason) => reason,
    };
    Some(Refusal::new("precondition", format!("`{tool}` requires `{rule}`: {why}")))
}
