//! Work that keeps a processor busy, off the threads that serve everything else.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use loopforge_core::time::Span;
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

/// The result of work that found its gate shut; nobody waits for it any more.
pub(super) fn given_up() -> ToolResult {
    ToolResult::failure(Code::Cancelled, "given up before anything was changed").not_sent()
}

/// Waits for `work` within the limits of the call.
pub(super) async fn within(context: &CallContext, doing: &str, work: impl Future<Output = ToolResult>) -> ToolResult {
    tokio::select! {
        biased;
        () = context.cancel.cancelled() => ToolResult::failure(Code::Cancelled, format!("cancelled while {doing}")),
        result = tokio::time::timeout(context.timeout, work) => result.unwrap_or_else(|_| {
            let limit = Span(context.timeout);
            ToolResult::failure(Code::Timeout, format!("no end within {limit}, still {doing}"))
        }),
    }
}

/// The door between preparing a change and making it visible.
///
/// Either the call gives up first, and then the change will never be made, or the work passes first, and then it is made.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<AtomicU8>);

const OPEN: u8 = 0;
const PASSED: u8 = 1;
const SHUT: u8 = 2;

impl Gate {
    /// Whether the change may be made visible; from then on it can't be given up.
    pub(super) fn pass(&self) -> bool {
        self.0
            .compare_exchange(OPEN, PASSED, Ordering::AcqRel, Ordering::Acquire)
            .map_or_else(|state| state == PASSED, |_| true)
    }

    #[cfg(test)]
    pub(super) fn shut_for_tests() -> Self {
        Self(Arc::new(AtomicU8::new(SHUT)))
    }

    fn shut(&self) -> bool {
        self.0.compare_exchange(OPEN, SHUT, Ordering::AcqRel, Ordering::Acquire).is_ok()
    }
}

/// Runs `work`, which changes something, like [`blocking`]; when the call gives up before `work` has passed the gate,
/// nothing was changed and nothing will be. After the gate the end is waited for: it is a rename away.
pub(super) async fn changing(
    context: &CallContext,
    work: impl FnOnce(&Gate) -> ToolResult + Send + 'static,
) -> ToolResult {
    let gate = Gate::default();
    let inner = gate.clone();
    let mut task = tokio::task::spawn_blocking(move || work(&inner));
    let given_up = tokio::select! {
        biased;
        result = &mut task => return result.unwrap_or_else(|error| broken(&error)),
        () = context.cancel.cancelled() => ToolResult::failure(Code::Cancelled, "cancelled before anything was changed"),
        () = tokio::time::sleep(context.timeout) => {
            let limit = Span(context.timeout);
            ToolResult::failure(Code::Timeout, format!("not ready within {limit}; nothing was changed"))
        }
    };
    if gate.shut() {
        return given_up.not_sent();
    }
    task.await.unwrap_or_else(|error| broken(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_side_gets_through_the_gate() {
        let gate = Gate::default();
        assert!(gate.pass() && gate.pass() && !gate.shut());
        let gate = Gate::default();
        assert!(gate.shut() && !gate.pass());
    }
}
