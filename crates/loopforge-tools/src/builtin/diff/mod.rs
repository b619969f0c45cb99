//! `diff`: what changed between two values.
//!
//! Numbers are compared as numbers and prices exactly; what only looks different (`1.0` and `1`, `￥399` and `¥399.00`) is not
//! a change.

mod records;
mod same;

use async_trait::async_trait;
use loopforge_core::json::Json;
use loopforge_core::tool::{Contract, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, json};
use similar::TextDiff;

use super::arguments::{self, invalid};
use super::compute;
use crate::{CallContext, Tool};

/// Comparing texts takes time in proportion to lines times differences.
const MOST_LINES: usize = 20_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The older value: records by key, a list, or a text; `null` when there is none yet.
    before: Json,
    /// The newer value, of the same form.
    after: Json,
    /// Fields that are not compared, as `field` or `field.inner`.
    #[serde(default)]
    ignore: Vec<String>,
    /// For lists of records: the field that tells which is which.
    #[serde(default)]
    key: Option<String>,
}

/// Compares two values.
#[derive(Debug)]
pub(super) struct Diff {
    contract: Contract,
}

impl Diff {
    pub(super) fn new() -> Self {
        let description =
            "Compares two sets of records, lists or texts, and lists what was added, removed and changed.";
        let mut contract = Contract::read(description, arguments::schema::<Arguments>());
        contract.deterministic = true;
        contract.key_fields = vec!["/changed".to_owned()];
        contract.meaning_of_empty = Some("nothing changed".to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for Diff {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        compute::blocking(context, move || diff(arguments).unwrap_or_else(|failure| failure)).await
    }
}

fn diff(arguments: Json) -> Result<ToolResult, ToolResult> {
    let Arguments { before, after, ignore, key } = arguments::read(arguments)?;
    let data = match (before, after) {
        (Json::Null, Json::Null) => records::maps(&Map::new(), &Map::new(), &ignore),
        (Json::Object(before), Json::Object(after)) => records::maps(&before, &after, &ignore),
        (Json::Null, Json::Object(after)) => records::maps(&Map::new(), &after, &ignore),
        (Json::Object(before), Json::Null) => records::maps(&before, &Map::new(), &ignore),
        (Json::Array(before), Json::Array(after)) => lists(before, after, key.as_deref(), &ignore)?,
        (Json::Null, Json::Array(after)) => lists(Vec::new(), after, key.as_deref(), &ignore)?,
        (Json::Array(before), Json::Null) => lists(before, Vec::new(), key.as_deref(), &ignore)?,
        (Json::String(before), Json::String(after)) => texts(&before, &after)?,
        (Json::Null, Json::String(after)) => texts("", &after)?,
        (Json::String(before), Json::Null) => texts(&before, "")?,
        (before, after) => {
            return Err(invalid(format!(
                "`before` is {} and `after` is {}: give two objects, two lists or two texts",
                kind(&before),
                kind(&after)
            )));
        }
    };
    let equal = data["equal"] == true;
    let mut result = ToolResult::success(data);
    if equal {
        result.meaning_of_empty = Some("nothing changed".to_owned());
    }
    Ok(result)
}

fn lists(before: Vec<Json>, after: Vec<Json>, key: Option<&str>, ignore: &[String]) -> Result<Json, ToolResult> {
    match key {
        None => Ok(records::bags(&before, &after)),
        Some(key) => {
            let before = records::by_key("before", before, key).map_err(invalid)?;
            let after = records::by_key("after", after, key).map_err(invalid)?;
            Ok(records::maps(&before, &after, ignore))
        }
    }
}

fn texts(before: &str, after: &str) -> Result<Json, ToolResult> {
    for (name, text) in [("before", before), ("after", after)] {
        if text.lines().count() > MOST_LINES {
            return Err(invalid(format!("`{name}` has more than {MOST_LINES} lines: compare it in parts")));
        }
    }
    let compared = TextDiff::from_lines(before, after);
    let count = |tag| compared.iter_all_changes().filter(|change| change.tag() == tag).count();
    Ok(json!({
        "equal": before == after,
        "added_lines": count(similar::ChangeTag::Insert),
        "removed_lines": count(similar::ChangeTag::Delete),
        "diff": compared.unified_diff().context_radius(3).to_string(),
    }))
}

fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "a truth value",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests;
