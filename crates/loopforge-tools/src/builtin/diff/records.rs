//! Differences of records by key, and of lists.

use loopforge_core::json::{Json, canonical};
use serde_json::{Map, json};

use super::same::{is_reading, same};

/// Compares records by key; those that are objects, field by field.
pub(super) fn maps(before: &Map<String, Json>, after: &Map<String, Json>, ignore: &[String]) -> Json {
    let (mut added, mut removed, mut changed, mut unchanged) = (Vec::new(), Vec::new(), Vec::new(), 0_usize);
    for (key, to) in after {
        let Some(from) = before.get(key) else {
            added.push(json!({ "key": key, "value": to }));
            continue;
        };
        let known = changed.len();
        let mut report = |field: &str, from: &Json, to: &Json| {
            let field = if field.is_empty() { Json::Null } else { json!(field) };
            changed.push(json!({ "key": key, "field": field, "from": from, "to": to }));
        };
        compare("", from, to, ignore, &mut report);
        if changed.len() == known {
            unchanged += 1;
        }
    }
    for (key, from) in before {
        if !after.contains_key(key) {
            removed.push(json!({ "key": key, "value": from }));
        }
    }
    let equal = added.is_empty() && removed.is_empty() && changed.is_empty();
    json!({ "equal": equal, "added": added, "removed": removed, "changed": changed, "unchanged": unchanged })
}

/// Reports each field that differs, by its path; `null` stands for a field that isn't there.
fn compare(path: &str, from: &Json, to: &Json, ignore: &[String], report: &mut impl FnMut(&str, &Json, &Json)) {
    match (from, to) {
        (Json::Object(left), Json::Object(right)) if !is_reading(left) && !is_reading(right) => {
            let gone = left.keys().filter(|key| !right.contains_key(*key));
            for field in right.keys().chain(gone) {
                let inner = if path.is_empty() { field.clone() } else { format!("{path}.{field}") };
                if ignore.contains(&inner) {
                    continue;
                }
                let value = |map: &Map<String, Json>| map.get(field).cloned().unwrap_or(Json::Null);
                compare(&inner, &value(left), &value(right), ignore, report);
            }
        }
        _ if same(from, to) => {}
        _ => report(path, from, to),
    }
}

/// Compares lists without regard to order: what one has more often than the other was added or removed.
pub(super) fn bags(before: &[Json], after: &[Json]) -> Json {
    let mut left: Vec<Option<&Json>> = before.iter().map(Some).collect();
    let mut added = Vec::new();
    let mut unchanged = 0_usize;
    // Equal texts meet at once; only the rest is compared with each other.
    let mut by_text: std::collections::HashMap<String, Vec<usize>> = std::collections::HashMap::new();
    for (position, item) in before.iter().enumerate().rev() {
        by_text.entry(canonical(item)).or_default().push(position);
    }
    let mut open = Vec::new();
    for item in after {
        match by_text.get_mut(&canonical(item)).and_then(Vec::pop) {
            Some(position) => {
                left[position] = None;
                unchanged += 1;
            }
            None => open.push(item),
        }
    }
    for item in open {
        match left.iter_mut().find(|other| other.is_some_and(|other| same(other, item))) {
            Some(place) => {
                *place = None;
                unchanged += 1;
            }
            None => added.push(item),
        }
    }
    let removed: Vec<&Json> = left.into_iter().flatten().collect();
    let equal = added.is_empty() && removed.is_empty();
    json!({ "equal": equal, "added": added, "removed": removed, "changed": [], "unchanged": unchanged })
}

/// Puts a list of records under the value of one of their fields.
///
/// # Errors
/// A sentence, when a record lacks the field or two have the same.
pub(super) fn by_key(argument: &str, items: Vec<Json>, key: &str) -> Result<Map<String, Json>, String> {
    let mut map = Map::new();
    for (position, item) in items.into_iter().enumerate() {
        let name = match item.get(key) {
            Some(Json::String(text)) => text.clone(),
            Some(value @ (Json::Number(_) | Json::Bool(_))) => canonical(value),
            _ => {
                return Err(format!(
                    "item {position} of `{argument}` has no plain value under `{key}`: choose another `key`"
                ));
            }
        };
        if map.insert(name.clone(), item).is_some() {
            return Err(format!(
                "two items of `{argument}` have `{name}` under `{key}`: choose a `key` that tells them apart"
            ));
        }
    }
    Ok(map)
}
