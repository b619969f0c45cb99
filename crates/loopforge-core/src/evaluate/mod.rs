//! The evaluator (R22 to R26): what a step was worth, where it leads, and whether a run has reached its goal.
//!
//! Rules decide, and a rule's no is final. Scores explain; they don't decide.

mod drift;
pub mod grounding;
mod route;
mod score;
#[cfg(test)]
mod tests;

use crate::expression::Expression;
use crate::record::{Basis, Check, Judged, RunEnded, RunOutcome, SubgoalOutcome};
use crate::run::{Progress, SubgoalStatus};
use crate::task::{Entry, Subgoal, Task};

pub(crate) use drift::{is_adrift, reminder};
pub use route::{AgentSituation, Proof, Situation, agent_route, route};
pub(crate) use score::scores;

/// The three questions at the start of a step (R2): how far, how credible, what next.
pub(crate) fn basis(subgoal: &Subgoal, progress: &Progress, entry: u32) -> Basis {
    let (done, of) = match &progress.list {
        Some(list) => (progress.done, list.count),
        None => (entry, u32::try_from(subgoal.steps.len()).unwrap_or(u32::MAX)),
    };
    if subgoal.is_agent() {
        return Basis {
            done: progress.done,
            of: progress.list.as_ref().map_or(1, |list| list.count),
            last: progress.last,
            next: "ask the model".to_owned(),
        };
    }
    let next = subgoal.steps.get(entry as usize).map_or_else(|| "judge the subgoal".to_owned(), describe);
    Basis { done, of, last: progress.last, next }
}

fn describe(entry: &Entry) -> String {
    match entry {
        Entry { call: Some(tool), .. } => format!("call {tool}"),
        Entry { wait: Some(span), .. } => format!("wait {span}"),
        Entry { enter: Some(state), .. } => format!("enter {state}"),
        Entry { set, .. } => format!("set {}", set.keys().cloned().collect::<Vec<_>>().join(", ")),
    }
}

/// A criterion with what came of it.
pub(crate) fn check(rule: &Expression, outcome: Result<bool, String>) -> Check {
    let (holds, reason) = match outcome {
        Ok(true) => (true, None),
        Ok(false) => (false, Some("does not hold".to_owned())),
        Err(reason) => (false, Some(reason)),
    };
    Check { rule: rule.source().to_owned(), holds, reason }
}

/// How a run ends whose subgoals have all ended. It has succeeded only when every criterion holds and no subgoal failed; it says
/// what was not verified (R82).
pub(crate) fn end(task: &Task, subgoals: &[Progress], checks: Vec<Check>) -> RunEnded {
    let bad: Vec<String> = subgoals
        .iter()
        .filter(|progress| !progress.status.satisfies())
        .map(|progress| match &progress.failure {
            Some(failure) => format!("subgoal `{}` failed: {failure}", progress.id),
            None => format!("subgoal `{}` is {}", progress.id, progress.status.name()),
        })
        .collect();
    let broken: Vec<String> = checks
        .iter()
        .filter(|check| !check.holds)
        .map(|check| format!("criterion `{}`: {}", check.rule, check.reason.as_deref().unwrap_or("does not hold")))
        .collect();
    let mut unverified = Vec::new();
    for progress in subgoals {
        if !progress.given_up.is_empty() {
            unverified.push(format!("{} items of `{}` were given up", progress.given_up.len(), progress.id));
        }
        if progress.status.name() == "skipped" {
            unverified.push(format!("`{}` was skipped", progress.id));
        }
        if let Some(reason) = progress.dropped.as_ref().filter(|_| !is_whole(task, &progress.id)) {
            unverified.push(format!("the planner took `{}` out of the plan: {reason}", progress.id));
        }
    }
    let unruled: Vec<&str> = task
        .subgoals
        .iter()
        .zip(subgoals)
        .filter(|(subgoal, progress)| {
            let out =
                SubgoalStatus::Ended(SubgoalOutcome::Dropped) == progress.status || progress.replaced_by.is_some();
            subgoal.done_when.is_none() && matches!(progress.status, SubgoalStatus::Ended(_)) && !out
        })
        .map(|(subgoal, _)| subgoal.id.as_str())
        .collect();
    if task.evaluator.criteria.is_empty() && !unruled.is_empty() {
        unverified.push(format!(
            "no rule says what {} must have reached: only that the steps ended without an error",
            unruled.iter().map(|id| format!("`{id}`")).collect::<Vec<_>>().join(", ")
        ));
    }
    if bad.is_empty() && broken.is_empty() {
        let reason = match checks.len() {
            0 => "all subgoals have ended".to_owned(),
            1 => "all subgoals have ended and the criterion holds".to_owned(),
            many => format!("all subgoals have ended and all {many} criteria hold"),
        };
        RunEnded { outcome: RunOutcome::Succeeded, reason, checks, unverified, judged: None }
    } else {
        let reason = bad.into_iter().chain(broken).collect::<Vec<_>>().join("; ");
        RunEnded { outcome: RunOutcome::Failed, reason, checks, unverified, judged: None }
    }
}

/// Whether it is the goal as a whole, which the first plan takes the place of.
fn is_whole(task: &Task, id: &str) -> bool {
    task.subgoals.first().is_some_and(|first| first.id == id && *first == Subgoal::whole(&task.goal))
}

/// Adds the judge's word to the end of a run whose rules all hold. A no fails it; a yes is told as judged, not as verified.
pub(crate) fn judged(end: &mut RunEnded, judged: &Judged) {
    match judged.reached {
        Some(true) => end.reason.push_str("; a model judges that the goal is reached"),
        Some(false) => {
            end.outcome = RunOutcome::Failed;
            end.reason = format!("all rules hold, but the judge says that the goal is not reached: {}", judged.reason);
        }
        None => end.unverified.push(judged.reason.clone()),
    }
    end.unverified.extend(judged.unverified.iter().map(|part| format!("the judge finds nothing that shows: {part}")));
    end.judged = Some(judged.clone());
}
