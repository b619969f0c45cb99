//! Nothing outlives a call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use loopforge_core::task::Grants;
use loopforge_core::tool::Code;
use loopforge_tools::Tool;
use serde_json::json;

use super::{Bench, eventually, off, processes_with, text, tool};

/// A tree of shells, a part of which ignores SIGTERM and a part of which has a session of its own, around sleeps that
/// can be counted by `marker`.
fn stubborn_tree(marker: &str) -> String {
    format!(
        "sleep {marker} & sh -c 'trap \"\" TERM; sleep {marker} & wait; wait' & (setsid sleep {marker} &) ; \
         (setsid sh -c 'trap \"\" TERM HUP; sleep {marker}; sleep {marker}' &) ; echo up > $HOME/up; wait"
    )
}

#[tokio::test]
async fn a_timeout_ends_the_whole_tree() {
    for (sandbox, marker) in [(None, "61.8101"), (off(), "61.8102")] {
        let bench = Bench::new();
        let mut context = bench.context();
        context.timeout = Duration::from_secs(2);
        let started = Instant::now();
        let result = tool(&["sh", "-c", &stubborn_tree(marker)], sandbox).call(json!({}), &context).await;
        assert_eq!(result.code, Code::Timeout, "{result:?}");
        assert!(bench.workspace().join("up").exists());
        assert_eq!(processes_with(marker), 0);
        assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    }
}

#[tokio::test]
async fn cancelled_means_that_it_is_gone() {
    let bench = Bench::new();
    let context = bench.context();
    let cancel = context.cancel.clone();
    let tool = tool(&["sh", "-c", &stubborn_tree("61.8103")], None);
    let call = tokio::spawn(async move { tool.call(json!({}), &context).await });
    eventually("the tree is up", || bench.workspace().join("up").exists() && processes_with("61.8103") >= 4).await;
    cancel.cancel();
    let result = call.await.unwrap();
    assert_eq!(result.code, Code::Cancelled);
    assert!(result.effect_possible);
    assert_eq!(processes_with("61.8103"), 0);
}

#[tokio::test]
async fn a_call_that_was_cancelled_before_starts_nothing() {
    let bench = Bench::new();
    let context = bench.context();
    context.cancel.cancel();
    let result = tool(&["touch", "made"], off()).call(json!({}), &context).await;
    assert_eq!(result.code, Code::Cancelled);
    assert!(!result.effect_possible);
    assert!(!bench.base().join("made").exists());
}

#[tokio::test]
async fn sigterm_comes_first() {
    let bench = Bench::new();
    let mut context = bench.context();
    context.timeout = Duration::from_secs(1);
    let script = "trap 'echo tidy > $HOME/tidied; exit' TERM; while :; do sleep 0.01; done";
    let result = tool(&["sh", "-c", script], None).call(json!({}), &context).await;
    assert_eq!(result.code, Code::Timeout);
    assert!(bench.workspace().join("tidied").exists());
}

#[tokio::test]
async fn a_dropped_call_ends_its_command() {
    let bench = Bench::new();
    let context = bench.context();
    let tool = tool(&["sh", "-c", &stubborn_tree("61.8104")], None);
    let call = tokio::spawn(async move { tool.call(json!({}), &context).await });
    eventually("the tree is up", || bench.workspace().join("up").exists()).await;
    call.abort();
    eventually("the tree is gone", || processes_with("61.8104") == 0).await;
}

#[tokio::test]
async fn what_is_left_behind_is_ended_and_told() {
    let bench = Bench::new();
    let script = "(setsid sleep 61.8105 &) ; sleep 61.8105 & echo done";
    let started = Instant::now();
    let result = bench.shell(script, Grants::default()).await;
    assert_eq!((result.code, text(&result)), (Code::Success, "done\n"));
    assert!(result.marks.iter().any(|mark| mark.starts_with("2 processes")), "{:?}", result.marks);
    assert_eq!(processes_with("61.8105"), 0);
    assert!(started.elapsed() < Duration::from_secs(10));
}

/// A double fork with a session of its own: what is called a daemon.
#[tokio::test]
async fn a_daemon_does_not_outlive_the_call() {
    let bench = Bench::new();
    let script = "
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for fd in range(3): os.close(fd)
        time.sleep(2)
        open(os.environ['HOME'] + '/escaped', 'w').write('x')
    os._exit(0)
os.wait()
print('{\"daemon\": true}')
";
    let result = bench.python(script, Grants::default()).await;
    assert_eq!(result.data, json!({"daemon": true}), "{result:?}");
    assert!(result.marks.iter().any(|mark| mark.contains("left running")), "{:?}", result.marks);
    tokio::time::sleep(Duration::from_millis(2500)).await;
    assert!(!bench.workspace().join("escaped").exists());
}

/// LoopForge is killed: the program that holds the other end of the helper's socket is gone from one moment to the next.
#[tokio::test]
async fn the_tree_ends_when_the_caller_is_killed() {
    let bench = Bench::new();
    // A caller of its own, so that it can be killed: it speaks to the helper as LoopForge does, then waits.
    let caller = r#"
import json, os, socket, struct, subprocess, sys, time
ours, theirs = socket.socketpair()
helper = subprocess.Popen([sys.argv[1], '__sandbox', 'supervise', 'sh', '-c', sys.argv[2]], stdin=theirs)
theirs.close()
order = json.dumps({'confinement': None, 'document_size': 0}).encode()
ours.sendall(struct.pack('<I', len(order)) + order)
time.sleep(600)
"#;
    let helper = env!("CARGO_BIN_EXE_loopforge-sandbox-helper");
    let mut process = tokio::process::Command::new("/usr/bin/python3")
        .args(["-c", caller, helper, &stubborn_tree("61.8106")])
        .env("HOME", bench.workspace())
        .spawn()
        .unwrap();
    eventually("the tree is up", || processes_with("61.8106") >= 4).await;
    process.kill().await.unwrap();
    eventually("the tree is gone", || processes_with("61.8106") == 0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_calls_at_once_leave_no_descriptor_and_no_zombie() {
    let bench = Arc::new(Bench::new());
    let tool = Arc::new(tool(&["sh", "-c", "cat; sleep 0.05 & exit 0"], None));
    let round = |number: u64| {
        let (bench, tool) = (Arc::clone(&bench), Arc::clone(&tool));
        async move {
            let calls: Vec<_> = (0..number)
                .map(|n| {
                    let (context, tool) = (bench.context(), Arc::clone(&tool));
                    tokio::spawn(async move { tool.call(json!({ "n": n }), &context).await })
                })
                .collect();
            for (n, call) in calls.into_iter().enumerate() {
                let result = call.await.unwrap();
                assert_eq!(result.data, json!({ "n": n }), "{result:?}");
            }
        }
    };
    // Other tests run in other processes or threads and have pipes of their own, so only our helpers are counted.
    round(50).await;
    let helper = env!("CARGO_BIN_EXE_loopforge-sandbox-helper");
    let me = std::process::id().to_string();
    let mine = || {
        let children = std::fs::read_dir("/proc/self/task").unwrap().flatten().flat_map(|task| {
            let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
            list.split_ascii_whitespace().map(str::to_owned).collect::<Vec<_>>()
        });
        children
            .filter(|pid| {
                let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
                assert_ne!(pid, &me);
                stat.contains("(loopforge-sandb)") || stat.contains(helper)
            })
            .count()
    };
    // Under a runner with a process per test there is nobody else; else the other tests' helpers end in time too.
    eventually("all helpers are reaped", || mine() == 0 || std::env::var_os("NEXTEST").is_none()).await;
    if std::env::var_os("NEXTEST").is_some() {
        let open = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let before = open();
        round(50).await;
        assert!(open() <= before, "{} descriptors before, {} after", before, open());
    }
}
