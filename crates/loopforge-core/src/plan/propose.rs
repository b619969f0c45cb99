//! Whether what a planner proposes makes sense. Everything that is wrong is said at once.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Map;

use super::{MAX_SUBGOALS, argument_texts, follow, is_unplanned};
use crate::json::Json;
use crate::record::{Amendment, Cause, Replacement, SubgoalOutcome};
use crate::run::{RunState, SubgoalStatus};
use crate::task::{Catalog, Subgoal, Task, read};

/// What a planner said.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Proposal {
    pub(crate) reason: String,
    pub(crate) advice: Option<String>,
    pub(crate) amendment: Amendment,
}

const KEYS: [&str; 5] = ["reason", "add", "replace", "drop", "advice"];

/// Reads and checks a proposal. `task` has the plan as it is now.
///
/// # Errors
/// All problems, at least one; for the planner.
pub(crate) fn propose(
    task: &Task,
    state: &RunState,
    catalog: &Catalog,
    arguments: &Map<String, Json>,
) -> Result<Proposal, Vec<String>> {
    let mut problems = Vec::new();
    for key in arguments.keys().filter(|key| !KEYS.contains(&key.as_str())) {
        problems.push(format!("there is no `{key}`; there are: {}", KEYS.join(", ")));
    }
    let text = |key: &str| arguments.get(key).and_then(Json::as_str).map(str::trim).filter(|text| !text.is_empty());
    if text("reason").is_none() {
        problems.push("`reason` is missing: say why, in a sentence".to_owned());
    }
    let mut drop = argument_texts(arguments, "drop", &mut problems);
    let (written, replace) = subgoals(arguments, &mut problems);
    // The first plan takes the place of the goal as a whole.
    let first = state.consult.as_ref().is_some_and(|consult| consult.cause == Cause::NoPlan);
    if first && is_unplanned(task) && !written.is_empty() && replace.is_empty() {
        for subgoal in &task.subgoals {
            if !drop.contains(&subgoal.id) {
                drop.push(subgoal.id.clone());
            }
        }
    }
    let gone: BTreeSet<&str> =
        drop.iter().map(String::as_str).chain(replace.iter().map(|replacement| replacement.id.as_str())).collect();
    if gone.len() < drop.len() + replace.len() {
        problems.push("a subgoal is dropped or replaced twice".to_owned());
    }
    for id in &gone {
        problems.extend(untouchable(state, id));
    }
    for id in drop.iter().filter(|_| !first) {
        if !state.plan.added(id) && task.evaluator.criteria.is_empty() && state.subgoals.iter().any(|p| p.id == *id) {
            problems.push(format!(
                "`{id}` belongs to the task, and no criterion would tell that it is missing: replace it instead of dropping it"
            ));
        }
    }
    if task.subgoals.len() + written.len() > MAX_SUBGOALS {
        problems.push(format!(
            "the plan would have {} subgoals, those that have ended included; at most {MAX_SUBGOALS} are possible",
            task.subgoals.len() + written.len()
        ));
    }
    let (mut add, found) = check(task, catalog, written, &replace);
    problems.extend(found);
    keep_rules(task, state, &replace, &mut add, &mut problems);
    for subgoal in &add {
        problems.extend(unreachable(state, &subgoal.id, &subgoal.needs, &gone));
    }
    for (subgoal, progress) in task.subgoals.iter().zip(&state.subgoals) {
        let waits = progress.status == SubgoalStatus::Pending && !gone.contains(subgoal.id.as_str());
        for need in subgoal.needs.iter().filter(|need| waits && drop.contains(need)) {
            problems.push(format!("`{}` needs `{need}`, which would be dropped: replace it, or drop both", subgoal.id));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(Proposal {
        reason: text("reason").unwrap_or_default().to_owned(),
        advice: text("advice").map(str::to_owned),
        amendment: Amendment { add, drop, replace },
    })
}

/// The new subgoals as they are written, and which of them take another's place.
fn subgoals(arguments: &Map<String, Json>, problems: &mut Vec<String>) -> (Vec<Json>, Vec<Replacement>) {
    let mut list = |key: &str| match arguments.get(key) {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) => items.clone(),
        Some(_) => {
            problems.push(format!("`{key}` must be a list"));
            Vec::new()
        }
    };
    let mut written = list("add");
    let mut replace = Vec::new();
    for item in list("replace") {
        let with = item.get("with").cloned().unwrap_or_default();
        match (item.get("id").and_then(Json::as_str), with.get("id").and_then(Json::as_str)) {
            (Some(id), Some(new)) => replace.push(Replacement { id: id.to_owned(), with: new.to_owned() }),
            _ => problems.push(
                "an entry of `replace` must be { id: the old one, with: { id: the new one, goal: ... } }".to_owned(),
            ),
        }
        written.push(with);
    }
    (written, replace)
}

/// Why a subgoal can't be dropped or replaced.
fn untouchable(state: &RunState, id: &str) -> Option<String> {
    let Some((position, progress)) = state.subgoals.iter().enumerate().find(|(_, progress)| progress.id == id) else {
        let ids: Vec<&str> = state.subgoals.iter().map(|progress| progress.id.as_str()).collect();
        return Some(format!("there is no subgoal `{id}`; there are: {}", ids.join(", ")));
    };
    let stuck = state.consult.as_ref().and_then(|consult| consult.branch);
    match progress.status {
        SubgoalStatus::Pending | SubgoalStatus::Ended(SubgoalOutcome::Failed | SubgoalOutcome::Blocked) => None,
        // The one whose way failed stands still until the plan is made; none of its siblings may be at work.
        SubgoalStatus::Active
            if state
                .branches
                .iter()
                .filter(|(_, branch)| branch.subgoal == position)
                .all(|(id, _)| Some(*id) == stuck)
                && stuck.is_some_and(|stuck| {
                    state.branches.get(&stuck).is_some_and(|branch| branch.subgoal == position)
                }) =>
        {
            None
        }
        SubgoalStatus::Active => Some(format!("`{id}` is being worked on, and can't be changed now")),
        SubgoalStatus::Ended(_) => Some(format!("`{id}` is {}, and what has ended well stays", progress.status.name())),
    }
}

/// Reads the new subgoals by the rules of task files, within the whole task, so that names, cycles, expressions and arguments are checked
/// as in a file.
fn check(task: &Task, catalog: &Catalog, written: Vec<Json>, replace: &[Replacement]) -> (Vec<Subgoal>, Vec<String>) {
    let known = task.subgoals.len();
    let moved: BTreeMap<&str, &str> = replace.iter().map(|entry| (entry.id.as_str(), entry.with.as_str())).collect();
    let mut whole = task.clone();
    for need in whole.subgoals.iter_mut().flat_map(|subgoal| &mut subgoal.needs) {
        follow(&moved, need);
    }
    let ids: Vec<String> =
        written.iter().map(|subgoal| subgoal.get("id").and_then(Json::as_str).unwrap_or("?").to_owned()).collect();
    let Ok(mut text) = serde_json::to_value(&whole) else {
        return (Vec::new(), vec!["the task can't be written".to_owned()]);
    };
    if let Some(Json::Array(subgoals)) = text.get_mut("subgoals") {
        subgoals.extend(written);
    }
    match read(&text.to_string(), "the plan", catalog) {
        Ok(mut task) => (task.subgoals.split_off(known.min(task.subgoals.len())), Vec::new()),
        Err(problems) => {
            let told = problems.all().iter().map(|problem| {
                let remedy = problem.remedy.as_ref().map(|remedy| format!(" ({remedy})")).unwrap_or_default();
                let nearest =
                    problem.nearest.as_ref().map(|name| format!(", did you mean `{name}`?")).unwrap_or_default();
                format!("{}: {}{nearest}{remedy}", place(&problem.path, known, &ids), problem.message)
            });
            (Vec::new(), told.collect())
        }
    }
}

/// Names a place by the subgoal's id instead of its position.
fn place(path: &str, known: usize, ids: &[String]) -> String {
    let named = path.strip_prefix("subgoals[").and_then(|rest| {
        let (position, rest) = rest.split_once(']')?;
        let id = ids.get(position.parse::<usize>().ok()?.checked_sub(known)?)?;
        Some(format!("`{id}`{}", rest.replacen('.', " ", 1)))
    });
    named.unwrap_or_else(|| path.to_owned())
}

/// A rule's no is final: a replacement can't rid itself of the rule that the task gave to what it replaces.
fn keep_rules(task: &Task, state: &RunState, replace: &[Replacement], add: &mut [Subgoal], problems: &mut Vec<String>) {
    let given: Vec<&str> = task
        .subgoals
        .iter()
        .filter(|subgoal| !state.plan.added(&subgoal.id))
        .filter_map(|subgoal| subgoal.done_when.as_ref().map(|rule| rule.source()))
        .collect();
    for Replacement { id, with } in replace {
        let Some(rule) = task.subgoals.iter().find(|subgoal| subgoal.id == *id).and_then(|old| old.done_when.clone())
        else {
            continue;
        };
        let Some(new) = add.iter_mut().find(|subgoal| subgoal.id == *with) else { continue };
        match &new.done_when {
            None => new.done_when = Some(rule),
            Some(own) if own.source() != rule.source() && given.contains(&rule.source()) => {
                problems
                    .push(format!("the rule of `{id}` stays: leave `done_when` of `{with}` out, or write `{rule}`"));
            }
            Some(_) => {}
        }
    }
}

/// Needs that can never be met.
fn unreachable(state: &RunState, id: &str, needs: &[String], gone: &BTreeSet<&str>) -> Vec<String> {
    let dead = |need: &&String| {
        let failed = state.subgoals.iter().find(|progress| progress.id == **need).is_some_and(|progress| {
            matches!(progress.status, SubgoalStatus::Ended(SubgoalOutcome::Failed | SubgoalOutcome::Dropped))
        });
        failed || gone.contains(need.as_str())
    };
    needs
        .iter()
        .filter(dead)
        .map(|need| {
            format!("`{id}` needs `{need}`, which has failed or is taken out of the plan, so it could never begin")
        })
        .collect()
}
