//! Runs and records as they occur, for tests.

use std::collections::BTreeMap;
use std::time::Duration;

use loopforge_core::id::{ActionNo, BranchId, ContentHash, RecordId, RunId, Seq, StepNo, StepToken};
use loopforge_core::json::Json;
use loopforge_core::payload::{Blob, Payload};
use loopforge_core::record::{
    ActionDecided, ActionFinished, ActionId, ActionNotHappened, ActionStarted, ActionUnknown, Basis, Event, Outcome,
    OutcomeSource, Record, Route, RunStarted, RunStatus, Score, Scores, StateSaved, StepEvaluated, StepStarted,
    Verdict,
};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::{Code, Effect};
use uuid::Uuid;

use crate::{Append, Durability, Lease, NewRun, Worker};

/// The time in samples: 2026-11-30, 12:00 UTC.
pub const NOON: Timestamp = Timestamp(1_796_040_000_000_000);

/// A worker whose leases last a minute.
#[must_use]
pub fn worker(name: &str) -> Worker {
    Worker { id: format!("{name}-1"), label: name.to_owned(), lease_ttl: Duration::from_secs(60) }
}

/// A run of its own id with one record.
#[must_use]
pub fn new_run() -> NewRun {
    let task = b"task: sample\n".to_vec();
    let started = Event::RunStarted(RunStarted {
        format: loopforge_core::record::FORMAT,
        task: ContentHash::of(&task),
        name: "sample".to_owned(),
        goal: "to be kept".to_owned(),
        version: "0.1.0".to_owned(),
        inputs: BTreeMap::new(),
        file: None,
    });
    NewRun {
        id: RunId(Uuid::now_v7()),
        name: "sample".to_owned(),
        task,
        workspace: "/srv/runs/sample".to_owned(),
        base: "/srv/tasks".to_owned(),
        at: NOON,
        records: vec![record(1, started)],
        blobs: Vec::new(),
    }
}

/// A record with a new id.
#[must_use]
pub fn record(seq: u64, event: Event) -> Record {
    let at = NOON.after(Duration::from_millis(seq));
    Record { seq: Seq(seq), id: RecordId(Uuid::now_v7()), at, event }
}

/// An append of `events` after the lease's head, with a soft commit.
#[must_use]
pub fn append(lease: &Lease, events: Vec<Event>) -> Append {
    append_after(lease.head, events)
}

/// An append of `events` after `head`, with a soft commit.
#[must_use]
pub fn append_after(head: Seq, events: Vec<Event>) -> Append {
    Append {
        expected_head: head,
        records: (head.0 + 1..).zip(events).map(|(seq, event)| record(seq, event)).collect(),
        blobs: Vec::new(),
        status: RunStatus::Running,
        wake_at: None,
        steps: 0,
        durability: Durability::Soft,
        checkpoint: None,
    }
}

fn action(step: u64) -> ActionId {
    ActionId { step: StepNo(step), action: ActionNo(0) }
}

/// A step begins.
#[must_use]
pub fn step_started(step: u64) -> Event {
    Event::StepStarted(StepStarted {
        branch: BranchId(1),
        step: StepNo(step),
        subgoal: "collect".to_owned(),
        item: u32::try_from(step).ok(),
        input: None,
        agent: false,
        basis: Basis { done: 3, of: 9, last: Some(Code::Success), next: "fetch the page".to_owned() },
    })
}

/// A write is decided.
#[must_use]
pub fn action_decided(step: u64, arguments: Payload) -> Event {
    Event::ActionDecided(ActionDecided {
        branch: BranchId(1),
        id: action(step),
        entry: 0,
        alternative: 0,
        tool: "send".to_owned(),
        effect: Effect::Write,
        digest: ContentHash::of(arguments.inline.to_string().as_bytes()),
        arguments,
        business_key: None,
        save: None,
        instead_of: None,
    })
}

/// The effect of a step's action is about to be made.
#[must_use]
pub fn action_started(run: RunId, step: u64, business_key: Option<&str>) -> Event {
    Event::ActionStarted(ActionStarted {
        branch: BranchId(1),
        id: action(step),
        attempt: 1,
        token: StepToken::of(run, 0, StepNo(step), ActionNo(0)),
        tool: "send".to_owned(),
        business_key: business_key.map(str::to_owned),
    })
}

/// An outcome with this code and answer.
#[must_use]
pub fn outcome(code: Code, data: Payload) -> Outcome {
    Outcome {
        code,
        fingerprint: ContentHash::of(data.inline.to_string().as_bytes()),
        data,
        error: (code != Code::Success).then(|| format!("it ended as {code}")),
        meaning_of_empty: None,
        retry_after_ms: None,
        marks: Vec::new(),
        raw: None,
        key_fields: BTreeMap::new(),
        effect_excluded: false,
    }
}

/// A step's action ended.
#[must_use]
pub fn action_finished(step: u64, code: Code, data: Payload) -> Event {
    Event::ActionFinished(ActionFinished {
        branch: BranchId(1),
        id: action(step),
        attempt: 1,
        source: OutcomeSource::Call,
        result: outcome(code, data),
        took_us: 1_250,
    })
}

/// It isn't known whether a step's action happened.
#[must_use]
pub fn action_unknown(step: u64) -> Event {
    Event::ActionUnknown(ActionUnknown {
        branch: BranchId(1),
        id: action(step),
        reason: "the owner was lost".to_owned(),
    })
}

/// A step's action did not happen.
#[must_use]
pub fn action_not_happened(step: u64) -> Event {
    Event::ActionNotHappened(ActionNotHappened {
        branch: BranchId(1),
        id: action(step),
        source: OutcomeSource::StatusQuery,
        note: "the target has no such order".to_owned(),
    })
}

/// A value enters state.
#[must_use]
pub fn state_saved(key: &str, member: Option<&str>, value: Json) -> Event {
    Event::StateSaved(StateSaved {
        branch: Some(BranchId(1)),
        step: None,
        entry: Some(0),
        key: key.to_owned(),
        member: member.map(str::to_owned),
        value: Payload::inline(value),
        by: None,
    })
}

/// A step is judged.
#[must_use]
pub fn step_evaluated(step: u64) -> Event {
    let score = |value, reason: &str| Score(value, reason.to_owned());
    Event::StepEvaluated(StepEvaluated {
        branch: BranchId(1),
        step: StepNo(step),
        verdict: Verdict {
            scores: Scores {
                completion: score(0.4, "4 of 9 done"),
                consistency: score(1.0, "the answer fits the schema"),
                resources: score(0.85, "8 of 10 000 steps used"),
                stability: score(1.0, "no failures in a row"),
            },
            route: Route::Continue,
            reason: "on with the next entry".to_owned(),
        },
    })
}

/// The records of one step with a write: 300 bytes of arguments, 2 KB of an answer that is stored as a blob. Both
/// differ from step to step and compress about as prose does.
#[must_use]
pub fn step(run: RunId, step: u64) -> (Vec<Event>, Vec<Blob>) {
    let mut blobs = Vec::new();
    let arguments = serde_json::json!({ "to": prose(step * 7 + 1, 280) });
    let arguments = Payload::stow(arguments, &mut blobs);
    let data = Payload::stow(serde_json::json!({ "body": prose(step * 7 + 2, 2_000) }), &mut blobs);
    let events = vec![
        step_started(step),
        action_decided(step, arguments),
        action_started(run, step, None),
        action_finished(step, Code::Success, data),
        step_evaluated(step),
    ];
    (events, blobs)
}

/// Text of `length` bytes that nothing else shares: words drawn by `seed`.
#[must_use]
pub fn prose(seed: u64, length: usize) -> String {
    const SYLLABLES: [&str; 32] = [
        "lo", "ram", "qui", "est", "ban", "der", "fol", "gus", "hin", "jor", "kel", "mit", "nor", "pax", "ret", "sil",
        "tum", "vor", "wen", "xan", "yet", "zor", "al", "be", "cor", "du", "em", "fi", "ga", "hu", "it", "ju",
    ];
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut text = String::with_capacity(length + 8);
    while text.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        text.push_str(SYLLABLES[(state >> 20) as usize % 32]);
        if state >> 60 < 6 {
            text.push(' ');
        }
    }
    text.truncate(length);
    text
}
