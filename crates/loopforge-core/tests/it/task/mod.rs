//! Reading and checking task files.
#![expect(clippy::unwrap_used, reason = "tests")]

mod bad;
mod corpus;
mod good;
mod inputs;
mod robust;
mod schema;

use loopforge_core::task::{Builtin, Catalog};
use loopforge_core::tool::Effect;
use serde_json::json;

/// Three built-ins, as an engine would list them.
pub(crate) fn catalog() -> Catalog {
    let builtin = |input_schema, effect, network| Builtin { input_schema, effect, network };
    Catalog {
        builtins: [
            (
                "http_get".to_owned(),
                builtin(
                    json!({
                        "type": "object",
                        "properties": {
                            "url": { "type": "string", "minLength": 1 },
                            "headers": { "type": "object" },
                            "max_bytes": { "type": "integer", "minimum": 1 }
                        },
                        "required": ["url"],
                        "additionalProperties": false
                    }),
                    Effect::Read,
                    true,
                ),
            ),
            (
                "extract".to_owned(),
                builtin(
                    json!({
                        "type": "object",
                        "properties": { "html": { "type": "string" }, "template": { "enum": ["strict", "loose"] } },
                        "required": ["html"],
                        "additionalProperties": false
                    }),
                    Effect::Read,
                    false,
                ),
            ),
            (
                "write_file".to_owned(),
                builtin(
                    json!({
                        "type": "object",
                        "properties": { "path": { "type": "string" }, "content": {} },
                        "required": ["path", "content"],
                        "additionalProperties": false
                    }),
                    Effect::Write,
                    false,
                ),
            ),
        ]
        .into(),
    }
}
