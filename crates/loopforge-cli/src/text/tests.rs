#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use serde_json::json;

use super::{bytes, entry, line, preview, safe, short, span};
use crate::output::to_json;

const EVIL: &str = "a\u{1b}[2J\u{9b}1m\u{202e}b\u{7f}\0c\r\nd\te";

#[test]
fn a_terminal_obeys_nothing() {
    assert_eq!(safe(EVIL), "a␛[2J\u{fffd}1m\u{fffd}b␡␀c␍\nd\te");
    assert_eq!(safe("中文, é, 🦀"), "中文, é, 🦀");
    assert_eq!(line(EVIL, 100), "a␛[2J\u{fffd}1m\u{fffd}b␡␀c␍ d e");
    let (text, cut) = preview(&json!({ EVIL: [EVIL] }), 1000);
    assert!(!cut && !text.contains(['\u{1b}', '\u{9b}', '\u{202e}', '\u{7f}', '\0', '\r']), "{text}");
}

#[test]
fn json_is_exact_and_safe_at_once() {
    let value = json!({ EVIL: [EVIL, 0.1, u64::MAX], "中": "文" });
    let mut text = Vec::new();
    to_json(&mut text, &value).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&text).unwrap(), value);
    let text = String::from_utf8(text).unwrap();
    assert_eq!(safe(&text), text);
    assert!(text.contains("\\u009b") && text.contains("\\u202e") && text.contains("\"中\":\"文\""), "{text}");
}

#[test]
fn long_values_are_cut_and_say_so() {
    assert_eq!(preview(&json!("12345"), 5), ("12345".to_owned(), false));
    assert_eq!(preview(&json!("äöüß€"), 4), ("äöüß".to_owned(), true));
    let (text, cut) = preview(&json!(vec!["x"; 100_000]), 50);
    assert!(cut && text.chars().count() == 50, "{text}");
    assert_eq!(short(&json!({ "a": [1, 2] }), 20), r#"{"a":[1,2]}"#);
    assert_eq!(short(&json!("x".repeat(1_000_000)), 5), "xxxx…");
    assert_eq!(line("a  b\n\n c", 100), "a b c");
    assert_eq!(line("abcdef", 4), "abc…");
    assert_eq!(entry("done", 6, "a   b", 100), "done   a b");
}

#[test]
fn spans_and_sizes_are_for_people() {
    let spans = [0.04, 1.3, 12.0, 180.0, 7200.0].map(|seconds| span(Duration::from_secs_f64(seconds)));
    assert_eq!(spans, ["40 ms", "1.3 s", "12 s", "3 min", "2 h"]);
    assert_eq!([999, 1000, 50_000_000].map(bytes), ["999 B", "1.0 kB", "50.0 MB"]);
}
