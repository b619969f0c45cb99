//! One call is one request; what it brings has a type, and its bytes are kept.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopforge_core::model::{ErrorKind, Message, ModelError, Request};
use loopforge_models::{Answer, CallContext, Delta, Model, Patience, Setup, build_with};
use tokio_util::sync::CancellationToken;

use crate::raw::{Do, Saw, Server, answer, head, stream_head};

const KEY: &str = "sk-test-0123456789";

const REPLY: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"hel\"}}]}\n\ndata: {\"choices\":[{\"delta\":{\"content\":\"lo\"},\
                     \"finish_reason\":\"stop\"}]}\n\ndata: {\"choices\":[],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":2}}\n\n\
                     data: [DONE]\n\n";

const PIECE: &str = "data: {\"choices\":[{\"delta\":{\"content\":\"one\"}}],\"usage\":{\"prompt_tokens\":5,\"completion_tokens\":1}}\n\n";

fn model(provider: &str, base: &str) -> Arc<dyn Model> {
    let setup = Setup {
        base_url: Some(base.to_owned()),
        api_key_env: Some("TEST_KEY".to_owned()),
        ..Setup::named(format!("{provider}/some"))
    };
    build_with(&setup, Path::new("."), &|name| (name == "TEST_KEY").then(|| KEY.to_owned())).unwrap()
}

fn request() -> Request {
    Request::new("openai/some", "rules", vec![Message::user("go")])
}

fn context() -> CallContext {
    CallContext::new(CancellationToken::new())
}

async fn call(base: &str, context: &CallContext) -> Answer {
    model("openai", base).call(&request(), context).await
}

/// The error of a call that gets this answer, and that it was made once.
async fn error(what: Vec<Do>) -> ModelError {
    let mut server = Server::start(vec![what, vec![]]).await;
    let error = call(&server.base, &context()).await.result.unwrap_err();
    assert!(matches!(server.next().await, Saw::Request(..)));
    assert_eq!(server.rest(), [], "one call is one request");
    error
}

#[tokio::test]
async fn the_bytes_of_both_directions_are_kept_exactly() {
    let mut server = Server::start(vec![vec![Do::Send(stream_head()), Do::Send(REPLY.as_bytes().to_vec())]]).await;
    let answer = call(&server.base, &context()).await;
    let reply = answer.result.unwrap();
    assert_eq!((reply.text().as_str(), reply.usage.total()), ("hello", 7));
    let Saw::Request(head, body) = server.next().await else { panic!("no request") };
    assert_eq!(answer.exchange.request, body);
    assert_eq!(answer.exchange.response, REPLY.as_bytes());
    assert_eq!(answer.exchange.status, Some(200));
    assert!(answer.exchange.first_piece.is_some());
    assert!(answer.exchange.headers.contains(&("content-type".to_owned(), "text/event-stream".to_owned())));
    assert!(head.starts_with("post /v1/chat/completions http/1.1\r\n"), "{head}");
    assert!(head.contains(&format!("authorization: bearer {KEY}")), "{head}");
    assert!(!head.contains("accept-encoding"), "compressed bytes would not be those of the wire: {head}");
}

#[tokio::test]
async fn each_provider_gets_its_own_path_and_headers() {
    for (provider, path, header) in [
        ("openai-responses", "/v1/responses", format!("authorization: bearer {KEY}")),
        ("anthropic", "/v1/messages", format!("x-api-key: {KEY}")),
    ] {
        let mut server = Server::start(vec![answer("500 Oops", "", "")]).await;
        let error = model(provider, &server.base).call(&request(), &context()).await.result.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Unavailable);
        let Saw::Request(head, _) = server.next().await else { panic!("no request") };
        assert!(head.starts_with(&format!("post {path} ")), "{head}");
        assert!(head.contains(&header), "{head}");
        assert_eq!(head.contains("anthropic-version: 2023-06-01"), provider == "anthropic");
    }
}

#[tokio::test]
async fn pieces_are_told_as_they_come() {
    let server = Server::start(vec![vec![Do::Send(stream_head()), Do::Send(REPLY.as_bytes().to_vec())]]).await;
    let heard = Arc::new(Mutex::new(Vec::new()));
    let tell = Arc::clone(&heard);
    let context = CallContext {
        on_delta: Some(Arc::new(move |delta: Delta<'_>| tell.lock().unwrap().push(format!("{delta:?}")))),
        ..context()
    };
    call(&server.base, &context).await.result.unwrap();
    assert_eq!(*heard.lock().unwrap(), ["Text(\"hel\")", "Text(\"lo\")"]);
}

/// RTY-02
#[tokio::test]
async fn the_servers_wait_is_told_and_not_slept() {
    let body = "{\"error\":{\"message\":\"slow down\",\"type\":\"requests\",\"code\":\"rate_limit_exceeded\"}}";
    let limited = error(answer("429 Too Many Requests", "Retry-After: 86400\r\nx-request-id: req_7\r\n", body)).await;
    assert_eq!((limited.kind, limited.retry_after), (ErrorKind::RateLimited, Some(Duration::from_secs(86_400))));
    assert_eq!(limited.request_id.as_deref(), Some("req_7"));
    assert_eq!((limited.status, limited.may_be_billed), (Some(429), false));
    let overloaded = error(answer("529 Overloaded", "retry-after-ms: 1500\r\n", "")).await;
    assert_eq!((overloaded.kind, overloaded.retry_after), (ErrorKind::Overloaded, Some(Duration::from_millis(1500))));
}

#[tokio::test]
async fn a_redirect_takes_neither_key_nor_prompt_elsewhere() {
    let mut elsewhere = Server::start(vec![answer("200 OK", "", REPLY)]).await;
    let headers = format!("Location: {}/chat/completions\r\n", elsewhere.base);
    let error = error(answer("307 Temporary Redirect", &headers, "")).await;
    assert_eq!(error.kind, ErrorKind::InvalidRequest);
    assert!(error.message.contains("base_url"), "{error}");
    assert_eq!(elsewhere.rest(), []);
}

#[tokio::test]
async fn a_key_that_a_server_repeats_is_masked_everywhere() {
    let body = format!("{{\"error\":{{\"message\":\"key {KEY} is not known\",\"code\":\"invalid_api_key\"}}}}");
    let server = Server::start(vec![answer("401 Unauthorized", "", &body)]).await;
    let model = model("openai", &server.base);
    let answer = model.call(&request(), &context()).await;
    let error = answer.result.as_ref().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unauthorized);
    assert!(error.message.contains("TEST_KEY"), "the variable is named: {error}");
    assert_eq!(answer.exchange.response.len(), body.len());
    let response = String::from_utf8_lossy(&answer.exchange.response);
    for shown in [format!("{answer:?}"), response.into_owned(), format!("{model:?}"), error.to_string()] {
        assert!(!shown.contains("0123456789"), "{shown}");
    }
}

/// RTY-06
#[tokio::test]
async fn a_401_after_success_may_pass_and_before_it_does_not() {
    let refused = || answer("401 Unauthorized", "", "{\"error\":{\"message\":\"upstream\"}}");
    let dead = || answer("401 Unauthorized", "", "{\"error\":{\"code\":\"invalid_api_key\"}}");
    let server = Server::start(vec![refused(), answer("200 OK", "", REPLY), refused(), dead()]).await;
    let model = model("openai", &server.base);
    let transient = async || {
        let answer = model.call(&request(), &context()).await;
        answer.result.map_err(|error| (error.kind, error.is_transient())).map(|_| ())
    };
    assert_eq!(transient().await, Err((ErrorKind::Unauthorized, false)));
    assert_eq!(transient().await, Ok(()));
    assert_eq!(transient().await, Err((ErrorKind::Unauthorized, true)));
    assert_eq!(transient().await, Err((ErrorKind::Unauthorized, false)));
}

/// LLM-12
#[tokio::test]
async fn silence_in_the_middle_ends_the_call_and_the_connection() {
    let mut server =
        Server::start(vec![vec![Do::Send(stream_head()), Do::Send(PIECE.as_bytes().to_vec()), Do::Hold]]).await;
    let patience = Patience { first: Duration::from_secs(60), gap: Duration::from_millis(100) };
    let answer = call(&server.base, &CallContext { patience, ..context() }).await;
    let error = answer.result.unwrap_err();
    assert!(error.is_transient() && error.may_be_billed);
    assert_eq!((error.kind, error.usage.input, error.usage.output), (ErrorKind::Idle, Some(5), Some(1)));
    assert_eq!(answer.exchange.response, PIECE.as_bytes());
    assert!(matches!(server.next().await, Saw::Request(..)));
    assert_eq!(server.next().await, Saw::Closed);
}

/// LLM-12
#[tokio::test]
async fn a_server_that_never_answers_is_waited_for_as_long_as_the_first_piece_may_take() {
    let mut server = Server::start(vec![vec![Do::Hold]]).await;
    let patience = Patience { first: Duration::from_millis(100), gap: Duration::from_secs(60) };
    let error = call(&server.base, &CallContext { patience, ..context() }).await.result.unwrap_err();
    assert_eq!((error.kind, error.may_be_billed), (ErrorKind::Idle, true));
    assert!(matches!(server.next().await, Saw::Request(..)));
    assert_eq!(server.next().await, Saw::Closed);
}

/// LLM-12
#[tokio::test]
async fn keeping_the_connection_alive_is_no_progress() {
    let alive = Do::Repeat(b": keep-alive\n\n".to_vec(), Duration::from_millis(10));
    let mut server =
        Server::start(vec![vec![Do::Send(stream_head()), Do::Send(PIECE.as_bytes().to_vec()), alive]]).await;
    let patience = Patience { first: Duration::from_millis(300), gap: Duration::from_secs(60) };
    let error = call(&server.base, &CallContext { patience, ..context() }).await.result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Idle);
    assert!(matches!(server.next().await, Saw::Request(..)));
    assert_eq!(server.next().await, Saw::Closed);
}

/// LLM-12
#[tokio::test]
async fn a_slow_stream_that_goes_on_is_healthy() {
    let mut what = vec![Do::Send(stream_head())];
    for _ in 0..6 {
        what.extend([Do::Send(PIECE.as_bytes().to_vec()), Do::Pause(Duration::from_millis(500))]);
    }
    what.push(Do::Send(REPLY.as_bytes().to_vec()));
    let server = Server::start(vec![what]).await;
    // The whole takes longer than each limit.
    let patience = Patience { first: Duration::from_millis(2500), gap: Duration::from_millis(2500) };
    let reply = call(&server.base, &CallContext { patience, ..context() }).await.result.unwrap();
    assert_eq!(reply.text(), format!("{}hello", "one".repeat(6)));
}

/// LLM-12
#[tokio::test]
async fn cancelling_in_the_silence_ends_the_call_and_the_connection() {
    let mut server =
        Server::start(vec![vec![Do::Send(stream_head()), Do::Send(PIECE.as_bytes().to_vec()), Do::Hold]]).await;
    let cancel = CancellationToken::new();
    let token = cancel.clone();
    let tell: loopforge_models::OnDelta = Arc::new(move |_| token.cancel());
    let context = CallContext { on_delta: Some(tell), ..CallContext::new(cancel) };
    let error = call(&server.base, &context).await.result.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Cancelled);
    assert!(!error.is_transient() && error.may_be_billed);
    assert!(matches!(server.next().await, Saw::Request(..)));
    assert_eq!(server.next().await, Saw::Closed);
}

#[tokio::test]
async fn dropping_a_call_closes_the_connection() {
    let mut server = Server::start(vec![vec![Do::Send(stream_head()), Do::Hold]]).await;
    let model = model("openai", &server.base);
    let call = tokio::spawn(async move { model.call(&request(), &context()).await });
    assert!(matches!(server.next().await, Saw::Request(..)));
    call.abort();
    assert_eq!(server.next().await, Saw::Closed);
}

#[tokio::test]
async fn the_deadline_of_the_whole_holds_also_while_pieces_come() {
    let pieces = Do::Repeat(PIECE.as_bytes().to_vec(), Duration::from_millis(10));
    let server = Server::start(vec![vec![Do::Send(stream_head()), pieces]]).await;
    let context = CallContext { timeout: Some(Duration::from_millis(300)), ..context() };
    let error = call(&server.base, &context).await.result.unwrap_err();
    assert_eq!((error.kind, error.may_be_billed), (ErrorKind::TimedOut, true));
}

/// LLM-11
#[tokio::test]
async fn a_broken_connection_is_a_broken_reply() {
    let long = head("200 OK", "Content-Type: text/event-stream\r\nContent-Length: 100000\r\n");
    let cut = error(vec![Do::Send(long), Do::Send(PIECE.as_bytes().to_vec())]).await;
    assert_eq!((cut.kind, cut.may_be_billed, cut.usage.input), (ErrorKind::Truncated, true, Some(5)));
    let no_end = error(vec![Do::Send(stream_head()), Do::Send(PIECE.as_bytes().to_vec())]).await;
    assert_eq!((no_end.kind, no_end.may_be_billed), (ErrorKind::Truncated, true));
    let no_answer = error(vec![]).await;
    assert_eq!((no_answer.kind, no_answer.may_be_billed), (ErrorKind::Unavailable, true));
}

#[tokio::test]
async fn what_was_never_sent_costs_nothing() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}/v1", listener.local_addr().unwrap());
    drop(listener);
    let answer = call(&base, &context()).await;
    let error = answer.result.unwrap_err();
    assert_eq!((error.kind, error.may_be_billed), (ErrorKind::Unavailable, false));
    assert!(error.is_transient());
    assert!(error.message.contains("can't be reached"), "{error}");
}

#[tokio::test]
async fn an_answer_after_the_end_is_not_waited_for() {
    // The end of the reply is the end of the call, also where the server keeps the connection open.
    let mut server =
        Server::start(vec![vec![Do::Send(stream_head()), Do::Send(REPLY.as_bytes().to_vec()), Do::Hold]]).await;
    assert_eq!(call(&server.base, &context()).await.result.unwrap().text(), "hello");
    assert!(matches!(server.next().await, Saw::Request(..)));
    assert_eq!(server.next().await, Saw::Closed);
}
