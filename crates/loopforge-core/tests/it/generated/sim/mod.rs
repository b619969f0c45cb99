//! A run without a store, a clock or tools: records in, records out.
//!
//! [`Sim`] does what a driver does with the answers of [`RunState::next`]. What calls bring is a function of the call, so
//! that a run that was cut short and taken up again can be compared with one that wasn't. Events that a driver archives together
//! are a group; a crash keeps a number of whole groups.

mod calls;
mod looks;

use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use loopforge_core::expression::{StateValue, Values};
use loopforge_core::id::{BranchId, ContentHash, RecordId, RunId, Seq, StepToken};
use loopforge_core::json::{self, Json};
use loopforge_core::payload::{Blob, BlobRef, NotLoaded, Payload};
use loopforge_core::record::{
    ActionId, Answer, Event, FORMAT, LimitsRaised, Outcome, QuestionAnswered, Record, RunOutcome, RunResumed,
    RunStarted,
};
use loopforge_core::run::{Call, Draft, Move, Question, RunState, ToolFacts};
use loopforge_core::task::Task;
use loopforge_core::time::Timestamp;
use loopforge_core::tool::{Code, Effect, RetryPolicy};
use uuid::Uuid;

/// A call as the world sees it.
pub(crate) struct Ask<'a> {
    pub(crate) tool: &'a str,
    pub(crate) arguments: &'a Json,
    pub(crate) attempt: u32,
    /// How often the item was set aside before.
    pub(crate) rounds: u32,
}

/// What comes of a call.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Brings {
    Data(Json),
    Fails(Code),
    /// The target asks to wait.
    FailsAsking(Code, Duration),
    /// The answer is lost.
    Lost {
        happened: bool,
    },
    Refusal,
}

/// How it is found out whether a lost write happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settle {
    StatusQuery,
    Person,
    /// The target honours the token: the call is made again.
    Again,
    /// The answer comes after a person was asked.
    LateAnswer,
}

/// Where a run came to rest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    Ended(RunOutcome),
    Person,
    Stopped,
}

type World = Rc<dyn Fn(&Ask<'_>) -> Brings>;
type People = Rc<dyn Fn(&Question) -> Option<Answer>>;
type Group = Vec<(Record, Vec<Blob>)>;

/// What a run is made from.
#[derive(Clone)]
pub(crate) struct Script {
    pub(crate) task: Rc<Task>,
    tools: Rc<BTreeMap<String, ToolFacts>>,
    inputs: BTreeMap<String, Json>,
    world: World,
    /// What people say about failures. Of effects they know the truth.
    people: People,
    pub(crate) settle: Settle,
    /// Steps that are granted each time that a limit's question is asked.
    pub(crate) grant: u64,
    /// Decides which of several calls ends first.
    pub(crate) order: u64,
}

impl Script {
    pub(crate) fn new(task: Json, world: impl Fn(&Ask<'_>) -> Brings + 'static) -> Self {
        let read = ToolFacts {
            effect: Effect::Read,
            deterministic: false,
            effect_key: Vec::new(),
            retry: RetryPolicy::default(),
        };
        let write = ToolFacts { effect: Effect::Write, ..read.clone() };
        let sure = ToolFacts { deterministic: true, ..read.clone() };
        let tools = [("fetch", &read), ("mirror", &read), ("parse", &sure), ("push", &write)];
        Self {
            task: Rc::new(serde_json::from_value(task).unwrap()),
            tools: Rc::new(tools.map(|(name, facts)| (name.to_owned(), facts.clone())).into()),
            inputs: BTreeMap::new(),
            world: Rc::new(world),
            people: Rc::new(|_| None),
            settle: Settle::StatusQuery,
            grant: 0,
            order: 0,
        }
    }

    pub(crate) fn input(mut self, name: &str, value: Json) -> Self {
        self.inputs.insert(name.to_owned(), value);
        self
    }

    pub(crate) fn people(mut self, people: impl Fn(&Question) -> Option<Answer> + 'static) -> Self {
        self.people = Rc::new(people);
        self
    }

    /// The run, carried out until it rests.
    pub(crate) fn run(self) -> Sim {
        let mut sim = Sim::start(self);
        sim.drive();
        sim
    }
}

/// A call that was made and hasn't ended.
struct Flight {
    call: Call,
    attempt: u32,
    brings: Brings,
    late: bool,
}

/// An effect that was made.
#[derive(Clone)]
struct Made {
    /// The records that were archived before.
    before: Seq,
    /// The tool and its arguments.
    what: String,
    /// The answer.
    data: Json,
}

/// A run.
pub(crate) struct Sim {
    pub(crate) script: Script,
    pub(crate) state: RunState,
    values: Values,
    pub(crate) archive: Vec<Group>,
    pub(crate) now: Timestamp,
    in_flight: Vec<Flight>,
    effects: BTreeMap<StepToken, Made>,
    blobs: BTreeMap<String, Blob>,
    kept: BTreeMap<String, StateValue>,
    random: u64,
    pub(crate) rest: Option<Rest>,
    moves: usize,
}

pub(crate) const RUN: RunId = RunId(Uuid::from_u128(7));
const START: Timestamp = Timestamp(1_764_547_200_000_000);
/// No run of these tests makes as many moves, unless it goes round in a circle.
const MANY_MOVES: usize = 30_000;

impl Sim {
    pub(crate) fn start(script: Script) -> Self {
        let mut sim = Self::empty(script);
        let mut blobs = Vec::new();
        let inputs = &sim.script.inputs;
        let inputs: BTreeMap<_, _> =
            inputs.iter().map(|(name, value)| (name.clone(), Payload::stow(value.clone(), &mut blobs))).collect();
        sim.values = Values::new(inputs.clone(), true);
        let started = RunStarted {
            format: FORMAT,
            task: ContentHash::of(b"task"),
            name: sim.script.task.name.clone(),
            goal: sim.script.task.goal.clone(),
            version: "0".to_owned(),
            inputs,
            file: None,
        };
        sim.record(vec![Draft { event: Event::RunStarted(started), blobs }]);
        sim
    }

    fn empty(script: Script) -> Self {
        Self {
            state: RunState::new(RUN, &script.task),
            values: Values::default(),
            archive: Vec::new(),
            now: START,
            in_flight: Vec::new(),
            effects: BTreeMap::new(),
            blobs: BTreeMap::new(),
            kept: BTreeMap::new(),
            random: script.order,
            rest: None,
            moves: 0,
            script,
        }
    }

    /// The run as another owner finds it when the process ended with `groups` archived; it has taken it up.
    ///
    /// A call is made only after all that was recorded before it is archived. So effects of later calls have not been made.
    pub(crate) fn cut(&self, groups: usize) -> Self {
        let mut sim = Self::empty(self.script.clone());
        for group in &self.archive[..groups] {
            for (record, blobs) in group {
                if let Event::RunStarted(started) = &record.event {
                    sim.values = Values::new(started.inputs.clone(), false);
                }
                sim.state.apply(record).unwrap();
                sim.keep(record, blobs);
            }
            sim.archive.push(group.clone());
        }
        let head = sim.state.head;
        sim.now = sim.state.last_at.after(Duration::from_secs(1));
        let made = self.effects.iter().filter(|(_, made)| made.before <= head);
        sim.effects = made.map(|(token, made)| (token.clone(), made.clone())).collect();
        let resumed = RunResumed { worker: "w".to_owned(), version: "0".to_owned(), checkpoint: None };
        sim.record(vec![Event::RunResumed(resumed).into()]);
        sim
    }

    /// All records, in order.
    pub(crate) fn records(&self) -> impl Iterator<Item = &Record> {
        self.archive.iter().flatten().map(|(record, _)| record)
    }

    pub(crate) fn events(&self) -> impl Iterator<Item = &Event> {
        self.records().map(|record| &record.event)
    }

    /// How often an event stands in the archive.
    pub(crate) fn count(&self, kind: &str) -> usize {
        self.events().filter(|event| event.kind() == kind).count()
    }

    /// Archives events that belong together.
    pub(crate) fn record(&mut self, drafts: Vec<Draft>) {
        let mut group = Vec::new();
        for Draft { event, blobs } in drafts {
            self.now = self.now.after(Duration::from_millis(1));
            let seq = self.state.head.next();
            let record = Record { seq, id: RecordId(Uuid::from_u128(u128::from(seq.0))), at: self.now, event };
            self.state.apply(&record).unwrap_or_else(|error| panic!("{error}: {record:?}"));
            if let Event::StateSaved(saved) = &record.event {
                self.values.save(&saved.key, saved.member.as_deref(), saved.value.clone());
            }
            self.keep(&record, &blobs);
            group.push((record, blobs));
        }
        self.archive.push(group);
    }

    /// What a store does.
    fn keep(&mut self, record: &Record, blobs: &[Blob]) {
        for blob in blobs {
            self.blobs.insert(name(&blob.reference), blob.clone());
        }
        record.event.for_each_blob(&mut |reference| {
            assert!(self.blobs.contains_key(&name(reference)), "a record came before its blob: {record:?}");
        });
        let Event::StateSaved(saved) = &record.event else { return };
        match (&saved.member, self.kept.get_mut(&saved.key)) {
            (Some(member), Some(StateValue::Members(members))) => {
                members.insert(member.clone(), saved.value.clone());
            }
            (Some(member), _) => {
                let members = BTreeMap::from([(member.clone(), saved.value.clone())]);
                self.kept.insert(saved.key.clone(), StateValue::Members(members));
            }
            (None, _) => {
                self.kept.insert(saved.key.clone(), StateValue::Single(saved.value.clone()));
            }
        }
    }

    fn load(&mut self, missing: NotLoaded) {
        match missing {
            NotLoaded::Blob(reference) => {
                self.values.blobs.insert(reference, &self.blobs[&name(&reference)].bytes);
            }
            NotLoaded::State(key) => self.values.load(&key, self.kept.get(&key).cloned()),
            NotLoaded::WholeState => {
                for (key, value) in &self.kept {
                    self.values.load(key, Some(value.clone()));
                }
                self.values.loaded_whole();
            }
        }
    }

    /// What is to be done next in `state`, asked twice: the answer must be the same.
    fn ask(&mut self, state: &RunState) -> Move {
        loop {
            let in_flight = |id: ActionId| self.in_flight.iter().any(|flight| flight.call.action == id);
            let next = || state.next(&self.script.task, &self.script.tools, &self.values, self.now, &in_flight);
            let (first, second) = (next(), next());
            assert_eq!(first, second, "the decision is pure");
            match first {
                Ok(next) => return next,
                Err(missing) => self.load(missing),
            }
        }
    }

    /// Asks what is next in a state that may be none of this run's: a part that isn't there is no answer, and no fault.
    pub(crate) fn try_ask(&mut self, state: &RunState) {
        for _ in 0..100 {
            match state.next(&self.script.task, &self.script.tools, &self.values, self.now, &|_| false) {
                Err(NotLoaded::Blob(reference)) if !self.blobs.contains_key(&name(&reference)) => return,
                Err(missing) => self.load(missing),
                Ok(_) => return,
            }
        }
    }

    /// Goes on until the run ends, or nothing happens by itself.
    pub(crate) fn drive(&mut self) -> Rest {
        loop {
            self.moves += 1;
            assert!(self.moves < MANY_MOVES, "the run goes round in a circle");
            let state = self.state.clone();
            match self.ask(&state) {
                Move::Record(drafts) => self.record(drafts),
                Move::Call(call) => self.call(call),
                Move::Calibrate(call) => self.calibrate(call),
                Move::Think(_) | Move::Consult => unreachable!("these tasks have no model"),
                Move::Ended(outcome) => return self.rests(Rest::Ended(outcome)),
                Move::Idle(idle) => {
                    if !self.in_flight.is_empty() {
                        self.deliver();
                    } else if idle.person && self.answer() {
                    } else if let Some(at) = idle.wake_at.filter(|_| !idle.stopped) {
                        assert!(at > self.now, "it waits for a time that has come");
                        self.now = at;
                    } else if idle.stopped {
                        return self.rests(Rest::Stopped);
                    } else {
                        assert!(idle.person, "the run waits for nothing that has a name: {:?}", self.state);
                        return self.rests(Rest::Person);
                    }
                }
            }
        }
    }

    fn rests(&mut self, rest: Rest) -> Rest {
        self.rest = Some(rest);
        rest
    }
}

pub(crate) fn raised(max_steps: Option<u64>) -> Draft {
    Event::LimitsRaised(LimitsRaised { max_steps, max_duration_ms: None, tokens: None, cost: None, by: "p".to_owned() })
        .into()
}

fn answered(branch: Option<BranchId>, answer: Answer) -> Draft {
    Event::QuestionAnswered(QuestionAnswered { branch, answer, by: "p".to_owned(), text: None }).into()
}

fn outcome(code: Code, data: Json, asked: Option<Duration>) -> (Outcome, Vec<Blob>) {
    let fingerprint = ContentHash::of(format!("{code} {}", json::canonical(&data)).as_bytes());
    let mut blobs = Vec::new();
    let outcome = Outcome {
        code,
        data: Payload::stow(data, &mut blobs),
        error: (code != Code::Success).then(|| format!("it is {code}")),
        meaning_of_empty: None,
        retry_after_ms: asked.map(|wait| u64::try_from(wait.as_millis()).unwrap()),
        marks: Vec::new(),
        raw: None,
        key_fields: BTreeMap::new(),
        effect_excluded: false,
        fingerprint,
    };
    (outcome, blobs)
}

fn name(reference: &BlobRef) -> String {
    format!("{:?} {}", reference.kind, reference.hash)
}
