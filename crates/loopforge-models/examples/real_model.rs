//! Checks the adapters against a real server with a real model, in all three forms.
//!
//!     cargo xtask real-model
//!
//! starts one and this. Any other llama.cpp server does as well: `cargo run --example real_model -- http://127.0.0.1:8080/v1`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use loopforge_core::model::{CallResult, ErrorKind, Message, Reply, Request, StopReason, ToolSchema};
use loopforge_models::{CallContext, Delta, Model, OnDelta, Setup, build};
use serde_json::json;
use tokio_util::sync::CancellationToken;

type Check = Result<String, String>;

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let Some(base) = std::env::args().nth(1) else {
        eprintln!("give the base_url of a server");
        return std::process::ExitCode::from(2);
    };
    let mut failed = 0;
    for provider in ["openai", "openai-responses", "anthropic"] {
        let setup = Setup { base_url: Some(base.clone()), ..Setup::named(format!("{provider}/small")) };
        let model = match build(&setup, Path::new(".")) {
            Ok(model) => model,
            Err(error) => {
                eprintln!("{error}");
                return std::process::ExitCode::from(2);
            }
        };
        let model = model.as_ref();
        for (what, check) in [
            ("streams a reply", streams(model).await),
            ("calls a tool and takes its result", calls(model).await),
            ("stops when it is cancelled", is_cancelled(model).await),
            ("says that a prompt is too long", is_too_long(model).await),
        ] {
            let (sign, said) = match check {
                Ok(said) => ("ok  ", said),
                Err(said) => {
                    failed += 1;
                    ("FAIL", said)
                }
            };
            println!("{sign} {provider:16} {what}: {said}");
        }
    }
    if failed > 0 {
        eprintln!("{failed} checks failed");
        return std::process::ExitCode::FAILURE;
    }
    std::process::ExitCode::SUCCESS
}

fn request(system: &str, text: &str) -> Request {
    let mut request = Request::new("real/small", system, vec![Message::user(text)]);
    request.max_output_tokens = Some(120);
    request.temperature = Some(0.0);
    request
}

fn context(on_delta: Option<OnDelta>) -> CallContext {
    CallContext { on_delta, ..CallContext::new(CancellationToken::new()) }
}

async fn call(model: &dyn Model, request: &Request, context: &CallContext) -> Result<Reply, String> {
    model.call(request, context).await.result.map_err(|error| format!("{}: {error}", error.kind))
}

async fn streams(model: &dyn Model) -> Check {
    let count = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&count);
    let told: OnDelta = Arc::new(move |delta: Delta<'_>| {
        if matches!(delta, Delta::Text(_)) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    });
    let request = request("You are brief.", "Name three colours, in a list.");
    let reply = call(model, &request, &context(Some(told))).await?;
    let pieces = count.load(Ordering::Relaxed);
    if reply.text().trim().is_empty() || pieces < 2 {
        return Err(format!("{pieces} pieces: {:?}", reply.text()));
    }
    if !reply.usage.is_known() || !matches!(reply.stop, StopReason::End | StopReason::Length) {
        return Err(format!("{:?}, {:?}", reply.usage, reply.stop));
    }
    Ok(format!("{pieces} pieces, {} tokens: {:?}", reply.usage.total(), reply.text()))
}

async fn calls(model: &dyn Model) -> Check {
    let mut request = request("You call tools where they help.", "How is the weather in Bonn? Call the tool.");
    request.tools = vec![ToolSchema {
        name: "get_weather".to_owned(),
        description: "Tells the weather of a city.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] }),
    }];
    let reply = call(model, &request, &context(None)).await?;
    let Some(asked) = reply.calls().next().cloned() else { return Err(format!("no call in {:?}", reply.blocks)) };
    let city = asked.arguments.object().and_then(|object| object.get("city")).cloned().unwrap_or_default();
    if asked.name != "get_weather" || city != json!("Bonn") || reply.stop != StopReason::ToolCalls {
        return Err(format!("{asked:?}, {:?}", reply.stop));
    }
    let results = reply
        .calls()
        .map(|call| CallResult { call: call.id.clone(), content: "17 degrees, rain".to_owned(), is_error: false })
        .collect();
    request.messages.push(Message::assistant(reply.blocks));
    request.messages.push(Message::results(results));
    let told = call(model, &request, &context(None)).await?;
    if told.is_empty() {
        return Err(format!("an empty reply: {:?}", told.stop));
    }
    // A model of this size likes to ask the same again.
    Ok(format!("{city}, then {:?} and {} more calls", told.text(), told.calls().count()))
}

async fn is_cancelled(model: &dyn Model) -> Check {
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let on_delta: OnDelta = Arc::new(move |_| token.cancel());
    let context = CallContext { on_delta: Some(on_delta), ..CallContext::new(cancel) };
    let answer = model.call(&request("You talk a lot.", "Tell a long story."), &context).await;
    match answer.result {
        Err(error) if error.kind == ErrorKind::Cancelled => {
            Ok(format!("after {} bytes", answer.exchange.response.len()))
        }
        other => Err(format!("{other:?}")),
    }
}

async fn is_too_long(model: &dyn Model) -> Check {
    match model.call(&request("", &"word ".repeat(12_000)), &context(None)).await.result {
        Err(error) if error.kind == ErrorKind::ContextTooLong => Ok(error.message),
        other => Err(format!("{other:?}")),
    }
}
