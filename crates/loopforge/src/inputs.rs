//! The inputs of a run: from the files that the task names, and from what a person gave.

use std::collections::BTreeMap;
use std::path::Path;

use loopforge_core::json::Json;
use loopforge_core::task::{Input, Task};

use crate::error::EngineError;

/// Reads all inputs of a task. `given` are `name=value` or `name=@file`; a file is read as the input's kind says.
///
/// # Errors
/// [`EngineError::Invalid`] or [`EngineError::Io`]. Nothing is started.
pub fn read(task: &Task, base: &Path, given: &[String]) -> Result<BTreeMap<String, Json>, EngineError> {
    let mut values = BTreeMap::new();
    for (name, input) in &task.inputs {
        let own = given.iter().filter_map(|text| text.split_once('=')).find(|(key, _)| key == name);
        let value = match own.map(|(_, value)| value) {
            Some(value) => match value.strip_prefix('@') {
                Some(path) => from_file(input, Path::new(path))?,
                None => serde_json::from_str(value).unwrap_or_else(|_| Json::String(value.to_owned())),
            },
            None => match input.lines.as_ref().or(input.text.as_ref()).or(input.json.as_ref()) {
                Some(path) => from_file(input, &base.join(path))?,
                None => input.value.clone().unwrap_or_default(),
            },
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

fn from_file(input: &Input, path: &Path) -> Result<Json, EngineError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| EngineError::Io { what: format!("the file `{}` can't be read", path.display()), source })?;
    if input.json.is_some() {
        return serde_json::from_str(&text).map_err(|error| EngineError::Invalid(error.to_string()));
    }
    if input.text.is_some() {
        return Ok(Json::String(text));
    }
    Ok(text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')).collect())
}
