#![expect(clippy::unwrap_used, reason = "tests")]

use loopforge_core::json::Json;
use loopforge_core::model::{
    Block, CallResult, ErrorKind, Message, Request, StopReason, ToolChoice, ToolSchema, Usage,
};
use serde_json::json;

use crate::wire::testing::{
    body, call, calls, named, no_beginning_is_a_reply, opaque, options, read, same_however_cut, stream,
};
use crate::wire::{Api, Options};

fn reasoning() -> Json {
    json!({ "type": "reasoning", "id": "rs_1", "summary": [{ "type": "summary_text", "text": "hm" }], "encrypted_content": "e" })
}

fn message(text: &str) -> Json {
    json!({ "type": "message", "id": "msg_1", "role": "assistant", "content": [{ "type": "output_text", "text": text }] })
}

fn function_call(id: &str, arguments: &str) -> Json {
    json!({ "type": "function_call", "id": "fc_1", "call_id": id, "name": "x", "arguments": arguments })
}

fn completed(output: Json) -> Json {
    json!({ "type": "response.completed", "response": { "id": "resp_1", "model": "m-served", "status": "completed", "output": output,
        "usage": { "input_tokens": 50, "input_tokens_details": { "cached_tokens": 32 }, "output_tokens": 9,
            "output_tokens_details": { "reasoning_tokens": 4 } } } })
}

fn events(last: Json) -> Vec<Json> {
    vec![
        json!({ "type": "response.created", "response": { "id": "resp_1", "model": "m" } }),
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "reasoning" } }),
        json!({ "type": "response.output_item.done", "output_index": 0, "item": reasoning() }),
        json!({ "type": "response.output_item.added", "output_index": 1, "item": { "type": "message" } }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "hel" }),
        json!({ "type": "response.output_text.delta", "output_index": 1, "delta": "lo" }),
        json!({ "type": "response.output_item.done", "output_index": 1, "item": message("hello") }),
        json!({ "type": "response.output_item.added", "output_index": 2, "item": { "type": "function_call", "name": "x" } }),
        json!({ "type": "response.function_call_arguments.delta", "output_index": 2, "delta": "{}" }),
        json!({ "type": "response.output_item.done", "output_index": 2, "item": function_call("call_1", "{\"n\":1}") }),
        last,
    ]
}

#[test]
fn a_stream_becomes_a_reply_however_it_is_cut() {
    let bytes = named(&events(completed(json!([]))));
    let reply = read(Api::Responses, &bytes).unwrap();
    assert_eq!(reply.blocks, [opaque(reasoning()), Block::text("hello"), call("call_1", "x", "{\"n\":1}")]);
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!(reply.model.as_deref(), Some("m-served"));
    assert_eq!(
        reply.usage,
        Usage { input: Some(50), cached_input: Some(32), cache_write: None, output: Some(9), reasoning: Some(4) }
    );
    same_however_cut(Api::Responses, &bytes);
    no_beginning_is_a_reply(Api::Responses, &bytes, bytes.len() - 2);
    // Some servers leave the names of events out, others the items of the end.
    assert_eq!(read(Api::Responses, &stream(&events(completed(json!(null))))).unwrap(), reply);
}

#[test]
fn items_that_only_the_end_has_are_taken_from_there() {
    let output = json!([reasoning(), message("hello"), function_call("call_1", "{\"n\":1}")]);
    let reply = read(Api::Responses, &named(&[completed(output.clone())])).unwrap();
    assert_eq!(reply.blocks.len(), 3);
    let document = json!({ "id": "r", "status": "completed", "output": output, "error": null });
    assert_eq!(read(Api::Responses, document.to_string().as_bytes()).unwrap().blocks, reply.blocks);
}

#[test]
fn items_without_a_place_follow_each_other() {
    let mut events = events(completed(json!([])));
    for event in &mut events {
        event.as_object_mut().unwrap().remove("output_index");
    }
    let reply = read(Api::Responses, &named(&events)).unwrap();
    assert_eq!(reply.blocks, [opaque(reasoning()), Block::text("hello"), call("call_1", "x", "{\"n\":1}")]);
}

/// LLM-11
#[test]
fn failures_of_a_stream_are_errors() {
    let failed = |code: &str| json!({ "type": "response.failed", "response": { "status": "failed", "error": { "code": code, "message": "no" } } });
    for (last, kind) in [
        (failed("server_error"), ErrorKind::Unavailable),
        (failed("rate_limit_exceeded"), ErrorKind::RateLimited),
        (failed("context_length_exceeded"), ErrorKind::ContextTooLong),
        (failed("insufficient_quota"), ErrorKind::QuotaExhausted),
        (json!({ "type": "error", "code": "server_overloaded", "message": "busy" }), ErrorKind::Overloaded),
        (json!({ "type": "response.failed", "response": { "status": "failed" } }), ErrorKind::Truncated),
    ] {
        let error = read(Api::Responses, &named(&events(last))).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.may_be_billed);
    }
    let missing = vec![
        json!({ "type": "response.output_item.added", "output_index": 0, "item": { "type": "message" } }),
        completed(json!([])),
    ];
    assert_eq!(read(Api::Responses, &named(&missing)).unwrap_err().kind, ErrorKind::Truncated);
}

#[test]
fn reasons_for_stopping_are_understood() {
    let stopped = |response: Json| {
        read(Api::Responses, &named(&[json!({ "type": "response.incomplete", "response": response })])).unwrap().stop
    };
    let because =
        |reason: &str| json!({ "status": "incomplete", "incomplete_details": { "reason": reason }, "output": [] });
    assert_eq!(stopped(because("max_output_tokens")), StopReason::Length);
    assert_eq!(stopped(because("content_filter")), StopReason::Refused);
    assert_eq!(stopped(because("other")), StopReason::Other("other".to_owned()));
    let refusal = json!({ "type": "message", "content": [{ "type": "refusal", "refusal": "I can't" }] });
    let reply = read(Api::Responses, &named(&[completed(json!([refusal]))])).unwrap();
    assert_eq!((reply.stop.clone(), reply.text()), (StopReason::Refused, "I can't".to_owned()));
}

#[test]
fn a_request_is_written_as_the_provider_wants_it() {
    let mut request = Request::new("p/m", "rules", vec![Message::user("go")]);
    request.messages.push(Message::assistant(vec![
        opaque(reasoning()),
        Block::text("I look"),
        call("a", "x", "{\"n\":1}"),
        call("b", "x", "[1]"),
    ]));
    let result = |id: &str| CallResult { call: id.to_owned(), content: "page".to_owned(), is_error: false };
    request.messages.push(Message::results(vec![result("a"), result("b")]));
    request.tools = vec![ToolSchema {
        name: "x".to_owned(),
        description: "X.".to_owned(),
        parameters: json!({ "type": "object" }),
    }];
    request.tool_choice = ToolChoice::Required;
    request.max_output_tokens = Some(9);
    let expected = json!({
        "model": "m", "stream": true, "store": false, "instructions": "rules", "tool_choice": "required", "max_output_tokens": 9,
        "input": [
            { "type": "message", "role": "user", "content": [{ "type": "input_text", "text": "go" }] },
            reasoning(),
            { "type": "message", "role": "assistant", "content": [{ "type": "output_text", "text": "I look" }] },
            { "type": "function_call", "call_id": "a", "name": "x", "arguments": "{\"n\":1}" },
            { "type": "function_call", "call_id": "b", "name": "x", "arguments": "{\"malformed_arguments\":\"[1]\"}" },
            { "type": "function_call_output", "call_id": "a", "output": "page" },
            { "type": "function_call_output", "call_id": "b", "output": "page" },
        ],
        "tools": [{ "type": "function", "name": "x", "description": "X.", "parameters": { "type": "object" }, "strict": false }],
    });
    assert_eq!(body(Api::Responses, &request, &options()), expected);
    let official = body(Api::Responses, &request, &Options { official: true, ..options() });
    assert_eq!(official["include"], json!(["reasoning.encrypted_content"]));
    let other = body(Api::Responses, &request, &Options { model: "n".to_owned(), ..options() });
    assert_eq!(other["input"].as_array().unwrap().len(), 6);
    assert_eq!(calls(&read(Api::Responses, &named(&events(completed(json!([]))))).unwrap()).len(), 1);
}
