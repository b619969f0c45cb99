//! Memory and SQLite give the same answers to the same questions, whatever is done in whatever order.

use std::time::Duration;

use loopforge_core::id::{ActionNo, LeaseId, RunId, Seq, StepNo, StepToken};
use loopforge_core::json::Json;
use loopforge_core::payload::Payload;
use loopforge_core::record::{Event, Record};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::Code;
use loopforge_store::memory::MemoryStore;
use loopforge_store::sqlite::{Options, SqliteStore};
use loopforge_store::testing::{ManualClock, samples};
use loopforge_store::{Appended, Durability, Lease, Store, StoreError, StoredCheckpoint};
use proptest::prelude::*;
use uuid::Uuid;

use crate::support::place;

#[derive(Debug, Clone)]
enum Op {
    Append { run: usize, lease: usize, shift: i8, events: Vec<Happening>, hard: bool },
    Repeat,
    Claim { run: usize, worker: usize },
    Release { run: usize, lease: usize },
    Renew { run: usize, lease: usize },
    Wait { seconds: u64 },
    Checkpoint { run: usize, lease: usize, shift: i8 },
}

#[derive(Debug, Clone)]
enum Happening {
    Start { step: u64, key: Option<u8>, token: u64 },
    Finish { step: u64, code: Code },
    Unknown { step: u64 },
    Not { step: u64 },
    Save { key: u8, member: Option<u8>, value: i32 },
    Step { step: u64 },
}

fn happening() -> impl Strategy<Value = Happening> {
    let step = 1..5_u64;
    let code = prop_oneof![Just(Code::Success), Just(Code::Permanent), Just(Code::Timeout), Just(Code::Unknown)];
    prop_oneof![
        4 => (step.clone(), prop::option::of(0..3_u8), 1..6_u64)
            .prop_map(|(step, key, token)| Happening::Start { step, key, token }),
        3 => (step.clone(), code).prop_map(|(step, code)| Happening::Finish { step, code }),
        1 => step.clone().prop_map(|step| Happening::Unknown { step }),
        2 => step.clone().prop_map(|step| Happening::Not { step }),
        3 => (0..3_u8, prop::option::of(0..3_u8), any::<i32>())
            .prop_map(|(key, member, value)| Happening::Save { key, member, value }),
        1 => step.prop_map(|step| Happening::Step { step }),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let (run, lease) = (0..2_usize, 0..4_usize);
    let shift = prop_oneof![8 => Just(0_i8), 1 => Just(-1), 1 => Just(1)];
    prop_oneof![
        8 => (run.clone(), lease.clone(), shift.clone(), prop::collection::vec(happening(), 0..4), any::<bool>())
            .prop_map(|(run, lease, shift, events, hard)| Op::Append { run, lease, shift, events, hard }),
        1 => Just(Op::Repeat),
        2 => (run.clone(), 0..2_usize).prop_map(|(run, worker)| Op::Claim { run, worker }),
        1 => (run.clone(), lease.clone()).prop_map(|(run, lease)| Op::Release { run, lease }),
        1 => (run.clone(), lease.clone()).prop_map(|(run, lease)| Op::Renew { run, lease }),
        1 => (1..90_u64).prop_map(|seconds| Op::Wait { seconds }),
        1 => (run, lease, shift).prop_map(|(run, lease, shift)| Op::Checkpoint { run, lease, shift }),
    ]
}

fn event(happening: &Happening) -> Event {
    match happening {
        Happening::Start { step, key, token } => {
            let key = key.map(|key| format!("key {key}"));
            let Event::ActionStarted(mut started) = samples::action_started(RunId(Uuid::nil()), *step, key.as_deref())
            else {
                unreachable!("it was made so")
            };
            // Over both runs, so that tokens meet.
            started.token = StepToken::of(RunId(Uuid::nil()), 0, StepNo(*token), ActionNo(0));
            Event::ActionStarted(started)
        }
        Happening::Finish { step, code } => samples::action_finished(*step, *code, Payload::inline(Json::from(*step))),
        Happening::Unknown { step } => samples::action_unknown(*step),
        Happening::Not { step } => samples::action_not_happened(*step),
        Happening::Save { key, member, value } => {
            let member = member.map(|member| format!("m{member}"));
            samples::state_saved(&format!("k{key}"), member.as_deref(), Json::from(*value))
        }
        Happening::Step { step } => samples::step_started(*step),
    }
}

/// One store with the leases that it gave; those of the two stores differ only in the random part.
struct Side {
    store: Box<dyn Store>,
    leases: Vec<Vec<Lease>>,
}

impl Side {
    fn lease(&self, run: usize, lease: usize) -> &Lease {
        let leases = &self.leases[run];
        // Mostly the newest.
        &leases[leases.len() - 1 - (lease / 2).min(leases.len() - 1)]
    }
}

#[derive(Debug, PartialEq)]
enum Answer {
    Appended(Result<Appended, StoreError>),
    Leased(Result<(u64, Timestamp, Seq), StoreError>),
    Renewed(Result<Timestamp, StoreError>),
    Done(Result<(), StoreError>),
}

async fn apply(side: &mut Side, op: &Op, records: &[Record], head: Seq) -> Answer {
    match op {
        Op::Append { run, lease, shift, hard, .. } => {
            let expected_head = Seq(head.0.saturating_add_signed(i64::from(*shift)));
            let mut append = samples::append_after(expected_head, Vec::new());
            append.records = records.to_vec();
            append.durability = if *hard { Durability::Hard } else { Durability::Soft };
            Answer::Appended(side.store.append(side.lease(*run, *lease), append).await)
        }
        Op::Claim { run, worker } => {
            let id = side.leases[*run][0].run;
            let claimed = side.store.claim_run(id, &samples::worker(["a", "b"][*worker])).await;
            Answer::Leased(claimed.map(|lease| {
                let seen = (lease.epoch, lease.until, lease.head);
                side.leases[*run].push(lease);
                seen
            }))
        }
        Op::Release { run, lease } => Answer::Done(side.store.release_lease(side.lease(*run, *lease)).await),
        Op::Renew { run, lease } => {
            Answer::Renewed(side.store.renew_lease(side.lease(*run, *lease), Duration::from_secs(60)).await)
        }
        Op::Checkpoint { run, lease, shift } => {
            let seq = Seq(head.0.saturating_add_signed(i64::from(*shift)));
            let checkpoint = StoredCheckpoint { seq, at: samples::NOON, bytes: vec![7; 100] };
            Answer::Done(side.store.save_checkpoint(side.lease(*run, *lease), checkpoint).await)
        }
        Op::Wait { .. } | Op::Repeat => Answer::Done(Ok(())),
    }
}

/// Everything that can be asked about a run.
async fn look(store: &dyn Store, run: RunId) -> String {
    let head = store.run(run).await.unwrap().head;
    let mut seen = format!("{:?}\n{:?}\n", store.run(run).await, store.records(run, Seq(0), 1_000).await);
    seen += &format!("{:?}\n{:?}\n", store.effects(run).await, store.load_checkpoint(run).await);
    for key in 0..3 {
        seen += &format!("{:?}\n", store.effect_by_key(run, &format!("key {key}")).await);
        let name = format!("k{key}");
        seen += &format!("{:?}\n", store.state_value(run, &name, Some(Seq(head.0 / 2))).await);
        seen += &format!("{:?}\n", store.state_history(run, &name, None).await);
        seen += &format!("{:?}\n", store.state_history(run, &name, Some("m1")).await);
    }
    for step in 1..5 {
        seen += &format!("{:?}\n", store.step_records(run, StepNo(step)).await);
    }
    seen + &format!("{:?}\n{:?}", store.state(run, None).await, store.state(run, Some(Seq(head.0 / 2))).await)
}

async fn compare(ops: Vec<Op>) {
    let clock = ManualClock::new(samples::NOON);
    let (_folder, path) = place();
    let mut options = Options::default();
    options.clock = clock.clock();
    let sqlite = SqliteStore::open_with(&path, options).unwrap();
    let stores: [Box<dyn Store>; 2] = [Box::new(MemoryStore::with_clock(clock.clock())), Box::new(sqlite.clone())];
    let runs = [samples::new_run(), samples::new_run()];
    let mut sides = Vec::new();
    for store in stores {
        let mut leases = Vec::new();
        for run in &runs {
            leases.push(vec![store.create_run(run.clone(), &samples::worker("a")).await.unwrap()]);
        }
        sides.push(Side { store, leases });
    }
    let mut last: Option<(Op, Vec<Record>, Seq)> = None;
    for op in ops {
        if let Op::Wait { seconds } = op {
            clock.advance(Duration::from_secs(seconds));
            continue;
        }
        let (op, records, head) = match (&op, &last) {
            (Op::Repeat, Some(last)) => last.clone(),
            _ => {
                let run = match op {
                    Op::Append { run, .. } | Op::Claim { run, .. } | Op::Checkpoint { run, .. } => run,
                    _ => 0,
                };
                let head = sides[0].store.run(runs[run].id).await.unwrap().head;
                let records = match &op {
                    Op::Append { events, shift, .. } => {
                        let first = head.0.saturating_add_signed(i64::from(*shift)) + 1;
                        (first..).zip(events).map(|(seq, happening)| samples::record(seq, event(happening))).collect()
                    }
                    _ => Vec::new(),
                };
                (op, records, head)
            }
        };
        let mut answers = Vec::new();
        for side in &mut sides {
            answers.push(apply(side, &op, &records, head).await);
        }
        assert_eq!(answers[0], answers[1], "{op:?}");
        if matches!(op, Op::Append { .. }) {
            last = Some((op, records, head));
        }
    }
    for run in &runs {
        assert_eq!(look(&*sides[0].store, run.id).await, look(&*sides[1].store, run.id).await);
    }
    assert_eq!(sqlite.check().await, Ok(Vec::new()));
    assert_ne!(sides[0].leases[0][0].id, LeaseId(Uuid::nil()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_and_sqlite_agree(ops in prop::collection::vec(op(), 1..40)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(compare(ops));
    }
}
