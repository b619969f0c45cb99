//! What tools are to LoopForge, and the tools that it brings.
//!
//! A [`Tool`] gives its contract and makes calls; everything around a call (checking, retrying, archiving) is the
//! gateway's. Built-ins stand in [`builtin`], commands of the host in [`process`].

pub mod builtin;
pub mod process;

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::id::{RunId, StepToken};
use loopforge_core::json::Json;
use loopforge_core::record::ActionId;
use loopforge_core::tool::{Contract, ToolResult};
use tokio_util::sync::CancellationToken;

/// One tool.
#[async_trait]
pub trait Tool: Send + Sync + fmt::Debug {
    /// What it promises.
    fn contract(&self) -> &Contract;

    /// Makes one call. The arguments fulfil the contract's schema.
    ///
    /// Every failure is a result. The call ends soon after `context.cancel` fires or `context.timeout` has passed; a write that is ended so
    /// answers [`loopforge_core::tool::Code::Timeout`], which means "unknown". Tools don't retry: the gateway does, visibly.
    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult;

    /// Whether [`Self::status`] can tell anything.
    fn can_tell(&self) -> bool {
        false
    }

    /// Whether the effect of an earlier call happened. Asked only where [`Self::can_tell`] says so.
    async fn status(&self, _arguments: Json, _context: &CallContext) -> EffectStatus {
        EffectStatus::Unknown("this tool can't tell".to_owned())
    }
}

/// What is known of an effect after asking.
#[derive(Debug, Clone, PartialEq)]
pub enum EffectStatus {
    /// It happened; the result, as far as it is known.
    Happened(Json),
    /// It did not happen.
    NotHappened,
    /// Can't be said, and why.
    Unknown(String),
}

/// What surrounds a call.
#[derive(Debug, Clone)]
pub struct CallContext {
    /// The run.
    pub run: RunId,
    /// The action.
    pub action: ActionId,
    /// 1 for the first try.
    pub attempt: u32,
    /// The idempotency key, of writes; the same for every try.
    pub step_token: Option<StepToken>,
    /// Time limit of this try.
    pub timeout: Duration,
    /// Fires when the call is to be given up.
    pub cancel: CancellationToken,
    /// The run's own folder. File tools write nowhere else.
    pub workspace: Arc<PathBuf>,
    /// The folder of the task file: relative paths of programs and grants start here.
    pub base: Arc<PathBuf>,
}
