//! The smallest HTTP client that shows what really came over the wire, broken answers included.

#![expect(clippy::unwrap_used, reason = "tests")]

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// What came back until the connection was closed.
#[derive(Debug)]
pub(crate) struct Answer {
    /// The status.
    pub(crate) status: u16,
    /// Headers by lower-case name.
    pub(crate) headers: BTreeMap<String, String>,
    /// The bytes that came, which may be fewer than `content-length` promised.
    pub(crate) body: Vec<u8>,
}

impl Answer {
    /// The header `name`, or nothing.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", String::as_str)
    }

    /// How many bytes were promised.
    pub(crate) fn promised(&self) -> usize {
        self.header("content-length").parse().unwrap()
    }

    /// The body as UTF-8.
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    /// The body as JSON.
    pub(crate) fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap()
    }
}

/// Gets `url`, an `http://HOST:PORT/PATH`.
pub(crate) async fn get(url: &str) -> Answer {
    request("GET", url, &[], b"").await
}

/// Makes one request on a connection of its own.
pub(crate) async fn request(method: &str, url: &str, headers: &[(&str, &str)], body: &[u8]) -> Answer {
    let (host, path) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
    let mut connection = TcpStream::connect(host).await.unwrap();
    let mut head =
        format!("{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str("\r\n");
    connection.write_all(head.as_bytes()).await.unwrap();
    connection.write_all(body).await.unwrap();
    let mut bytes = Vec::new();
    // A connection that is broken off may end in a reset; what came before still counts.
    let _ = connection.read_to_end(&mut bytes).await;
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a whole head");
    let head = std::str::from_utf8(&bytes[..end]).unwrap();
    let mut lines = head.lines();
    let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    let headers = lines
        .map(|line| line.split_once(": ").unwrap())
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    Answer { status, headers, body: bytes[end + 4..].to_vec() }
}
