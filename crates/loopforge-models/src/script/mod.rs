//! A model that plays rules from a file: for tests and demonstrations without a key.
//!
//! What it answers depends on the request alone, so that a run that is killed and resumed goes the same way. The one exception is
//! `times`, which counts within a process.

mod file;
mod play;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::model::{Block, ErrorKind, ModelError, Reply, Request};
use tokio::time::Instant;

use crate::{Answer, CallContext, Delta, Description, Exchange, Model};

pub use file::{Fault, FaultError, Part, Rule, Script, When};
use play::Counts;
pub use play::Played;

/// A model that plays a script.
#[derive(Debug)]
pub struct ScriptModel {
    description: Description,
    script: Script,
    counts: Counts,
}

impl ScriptModel {
    /// A model by the name `name` that plays `script`.
    #[must_use]
    pub fn new(name: impl Into<String>, script: Script) -> Self {
        let name = name.into();
        let (provider, model) = name.split_once('/').unwrap_or(("script", &name));
        Self {
            description: Description {
                provider: provider.to_owned(),
                model: model.to_owned(),
                context_window: None,
                max_output_tokens: None,
                address: String::new(),
                name,
            },
            counts: Counts::of(&script),
            script,
        }
    }

    /// Reads a script from a file.
    ///
    /// # Errors
    /// A sentence that names the file, the line and what is wrong.
    pub fn open(name: impl Into<String>, path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("can't read {}: {error}", path.display()))?;
        let script = Script::read(&text).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self::new(name, script))
    }

    /// What it plays in answer to a request, without waiting or failing.
    ///
    /// # Errors
    /// [`ErrorKind::NoAnswer`]: no rule fits, or an expression of the one that does has no value.
    pub fn play(&self, request: &Request) -> Result<Played, ModelError> {
        self.script.play(request, &self.counts)
    }
}

#[async_trait]
impl Model for ScriptModel {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn call(&self, request: &Request, context: &CallContext) -> Answer {
        let begun = Instant::now();
        let mut exchange = Exchange { request: to_bytes(request), ..Exchange::default() };
        let result = self.answer(request, context, begun).await;
        if let Ok(reply) = &result {
            exchange.response = to_bytes(reply);
            exchange.first_piece = Some(begun.elapsed());
        }
        Answer { result, exchange }
    }
}

impl ScriptModel {
    async fn answer(&self, request: &Request, context: &CallContext, begun: Instant) -> Result<Reply, ModelError> {
        let played = self.play(request)?;
        let wait = match played.fault {
            Some(Fault::Silent) => None,
            _ => Some(played.delay),
        };
        rest(wait, context, begun).await?;
        match &played.fault {
            Some(Fault::Error(error)) => return Err(error.to_error()),
            // It waited for ever, so the limits have ended the call by now.
            Some(Fault::Silent) | None => {}
            Some(Fault::Cut) => {
                tell(&played.reply, context);
                let message = "the reply broke off: the script cuts it";
                return Err(ModelError::new(ErrorKind::Truncated, message).billed(played.reply.usage));
            }
        }
        tell(&played.reply, context);
        Ok(played.reply)
    }
}

/// Waits as a provider that says nothing for this long, or for ever, is waited for.
async fn rest(wait: Option<Duration>, context: &CallContext, begun: Instant) -> Result<(), ModelError> {
    let silent = begun + context.patience.first;
    let (until, kind) = match context.timeout.map(|timeout| begun + timeout) {
        Some(deadline) if deadline < silent => (deadline, ErrorKind::TimedOut),
        _ => (silent, ErrorKind::Idle),
    };
    let resting = async {
        match wait {
            Some(wait) => tokio::time::sleep(wait).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => Err(ModelError::new(ErrorKind::Cancelled, "the call was cancelled")),
        () = resting => Ok(()),
        () = tokio::time::sleep_until(until) => Err(ModelError::new(kind, "the script said nothing in time")),
    }
}

fn tell(reply: &Reply, context: &CallContext) {
    let Some(on_delta) = &context.on_delta else { return };
    for block in &reply.blocks {
        match block {
            Block::Text { text } => on_delta(Delta::Text(text)),
            Block::ToolCall(call) => on_delta(Delta::Call(&call.name)),
            Block::Opaque(opaque) => on_delta(Delta::Reasoning(&opaque.readable().unwrap_or_default())),
            Block::ToolResult(_) => {}
        }
    }
}

pub(crate) fn to_bytes(value: &impl serde::Serialize) -> bytes::Bytes {
    serde_json::to_vec(value).unwrap_or_default().into()
}
