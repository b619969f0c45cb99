//! What an append promises.

use std::sync::Arc;

use loopforge_core::id::{LeaseId, RunId, Seq};
use loopforge_core::json::Json;
use loopforge_core::payload::{Blob, BlobKind, Payload};
use loopforge_core::record::{Record, RunStatus};
use loopforge_core::tool::Code;
use uuid::Uuid;

use crate::testing::samples;
use crate::{Append, Appended, Durability, Lease, Store, StoreError, StoredCheckpoint, record_ids};

/// A new run with its lease.
pub(super) async fn run(store: &dyn Store) -> Lease {
    store.create_run(samples::new_run(), &samples::worker("a")).await.expect("a run is created")
}

/// Appends, which must succeed, and moves the head of `lease` on.
pub(super) async fn write(store: &dyn Store, lease: &mut Lease, append: Append) {
    let head = Seq(append.expected_head.0 + append.records.len() as u64);
    assert_eq!(store.append(lease, append).await, Ok(Appended::Written));
    lease.head = head;
}

/// All records of a run.
pub(super) async fn archive(store: &dyn Store, run: RunId) -> Vec<Record> {
    store.records(run, Seq(0), usize::MAX).await.expect("records are read")
}

/// A run is there as a whole after its creation, and a second one of its id is refused and changes nothing.
pub async fn creation(store: &dyn Store) {
    let mut new = samples::new_run();
    new.records.push(samples::record(2, samples::state_saved("k", None, Json::from(1))));
    let lease = store.create_run(new.clone(), &samples::worker("a")).await.expect("a run is created");
    assert_eq!((lease.run, lease.head), (new.id, Seq(2)));
    let info = store.run(new.id).await.expect("it is there");
    assert_eq!((info.status, info.head, info.steps, info.wake_at), (RunStatus::Running, Seq(2), 0, None));
    assert_eq!((info.name.as_str(), info.workspace.as_str()), (new.name.as_str(), new.workspace.as_str()));
    assert_eq!((info.base.as_str(), info.created_at), (new.base.as_str(), new.at));
    let owner = info.owner.expect("its lease is live");
    assert_eq!((owner.id, owner.label), (samples::worker("a").id, samples::worker("a").label));
    assert_eq!(store.task(info.task).await.as_deref(), Ok(new.task.as_slice()));
    assert_eq!(archive(store, new.id).await, new.records);

    let again = crate::NewRun { name: "another".to_owned(), ..new.clone() };
    assert_eq!(store.create_run(again, &samples::worker("b")).await, Err(StoreError::Exists(new.id)));
    assert_eq!(store.run(new.id).await.expect("it is there").name, new.name);
    let next = samples::append(&lease, vec![samples::step_started(1)]);
    assert_eq!(store.append(&lease, next).await, Ok(Appended::Written), "the first lease still holds");
}

/// What was appended is read back as it was, in order, and the run's row tells what the append said of it.
pub async fn round_trip(store: &dyn Store) {
    let mut lease = run(store).await;
    let (events, blobs) = samples::step(lease.run, 1);
    let wake_at = Some(samples::NOON);
    let mut append = samples::append(&lease, events);
    (append.blobs, append.status, append.wake_at, append.steps) = (blobs, RunStatus::Waiting, wake_at, 1);
    append.durability = Durability::Hard;
    let records = append.records.clone();
    write(store, &mut lease, append).await;
    assert_eq!(archive(store, lease.run).await[1..], records);
    let info = store.run(lease.run).await.expect("it is there");
    assert_eq!((info.status, info.head, info.steps, info.wake_at), (RunStatus::Waiting, Seq(6), 1, wake_at));
}

/// Repeating an append whose acknowledgement was lost changes nothing and is told apart.
pub async fn repetition(store: &dyn Store) {
    let lease = run(store).await;
    for durability in [Durability::Soft, Durability::Hard] {
        let head = store.run(lease.run).await.expect("it is there").head;
        let mut append = samples::append_after(head, vec![samples::step_started(1), samples::step_evaluated(1)]);
        append.durability = durability;
        assert_eq!(store.append(&lease, append.clone()).await, Ok(Appended::Written));
        let before = archive(store, lease.run).await;
        assert_eq!(store.append(&lease, append.clone()).await, Ok(Appended::AlreadyMine));
        assert_eq!(archive(store, lease.run).await, before);
        // Also when others went on from there.
        let next = samples::append_after(Seq(head.0 + 2), vec![samples::step_started(2)]);
        assert_eq!(store.append(&lease, next).await, Ok(Appended::Written));
        assert_eq!(store.append(&lease, append).await, Ok(Appended::AlreadyMine));
    }
}

/// Appends that are submitted one after the other are written in that order, whenever their tickets are asked; one that is
/// refused takes those behind it with it.
pub async fn submission(store: &dyn Store) {
    let lease = run(store).await;
    let steps = |from: u64| {
        let appends = (from..from + 5).map(|head| {
            let mut append = samples::append_after(Seq(head), vec![samples::step_started(head)]);
            append.durability = if head % 2 == 0 { Durability::Hard } else { Durability::Soft };
            append
        });
        appends.collect::<Vec<_>>()
    };
    let appends = steps(1);
    let mut tickets = Vec::new();
    for append in appends.clone() {
        tickets.push(store.submit(&lease, append).await);
    }
    // What is called behind them comes behind them.
    store.renew_lease(&lease, lease.ttl).await.expect("the lease holds");
    assert_eq!(
        archive(store, lease.run).await[1..],
        appends.into_iter().flat_map(|append| append.records).collect::<Vec<_>>()
    );
    for mut ticket in tickets.into_iter().rev() {
        ticket.hurry();
        assert_eq!(ticket.await, Ok(Appended::Written));
    }

    let mut refused = steps(6);
    refused[0].expected_head = Seq(7);
    let first = store.submit(&lease, refused.remove(0)).await;
    let mut behind = Vec::new();
    for append in refused {
        behind.push(store.submit(&lease, append).await);
    }
    assert!(matches!(first.await, Err(StoreError::Invalid(_))));
    for ticket in behind {
        assert_eq!(ticket.await, Ok(Appended::Fenced));
    }
    assert_eq!(archive(store, lease.run).await.len(), 6);

    // A ticket that is dropped takes nothing back.
    drop(store.submit(&lease, steps(6).remove(0)).await);
    store.renew_lease(&lease, lease.ttl).await.expect("the lease holds");
    assert_eq!(archive(store, lease.run).await.len(), 7);
}

/// A checkpoint that comes with an append is kept with it, or not at all.
pub async fn checkpoint(store: &dyn Store) {
    let mut lease = run(store).await;
    let kept = |seq: u64| StoredCheckpoint { seq: Seq(seq), at: samples::NOON, bytes: vec![7; 2_000] };
    for seq in 2..=5 {
        let mut append = samples::append(&lease, vec![samples::step_started(seq)]);
        append.checkpoint = Some(kept(seq));
        write(store, &mut lease, append.clone()).await;
        assert_eq!(store.load_checkpoint(lease.run).await, Ok(Some(kept(seq))));
        assert_eq!(store.append(&lease, append).await, Ok(Appended::AlreadyMine));
    }
    let mut of_another = samples::append(&lease, vec![samples::step_started(6)]);
    of_another.checkpoint = Some(kept(5));
    assert!(matches!(store.append(&lease, of_another).await, Err(StoreError::Invalid(_))));
    let mut fenced = samples::append_after(Seq(9), vec![samples::step_started(6)]);
    fenced.checkpoint = Some(kept(10));
    assert_eq!(store.append(&lease, fenced).await, Ok(Appended::Fenced));
    assert_eq!(store.load_checkpoint(lease.run).await, Ok(Some(kept(5))));
    assert_eq!(archive(store, lease.run).await.len(), 5);
}

/// An append that follows another head than there is writes nothing: neither records nor state, effects or blobs.
pub async fn wrong_head(store: &dyn Store) {
    let lease = run(store).await;
    for head in [Seq(0), Seq(2), Seq(7)] {
        refused(store, &lease, head).await;
    }
}

/// An append with an older lease, or with a lease id that was not given out, writes nothing.
pub async fn stale_lease(store: &dyn Store) {
    let old = run(store).await;
    let new = store.claim_run(old.run, &samples::worker("a")).await.expect("the same worker may claim again");
    assert_ne!(old.id, new.id);
    refused(store, &old, old.head).await;
    // The epoch alone is not enough: it can be issued twice.
    refused(store, &Lease { epoch: new.epoch, ..old.clone() }, old.head).await;
    refused(store, &Lease { id: LeaseId(Uuid::new_v4()), ..new.clone() }, new.head).await;
    refused(store, &Lease { epoch: old.epoch, ..new.clone() }, new.head).await;
    assert_eq!(store.append(&new, samples::append(&new, vec![samples::step_started(1)])).await, Ok(Appended::Written));
}

async fn refused(store: &dyn Store, lease: &Lease, head: Seq) {
    let blob = Blob::new(BlobKind::Text, format!("refused {}", Uuid::new_v4()).into_bytes());
    let run = lease.run;
    let before = (store.run(run).await, archive(store, run).await);
    let mut append = samples::append_after(
        head,
        vec![samples::state_saved("refused", None, Json::from(1)), samples::action_started(run, 1, Some("refused"))],
    );
    append.blobs = vec![blob.clone()];
    append.status = RunStatus::Failed;
    assert_eq!(store.append(lease, append).await, Ok(Appended::Fenced));
    assert_eq!((store.run(run).await, archive(store, run).await), before);
    assert_eq!(store.state_value(run, "refused", None).await, Ok(None));
    assert_eq!(store.effects(run).await, Ok(Vec::new()));
    assert!(matches!(store.blob(&blob.reference).await, Err(StoreError::Corrupt(_))), "the blob is not there");
}

/// Among many appends at the same time each has its own verdict: stale and duplicate ones don't spoil the good.
pub async fn mixed_company(store: Arc<dyn Store>) {
    let token_owner = run(&*store).await;
    let taken = samples::action_started(token_owner.run, 1, None);
    let first = samples::append(&token_owner, vec![taken.clone()]);
    assert_eq!(store.append(&token_owner, first).await, Ok(Appended::Written));
    let mut calls = Vec::new();
    for number in 0..30 {
        let lease = run(&*store).await;
        let (lease, append, expected) = match number % 3 {
            0 => (lease.clone(), samples::append(&lease, vec![samples::step_started(1)]), Ok(Appended::Written)),
            1 => {
                let stale = Lease { epoch: lease.epoch + 1, ..lease };
                (stale.clone(), samples::append(&stale, vec![samples::step_started(1)]), Ok(Appended::Fenced))
            }
            _ => {
                let events = vec![samples::state_saved("k", None, Json::from(1)), taken.clone()];
                let key = samples_token(&taken);
                (lease.clone(), samples::append(&lease, events), Err(StoreError::Duplicate { key }))
            }
        };
        let store = Arc::clone(&store);
        calls.push((lease.run, expected, tokio::spawn(async move { store.append(&lease, append).await })));
    }
    for (run, expected, call) in calls {
        assert_eq!(call.await.expect("the call ends"), expected);
        let records = if expected == Ok(Appended::Written) { 2 } else { 1 };
        assert_eq!(archive(&*store, run).await.len(), records);
        assert_eq!(store.run(run).await.expect("it is there").head, Seq(records as u64));
        assert_eq!(store.state_value(run, "k", None).await, Ok(None));
    }
}

fn samples_token(event: &loopforge_core::record::Event) -> String {
    match event {
        loopforge_core::record::Event::ActionStarted(started) => started.token.to_string(),
        _ => String::new(),
    }
}

/// Calls that break the contract are refused and write nothing: no records, gaps, unknown runs.
pub async fn wrong_calls(store: &dyn Store) {
    let lease = run(store).await;
    let before = archive(store, lease.run).await;
    let empty = samples::append(&lease, Vec::new());
    assert!(matches!(store.append(&lease, empty).await, Err(StoreError::Invalid(_))));
    let mut gap = samples::append(&lease, vec![samples::step_started(1), samples::step_evaluated(1)]);
    gap.records[1].seq = Seq(9);
    assert!(matches!(store.append(&lease, gap).await, Err(StoreError::Invalid(_))));
    assert_eq!(archive(store, lease.run).await, before);

    let nobody = Lease { run: RunId(Uuid::now_v7()), ..lease };
    let append = samples::append(&nobody, vec![samples::step_started(1)]);
    assert_eq!(store.append(&nobody, append).await, Err(StoreError::NoRun(nobody.run)));
}

/// A record comes with its blobs or after them; a blob is shared by all runs, and is there byte for byte.
pub async fn blobs(store: &dyn Store) {
    let (mut first, mut second) = (run(store).await, run(store).await);
    let text = samples::prose(Uuid::new_v4().as_u64_pair().0, 5_000);
    let mut blobs = Vec::new();
    let payload = Payload::stow(Json::from(text.clone()), &mut blobs);
    let blob = blobs[0].reference;
    let finished = samples::action_finished(1, Code::Success, payload);

    let missing = samples::append(&first, vec![finished.clone()]);
    assert!(matches!(store.append(&first, missing).await, Err(StoreError::Invalid(_))));
    assert_eq!(archive(store, first.run).await.len(), 1, "nothing was written");

    let mut with_blob = samples::append(&first, vec![finished.clone()]);
    with_blob.blobs = blobs;
    write(store, &mut first, with_blob).await;
    let without = samples::append(&second, vec![finished]);
    write(store, &mut second, without).await;
    assert_eq!(store.blob(&blob).await.as_deref(), Ok(text.as_bytes()));

    let bytes: Vec<u8> = (0..=255).cycle().take(3_000).collect();
    for bytes in [bytes, Vec::new(), vec![0], vec![b'a'; 200_000]] {
        let blob = Blob::new(BlobKind::Bytes, bytes.clone());
        let mut append = samples::append(&first, vec![samples::step_started(1)]);
        append.blobs = vec![blob.clone(), blob.clone()];
        write(store, &mut first, append).await;
        assert_eq!(store.blob(&blob.reference).await, Ok(bytes));
    }
}

/// Records come out as they went in, whatever texts and numbers they hold. A NUL in a text survives as well, where one
/// got that far.
pub async fn odd_values(store: &dyn Store) {
    let mut lease = run(store).await;
    let texts = [
        "",
        " ",
        "\0",
        "a\0b",
        "\u{1f600}\u{202e}\u{feff}",
        "\\u0000",
        "'; drop table run; --",
        "\u{ffff}\r\n\t\u{7f}",
    ];
    let numbers = "[0, -0.0, 1e308, 5e-324, 0.1, 9007199254740993, 18446744073709551615, -9223372036854775808, 1.0]";
    let numbers: Json = serde_json::from_str(numbers).expect("it is JSON");
    let mut events: Vec<_> =
        texts.iter().map(|text| samples::state_saved(text, Some(text), Json::from(*text))).collect();
    events.push(samples::state_saved("numbers", None, numbers));
    let append = samples::append(&lease, events);
    let records = append.records.clone();
    write(store, &mut lease, append).await;
    assert_eq!(archive(store, lease.run).await[1..], records);
    for text in texts {
        let history = store.state_history(lease.run, text, Some(text)).await.expect("it is read");
        assert_eq!(history.len(), 1, "{text:?}");
        assert_eq!(history[0].value, Payload::inline(Json::from(text)));
    }
    assert_eq!(record_ids(&records).len(), texts.len() + 1);
}
