//! Runs of one rich task, in which everything can happen that a driver, a target, a crash or a person can bring.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use loopforge_core::expression::Values;
use loopforge_core::id::{BranchId, ContentHash, RecordId, RunId, StepToken};
use loopforge_core::model::{Arguments, Block, ErrorKind, ModelError, Reply, StopReason, ToolCall, Usage};
use loopforge_core::payload::{NotLoaded, Payload};
use loopforge_core::prompt::History;
use loopforge_core::record::{
    About, ActionId, ActionNotHappened, ActionRefused, ActionStarted, ActionUnknown, Answer, AttemptFailed, Event,
    FORMAT, LimitsRaised, ModelCalled, Outcome, OutcomeSource, PromptRef, Purpose, QuestionAnswered, QuestionAsked,
    Record, RunPaused, RunResumed, RunStarted, StateSaved,
};
use loopforge_core::run::{ActionState, Branch, Call, Draft, Idle, Move, Phase, Replied, RunState, ToolFacts, View};
use loopforge_core::task::{Builtin, Catalog, Task, read};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::{Code, Effect, RetryPolicy};
use serde_json::json;
use uuid::Uuid;

const TASK: &str = "
name: simulated
goal: Reach every transition.
model: test/thinker
loop: { max_steps: 40, on_max_steps: ask, max_continuous_loops: 3, defer_rounds: 1 }
inputs: { items: { value: [a, b, c, d, e] } }
tools: { look: { builtin: look }, put: { builtin: put } }
subgoals:
  - id: items
    foreach: { in: inputs.items, as: item, parallel: 3 }
    steps:
      - { call: look, with: { item: '${ item }' }, save: seen, or_else: [{ call: put, with: { item: instead } }] }
      - { call: put, with: { item: '${ item }' }, save: 'done[item]' }
    on_failure: defer
  - id: rest
    steps:
      - { wait: 5s }
      - { enter: OPEN }
      - { set: { sum: '${ 1 + 1 }' } }
      - { enter: CLOSED }
      - { call: put, with: { last: true }, save: final }
    on_failure: ask
  - { id: think, goal: Find it., done_when: has(state.found) }
  - { id: after, needs: [items], steps: [{ call: look, save: again }, { set: { more: '${ state.again }' } }] }
states: { initial: NEW, transitions: { NEW: [OPEN, CLOSED], OPEN: [NEW], CLOSED: [OPEN] } }
";

/// More turns than a simulated run needs.
const TURNS: usize = 5000;

pub(crate) fn task() -> Task {
    read(TASK, "simulated.yaml", &catalog()).unwrap_or_else(|problems| panic!("{problems}"))
}

fn catalog() -> Catalog {
    let builtin = |effect| Builtin { input_schema: json!({ "type": "object" }), effect, network: false };
    let builtins = [("look".to_owned(), builtin(Effect::Read)), ("put".to_owned(), builtin(Effect::Write))];
    Catalog { builtins: builtins.into() }
}

/// A small generator; equal seeds give equal runs.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed | 1)
    }

    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }

    pub(crate) fn one_in(&mut self, many: u64) -> bool {
        self.below(many) == 0
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[usize::try_from(self.below(of.len() as u64)).unwrap()]
    }
}

pub(crate) struct Simulation {
    pub(crate) task: Task,
    pub(crate) state: RunState,
    pub(crate) records: Vec<Record>,
    dice: Dice,
    tools: BTreeMap<String, ToolFacts>,
    values: Values,
    now: Timestamp,
    in_flight: BTreeSet<ActionId>,
    /// Branches for which a model was asked, and the call.
    thinking: BTreeMap<BranchId, u32>,
}

impl Simulation {
    /// A whole run.
    pub(crate) fn run(seed: u64) -> Self {
        let task = task();
        let facts = |effect, key: &[&str]| ToolFacts {
            effect,
            deterministic: false,
            effect_key: key.iter().map(|&name| name.to_owned()).collect(),
            retry: RetryPolicy::default(),
        };
        let inputs: BTreeMap<String, Payload> =
            [("items".to_owned(), Payload::inline(json!(["a", "b", "c", "d", "e"])))].into();
        let run = RunId(Uuid::from_u128(u128::from(seed)));
        let mut simulation = Self {
            state: RunState::new(run, &task),
            records: Vec::new(),
            dice: Dice::new(seed),
            tools: [("look".to_owned(), facts(Effect::Read, &[])), ("put".to_owned(), facts(Effect::Write, &["item"]))]
                .into(),
            values: Values::new(inputs.clone(), true),
            now: Timestamp(1_000_000),
            in_flight: BTreeSet::new(),
            thinking: BTreeMap::new(),
            task,
        };
        simulation.archive(Event::RunStarted(RunStarted {
            format: FORMAT,
            task: ContentHash::of(TASK.as_bytes()),
            name: "simulated".to_owned(),
            goal: String::new(),
            version: String::new(),
            inputs,
            file: None,
        }));
        for _ in 0..TURNS {
            if !simulation.turn() {
                return simulation;
            }
        }
        panic!("the run of seed {seed} does not end: {:?}", simulation.state);
    }

    fn archive(&mut self, draft: impl Into<Draft>) {
        let draft = draft.into();
        for blob in &draft.blobs {
            self.values.blobs.insert(blob.reference, &blob.bytes);
        }
        let number = self.records.len() as u128 + 1;
        let record = Record {
            seq: self.state.head.next(),
            id: RecordId(Uuid::from_u128(number)),
            at: self.now,
            event: draft.event,
        };
        self.state.apply(&record).unwrap_or_else(|illegal| panic!("{illegal}: {record:?}"));
        if let Event::StateSaved(saved) = &record.event {
            self.values.save(&saved.key, saved.member.as_deref(), saved.value.clone());
        }
        self.records.push(record);
    }

    fn next(&self) -> Move {
        let ask = || -> Result<Move, NotLoaded> {
            self.state.next(&self.state.plan.of(&self.task), &self.tools, &self.values, self.now, &|id| {
                self.in_flight.contains(&id)
            })
        };
        let next = ask().unwrap();
        assert_eq!(ask().unwrap(), next, "the same question has the same answer");
        next
    }

    /// One turn. Returns false once the run has ended.
    fn turn(&mut self) -> bool {
        self.now = self.now.after(Duration::from_millis(self.dice.below(300)));
        if self.dice.one_in(40) && self.state.ended.is_none() {
            self.crash();
        }
        if self.dice.one_in(60) && self.state.ended.is_none() && self.meddle() {
            return true;
        }
        match self.next() {
            Move::Record(drafts) => drafts.into_iter().for_each(|draft| self.archive(draft)),
            Move::Call(call) => self.call(call),
            Move::Calibrate(call) => self.calibrate(call),
            Move::Ended(_) => return false,
            Move::Think(branch) => self.think(branch),
            Move::Consult => self.consult(),
            Move::Idle(idle) => self.idle(idle),
        }
        true
    }

    fn crash(&mut self) {
        self.in_flight.clear();
        self.thinking.clear();
        self.archive(Event::RunResumed(RunResumed {
            worker: "another".to_owned(),
            version: String::new(),
            checkpoint: None,
        }));
    }

    /// What is legal, and no driver of today does.
    fn meddle(&mut self) -> bool {
        let acting = |branch: &Branch| matches!(branch.phase, Phase::Acting { .. });
        let branch = self.state.branches.iter().find(|(_, branch)| acting(branch)).map(|(id, _)| *id);
        if branch.is_none() {
            return false;
        }
        self.archive(Event::StateSaved(StateSaved {
            branch,
            step: None,
            entry: None,
            key: "beside".to_owned(),
            member: None,
            value: Payload::default(),
            by: None,
        }));
        true
    }

    fn ask(&mut self, branch: Option<BranchId>, action: Option<ActionId>, about: About) {
        let question = "What now?".to_owned();
        self.archive(Event::QuestionAsked(QuestionAsked { branch, action, about, question }));
    }

    fn think(&mut self, branch: BranchId) {
        let call = self.state.models.calls + 1;
        self.archive(Event::ModelCalled(ModelCalled {
            branch: Some(branch),
            step: Some(self.state.branches[&branch].step),
            purpose: Purpose::Act,
            call,
            model: "test/thinker".to_owned(),
            prompt: PromptRef { digest: ContentHash([0; 32]), upto: self.state.head, tokens: 1, left_out: 0 },
            max_output_tokens: 1,
            reserved: None,
        }));
        self.thinking.insert(branch, call);
    }

    /// A planner: it may be lost, fail, talk nonsense, leave all as it is, or put another subgoal in the place of the failed one.
    fn consult(&mut self) {
        let call = self.state.models.calls + 1;
        let consult = self.state.consult.clone().unwrap();
        self.archive(Event::ModelCalled(ModelCalled {
            branch: None,
            step: None,
            purpose: consult.purpose,
            call,
            model: "test/thinker".to_owned(),
            prompt: PromptRef { digest: ContentHash([0; 32]), upto: self.state.head, tokens: 1, left_out: 0 },
            max_output_tokens: 1,
            reserved: None,
        }));
        if self.dice.one_in(8) {
            return self.crash();
        }
        if self.dice.one_in(5) {
            let kind = self.dice.pick(&[ErrorKind::Overloaded, ErrorKind::Unauthorized, ErrorKind::ContextTooLong]);
            let error = ModelError::new(kind, "no answer");
            let failed = self.state.consult_failure(&self.task, call, &error, 2, self.now).unwrap();
            return self.archive(Event::ModelFailed(failed));
        }
        let old = consult.subgoal.clone().unwrap_or_default();
        let new = json!({ "id": format!("new_{call}"), "goal": "Find it.", "tools": ["look"] });
        let text = match self.dice.below(4) {
            0 => json!({ "reason": "nonsense", "drop": ["nobody"] }),
            1 => json!({ "reason": "stay", "advice": "Look closer." }),
            2 => json!({ "reason": "another", "replace": [{ "id": old, "with": new }] }),
            _ => json!({ "reason": "one more", "add": [new] }),
        };
        let arguments = Arguments::read(text.to_string());
        let tool_call = ToolCall { id: "c1".to_owned(), provider_id: None, name: "amend_plan".to_owned(), arguments };
        let blocks = vec![Block::ToolCall(tool_call)];
        let reply =
            Reply { id: None, model: None, blocks, stop: StopReason::End, usage: Usage::default(), marks: Vec::new() };
        let replied = Replied { call, reply, cost: None, raw: None, took: Duration::ZERO };
        let task = self.state.plan.of(&self.task).into_owned();
        let view = View { task: &task, tools: &self.tools, values: &self.values, now: self.now };
        let drafts = self.state.take_consult(&view, &catalog(), &replied).unwrap();
        drafts.into_iter().for_each(|draft| self.archive(draft));
    }

    fn answer_of_model(&mut self, branch: BranchId, call: u32) {
        if self.dice.one_in(6) {
            let kind = self.dice.pick(&[ErrorKind::Overloaded, ErrorKind::Unauthorized, ErrorKind::ContextTooLong]);
            let error = ModelError::new(kind, "no answer");
            let failed = self.state.model_failure(&self.task, branch, call, &error, 2, self.now).unwrap();
            return self.archive(Event::ModelFailed(failed));
        }
        let mut blocks = Vec::new();
        for number in 0..self.dice.below(4) {
            let item = self.dice.below(4);
            let (name, arguments) = self.dice.pick(&[
                ("look", "{\"page\":1}"),
                ("look", "{\"page\":2}"),
                ("put", "{\"item\":\"a\"}"),
                ("put", "{\"item\":"),
                ("nothing", "{}"),
                ("ask_person", "{\"question\":\"Which?\"}"),
                ("wait", "{\"seconds\":5}"),
                ("replan", "{\"reason\":\"stuck\"}"),
                ("finish", "{\"summary\":\"done\"}"),
                ("get_state", "{\"key\":\"sum\"}"),
            ]);
            let (name, arguments) =
                if self.dice.one_in(12) { ("set_state", "{\"key\":\"found\",\"value\":1}") } else { (name, arguments) };
            blocks.push(Block::ToolCall(ToolCall {
                id: format!("{number}-{item}"),
                provider_id: None,
                name: name.to_owned(),
                arguments: Arguments::read(arguments),
            }));
        }
        let reply =
            Reply { id: None, model: None, blocks, stop: StopReason::End, usage: Usage::default(), marks: Vec::new() };
        let replied = Replied { call, reply, cost: None, raw: None, took: Duration::ZERO };
        let view =
            View { task: &self.state.plan.of(&self.task), tools: &self.tools, values: &self.values, now: self.now };
        let drafts = self.state.take_reply(&view, branch, &replied, &History::new(branch)).unwrap().unwrap();
        drafts.into_iter().for_each(|draft| self.archive(draft));
    }

    fn call(&mut self, call: Call) {
        match self.dice.below(12) {
            0 => {
                self.archive(Event::ActionRefused(ActionRefused {
                    branch: call.branch,
                    id: call.action,
                    code: Code::Refused,
                    check: "quota".to_owned(),
                    reason: "enough".to_owned(),
                }));
            }
            // An earlier answer was good enough.
            1 => self.finish(call, OutcomeSource::Cache, Code::Success),
            _ => self.start(call),
        }
    }

    fn start(&mut self, call: Call) {
        let action = self.state.action(call.action).unwrap().1;
        let (effect, attempts, tool) = (action.effect, action.attempts, action.tool.clone());
        if effect == Effect::Write {
            self.archive(Event::ActionStarted(ActionStarted {
                branch: call.branch,
                id: call.action,
                attempt: attempts + 1,
                token: StepToken::of(self.state.run, 0, call.action.step, call.action.action),
                tool,
                business_key: None,
            }));
        }
        self.in_flight.insert(call.action);
    }

    fn finish(&mut self, call: Call, source: OutcomeSource, code: Code) {
        let outcome = Outcome {
            code,
            data: Payload::inline(json!({ "number": self.dice.below(3) })),
            error: (code != Code::Success).then(|| "it failed".to_owned()),
            meaning_of_empty: None,
            retry_after_ms: None,
            marks: Vec::new(),
            raw: None,
            key_fields: BTreeMap::new(),
            effect_excluded: false,
            fingerprint: ContentHash::of(&[u8::try_from(self.dice.below(2)).unwrap()]),
        };
        let attempt = self.state.action(call.action).unwrap().1.attempts;
        let drafts = self.state.finish(call, attempt, source, outcome, Vec::new(), Duration::ZERO).unwrap();
        drafts.into_iter().for_each(|draft| self.archive(draft));
    }

    fn calibrate(&mut self, call: Call) {
        match self.dice.below(4) {
            // With the same token, where the target honours it.
            0 => self.start(call),
            1 => self.finish(call, OutcomeSource::StatusQuery, Code::Success),
            2 => self.not_happened(call),
            _ => self.ask(Some(call.branch), Some(call.action), About::UnknownEffect),
        }
    }

    fn not_happened(&mut self, call: Call) {
        self.archive(Event::ActionNotHappened(ActionNotHappened {
            branch: call.branch,
            id: call.action,
            source: OutcomeSource::StatusQuery,
            note: String::new(),
        }));
    }

    fn idle(&mut self, idle: Idle) {
        if let Some(id) = self.in_flight.pop_first() {
            return self.answer_of_target(id);
        }
        if let Some((branch, call)) = self.thinking.pop_first() {
            return self.answer_of_model(branch, call);
        }
        if self.state.paused.is_some() {
            return self.crash();
        }
        let open = self.state.questions().next().map(|(id, question)| (id, question.clone()));
        if let Some((branch, question)) = open {
            return self.answer_of_person(branch, question.action, question.about);
        }
        if let Some(at) = idle.wake_at {
            self.now = self.now.max(at);
            return;
        }
        panic!("nothing will happen any more: {idle:?}, {:?}", self.state);
    }

    fn answer_of_target(&mut self, id: ActionId) {
        // The call was settled meanwhile: its answer is too late even for a late answer.
        let Some((branch, action)) = self.state.action(id) else { return };
        let call = Call { branch, action: id };
        let (write, attempt) = (action.effect == Effect::Write, action.attempts);
        let started = action.state == ActionState::Started;
        let can_fail = !write || started;
        match self.dice.below(6) {
            0 if can_fail => {
                let retry_at = self.now.after(Duration::from_secs(2));
                self.archive(Event::AttemptFailed(AttemptFailed {
                    branch,
                    id,
                    attempt: if write { attempt } else { attempt + 1 },
                    code: Code::Unavailable,
                    error: "busy".to_owned(),
                    retry_at,
                    asked_wait_ms: None,
                }));
            }
            1 if started => {
                self.archive(Event::ActionUnknown(ActionUnknown { branch, id, reason: "no answer".to_owned() }));
                // Its answer may still come.
                if self.dice.one_in(2) {
                    self.in_flight.insert(id);
                }
            }
            2 => {
                let code = self.dice.pick(&[Code::Permanent, Code::Unavailable, Code::MalformedOutput]);
                self.finish(call, OutcomeSource::Call, code);
            }
            3 if self.dice.one_in(4) => {
                self.in_flight.insert(id);
                self.archive(Event::RunPaused(RunPaused { reason: "interrupted".to_owned() }));
            }
            _ => self.finish(call, OutcomeSource::Call, Code::Success),
        }
    }

    fn answer_of_person(&mut self, branch: Option<BranchId>, action: Option<ActionId>, about: About) {
        let raise = LimitsRaised {
            max_steps: Some(self.state.last_step.0 + 20),
            max_duration_ms: None,
            tokens: None,
            cost: None,
            by: "a person".to_owned(),
        };
        if about == About::Limit {
            return self.archive(Event::LimitsRaised(raise));
        }
        let answered = |answer| {
            Event::QuestionAnswered(QuestionAnswered { branch, answer, text: None, by: "a person".to_owned() })
        };
        if self.dice.one_in(30) {
            return self.archive(answered(Answer::Abort));
        }
        match (branch, action) {
            (Some(branch), Some(action)) => {
                let call = Call { branch, action };
                if about == About::Information {
                    self.archive(answered(Answer::Told));
                    return self.finish(call, OutcomeSource::Person, Code::Success);
                }
                if self.dice.one_in(2) {
                    self.archive(answered(Answer::Happened));
                    self.finish(call, OutcomeSource::Person, Code::Success);
                } else {
                    self.archive(answered(Answer::Not));
                    self.not_happened(call);
                }
            }
            _ => {
                let answer = self.dice.pick(&[Answer::Continue, Answer::Skip]);
                self.archive(answered(answer));
            }
        }
    }
}
