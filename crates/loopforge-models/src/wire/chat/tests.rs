#![expect(clippy::unwrap_used, reason = "tests")]

use loopforge_core::json::Json;
use loopforge_core::model::{
    Block, CallResult, Effort, ErrorKind, Message, ModelError, OutputSchema, Reply, Request, StopReason, ToolChoice,
    ToolSchema, Usage,
};
use serde_json::json;

use crate::wire::testing::{
    body, call, calls, no_beginning_is_a_reply, opaque, options, read, same_however_cut, stream,
};
use crate::wire::{Api, Options};

fn delta(delta: Json) -> Json {
    json!({ "id": "c1", "model": "m-served", "choices": [{ "index": 0, "delta": delta, "finish_reason": null }] })
}

fn stop(reason: &str) -> Json {
    json!({ "choices": [{ "index": 0, "delta": {}, "finish_reason": reason }] })
}

fn whole(mut events: Vec<Json>, reason: &str) -> Vec<u8> {
    events.push(stop(reason));
    let mut bytes = stream(&events);
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    bytes
}

fn reply(events: Vec<Json>, reason: &str) -> Reply {
    read(Api::Chat, &whole(events, reason)).unwrap()
}

fn error(bytes: &[u8]) -> ModelError {
    read(Api::Chat, bytes).unwrap_err()
}

/// A piece of the calls of a reply.
fn piece(piece: Json) -> Json {
    delta(json!({ "tool_calls": [piece] }))
}

#[test]
fn a_stream_becomes_a_reply_however_it_is_cut() {
    let mut bytes = stream(&[
        delta(json!({ "role": "assistant", "content": null })),
        delta(json!({ "reasoning_content": "let me " })),
        delta(json!({ "reasoning_content": "see" })),
        delta(json!({ "content": "价格 " })),
        delta(json!({ "content": "399元 🙂" })),
        piece(
            json!({ "index": 0, "id": "call_a", "type": "function", "function": { "name": "fetch", "arguments": "" } }),
        ),
        piece(json!({ "index": 0, "function": { "arguments": "{\"url\":" } })),
        piece(json!({ "index": 0, "function": { "arguments": "\"é\"}" } })),
    ]);
    bytes.extend_from_slice(b": keep-alive\r\n\r\n");
    bytes.extend_from_slice(&stream(&[stop("tool_calls")]));
    bytes.extend_from_slice(&stream(&[json!({ "choices": [], "usage": {
        "prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120,
        "prompt_tokens_details": { "cached_tokens": 64 }, "completion_tokens_details": { "reasoning_tokens": 5 },
    } })]));
    bytes.extend_from_slice(b"data: [DONE]");
    let reply = read(Api::Chat, &bytes).unwrap();
    assert_eq!(reply.id.as_deref(), Some("c1"));
    assert_eq!(reply.model.as_deref(), Some("m-served"));
    assert_eq!(
        reply.blocks,
        [
            opaque(json!({ "reasoning_content": "let me see" })),
            Block::text("价格 399元 🙂"),
            call("call_a", "fetch", "{\"url\":\"é\"}"),
        ]
    );
    assert_eq!(reply.stop, StopReason::ToolCalls);
    assert_eq!(
        reply.usage,
        Usage { input: Some(100), cached_input: Some(64), cache_write: None, output: Some(20), reasoning: Some(5) }
    );
    assert_eq!(reply.marks, Vec::<String>::new());
    same_however_cut(Api::Chat, &bytes);
    no_beginning_is_a_reply(Api::Chat, &bytes, bytes.len());
}

/// LLM-05
#[test]
fn two_calls_are_told_apart_whatever_the_server_does_with_index_and_id() {
    let by_the_book = vec![
        piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "" } })),
        piece(json!({ "index": 0, "function": { "arguments": "{\"n\":1}" } })),
        piece(json!({ "index": 1, "id": "b", "function": { "name": "y", "arguments": "" } })),
        piece(json!({ "index": 1, "function": { "arguments": "{\"n\":2}" } })),
    ];
    let without_index = vec![
        piece(json!({ "id": "a", "function": { "name": "x", "arguments": "{\"n\"" } })),
        piece(json!({ "function": { "arguments": ":1}" } })),
        piece(json!({ "id": "b", "function": { "name": "y", "arguments": "{\"n\":" } })),
        piece(json!({ "function": { "arguments": "2}" } })),
    ];
    let all_zero = vec![
        piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{\"n\":" } })),
        piece(json!({ "index": 0, "function": { "arguments": "1}" } })),
        piece(json!({ "index": 0, "id": "b", "function": { "name": "y", "arguments": "{\"n\":" } })),
        piece(json!({ "index": 0, "function": { "arguments": "2}" } })),
    ];
    let rising = vec![
        piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "" } })),
        piece(json!({ "index": 1, "id": "a", "function": { "arguments": "{\"n\":1" } })),
        piece(json!({ "index": 2, "id": "a", "function": { "arguments": "}" } })),
        piece(json!({ "index": 3, "id": "b", "function": { "name": "y", "arguments": "" } })),
        piece(json!({ "index": 4, "id": "b", "function": { "arguments": "{\"n\":2}" } })),
    ];
    let repeated = vec![
        piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{\"n\"" } })),
        piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": ":1}" } })),
        piece(json!({ "index": 1, "id": "b", "function": { "name": "y", "arguments": "{\"n\"" } })),
        piece(json!({ "index": 1, "id": "b", "function": { "name": "y", "arguments": ":2}" } })),
    ];
    let in_one_piece = vec![delta(json!({ "tool_calls": [
        { "id": "a", "function": { "name": "x", "arguments": "{\"n\":1}" } },
        { "id": "b", "function": { "name": "y", "arguments": "{\"n\":2}" } },
    ] }))];
    let values = vec![
        piece(json!({ "id": "a", "function": { "name": "x", "arguments": { "n": 1 } } })),
        piece(json!({ "id": "b", "function": { "name": "y", "arguments": { "n": 2 } } })),
    ];
    for (what, events) in [
        ("by the book", by_the_book),
        ("without index", without_index),
        ("index 0 for all", all_zero),
        ("rising index", rising),
        ("repeated id and name", repeated),
        ("in one piece", in_one_piece),
        ("values", values),
    ] {
        let reply = reply(events, "tool_calls");
        assert_eq!(calls(&reply), [("a", "x", "{\"n\":1}"), ("b", "y", "{\"n\":2}")], "{what}");
    }
}

/// LLM-05
#[test]
fn interleaved_pieces_go_by_their_index() {
    let reply = reply(
        vec![
            piece(json!({ "index": 0, "function": { "name": "x", "arguments": "{\"n\"" } })),
            piece(json!({ "index": 1, "function": { "name": "x", "arguments": "{\"m\"" } })),
            piece(json!({ "index": 0, "function": { "arguments": ":1}" } })),
            piece(json!({ "index": 1, "function": { "arguments": ":2}" } })),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&reply), [("call_0_1", "x", "{\"n\":1}"), ("call_0_2", "x", "{\"m\":2}")]);
}

/// LLM-05
#[test]
fn one_call_without_index_and_calls_of_one_tool_without_ids() {
    let one = reply(
        vec![
            piece(json!({ "id": "a", "function": { "name": "x" } })),
            piece(json!({ "function": { "arguments": "{}" } })),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&one), [("a", "x", "{}")]);
    let two = reply(
        vec![
            piece(json!({ "function": { "name": "x", "arguments": "{\"n\":1}" } })),
            piece(json!({ "function": { "name": "x", "arguments": "{\"n\":1}" } })),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&two).len(), 2, "without ids nothing says that the second is the first again");
}

/// LLM-05
#[test]
fn an_undecidable_stream_is_an_error_and_no_guess() {
    for events in [
        vec![
            piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "" } })),
            piece(json!({ "index": 1, "id": "b", "function": { "name": "y", "arguments": "" } })),
            piece(json!({ "index": 2, "function": { "arguments": "{\"n\":1}" } })),
        ],
        vec![
            piece(json!({ "id": "a", "function": { "name": "x", "arguments": "{}" } })),
            piece(json!({ "index": 7, "function": { "arguments": "{\"n\":1}" } })),
        ],
        vec![
            piece(json!({ "function": { "name": "x", "arguments": "" } })),
            piece(json!({ "function": { "name": "x", "arguments": "{}" } })),
        ],
        vec![piece(json!({ "index": 0, "id": "a", "function": { "arguments": "{}" } }))],
    ] {
        let error = error(&whole(events, "tool_calls"));
        assert_eq!(error.kind, ErrorKind::Unreadable, "{error}");
        assert!(error.is_transient() && error.may_be_billed);
    }
}

/// LLM-06
#[test]
fn equal_ids_become_unique_and_a_repeated_call_is_one() {
    let two = reply(
        vec![
            piece(json!({ "index": 0, "id": "c", "function": { "name": "x", "arguments": "{}" } })),
            piece(json!({ "index": 1, "id": "c", "function": { "name": "y", "arguments": "{}" } })),
            piece(json!({ "index": 2, "id": "c", "function": { "name": "x", "arguments": "{\"n\":1}" } })),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&two), [("c", "x", "{}"), ("call_0_2", "y", "{}"), ("call_0_3", "x", "{\"n\":1}")]);
    let one = reply(
        vec![
            piece(json!({ "index": 0, "id": "c", "function": { "name": "x", "arguments": "{\"n\":1}" } })),
            piece(json!({ "index": 0, "id": "c", "function": { "name": "x", "arguments": "{\"n\":1}" } })),
        ],
        "tool_calls",
    );
    assert_eq!(calls(&one).len(), 1);
    assert_eq!(one.marks.len(), 1);
}

/// LLM-02, LLM-03
#[test]
fn bad_arguments_come_through_with_their_text_beside_good_ones() {
    let reply = reply(
        vec![delta(json!({ "tool_calls": [
            { "index": 0, "id": "a", "function": { "name": "x", "arguments": "{\"a\": 1}" } },
            { "index": 1, "id": "b", "function": { "name": "x", "arguments": "{\"a\": 1," } },
            { "index": 2, "id": "c", "function": { "name": "x", "arguments": "" } },
            { "index": 3, "id": "d", "function": { "name": "x", "arguments": 3 } },
            { "index": 4, "id": "e", "function": { "name": "x", "arguments": "null" } },
        ] }))],
        "tool_calls",
    );
    let found: Vec<_> = reply.calls().map(|call| (call.arguments.text(), call.arguments.object().is_some())).collect();
    assert_eq!(found, [("{\"a\": 1}", true), ("{\"a\": 1,", false), ("", true), ("3", false), ("null", false)]);
}

/// LLM-08
#[test]
fn empty_replies_say_why_they_stopped() {
    for (reason, expected) in
        [("stop", StopReason::End), ("tool_calls", StopReason::ToolCalls), ("length", StopReason::Length)]
    {
        let reply = reply(vec![delta(json!({ "content": "" })), delta(json!({ "tool_calls": null }))], reason);
        assert!(reply.is_empty() && reply.blocks.is_empty());
        assert_eq!(reply.stop, expected);
        assert!(!reply.usage.is_known());
    }
    let thought = reply(vec![delta(json!({ "reasoning": "hm" }))], "stop");
    assert!(thought.is_empty());
    assert_eq!(thought.blocks.len(), 1);
}

#[test]
fn reasons_for_stopping_are_understood() {
    assert_eq!(reply(vec![delta(json!({ "content": "a" }))], "content_filter").stop, StopReason::Refused);
    assert_eq!(reply(vec![delta(json!({ "refusal": "I can't" }))], "stop").stop, StopReason::Refused);
    assert_eq!(reply(vec![delta(json!({ "content": "a" }))], "strange").stop, StopReason::Other("strange".to_owned()));
    let called = vec![piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{}" } }))];
    assert_eq!(reply(called.clone(), "stop").stop, StopReason::ToolCalls);
    assert_eq!(reply(called, "length").stop, StopReason::Length);
    let overloaded = error(&whole(vec![], "insufficient_system_resource"));
    assert_eq!(overloaded.kind, ErrorKind::Overloaded);
    assert_eq!(error(&whole(vec![], "error")).kind, ErrorKind::Truncated);
}

/// LLM-11
#[test]
fn errors_in_a_stream_are_errors_and_partial_text_is_no_reply() {
    let text = [delta(json!({ "content": "one" })), delta(json!({ "content": "two" }))];
    let with = |more: &str| {
        let mut bytes = stream(&text);
        bytes.extend_from_slice(more.as_bytes());
        error(&bytes)
    };
    for (more, kind) in [
        ("data: {\"error\":{\"message\":\"overloaded\",\"type\":\"overloaded_error\"}}\n\n", ErrorKind::Overloaded),
        ("data: {\"error\":{\"code\":502,\"message\":\"Bad gateway\"}}\n\n", ErrorKind::Unavailable),
        ("event: error\ndata: {\"message\":\"slow down\",\"code\":429}\n\n", ErrorKind::RateLimited),
        ("error: {\"code\":500,\"message\":\"oops\",\"type\":\"server_error\"}\n\n", ErrorKind::Unavailable),
        ("data: {\"object\":\"error\",\"message\":\"broken\",\"code\":500}\n\n", ErrorKind::Unavailable),
        ("", ErrorKind::Truncated),
        ("data: <html><title>502</title></html>\n\n", ErrorKind::Unreadable),
        ("data: {\"choices\":[{\"del\n\ndata: [DONE]\n\n", ErrorKind::Unreadable),
        ("data: {\"choices\":[{\"del", ErrorKind::Truncated),
    ] {
        let error = with(more);
        assert_eq!(error.kind, kind, "{more}");
        assert!(error.is_transient() && error.may_be_billed && error.status == Some(200), "{more}");
    }
    let long = with(
        "data: {\"error\":{\"message\":\"maximum context length is 5\",\"code\":\"context_length_exceeded\"}}\n\n",
    );
    assert_eq!(long.kind, ErrorKind::ContextTooLong);
}

#[test]
fn what_is_no_stream_is_seen_by_its_beginning() {
    assert_eq!(error(b"").kind, ErrorKind::Truncated);
    assert_eq!(error(b" \r\n").kind, ErrorKind::Truncated);
    let page = error(b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>");
    assert_eq!(page.kind, ErrorKind::Unreadable);
    assert!(page.message.contains("\"Sign in\""), "{page}");
    assert_eq!(error(b"internal server error").kind, ErrorKind::Unreadable);
    assert_eq!(error(b"{\"hello\": 1}").kind, ErrorKind::Unreadable);
    assert_eq!(error(b"[1, 2]").kind, ErrorKind::Unreadable);
    assert_eq!(error(b"{\"choices\": [{\"mess").kind, ErrorKind::Truncated);
    assert_eq!(error(b"{\"error\": {\"type\": \"overloaded_error\"}}").kind, ErrorKind::Overloaded);
    assert_eq!(error(b"data: [1]\n\ndata: \"x\"\n\n").kind, ErrorKind::Truncated);
}

#[test]
fn a_document_instead_of_a_stream_is_a_reply() {
    let document = json!({
        "id": "d", "model": "m-served", "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
            "role": "assistant", "content": "hello", "reasoning_content": "hm",
            "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "x", "arguments": "{}" } },
                { "id": "b", "type": "function", "function": { "name": "x", "arguments": "{\"n\":1}" } },
            ],
        } }],
        "usage": { "prompt_tokens": 7.0, "completion_tokens": 3 },
    });
    let bytes = document.to_string().into_bytes();
    let reply = read(Api::Chat, &bytes).unwrap();
    assert_eq!(reply.text(), "hello");
    assert_eq!(calls(&reply), [("a", "x", "{}"), ("b", "x", "{\"n\":1}")]);
    assert_eq!((reply.usage.input, reply.usage.output), (Some(7), Some(3)));
    same_however_cut(Api::Chat, &bytes);
    no_beginning_is_a_reply(Api::Chat, &bytes, bytes.len());
}

#[test]
fn use_means_the_same_for_all() {
    let usage = |json: Json| super::decode::usage(&json);
    let deepseek = usage(json!({ "prompt_tokens": 10, "completion_tokens": 2, "prompt_cache_hit_tokens": 8 }));
    assert_eq!(deepseek.cached_input, Some(8));
    // Reasoning that is no part of the completion is one of the total.
    let apart = usage(json!({ "prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 30,
        "completion_tokens_details": { "reasoning_tokens": 18 } }));
    assert_eq!((apart.output, apart.reasoning), (Some(20), Some(18)));
    assert_eq!(usage(json!({})), Usage::default());
    assert_eq!(usage(json!({ "prompt_tokens": null, "completion_tokens": "5" })), Usage::default());
}

/// ENC-01, ENC-02
#[test]
fn odd_characters_are_mended_and_marked() {
    let mut bytes =
        b"data: {\"choices\":[{\"delta\":{\"content\":\"a\\ud83db\\u0000c\"},\"finish_reason\":\"stop\"}]}\n\n"
            .to_vec();
    bytes.extend_from_slice(b"data: [DONE]\n\n");
    let reply = read(Api::Chat, &bytes).unwrap();
    assert_eq!(reply.text(), "a\u{FFFD}b\u{2400}c");
    assert_eq!(reply.marks.len(), 2);
}

fn fetch() -> ToolSchema {
    ToolSchema {
        name: "shop.fetch".to_owned(),
        description: "Fetches.".to_owned(),
        parameters: json!({ "type": "object" }),
    }
}

#[test]
fn a_request_is_written_as_servers_want_it() {
    let mut request = Request::new("p/m", "rules", vec![Message::user("go"), Message::user("now")]);
    request.messages.push(Message::assistant(vec![Block::text("I look"), call("a", "shop.fetch", "{ \"n\": 1 }")]));
    request.messages.push(Message::results(vec![CallResult {
        call: "a".to_owned(),
        content: "page".to_owned(),
        is_error: false,
    }]));
    // An empty reply was archived; there is nothing of it to send.
    request.messages.push(Message::assistant(vec![]));
    request.messages.push(Message::user("status"));
    request.tools = vec![fetch()];
    request.tool_choice = ToolChoice::Tool("shop.fetch".to_owned());
    request.parallel_calls = false;
    request.max_output_tokens = Some(50);
    request.temperature = Some(f64::from(0.2_f32));
    request.effort = Some(Effort::Low);
    request.stop = vec!["END".to_owned()];
    request.cache_key = Some("run_1".to_owned());
    let closed =
        json!({ "type": "object", "properties": { "a": {} }, "required": ["a"], "additionalProperties": false });
    request.output = Some(OutputSchema { name: "plan".to_owned(), schema: closed.clone() });
    let expected = json!({
        "model": "m", "stream": true, "stream_options": { "include_usage": true },
        "messages": [
            { "role": "system", "content": "rules" },
            { "role": "user", "content": "go\n\nnow" },
            { "role": "assistant", "content": "I look", "tool_calls": [
                { "id": "a", "type": "function", "function": { "name": "shop_fetch", "arguments": "{ \"n\": 1 }" } }
            ] },
            { "role": "tool", "tool_call_id": "a", "content": "page" },
            { "role": "user", "content": "status" },
        ],
        "tools": [{ "type": "function", "function": {
            "name": "shop_fetch", "description": "Fetches.", "parameters": { "type": "object" } } }],
        "tool_choice": { "type": "function", "function": { "name": "shop_fetch" } },
        "parallel_tool_calls": false, "max_tokens": 50, "temperature": 0.2, "reasoning_effort": "low", "stop": ["END"],
        "response_format": { "type": "json_schema", "json_schema": { "name": "plan", "strict": true, "schema": closed } },
    });
    assert_eq!(body(Api::Chat, &request, &options()), expected);
    let official = Options { official: true, ..options() };
    let sent = body(Api::Chat, &request, &official);
    assert_eq!(sent["max_completion_tokens"], json!(50));
    assert_eq!(sent["prompt_cache_key"], json!("run_1"));
    assert_eq!(sent.get("max_tokens"), None);
}

#[test]
fn a_status_after_results_goes_into_them_where_the_server_wants_no_user_there() {
    let mut request = Request::new("p/m", "", vec![Message::assistant(vec![call("a", "x", "{}")])]);
    let result = CallResult { call: "a".to_owned(), content: "page".to_owned(), is_error: false };
    request.messages.extend([Message::results(vec![result]), Message::user("status")]);
    let sent = body(Api::Chat, &request, &Options { no_user_after_results: true, ..options() });
    let expected = json!({ "role": "tool", "tool_call_id": "a", "content": "page\n\nstatus" });
    assert_eq!(sent["messages"].as_array().unwrap()[1..], [expected]);
}

#[test]
fn members_of_the_body_can_be_replaced_and_taken_out() {
    let request = Request::new("p/m", "", vec![Message::user("go")]);
    let members = json!({ "stream_options": null, "top_k": 5, "model": "other" });
    let options = Options { body: members.as_object().unwrap().clone(), ..options() };
    let sent = body(Api::Chat, &request, &options);
    assert_eq!(
        sent,
        json!({ "model": "other", "stream": true, "top_k": 5, "messages": [{ "role": "user", "content": "go" }] })
    );
}

/// LLM-02
#[test]
fn a_history_with_bad_arguments_can_be_sent() {
    let messages = vec![Message::assistant(vec![call("a", "x", "{\"a\": 1,"), call("b", "x", "")])];
    let sent = body(Api::Chat, &Request::new("p/m", "", messages), &options());
    let text =
        |place: usize| sent["messages"][0]["tool_calls"][place]["function"]["arguments"].as_str().unwrap().to_owned();
    assert_eq!(serde_json::from_str::<Json>(&text(0)).unwrap(), json!({ "malformed_arguments": "{\"a\": 1," }));
    assert_eq!(text(1), "{}");
}

/// LLM-09
#[test]
fn reasoning_goes_back_to_the_model_that_gave_it_with_every_message_that_calls() {
    let thought = opaque(json!({ "reasoning_content": "hm" }));
    let messages = vec![
        Message::assistant(vec![thought.clone(), call("a", "x", "{}")]),
        Message::assistant(vec![call("b", "x", "{}")]),
        Message::assistant(vec![thought, Block::text("done")]),
    ];
    let request = Request::new("p/m", "", messages);
    let sent = body(Api::Chat, &request, &options());
    assert_eq!(sent["messages"][0]["reasoning_content"], json!("hm"));
    assert_eq!(sent["messages"][1]["reasoning_content"], json!(""));
    assert_eq!(sent["messages"][2].get("reasoning_content"), None);
    for other in [Options { provider: "q".to_owned(), ..options() }, Options { model: "n".to_owned(), ..options() }] {
        let sent = body(Api::Chat, &request, &other).to_string();
        assert!(!sent.contains("reasoning_content"), "{sent}");
    }
}

/// LLM-09
#[test]
fn details_and_signatures_go_back_as_they_came_in_their_places() {
    let detail = |text: &str, signature: Json| json!({ "reasoning_details": [{ "type": "reasoning.text", "index": 0, "text": text, "signature": signature }] });
    let reply = reply(
        vec![
            delta(detail("let ", Json::Null)),
            delta(detail("me", json!("sig"))),
            delta(json!({ "content": [{ "type": "thinking", "thinking": [] }, { "type": "text", "text": "ok" }] })),
            piece(json!({ "index": 0, "id": "a", "function": { "name": "x", "arguments": "{}" },
                "extra_content": { "google": { "thought_signature": "s1" } } })),
        ],
        "tool_calls",
    );
    let sent = body(Api::Chat, &Request::new("p/m", "", vec![Message::assistant(reply.blocks)]), &options());
    let message = &sent["messages"][0];
    assert_eq!(
        message["reasoning_details"],
        json!([{ "type": "reasoning.text", "index": 0, "text": "let me", "signature": "sig" }])
    );
    assert_eq!(message["content"], json!([{ "type": "thinking", "thinking": [] }, { "type": "text", "text": "ok" }]));
    assert_eq!(message["tool_calls"][0]["extra_content"]["google"]["thought_signature"], json!("s1"));
    assert_eq!(message["tool_calls"][0]["id"], json!("a"));
}

proptest::proptest! {
    /// Whatever comes, in whatever order, is a reply or an error, and no panic.
    #[test]
    fn any_events_are_read_without_a_panic(
        parts in proptest::collection::vec("(data: )?(\\{\"(choices|error|type|usage|delta|item|content_block)\":|\\[|\\{\\}|null|1|\"x\"|\\]|\\}|,|\\[DONE\\]|\n|\n\n){1,6}", 0..12),
    ) {
        for api in [Api::Chat, Api::Responses, Api::Messages] {
            let _ = read(api, parts.concat().as_bytes());
        }
    }

    /// Members of any type in the places where others are promised.
    #[test]
    fn any_types_are_read_without_a_panic(
        keys in proptest::collection::vec(proptest::sample::select(vec![
            "choices", "delta", "message", "content", "tool_calls", "function", "arguments", "index", "id", "name", "usage", "error",
            "type", "output_index", "item", "output", "response", "content_block", "reasoning_details", "finish_reason", "partial_json",
        ]), 1..6),
        leaf in proptest::sample::select(vec!["null", "[]", "{}", "1", "-1.5", "\"x\"", "[[]]", "[null]", "[{}]", "true"]),
        kind in proptest::sample::select(vec![
            "", "content_block_start", "content_block_delta", "message_start", "message_delta", "response.output_item.done",
            "response.completed", "response.output_text.delta", "error",
        ]),
        lists in proptest::collection::vec(proptest::bool::ANY, 6),
    ) {
        let mut json: Json = serde_json::from_str(leaf).unwrap();
        for (key, list) in keys.iter().zip(lists) {
            json = json!({ *key: json, "type": kind });
            if list {
                json = json!([json]);
            }
        }
        for api in [Api::Chat, Api::Responses, Api::Messages] {
            let _ = read(api, &stream(std::slice::from_ref(&json)));
            let _ = read(api, json.to_string().as_bytes());
        }
    }
}
