#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::json::Json;

/// LLM-03
#[test]
fn arguments_that_are_no_object_are_told_apart_and_keep_their_text() {
    for (text, part) in [
        (r#"{"n": 5"#, "EOF"),
        (r#"{"a": 1,"#, "EOF"),
        (r#"{"a": 1,}"#, "trailing comma"),
        ("null", "null"),
        ("[1]", "a list"),
        (r#""x""#, "a text"),
        ("3", "a number"),
        ("true", "true or false"),
        (r#"{"a":1}{"a":1}"#, "trailing characters"),
        (r#"{"a":1,"a":2}"#, "the key `a` stands twice"),
        (r#"{"deep":[{"a":1,"a":1}]}"#, "the key `a` stands twice"),
        (r#"{"id":123456789012345678901234567890}"#, "write it as text"),
        ("{'a': 1}", "key must be a string"),
        ("```json\n{}\n```", "expected value"),
    ] {
        let arguments = Arguments::read(text);
        let malformed = arguments.malformed().unwrap_or_else(|| panic!("{text} was read"));
        assert_eq!(malformed.text, text);
        assert!(malformed.why.contains(part), "{text}: {}", malformed.why);
        assert!(arguments.object().is_none());
    }
}

/// LLM-02
#[test]
fn nothing_means_no_arguments_and_the_text_of_others_stays_as_it_came() {
    assert_eq!(Arguments::read("").object(), Some(&serde_json::Map::new()));
    assert_eq!(Arguments::read(" \n").object(), Some(&serde_json::Map::new()));
    assert_eq!(Arguments::of(Json::Null).object(), Some(&serde_json::Map::new()));
    let text = "{ \"b\": 1.50, \"a\": 18446744073709551615, \"c\": \"123456789012345678901234567890 \\\" 1\" }";
    let arguments = Arguments::read(text);
    assert_eq!(arguments.text(), text);
    assert_eq!(arguments.object().unwrap()["a"], json!(u64::MAX));
    assert!(Arguments::of(json!([1])).malformed().unwrap().why.contains("a list"));
}

#[test]
fn reasons_are_bounded_and_point_at_the_place() {
    let long = format!("{{\"a\": \"{}\", b: 1}}", "价".repeat(5000));
    let why = Arguments::read(long).malformed().unwrap().why.clone();
    assert!(why.contains("at `b: 1}`"), "{why}");
    let key = "k".repeat(9000);
    let twice = Arguments::read(format!("{{\"{key}\":1,\"{key}\":1}}"));
    assert!(twice.malformed().unwrap().why.len() < 400);
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic_and_archived_without_loss(text in ".{0,60}|[{}\\[\\]\",:0-9a-e\\\\ \n-]{0,40}") {
        let arguments = Arguments::read(text.clone());
        prop_assert_eq!(arguments.text(), text.as_str());
        let archived = serde_json::to_string(&arguments).unwrap();
        prop_assert_eq!(serde_json::from_str::<Arguments>(&archived).unwrap(), arguments);
    }

    #[test]
    fn costs_add_up_exactly(input in 0_u64..1 << 40, cached in 0_u64..1 << 40, output in 0_u64..1 << 40, price in 0_u64..1 << 20) {
        let dollars = Money::microdollars(price);
        let price = Price { input: dollars, cached_input: None, cache_write: None, output: dollars, long: None };
        let usage = Usage { input: Some(input), cached_input: Some(cached), output: Some(output), ..Usage::default() };
        let exact = u128::from(input + output) * u128::from(dollars.picodollars / 1_000_000);
        prop_assert_eq!(u128::from(price.cost(&usage).unwrap().picodollars), exact.min(u128::from(u64::MAX)));
    }

    #[test]
    fn amounts_are_read_as_they_are_written(picodollars: u64) {
        let money = Money::picodollars(picodollars);
        prop_assert_eq!(Money::parse(&money.to_string()).unwrap(), money);
    }
}

#[test]
fn archived_arguments_that_were_an_object_and_are_none_are_an_error() {
    let error = serde_json::from_value::<Arguments>(json!({"text": "[1]"})).unwrap_err();
    assert!(error.to_string().contains("a list"), "{error}");
}

#[test]
fn a_conversation_is_archived_and_read_as_it_was() {
    let mut request = Request::new("openai/some", "rules", vec![Message::user("go")]);
    request.messages.push(Message::assistant(vec![
        Block::Opaque(Opaque {
            provider: "anthropic".to_owned(),
            model: "some".to_owned(),
            value: json!({"type": "thinking", "thinking": "hm", "signature": "c2ln"}),
        }),
        Block::text("I look"),
        Block::ToolCall(ToolCall {
            id: "call_1".to_owned(),
            provider_id: Some("0".to_owned()),
            name: "fetch".to_owned(),
            arguments: Arguments::read("{\"a\": 1,"),
        }),
    ]));
    request.messages.push(Message::results(vec![CallResult {
        call: "call_1".to_owned(),
        content: "no JSON".to_owned(),
        is_error: true,
    }]));
    request.messages[2].prefix_end = true;
    assert_eq!(request.unpaired(), None);
    let archived = serde_json::to_value(&request).unwrap();
    assert_eq!(serde_json::from_value::<Request>(archived).unwrap(), request);
    assert_eq!(request.calls().count(), 1);
}

/// CMP-05
#[test]
fn calls_without_results_and_results_without_calls_are_named() {
    let call = |id: &str| {
        Block::ToolCall(ToolCall {
            id: id.to_owned(),
            provider_id: None,
            name: "t".to_owned(),
            arguments: Arguments::read(""),
        })
    };
    let result = |id: &str| CallResult { call: id.to_owned(), content: String::new(), is_error: false };
    let unpaired = |messages| Request::new("m", "", messages).unpaired().unwrap_or_default();
    assert!(unpaired(vec![Message::assistant(vec![call("a")])]).contains("`a` has no result"));
    assert!(unpaired(vec![Message::assistant(vec![call("a")]), Message::user("x")]).contains("before message 1"));
    assert!(unpaired(vec![Message::results(vec![result("a")])]).contains("not open"));
    assert!(unpaired(vec![Message::assistant(vec![call("a"), call("a")])]).contains("two calls"));
    let twice = vec![Message::assistant(vec![call("a")]), Message::results(vec![result("a"), result("a")])];
    assert!(unpaired(twice).contains("not open"));
    assert!(unpaired(vec![Message::new(Role::User, vec![call("a")])]).contains("role"));
}

#[test]
fn a_reply_without_text_and_call_is_empty_whatever_it_thought() {
    let opaque = |value| Block::Opaque(Opaque { provider: "p".to_owned(), model: "m".to_owned(), value });
    let reply = |blocks| Reply {
        id: None,
        model: None,
        blocks,
        stop: StopReason::End,
        usage: Usage::default(),
        marks: Vec::new(),
    };
    assert!(reply(vec![]).is_empty());
    assert!(reply(vec![Block::text(" \n"), opaque(json!({"reasoning_content": "long"}))]).is_empty());
    assert!(!reply(vec![Block::text("yes")]).is_empty());
}

#[test]
fn reasoning_is_readable_where_it_is_text() {
    let readable = |value| Opaque { provider: "p".to_owned(), model: "m".to_owned(), value }.readable();
    assert_eq!(readable(json!({"thinking": "a", "signature": "s"})).as_deref(), Some("a"));
    assert_eq!(readable(json!({"reasoning_content": "b"})).as_deref(), Some("b"));
    assert_eq!(readable(json!({"summary": [{"text": "c"}, {"text": "d"}]})).as_deref(), Some("c\nd"));
    assert_eq!(readable(json!({"data": "encrypted"})), None);
}

#[test]
fn errors_are_archived_with_the_wait_never_shortened() {
    let error = ModelError::new(ErrorKind::RateLimited, "slow down").retry_after(Some(Duration::from_micros(1500)));
    let archived = serde_json::to_value(&error).unwrap();
    assert_eq!(archived, json!({"kind": "rate_limited", "message": "slow down", "retry_after_ms": 2}));
    let read: ModelError = serde_json::from_value(archived).unwrap();
    assert_eq!(read.retry_after, Some(Duration::from_millis(2)));
    for kind in ErrorKind::ALL {
        assert_eq!(serde_json::to_value(kind).unwrap(), json!(kind.name()));
    }
}

/// RTY-03, RTY-06
#[test]
fn only_what_can_heal_is_transient() {
    let transient: Vec<_> = ErrorKind::ALL.into_iter().filter(|kind| kind.is_transient()).collect();
    assert_eq!(
        transient,
        [
            ErrorKind::RateLimited,
            ErrorKind::Overloaded,
            ErrorKind::Unavailable,
            ErrorKind::TimedOut,
            ErrorKind::Idle,
            ErrorKind::Truncated,
            ErrorKind::Unreadable
        ]
    );
    let mut refused = ModelError::new(ErrorKind::Unauthorized, "no");
    assert!(!refused.is_transient() && refused.needs_operator());
    refused.key_worked_before = true;
    assert!(refused.is_transient() && !refused.needs_operator());
}

#[test]
fn parts_of_the_input_are_paid_at_their_own_price() {
    let price: Price = serde_json::from_value(
        json!({"input": "3", "cached_input": "0.30", "cache_write": "$3.75", "output": "15.00usd"}),
    )
    .unwrap();
    let usage = Usage {
        input: Some(1000),
        cached_input: Some(700),
        cache_write: Some(200),
        output: Some(10),
        reasoning: Some(4),
    };
    // 100 × 3 + 700 × 0.3 + 200 × 3.75 + 10 × 15 microdollars
    assert_eq!(price.cost(&usage), Some(Money::microdollars(300 + 210 + 750 + 150)));
    assert_eq!(price.cost(&Usage { output: None, ..usage }), None);
    assert_eq!(price.most(1000, 10), Money::microdollars(3750 + 150));
    assert!(price.most(1000, 10) >= price.cost(&usage).unwrap());
    let cheap = Price { input: Money::parse("0.0375").unwrap(), cached_input: None, cache_write: None, ..price };
    let one = Usage { input: Some(1), output: Some(0), ..Usage::default() };
    assert_eq!(cheap.cost(&one).unwrap().to_string(), "$0.0000000375");
    assert_eq!(cheap.cost(&one).unwrap().to_microdollars(), 1);
}

#[test]
fn amounts_that_are_none_are_refused() {
    assert_eq!(Money::parse(" 2.5usd ").unwrap().to_string(), "$2.50");
    assert_eq!(Money::parse(".5").unwrap().to_string(), "$0.50");
    for text in ["", ".", "-1", "1e3", "1,50", "abc", "0.0000000000001", "99999999999999999999", "$"] {
        assert!(Money::parse(text).is_err(), "{text}");
    }
}

#[test]
fn sums_of_usage_keep_what_is_known() {
    let one = Usage { input: Some(5), output: None, ..Usage::default() };
    let two = Usage { input: Some(7), output: Some(2), ..Usage::default() };
    let sum = one.plus(&two);
    assert_eq!((sum.input, sum.output, sum.cached_input, sum.total()), (Some(12), Some(2), None, 14));
    assert!(!one.is_known() && two.is_known());
}
