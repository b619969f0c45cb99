//! `@copilotkit/aimock`: given answers in the form of each provider.

use loopforge_core::model::{Block, CallResult, ErrorKind, Message, StopReason};
use tokio::process::Command;

use super::{Judge, PROVIDERS, context, folder, model, request, with_tool};

async fn start() -> Judge {
    let script = folder().join("aimock-1.43.0/node_modules/@copilotkit/aimock/dist/cli.js");
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/judges/aimock.json");
    let mut command = Command::new("node");
    command.arg(script).args(["--port", "0", "--chunk-size", "3", "--strict", "--fixtures"]).arg(fixtures);
    Judge::start(&mut command, "listening on").await
}

#[tokio::test]
async fn aimock_is_understood_in_every_form() {
    let judge = start().await;
    let mut calls = 0;
    for provider in PROVIDERS {
        let model = model(provider, &format!("http://{}/v1", judge.host));
        let hello = model.call(&request("say hello"), &context()).await.result.unwrap();
        assert_eq!(hello.text(), "Hello: 价格 399元 🙂, \"quoted\" and\nlines!", "{provider}");
        assert_eq!(hello.stop, StopReason::End, "{provider}");

        let mut thinking = request("think first");
        let thought = model.call(&thinking, &context()).await.result.unwrap();
        assert_eq!(thought.text(), "The answer.", "{provider}");
        let readable = thought.blocks.iter().find_map(|block| match block {
            Block::Opaque(opaque) => opaque.readable(),
            _ => None,
        });
        assert_eq!(readable.as_deref(), Some("Hm, let me see."), "{provider}");
        // What was kept goes back without being refused.
        thinking.messages.push(Message::assistant(thought.blocks));
        thinking.messages.push(Message::user("say hello"));
        assert!(model.call(&thinking, &context()).await.result.is_ok(), "{provider}");

        let mut weather = with_tool(request("How is the weather?"));
        let called = model.call(&weather, &context()).await.result.unwrap();
        assert_eq!(called.stop, StopReason::ToolCalls, "{provider}");
        let asked: Vec<_> = called.calls().cloned().collect();
        assert_eq!(asked.len(), 2, "{provider}");
        assert_eq!(asked[0].arguments.object().unwrap()["city"], "Ürümqi", "{provider}");
        // In Anthropic's form aimock itself makes `{}` of them.
        if provider != "anthropic" {
            assert_eq!(asked[1].arguments.malformed().unwrap().text, "{\"city\": \"half", "{provider}");
        }
        weather.messages.push(Message::assistant(called.blocks));
        let result = |id: &str| CallResult { call: id.to_owned(), content: "rain".to_owned(), is_error: false };
        weather.messages.push(Message::results(asked.iter().map(|call| result(&call.id)).collect()));
        let told = model.call(&weather, &context()).await.result.unwrap();
        assert_eq!((told.text().as_str(), told.stop), ("It rains.", StopReason::End), "{provider}");

        let mixed = model.call(&with_tool(request("call, then talk")), &context()).await.result.unwrap();
        assert_eq!((mixed.calls().count(), mixed.text().as_str()), (1, "I have asked."), "{provider}");
        calls += 6;
    }
    assert_eq!(journal(&judge).await, calls, "one call is one request");
}

#[tokio::test]
async fn faults_of_aimock_have_their_types_and_are_not_tried_again() {
    let judge = start().await;
    for provider in PROVIDERS {
        let model = model(provider, &format!("http://{}/v1", judge.host));
        let limited = model.call(&request("too fast"), &context()).await.result.unwrap_err();
        assert_eq!(limited.kind, ErrorKind::RateLimited, "{provider}: {limited}");
        assert_eq!(limited.retry_after, Some(std::time::Duration::from_secs(1)), "{provider}");
        assert!(limited.request_id.is_some(), "{provider}");
        let busy = model.call(&request("too busy"), &context()).await.result.unwrap_err();
        assert_eq!(busy.kind, ErrorKind::Overloaded, "{provider}: {busy}");
        let cut = model.call(&request("break off"), &context()).await.result.unwrap_err();
        assert_eq!((cut.kind, cut.may_be_billed), (ErrorKind::Truncated, true), "{provider}: {cut}");
        let unknown = model.call(&request("nothing fits this"), &context()).await.result.unwrap_err();
        assert!(unknown.status.is_some_and(|status| status >= 400), "{provider}: {unknown}");
    }
    assert_eq!(journal(&judge).await, 4 * PROVIDERS.len(), "one call is one request");
}

/// How many requests the server had.
async fn journal(judge: &Judge) -> usize {
    let answer = judge.ask("GET", "/__aimock/journal?limit=1", "").await.to_lowercase();
    let total = answer.lines().find_map(|line| line.strip_prefix("x-total-count: "));
    total.unwrap_or_else(|| panic!("no count in {answer}")).trim().parse().unwrap()
}
