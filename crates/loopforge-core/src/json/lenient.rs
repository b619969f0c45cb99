//! JSON as programs really write it.
//!
//! Python prints `NaN` and half surrogate pairs, others print integers of any length. A strict reader refuses the whole
//! document for one of them. Here each is replaced by what JSON can hold, all else stays, and what was replaced is
//! counted:
//!
//! - `NaN`, `Infinity`, `-Infinity` and numbers beyond the range of a double (`1e999`) become `null`;
//! - an integer beyond 64 bits becomes a string with its digits, which would else be rounded silently;
//! - the escape of a lone surrogate (`\ud83d`) becomes U+FFFD; a proper pair is joined.

use std::borrow::Cow;

use super::Json;

/// What was replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Replaced {
    /// Numbers that JSON can't hold.
    pub not_finite: usize,
    /// Integers beyond 64 bits.
    pub long_integers: usize,
    /// Halves of surrogate pairs.
    pub lone_surrogates: usize,
}

impl Replaced {
    /// The marks for a result: what was replaced, and how often.
    pub fn marks(self) -> impl Iterator<Item = String> {
        [
            (self.not_finite, "number that JSON can't hold (NaN, infinity) replaced by null"),
            (self.long_integers, "integer beyond 64 bits kept as text"),
            (self.lone_surrogates, "lone surrogate replaced by U+FFFD"),
        ]
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, what)| format!("{count} × {what}"))
    }
}

/// Reads a JSON document.
///
/// # Errors
/// What is no JSON after all replacements either.
pub fn read(text: &str) -> Result<(Json, Replaced), serde_json::Error> {
    let (repaired, replaced) = repair(text);
    Ok((serde_json::from_str(&repaired)?, replaced))
}

/// Rewrites what a strict reader refuses. Text that is no JSON comes out as no JSON.
fn repair(text: &str) -> (Cow<'_, str>, Replaced) {
    let bytes = text.as_bytes();
    let mut replaced = Replaced::default();
    let mut out = String::new();
    let mut copied = 0;
    let mut at = 0;
    while at < bytes.len() {
        let (end, instead) = match bytes[at] {
            b'"' => {
                at = repair_string(text, at, &mut copied, &mut out, &mut replaced.lone_surrogates);
                continue;
            }
            b'-' | b'0'..=b'9' | b'N' | b'I' => token(text, at, &mut replaced),
            _ => (at + 1, None),
        };
        if let Some(instead) = instead {
            out.push_str(&text[copied..at]);
            out.push_str(&instead);
            copied = end;
        }
        at = end;
    }
    if copied == 0 {
        return (Cow::Borrowed(text), replaced);
    }
    out.push_str(&text[copied..]);
    (Cow::Owned(out), replaced)
}

/// Looks at the token at `start`; returns its end, and what to write instead.
fn token(text: &str, start: usize, replaced: &mut Replaced) -> (usize, Option<String>) {
    let rest = &text.as_bytes()[start..];
    let length =
        rest.iter().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.')).count();
    let token = &text[start..start + length];
    let instead = if matches!(token, "NaN" | "-NaN" | "Infinity" | "-Infinity") {
        replaced.not_finite += 1;
        Some("null".to_owned())
    } else if is_long_integer(token) {
        replaced.long_integers += 1;
        Some(format!("\"{token}\""))
    } else if token.contains(['e', 'E']) && is_number(token) && token.parse().is_ok_and(f64::is_infinite) {
        replaced.not_finite += 1;
        Some("null".to_owned())
    } else {
        None
    };
    (start + length.max(1), instead)
}

fn is_long_integer(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    digits.len() > 18
        && !digits.starts_with('0')
        && digits.bytes().all(|byte| byte.is_ascii_digit())
        && token.parse::<i64>().is_err()
        && token.parse::<u64>().is_err()
}

/// Whether a strict reader would take the token for a number, were it smaller: `f64::from_str` takes more than JSON.
fn is_number(token: &str) -> bool {
    let digits = token.strip_prefix('-').unwrap_or(token);
    digits.starts_with(|first: char| first.is_ascii_digit())
        && digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-'))
}

/// Copies a string, with lone surrogates replaced, and returns where it ends.
fn repair_string(text: &str, start: usize, copied: &mut usize, out: &mut String, lone: &mut usize) -> usize {
    let bytes = text.as_bytes();
    let mut at = start + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => return at + 1,
            b'\\' => match surrogate(bytes, at) {
                Some(0xD800..=0xDBFF) if matches!(surrogate(bytes, at + 6), Some(0xDC00..=0xDFFF)) => at += 12,
                Some(_) => {
                    out.push_str(&text[*copied..at]);
                    out.push('\u{FFFD}');
                    *lone += 1;
                    at += 6;
                    *copied = at;
                }
                None => at += 2,
            },
            _ => at += 1,
        }
    }
    bytes.len()
}

/// The surrogate whose escape stands at `at`.
fn surrogate(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    let digits = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
    u16::from_str_radix(digits, 16).ok().filter(|unit| (0xD800..=0xDFFF).contains(unit))
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]

    use serde_json::json;

    use super::*;

    #[test]
    fn ordinary_json_is_untouched() {
        let text =
            r#"{"a": [1, -2.5, 1e10, "NaN", "1e999", "\\ud83d", "\ud83d\ude00", "😀"], "b": 18446744073709551615}"#;
        assert!(matches!(repair(text), (Cow::Borrowed(same), _) if same == text));
        let (value, replaced) = read(text).unwrap();
        assert_eq!(value["a"], json!([1, -2.5, 1e10, "NaN", "1e999", "\\ud83d", "😀", "😀"]));
        assert_eq!(replaced, Replaced::default());
    }

    #[test]
    fn numbers_that_json_lacks_become_null_and_the_rest_stays() {
        let (value, replaced) = read(r#"{"a": NaN, "b": [Infinity, -Infinity, 1e999, -1E+400], "c": 7}"#).unwrap();
        assert_eq!(value, json!({"a": null, "b": [null, null, null, null], "c": 7}));
        assert_eq!(replaced.not_finite, 5);
    }

    #[test]
    fn long_integers_keep_their_digits() {
        let (value, replaced) = read("[18446744073709551616, -9223372036854775809, -9223372036854775808]").unwrap();
        assert_eq!(value, json!(["18446744073709551616", "-9223372036854775809", i64::MIN]));
        assert_eq!(replaced.long_integers, 2);
    }

    #[test]
    fn lone_surrogates_are_replaced_and_pairs_joined() {
        let (value, replaced) =
            read(r#"{"\udc00k": ["\ud83d", "\ude00\ud83d", "\ud83d\ude00", "a\ud83dx\\\ud83d"]}"#).unwrap();
        assert_eq!(value, json!({"\u{FFFD}k": ["\u{FFFD}", "\u{FFFD}\u{FFFD}", "😀", "a\u{FFFD}x\\\u{FFFD}"]}));
        assert_eq!(replaced.lone_surrogates, 6);
    }

    #[test]
    fn no_json_stays_no_json() {
        for text in ["NaN-ish", "{", "[1 2]", "\"\\ud83d", "Infinity War", "[01e999e]", "[--1]", "é[", "-", "\"\\"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
