//! Reasoning beside the content, under the names that servers have for it.

use loopforge_core::json::Json;
use serde_json::{Map, json};

use crate::wire::json::text;

/// Collects the members of a message that hold reasoning, as they have to go back.
#[derive(Debug, Default)]
pub(super) struct Reasoning {
    members: Map<String, Json>,
}

/// Members of text that grows with each piece.
const TEXTS: [&str; 2] = ["reasoning_content", "reasoning"];
/// OpenRouter's list of parts.
const DETAILS: &str = "reasoning_details";

impl Reasoning {
    /// Takes what a piece has of it. Gives the readable text.
    pub(super) fn add<'d>(&mut self, delta: &'d Json) -> Option<&'d str> {
        let mut shown = None;
        for key in TEXTS {
            if let Some(more) = text(delta, key) {
                match self.members.get_mut(key) {
                    Some(Json::String(before)) => before.push_str(more),
                    _ => {
                        self.members.insert(key.to_owned(), json!(more));
                    }
                }
                shown = shown.or(Some(more));
            }
        }
        if let Some(parts) = delta.get(DETAILS).and_then(Json::as_array) {
            let Json::Array(all) = self.members.entry(DETAILS).or_insert_with(|| json!([])) else { return shown };
            parts.iter().for_each(|part| merge(all, part));
        }
        shown
    }

    /// All of it, if there is any.
    pub(super) fn finish(self) -> Option<Json> {
        (!self.members.is_empty()).then_some(Json::Object(self.members))
    }
}

/// Joins the pieces of one part, which have the same index and type and follow each other.
fn merge(all: &mut Vec<Json>, part: &Json) {
    let same = |last: &Json| {
        last.get("index").is_some() && last.get("index") == part.get("index") && last.get("type") == part.get("type")
    };
    let Some(last) = all.last_mut().filter(|last| same(last)) else {
        all.push(part.clone());
        return;
    };
    let (Json::Object(last), Json::Object(part)) = (last, part) else { return };
    for (key, value) in part {
        match (last.get_mut(key), value) {
            (_, Json::Null) => {}
            (Some(Json::String(before)), Json::String(more)) if matches!(key.as_str(), "text" | "summary" | "data") => {
                before.push_str(more);
            }
            _ => {
                last.insert(key.clone(), value.clone());
            }
        }
    }
}
