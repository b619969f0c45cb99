#![expect(clippy::unwrap_used, reason = "tests")]

use loopforge_core::json::Json;
use loopforge_core::model::{
    Block, CallResult, Effort, ErrorKind, Message, OutputSchema, Request, StopReason, ToolChoice, ToolSchema, Usage,
};
use serde_json::json;

use crate::wire::testing::{
    body, call, calls, named, no_beginning_is_a_reply, opaque, options, read, same_however_cut, stream,
};
use crate::wire::{Api, Options};

fn begin(index: u64, block: Json) -> Json {
    json!({ "type": "content_block_start", "index": index, "content_block": block })
}

fn add(index: u64, delta: Json) -> Json {
    json!({ "type": "content_block_delta", "index": index, "delta": delta })
}

fn events(reason: &str) -> Vec<Json> {
    vec![
        json!({ "type": "message_start", "message": { "id": "msg_1", "model": "m-served", "usage": {
            "input_tokens": 10, "cache_read_input_tokens": 200, "cache_creation_input_tokens": 30, "output_tokens": 1 } } }),
        json!({ "type": "ping" }),
        begin(0, json!({ "type": "thinking", "thinking": "", "signature": "" })),
        add(0, json!({ "type": "thinking_delta", "thinking": "let me " })),
        add(0, json!({ "type": "thinking_delta", "thinking": "see" })),
        add(0, json!({ "type": "signature_delta", "signature": "c2ln" })),
        json!({ "type": "content_block_stop", "index": 0 }),
        begin(1, json!({ "type": "redacted_thinking", "data": "xyz" })),
        begin(2, json!({ "type": "text", "text": "" })),
        add(2, json!({ "type": "text_delta", "text": "价格 " })),
        add(2, json!({ "type": "text_delta", "text": "🙂" })),
        begin(3, json!({ "type": "tool_use", "id": "toolu_1", "name": "x", "input": {} })),
        add(3, json!({ "type": "input_json_delta", "partial_json": "" })),
        add(3, json!({ "type": "input_json_delta", "partial_json": "{\"n\":" })),
        add(3, json!({ "type": "input_json_delta", "partial_json": " 1}" })),
        begin(4, json!({ "type": "tool_use", "id": "toolu_2", "name": "y", "input": {} })),
        json!({ "type": "message_delta", "delta": { "stop_reason": reason }, "usage": { "input_tokens": 0, "output_tokens": 40 } }),
        json!({ "type": "message_stop" }),
    ]
}

#[test]
fn a_stream_becomes_a_reply_however_it_is_cut() {
    let bytes = named(&events("tool_use"));
    let reply = read(Api::Messages, &bytes).unwrap();
    assert_eq!(
        reply.blocks,
        [
            opaque(json!({ "type": "thinking", "thinking": "let me see", "signature": "c2ln" })),
            opaque(json!({ "type": "redacted_thinking", "data": "xyz" })),
            Block::text("价格 🙂"),
            call("toolu_1", "x", "{\"n\": 1}"),
            call("toolu_2", "y", ""),
        ]
    );
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!(
        reply.usage,
        Usage { input: Some(240), cached_input: Some(200), cache_write: Some(30), output: Some(40), reasoning: None }
    );
    same_however_cut(Api::Messages, &bytes);
    assert_eq!(read(Api::Messages, &stream(&events("tool_use"))).unwrap(), reply);
    no_beginning_is_a_reply(Api::Messages, &bytes, bytes.len() - 2);
}

#[test]
fn reasons_for_stopping_are_understood() {
    for (reason, expected) in [
        ("max_tokens", StopReason::Length),
        ("model_context_window_exceeded", StopReason::Length),
        ("refusal", StopReason::Refused),
    ] {
        assert_eq!(read(Api::Messages, &named(&events(reason))).unwrap().stop, expected);
    }
    let empty = vec![
        json!({ "type": "message_delta", "delta": { "stop_reason": "end_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    let reply = read(Api::Messages, &named(&empty)).unwrap();
    assert!(reply.is_empty() && reply.stop == StopReason::End && reply.usage == Usage::default());
    let paused = vec![
        json!({ "type": "message_delta", "delta": { "stop_reason": "pause_turn" } }),
        json!({ "type": "message_stop" }),
    ];
    assert_eq!(read(Api::Messages, &named(&paused)).unwrap().stop, StopReason::Other("pause_turn".to_owned()));
}

/// LLM-02, LLM-03
#[test]
fn bad_arguments_come_through_with_their_text() {
    let arguments = |pieces: &[&str]| {
        let mut all = vec![begin(0, json!({ "type": "tool_use", "id": "a", "name": "x", "input": {} }))];
        all.extend(pieces.iter().map(|piece| add(0, json!({ "type": "input_json_delta", "partial_json": piece }))));
        all.push(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }));
        all.push(json!({ "type": "message_stop" }));
        let reply = read(Api::Messages, &named(&all)).unwrap();
        let call = reply.calls().next().unwrap().clone();
        (call.arguments.text().to_owned(), call.arguments.object().is_some())
    };
    assert_eq!(arguments(&["{\"n\"", ": 5"]), ("{\"n\": 5".to_owned(), false));
    assert_eq!(arguments(&["[1]"]), ("[1]".to_owned(), false));
    assert_eq!(arguments(&[]), (String::new(), true));
    let at_once = vec![
        begin(0, json!({ "type": "tool_use", "id": "a", "name": "x", "input": { "n": 1 } })),
        json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" } }),
        json!({ "type": "message_stop" }),
    ];
    assert_eq!(calls(&read(Api::Messages, &named(&at_once)).unwrap()), [("a", "x", "{\"n\":1}")]);
}

/// LLM-05, LLM-11
#[test]
fn pieces_without_a_place_and_errors_in_a_stream_are_errors() {
    let error = |events: Vec<Json>| read(Api::Messages, &named(&events)).unwrap_err();
    let text = begin(0, json!({ "type": "text", "text": "one" }));
    let unknown = error(vec![text.clone(), add(3, json!({ "type": "text_delta", "text": "two" }))]);
    assert_eq!(unknown.kind, ErrorKind::Unreadable);
    assert_eq!(error(vec![text.clone(), text.clone()]).kind, ErrorKind::Unreadable);
    for (kind, expected) in [
        ("overloaded_error", ErrorKind::Overloaded),
        ("api_error", ErrorKind::Unavailable),
        ("rate_limit_error", ErrorKind::RateLimited),
        ("billing_error", ErrorKind::QuotaExhausted),
    ] {
        let last = json!({ "type": "error", "error": { "type": kind, "message": "no" } });
        let error = error(vec![text.clone(), last]);
        assert_eq!((error.kind, error.status, error.may_be_billed), (expected, Some(200), true));
    }
    let long = json!({ "type": "error", "error": { "type": "invalid_request_error", "message": "prompt is too long: 5 tokens > 4 maximum" } });
    assert_eq!(error(vec![long]).kind, ErrorKind::ContextTooLong);
    assert_eq!(
        error(vec![json!([1]), json!("x"), json!({ "type": "content_block_start" })]).kind,
        ErrorKind::Truncated
    );
    let cut = read(Api::Messages, b"event: content_block_start\ndata: [1]\n\n").unwrap_err();
    assert_eq!(cut.kind, ErrorKind::Truncated);
}

#[test]
fn a_broken_stream_tells_what_it_used() {
    let cut = named(&events("tool_use")[..5]);
    let error = read(Api::Messages, &cut).unwrap_err();
    assert_eq!((error.kind, error.usage.input, error.usage.output), (ErrorKind::Truncated, Some(240), Some(1)));
}

#[test]
fn a_document_instead_of_a_stream_is_a_reply() {
    let document = json!({ "id": "d", "type": "message", "model": "m", "stop_reason": "tool_use",
        "content": [{ "type": "text", "text": "hi" }, { "type": "tool_use", "id": "a", "name": "x", "input": { "n": 1 } }],
        "usage": { "input_tokens": 3, "output_tokens": 4 } });
    let reply = read(Api::Messages, document.to_string().as_bytes()).unwrap();
    assert_eq!((reply.text(), calls(&reply).len(), reply.usage.total()), ("hi".to_owned(), 1, 7));
}

fn tool(name: &str) -> ToolSchema {
    ToolSchema { name: name.to_owned(), description: "X.".to_owned(), parameters: json!({ "type": "object" }) }
}

#[test]
fn a_request_is_written_as_the_provider_wants_it() {
    let mut request = Request::new("p/m", "rules", vec![Message::user("go")]);
    request.messages.push(Message::assistant(vec![
        opaque(json!({ "type": "thinking", "thinking": "hm", "signature": "s" })),
        Block::text(" "),
        call("a", "x", "{\"n\":1}"),
        call("b", "x", "{"),
    ]));
    let result = |id: &str, is_error| CallResult { call: id.to_owned(), content: "page".to_owned(), is_error };
    request.messages.push(Message::results(vec![result("a", false), result("b", true)]));
    request.messages.push(Message::assistant(vec![]));
    request.messages.push(Message::user("status"));
    request.messages[2].prefix_end = true;
    request.tools = vec![tool("x"), tool("y")];
    request.tool_choice = ToolChoice::Required;
    request.parallel_calls = false;
    request.stop = vec!["END".to_owned()];
    request.temperature = Some(0.5);
    let cached = json!({ "type": "ephemeral" });
    let expected = json!({
        "model": "m", "stream": true, "max_tokens": 8192, "temperature": 0.5, "stop_sequences": ["END"],
        "system": [{ "type": "text", "text": "rules", "cache_control": cached }],
        "tools": [
            { "name": "x", "description": "X.", "input_schema": { "type": "object" } },
            { "name": "y", "description": "X.", "input_schema": { "type": "object" } },
        ],
        "tool_choice": { "type": "any", "disable_parallel_tool_use": true },
        "messages": [
            { "role": "user", "content": [{ "type": "text", "text": "go" }] },
            { "role": "assistant", "content": [
                { "type": "thinking", "thinking": "hm", "signature": "s" },
                { "type": "tool_use", "id": "a", "name": "x", "input": { "n": 1 } },
                { "type": "tool_use", "id": "b", "name": "x", "input": { "malformed_arguments": "{" } },
            ] },
            { "role": "user", "content": [
                { "type": "tool_result", "tool_use_id": "a", "content": "page" },
                { "type": "tool_result", "tool_use_id": "b", "content": "page", "is_error": true, "cache_control": cached },
                { "type": "text", "text": "status" },
            ] },
        ],
    });
    assert_eq!(body(Api::Messages, &request, &options()), expected);
}

#[test]
fn thinking_and_forms_have_their_members() {
    let mut request = Request::new("p/m", "", vec![Message::user("go")]);
    request.effort = Some(Effort::High);
    request.temperature = Some(0.0);
    request.output = Some(OutputSchema { name: "plan".to_owned(), schema: json!({ "type": "object" }) });
    let sent = body(Api::Messages, &request, &Options { max_output_tokens: Some(100), ..options() });
    assert_eq!(sent["thinking"], json!({ "type": "adaptive" }));
    assert_eq!(
        sent["output_config"],
        json!({ "effort": "high", "format": { "type": "json_schema", "schema": { "type": "object" } } })
    );
    assert_eq!((sent.get("temperature"), &sent["max_tokens"]), (None, &json!(100)));
}

#[test]
fn at_most_four_ends_are_marked_and_they_are_the_last_ones() {
    let mut request = Request::new("p/m", "rules", vec![]);
    for number in 0..6 {
        let mut message = Message::user(format!("part {number}"));
        message.prefix_end = true;
        request.messages.push(message);
        request.messages.push(Message::assistant(vec![Block::text("ok")]));
    }
    let marks = |sent: &Json| sent.to_string().matches("cache_control").count();
    let sent = body(Api::Messages, &request, &options());
    assert_eq!(marks(&sent), 4);
    assert!(sent["messages"][10]["content"][0].get("cache_control").is_some());
    assert!(sent["messages"][4]["content"][0].get("cache_control").is_none());
    request.system.clear();
    request.tools = vec![tool("x")];
    let sent = body(Api::Messages, &request, &options());
    assert_eq!(marks(&sent), 4);
    assert!(sent["tools"][0].get("cache_control").is_some());
}

/// The beginning of a request is the same bytes, however the conversation goes on.
#[test]
fn the_stable_part_of_a_prompt_is_written_the_same_each_time() {
    let mut request = Request::new("p/m", "rules", vec![Message::user("goal")]);
    request.tools = vec![tool("x")];
    let first = body(Api::Messages, &request, &options());
    request.messages.push(Message::assistant(vec![call("a", "x", "{}")]));
    let second = body(Api::Messages, &request, &options());
    for key in ["system", "tools"] {
        assert_eq!(first[key].to_string(), second[key].to_string());
    }
    assert_eq!(first["messages"][0].to_string(), second["messages"][0].to_string());
}
