//! What people tell runs: nothing is lost, and nothing comes twice.

use loopforge_core::id::{RecordId, RunId};
use loopforge_core::record::Order;
use uuid::Uuid;

use super::appends::run;
use crate::testing::samples::NOON;
use crate::{Message, Store, StoreError};

fn message(text: &str) -> Message {
    let order = Order::Note { text: text.to_owned(), now: false };
    Message { id: RecordId(Uuid::now_v7()), by: "ann".to_owned(), at: NOON, order }
}

/// Messages wait, in order, until they are taken; telling one again changes nothing, whoever has the run.
pub async fn told(store: &dyn Store) {
    let (lease, other) = (run(store).await, run(store).await.run);
    let one = lease.run;
    let (first, second) = (message("first 一"), message("second \0 \u{1}"));
    assert_eq!(store.inbox(one).await, Ok(Vec::new()));
    for message in [&first, &second, &first] {
        store.post(one, message).await.expect("the run is there");
    }
    assert_eq!(store.inbox(one).await, Ok(vec![first.clone(), second.clone()]));
    assert_eq!(store.inbox(other).await, Ok(Vec::new()));
    let addressed = store.addressed().await.expect("it can be read");
    assert!(addressed.contains(&one) && !addressed.contains(&other));
    store.taken(other, &[first.id]).await.expect("what another run was told is untouched");
    store.taken(one, &[first.id]).await.expect("it is there");
    assert_eq!(store.inbox(one).await, Ok(vec![second.clone()]));
    store.post(one, &first).await.expect("the run is there");
    assert_eq!(store.inbox(one).await, Ok(vec![second.clone()]), "it was taken before");
    store.taken(one, &[first.id, second.id]).await.expect("it is there");
    assert!(!store.addressed().await.expect("it can be read").contains(&one));
    let nobody = RunId(Uuid::now_v7());
    assert_eq!(store.post(nobody, &first).await, Err(StoreError::NoRun(nobody)));
    assert_eq!(store.inbox(nobody).await, Err(StoreError::NoRun(nobody)));
    assert_eq!(store.taken(nobody, &[]).await, Err(StoreError::NoRun(nobody)));
}
