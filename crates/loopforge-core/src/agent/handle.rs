//! Names of results, by which a model passes them on without copying them.

use std::fmt;

use crate::id::{ActionNo, StepNo};
use crate::json::Json;
use crate::payload::NotLoaded;
use crate::record::ActionId;

/// `@12.0`: what the first call of step 12 brought; `@12.0/body/items/3`: a part of it, by JSON pointer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Handle {
    /// The call.
    pub action: ActionId,
    /// Leads to the part; empty for the whole.
    pub pointer: String,
}

impl Handle {
    /// Reads a handle. Any other text is none.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let text = text.strip_prefix('@')?;
        let (name, pointer) = match text.find('/') {
            Some(at) => text.split_at(at),
            None => (text, ""),
        };
        let (step, action) = name.split_once('.')?;
        let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(step) || !digits(action) {
            return None;
        }
        let action = ActionId { step: StepNo(step.parse().ok()?), action: ActionNo(action.parse().ok()?) };
        Some(Self { action, pointer: pointer.to_owned() })
    }
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}{}", self.action, self.pointer)
    }
}

/// Puts results in the place of their handles, wherever a text is nothing but a handle. `result` opens what a call brought.
///
/// # Errors
/// [`NotLoaded`]: load it and ask again. The inner error is for the model: there is no such result.
pub fn resolve(
    value: &mut Json,
    result: &dyn Fn(ActionId) -> Result<Option<Json>, NotLoaded>,
) -> Result<Result<(), String>, NotLoaded> {
    match value {
        Json::String(text) => {
            let Some(handle) = Handle::read(text) else { return Ok(Ok(())) };
            let Some(whole) = result(handle.action)? else {
                return Ok(Err(format!(
                    "there is no result `@{}` to pass on: that call failed, or was never made",
                    handle.action
                )));
            };
            match whole.pointer(&handle.pointer) {
                Some(part) => *value = part.clone(),
                None => return Ok(Err(format!("`@{}` has nothing at `{}`", handle.action, handle.pointer))),
            }
        }
        Json::Array(items) => {
            for item in items {
                if let Err(reason) = resolve(item, result)? {
                    return Ok(Err(reason));
                }
            }
        }
        Json::Object(members) => {
            for member in members.values_mut() {
                if let Err(reason) = resolve(member, result)? {
                    return Ok(Err(reason));
                }
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => {}
    }
    Ok(Ok(()))
}
