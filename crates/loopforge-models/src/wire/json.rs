//! Reading members of what providers send, which is seldom exactly what they promise.

use loopforge_core::json::Json;
use loopforge_core::json::lenient;
use loopforge_core::model::{ErrorKind, ModelError};

use crate::http::{Said, classified, shorten};

/// Reads the data of an event, or a whole body. Adds what was mended to `marks`.
pub(super) fn read(text: &str, marks: &mut Vec<String>) -> Result<Json, ModelError> {
    match lenient::read(text) {
        Ok((json, replaced)) => {
            for mark in replaced.marks() {
                if !marks.contains(&mark) {
                    marks.push(mark);
                }
            }
            Ok(json)
        }
        Err(error) => {
            let shown = shorten(text.split_whitespace().collect::<Vec<_>>().join(" ").as_str());
            Err(ModelError::new(ErrorKind::Unreadable, format!("a part of the reply is no JSON ({error}): {shown}")))
        }
    }
}

/// The error that a document or an event is, if it is one.
pub(super) fn error_in(json: &Json) -> Option<ModelError> {
    let is_error = json.get("error").is_some_and(|error| !error.is_null())
        || json.get("object").is_some_and(|object| object == "error")
        || json.get("type").is_some_and(|kind| kind == "error");
    is_error.then(|| classified(200, &Said::from_json(json), None))
}

/// A member that is text, and not empty.
pub(super) fn text<'j>(json: &'j Json, key: &str) -> Option<&'j str> {
    json.get(key).and_then(Json::as_str).filter(|text| !text.is_empty())
}

/// A count. Some servers write whole numbers as `12.0`.
pub(super) fn count(json: &Json, pointer: &str) -> Option<u64> {
    let number = json.pointer(pointer)?;
    number.as_u64().or_else(|| {
        let float = number.as_f64()?;
        (float >= 0.0 && float.fract() == 0.0).then(|| format!("{float:.0}").parse().ok()).flatten()
    })
}

/// The reply ended before its end.
pub(super) fn truncated(what: &str) -> ModelError {
    ModelError::new(ErrorKind::Truncated, format!("the reply broke off: {what}"))
}

/// What came can't be put together.
pub(crate) fn unreadable(what: impl Into<String>) -> ModelError {
    ModelError::new(ErrorKind::Unreadable, what)
}
