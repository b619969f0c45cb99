//! Failures of calls, by class (R51), and the time limits of reads (R9, R50).

use std::time::Duration;

use loopforge_core::record::RunOutcome;
use loopforge_core::tool::{Code, ToolResult};

use crate::bench::{Bench, Scripted};

const ONE_CALL: &str = "
tools: { get: { builtin: get, timeout: 50ms, retry: { max_attempts: 3, backoff: [1ms] } } }
subgoals: [{ id: a, steps: [{ call: get, save: got }] }]
";

#[tokio::test]
async fn a_passing_failure_is_tried_again_after_the_wait_that_the_target_asks_for() {
    const ASKED: Duration = Duration::from_millis(60);
    let get = Scripted::read(|asked| async move {
        match asked.number {
            1 => ToolResult::failure(Code::RateLimited, "slowly").retry_after(Some(ASKED)),
            2 => ToolResult::failure(Code::Unavailable, "a moment"),
            _ => ToolResult::success("there".into()),
        }
    });
    let bench = Bench::new(ONE_CALL).tool("get", &get);
    let story = bench.run().await;

    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(bench.state(story.report.run, "got").await, "there");
    let calls = get.calls();
    assert_eq!(calls.len(), 3);
    assert!(calls[1].at - calls[0].at >= ASKED);
    let tries = story.failed_tries();
    assert_eq!(tries.iter().map(|failed| failed.asked_wait_ms).collect::<Vec<_>>(), [Some(60), None]);
    assert_eq!(story.report.totals.retries, 2);
}

#[tokio::test]
async fn a_lasting_failure_is_not_tried_again() {
    for code in [Code::Permanent, Code::NotFound, Code::Unauthorized, Code::InvalidArgument, Code::Internal] {
        let get = Scripted::read(move |_| async move { ToolResult::failure(code, "no, and that is final") });
        let story = Bench::new(ONE_CALL).tool("get", &get).run().await;
        assert_eq!(story.report.outcome, Some(RunOutcome::Failed), "{code}");
        assert_eq!(get.calls().len(), 1, "{code}");
        assert!(story.end().reason.contains("no, and that is final"), "{}", story.end().reason);
    }
}

#[tokio::test]
async fn there_are_at_most_the_tries_of_the_policy() {
    let get = Scripted::read(|_| async { ToolResult::failure(Code::Unavailable, "down") });
    let story = Bench::new(ONE_CALL).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(get.calls().len(), 3);
    assert_eq!(story.finished()[0].attempt, 3);
}

#[tokio::test]
async fn a_target_that_asks_for_more_patience_than_allowed_ends_the_call() {
    let task = ONE_CALL.replace("backoff: [1ms]", "backoff: [1ms], longest_wait: 10ms");
    let get = Scripted::read(|_| async {
        ToolResult::failure(Code::RateLimited, "tomorrow").retry_after(Some(Duration::from_secs(86_400)))
    });
    let story = Bench::new(&task).tool("get", &get).run().await;
    assert_eq!(get.calls().len(), 1);
    assert_eq!(story.finished()[0].result.retry_after_ms, Some(86_400_000));
}

#[tokio::test]
async fn a_read_that_does_not_answer_in_time_is_cancelled_and_tried_again() {
    let get = Scripted::read(|asked| async move {
        if asked.number == 1 {
            asked.cancel.cancelled().await;
            return ToolResult::failure(Code::Timeout, "cancelled");
        }
        ToolResult::success(1.into())
    });
    let story = Bench::new(ONE_CALL).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.failed_tries()[0].code, Code::Timeout);
}

#[tokio::test]
async fn a_hung_read_is_cancelled_at_the_idle_timeout_whatever_its_own_limit() {
    let task = format!("loop: {{ idle_timeout: 50ms }}\n{}", ONE_CALL.replace("timeout: 50ms", "timeout: 1h"));
    let get = Scripted::read(|asked| async move {
        asked.cancel.cancelled().await;
        ToolResult::failure(Code::Cancelled, "cancelled")
    });
    let story = Bench::new(&task).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(story.finished()[0].result.code, Code::Cancelled);
}

#[tokio::test]
async fn a_panic_in_a_read_is_a_failure_of_the_tool() {
    let get = Scripted::read(|_| async { panic!("a bug in a tool") });
    let story = Bench::new(ONE_CALL).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Failed));
    assert_eq!(story.finished()[0].result.code, Code::Internal);
    assert_eq!(get.calls().len(), 1);
}
