//! The tools by which a model speaks to the loop.

use serde_json::json;

use crate::json::Json;
use crate::model::ToolSchema;

/// A tool of the loop itself. It reaches nothing outside; what it does is a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Control {
    /// The subgoal is done, says the model.
    Finish,
    /// Something is missing that a person knows.
    AskPerson,
    /// Keep a value in state.
    SetState,
    /// Read a value of state.
    GetState,
    /// Read on in a result that is not shown whole.
    Recall,
    /// Go on later.
    Wait,
    /// This way leads nowhere.
    Replan,
}

/// The longest time that a model may wait at once, in seconds: a day.
pub const LONGEST_WAIT_S: u64 = 86_400;

impl Control {
    /// All of them, in the order in which a model sees them.
    pub const ALL: [Self; 7] =
        [Self::Finish, Self::AskPerson, Self::SetState, Self::GetState, Self::Recall, Self::Wait, Self::Replan];

    /// Its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Finish => "finish",
            Self::AskPerson => "ask_person",
            Self::SetState => "set_state",
            Self::GetState => "get_state",
            Self::Recall => "recall",
            Self::Wait => "wait",
            Self::Replan => "replan",
        }
    }

    /// The control of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|control| control.name() == name)
    }

    /// As a model is told of it.
    #[must_use]
    pub fn schema(self) -> ToolSchema {
        let (description, properties, required): (&str, Json, &[&str]) = match self {
            Self::Finish => (
                "Say that the current subgoal is done. The runtime checks it; if it does not hold you are told why and go on.",
                json!({ "summary": { "type": "string", "description": "What was reached, with the figures that matter, verbatim." } }),
                &["summary"],
            ),
            Self::AskPerson => (
                "Ask a person when information is missing that no tool can give. Never guess an order number, a price, a date or a name. The answer is the result of this call; it can take long.",
                json!({ "question": { "type": "string" } }),
                &["question"],
            ),
            Self::SetState => (
                "Keep a value under a key, so that it outlives the conversation and rules can read it as state.KEY. Copy figures, dates and ids verbatim.",
                json!({
                    "key": { "type": "string", "pattern": "^[A-Za-z_][A-Za-z0-9_]*$" },
                    "member": { "type": "string", "description": "Keep it as one member of a map under the key." },
                    "value": { "description": "Any JSON value, or the handle of a result." }
                }),
                &["key", "value"],
            ),
            Self::GetState => (
                "Read the value that state holds under a key, whole.",
                json!({ "key": { "type": "string" } }),
                &["key"],
            ),
            Self::Recall => (
                "Read on in a result that was cut or is no longer shown. Give its handle, and from which character on; or a text to look for in it.",
                json!({
                    "handle": { "type": "string", "description": "@step.call, with a JSON pointer for a part" },
                    "from": { "type": "integer", "minimum": 0 },
                    "query": { "type": "string" }
                }),
                &["handle"],
            ),
            Self::Wait => (
                "Go on later, when something outside needs time. Waiting costs nothing; asking again and again does.",
                json!({
                    "seconds": { "type": "integer", "minimum": 1, "maximum": LONGEST_WAIT_S },
                    "reason": { "type": "string" }
                }),
                &["seconds"],
            ),
            Self::Replan => (
                "Say that the present way leads nowhere, so that another one is tried.",
                json!({ "reason": { "type": "string" } }),
                &["reason"],
            ),
        };
        ToolSchema {
            name: self.name().to_owned(),
            description: description.to_owned(),
            parameters: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
        }
    }
}
