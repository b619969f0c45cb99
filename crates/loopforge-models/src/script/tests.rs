#![expect(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use loopforge_core::model::{Block, CallResult, ErrorKind, Message, Request, StopReason, ToolSchema};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::Patience;

/// A patrol of pages, as a model would do it: look at each page of the list once, then report.
const PATROL: &str = r#"
rules:
  - name: next page
    find:
      pages: '(?m)^- (http\S+)$'
    let:
      todo: "pages.filter(page, !calls.exists(call, call.tool == 'fetch' && call.with.url == page))"
    when:
      system: you watch (?P<what>\w+)
      if: "size(todo) > 0"
    reply:
      - think: "${ size(todo) } left"
      - say: "I watch ${ what }: ${ todo[0] }"
      - call: fetch
        with: { url: "${ todo[0] }", position: "${ size(pages) - size(todo) }" }
  - name: report
    when: { after: fetch }
    reply:
      - say: Done.
      - call: report
        with: { prices: "${ calls.filter(call, call.tool == 'fetch').map(call, call.data.price) }" }
  - name: end
    when: { after: report }
    reply: [{ say: All pages are read. }]
"#;

fn model(text: &str) -> ScriptModel {
    ScriptModel::new("script/test", Script::read(text).unwrap())
}

fn context() -> CallContext {
    CallContext::new(CancellationToken::new())
}

fn request(text: &str) -> Request {
    Request::new("script/test", "you watch shops", vec![Message::user(text)])
}

/// Adds the reply and results of its calls to the conversation.
fn go_on(request: &mut Request, reply: &Reply, result: &str) {
    let results = reply
        .calls()
        .map(|call| CallResult { call: call.id.clone(), content: result.to_owned(), is_error: false })
        .collect::<Vec<_>>();
    request.messages.push(Message::assistant(reply.blocks.clone()));
    if !results.is_empty() {
        request.messages.push(Message::results(results));
    }
}

#[tokio::test]
async fn a_script_plays_a_whole_task_and_each_turn_again_the_same() {
    let script = model(PATROL);
    let mut request = request("Pages:\n- http://a/1\n- http://a/2\n");
    let mut said = Vec::new();
    for price in ["1", "2", "0", "0"] {
        let reply = script.call(&request, &context()).await.result.unwrap();
        // Another process that takes the run up here gets the same answer.
        assert_eq!(model(PATROL).call(&request, &context()).await.result.unwrap(), reply);
        for call in reply.calls() {
            said.push(format!("{} {}", call.name, call.arguments.text()));
        }
        go_on(&mut request, &reply, &format!("{{\"price\":{price}}}"));
        assert_eq!(request.unpaired(), None);
    }
    assert_eq!(
        said,
        [
            "fetch {\"position\":0,\"url\":\"http://a/1\"}",
            "fetch {\"position\":1,\"url\":\"http://a/2\"}",
            "report {\"prices\":[1,2]}"
        ]
    );
    assert_eq!(request.messages.last().unwrap().text(), "All pages are read.");
    let first = &request.messages[1].blocks;
    assert!(matches!(&first[0], Block::Opaque(opaque) if opaque.readable().as_deref() == Some("2 left")));
    assert_eq!(first[1], Block::text("I watch shops: http://a/1"));
}

#[tokio::test]
async fn a_status_message_after_the_results_does_not_hide_them() {
    let script = model("rules: [{ when: { after: t }, reply: [{ say: after }] }, { reply: [{ call: t }] }]");
    let mut request = request("go");
    let reply = script.call(&request, &context()).await.result.unwrap();
    assert_eq!(reply.stop, StopReason::ToolCalls);
    go_on(&mut request, &reply, "x");
    request.messages.push(Message::user("status: 1 of 2"));
    let reply = script.call(&request, &context()).await.result.unwrap();
    assert_eq!(reply.text(), "after");
    go_on(&mut request, &reply, "");
    request.messages.push(Message::user("go on"));
    let reply = script.call(&request, &context()).await.result.unwrap();
    assert_eq!(reply.calls().count(), 1, "the results are answered by now");
}

#[tokio::test]
async fn results_are_read_behind_their_handles_and_say_themselves_whether_they_failed() {
    let script = model(
        "rules: [{ when: { after: t }, reply: [{ say: '${ calls.map(call, [call.ok, call.data != null]) }' }] }, { reply: [{ call: t }, { call: t }] }]",
    );
    let mut request = request("go");
    let reply = script.call(&request, &context()).await.result.unwrap();
    go_on(&mut request, &reply, "");
    let results = ["@1.0: {\"price\":1}", "{\"ok\":false,\"error\":\"no\"}"];
    for (block, content) in request.messages[2].blocks.iter_mut().zip(results) {
        let Block::ToolResult(result) = block else { panic!("{block:?}") };
        content.clone_into(&mut result.content);
    }
    assert_eq!(script.call(&request, &context()).await.result.unwrap().text(), "[[true,true],[false,true]]");
}

#[tokio::test]
async fn rules_are_tried_in_order_and_conditions_all_hold() {
    let script = model(
        "rules:\n- { when: { turn: 2 }, reply: [{ say: second }] }\n- { when: { offered: t, user: 'a(?P<x>.)c' }, reply: [{ say: 'got ${ x }' }] }\n\
         - { when: { text: '^plain' }, stop: length, usage: { input: 7, output: 8 }, reply: [{ say: short }] }\n",
    );
    let mut with_tool = request("abc");
    with_tool.tools = vec![ToolSchema { name: "t".to_owned(), description: String::new(), parameters: json!({}) }];
    let reply = script.call(&with_tool, &context()).await.result.unwrap();
    assert_eq!((reply.text(), reply.usage.is_known()), ("got b".to_owned(), true));
    go_on(&mut with_tool, &reply, "");
    assert_eq!(script.call(&with_tool, &context()).await.result.unwrap().text(), "second");
    let plain = script.call(&request("plain"), &context()).await.result.unwrap();
    assert_eq!((plain.stop.clone(), plain.usage.total()), (StopReason::Length, 15));
    let error = script.call(&request("abc"), &context()).await.result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoAnswer);
    assert!(error.message.contains("turn 1") && error.message.contains("abc"), "{error}");
}

#[tokio::test]
async fn faults_are_those_of_providers() {
    let script = model(
        "rules:\n\
         - { times: 2, fault: { error: { kind: rate_limited, retry_after: 7s } } }\n\
         - { when: { user: cut }, fault: cut, reply: [{ say: half }] }\n\
         - { when: { user: silent }, fault: silent }\n\
         - { when: { user: slow }, delay: 20ms, reply: [{ say: late }] }\n\
         - { when: { user: hang }, delay: 1h, reply: [{ say: never }] }\n\
         - { when: { user: broken }, reply: [{ call: t, raw: '{\"a\": 1,' }, { call: t, id: x }] }\n",
    );
    let kind = async |text: &str, context: &CallContext| {
        script.call(&request(text), context).await.result.map_err(|error| (error.kind, error.retry_after))
    };
    let limited = Err((ErrorKind::RateLimited, Some(Duration::from_secs(7))));
    assert_eq!(kind("slow", &context()).await, limited);
    assert_eq!(kind("slow", &context()).await, limited);
    assert_eq!(kind("slow", &context()).await.unwrap().text(), "late");
    assert_eq!(kind("cut", &context()).await, Err((ErrorKind::Truncated, None)));
    let patience = Patience { first: Duration::from_millis(50), ..Patience::default() };
    let impatient = CallContext { patience, ..context() };
    assert_eq!(kind("silent", &impatient).await, Err((ErrorKind::Idle, None)));
    assert_eq!(kind("hang", &impatient).await, Err((ErrorKind::Idle, None)));
    let hasty = CallContext { timeout: Some(Duration::from_millis(50)), ..context() };
    assert_eq!(kind("hang", &hasty).await, Err((ErrorKind::TimedOut, None)));
    let cancelled = context();
    cancelled.cancel.cancel();
    assert_eq!(kind("hang", &cancelled).await, Err((ErrorKind::Cancelled, None)));
    let broken = kind("broken", &context()).await.unwrap();
    let calls: Vec<_> = broken.calls().collect();
    assert!(calls[0].arguments.malformed().is_some());
    assert_eq!((calls[1].id.as_str(), calls[1].arguments.text()), ("x", "{}"));
}

#[test]
fn mistakes_of_a_file_are_named() {
    for (text, part) in [
        ("rules: [{ sya: 1 }]", "sya"),
        ("rules: [{ when: { text: '(' } }]", "unclosed group"),
        ("rules: [{ when: { if: 'a +' } }]", "not an expression"),
        ("rules: [{ name: first, when: { if: 'nothing > 1' } }]", "first: `nothing > 1` reads `nothing`"),
        ("rules: [{ reply: [{ say: '${ x }' }] }]", "rule 1: `x` reads `x`"),
        ("rules: [{ find: { state: a } }]", "`state` can't be a name"),
        ("rules: [{ fault: { error: { kind: strange } } }]", "strange"),
        ("rules: 7", "rules"),
    ] {
        let error = Script::read(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    let missing = ScriptModel::open("script/none.yaml", Path::new("none.yaml")).unwrap_err();
    assert!(missing.contains("none.yaml"), "{missing}");
}

#[tokio::test]
async fn an_expression_without_a_value_is_no_answer_and_no_silence() {
    let script = model("rules: [{ name: bad, reply: [{ say: '${ calls[3].tool }' }] }]");
    let error = script.call(&request("go"), &context()).await.result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::NoAnswer);
    assert!(error.message.starts_with("bad: "), "{error}");
}
