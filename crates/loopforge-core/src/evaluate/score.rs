//! Four numbers from 0 to 1, each with its reason (R22).

use crate::record::{Route, Score, Scores};
use crate::run::{Branch, Progress, RunState, SubgoalStatus};
use crate::task::Task;
use crate::time::Timestamp;
use crate::tool::Code;

pub(crate) fn scores(
    task: &Task,
    state: &RunState,
    branch: &Branch,
    route: Route,
    max_steps: u64,
    now: Timestamp,
) -> Scores {
    Scores {
        completion: completion(state, branch, route),
        consistency: consistency(branch),
        resources: resources(task, state, max_steps, now),
        stability: stability(task, state, branch),
    }
}

/// The mean of how much of each subgoal is reached.
fn completion(state: &RunState, branch: &Branch, route: Route) -> Score {
    let done_now = u32::from(route == Route::BranchDone);
    let parts: f32 = state
        .subgoals
        .iter()
        .enumerate()
        .map(|(position, progress)| part(progress, if position == branch.subgoal { done_now } else { 0 }))
        .sum();
    #[expect(clippy::cast_precision_loss, reason = "a handful of subgoals")]
    let of = state.subgoals.len().max(1) as f32;
    let progress = &state.subgoals[branch.subgoal];
    let reason = match &progress.list {
        Some(list) => format!("{} of {} in {}", progress.done + done_now, list.count, progress.id),
        None => format!("at {}", progress.id),
    };
    rounded(parts / of, reason)
}

#[expect(clippy::cast_precision_loss, reason = "a share for people, to two digits")]
fn part(progress: &Progress, more: u32) -> f32 {
    match (progress.status, &progress.list) {
        (SubgoalStatus::Ended(_), _) if progress.status.satisfies() => 1.0,
        (SubgoalStatus::Active, Some(list)) if list.count > 0 => (progress.done + more) as f32 / list.count as f32,
        (SubgoalStatus::Active, None) => more as f32,
        _ => 0.0,
    }
}

/// Whether the results of the step had the promised structure.
#[expect(clippy::cast_precision_loss, reason = "a handful of calls")]
fn consistency(branch: &Branch) -> Score {
    if let Some(agent) = branch.agent.as_ref().filter(|agent| agent.failed > 0) {
        let calls = agent.failed + agent.succeeded;
        let share = agent.succeeded as f32 / calls as f32;
        return rounded(share, format!("{} of {calls} calls failed", agent.failed));
    }
    match branch.failure.as_ref().map(|failure| failure.code) {
        Some(code @ (Code::MalformedOutput | Code::InvalidArgument)) => rounded(0.0, code.name().to_owned()),
        Some(code) => rounded(0.5, code.name().to_owned()),
        None => rounded(1.0, "as promised".to_owned()),
    }
}

/// How much is left of the limit that is nearest.
#[expect(clippy::cast_precision_loss, reason = "a share for people, to two digits")]
fn resources(task: &Task, state: &RunState, max_steps: u64, now: Timestamp) -> Score {
    let steps = state.last_step.0 as f32 / max_steps as f32;
    let time = task
        .limits
        .max_duration
        .map_or(0.0, |max| now.since(state.started_at).as_secs_f32() / max.0.as_secs_f32().max(0.001));
    let reason = format!("{} of {max_steps} steps", state.last_step);
    rounded(1.0 - steps.max(time), reason)
}

/// How far from giving up.
#[expect(clippy::cast_precision_loss, reason = "a share for people, to two digits")]
fn stability(task: &Task, state: &RunState, branch: &Branch) -> Score {
    let in_row = match &branch.agent {
        Some(agent) => agent.bad_in_row + u32::from(agent.only_failed() || agent.unusable.is_some()),
        None if branch.failure.is_some() => state.totals.failures_in_row + 1,
        None => 0,
    };
    let share = in_row as f32 / task.limits.replan_after.max(1) as f32;
    rounded(1.0 - share, format!("{in_row} failures in a row"))
}

fn rounded(value: f32, reason: String) -> Score {
    Score((value.clamp(0.0, 1.0) * 100.0).round() / 100.0, reason)
}
