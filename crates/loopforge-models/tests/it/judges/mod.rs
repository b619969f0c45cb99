//! Servers that others wrote judge the adapters. `cargo xtask judges` installs them, which these tests do by themselves.

mod aimock;
mod llmock;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::model::{Message, Request, ToolSchema};
use loopforge_models::{CallContext, Model, Setup, build_with};
use serde_json::json;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// One for each form.
const PROVIDERS: [&str; 3] = ["openai", "openai-responses", "anthropic"];

/// A server that runs while this lives.
struct Judge {
    /// `127.0.0.1:PORT`.
    host: String,
    _child: Child,
}

impl Judge {
    /// Starts a server that says, in a line with `sign`, at which `http://127.0.0.1:PORT` it listens.
    async fn start(command: &mut Command, sign: &str) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?} can't be started: {error}"));
        let (tell, mut lines) = mpsc::unbounded_channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        // Both are read to the end, so that the server never waits for room in a pipe.
        let forward = tell.clone();
        tokio::spawn(async move {
            let mut lines = BufReader::new(out).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = forward.send(line);
            }
        });
        tokio::spawn(async move {
            let mut lines = BufReader::new(err).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                let _ = tell.send(line);
            }
        });
        let mut said = String::new();
        let found = tokio::time::timeout(Duration::from_secs(120), async {
            while let Some(line) = lines.recv().await {
                let host = line.split("http://").nth(1).and_then(|rest| rest.split_whitespace().next());
                if let (true, Some(host)) = (line.contains(sign), host) {
                    return Some(host.to_owned());
                }
                said.push_str(&line);
                said.push('\n');
            }
            None
        });
        let Ok(Some(host)) = found.await else { panic!("{command:?} does not listen; it said:\n{said}") };
        Self { host, _child: child }
    }

    /// Talks to the server beside the models. Gives what it answers.
    async fn ask(&self, method: &str, path: &str, body: &str) -> String {
        let mut stream = TcpStream::connect(&self.host).await.unwrap();
        let request = format!(
            "{method} {path} HTTP/1.1\r\nhost: {}\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            self.host,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap();
        let text = String::from_utf8_lossy(&answer).into_owned();
        assert!(text.starts_with("HTTP/1.1 2"), "{method} {path}: {text}");
        text
    }
}

/// The folder with the servers, installed now where they weren't.
fn folder() -> PathBuf {
    if let Some(folder) = std::env::var_os("LOOPFORGE_JUDGES") {
        return folder.into();
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = std::process::Command::new(cargo)
        .current_dir(root)
        .args(["run", "--quiet", "--package", "xtask", "--", "judges"])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the servers that judge the adapters can't be installed: {said}");
    String::from_utf8_lossy(&output.stdout).trim().into()
}

fn model(provider: &str, base: &str) -> Arc<dyn Model> {
    let setup = Setup {
        base_url: Some(base.to_owned()),
        api_key_env: Some("TEST_KEY".to_owned()),
        ..Setup::named(format!("{provider}/m"))
    };
    build_with(&setup, Path::new("."), &|_| Some("sk-test-0123456789".to_owned())).unwrap()
}

fn context() -> CallContext {
    CallContext::new(CancellationToken::new())
}

fn request(text: &str) -> Request {
    Request::new("judged/m", "You are brief.", vec![Message::user(text)])
}

fn with_tool(mut request: Request) -> Request {
    request.tools = vec![ToolSchema {
        name: "get_weather".to_owned(),
        description: "Tells the weather of a city.".to_owned(),
        parameters: json!({ "type": "object", "properties": { "city": { "type": "string" } }, "required": ["city"] }),
    }];
    request
}
