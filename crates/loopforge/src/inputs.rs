//! The inputs of a run: from the files that the task names, and from what a person gave.
//!
//! What is read is checked here and kept in the archive with the run: a file that changes later changes nothing.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use loopforge_core::json::Json;
use loopforge_core::task::{Input, Task, inputs};

use crate::error::EngineError;

/// Reads all inputs of a task. `given` are `name=value` or `name=@file`; a file is read as the input's kind says.
///
/// Relative paths in the task start at `base`, those that a person gave at the current folder. `origin` is what the task file is
/// called in problems.
///
/// # Errors
/// [`EngineError::Input`] with the place and the remedy. Nothing is started.
pub fn read(task: &Task, base: &Path, origin: &str, given: &[String]) -> Result<BTreeMap<String, Json>, EngineError> {
    let mut by_name = BTreeMap::new();
    for text in given {
        let argument = inputs::parse_argument(text, &task.inputs)?;
        if by_name.insert(argument.name, argument.value).is_some() {
            return Err(EngineError::Invalid(format!("input `{}` is given twice: leave one out", argument.name)));
        }
    }
    let mut values = BTreeMap::new();
    for (name, input) in &task.inputs {
        let value = match (by_name.get(name.as_str()), input.file(), &input.value) {
            (Some(inputs::ArgumentValue::File(path)), ..) => from_file(name, input, Path::new(path))?,
            (Some(inputs::ArgumentValue::Text(text)), ..) => {
                inputs::resolve_input(name, input, inputs::Given::Text(text))?
            }
            (None, Some(path), _) => from_file(name, input, &base.join(path))?,
            (None, None, Some(value)) => value.clone(),
            (None, None, None) => return Err(inputs::not_given(name, input, origin).into()),
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

fn from_file(name: &str, input: &Input, path: &Path) -> Result<Json, EngineError> {
    let origin = path.display().to_string();
    let no_file = |error: std::io::Error| inputs::no_file(name, &origin, &error.to_string());
    let bytes = read_at_most(path, inputs::MAX_INPUT_BYTES).map_err(no_file)?;
    if bytes.len() as u64 > inputs::MAX_INPUT_BYTES {
        let size =
            std::fs::metadata(path).map_or(bytes.len() as u64, |metadata| metadata.len().max(bytes.len() as u64));
        return Err(inputs::too_large(name, &origin, size).into());
    }
    Ok(inputs::resolve_input(name, input, inputs::Given::Bytes { origin: &origin, bytes: &bytes })?)
}

/// Reads a file to its end, or one byte more than `limit`: a file without an end must give an answer, not fill the memory.
pub(crate) fn read_at_most(path: &Path, limit: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(limit + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
