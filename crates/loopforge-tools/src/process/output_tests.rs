#![expect(clippy::unwrap_used, reason = "tests")]

use super::*;

fn result(stdout: impl Into<Vec<u8>>, exit_code: i32) -> ToolResult {
    Output::read(stdout.into()).into_result(exit_code, "why", Effect::Read)
}

#[test]
fn a_json_document_is_the_data() {
    for (stdout, data) in [
        ("{\"a\": [1]}\n", json!({"a": [1]})),
        ("[]", json!([])),
        ("42\n", json!(42)),
        ("\u{FEFF}\"x\"", json!("x")),
        ("null", Json::Null),
        ("", Json::Null),
        (" \n", Json::Null),
    ] {
        let result = result(stdout, 0);
        assert_eq!((result.code, &result.data, result.marks.len()), (Code::Success, &data, 0), "{stdout}");
        assert!(result.raw.is_none());
    }
}

#[test]
fn anything_else_is_text() {
    for stdout in ["hello\n", "NaN", "00123", "1 2", "123456789012345678901234567890", "log line\n{\"a\": 1}\n"] {
        let result = result(stdout, 0);
        assert_eq!((result.code, &result.data), (Code::Success, &json!({"text": stdout})), "{stdout}");
        assert!(result.marks.is_empty());
    }
    let broken = result("{\"a\": 1} trailing", 0);
    assert_eq!(broken.data, json!({"text": "{\"a\": 1} trailing"}));
    assert!(broken.marks[0].contains("begins like JSON"), "{:?}", broken.marks);
}

#[test]
fn bytes_that_are_not_text_are_kept_beside_their_reading() {
    for stdout in [vec![0xF0], b"\xC4\xE3\xBA\xC3\n".to_vec(), b"\xCF\xF0\xE8\xE2\xE5\xF2".to_vec()] {
        let result = result(stdout.clone(), 0);
        assert_eq!(result.data["binary"], json!(true));
        assert_eq!(result.data["bytes"], json!(stdout.len()));
        assert!(result.data["text"].as_str().unwrap().contains('\u{FFFD}'));
        let raw = result.raw.unwrap();
        assert_eq!((&*raw.bytes, raw.reference.kind), (stdout.as_slice(), BlobKind::Bytes));
    }
    // One bad byte in a string doesn't make the document useless.
    let result = result(b"{\"name\": \"caf\xE9\", \"n\": 1}".to_vec(), 0);
    assert_eq!(result.data, json!({"name": "caf\u{FFFD}", "n": 1}));
    assert!(result.raw.is_some());
}

#[test]
fn nul_is_replaced_and_marked_everywhere() {
    let text = result("a\0b", 0);
    assert_eq!(text.data, json!({"text": "a\u{2400}b"}));
    let document = result("{\"k\\u0000\": \"\\u0000\", \"plain\": \"\\\\u0000\"}", 0);
    assert_eq!(document.data, json!({"k\u{2400}": "\u{2400}", "plain": "\\u0000"}));
    for result in [text, document] {
        assert!(result.marks.iter().any(|mark| mark.contains("NUL")), "{:?}", result.marks);
        assert!(result.raw.is_some());
    }
}

#[test]
fn control_sequences_stay_as_they_are() {
    assert_eq!(result("\u{1b}[31mred\u{1b}[0m", 0).data, json!({"text": "\u{1b}[31mred\u{1b}[0m"}));
}

#[test]
fn a_command_can_state_its_result() {
    let ok = result(r#"{"ok": true, "data": {"id": 7}}"#, 0);
    assert_eq!((ok.code, ok.data), (Code::Success, json!({"id": 7})));
    let limited = result(r#"{"ok": false, "code": "rate_limited", "error": "slow down", "retry_after_s": 1.5}"#, 0);
    assert_eq!((limited.code, limited.error.as_deref()), (Code::RateLimited, Some("slow down")));
    assert_eq!(limited.retry_after, Some(Duration::from_millis(1500)));
    assert_eq!(result(r#"{"ok": false, "code": 2}"#, 0).code, Code::NotFound);
    assert_eq!(result(r#"{"ok": false, "error": {"why": 1}}"#, 0).error.as_deref(), Some(r#"{"why":1}"#));
    // Also with an exit code of its own, which says less.
    assert_eq!(result(r#"{"ok": false, "code": "unauthorized"}"#, 1).code, Code::Unauthorized);
    let empty = result(r#"{"ok": true, "data": [], "meaning_of_empty": "no such order"}"#, 0);
    assert_eq!(empty.meaning_of_empty.as_deref(), Some("no such order"));
}

#[test]
fn an_answer_that_only_looks_like_a_result_is_data() {
    for stdout in [r#"{"ok": true, "status": "up"}"#, r#"{"ok": "yes"}"#, r#"{"code": 5}"#] {
        let result = result(stdout, 0);
        assert_eq!(
            (result.code, result.data.to_string()),
            (Code::Success, stdout.replace(": ", ":").replace(", ", ","))
        );
    }
}

#[test]
fn a_stated_result_must_make_sense() {
    for stdout in [
        r#"{"ok": true, "code": "timeout"}"#,
        r#"{"ok": false, "code": "success"}"#,
        r#"{"ok": false, "code": "no_such_code"}"#,
        r#"{"ok": false, "code": 99}"#,
        r#"{"ok": false, "code": 900}"#,
        r#"{"ok": false, "retry_after_s": "soon"}"#,
    ] {
        assert_eq!(result(stdout, 0).code, Code::MalformedOutput, "{stdout}");
    }
    // Success that exits with a failure is a failure.
    assert_eq!(result(r#"{"ok": true, "data": 1}"#, 3).code, Code::Permanent);
}

#[test]
fn exit_codes_have_their_meaning() {
    for (exit_code, code) in [
        (1, Code::Permanent),
        (64, Code::InvalidArgument),
        (65, Code::InvalidArgument),
        (66, Code::NotFound),
        (69, Code::Unavailable),
        (75, Code::Unavailable),
        (77, Code::Unauthorized),
        (126, Code::Internal),
        (127, Code::Internal),
        (255, Code::Permanent),
    ] {
        let result = result("{\"seen\": 1}", exit_code);
        assert_eq!(result.code, code, "{exit_code}");
        assert_eq!(result.data, json!({"seen": 1}));
        let error = result.error.unwrap();
        assert!(error.contains(&exit_code.to_string()) && error.ends_with("stderr: why"), "{error}");
    }
}

#[test]
fn an_unexplained_exit_of_a_write_leaves_its_effect_open() {
    let write = |stdout: &str, code| Output::read(stdout.into()).into_result(code, "", Effect::Write);
    assert_eq!(write("", 1).code, Code::Unknown);
    assert!(write("", 1).leaves_effect_unknown());
    assert!(!write("", 75).leaves_effect_unknown(), "a temporary failure is the command's word that nothing happened");
    assert!(write("", 69).leaves_effect_unknown());
    assert_eq!(write("", 65).code, Code::InvalidArgument);
    assert_eq!(write(r#"{"ok": false, "error": "sold out"}"#, 1).code, Code::Permanent);
}

#[test]
fn stderr_is_cut_between_characters() {
    assert_eq!(stderr_text("é\0!".as_bytes(), false), "é\u{2400}!");
    assert_eq!(stderr_text(&"éa".as_bytes()[1..], true), "[...] a");
}

proptest::proptest! {
    #[test]
    fn any_bytes_make_a_result(bytes: Vec<u8>, exit_code in 0..=255) {
        let result = result(bytes.clone(), exit_code);
        // Everything that the archive gets can be written and read again.
        let text = serde_json::to_string(&result.data).unwrap();
        proptest::prop_assert_eq!(serde_json::from_str::<Json>(&text).unwrap(), result.data);
        if let Some(raw) = result.raw {
            proptest::prop_assert_eq!(&*raw.bytes, bytes.as_slice());
        }
    }
}
