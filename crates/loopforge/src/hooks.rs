//! Hooks: telling people and programs what a run does (R58).
//!
//! A notice is made from an archived record and sent in the order of the archive, at least once, with an id by which the
//! receiver can tell a repeat. A slow receiver doesn't hold up the run; only the end of the process waits a while. What was sent,
//! or couldn't be, is archived as `hook_sent`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use loopforge_core::id::{ActionNo, RunId, Seq, StepNo};
use loopforge_core::record::{ActionId, Event, HookSent, Record};
use loopforge_core::run::RunState;
use loopforge_core::task::{Hook, HookAction, HookEvent, Sandbox, SandboxSwitch};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::{Contract, ToolResult};
use loopforge_tools::process::{ProcessConfig, ProcessTool};
use loopforge_tools::{CallContext, Tool};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::prepare::Prepared;

/// Tries of a webhook, and the waits between them. Source: SPEC R51.
const WAITS: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(10)];

/// Time limit of one try. Source: SPEC R50 (write).
const TIMEOUT: Duration = Duration::from_secs(15);

/// A notice on its way.
#[derive(Debug, Clone)]
pub struct Notice {
    /// The hook's position in the task.
    pub hook: u32,
    /// What it is about.
    pub on: HookEvent,
    /// The record that it tells of.
    pub about: Seq,
    /// The id by which the receiver can tell a repeat.
    pub delivery: String,
    /// The JSON document.
    pub document: Value,
}

/// The hooks of a run.
pub(crate) struct Hooks {
    hooks: Arc<Vec<Hook>>,
    run: RunId,
    base: Arc<PathBuf>,
    name: String,
    sender: Option<UnboundedSender<Notice>>,
    sent: UnboundedReceiver<HookSent>,
    back: UnboundedSender<HookSent>,
    open: usize,
}

/// Whether a notice may be made of such a record.
pub(crate) fn may_owe(event: &Event) -> bool {
    moment(event).is_some()
}

fn moment(event: &Event) -> Option<HookEvent> {
    Some(match event {
        Event::StepEvaluated(_) => HookEvent::StepCompleted,
        Event::RunResumed(_) => HookEvent::CheckpointRestored,
        Event::LoopFound(_) => HookEvent::LoopExceeded,
        Event::QuestionAsked(_) => HookEvent::PersonNeeded,
        Event::LimitReached(_) => HookEvent::LimitReached,
        Event::BudgetWarned(_) => HookEvent::BudgetWarning,
        Event::RunEnded(_) => HookEvent::Finished,
        _ => return None,
    })
}

impl Hooks {
    pub(crate) fn new(prepared: &Prepared, run: RunId) -> Self {
        let (back, sent) = unbounded_channel();
        Self {
            hooks: Arc::new(prepared.task.hooks.clone()),
            run,
            base: Arc::new(prepared.base.clone()),
            name: prepared.task.name.clone(),
            sender: None,
            sent,
            back,
            open: 0,
        }
    }

    /// Sends from now on what another task asks for. Notices that are on their way arrive.
    pub(crate) fn change(&mut self, prepared: &Prepared) {
        self.hooks = Arc::new(prepared.task.hooks.clone());
        self.name.clone_from(&prepared.task.name);
    }

    /// Whether the task wants the run to wait for a person when it goes round in a circle.
    pub(crate) fn pauses_on_loops(&self) -> bool {
        self.hooks
            .iter()
            .any(|hook| hook.on == HookEvent::LoopExceeded && hook.action == Some(HookAction::PauseAndAlert))
    }

    /// Whether no notice is on its way.
    pub(crate) fn is_idle(&self) -> bool {
        self.open == 0
    }

    /// The next notice that arrived, or couldn't; waits for ever when none is on its way.
    pub(crate) async fn sent(&mut self) -> Option<HookSent> {
        let sent = self.sent.recv().await;
        self.open = self.open.saturating_sub(1);
        sent
    }

    /// Whether a record will be owed a notice once it is archived.
    pub(crate) fn wants(&self, record: &Record, state: &RunState) -> bool {
        moment(&record.event)
            .is_some_and(|on| record.seq > state.told && self.hooks.iter().any(|hook| tells(hook, on, record)))
    }

    /// Makes the notices that an archived record asks for.
    pub(crate) fn take(&mut self, record: &Record, state: &RunState) {
        if !self.wants(record, state) {
            return;
        }
        let Some(on) = moment(&record.event) else { return };
        for (position, hook) in self.hooks.iter().enumerate() {
            if !tells(hook, on, record) {
                continue;
            }
            let hook_no = u32::try_from(position).unwrap_or(u32::MAX);
            let delivery = delivery(self.run, record.seq, hook_no);
            let document = document(&self.name, self.run, on, &delivery, record, state);
            let notice = Notice { hook: hook_no, on, about: record.seq, delivery, document };
            let sender = self.sender.get_or_insert_with(|| {
                let (sender, queue) = unbounded_channel();
                let worker = Sender { hooks: Arc::clone(&self.hooks), base: Arc::clone(&self.base), run: self.run };
                tokio::spawn(worker.work(queue, self.back.clone()));
                sender
            });
            if sender.send(notice).is_ok() {
                self.open += 1;
            }
        }
    }
}

/// Whether a hook tells of this record, which is of the kind `on`.
fn tells(hook: &Hook, on: HookEvent, record: &Record) -> bool {
    let every = hook.every.unwrap_or(1).max(1);
    hook.on == on && record.event.step().is_none_or(|step| step.0 % every == 0)
}

fn delivery(run: RunId, about: Seq, hook: u32) -> String {
    let name = format!("{run}/{about}/{hook}");
    blake3::hash(name.as_bytes()).to_hex().as_str()[..32].to_owned()
}

fn document(name: &str, run: RunId, on: HookEvent, delivery: &str, record: &Record, state: &RunState) -> Value {
    let subgoals: serde_json::Map<String, Value> = state
        .subgoals
        .iter()
        .map(|progress| (progress.id.clone(), json!({ "status": progress.status.name(), "done": progress.done })))
        .collect();
    json!({
        "delivery": delivery,
        "on": on,
        "run": run.to_string(),
        "task": name,
        "at": record.at.to_string(),
        "status": state.status().name(),
        "steps": state.totals.steps,
        "subgoals": subgoals,
        "record": record,
    })
}

/// Sends notices, one after the other.
struct Sender {
    hooks: Arc<Vec<Hook>>,
    base: Arc<PathBuf>,
    run: RunId,
}

impl Sender {
    async fn work(self, mut queue: UnboundedReceiver<Notice>, back: UnboundedSender<HookSent>) {
        while let Some(notice) = queue.recv().await {
            let Some(hook) = self.hooks.get(notice.hook as usize) else { continue };
            let (via, outcome) = self.send(hook, &notice).await;
            if let Err(error) = &outcome {
                tracing::warn!(run = %self.run, hook = notice.hook, "a notice could not be sent: {error}");
            }
            let sent = HookSent {
                hook: notice.hook,
                on: notice.on,
                about: notice.about,
                delivery: notice.delivery,
                via: via.to_owned(),
                error: outcome.err(),
            };
            if back.send(sent).is_err() {
                return;
            }
        }
    }

    async fn send(&self, hook: &Hook, notice: &Notice) -> (&'static str, Result<(), String>) {
        if let Some(action) = hook.action {
            log(action, notice);
        }
        if let Some(url) = &hook.webhook {
            return ("webhook", self.post(url, hook.secret_env.as_deref(), notice).await);
        }
        if let Some(argv) = &hook.process {
            return ("process", self.run_process(argv, notice).await);
        }
        ("log", Ok(()))
    }

    async fn post(&self, url: &str, secret_env: Option<&str>, notice: &Notice) -> Result<(), String> {
        // What is archived and logged names the URL as the task does: what the environment put into it may be secret.
        let (shown, url) = (url, from_environment(url)?);
        let secret = match secret_env {
            None => None,
            Some(name) => Some(std::env::var(name).map_err(|_| format!("the variable `{name}` is not set"))?),
        };
        let body = notice.document.to_string();
        let client = client()?;
        let mut waits = WAITS.iter();
        loop {
            let mut request = client
                .post(&url)
                .timeout(TIMEOUT)
                .header("content-type", "application/json")
                .header("idempotency-key", &notice.delivery)
                .header("loopforge-delivery", &notice.delivery);
            if let Some(secret) = &secret {
                request = request.header("loopforge-signature", signature(secret, clock::now(), &body));
            }
            let error = match request.body(body.clone()).send().await {
                Ok(response) if response.status().is_success() => return Ok(()),
                Ok(response) if !is_passing(response.status().as_u16()) => {
                    return Err(format!("{shown} answered {}", response.status()));
                }
                Ok(response) => format!("{shown} answered {}", response.status()),
                Err(error) => format!("{shown} can't be reached: {}", error.without_url()),
            };
            match waits.next() {
                Some(wait) => tokio::time::sleep(*wait).await,
                None => return Err(format!("{error}, {} times", WAITS.len() + 1)),
            }
        }
    }

    async fn run_process(&self, argv: &[String], notice: &Notice) -> Result<(), String> {
        let contract = Contract::write("a hook", json!({ "type": "object" }));
        // Whoever wrote the task wrote the hook; it tells the outside what happens, so it must reach it.
        let sandbox = Some(Sandbox::Switch(SandboxSwitch::Off));
        let tool = ProcessTool::new(ProcessConfig { sandbox, ..ProcessConfig::new(argv.to_vec(), contract) })
            .map_err(|error| error.to_string())?;
        let context = CallContext {
            run: self.run,
            action: ActionId { step: StepNo(0), action: ActionNo(notice.hook) },
            attempt: 1,
            step_token: Some(loopforge_core::id::StepToken(notice.delivery.clone())),
            timeout: TIMEOUT,
            cancel: CancellationToken::new(),
            workspace: Arc::clone(&self.base),
            base: Arc::clone(&self.base),
        };
        let result: ToolResult = tool.call(notice.document.clone(), &context).await;
        if result.is_ok() { Ok(()) } else { Err(result.error.unwrap_or_else(|| result.code.name().to_owned())) }
    }
}

fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429) || status >= 500
}

fn client() -> Result<reqwest::Client, String> {
    // The process has one provider; whoever comes first installs it.
    let _ = rustls::crypto::ring::default_provider().install_default();
    reqwest::Client::builder()
        .redirect(reqwest::redirect::Policy::none())
        .build()
        .map_err(|error| format!("no HTTP client can be made: {error}"))
}

/// `t=SECONDS,v1=HEX`: HMAC-SHA256 over `SECONDS.BODY`, so that a receiver can refuse old and forged notices.
fn signature(secret: &str, at: Timestamp, body: &str) -> String {
    use std::fmt::Write;
    let seconds = at.0 / 1_000_000;
    let mut mac = Hmac::<Sha256>::new_from_slice(secret.as_bytes()).expect("HMAC takes keys of any length");
    mac.update(format!("{seconds}.{body}").as_bytes());
    let mut text = format!("t={seconds},v1=");
    for byte in mac.finalize().into_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

/// Replaces `${env.NAME}`.
fn from_environment(text: &str) -> Result<String, String> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("${env.") {
        out.push_str(&rest[..start]);
        let body = &rest[start + 6..];
        let end = body.find('}').ok_or_else(|| format!("`{text}` has no closing `}}`"))?;
        let name = &body[..end];
        out.push_str(&std::env::var(name).map_err(|_| format!("the variable `{name}` is not set"))?);
        rest = &body[end + 1..];
    }
    out.push_str(rest);
    Ok(out)
}

fn log(action: HookAction, notice: &Notice) {
    let document = &notice.document;
    let (run, on) = (document["run"].as_str().unwrap_or_default(), document["on"].as_str().unwrap_or_default());
    let steps = &document["steps"];
    match action {
        HookAction::Log => tracing::info!(target: "loopforge::hook", run, on, %steps, "notice"),
        HookAction::LogStateSummary => {
            let subgoals = &document["subgoals"];
            tracing::info!(target: "loopforge::hook", run, on, %steps, %subgoals, "state");
        }
        HookAction::PauseAndAlert => tracing::warn!(target: "loopforge::hook", run, on, %steps, "a person is needed"),
    }
}
