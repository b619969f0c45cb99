//! JSON as LoopForge uses it: canonical text for comparing, clean text for keeping.

pub mod lenient;

use serde_json::{Number, Value};

/// Any JSON value.
pub type Json = Value;

/// Canonical text of a value: keys sorted, no blanks, `1.0` and `-0` written as `1` and `0`.
///
/// Two arguments that mean the same have the same canonical text. Integers stay exact at any size that JSON here can
/// hold (64 bits), unlike RFC 8785, which merges neighbours above 2^53.
#[must_use]
pub fn canonical(value: &Json) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

fn write_canonical(value: &Json, out: &mut String) {
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort_unstable();
            out.push('{');
            for (position, key) in keys.into_iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_canonical(&Value::String(key.clone()), out);
                out.push(':');
                write_canonical(&map[key], out);
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for (position, item) in items.iter().enumerate() {
                if position > 0 {
                    out.push(',');
                }
                write_canonical(item, out);
            }
            out.push(']');
        }
        Value::Number(number) => out.push_str(&canonical_number(number)),
        Value::Null | Value::Bool(_) | Value::String(_) => out.push_str(&value.to_string()),
    }
}

/// A float that is a whole number below 2^53 is the same number as that integer.
fn canonical_number(number: &Number) -> String {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    match number.as_f64() {
        Some(float) if number.is_f64() && float.fract() == 0.0 && float.abs() < EXACT => {
            #[expect(clippy::cast_possible_truncation, reason = "whole and below 2^53")]
            let whole = float as i64;
            whole.to_string()
        }
        _ => number.to_string(),
    }
}

/// What cleaning changed in a text, so that the change can be shown and is never silent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cleaned {
    /// NUL characters replaced by U+2400 (␀).
    pub nul: usize,
}

/// Replaces what a store or a terminal can't carry. NUL becomes `␀` (U+2400), by the same rule for every store.
///
/// Ordinary text is unchanged, also the six characters `\u0000` when somebody wrote just those.
#[must_use]
pub fn clean_text(text: String) -> (String, Cleaned) {
    let nul = text.bytes().filter(|byte| *byte == 0).count();
    if nul == 0 { (text, Cleaned::default()) } else { (text.replace('\0', "\u{2400}"), Cleaned { nul }) }
}

/// Cleans every text and key in `value` in place; see [`clean_text`]. Returns what was changed.
pub fn clean(value: &mut Json) -> Cleaned {
    let mut cleaned = Cleaned::default();
    match value {
        Value::String(text) => {
            if text.contains('\0') {
                let (clean, count) = clean_text(std::mem::take(text));
                *text = clean;
                cleaned.nul += count.nul;
            }
        }
        Value::Array(items) => {
            for item in items {
                cleaned.nul += clean(item).nul;
            }
        }
        Value::Object(map) => {
            if map.keys().any(|key| key.contains('\0')) {
                let old = std::mem::take(map);
                for (key, item) in old {
                    let (key, count) = clean_text(key);
                    cleaned.nul += count.nul;
                    map.insert(key, item);
                }
            }
            for item in map.values_mut() {
                cleaned.nul += clean(item).nul;
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
    cleaned
}
