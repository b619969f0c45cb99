use std::time::Duration;

use loopforge_core::tool::{Code, ToolResult};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use wiremock::matchers::path;
use wiremock::{Mock, MockServer, ResponseTemplate};

use super::server::RawServer;
use super::{context, network_tool};

const LOOPBACK: &[&str] = &["127.0.0.1:*"];

async fn get(url: &str) -> ToolResult {
    network_tool("http_get", LOOPBACK).call(json!({ "url": url }), &context()).await
}

async fn get_raw(bytes: impl Into<Vec<u8>>) -> ToolResult {
    get(&RawServer::sending(bytes).await.url("/")).await
}

#[tokio::test]
async fn a_page_comes_with_what_is_known_of_it() {
    let server = MockServer::start().await;
    Mock::given(path("/p"))
        .respond_with(
            ResponseTemplate::new(200)
                .insert_header("ETag", "\"v1\"")
                .insert_header("Date", "Mon, 30 Nov 2026 12:00:00 GMT")
                .set_body_raw("<h1>价</h1>", "text/html; charset=utf-8"),
        )
        .mount(&server)
        .await;
    let url = format!("{}/p", server.uri());
    let result = get(&url).await;
    assert!(result.is_ok(), "{:?}", result.error);
    assert_eq!(
        result.data,
        json!({ "status": 200, "url": url, "content_type": "text/html; charset=utf-8", "charset": "utf-8", "etag": "\"v1\"",
                "bytes": 12, "truncated": false, "binary": false, "body": "<h1>价</h1>" })
    );
    assert_eq!((result.marks.len(), result.raw), (0, None));
}

#[tokio::test]
async fn encodings_nul_and_noise_come_through_marked() {
    let mut gbk = b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=gbk\r\n\r\n".to_vec();
    gbk.extend_from_slice(&encoding_rs::GBK.encode("价格 399元").0);
    let result = get_raw(gbk).await;
    assert_eq!((&result.data["body"], &result.data["charset"]), (&json!("价格 399元"), &json!("gbk")));

    let result = get_raw("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\na\0b").await;
    assert_eq!(result.data["body"], "a\u{2400}b");
    assert_eq!(result.marks.len(), 1);
    assert_eq!(&*result.raw.unwrap().bytes, b"a\0b");

    let noise: Vec<u8> = (0..200_000_u32).map(|number| (number.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n".to_vec();
    answer.extend_from_slice(&noise);
    let result = get_raw(answer).await;
    assert!(result.is_ok());
    assert_eq!((&result.data["binary"], &result.data["bytes"]), (&json!(true), &json!(200_000)));
    assert_eq!(&*result.raw.unwrap().bytes, &noise[..]);
}

#[tokio::test]
async fn fifty_megabytes_pass_and_a_limit_cuts_with_a_mark() {
    let server = MockServer::start().await;
    let large = "0123456789".repeat(5_000_000);
    Mock::given(path("/large"))
        .respond_with(ResponseTemplate::new(200).set_body_raw(large.clone(), "text/plain"))
        .mount(&server)
        .await;
    let url = format!("{}/large", server.uri());
    let result = get(&url).await;
    assert!(result.is_ok(), "{:?}", result.error);
    assert!(result.data["body"].as_str().unwrap() == large && result.data["truncated"] == false);

    let tool = network_tool("http_get", LOOPBACK);
    let result = tool.call(json!({ "url": url, "max_bytes": 1000 }), &context()).await;
    assert_eq!((&result.data["bytes"], &result.data["truncated"]), (&json!(1000), &json!(true)));
    assert_eq!(result.data["body"], large[..1000]);
    assert!(result.marks[0].contains("cut at 1000 bytes"), "{:?}", result.marks);
    // A body of exactly the limit is whole.
    let result = tool.call(json!({ "url": url, "max_bytes": 50_000_000 }), &context()).await;
    assert_eq!(result.data["truncated"], false);
}

#[tokio::test]
async fn a_compressed_body_is_measured_as_what_it_unpacks_to() {
    // 133 bytes that unpack to 100 000 times `a`.
    const HEAD: &str = "1f8b08000000000002ffedc13101000000c2a0aceb5fc21a1e4001";
    const TAIL: &str = "af0687fae21ba0860100";
    let digits = format!("{HEAD}{}{TAIL}", "0".repeat(266 - HEAD.len() - TAIL.len()));
    let packed: Vec<u8> =
        (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect();
    let mut answer = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\n\r\n".to_vec();
    answer.extend_from_slice(&packed);
    let server = RawServer::sending(answer).await;
    let tool = network_tool("http_get", LOOPBACK);
    let whole = tool.call(json!({ "url": server.url("/") }), &context()).await;
    assert_eq!((&whole.data["bytes"], whole.data["body"].as_str().map(str::len)), (&json!(100_000), Some(100_000)));
    let cut = tool.call(json!({ "url": server.url("/"), "max_bytes": 1000 }), &context()).await;
    assert_eq!((&cut.data["bytes"], &cut.data["truncated"]), (&json!(1000), &json!(true)));
}

#[tokio::test]
async fn a_body_that_breaks_off_is_unavailable_and_says_where() {
    let result = get_raw("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nonly this").await;
    assert_eq!(result.code, Code::Unavailable);
    assert!(result.error.as_deref().unwrap().contains("broke after 9 of 100 bytes of the body"), "{:?}", result.error);
    let result = get_raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n").await;
    assert_eq!(result.code, Code::Unavailable);
    assert!(result.error.as_deref().unwrap().contains("after 5 bytes"), "{:?}", result.error);
    for nothing in ["", "HTTP/1.1 200", "nonsense\r\n\r\n"] {
        assert_eq!(get_raw(nothing).await.code, Code::Unavailable, "{nothing}");
    }
}

#[tokio::test]
async fn statuses_become_codes() {
    for (status, code) in [
        (200, Code::Success),
        (204, Code::Success),
        (304, Code::Success),
        (400, Code::Permanent),
        (401, Code::Unauthorized),
        (403, Code::Unauthorized),
        (404, Code::NotFound),
        (407, Code::Unauthorized),
        (408, Code::Unavailable),
        (410, Code::NotFound),
        (418, Code::Permanent),
        (422, Code::Permanent),
        (425, Code::Unavailable),
        (429, Code::RateLimited),
        (500, Code::Unavailable),
        (503, Code::Unavailable),
        (302, Code::MalformedOutput),
        (300, Code::Permanent),
    ] {
        let result = get_raw(format!("HTTP/1.1 {status} X\r\nContent-Length: 0\r\n\r\n")).await;
        assert_eq!(result.code, code, "{status}");
        assert_eq!(result.error.is_none(), code == Code::Success);
    }
    let result = get_raw("HTTP/1.1 404 Gone\r\nContent-Length: 6\r\n\r\nno cat").await;
    assert_eq!((&result.data["status"], &result.data["body"]), (&json!(404), &json!("no cat")));
    assert!(get_raw("HTTP/1.1 204 X\r\n\r\n").await.meaning_of_empty.is_some());
    assert!(get_raw("HTTP/1.1 304 X\r\n\r\n").await.meaning_of_empty.unwrap().contains("not modified"));
}

#[tokio::test]
async fn the_wait_that_was_asked_for_is_kept() {
    let wait = async |status: u16, header: &str| {
        get_raw(format!("HTTP/1.1 {status} X\r\n{header}\r\nContent-Length: 0\r\n\r\n")).await.retry_after
    };
    assert_eq!(wait(429, "Retry-After: 7").await, Some(Duration::from_secs(7)));
    assert_eq!(wait(503, "Retry-After: 7").await, Some(Duration::from_secs(7)));
    assert_eq!(wait(429, "Retry-After-Ms: 1500").await, Some(Duration::from_millis(1500)));
    assert_eq!(wait(429, "Retry-After: soon").await, None);
    assert_eq!(wait(404, "Retry-After: 7").await, None);
}

#[tokio::test]
async fn time_limit_and_cancel_end_every_phase() {
    // Phase 1: the answer never begins. Phase 2: the body never ends.
    for (sent, told) in
        [("", "waiting for the answer"), ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", "3 bytes so far")]
    {
        let server = RawServer::start(move |_, mut connection| async move {
            connection.write_all(sent.as_bytes()).await.unwrap();
            std::future::pending::<()>().await;
        })
        .await;
        let tool = network_tool("http_get", LOOPBACK);
        let mut limited = context();
        limited.timeout = Duration::from_millis(300);
        let result = tool.call(json!({ "url": server.url("/") }), &limited).await;
        assert_eq!(result.code, Code::Timeout);
        assert!(result.error.as_deref().unwrap().contains(told), "{:?}", result.error);

        let cancelled = context();
        let cancel = cancelled.cancel.clone();
        let (result, ()) = tokio::join!(tool.call(json!({ "url": server.url("/") }), &cancelled), async {
            while server.requests().len() < 2 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        });
        assert_eq!(result.code, Code::Cancelled);
    }
}

#[tokio::test]
async fn redirects_are_followed_and_each_hop_is_checked() {
    let elsewhere = RawServer::sending("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nhere").await;
    let target = elsewhere.url("/end?x=1");
    let redirect = |location: &str| format!("HTTP/1.1 302 Found\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
    let server = RawServer::sending(redirect(&target)).await;
    let tool = network_tool("http_get", LOOPBACK);
    let arguments = json!({ "url": server.url("/"), "headers": { "Authorization": "secret", "X-Api-Key": "secret" } });
    let result = tool.call(arguments, &context()).await;
    assert_eq!((&result.data["body"], &result.data["url"]), (&json!("here"), &json!(target)));
    assert!(server.requests()[0].contains("authorization: secret"));
    assert!(!elsewhere.requests()[0].contains("secret"), "another origin got the credentials");

    // A host that isn't listed, and an address that no page may lead to.
    for location in
        ["http://169.254.169.254/latest/meta-data", "http://localhost:1/", "http://10.0.0.1/", "file:///etc/passwd"]
    {
        let result = get_raw(redirect(location)).await;
        assert_eq!(result.code, Code::Refused, "{location}");
        assert!(result.error.as_deref().unwrap().contains("redirects elsewhere"), "{:?}", result.error);
    }
    let only_one = network_tool("http_get", &[&format!("127.0.0.1:{}", server.port)]);
    let result = only_one.call(json!({ "url": server.url("/") }), &context()).await;
    assert_eq!(result.code, Code::Refused);
    assert_eq!(elsewhere.requests().len(), 1, "the refused hop was asked for");

    let circle = RawServer::sending(redirect("/again")).await;
    let result = tool.call(json!({ "url": circle.url("/") }), &context()).await;
    assert_eq!(result.code, Code::Permanent);
    assert_eq!(circle.requests().len(), 6);
    assert_eq!(get_raw(redirect("http://[")).await.code, Code::MalformedOutput);
}

#[tokio::test]
async fn what_is_not_granted_is_refused_with_the_remedy() {
    let server = RawServer::sending("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").await;
    let refusal = async |allow: &[&str], url: &str| {
        let result = network_tool("http_get", allow).call(json!({ "url": url }), &context()).await;
        assert_eq!(result.code, Code::Refused);
        result.error.unwrap()
    };
    assert!(refusal(&[], &server.url("/")).await.contains("list the hosts of this tool under `allow`"));
    assert!(refusal(&["shop.example"], &server.url("/")).await.contains("(shop.example)"));
    assert!(refusal(&["*:*"], &server.url("/")).await.contains("a loopback address"));
    assert!(refusal(&["*:*"], &format!("http://0x7f000001:{}/", server.port)).await.contains("a loopback address"));
    assert_eq!(server.requests().len(), 0);
}

#[tokio::test]
async fn a_name_is_checked_where_it_is_resolved() {
    // `localhost` is a name that leads to a private address; the resolver of the connection itself refuses it.
    let server = RawServer::sending("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").await;
    let url = format!("http://localhost:{}/", server.port);
    let refused = network_tool("http_get", &["*:*"]).call(json!({ "url": url }), &context()).await;
    assert_eq!(refused.code, Code::Refused, "{:?}", refused.error);
    assert!(!refused.effect_possible);
    assert_eq!(server.requests().len(), 0);
    let granted = network_tool("http_get", &["localhost:*"]).call(json!({ "url": url }), &context()).await;
    assert_eq!(granted.data["body"], "ok", "{:?}", granted.error);
}

#[tokio::test]
async fn bad_arguments_name_the_argument() {
    let tool = network_tool("http_get", LOOPBACK);
    for (arguments, word) in [
        (json!({ "url": "shop" }), "`url`"),
        (json!({ "url": "http://me:secret@127.0.0.1/" }), "`url` carries a name or password"),
        (json!({ "url": "http://127.0.0.1/", "headers": { "Host": "other" } }), "`Host`"),
        (json!({ "url": "http://127.0.0.1/", "headers": { "a b": "x" } }), "`a b`"),
        (json!({ "url": "http://127.0.0.1/", "headers": { "X": "a\r\nY: b" } }), "`X`"),
    ] {
        let result = tool.call(arguments.clone(), &context()).await;
        assert_eq!(result.code, Code::InvalidArgument, "{arguments}");
        assert!(result.error.as_deref().unwrap().contains(word), "{:?}", result.error);
        assert_eq!(result.data, Value::Null);
    }
}
