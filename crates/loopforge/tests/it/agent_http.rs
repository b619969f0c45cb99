//! A model's work over real connections, in the form of each provider.

use loopforge_core::record::{Event, RunOutcome};
use loopforge_core::tool::ToolResult;
use loopforge_models::script::Script;
use loopforge_models::testing::{Asked, ModelServer};
use serde_json::{Value, json};

use crate::bench::{Bench, Scripted, Story};

const PROVIDERS: [&str; 3] = ["openai", "openai-responses", "anthropic"];

/// Thinks, calls two tools at once (one of them with arguments that are no JSON), looks at what came, and keeps it.
const SCRIPT: &str = r#"
rules:
  - name: keep
    when: { after: look, if: "calls.exists(call, call.ok && call.data != null)" }
    reply:
      - call: set_state
        with: { key: price, value: 399 }
  - name: look
    reply:
      - think: I have to look at both pages.
      - say: Looking.
      - { call: look, with: { page: 1 } }
      - { call: look, raw: '{"page": 2' }
"#;

fn task(provider: &str, server: &ModelServer) -> String {
    format!(
        "model: {{ use: {provider}/some, base_url: \"{}\" }}\n\
         tools: {{ look: {{ builtin: look }} }}\n\
         loop: {{ mode: react }}\n\
         subgoals:\n  - id: find\n    goal: Find the price and keep it under `price`.\n    done_when: has(state.price) && state.price == 399\n",
        server.base_url()
    )
}

async fn run(provider: &str, server: &ModelServer) -> (Story, Scripted, Value) {
    let look = Scripted::read(|_| async { ToolResult::success(json!({ "price": "399元" })) });
    let bench = Bench::new(&task(provider, server)).tool("look", &look);
    let story = bench.run().await;
    let price = bench.state(story.report.run, "price").await;
    (story, look, price)
}

fn rules(asked: &[Asked]) -> Vec<&str> {
    asked.iter().filter_map(|asked| asked.rule.as_deref()).collect()
}

#[tokio::test]
async fn a_run_goes_the_same_way_whatever_form_its_model_speaks() {
    for provider in PROVIDERS {
        let server = ModelServer::start(Script::read(SCRIPT).unwrap()).await.unwrap();
        let (story, look, price) = run(provider, &server).await;
        let last = story.records.last();
        assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{provider}: {last:?}");
        assert_eq!(price, json!(399), "{provider}");
        assert_eq!(look.called_with("page"), [json!(1)], "{provider}: the broken call is never made");
        let asked = server.asked();
        assert_eq!(rules(&asked), ["look", "keep"], "{provider}");
        // The second request has all of the first turn in it: text, both calls, both results, and the reasoning.
        let second = asked[1].body.to_string();
        for part in ["Looking.", "399元", "malformed_arguments", "I have to look at both pages."] {
            assert!(second.contains(part), "{provider}: no {part} in {second}");
        }
        let marks = second.matches("cache_control").count();
        assert_eq!(marks, if provider == "anthropic" { 3 } else { 0 }, "{provider}: {second}");
    }
}

/// LLM-11, RTY-02, RTY-08
#[tokio::test]
async fn a_limit_and_a_stream_that_breaks_off_are_tried_again_and_the_archive_shows_it() {
    let faults = "rules:\n\
                  \u{20} - { name: limit, times: 1, fault: { error: { kind: rate_limited, retry_after: 20ms } } }\n\
                  \u{20} - { name: cut, times: 1, fault: cut, reply: [{ say: this reply is cut in the middle and must not count }] }\n";
    let script = SCRIPT.replace("\nrules:\n", faults);
    let server = ModelServer::start(Script::read(&script).unwrap()).await.unwrap();
    let (story, look, price) = run("anthropic", &server).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded), "{:?}", story.records.last());
    assert_eq!((price, look.called_with("page").len()), (json!(399), 1));
    let asked = server.asked();
    assert_eq!(rules(&asked), ["limit", "cut", "look", "keep"]);
    // A try changes nothing in the request but the time in the status.
    let sizes: Vec<usize> = asked[..3].iter().map(|asked| asked.body.to_string().len()).collect();
    assert!(sizes.iter().all(|size| *size == sizes[0]), "{sizes:?}");
    assert!(!story.records.iter().any(|record| format!("{:?}", record.event).contains("must not count")));
    let calls = story.records.iter().filter(|record| matches!(record.event, Event::ModelCalled(_))).count();
    assert!(calls >= 2, "{calls}");
}
