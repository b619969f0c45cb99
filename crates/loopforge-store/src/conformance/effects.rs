//! Effects: what may be out there is known, and nothing is done twice.

use loopforge_core::id::{Seq, StepToken};
use loopforge_core::json::Json;
use loopforge_core::payload::Payload;
use loopforge_core::record::Event;
use loopforge_core::tool::Code;

use super::appends::{archive, run, write};
use crate::testing::samples;
use crate::{EffectInfo, EffectState, Lease, Store, StoreError};

async fn only(store: &dyn Store, lease: &Lease) -> EffectInfo {
    let mut effects = store.effects(lease.run).await.expect("effects are read");
    assert_eq!(effects.len(), 1);
    effects.remove(0)
}

async fn add(store: &dyn Store, lease: &mut Lease, event: Event) {
    let append = samples::append(lease, vec![event]);
    write(store, lease, append).await;
}

fn data(text: &str) -> Payload {
    Payload::inline(Json::from(text))
}

async fn refused(store: &dyn Store, lease: &Lease, event: Event, key: &str) {
    let before = (store.run(lease.run).await, archive(store, lease.run).await, store.effects(lease.run).await);
    let events = vec![samples::state_saved("spoiled", None, Json::from(1)), event];
    let result = store.append(lease, samples::append(lease, events)).await;
    assert_eq!(result, Err(StoreError::Duplicate { key: key.to_owned() }));
    let after = (store.run(lease.run).await, archive(store, lease.run).await, store.effects(lease.run).await);
    assert_eq!(after, before, "nothing was written");
    assert_eq!(store.state_value(lease.run, "spoiled", None).await, Ok(None));
}

/// An effect goes from started to its outcome; reads have none.
pub async fn life(store: &dyn Store) {
    let cases = [
        (samples::action_finished(1, Code::Success, data("done")), EffectState::Confirmed),
        (samples::action_finished(1, Code::Permanent, data("no")), EffectState::Failed),
        (samples::action_finished(1, Code::Timeout, data("")), EffectState::Unknown),
        (samples::action_unknown(1), EffectState::Unknown),
        (samples::action_not_happened(1), EffectState::NotHappened),
    ];
    for (event, state) in cases {
        let mut lease = run(store).await;
        add(store, &mut lease, samples::action_finished(7, Code::Success, data("a read"))).await;
        assert_eq!(store.effects(lease.run).await, Ok(Vec::new()));
        let started = samples::action_started(lease.run, 1, Some("order 7"));
        let Event::ActionStarted(expected) = started.clone() else { unreachable!("it was made so") };
        add(store, &mut lease, started).await;
        let effect = only(store, &lease).await;
        assert_eq!((effect.state, effect.attempts, &effect.outcome), (EffectState::Started, 1, &None));
        assert_eq!((effect.action, effect.token, effect.tool), (expected.id, expected.token, expected.tool));
        assert_eq!(effect.business_key.as_deref(), Some("order 7"));
        let result = match &event {
            Event::ActionFinished(finished) => Some(finished.result.clone()),
            _ => None,
        };
        add(store, &mut lease, event).await;
        let effect = only(store, &lease).await;
        assert_eq!((effect.state, effect.outcome), (state, result));
        let by_key = store.effect_by_key(lease.run, "order 7").await.expect("it is read");
        assert_eq!(by_key.is_some(), state.holds_key(), "{state:?}");
    }
}

/// What is confirmed stays so, with its first outcome, and can't be started again. An outcome that left it open gives
/// way.
pub async fn confirmed(store: &dyn Store) {
    let mut lease = run(store).await;
    let started = samples::action_started(lease.run, 1, None);
    add(store, &mut lease, started.clone()).await;
    add(store, &mut lease, samples::action_finished(1, Code::Timeout, data(""))).await;
    add(store, &mut lease, samples::action_finished(1, Code::Success, data("first"))).await;
    let first = only(store, &lease).await;
    assert_eq!(first.outcome.as_ref().map(|outcome| &outcome.data), Some(&data("first")));
    for late in [
        samples::action_finished(1, Code::Success, data("second")),
        samples::action_finished(1, Code::Permanent, data("")),
        samples::action_unknown(1),
        samples::action_not_happened(1),
    ] {
        add(store, &mut lease, late).await;
        assert_eq!(only(store, &lease).await, first);
    }
    refused(store, &lease, started, &first.token.0).await;
}

/// A token is for one action, over all runs; the same action may use it again.
pub async fn tokens(store: &dyn Store) {
    let mut lease = run(store).await;
    let started = samples::action_started(lease.run, 1, None);
    add(store, &mut lease, started.clone()).await;
    let Event::ActionStarted(mut again) = started else { unreachable!("it was made so") };
    again.attempt = 2;
    add(store, &mut lease, Event::ActionStarted(again.clone())).await;
    let effect = only(store, &lease).await;
    assert_eq!((effect.attempts, effect.started_at), (2, archive(store, lease.run).await[1].at));

    let another = StepToken::of(lease.run, 1, again.id.step, again.id.action);
    let changed = Event::ActionStarted(loopforge_core::record::ActionStarted { token: another, ..again.clone() });
    let result = store.append(&lease, samples::append(&lease, vec![changed])).await;
    assert!(matches!(result, Err(StoreError::Invalid(_))), "every try has the same token");

    let other = run(store).await;
    refused(store, &other, Event::ActionStarted(again.clone()), &again.token.0).await;
    again.id.step = loopforge_core::id::StepNo(2);
    refused(store, &lease, Event::ActionStarted(again.clone()), &again.token.0).await;

    // Tokens are texts: also those that look a little like ours.
    let odd = ["A0", "00000000-0000-0000-0000-000000000001", "ABCDEF00000000000000000000000001", "ü"];
    for (step, text) in (10..).zip(odd) {
        again.id.step = loopforge_core::id::StepNo(step);
        again.token =
            StepToken(format!("{text}{}", if text.len() < 32 { lease.run.to_string() } else { String::new() }));
        let taken = again.token.clone();
        match store.append(&lease, samples::append(&lease, vec![Event::ActionStarted(again.clone())])).await {
            Ok(_) => lease.head = lease.head.next(),
            Err(error) => assert_eq!(error, StoreError::Duplicate { key: taken.0 }, "another test used it"),
        }
    }
    for effect in store.effects(lease.run).await.expect("effects are read").iter().skip(1) {
        assert!(odd.iter().any(|text| effect.token.0.starts_with(text)), "{}", effect.token);
    }
}

/// A business key is for one effect of a run at a time. It is free again when the effect failed or did not happen.
pub async fn business_keys(store: &dyn Store) {
    for (event, free) in [
        (None, false),
        (Some(samples::action_unknown(1)), false),
        (Some(samples::action_finished(1, Code::Success, data(""))), false),
        (Some(samples::action_finished(1, Code::Permanent, data(""))), true),
        (Some(samples::action_not_happened(1)), true),
    ] {
        let mut lease = run(store).await;
        let first = samples::action_started(lease.run, 1, Some("order"));
        add(store, &mut lease, first).await;
        if let Some(event) = event {
            add(store, &mut lease, event).await;
        }
        let second = samples::action_started(lease.run, 2, Some("order"));
        if free {
            add(store, &mut lease, second).await;
            let holder = store.effect_by_key(lease.run, "order").await.expect("it is read").expect("it is held");
            assert_eq!(holder.action.step.0, 2);
        } else {
            refused(store, &lease, second, "order").await;
        }
        // Another run has keys of its own.
        let mut other = run(store).await;
        let there = samples::action_started(other.run, 1, Some("order"));
        add(store, &mut other, there).await;
        assert_eq!(store.effect_by_key(other.run, "another").await, Ok(None));
    }
}

/// An answer that comes after another action took the free key is archived; the key stays where it is.
pub async fn late_answers(store: &dyn Store) {
    let mut lease = run(store).await;
    let (first, second) =
        (samples::action_started(lease.run, 1, Some("order")), samples::action_started(lease.run, 2, Some("order")));
    add(store, &mut lease, first.clone()).await;
    add(store, &mut lease, samples::action_not_happened(1)).await;
    add(store, &mut lease, second).await;
    refused(store, &lease, first, "order").await;
    add(store, &mut lease, samples::action_finished(1, Code::Success, data("after all"))).await;
    let effects = store.effects(lease.run).await.expect("effects are read");
    let states: Vec<_> = effects.iter().map(|effect| effect.state).collect();
    assert_eq!(states, [EffectState::Confirmed, EffectState::Started]);
    let holder = store.effect_by_key(lease.run, "order").await.expect("it is read").expect("it is held");
    assert_eq!(holder.action.step.0, 2);
    assert_eq!(store.run(lease.run).await.map(|info| info.head), Ok(Seq(5)));
}
