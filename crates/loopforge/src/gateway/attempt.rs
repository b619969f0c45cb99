//! One try of a call.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use loopforge_core::json::Json;
use loopforge_core::run::Call;
use loopforge_core::tool::{Code, Effect, ToolResult};
use loopforge_tools::{CallContext, EffectStatus, Tool};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::CancellationToken;

use crate::{clock, killpoint};

use super::Armed;

/// What a tool has beyond its own time limit to say that the limit has passed.
const GRACE: Duration = Duration::from_millis(500);

/// What a cancelled tool has to end.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What came of a try.
#[derive(Debug)]
pub struct Tried {
    /// The call.
    pub call: Call,
    /// 1 for the first try.
    pub attempt: u32,
    /// The result.
    pub result: ToolResult,
    /// From the start of the try to its answer.
    pub took: Duration,
    /// The answer came after the call had been declared unknown.
    pub late: bool,
}

/// A write has not answered in time. The call goes on; its answer may still come.
#[derive(Debug, Clone, Copy)]
pub struct Overdue {
    /// The call.
    pub call: Call,
    /// Its time limit.
    pub timeout: Duration,
}

/// Within which a try is made.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// How long a write that doesn't answer is waited for.
    pub idle_timeout: Duration,
    /// From then on, as [`crate::clock`] measures since the machine was started, the run may be somebody else's: a try that hasn't begun
    /// is not made.
    pub held_until: Duration,
}

/// Makes one try. A panic in the tool is a failure of the tool.
///
/// A read that doesn't end in time is dropped. A write isn't: it may have happened, so its answer is waited for until
/// `idle_timeout`, after `overdue` has been told.
pub async fn run(
    armed: Arc<Armed>,
    arguments: Json,
    context: CallContext,
    call: Call,
    limits: Limits,
    overdue: UnboundedSender<Overdue>,
) -> Tried {
    let Limits { idle_timeout, held_until } = limits;
    let number = killpoint::before_call();
    let started = Instant::now();
    let attempt = context.attempt;
    if clock::since_boot() >= held_until {
        let why = "the lease on the run had run out before the call began; it was not made";
        let result = ToolResult::failure(Code::Unavailable, why).not_sent();
        return Tried { call, attempt, result, took: Duration::ZERO, late: false };
    }
    let timeout = context.timeout;
    let cancel = context.cancel.clone();
    let tool: Arc<dyn Tool> = Arc::clone(&armed.tool);
    let working = AssertUnwindSafe(async move { tool.call(arguments, &context).await }).catch_unwind();
    tokio::pin!(working);
    let mut late = false;
    let patience = timeout + GRACE;
    let answer = match tokio::time::timeout(patience.min(idle_timeout + GRACE), &mut working).await {
        Ok(answer) => Some(answer),
        Err(_) => {
            if armed.contract.effect == Effect::Write {
                late = true;
                // The driver may have stopped listening; then nobody needs to know.
                let _ = overdue.send(Overdue { call, timeout });
                match tokio::time::timeout(idle_timeout.saturating_sub(timeout), &mut working).await {
                    Ok(answer) => Some(answer),
                    Err(_) => give_up(&cancel, &mut working).await,
                }
            } else {
                give_up(&cancel, &mut working).await
            }
        }
    };
    killpoint::after_call(number);
    let result = match answer {
        Some(Ok(result)) => result,
        Some(Err(_)) => ToolResult::failure(Code::Internal, "the tool panicked; its output is in the log"),
        None => ToolResult::failure(Code::Timeout, format!("no answer within {:?}", started.elapsed())),
    };
    Tried { call, attempt, result, took: started.elapsed(), late }
}

async fn give_up<F: Future + Unpin>(cancel: &CancellationToken, working: &mut F) -> Option<F::Output> {
    cancel.cancel();
    tokio::time::timeout(LAST_WORDS, working).await.ok()
}

/// What came of asking whether an effect happened.
#[derive(Debug)]
pub struct Asked {
    /// The call.
    pub call: Call,
    /// The answer.
    pub status: EffectStatus,
}

/// Asks the tool itself whether an effect happened.
pub async fn ask_itself(armed: Arc<Armed>, arguments: Json, context: CallContext, call: Call) -> Asked {
    let limit = context.timeout + GRACE;
    let tool: Arc<dyn Tool> = Arc::clone(&armed.tool);
    let asking = AssertUnwindSafe(async move { tool.status(arguments, &context).await }).catch_unwind();
    let status = match tokio::time::timeout(limit, asking).await {
        Ok(Ok(status)) => status,
        Ok(Err(_)) => EffectStatus::Unknown("the status query panicked".to_owned()),
        Err(_) => EffectStatus::Unknown(format!("the status query did not answer within {limit:?}")),
    };
    Asked { call, status }
}

/// Asks another tool whether an effect happened.
///
/// It gets the call's arguments and `step_token`. It says so with `{ "happened": true | false, "result": ... }`, or with the
/// code `not_found`. Anything else is no answer.
pub async fn ask_tool(armed: Arc<Armed>, mut arguments: Json, context: CallContext, call: Call) -> Asked {
    if let (Some(map), Some(token)) = (arguments.as_object_mut(), &context.step_token) {
        map.insert("step_token".to_owned(), Json::String(token.to_string()));
    }
    let limit = context.timeout + GRACE;
    let tool: Arc<dyn Tool> = Arc::clone(&armed.tool);
    let asking = AssertUnwindSafe(async move { tool.call(arguments, &context).await }).catch_unwind();
    let status = match tokio::time::timeout(limit, asking).await {
        Ok(Ok(result)) => read_status(&result),
        Ok(Err(_)) => EffectStatus::Unknown("the status tool panicked".to_owned()),
        Err(_) => EffectStatus::Unknown(format!("the status tool did not answer within {limit:?}")),
    };
    Asked { call, status }
}

fn read_status(result: &ToolResult) -> EffectStatus {
    match (result.code, result.data.get("happened").and_then(Json::as_bool)) {
        (Code::Success, Some(true)) => EffectStatus::Happened(result.data.get("result").cloned().unwrap_or(Json::Null)),
        (Code::Success, Some(false)) | (Code::NotFound, _) => EffectStatus::NotHappened,
        (Code::Success, None) => EffectStatus::Unknown("the status tool's answer has no `happened`".to_owned()),
        (code, _) => EffectStatus::Unknown(format!(
            "the status tool failed ({code}): {}",
            result.error.as_deref().unwrap_or("no reason given")
        )),
    }
}
