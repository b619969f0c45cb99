//! From what a tool answered to what is archived: cleaned, checked, its key fields marked, its large parts set apart.

use std::collections::BTreeMap;

use loopforge_core::id::ContentHash;
use loopforge_core::json::{self, Json};
use loopforge_core::payload::{Blob, Payload};
use loopforge_core::record::Outcome;
use loopforge_core::tool::{Code, ToolResult};

use super::Armed;

/// Turns a result into its archived form, with the blobs that it refers to.
///
/// Data that breaks the task's `output_schema` becomes [`Code::MalformedOutput`]: it is archived, and doesn't enter state.
#[must_use]
pub fn archive(armed: &Armed, mut result: ToolResult) -> (Outcome, Vec<Blob>) {
    let cleaned = json::clean(&mut result.data);
    if cleaned.nul > 0 {
        result.marks.push(format!("{} NUL characters were replaced by U+2400", cleaned.nul));
    }
    let mut error = result.error.map(|error| json::clean_text(error).0);
    let mut code = result.code;
    if code == Code::Success
        && let Some(broken) = armed.broken_output(&result.data)
    {
        code = Code::MalformedOutput;
        error = Some(format!("the result breaks the task's `output_schema`: {broken}"));
    }
    let meaning_of_empty = result.meaning_of_empty.or_else(|| {
        (code == Code::Success && is_empty(&result.data)).then(|| armed.contract.meaning_of_empty.clone()).flatten()
    });
    let key_fields: BTreeMap<String, Json> = armed
        .contract
        .key_fields
        .iter()
        .filter_map(|pointer| result.data.pointer(pointer).map(|value| (pointer.clone(), value.clone())))
        .collect();
    let fingerprint = fingerprint(code, &result.data, error.as_deref(), &armed.contract.volatile);
    let mut blobs = Vec::new();
    let data = Payload::stow(result.data, &mut blobs);
    let raw = result.raw.map(|raw| {
        let reference = raw.reference;
        blobs.push(raw);
        reference
    });
    let outcome = Outcome {
        code,
        data,
        error,
        meaning_of_empty,
        retry_after_ms: result.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        marks: result.marks,
        raw,
        key_fields,
        effect_excluded: !result.effect_possible,
        fingerprint,
    };
    (outcome, blobs)
}

fn is_empty(data: &Json) -> bool {
    match data {
        Json::Null => true,
        Json::String(text) => text.is_empty(),
        Json::Array(items) => items.is_empty(),
        Json::Object(map) => map.is_empty(),
        Json::Bool(_) | Json::Number(_) => false,
    }
}

/// Hash of what a call brought, without the parts that change with every call.
fn fingerprint(code: Code, data: &Json, error: Option<&str>, volatile: &[String]) -> ContentHash {
    if code != Code::Success {
        return ContentHash::of(format!("{code}:{}", error.unwrap_or_default()).as_bytes());
    }
    let masked = if volatile.is_empty() {
        None
    } else {
        let mut masked = data.clone();
        for pointer in volatile {
            if let Some(part) = masked.pointer_mut(pointer) {
                *part = Json::Null;
            }
        }
        Some(masked)
    };
    ContentHash::of(json::canonical(masked.as_ref().unwrap_or(data)).as_bytes())
}

/// What a person told as the answer to a call that asked.
#[must_use]
pub fn said(text: &str) -> (Outcome, Vec<Blob>) {
    let mut blobs = Vec::new();
    let data = Json::String(text.to_owned());
    let outcome = Outcome {
        meaning_of_empty: None,
        fingerprint: fingerprint(Code::Success, &data, None, &[]),
        data: Payload::stow(data, &mut blobs),
        ..without_data()
    };
    (outcome, blobs)
}

/// The outcome of a call that took effect, of whose answer nothing is known.
#[must_use]
pub fn without_data() -> Outcome {
    Outcome {
        code: Code::Success,
        data: Payload::default(),
        error: None,
        meaning_of_empty: Some("the effect happened; its answer was lost".to_owned()),
        retry_after_ms: None,
        marks: Vec::new(),
        raw: None,
        key_fields: BTreeMap::new(),
        effect_excluded: false,
        fingerprint: fingerprint(Code::Success, &Json::Null, None, &[]),
    }
}
