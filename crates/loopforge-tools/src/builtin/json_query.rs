//! `json_query`.

use async_trait::async_trait;
use jsonpath_rust::JsonPath;
use loopforge_core::json::Json;
use loopforge_core::tool::{Code, Contract, ToolResult};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::arguments::{self, invalid};
use super::compute;
use crate::{CallContext, Tool};

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// The document: a value, a JSON text, or what `http_get` returned.
    input: Json,
    /// A JSONPath (RFC 9535): `$.items[?@.price < 100].name`. Not together with `pointer`.
    #[serde(default)]
    path: Option<String>,
    /// A JSON pointer (RFC 6901): `/items/0/name`. Not together with `path`.
    #[serde(default)]
    pointer: Option<String>,
}

/// Takes parts out of JSON.
#[derive(Debug)]
pub(super) struct JsonQuery {
    contract: Contract,
}

impl JsonQuery {
    pub(super) fn new() -> Self {
        let description = "Takes the parts out of a JSON document that a JSONPath or JSON pointer names.";
        let mut contract = Contract::read(description, arguments::schema::<Arguments>());
        contract.deterministic = true;
        contract.meaning_of_empty = Some("nothing in the document fits".to_owned());
        Self { contract }
    }
}

#[async_trait]
impl Tool for JsonQuery {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        compute::blocking(context, move || query(arguments).unwrap_or_else(|failure| failure)).await
    }
}

fn query(arguments: Json) -> Result<ToolResult, ToolResult> {
    let arguments: Arguments = arguments::read(arguments)?;
    let document = document(arguments.input)?;
    let values: Vec<Json> = match (arguments.path, arguments.pointer) {
        (Some(path), None) => document
            .query(&path)
            .map_err(|error| invalid(format!("`path` is `{path}`, which is no JSONPath: {error}")))?
            .into_iter()
            .cloned()
            .collect(),
        (None, Some(pointer)) => {
            if !pointer.is_empty() && !pointer.starts_with('/') {
                return Err(invalid(format!("`pointer` is `{pointer}`, which is no JSON pointer: begin it with `/`")));
            }
            document.pointer(&pointer).cloned().into_iter().collect()
        }
        _ => return Err(invalid("give either `path` or `pointer`")),
    };
    let first = values.first().cloned().unwrap_or(Json::Null);
    let mut result = ToolResult::success(json!({ "count": values.len(), "value": first, "values": values }));
    if result.data["count"] == 0 {
        result.meaning_of_empty = Some("nothing in the document fits".to_owned());
    }
    Ok(result)
}

/// The document itself, where a text or an answer of `http_get` holds it.
fn document(input: Json) -> Result<Json, ToolResult> {
    let text = match input {
        Json::String(text) => text,
        Json::Object(mut map) if ["status", "url", "truncated", "body"].iter().all(|key| map.contains_key(*key)) => {
            match map.remove("body") {
                Some(Json::String(text)) => text,
                other => return Ok(other.unwrap_or(Json::Null)),
            }
        }
        other => return Ok(other),
    };
    serde_json::from_str(text.trim_start_matches('\u{feff}'))
        .map_err(|error| ToolResult::failure(Code::MalformedOutput, format!("`input` is no JSON: {error}")))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use proptest::prelude::*;

    use super::*;

    fn run(arguments: Json) -> ToolResult {
        query(arguments).unwrap_or_else(|failure| failure)
    }

    #[test]
    fn paths_and_pointers_into_values_texts_and_answers() {
        let value = json!({ "items": [{ "name": "a", "price": 5 }, { "name": "b", "price": 500 }] });
        let answer = json!({ "status": 200, "url": "http://a.test/", "truncated": false, "body": value.to_string() });
        for input in [value.clone(), json!(value.to_string()), answer] {
            let found = run(json!({ "input": input, "path": "$.items[?@.price < 100].name" }));
            assert_eq!(found.data, json!({ "count": 1, "value": "a", "values": ["a"] }));
            let found = run(json!({ "input": input, "pointer": "/items/1/price" }));
            assert_eq!(found.data["value"], 500);
        }
        let none = run(json!({ "input": value, "path": "$.nothing" }));
        assert!(none.is_ok() && none.meaning_of_empty.is_some());
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        let error = |arguments| run(arguments).error.unwrap();
        assert!(error(json!({ "input": {}, "path": "items[" })).contains("no JSONPath"));
        assert!(error(json!({ "input": {}, "pointer": "a" })).contains("begin it with `/`"));
        assert!(error(json!({ "input": {} })).contains("either"));
        assert!(error(json!({ "input": {}, "path": "$", "pointer": "" })).contains("either"));
        let broken = run(json!({ "input": "{\"a\": NaN}", "path": "$" }));
        assert_eq!(broken.code, Code::MalformedOutput);
    }

    proptest! {
        #[test]
        fn never_panics(path in "\\$?[.\\[\\]a-z0-9?@<>=!&|()*:,'\" -]{0,24}") {
            run(json!({ "input": { "a": [1, "x", null, { "b": 2 }] }, "path": path }));
        }
    }
}
