//! The JSON Schema of the task file, for editors and for whoever writes tasks by program.

use serde_json::json;

use super::{NOT_AVAILABLE, Task};
use crate::json::Json;

/// The JSON Schema (draft 2020-12) of a task file, with the parts that this version refuses.
#[must_use]
pub fn json_schema() -> Json {
    let settings = schemars::generate::SchemaSettings::draft2020_12();
    let mut schema = settings.into_generator().into_root_schema_for::<Task>().to_value();
    without_null(&mut schema);
    for part in NOT_AVAILABLE {
        let definition = match part.definition {
            "Task" => Some(&mut schema),
            name => schema.pointer_mut(&format!("/$defs/{name}")),
        };
        let properties = definition.and_then(|found| found.get_mut("properties")).and_then(Json::as_object_mut);
        if let Some(properties) = properties {
            properties.insert(
                part.key.to_owned(),
                json!({
                    "description": format!("Planned: not available in this version. {}", part.about),
                    "deprecated": true
                }),
            );
        }
    }
    if let Some(object) = schema.as_object_mut() {
        object.insert("$id".to_owned(), json!("urn:loopforge:schema:task"));
        object.insert("title".to_owned(), json!("LoopForge task"));
        object.insert("required".to_owned(), json!(["name", "goal"]));
        object.insert("description".to_owned(), json!("A task: what to do, with which tools, within which limits."));
    }
    schema
}

/// A key that may be left out is never `null` in a file: the reader takes a key without a value for an oversight.
fn without_null(schema: &mut Json) {
    match schema {
        Json::Array(items) => items.iter_mut().for_each(without_null),
        Json::Object(object) => {
            object.retain(|key, value| key != "default" || !value.is_null());
            if let Some(Json::Array(types)) = object.get_mut("type") {
                types.retain(|name| name != "null");
                if let [only] = types.as_slice() {
                    let only = only.clone();
                    object.insert("type".to_owned(), only);
                }
            }
            if let Some(Json::Array(choices)) = object.get_mut("anyOf") {
                choices.retain(|choice| choice.get("type").is_none_or(|name| name != "null"));
                if let [Json::Object(only)] = choices.as_slice() {
                    let only = only.clone();
                    object.remove("anyOf");
                    object.extend(only);
                }
            }
            object.values_mut().for_each(without_null);
        }
        Json::Null | Json::Bool(_) | Json::Number(_) | Json::String(_) => {}
    }
}
