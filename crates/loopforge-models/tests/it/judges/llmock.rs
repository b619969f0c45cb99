//! `llmock`: faults on demand and at random, and a verdict on its client.

use std::time::Duration;

use loopforge_core::model::{ErrorKind, ModelError, Reply, Request};
use loopforge_models::{CallContext, Model, Patience};
use serde_json::json;
use tokio::process::Command;

use super::{Judge, PROVIDERS, context, folder, model, request, with_tool};

/// Tries in all: as many as the judge allows, since a call that is given up looks to it like one that was content with half an answer.
const TRIES: u32 = 10;

fn llmock(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command
        .env("PYTHONPATH", folder().join("llmock-0.2.2"))
        .args(["-c", "from llmock.cli import app; app()"])
        .args(arguments);
    command
}

async fn start(arguments: &[&str]) -> Judge {
    Judge::start(&mut llmock(&[&["serve", "--port", "0"], arguments].concat()), "Uvicorn running").await
}

/// What the judge says of us; a panic with its words where it finds fault.
async fn verdict(judge: &Judge) -> String {
    let output = llmock(&["report", "--url", &format!("http://{}", judge.host)]).output().await.unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    said
}

fn base(judge: &Judge, provider: &str) -> String {
    let path = if provider == "anthropic" { "anthropic" } else { "v1" };
    format!("http://{}/{path}", judge.host)
}

#[tokio::test]
async fn each_fault_of_llmock_has_its_type() {
    let judge = start(&[]).await;
    let patience = Patience { first: Duration::from_secs(30), gap: Duration::from_millis(500) };
    let context = CallContext { patience, ..context() };
    for provider in PROVIDERS {
        let model = model(provider, &base(&judge, provider));
        for (behaviour, kinds) in [
            (json!({ "type": "fail", "status": 400 }), &[ErrorKind::InvalidRequest][..]),
            (json!({ "type": "fail", "status": 401 }), &[ErrorKind::Unauthorized]),
            (json!({ "type": "fail", "status": 403 }), &[ErrorKind::Unauthorized]),
            (json!({ "type": "fail", "status": 404 }), &[ErrorKind::NoSuchModel]),
            (json!({ "type": "fail", "status": 422 }), &[ErrorKind::InvalidRequest]),
            (json!({ "type": "fail", "status": 429, "retry_after": 1 }), &[ErrorKind::RateLimited]),
            (json!({ "type": "fail", "status": 500 }), &[ErrorKind::Unavailable]),
            (json!({ "type": "fail", "status": 503 }), &[ErrorKind::Overloaded]),
            (json!({ "type": "fail", "status": 529 }), &[ErrorKind::Overloaded]),
            (json!({ "type": "stream_fault", "kind": "disconnect", "after_chunks": 2 }), &[ErrorKind::Truncated]),
            (json!({ "type": "stream_fault", "kind": "truncate", "after_chunks": 2 }), &[ErrorKind::Truncated]),
            (json!({ "type": "stream_fault", "kind": "malformed", "after_chunks": 2 }), &[ErrorKind::Unreadable]),
            (
                json!({ "type": "stream_fault", "kind": "stall", "after_chunks": 2, "stall_seconds": 60 }),
                &[ErrorKind::Idle],
            ),
        ] {
            judge.ask("POST", "/_llmock/scenario", &json!({ "behaviors": [behaviour] }).to_string()).await;
            // Equal requests are tries of one call to the judge.
            let text = format!("{provider} meets {behaviour}");
            let error = model.call(&request(&text), &context).await.result.unwrap_err();
            assert!(kinds.contains(&error.kind), "{text}: {:?} {error}", error.kind);
            if error.kind == ErrorKind::RateLimited {
                assert_eq!(error.retry_after, Some(Duration::from_secs(1)), "{text}");
            }
            if error.is_transient() {
                // The fault is over: the same request comes through, once what was asked for has passed.
                tokio::time::sleep(error.retry_after.unwrap_or(Duration::from_millis(100))).await;
                assert!(model.call(&request(&text), &context).await.result.is_ok(), "{text}");
            }
        }
        assert!(model.call(&request(&format!("{provider} goes on")), &context).await.result.is_ok());
    }
    verdict(&judge).await;
}

#[tokio::test]
async fn prompts_that_are_too_long_are_seen_as_such() {
    let judge = start(&["--context-window", "300"]).await;
    for provider in PROVIDERS {
        let model = model(provider, &base(&judge, provider));
        let long = request(&format!("{provider} {}", "word ".repeat(2000)));
        let error = model.call(&long, &context()).await.result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::ContextTooLong, "{provider}: {error}");
    }
    verdict(&judge).await;
}

/// What the types say is enough for a client that the judge finds no fault with.
#[tokio::test]
async fn a_client_that_goes_by_the_types_is_in_order() {
    let faults = [
        ["--error-rate", "429=0.06"],
        ["--error-rate", "529=0.06"],
        ["--error-rate", "500=0.04"],
        ["--error-rate", "400=0.04"],
        ["--stream-fault", "truncate=0.06"],
        ["--stream-fault", "disconnect=0.04"],
        ["--stream-fault", "malformed=0.04"],
    ];
    let judge = start(&faults.concat()).await;
    let mut replies = 0;
    for provider in PROVIDERS {
        let model = model(provider, &base(&judge, provider));
        for number in 0..20 {
            let text = format!("{provider} asks question {number}");
            let request = if number % 2 == 0 { request(&text) } else { with_tool(request(&text)) };
            match patient(model.as_ref(), &request).await {
                Ok(reply) => {
                    assert!(!reply.is_empty(), "{text}");
                    replies += 1;
                }
                Err(error) => assert_eq!(error.kind, ErrorKind::InvalidRequest, "{text}: {error}"),
            }
        }
    }
    // What fails in passing comes through; some are refused for good.
    assert!(replies > 40, "only {replies} of 60");
    let said = verdict(&judge).await;
    for finding in ["retry_after_ignored", "retried_non_retryable", "retry_storm", "truncated_stream_accepted"] {
        assert!(!said.contains(finding), "{said}");
    }
}

/// Tries again what is transient, after the wait that was asked for.
async fn patient(model: &dyn Model, request: &Request) -> Result<Reply, ModelError> {
    let mut own = Duration::from_millis(30);
    let mut attempt = 1;
    loop {
        match model.call(request, &context()).await.result {
            Err(error) if error.is_transient() && attempt < TRIES => {
                tokio::time::sleep(own.max(error.retry_after.unwrap_or_default())).await;
                own *= 2;
                attempt += 1;
            }
            result => return result,
        }
    }
}
