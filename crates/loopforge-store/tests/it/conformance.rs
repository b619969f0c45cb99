//! The contract, for each backend.

use std::sync::Arc;

use loopforge_store::Store;
use loopforge_store::conformance::{appends, budgets, care, due, effects, inbox, leases, reads, state};
use loopforge_store::memory::MemoryStore;
use loopforge_store::postgres::{self, PostgresStore};
use loopforge_store::sqlite::{Options, SqliteStore};
use loopforge_store::testing::ManualClock;
use loopforge_store::testing::samples::NOON;
use tempfile::TempDir;

/// A backend with the clock by which its leases run.
struct Backend {
    store: Arc<dyn Store>,
    clock: ManualClock,
    _folder: Option<TempDir>,
}

fn memory() -> Backend {
    let clock = ManualClock::new(NOON);
    Backend { store: Arc::new(MemoryStore::with_clock(clock.clock())), clock, _folder: None }
}

fn sqlite() -> Backend {
    let clock = ManualClock::new(NOON);
    let folder = tempfile::tempdir().unwrap();
    let mut options = Options::default();
    options.clock = clock.clock();
    let store = SqliteStore::open_with(&folder.path().join("store.db"), options).unwrap();
    Backend { store: Arc::new(store), clock, _folder: Some(folder) }
}

fn postgres() -> Backend {
    let clock = ManualClock::new(NOON);
    let mut options = postgres::Options::default();
    options.clock = Some(clock.clock());
    let store = PostgresStore::new_with(&loopforge_testing::postgres::place(), options).unwrap();
    Backend { store: Arc::new(store), clock, _folder: None }
}

macro_rules! contract {
    ($($clause:ident |$backend:ident| $call:expr;)*) => {
        mod memory_keeps {
            use super::*;
            $(#[tokio::test]
            async fn $clause() {
                let $backend = super::memory();
                $call.await;
            })*
        }
        mod sqlite_keeps {
            use super::*;
            $(#[tokio::test]
            async fn $clause() {
                let $backend = super::sqlite();
                $call.await;
            })*
        }
        mod postgres_keeps {
            use super::*;
            $(#[tokio::test]
            async fn $clause() {
                let $backend = super::postgres();
                $call.await;
            })*
        }
    };
}

contract! {
    creation |backend| appends::creation(&*backend.store);
    round_trip |backend| appends::round_trip(&*backend.store);
    repetition |backend| appends::repetition(&*backend.store);
    submission |backend| appends::submission(&*backend.store);
    checkpoint_with_append |backend| appends::checkpoint(&*backend.store);
    wrong_head |backend| appends::wrong_head(&*backend.store);
    stale_lease |backend| appends::stale_lease(&*backend.store);
    mixed_company |backend| appends::mixed_company(Arc::clone(&backend.store));
    wrong_calls |backend| appends::wrong_calls(&*backend.store);
    blobs |backend| appends::blobs(&*backend.store);
    odd_values |backend| appends::odd_values(&*backend.store);
    lease_held |backend| leases::held(&*backend.store, &backend.clock);
    lease_claimed_again |backend| leases::claimed_again(&*backend.store);
    lease_taken_over |backend| leases::taken_over(&*backend.store, &backend.clock);
    lease_renewed |backend| leases::renewed(&*backend.store, &backend.clock);
    due |backend| due::due(&*backend.store, &backend.clock);
    due_to_many |backend| due::shared_out(Arc::clone(&backend.store));
    due_but_for |backend| due::exceptions(&*backend.store);
    queueing |backend| due::queueing(&*backend.store);
    heartbeat |backend| due::heartbeat(&*backend.store, &backend.clock);
    next_due |backend| due::next(&*backend.store, &backend.clock);
    lease_released |backend| leases::released(&*backend.store);
    lease_voided |backend| leases::voided(&*backend.store);
    lease_workers_before |backend| leases::workers_before(&*backend.store, &backend.clock);
    checkpoints |backend| leases::checkpoints(&*backend.store);
    effect_life |backend| effects::life(&*backend.store);
    effect_confirmed |backend| effects::confirmed(&*backend.store);
    effect_tokens |backend| effects::tokens(&*backend.store);
    effect_business_keys |backend| effects::business_keys(&*backend.store);
    effect_late_answers |backend| effects::late_answers(&*backend.store);
    state_versions |backend| state::versions(&*backend.store);
    state_keys |backend| state::keys(&*backend.store);
    record_pages |backend| reads::pages(&*backend.store);
    step_records |backend| reads::steps(&*backend.store);
    runs |backend| reads::runs(&*backend.store);
    missing_content |backend| reads::missing_content(&*backend.store);
    soundness |backend| reads::sound(&*backend.store);
    budget_reserved |backend| budgets::reserved_and_settled(&*backend.store);
    budget_reserved_again |backend| budgets::reserved_again(&*backend.store);
    budget_limits |backend| budgets::limits(&*backend.store);
    budget_days |backend| budgets::days(&*backend.store, &backend.clock);
    budget_crowd |backend| budgets::crowd(Arc::clone(&backend.store));
    budget_nobody |backend| budgets::nobody(&*backend.store);
    inbox |backend| inbox::told(&*backend.store);
    import |backend| care::import(&*backend.store);
    import_refused |backend| care::import_refused(&*backend.store);
    task_changed |backend| care::task_changed(&*backend.store);
    size |backend| care::size(&*backend.store);
    prune |backend| care::prune(&*backend.store, &backend.clock);
    old_checkpoints |backend| care::old_checkpoints(&*backend.store);
}

/// Appends, which must succeed, and moves the head of `lease` on.
pub(crate) async fn write(store: &dyn Store, lease: &mut loopforge_store::Lease, append: loopforge_store::Append) {
    let head = append.records.last().unwrap().seq;
    assert_eq!(store.append(lease, append).await, Ok(loopforge_store::Appended::Written));
    lease.head = head;
}
