//! Scripts over real connections, in all three forms: what a script means doesn't depend on how it is asked.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::model::{
    Block, CallResult, ErrorKind, Message, ModelError, Reply, Request, StopReason, ToolSchema, Usage,
};
use loopforge_models::script::{Script, ScriptModel};
use loopforge_models::testing::ModelServer;
use loopforge_models::{CallContext, Model, Patience, Setup, build_with};
use serde_json::json;
use tokio_util::sync::CancellationToken;

const PROVIDERS: [&str; 3] = ["openai", "openai-responses", "anthropic"];

const KEY: &str = "sk-test-0123456789";

fn model(provider: &str, server: &ModelServer) -> Arc<dyn Model> {
    let setup = Setup {
        base_url: Some(server.base_url()),
        api_key_env: Some("TEST_KEY".to_owned()),
        ..Setup::named(format!("{provider}/some"))
    };
    build_with(&setup, Path::new("."), &|name| (name == "TEST_KEY").then(|| KEY.to_owned())).unwrap()
}

fn context() -> CallContext {
    CallContext::new(CancellationToken::new())
}

async fn serve(script: &str) -> ModelServer {
    ModelServer::start(Script::read(script).unwrap()).await.unwrap()
}

fn request(name: &str, text: &str) -> Request {
    let mut request = Request::new(format!("{name}/some"), "you watch shops", vec![Message::user(text)]);
    request.tools = vec![ToolSchema {
        name: "shop.fetch".to_owned(),
        description: "Fetches.".to_owned(),
        parameters: json!({ "type": "object" }),
    }];
    request
}

fn go_on(request: &mut Request, reply: &Reply) {
    let results = reply
        .calls()
        .map(|call| CallResult { call: call.id.clone(), content: format!("result of {}", call.id), is_error: false })
        .collect::<Vec<_>>();
    request.messages.push(Message::assistant(reply.blocks.clone()));
    if !results.is_empty() {
        request.messages.push(Message::results(results));
    }
}

/// What a reply says, without what only one provider understands.
fn said(reply: &Reply) -> (Vec<Block>, StopReason, Usage) {
    let blocks = reply.blocks.iter().filter(|block| !matches!(block, Block::Opaque(_))).cloned().collect();
    (blocks, reply.stop.clone(), Usage { reasoning: None, cache_write: None, ..reply.usage })
}

const TALK: &str = r#"
rules:
  - when: { turn: 1, user: 'watch (?P<what>\S+)' }
    usage: { input: 120, cached_input: 100, output: 40 }
    reply:
      - think: the user wants ${ what } and 价格 🙂
      - say: I look at ${ what } first.
      - call: shop_fetch
        with: { url: "${ what }", note: "quote \" and é" }
      - call: shop_fetch
        raw: '{"url": "http://b", '
      - call: shop_fetch
  - when: { turn: 2, after: shop_fetch }
    usage: { input: 300, cached_input: 0, output: 5 }
    stop: length
    reply: [{ say: "${ calls.filter(call, call.ok).map(call, call.result).join(', ') }" }]
  - usage: { input: 1, cached_input: 0, output: 1 }
    reply: [{ say: "the end" }]
"#;

#[tokio::test]
async fn every_form_tells_the_same() {
    let server = serve(TALK).await;
    let mut expected = Vec::new();
    // In process first.
    let script = ScriptModel::new("script/some", Script::read(&TALK.replace("shop_fetch", "shop.fetch")).unwrap());
    let mut conversation = request("script", "watch http://a");
    for _ in 0..3 {
        let reply = script.call(&conversation, &context()).await.result.unwrap();
        expected.push(said(&reply));
        go_on(&mut conversation, &reply);
    }
    for provider in PROVIDERS {
        let model = model(provider, &server);
        let mut conversation = request(provider, "watch http://a");
        for (turn, expected) in expected.iter().enumerate() {
            let answer = model.call(&conversation, &context()).await;
            let reply = answer.result.unwrap_or_else(|error| panic!("{provider}, turn {turn}: {error}"));
            assert_eq!(said(&reply), *expected, "{provider}, turn {turn}");
            go_on(&mut conversation, &reply);
            assert_eq!(conversation.unpaired(), None);
        }
        let thought = conversation.messages[1].blocks.iter().find_map(|block| match block {
            Block::Opaque(opaque) => opaque.readable(),
            _ => None,
        });
        assert_eq!(thought.as_deref(), Some("the user wants http://a and 价格 🙂"), "{provider}");
    }
    let asked = server.asked();
    assert_eq!(asked.len(), 9);
    assert!(asked.iter().all(|asked| asked.key.as_deref() == Some(KEY) && asked.rule.is_some()));
}

async fn error(server: &ModelServer, provider: &str, context: &CallContext) -> ModelError {
    model(provider, server).call(&request(provider, "go"), context).await.result.unwrap_err()
}

#[tokio::test]
async fn every_fault_of_a_script_has_its_type_in_every_form() {
    for kind in [
        ErrorKind::RateLimited,
        ErrorKind::Overloaded,
        ErrorKind::Unavailable,
        ErrorKind::ContextTooLong,
        ErrorKind::InvalidRequest,
        ErrorKind::Refused,
        ErrorKind::Unauthorized,
        ErrorKind::NoSuchModel,
        ErrorKind::QuotaExhausted,
    ] {
        let script = format!("rules: [{{ fault: {{ error: {{ kind: {kind}, retry_after: 1500ms }} }} }}]");
        let server = serve(&script).await;
        for provider in PROVIDERS {
            if provider == "anthropic" && kind == ErrorKind::Refused {
                // There a refusal is a reason for stopping and no error.
                continue;
            }
            let error = error(&server, provider, &context()).await;
            assert_eq!(error.kind, kind, "{provider}: {error}");
            assert_eq!(error.retry_after, Some(Duration::from_millis(1500)), "{provider}");
        }
    }
}

#[tokio::test]
async fn cut_and_silent_streams_end_as_such() {
    let cut = serve("rules: [{ fault: cut, reply: [{ say: half of this long sentence is all that comes }] }]").await;
    let silent = serve("rules: [{ fault: silent }]").await;
    let patience = Patience { first: Duration::from_millis(200), gap: Duration::from_secs(60) };
    let impatient = CallContext { patience, ..context() };
    for provider in PROVIDERS {
        let cut = error(&cut, provider, &context()).await;
        assert_eq!((cut.kind, cut.may_be_billed), (ErrorKind::Truncated, true), "{provider}: {cut}");
        let silent = error(&silent, provider, &impatient).await;
        assert_eq!(silent.kind, ErrorKind::Idle, "{provider}: {silent}");
    }
}

#[tokio::test]
async fn what_no_rule_fits_and_what_providers_refuse_is_refused() {
    let server = serve("rules: [{ when: { user: never }, reply: [{ say: x }] }]").await;
    for provider in PROVIDERS {
        let none = error(&server, provider, &context()).await;
        assert_eq!(none.kind, ErrorKind::InvalidRequest, "{provider}");
        assert!(none.message.contains("no rule of the script fits turn 1"), "{none}");
        let mut holes = request(provider, "never");
        let call = CallResult { call: "nobody".to_owned(), content: String::new(), is_error: false };
        holes.messages.push(Message::results(vec![call]));
        let refused = model(provider, &server).call(&holes, &context()).await.result.unwrap_err();
        assert!(refused.message.contains("which is not open"), "{provider}: {refused}");
    }
}

#[tokio::test]
async fn a_recording_of_each_form_plays_without_the_server() {
    let folder = tempfile::tempdir().unwrap();
    for provider in PROVIDERS {
        let file = format!("{provider}.jsonl");
        let mut live = Vec::new();
        {
            let server = serve(TALK).await;
            let setup = Setup {
                base_url: Some(server.base_url()),
                record_to: Some(file.clone().into()),
                ..Setup::named(format!("{provider}/some"))
            };
            let model = build_with(&setup, folder.path(), &|_| None).unwrap();
            let mut conversation = request(provider, "watch http://a");
            for _ in 0..3 {
                let reply = model.call(&conversation, &context()).await.result.unwrap();
                go_on(&mut conversation, &reply);
                live.push(reply);
            }
        }
        let replay = build_with(&Setup::named(format!("replay/{file}")), folder.path(), &|_| None).unwrap();
        let mut conversation = request("replay", "watch http://a");
        for reply in live {
            let played = replay.call(&conversation, &context()).await.result.unwrap();
            assert_eq!(played, reply, "{provider}");
            go_on(&mut conversation, &played);
        }
        let more = replay.call(&conversation, &context()).await.result.unwrap_err();
        assert_eq!(more.kind, ErrorKind::NoAnswer);
    }
}
