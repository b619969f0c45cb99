//! Arguments as structs: one source for the schema and for reading.

use loopforge_core::json::Json;
use loopforge_core::tool::{Code, ToolResult};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;

/// The JSON Schema of `T`.
pub(super) fn schema<T: JsonSchema>() -> Json {
    // References would make the reader of a schema jump; these are small enough to stand in place.
    let settings =
        schemars::generate::SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    if let Some(map) = schema.as_object_mut() {
        map.remove("title");
        map.remove("$schema");
    }
    schema
}

/// Reads the arguments of a call.
///
/// # Errors
/// A result that names the argument. The gateway has checked the schema, so this is for callers that go around it.
pub(super) fn read<T: DeserializeOwned>(arguments: Json) -> Result<T, ToolResult> {
    serde_json::from_value(arguments).map_err(|error| invalid(error.to_string()))
}

/// A refusal of the arguments: the tool has done nothing.
pub(super) fn invalid(sentence: impl Into<String>) -> ToolResult {
    ToolResult::failure(Code::InvalidArgument, sentence).not_sent()
}
