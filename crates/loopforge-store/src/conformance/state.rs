//! State: versions, members, and the past.

use std::collections::BTreeMap;

use loopforge_core::expression::StateValue;
use loopforge_core::id::{RunId, Seq};
use loopforge_core::json::Json;
use loopforge_core::payload::Payload;
use uuid::Uuid;

use super::appends::{run, write};
use crate::testing::samples;
use crate::{Store, StoreError};

fn single(value: i32) -> StateValue {
    StateValue::Single(Payload::inline(Json::from(value)))
}

fn members<const N: usize>(values: [(&str, i32); N]) -> StateValue {
    let values = values.into_iter().map(|(name, value)| (name.to_owned(), Payload::inline(Json::from(value))));
    StateValue::Members(values.collect())
}

/// Each version is kept, and the state of any record can be had again. A single value replaces the members of its key;
/// a member replaces a single value.
pub async fn versions(store: &dyn Store) {
    let mut lease = run(store).await;
    let saves = [
        ("k", None, 1, single(1)),
        ("k", None, 2, single(2)),
        ("k", Some("x"), 3, members([("x", 3)])),
        ("k", Some("y"), 4, members([("x", 3), ("y", 4)])),
        ("k", Some("x"), 5, members([("x", 5), ("y", 4)])),
        ("k", None, 6, single(6)),
        ("k", Some("z"), 7, members([("z", 7)])),
    ];
    let events = saves.iter().map(|(key, member, value, _)| samples::state_saved(key, *member, Json::from(*value)));
    let append = samples::append(&lease, events.collect());
    write(store, &mut lease, append).await;
    assert_eq!(store.state_value(lease.run, "k", Some(Seq(1))).await, Ok(None));
    for (seq, (_, _, _, expected)) in (2..).map(Seq).zip(&saves) {
        assert_eq!(store.state_value(lease.run, "k", Some(seq)).await.as_ref(), Ok(&Some(expected.clone())));
        let whole = BTreeMap::from([("k".to_owned(), expected.clone())]);
        assert_eq!(store.state(lease.run, Some(seq)).await, Ok(whole));
    }
    assert_eq!(store.state_value(lease.run, "k", None).await, Ok(Some(members([("z", 7)]))));

    let history = store.state_history(lease.run, "k", None).await.expect("it is read");
    let seen: Vec<_> = history.iter().map(|version| (version.seq, version.member.as_deref())).collect();
    let expected: Vec<_> = (2..).map(Seq).zip(saves.iter().map(|(_, member, _, _)| *member)).collect();
    assert_eq!(seen, expected);
    let of_x = store.state_history(lease.run, "k", Some("x")).await.expect("it is read");
    assert_eq!(of_x.iter().map(|version| version.value.inline.clone()).collect::<Vec<_>>(), [3, 5]);
}

/// Keys are apart from each other, and so are runs. What isn't there is empty; an unknown run is an error.
pub async fn keys(store: &dyn Store) {
    let (mut first, second) = (run(store).await, run(store).await);
    let events = vec![
        samples::state_saved("a", None, Json::from(1)),
        samples::state_saved("b", Some("m"), Json::from(2)),
        samples::state_saved("A", None, Json::Null),
    ];
    let append = samples::append(&first, events);
    write(store, &mut first, append).await;
    let state = store.state(first.run, None).await.expect("it is read");
    assert_eq!(state.keys().collect::<Vec<_>>(), ["A", "a", "b"]);
    assert_eq!(state["A"], StateValue::Single(Payload::inline(Json::Null)), "null is a value");
    assert_eq!(store.state_value(first.run, "none", None).await, Ok(None));
    assert_eq!(store.state_history(first.run, "b", Some("none")).await, Ok(Vec::new()));
    assert_eq!(store.state(second.run, None).await, Ok(BTreeMap::new()));
    let nobody = RunId(Uuid::now_v7());
    assert_eq!(store.state(nobody, None).await, Err(StoreError::NoRun(nobody)));
    assert_eq!(store.state_value(nobody, "a", None).await, Err(StoreError::NoRun(nobody)));
}
