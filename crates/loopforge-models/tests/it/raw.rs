//! A server that sends exactly the given bytes, and tells what it received.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// What the server does on a connection after it has read the request.
#[derive(Debug, Clone)]
pub(crate) enum Do {
    /// Sends bytes.
    Send(Vec<u8>),
    /// Does nothing for a while, as slow servers do.
    Pause(Duration),
    /// Sends bytes every so often until the client goes.
    Repeat(Vec<u8>, Duration),
    /// Waits until the client closes the connection.
    Hold,
}

/// What the server saw.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Saw {
    /// A request: the head in lower case, and the body.
    Request(String, Vec<u8>),
    /// The client closed the connection while the server held it.
    Closed,
}

/// A server on this machine. Each connection takes the next list of things to do.
pub(crate) struct Server {
    pub(crate) base: String,
    saw: mpsc::UnboundedReceiver<Saw>,
}

impl Server {
    pub(crate) async fn start(connections: Vec<Vec<Do>>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}/v1", listener.local_addr().unwrap());
        let (tell, saw) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            for what in connections {
                let Ok((stream, _)) = listener.accept().await else { return };
                tokio::spawn(serve(stream, what, tell.clone()));
            }
        });
        Self { base, saw }
    }

    /// The next thing that it sees.
    pub(crate) async fn next(&mut self) -> Saw {
        tokio::time::timeout(Duration::from_secs(30), self.saw.recv()).await.unwrap().unwrap()
    }

    /// What it saw besides.
    pub(crate) fn rest(&mut self) -> Vec<Saw> {
        std::iter::from_fn(|| self.saw.try_recv().ok()).collect()
    }
}

async fn serve(mut stream: TcpStream, what: Vec<Do>, tell: mpsc::UnboundedSender<Saw>) {
    let Some((head, body)) = request(&mut stream).await else { return };
    tell.send(Saw::Request(head, body)).unwrap();
    for step in what {
        match step {
            Do::Send(bytes) => {
                if stream.write_all(&bytes).await.is_err() {
                    return;
                }
                let _ = stream.flush().await;
            }
            Do::Pause(time) => tokio::time::sleep(time).await,
            Do::Repeat(bytes, every) => {
                while stream.write_all(&bytes).await.is_ok() {
                    tokio::time::sleep(every).await;
                }
                let _ = tell.send(Saw::Closed);
            }
            Do::Hold => {
                let mut byte = [0];
                if !matches!(stream.read(&mut byte).await, Ok(1..)) {
                    let _ = tell.send(Saw::Closed);
                }
            }
        }
    }
}

async fn request(stream: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
            while bytes.len() < end + 4 + length {
                match stream.read(&mut buffer).await {
                    Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
                    _ => return None,
                }
            }
            return Some((head, bytes[end + 4..].to_vec()));
        }
        match stream.read(&mut buffer).await {
            Ok(read @ 1..) => bytes.extend_from_slice(&buffer[..read]),
            _ => return None,
        }
    }
}

/// The head of an answer whose body ends with the connection.
pub(crate) fn head(status: &str, headers: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}Connection: close\r\n\r\n").into_bytes()
}

/// A whole answer.
pub(crate) fn answer(status: &str, headers: &str, body: &str) -> Vec<Do> {
    vec![Do::Send([head(status, headers), body.as_bytes().to_vec()].concat())]
}

/// The head of a stream.
pub(crate) fn stream_head() -> Vec<u8> {
    head("200 OK", "Content-Type: text/event-stream\r\n")
}
