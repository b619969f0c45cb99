//! Nodes and edges, for programs.

use loopforge_core::record::OutcomeSource;
use serde_json::{Value, json};

use crate::commands::summary::word;
use crate::output::exact;

use super::build::{End, Picture};

/// The whole graph. Ids: `subgoal:ID`, `item:ID/POSITION`, `step:NUMBER`, `action:STEP.ACTION`.
pub(super) fn document(picture: &Picture) -> Value {
    let mut nodes = Vec::new();
    let mut edges = Vec::new();
    let mut edge = |from: &str, to: &str, kind: &str| edges.push(json!({ "from": from, "to": to, "kind": kind }));
    for subgoal in &picture.subgoals {
        let id = format!("subgoal:{}", subgoal.id);
        nodes.push(json!({
            "id": id, "kind": "subgoal", "label": subgoal.id, "status": subgoal.status,
            "items": subgoal.of, "reason": subgoal.reason,
        }));
        for need in &subgoal.needs {
            edge(&id, &format!("subgoal:{need}"), "needs");
        }
        for (at, item) in &subgoal.items {
            // Without a list the steps hang on the subgoal itself.
            let parent = match at {
                None => id.clone(),
                Some(at) => {
                    let item_id = format!("item:{}/{at}", subgoal.id);
                    nodes.push(json!({
                        "id": item_id, "kind": "item", "label": item.label, "position": at, "status": item.status(),
                    }));
                    edge(&id, &item_id, "contains");
                    item_id
                }
            };
            let mut last: Option<String> = None;
            for step in &item.steps {
                let step_id = format!("step:{}", step.step);
                nodes.push(json!({
                    "id": step_id, "kind": "step", "step": step.step, "verdict": exact(&step.verdict),
                    "waits_until": step.waits_until.map(|at| at.to_string()), "question": step.question,
                }));
                edge(&parent, &step_id, "contains");
                if let Some(last) = last.replace(step_id.clone()) {
                    edge(&last, &step_id, "next");
                }
                for action in &step.actions {
                    let action_id = format!("action:{}", action.id);
                    let source = match action.end {
                        End::Finished(_, source) if source != OutcomeSource::Call => Some(word(&source)),
                        _ => None,
                    };
                    nodes.push(json!({
                        "id": action_id, "kind": "action", "tool": action.tool, "effect": action.effect,
                        "tries": action.tries, "outcome": action.end.word(),
                        "refused": matches!(action.end, End::Refused(_)), "source": source,
                    }));
                    edge(&step_id, &action_id, "contains");
                }
            }
        }
    }
    json!({
        "run": picture.run, "name": picture.name, "status": picture.status,
        "nodes": nodes, "edges": edges, "problems": picture.problems,
    })
}
