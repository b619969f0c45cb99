use loopforge_core::tool::{Code, ToolResult};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::server::RawServer;
use super::{context, network_tool};

async fn send(arguments: Value) -> ToolResult {
    network_tool("http_request", &["127.0.0.1:*"]).call(arguments, &context()).await
}

#[tokio::test]
async fn a_write_carries_the_step_token_and_its_body() {
    let server = RawServer::sending("HTTP/1.1 201 Created\r\nLocation: /orders/7\r\nContent-Length: 2\r\n\r\n{}").await;
    let result = send(json!({ "url": server.url("/orders"), "json": { "id": 7 } })).await;
    assert!(result.is_ok(), "{:?}", result.error);
    assert_eq!((&result.data["status"], &result.data["location"]), (&json!(201), &json!("/orders/7")));
    let request = &server.requests()[0];
    assert!(request.starts_with("POST /orders HTTP/1.1\r\n"), "{request}");
    let token = context().step_token.unwrap();
    assert!(request.contains(&format!("idempotency-key: {token}\r\n")), "{request}");
    assert!(request.contains("content-type: application/json\r\n") && request.ends_with("{\"id\":7}"), "{request}");

    let deleted = send(json!({ "url": server.url("/orders/7"), "method": "DELETE" })).await;
    assert!(deleted.is_ok() && server.requests()[1].starts_with("DELETE /orders/7"));
    let text = send(
        json!({ "url": server.url("/x"), "method": "PUT", "body": "a=1", "headers": { "Content-Type": "text/x" } }),
    )
    .await;
    assert!(text.is_ok() && server.requests()[2].contains("content-type: text/x\r\n"));
}

#[tokio::test]
async fn what_was_never_sent_leaves_no_doubt_and_the_rest_does() {
    // A port that nobody listens on.
    let port = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let result = send(json!({ "url": format!("http://127.0.0.1:{port}/") })).await;
    assert_eq!(
        (result.code, result.effect_possible, result.leaves_effect_unknown()),
        (Code::Unavailable, false, false)
    );
    assert!(result.error.unwrap().contains("nothing was sent"));

    // The request arrives, the answer doesn't.
    let server = RawServer::sending("").await;
    let result = send(json!({ "url": server.url("/") })).await;
    assert_eq!((result.code, result.leaves_effect_unknown()), (Code::Unavailable, true));
    assert_eq!(server.requests().len(), 1, "a write was sent again by itself");

    let cut = RawServer::sending("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\npart").await;
    assert!(send(json!({ "url": cut.url("/") })).await.leaves_effect_unknown());
    let failing = RawServer::sending("HTTP/1.1 503 X\r\nRetry-After: 3\r\nContent-Length: 0\r\n\r\n").await;
    assert!(send(json!({ "url": failing.url("/") })).await.leaves_effect_unknown());
    let refusing = RawServer::sending("HTTP/1.1 409 X\r\nContent-Length: 0\r\n\r\n").await;
    let result = send(json!({ "url": refusing.url("/") })).await;
    assert_eq!((result.code, result.leaves_effect_unknown()), (Code::Permanent, false));
}

#[tokio::test]
async fn redirects_of_a_write_keep_its_meaning() {
    let end = RawServer::sending("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let answer =
        |status: u16| format!("HTTP/1.1 {status} X\r\nLocation: {}\r\nContent-Length: 0\r\n\r\n", end.url("/end"));
    let kept = RawServer::sending(answer(307)).await;
    assert!(send(json!({ "url": kept.url("/"), "json": 1 })).await.is_ok());
    let followed = &end.requests()[0];
    assert!(followed.starts_with("POST /end") && followed.ends_with("\r\n\r\n1"), "{followed}");
    assert!(followed.contains("idempotency-key") && followed.contains("content-type: application/json"), "{followed}");

    // 303 says that it was done; 301 and 302 that it was not, and a browser would turn them into reads.
    let done = send(json!({ "url": RawServer::sending(answer(303)).await.url("/"), "json": 1 })).await;
    assert_eq!((&done.data["status"], done.code), (&json!(303), Code::Success));
    let moved = send(json!({ "url": RawServer::sending(answer(302)).await.url("/"), "json": 1 })).await;
    assert_eq!(moved.code, Code::Permanent);
    assert!(moved.error.unwrap().contains("moved to"));
    assert_eq!(end.requests().len(), 1);
}

#[tokio::test]
async fn two_bodies_and_a_foreign_key_are_refused() {
    let both = send(json!({ "url": "http://127.0.0.1:1/", "json": 1, "body": "x" })).await;
    assert_eq!(both.code, Code::InvalidArgument);
    let key = send(json!({ "url": "http://127.0.0.1:1/", "headers": { "Idempotency-Key": "mine" } })).await;
    assert_eq!((key.code, key.effect_possible), (Code::InvalidArgument, false));
}
