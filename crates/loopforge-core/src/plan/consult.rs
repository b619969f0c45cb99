//! A model call that belongs to the run as a whole: what it is for, and the tool by which it answers.

use serde::{Deserialize, Serialize};
use serde_json::{Map, json};

use crate::id::BranchId;
use crate::json::Json;
use crate::model::{Arguments, Reply, ToolSchema};
use crate::record::{Cause, Purpose};
use crate::run::{Failure, Thought, ThoughtState};

/// The tool by which a planner answers.
pub const PLANNER: &str = "amend_plan";

/// The tool by which a judge answers.
pub const JUDGE: &str = "judge";

/// Answers that can't be used, until the model is not asked again.
pub const MAX_TRIES: u32 = 3;

/// A question of the run as a whole to a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Consult {
    /// What for.
    pub purpose: Purpose,
    /// Why.
    pub cause: Cause,
    /// The subgoal that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subgoal: Option<String>,
    /// The branch that waits for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub branch: Option<BranchId>,
    /// What happened.
    pub reason: String,
    /// The call, once it is made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thought: Option<Thought>,
    /// Answers that could not be used.
    pub tries: u32,
    /// What was wrong with the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<String>,
    /// The model in the chain that is asked.
    pub model: u32,
    /// Calls that failed in a passing way since the last answer.
    pub model_failures: u32,
    /// Why no model can be asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
}

impl Consult {
    /// Whether a model thinks about it, or is to be asked at once.
    #[must_use]
    pub fn is_at_work(&self) -> bool {
        !self.thought.as_ref().is_some_and(|thought| matches!(thought.state, ThoughtState::Backoff { .. }))
    }

    /// Whether the reply to this call is awaited.
    #[must_use]
    pub fn awaits(&self, call: u32) -> bool {
        self.thought.as_ref().is_some_and(|thought| thought.call == call)
    }
}

/// The planner's tool. It is flat and small, since weak models get deep schemas wrong; what it says is checked by the rules of task files.
#[must_use]
pub fn plan_tool() -> ToolSchema {
    let texts = json!({ "type": "array", "items": { "type": "string" } });
    let subgoal = json!({
        "type": "object",
        "properties": {
            "id": { "type": "string", "description": "A new name: letters, digits and _." },
            "goal": { "type": "string", "description": "What is to be reached, complete in itself: whoever works on it sees only this, the goal of the task, and state." },
            "needs": texts,
            "done_when": { "type": "string", "description": "A CEL rule over state that proves it, such as `has(state.price)` or `size(state.pages) >= 3`." },
            "tools": texts,
            "foreach": { "type": "object", "description": "{ in: an expression for a list, as: the name of an item, parallel: how many at once }" },
            "steps": {
                "type": "array",
                "description": "Fixed calls, where no judgement is needed: { call: tool, with: { argument: value or ${expression} }, save: key, or_else: [{ call, with }] }. Leave it out and a model works on the goal.",
                "items": { "type": "object" }
            },
            "on_failure": { "enum": ["replan", "fail", "defer", "ask"] }
        },
        "required": ["id", "goal"]
    });
    ToolSchema {
        name: PLANNER.to_owned(),
        description: "Amend the plan. Say only what changes; what is not named stays as it is.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "reason": { "type": "string", "description": "Why, in a sentence." },
                "add": { "type": "array", "items": subgoal },
                "replace": {
                    "type": "array",
                    "description": "Subgoals that another takes the place of. What needs the old one then needs the new one.",
                    "items": {
                        "type": "object",
                        "properties": { "id": { "type": "string" }, "with": subgoal },
                        "required": ["id", "with"]
                    }
                },
                "drop": { "type": "array", "items": { "type": "string" }, "description": "Subgoals that are not needed any more." },
                "advice": { "type": "string", "description": "What whoever works on the failed subgoal should do otherwise, when the subgoal itself stays." }
            },
            "required": ["reason"],
            "additionalProperties": false
        }),
    }
}

/// The judge's tool.
#[must_use]
pub fn judge_tool() -> ToolSchema {
    let sentences = json!({ "type": "array", "items": { "type": "string" } });
    ToolSchema {
        name: JUDGE.to_owned(),
        description: "Say whether the goal is reached.".to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "reached": { "type": "boolean" },
                "reason": { "type": "string", "description": "Why, in one or two sentences." },
                "verified": { "type": "array", "items": { "type": "string" }, "description": "Parts of the goal that are shown to be reached, each with what shows it." },
                "unverified": sentences
            },
            "required": ["reached", "reason"],
            "additionalProperties": false
        }),
    }
}

/// The arguments with which a reply calls `tool`: by a call, or as JSON in its text, as models without calls write it.
pub(crate) fn given(reply: &Reply, tool: &str) -> Result<Map<String, Json>, String> {
    let mut calls = reply.calls().filter(|call| call.name == tool);
    match (calls.next(), calls.next()) {
        (Some(_), Some(_)) => {
            return Err(format!("`{tool}` is called more than once: call it once, with everything in it"));
        }
        (Some(call), None) => {
            return match &call.arguments {
                Arguments::Object { value, .. } => Ok(value.clone()),
                Arguments::Malformed(malformed) => Err(malformed.why.clone()),
            };
        }
        (None, _) => {}
    }
    let text = reply.text();
    let written = text.find('{').zip(text.rfind('}')).filter(|(start, end)| start < end);
    if let Some((start, end)) = written
        && let Arguments::Object { value, .. } = Arguments::read(&text[start..=end])
    {
        return Ok(value);
    }
    Err(match reply.calls().next() {
        Some(other) => format!("`{}` can't be called now: answer by `{tool}`", other.name),
        None => format!("nothing was called: answer by a call of `{tool}`"),
    })
}

/// A list of texts among arguments.
pub(crate) fn argument_texts(arguments: &Map<String, Json>, key: &str, problems: &mut Vec<String>) -> Vec<String> {
    match arguments.get(key) {
        None | Some(Json::Null) => Vec::new(),
        Some(Json::Array(items)) => items
            .iter()
            .filter_map(|item| match item {
                Json::String(text) => Some(text.clone()),
                other => {
                    problems.push(format!("`{key}` is a list of texts, and {other} is none"));
                    None
                }
            })
            .collect(),
        Some(Json::String(text)) => vec![text.clone()],
        Some(other) => {
            problems.push(format!("`{key}` must be a list of texts, and is {other}"));
            Vec::new()
        }
    }
}
