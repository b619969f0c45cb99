//! What a driver does with calls, their answers and people's answers.

use std::time::Duration;

use loopforge_core::id::{BranchId, StepToken};
use loopforge_core::json::{self, Json};
use loopforge_core::record::{
    About, ActionNotHappened, ActionRefused, ActionStarted, ActionUnknown, Answer, AttemptFailed, Event, OutcomeSource,
    QuestionAsked,
};
use loopforge_core::run::{Call, Draft, Question};
use loopforge_core::tool::{Code, Effect};

use super::{Ask, Brings, Flight, Made, Settle, Sim, answered, outcome, raised};

impl Sim {
    pub(super) fn call(&mut self, call: Call) {
        let (_, action) = self.state.action(call.action).unwrap();
        let action = action.clone();
        let attempt = action.attempts + 1;
        let arguments = self.open(&action.arguments);
        let rounds = self.state.branches[&call.branch].rounds;
        let brings = (self.script.world)(&Ask { tool: &action.tool, arguments: &arguments, attempt, rounds });
        if brings == Brings::Refusal {
            let refused = ActionRefused {
                branch: call.branch,
                id: call.action,
                code: Code::Refused,
                check: "whitelist".to_owned(),
                reason: "not here".to_owned(),
            };
            return self.record(vec![Event::ActionRefused(refused).into()]);
        }
        if action.effect == Effect::Write {
            let token = self.token(call);
            let started = ActionStarted {
                branch: call.branch,
                id: call.action,
                attempt,
                token: token.clone(),
                tool: action.tool.clone(),
                business_key: action.business_key.clone(),
            };
            self.record(vec![Event::ActionStarted(started).into()]);
            let data = match &brings {
                Brings::Data(data) => Some(data.clone()),
                Brings::Lost { happened: true } => Some(Json::Null),
                _ => None,
            };
            if let Some(data) = data {
                let what = format!("{} {}", action.tool, json::canonical(&arguments));
                let before = self.effects.insert(token, Made { before: self.state.head, what, data });
                assert!(before.is_none() || self.script.settle == Settle::Again, "an effect was made twice");
            }
        }
        self.in_flight.push(Flight { call, attempt, brings, late: false });
    }

    fn token(&self, call: Call) -> StepToken {
        StepToken::of(self.state.run, self.state.incarnation, call.action.step, call.action.action)
    }

    /// One of the calls that were made ends.
    pub(super) fn deliver(&mut self) {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(u64::from(self.script.order != 0));
        let position = usize::try_from(self.random >> 33).unwrap() % self.in_flight.len();
        let Flight { call, attempt, brings, late } = self.in_flight.remove(position);
        self.now = self.now.after(Duration::from_millis(10));
        let (_, action) = self.state.action(call.action).unwrap();
        let write = action.effect == Effect::Write;
        let (code, asked) = match brings {
            Brings::Data(data) => {
                let source = if late { OutcomeSource::LateAnswer } else { OutcomeSource::Call };
                return self.finish(call, attempt, source, Code::Success, data, None);
            }
            Brings::Lost { happened } if write => {
                self.unknown(call, "no answer");
                if self.script.settle == Settle::LateAnswer && happened {
                    self.in_flight.push(Flight { call, attempt, brings: Brings::Data(Json::Null), late: true });
                }
                return;
            }
            Brings::Lost { .. } => (Code::Timeout, None),
            Brings::Fails(code) => (code, None),
            Brings::FailsAsking(code, wait) => (code, Some(wait)),
            Brings::Refusal => unreachable!("refused calls are not made"),
        };
        if write && code.leaves_effect_unknown() {
            return self.unknown(call, code.name());
        }
        match self.script.tools[&action.tool].retry.wait_after(attempt, code, asked) {
            Some(wait) => {
                let failed = AttemptFailed {
                    branch: call.branch,
                    id: call.action,
                    attempt,
                    code,
                    error: code.to_string(),
                    retry_at: self.now.after(wait),
                    asked_wait_ms: None,
                };
                self.record(vec![Event::AttemptFailed(failed).into()]);
            }
            None => self.finish(call, attempt, OutcomeSource::Call, code, Json::Null, asked),
        }
    }

    fn unknown(&mut self, call: Call, reason: &str) {
        let unknown = ActionUnknown { branch: call.branch, id: call.action, reason: reason.to_owned() };
        self.record(vec![Event::ActionUnknown(unknown).into()]);
    }

    fn finish(
        &mut self,
        call: Call,
        attempt: u32,
        source: OutcomeSource,
        code: Code,
        data: Json,
        asked: Option<Duration>,
    ) {
        let (outcome, blobs) = outcome(code, data, asked);
        let drafts = self.state.finish(call, attempt, source, outcome, blobs, Duration::ZERO).unwrap();
        self.record(drafts);
    }

    pub(super) fn calibrate(&mut self, call: Call) {
        let attempt = self.state.action(call.action).unwrap().1.attempts;
        match self.script.settle {
            Settle::StatusQuery => self.settle(call, OutcomeSource::StatusQuery, Vec::new()),
            Settle::Again if attempt < 3 => self.call(call),
            Settle::Person | Settle::LateAnswer | Settle::Again => {
                let asked = QuestionAsked {
                    branch: Some(call.branch),
                    action: Some(call.action),
                    about: About::UnknownEffect,
                    question: "did it happen?".to_owned(),
                };
                self.record(vec![Event::QuestionAsked(asked).into()]);
            }
        }
    }

    /// Says the truth about an effect.
    fn settle(&mut self, call: Call, source: OutcomeSource, mut drafts: Vec<Draft>) {
        let attempt = self.state.action(call.action).unwrap().1.attempts;
        if let Some(made) = self.effects.get(&self.token(call)) {
            let (outcome, blobs) = outcome(Code::Success, made.data.clone(), None);
            drafts.extend(self.state.finish(call, attempt, source, outcome, blobs, Duration::ZERO).unwrap());
        } else {
            let note = "nothing there".to_owned();
            let not = ActionNotHappened { branch: call.branch, id: call.action, source, note };
            drafts.push(Event::ActionNotHappened(not).into());
        }
        self.record(drafts);
    }

    /// A person answers an open question. Returns whether one did.
    pub(super) fn answer(&mut self) -> bool {
        let open: Vec<(Option<BranchId>, Question)> =
            self.state.questions().map(|(branch, question)| (branch, question.clone())).collect();
        for (branch, question) in open {
            match (branch, question.about, question.action) {
                (Some(branch), About::UnknownEffect, Some(action)) => {
                    let call = Call { branch, action };
                    let happened = self.effects.contains_key(&self.token(call));
                    let answer = if happened { Answer::Happened } else { Answer::Not };
                    self.settle(call, OutcomeSource::Person, vec![answered(Some(branch), answer)]);
                    return true;
                }
                (None, About::Limit, _) if self.script.grant > 0 => {
                    let max_steps = Some(self.state.last_step.0 + self.script.grant);
                    self.record(vec![answered(None, Answer::Continue), raised(max_steps)]);
                    return true;
                }
                _ => {
                    if let Some(answer) = (self.script.people)(&question) {
                        self.record(vec![answered(branch, answer)]);
                        return true;
                    }
                }
            }
        }
        false
    }
}
