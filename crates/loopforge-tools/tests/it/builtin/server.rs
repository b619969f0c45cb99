//! A server that answers with exact bytes, so that it can be as wrong as servers are.

use std::future::Future;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

pub(super) struct RawServer {
    pub(super) port: u16,
    /// The requests as they came, in order.
    requests: Arc<Mutex<Vec<String>>>,
}

impl RawServer {
    /// Starts a server; `answer` gets the request (head and body) and the connection, which closes when it returns.
    pub(super) async fn start<F, A>(answer: A) -> Self
    where
        A: Fn(String, TcpStream) -> F + Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let seen = Arc::clone(&requests);
        let answer = Arc::new(answer);
        tokio::spawn(async move {
            while let Ok((mut connection, _)) = listener.accept().await {
                let (seen, answer) = (Arc::clone(&seen), Arc::clone(&answer));
                tokio::spawn(async move {
                    if let Some(request) = read_request(&mut connection).await {
                        seen.lock().unwrap().push(request.clone());
                        answer(request, connection).await;
                    }
                });
            }
        });
        Self { port, requests }
    }

    /// A server that sends the same bytes to everybody, and closes.
    pub(super) async fn sending(bytes: impl Into<Vec<u8>>) -> Self {
        let bytes = Arc::new(bytes.into());
        Self::start(move |_, mut connection| {
            let bytes = Arc::clone(&bytes);
            async move {
                // The client may have gone.
                let _ = connection.write_all(&bytes).await;
            }
        })
        .await
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

async fn read_request(connection: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let mut part = [0; 4096];
        let count = connection.read(&mut part).await.ok()?;
        if count == 0 {
            return None;
        }
        bytes.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head
                .lines()
                .find_map(|line| {
                    line.to_ascii_lowercase().strip_prefix("content-length:").map(str::trim).map(str::to_owned)
                })
                .and_then(|length| length.parse().ok())
                .unwrap_or(0);
            if body.len() >= length {
                return Some(text);
            }
        }
    }
}
