//! Budgets of accounts: nobody spends what another has reserved.

use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::RunId;
use loopforge_core::model::{Amount, Money};
use uuid::Uuid;

use super::appends::run;
use crate::testing::ManualClock;
use crate::{Day, DayLimit, Reservation, Reserved, Store, StoreError};

fn amount(tokens: u64) -> Amount {
    Amount { tokens, cost: Money::microdollars(tokens * 3) }
}

/// An account of its own, so that a store may hold others.
fn account() -> String {
    format!("account {}", Uuid::new_v4())
}

fn wanted(run: RunId, call: u32, account: &str, tokens: u64, limit: u64) -> Reservation {
    let limit = DayLimit { tokens: Some(limit), cost: None };
    Reservation { run, call, account: account.to_owned(), amount: amount(tokens), limit }
}

/// What is reserved counts until it is settled; then what was used takes its place, once.
pub async fn reserved_and_settled(store: &dyn Store) {
    let (one, other) = (run(store).await.run, run(store).await.run);
    let account = account();
    let reserve = async |run, call, tokens| {
        store.reserve(&wanted(run, call, &account, tokens, 100)).await.expect("the run is there")
    };
    assert!(matches!(reserve(one, 1, 60).await, Reserved::Granted(now) if now.reserved == amount(60)));
    let Reserved::Refused(now) = reserve(other, 1, 41).await else { panic!("41 and 60 are more than 100") };
    assert_eq!((now.spent, now.reserved), (Amount::NOTHING, amount(60)));
    assert!(matches!(reserve(other, 1, 40).await, Reserved::Granted(_)), "exactly the limit is within it");
    assert_eq!(store.reservations(one).await, Ok(vec![(1, amount(60))]));
    for _ in 0..3 {
        store.settle(one, 1, amount(10)).await.expect("repeated, it changes nothing");
    }
    store.settle(other, 1, Amount::NOTHING).await.expect("it is given back");
    store.settle(other, 7, amount(99)).await.expect("no such call changes nothing");
    assert_eq!(store.reservations(one).await, Ok(Vec::new()));
    let now = store.account(&account).await.expect("it can be read");
    assert_eq!((now.spent, now.reserved), (amount(10), Amount::NOTHING));
    // A call that was settled isn't counted again.
    assert!(matches!(reserve(one, 1, 60).await, Reserved::Granted(_)));
    store.settle(one, 1, amount(60)).await.expect("it changes nothing");
    let now = store.account(&account).await.expect("it can be read");
    assert_eq!((now.spent, now.reserved), (amount(10), Amount::NOTHING));
}

/// A call has one reservation: a new one takes the place of one that was never used.
pub async fn reserved_again(store: &dyn Store) {
    let run = run(store).await.run;
    let account = account();
    for tokens in [90, 50, 70] {
        let reserved = store.reserve(&wanted(run, 1, &account, tokens, 100)).await;
        assert!(matches!(reserved, Ok(Reserved::Granted(now)) if now.reserved == amount(tokens)), "{reserved:?}");
    }
    let refused = store.reserve(&wanted(run, 1, &account, 101, 100)).await;
    assert!(matches!(refused, Ok(Reserved::Refused(now)) if now.reserved == Amount::NOTHING), "{refused:?}");
    assert_eq!(store.reservations(run).await, Ok(Vec::new()), "a refused call has no reservation");
}

/// Money is limited as tokens are; an account without a limit counts all the same; accounts don't mix.
pub async fn limits(store: &dyn Store) {
    let run = run(store).await.run;
    let (money, free) = (account(), account());
    let limit = DayLimit { tokens: None, cost: Some(Money::microdollars(30)) };
    let of_money = |call, tokens| Reservation { limit, ..wanted(run, call, &money, tokens, 0) };
    assert!(matches!(store.reserve(&of_money(1, 10)).await, Ok(Reserved::Granted(_))));
    assert!(matches!(store.reserve(&of_money(2, 1)).await, Ok(Reserved::Refused(_))));
    let unlimited = Reservation { limit: DayLimit::default(), ..wanted(run, 3, &free, 1 << 40, 0) };
    assert!(matches!(store.reserve(&unlimited).await, Ok(Reserved::Granted(_))));
    assert_eq!(store.account(&free).await.map(|now| now.reserved.tokens), Ok(1 << 40));
    assert_eq!(store.account(&account()).await.map(|now| now.spent + now.reserved), Ok(Amount::NOTHING));
}

/// At midnight in UTC a new day begins; what was reserved before is settled on the day before.
pub async fn days(store: &dyn Store, clock: &ManualClock) {
    let run = run(store).await.run;
    let account = account();
    let first = Day::of(clock.now());
    clock.advance(first.next().begins().since(clock.now()) - Duration::from_micros(1));
    assert!(matches!(store.reserve(&wanted(run, 1, &account, 90, 100)).await, Ok(Reserved::Granted(_))));
    assert!(matches!(store.reserve(&wanted(run, 2, &account, 90, 100)).await, Ok(Reserved::Refused(_))));
    clock.advance(Duration::from_micros(1));
    let reserved = store.reserve(&wanted(run, 2, &account, 90, 100)).await;
    assert!(matches!(reserved, Ok(Reserved::Granted(now)) if now.day == first.next()), "{reserved:?}");
    store.settle(run, 1, amount(80)).await.expect("it is there");
    let today = store.account(&account).await.expect("it can be read");
    assert_eq!((today.spent, today.reserved), (Amount::NOTHING, amount(90)));
}

/// However many ask at once, together they never get more than there is, and all of it if they want it.
pub async fn crowd(store: Arc<dyn Store>) {
    let account = account();
    let mut runs = Vec::new();
    for _ in 0..20 {
        runs.push(run(&*store).await.run);
    }
    let mut asking = tokio::task::JoinSet::new();
    for run in runs {
        let (store, account) = (Arc::clone(&store), account.clone());
        asking.spawn(async move {
            let mut used = 0;
            for call in 1..=5 {
                if let Reserved::Granted(now) =
                    store.reserve(&wanted(run, call, &account, 10, 500)).await.expect("the run is there")
                {
                    assert!((now.spent + now.reserved).tokens <= 500);
                    store.settle(run, call, amount(8)).await.expect("it is there");
                    used += 8;
                }
            }
            used
        });
    }
    let used: u64 = asking.join_all().await.into_iter().sum();
    let now = store.account(&account).await.expect("it can be read");
    assert_eq!((now.spent, now.reserved), (amount(used), Amount::NOTHING));
    assert!(used <= 500 && used > 490 - 20 * 10, "{used}");
}

/// Without a run there is nothing to reserve for.
pub async fn nobody(store: &dyn Store) {
    let nobody = RunId(Uuid::now_v7());
    let missing = StoreError::NoRun(nobody);
    assert_eq!(store.reserve(&wanted(nobody, 1, &account(), 1, 1)).await, Err(missing.clone()));
    assert_eq!(store.settle(nobody, 1, Amount::NOTHING).await, Err(missing.clone()));
    assert_eq!(store.reservations(nobody).await, Err(missing));
}
