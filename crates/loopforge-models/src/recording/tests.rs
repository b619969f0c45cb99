#![expect(clippy::unwrap_used, reason = "tests")]

use loopforge_core::model::{Message, Reply, StopReason, Usage};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::script::{Script, ScriptModel};
use crate::wire::Api;

fn context() -> CallContext {
    CallContext::new(CancellationToken::new())
}

fn request(text: &str) -> Request {
    Request::new("some/model", "rules", vec![Message::user(text)])
}

fn described() -> Description {
    Description {
        name: "openai/m".to_owned(),
        provider: "openai".to_owned(),
        model: "m".to_owned(),
        context_window: None,
        max_output_tokens: None,
        address: String::new(),
    }
}

/// An answer of a provider whose bytes are these.
fn live(response: &'static [u8], result: Result<Reply, ModelError>) -> Answer {
    let exchange = Exchange {
        api: Some(Api::Chat),
        request: "{}".into(),
        response: response.into(),
        status: Some(200),
        ..Exchange::default()
    };
    Answer { result, exchange }
}

fn reply(text: &str) -> Reply {
    Reply {
        id: None,
        model: None,
        blocks: vec![loopforge_core::model::Block::text(text)],
        stop: StopReason::End,
        usage: Usage::default(),
        marks: Vec::new(),
    }
}

const HELLO: &[u8] =
    b"data: {\"choices\":[{\"delta\":{\"content\":\"hello\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n";

#[tokio::test]
async fn raw_bytes_are_read_again_and_errors_come_again() {
    let broken = ModelError::new(ErrorKind::Truncated, "broke off").status(200);
    let answers = vec![
        Recorded::new(&described(), &request("a"), &live(HELLO, Ok(reply("hello")))),
        Recorded::new(&described(), &request("b"), &live(b"\xFF", Err(broken.clone()))),
    ];
    // Through the file and back.
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassette.jsonl");
    let cassette = Cassette::open(&path).unwrap();
    answers.iter().for_each(|recorded| cassette.add(recorded).unwrap());
    let replay = Replay::open("replay/cassette.jsonl", &path).unwrap();
    assert_eq!(replay.answers, answers);
    let second = replay.call(&request("b"), &context()).await;
    assert_eq!((second.result, second.exchange.response.as_ref()), (Err(broken), b"\xFF".as_slice()));
    let first = replay.call(&request("a"), &context()).await;
    assert_eq!((first.result.unwrap(), first.exchange.response.as_ref()), (reply("hello"), HELLO));
}

#[tokio::test]
async fn a_request_that_differs_stops_with_the_place() {
    let replay =
        || Replay::new("replay/x", vec![Recorded::new(&described(), &request("a"), &live(HELLO, Ok(reply("hello"))))]);
    let error = async |request: &Request| replay().call(request, &context()).await.result.unwrap_err();
    let other = error(&request("b")).await;
    assert_eq!(other.kind, ErrorKind::NoAnswer);
    assert!(other.message.contains("answer 1, message 1 differs"), "{other}");
    let mut system = request("a");
    system.system.push('!');
    assert!(error(&system).await.message.contains("the system text differs"));
    let mut settings = request("a");
    settings.temperature = Some(1.0);
    assert!(error(&settings).await.message.contains("the tools or the settings differs"));
    let mut longer = request("a");
    longer.messages.push(Message::user("more"));
    assert!(error(&longer).await.message.contains("message 2 differs"));
    let once = replay();
    assert!(once.call(&request("a"), &context()).await.result.is_ok());
    let again = once.call(&request("a"), &context()).await.result.unwrap_err();
    assert!(again.message.contains("every answer"), "{again}");
}

#[tokio::test]
async fn any_model_can_be_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("cassette.jsonl");
    let script = Script::read("rules: [{ when: { user: a }, reply: [{ say: yes }, { call: t }] }]").unwrap();
    let recorder = Recorder::new(Arc::new(ScriptModel::new("script/x", script)), Cassette::open(&path).unwrap());
    let yes = recorder.call(&request("a"), &context()).await.result;
    let no = recorder.call(&request("b"), &context()).await.result;
    assert!(yes.is_ok() && no.is_err());
    let replay = Replay::open("replay/x", &path).unwrap();
    let mut other_name = request("a");
    other_name.model = "replay/x".to_owned();
    assert_eq!(replay.call(&other_name, &context()).await.result, yes);
    assert_eq!(replay.call(&request("b"), &context()).await.result, no);
}

#[test]
fn files_that_are_no_recording_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("x.jsonl");
    for (text, part) in [
        ("{\"a\":1}", "line 1: this is no recording"),
        ("\n{\"format\":2}", "line 2: recordings of format 2"),
        ("{\"format\":1}", "missing field"),
        ("no", "line 1"),
    ] {
        std::fs::write(&path, text).unwrap();
        let error = Replay::open("replay/x", &path).unwrap_err();
        assert!(error.contains(part), "{error}");
    }
    assert!(Replay::open("replay/x", &folder.path().join("none")).unwrap_err().contains("none"));
}
