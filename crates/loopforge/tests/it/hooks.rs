//! Notices to the outside: signed, repeated, owed after a crash (R51, R58).

use std::sync::Arc;
use std::time::Duration;

use hmac::{Hmac, KeyInit, Mac};
use loopforge_core::json::Json;
use loopforge_core::record::{Event, HookSent, RunOutcome};
use loopforge_core::task::HookEvent;
use loopforge_core::time::Timestamp;
use loopforge_store::memory::MemoryStore;
use loopforge_store::testing::ManualClock;
use sha2::Sha256;
use tokio_util::sync::CancellationToken;
use wiremock::matchers::{method, path};
use wiremock::{Mock, MockServer, Request, ResponseTemplate};

use crate::bench::{Bench, Scripted, Story};

fn task(server: &MockServer, hook: &str) -> String {
    format!(
        "
tools: {{ get: {{ builtin: get }} }}
subgoals: [{{ id: a, steps: [{{ call: get, with: {{ n: 1 }} }}, {{ call: get, with: {{ n: 2 }} }}] }}]
hooks: [{{ {hook}, webhook: '{}/notice' }}]
",
        server.uri()
    )
}

fn sent(story: &Story) -> Vec<&HookSent> {
    story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::HookSent(sent) => Some(sent),
            _ => None,
        })
        .collect()
}

fn header<'a>(request: &'a Request, name: &str) -> &'a str {
    request.headers.get(name).unwrap().to_str().unwrap()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[tokio::test]
async fn a_notice_is_signed_and_repeated_with_the_same_id_until_it_arrives() {
    let server = MockServer::start().await;
    let receive = || Mock::given(method("POST")).and(path("/notice"));
    receive().respond_with(ResponseTemplate::new(503)).up_to_n_times(1).mount(&server).await;
    receive().respond_with(ResponseTemplate::new(200)).mount(&server).await;
    // A variable that cargo sets for tests stands in for a secret.
    let get = Scripted::echo();
    let bench = Bench::new(&task(&server, "on: finished, secret_env: CARGO_PKG_NAME")).tool("get", &get);
    let story = bench.run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));

    let requests = server.received_requests().await.unwrap();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0].body, requests[1].body);
    assert_eq!(header(&requests[0], "loopforge-delivery"), header(&requests[1], "loopforge-delivery"));
    assert_eq!(header(&requests[0], "idempotency-key"), header(&requests[1], "loopforge-delivery"));
    for request in &requests {
        let (time, signature) = header(request, "loopforge-signature").split_once(',').unwrap();
        let time = time.strip_prefix("t=").unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(env!("CARGO_PKG_NAME").as_bytes()).unwrap();
        mac.update(format!("{time}.").as_bytes());
        mac.update(&request.body);
        assert_eq!(signature, format!("v1={}", hex(&mac.finalize().into_bytes())));
    }
    let document: Json = serde_json::from_slice(&requests[0].body).unwrap();
    assert_eq!(document["on"], "finished");
    assert_eq!(document["status"], "succeeded");
    let sent = sent(&story);
    assert_eq!((sent.len(), sent[0].error.as_deref()), (1, None));
    assert_eq!(sent[0].delivery, header(&requests[0], "loopforge-delivery"));
}

#[tokio::test]
async fn a_receiver_that_refuses_is_not_asked_again_and_the_run_goes_on() {
    let server = MockServer::start().await;
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(410)).mount(&server).await;
    let get = Scripted::echo();
    let story = Bench::new(&task(&server, "on: step_completed, every: 2")).tool("get", &get).run().await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    // Of two steps every second.
    assert_eq!(server.received_requests().await.unwrap().len(), 1);
    let sent = sent(&story);
    assert_eq!(sent[0].on, HookEvent::StepCompleted);
    assert!(sent[0].error.as_ref().unwrap().contains("410"));
}

#[tokio::test]
async fn a_notice_that_a_crash_held_back_is_sent_after_the_resume_under_its_id() {
    let clock = ManualClock::new(Timestamp(1));
    let store = MemoryStore::with_clock(clock.clock());
    let server = MockServer::start().await;
    let hang = ResponseTemplate::new(200).set_delay(Duration::from_secs(600));
    let hanging = Mock::given(method("POST")).respond_with(hang).mount_as_scoped(&server).await;
    // The second call hangs, so that the run is in the middle when it is lost.
    let get = Scripted::read(|asked| async move {
        if asked.number == 2 {
            std::future::pending::<()>().await;
        }
        loopforge_core::tool::ToolResult::success(asked.arguments)
    });
    let bench = Bench::on(Arc::new(store), &task(&server, "on: step_completed")).tool("get", &get);
    let run = bench.start().await.unwrap();
    let id = run.id();
    let driving = tokio::spawn(run.drive(CancellationToken::new()));
    while hanging.received_requests().await.is_empty() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let held_back = header(&hanging.received_requests().await[0], "loopforge-delivery").to_owned();
    driving.abort();
    let _ = driving.await;
    drop(hanging);
    Mock::given(method("POST")).respond_with(ResponseTemplate::new(200)).mount(&server).await;
    clock.advance(Duration::from_secs(61));

    let story = bench.resume(id).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let sent = sent(&story);
    assert_eq!(sent.len(), 2, "one for each step");
    assert_eq!(sent[0].delivery, held_back);
    assert!(sent.iter().all(|sent| sent.error.is_none()));
}
