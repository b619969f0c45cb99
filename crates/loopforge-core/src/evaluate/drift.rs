//! Whether a model drifts from its goal (R22), by words alone: cheap, and sure of nothing. So it only ever reminds.

use std::collections::BTreeSet;

use crate::agent::{Agent, Control};
use crate::model::Reply;
use crate::task::{Subgoal, Task};

/// Replies in a row without anything of the goal, after which the model is reminded, and reminded again. Source: DESIGN, evaluator.
const REPLIES: u32 = 3;

/// Below so many terms a goal says too little to compare with.
const FEW_TERMS: usize = 3;

/// Words that a reply must have for its silence about the goal to mean anything.
const FEW_WORDS: usize = 6;

/// Letters of a word that are compared, so that `price`, `prices` and `priced` are one term.
const STEM: usize = 5;

/// Whether a reply has nothing to do with the goal of the task or the subgoal: it names none of their terms, and calls none of the tools
/// that the subgoal lists.
pub(crate) fn is_adrift(task: &Task, subgoal: &Subgoal, reply: &Reply) -> bool {
    let said = reply.text();
    let mut words = terms(&said);
    if words.len() < FEW_WORDS {
        return false;
    }
    let listed = |tool: &str| subgoal.tools.as_ref().is_some_and(|tools| tools.iter().any(|listed| listed == tool));
    for call in reply.calls() {
        if listed(&call.name) || Control::find(&call.name).is_some() {
            return false;
        }
        words.extend(terms(&call.name));
        words.extend(terms(call.arguments.text()));
    }
    let mut goal = terms(&task.goal);
    goal.extend(terms(subgoal.goal.as_deref().unwrap_or_default()));
    goal.extend(terms(&subgoal.id));
    if let Some(rule) = &subgoal.done_when {
        goal.extend(terms(rule.source()));
    }
    goal.len() >= FEW_TERMS && goal.is_disjoint(&words)
}

/// What the model is told after some replies in a row that have nothing to do with the goal.
pub(crate) fn reminder(agent: &Agent, subgoal: &Subgoal, task: &Task) -> Option<String> {
    let due = agent.adrift_in_row > 0 && agent.adrift_in_row.is_multiple_of(REPLIES);
    due.then(|| {
        let goal = subgoal.goal.as_deref().unwrap_or(&task.goal).trim();
        format!(
            "the last {} replies say nothing of the goal; if they lead away from it, come back to it: {goal}",
            agent.adrift_in_row
        )
    })
}

/// The stems of the longer words of a text; of Chinese and the like, each pair of neighbours.
fn terms(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for word in text.split(|character: char| !character.is_alphanumeric()) {
        if word.is_ascii() {
            if word.len() > STEM - 2 {
                found.insert(word.chars().take(STEM).collect::<String>().to_lowercase());
            }
            continue;
        }
        let characters: Vec<char> = word.chars().collect();
        if characters.iter().any(|character| *character >= '\u{2e80}') {
            found.extend(characters.windows(2).map(|pair| pair.iter().collect::<String>()));
        } else if characters.len() > STEM - 2 {
            found.insert(characters.iter().take(STEM).collect::<String>().to_lowercase());
        }
    }
    found
}
