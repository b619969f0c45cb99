//! When two values mean the same.

use loopforge_core::json::Json;
use serde_json::Map;

use super::super::decimal::Decimal;

/// Whether two values mean the same: numbers by value, readings of `extract` by what was read, all else member by member.
pub(super) fn same(left: &Json, right: &Json) -> bool {
    match (left, right) {
        (Json::Number(left), Json::Number(right)) => {
            left == right
                || matches!((Decimal::parse(&left.to_string()), Decimal::parse(&right.to_string())), (Some(left), Some(right)) if left == right)
        }
        (Json::Array(left), Json::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| same(left, right))
        }
        (Json::Object(left), Json::Object(right)) if is_reading(left) && is_reading(right) => same_reading(left, right),
        (Json::Object(left), Json::Object(right)) => {
            left.len() == right.len()
                && left.iter().all(|(key, value)| right.get(key).is_some_and(|other| same(value, other)))
        }
        _ => left == right,
    }
}

/// Whether a value is what `extract` reads from a text: a `value`, beside the `text` itself.
pub(super) fn is_reading(map: &Map<String, Json>) -> bool {
    map.contains_key("value") && map.get("text").is_some_and(Json::is_string)
}

/// Compares two readings without their texts; where there is an exact decimal, by that.
fn same_reading(left: &Map<String, Json>, right: &Map<String, Json>) -> bool {
    let rest = |map: &Map<String, Json>| {
        let mut map = map.clone();
        for key in ["text", "value", "amount", "decimal"] {
            map.remove(key);
        }
        Json::Object(map)
    };
    let exact = |map: &Map<String, Json>| {
        ["amount", "decimal"].iter().find_map(|key| map.get(*key)?.as_str().and_then(Decimal::parse))
    };
    let values = match (exact(left), exact(right)) {
        (Some(left), Some(right)) => left == right,
        _ => same(&left["value"], &right["value"]),
    };
    values && same(&rest(left), &rest(right))
}
