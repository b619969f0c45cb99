//! Going on with another task, or with another version of LoopForge (R83).
//!
//! A run goes on with the task that it was started with, unless a person accepts another. Not every change can be
//! accepted: what the run has done, and calls that may have happened, were decided by the task as it was, so that part
//! must still be there.

use std::collections::BTreeMap;

use crate::payload::Payload;
use crate::task::{Entry, Subgoal, Task};

use super::{Branch, Phase, RunState, SubgoalStatus};

/// What is different in another task.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Difference {
    /// What changes, a sentence each.
    pub changes: Vec<String>,
    /// What can't be accepted in this run, a sentence each; empty when all can.
    pub refusals: Vec<String>,
}

/// Whether a run that `written` worked on last can go on with `present` without asking anybody.
///
/// So can a later version that promises to be compatible: of the same major version; before 1.0, of the same minor version.
#[must_use]
pub fn is_compatible(written: &str, present: &str) -> bool {
    let (Some(written), Some(present)) = (version(written), version(present)) else { return written == present };
    let [major, minor, _] = written;
    let same = if major == 0 { present[..2] == [0, minor] } else { present[0] == major };
    same && present >= written
}

/// Major, minor and patch. What stands behind them (`-rc.1`, `+build`) doesn't count.
fn version(text: &str) -> Option<[u64; 3]> {
    let numbers = text.split(['-', '+']).next()?;
    let mut parts = numbers.split('.').map(str::parse);
    let version = [parts.next()?.ok()?, parts.next()?.ok()?, parts.next()?.ok()?];
    parts.next().is_none().then_some(version)
}

impl RunState {
    /// Compares the run's task with another one that it might go on with. `inputs` is what the run was given.
    #[must_use]
    pub fn difference(&self, old: &Task, new: &Task, inputs: &BTreeMap<String, Payload>) -> Difference {
        let mut difference = Difference::default();
        let changes = &mut difference.changes;
        let mut whole = |what: &str, changed: bool| {
            if changed {
                changes.push(format!("`{what}` changed"));
            }
        };
        whole("name", old.name != new.name);
        whole("goal", old.goal != new.goal);
        whole("model", old.model != new.model);
        whole("loop", old.limits != new.limits);
        whole("evaluator", old.evaluator != new.evaluator);
        whole("states", old.states != new.states);
        whole("hooks", old.hooks != new.hooks);
        named("input", &old.inputs, &new.inputs, changes);
        named("tool", &old.tools, &new.tools, changes);
        let subgoals = |task: &Task| -> BTreeMap<String, Subgoal> {
            task.subgoals.iter().map(|subgoal| (subgoal.id.clone(), subgoal.clone())).collect()
        };
        named("subgoal", &subgoals(old), &subgoals(new), changes);
        if changes.is_empty() {
            // Comments, order, another way to write the same.
            changes.push("the text changed, and nothing of what it says".to_owned());
        }
        self.refuse_inputs(new, inputs, &mut difference.refusals);
        self.refuse_states(old, new, &mut difference.refusals);
        self.refuse_tools(old, new, &mut difference.refusals);
        for subgoal in &old.subgoals {
            self.refuse_subgoal(subgoal, new, &mut difference.refusals);
        }
        difference
    }

    fn refuse_inputs(&self, new: &Task, given: &BTreeMap<String, Payload>, refusals: &mut Vec<String>) {
        for name in new.inputs.keys().filter(|name| !given.contains_key(*name)) {
            refusals.push(format!("input `{name}` is new, and the run was not given it: start a new run"));
        }
    }

    fn refuse_states(&self, old: &Task, new: &Task, refusals: &mut Vec<String>) {
        let initial = |task: &Task| task.states.as_ref().map(|states| states.initial.clone());
        if initial(old) != initial(new) {
            refusals.push("the lifecycle begins in another state".to_owned());
        } else if let (Some(now), Some(states)) = (&self.lifecycle, &new.states)
            && !states.transitions.contains_key(now)
            && !states.transitions.values().any(|next| next.contains(now))
        {
            refusals.push(format!("the lifecycle is in state `{now}`, which is not there any more"));
        }
    }

    /// A call that is open, and may have happened, needs its tool to find out.
    fn refuse_tools(&self, old: &Task, new: &Task, refusals: &mut Vec<String>) {
        for branch in self.branches.values() {
            let Phase::Acting { actions } = &branch.phase else { continue };
            for action in actions {
                let (id, tool) = (action.id, &action.tool);
                match (old.tools.get(tool), new.tools.get(tool)) {
                    (_, None) => {
                        refusals.push(format!("the call {id} of `{tool}` is open, and the tool is not there any more"))
                    }
                    (Some(old), Some(new)) if (&old.effect, &old.effect_key) != (&new.effect, &new.effect_key) => {
                        refusals.push(format!(
                            "the call {id} of `{tool}` is open, and its `effect` or `effect_key` changed"
                        ));
                    }
                    _ => {}
                }
            }
        }
    }

    fn refuse_subgoal(&self, old: &Subgoal, new: &Task, refusals: &mut Vec<String>) {
        let Some(progress) = self.subgoals.iter().find(|progress| progress.id == old.id) else { return };
        let status = progress.status;
        if status == SubgoalStatus::Pending {
            return;
        }
        let id = &old.id;
        let Some(new) = new.subgoals.iter().find(|subgoal| subgoal.id == *id) else {
            return refusals.push(format!("subgoal `{id}` is {}, and is not there any more", status.name()));
        };
        let list = |subgoal: &Subgoal| {
            subgoal.foreach.as_ref().map(|foreach| (foreach.list.source().to_owned(), foreach.name.clone()))
        };
        if list(old) != list(new) {
            return refusals.push(format!("subgoal `{id}` is {}, and its `foreach` changed", status.name()));
        }
        if old.is_agent() != new.is_agent() {
            return refusals.push(format!(
                "subgoal `{id}` is {}, and who decides its steps changed: a model, or the task",
                status.name()
            ));
        }
        if matches!(status, SubgoalStatus::Ended(_)) {
            if old.steps != new.steps {
                refusals.push(format!("subgoal `{id}` is {}, and its `steps` changed", status.name()));
            }
            return;
        }
        let position = self.subgoals.iter().position(|progress| progress.id == *id);
        for branch in self.branches.values().filter(|branch| Some(branch.subgoal) == position) {
            if let Some(entry) = changed_entry(branch, &old.steps, &new.steps) {
                let item = branch.item.map(|item| format!(" of item {item}")).unwrap_or_default();
                refusals
                    .push(format!("step entry {}{item} of subgoal `{id}` is done or at work, and changed", entry + 1));
            }
        }
    }
}

/// The first entry that a branch has done, or has a call open of, and that is not as it was.
fn changed_entry(branch: &Branch, old: &[Entry], new: &[Entry]) -> Option<usize> {
    let at_work = matches!(branch.phase, Phase::Acting { .. });
    let fixed = branch.entry as usize + usize::from(at_work);
    (0..fixed.min(old.len())).find(|position| old.get(*position) != new.get(*position))
}

fn named<T: PartialEq>(what: &str, old: &BTreeMap<String, T>, new: &BTreeMap<String, T>, changes: &mut Vec<String>) {
    for (name, value) in old {
        match new.get(name) {
            None => changes.push(format!("{what} `{name}` is gone")),
            Some(other) if other != value => changes.push(format!("{what} `{name}` changed")),
            Some(_) => {}
        }
    }
    for name in new.keys().filter(|name| !old.contains_key(*name)) {
        changes.push(format!("{what} `{name}` is new"));
    }
}

#[cfg(test)]
mod tests {
    use super::is_compatible;

    #[test]
    fn a_later_version_of_the_same_series_needs_no_question() {
        for (written, present, compatible) in [
            ("0.1.0", "0.1.0", true),
            ("0.1.0", "0.1.7", true),
            ("0.1.7", "0.1.0", false),
            ("0.1.0", "0.2.0", false),
            ("0.2.0", "0.1.9", false),
            ("0.9.0", "1.0.0", false),
            ("1.2.3", "1.10.0", true),
            ("1.2.3", "2.0.0", false),
            ("1.2.3", "1.2.2", false),
            ("1.2.3-rc.1", "1.2.3", true),
            ("of a test", "of a test", true),
            ("of a test", "1.0.0", false),
        ] {
            assert_eq!(is_compatible(written, present), compatible, "{written} and then {present}");
        }
    }
}
