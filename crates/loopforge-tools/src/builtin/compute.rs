//! Work that keeps a processor busy, off the threads that serve everything else.

use loopforge_core::tool::{Code, ToolResult};

use crate::CallContext;

/// Runs `work` on a thread of its own kind, and gives up waiting at the time limit or when the call is cancelled.
///
/// Work that is given up still runs to its end, unseen. For work that changes something outside, such a result
/// means "unknown", which is what its codes say.
pub(super) async fn blocking(context: &CallContext, work: impl FnOnce() -> ToolResult + Send + 'static) -> ToolResult {
    let task = tokio::task::spawn_blocking(work);
    within(context, "working", async {
        match task.await {
            Ok(result) => result,
            Err(error) => broken(&error),
        }
    })
    .await
}

/// The result of work that panicked.
pub(super) fn broken(error: &tokio::task::JoinError) -> ToolResult {
    ToolResult::failure(Code::Internal, format!("the tool broke down: {error}"))
}

/// Waits for `work` within the limits of the call.
pub(super) async fn within(context: &CallContext, doing: &str, work: impl Future<Output = ToolResult>) -> ToolResult {
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => ToolResult::failure(Code::Cancelled, format!("cancelled while {doing}")),
        result = tokio::time::timeout(context.timeout, work) => result.unwrap_or_else(|_| {
            let limit = loopforge_core::time::Span(context.timeout);
            ToolResult::failure(Code::Timeout, format!("no end within {limit}, still {doing}"))
        }),
    }
}
