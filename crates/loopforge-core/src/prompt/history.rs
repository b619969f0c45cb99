//! The steps of a branch as a model sees them.

use crate::agent::{Control, Response};
use crate::id::{ActionNo, BranchId, StepNo};
use crate::json::Json;
use crate::model::{Block, CallResult, Message};
use crate::payload::{BlobCache, NotLoaded, Payload};
use crate::record::{ActionId, Answer, Event, LoopFound, LoopKind, Outcome, Record, Route};

use super::tokens;

/// The share of the budget that one result may take; what is longer is cut to a preview. Source: DESIGN, prompt and memory.
const RESULT_SHARE: u64 = 8;

/// Over the threshold, the oldest steps are left out until the rest takes this share, in tenths. Source: R29.
const KEPT_TENTHS: u64 = 4;

/// The threshold, in tenths. Source: `summary_threshold` of R29.
const THRESHOLD_TENTHS: u64 = 7;

/// What stands before the words of a person.
const SAID: &str = "A person who watches the task says: ";

/// Steps that are shown while the budget allows only summaries.
pub(super) const LAST_STEPS: usize = 2;

/// The room that there is for steps.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Tokens of the whole prompt.
    pub(super) budget: u64,
    /// Of these, what is left for steps.
    pub(super) left: u64,
    /// Steps that are shown at most.
    pub(super) steps: usize,
}

/// What happened in one branch, folded from its records. It refers to results and doesn't hold them.
#[derive(Debug, Clone, PartialEq)]
pub struct History {
    branch: BranchId,
    steps: Vec<Step>,
    /// The first step of the present way; those before belong to ways that were given up.
    way: usize,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    step: StepNo,
    reply: Option<Payload>,
    actions: Vec<Told>,
    /// What people said before the reply.
    heard: Vec<String>,
    /// What the loop says after it.
    notes: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
struct Told {
    tool: String,
    result: Option<Answered>,
}

#[derive(Debug, Clone, PartialEq)]
enum Answered {
    Outcome(Box<Outcome>),
    Refused(String),
}

impl History {
    /// The history of a branch before its first record.
    #[must_use]
    pub const fn new(branch: BranchId) -> Self {
        Self { branch, steps: Vec::new(), way: 0 }
    }

    /// Takes a record in. Those of other branches change nothing.
    pub fn push(&mut self, record: &Record) {
        match &record.event {
            Event::StepStarted(event) if event.branch == self.branch => {
                self.steps.push(Step::new(event.step));
            }
            Event::ModelReplied(event) if event.branch == Some(self.branch) => {
                self.with_last(|step| step.reply = Some(event.blocks.clone()));
            }
            Event::ActionDecided(event) if event.branch == self.branch => {
                self.with_last(|step| step.actions.push(Told { tool: event.tool.clone(), result: None }));
            }
            Event::ActionRefused(event) if event.branch == self.branch => {
                self.answer(event.id.action.0, Answered::Refused(event.reason.clone()));
            }
            Event::ActionFinished(event) if event.branch == self.branch => {
                self.answer(event.id.action.0, Answered::Outcome(Box::new(event.result.clone())));
            }
            Event::LoopFound(event) if event.branch == self.branch => {
                let note = told_of(event);
                self.with_last(|step| step.notes.push(note));
            }
            Event::StepEvaluated(event) if event.branch == self.branch => {
                let reason = &event.verdict.reason;
                match event.verdict.route {
                    Route::Correct => {
                        self.with_last(|step| step.notes.push(format!("The step is judged: {reason}. Correct it.")));
                    }
                    Route::Replan => self.way = self.steps.len(),
                    _ => {}
                }
                if matches!(event.verdict.route, Route::Replan) {
                    let reason = format!("Given up: {reason}");
                    self.with_last(|step| step.notes.push(reason));
                }
            }
            Event::PlanAmended(event) if event.branch == Some(self.branch) => {
                let advice = event.advice.as_ref().unwrap_or(&event.reason);
                self.with_last(|step| step.notes.push(format!("The planner says: {advice}")));
            }
            Event::QuestionAnswered(event) if event.branch == Some(self.branch) && event.answer == Answer::Continue => {
                let words = event.text.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
                self.with_last(|step| step.notes.push(format!("A person looked at it and says: go on{words}.")));
            }
            Event::NoteTaken(event) => {
                let note = format!("{SAID}{}", event.text);
                self.with_last(|step| match step.reply {
                    None => step.heard.push(note),
                    Some(_) => step.notes.push(note),
                });
            }
            _ => {}
        }
    }

    fn with_last(&mut self, change: impl FnOnce(&mut Step)) {
        if let Some(step) = self.steps.last_mut() {
            change(step);
        }
    }

    fn answer(&mut self, action: u32, answer: Answered) {
        self.with_last(|step| {
            if let Some(told) = step.actions.get_mut(action as usize) {
                told.result = Some(answer);
            }
        });
    }

    /// What a call of this branch brought; `None` when it failed, or is none of this branch.
    ///
    /// # Errors
    /// [`NotLoaded`]: load it and ask again.
    pub fn result(&self, action: ActionId, blobs: &BlobCache) -> Result<Option<Json>, NotLoaded> {
        let step = self.steps.iter().rev().find(|step| step.step == action.step);
        match step.and_then(|step| step.actions.get(action.action.0 as usize)).and_then(|told| told.result.as_ref()) {
            Some(Answered::Outcome(outcome)) if outcome.is_ok() => outcome.data.open(blobs).map(Some),
            _ => Ok(None),
        }
    }

    /// The messages of the steps that are shown, and how many are left out.
    ///
    /// Steps of ways that were given up are told in a line each. When what is left grows over the threshold of `room`, the oldest steps
    /// are left out in one go, so that the beginning then stays the same for a while. A call and its result are never parted.
    pub(super) fn messages(&self, blobs: &BlobCache, room: &Room) -> Result<(Vec<Message>, u32), NotLoaded> {
        let mut shown: Vec<(usize, Vec<Message>, u64)> = Vec::new();
        let mut size = 0;
        for (position, step) in self.steps.iter().enumerate().skip(self.way) {
            let messages = step.messages(blobs, room.budget / RESULT_SHARE)?;
            let tokens = tokens::of_messages(&messages);
            size += tokens;
            shown.push((position, messages, tokens));
            if size * 10 > room.left * THRESHOLD_TENTHS {
                while shown.len() > 1 && size * 10 > room.left * KEPT_TENTHS {
                    size -= shown.remove(0).2;
                }
            }
        }
        if shown.len() > room.steps {
            shown.drain(..shown.len() - room.steps);
        }
        let first = shown.first().map_or(self.steps.len(), |(position, ..)| *position);
        let left_out = first - self.way.min(first);
        let mut messages = Vec::new();
        if let Some(summary) = self.before(first) {
            messages.push(Message::user(summary));
        }
        messages.extend(shown.into_iter().flat_map(|(_, messages, _)| messages));
        Ok((messages, u32::try_from(left_out).unwrap_or(u32::MAX)))
    }

    /// What is told of the steps before the first one that is shown.
    fn before(&self, first: usize) -> Option<String> {
        /// Of a long branch, the last of these steps are told.
        const LINES: usize = 40;
        let earlier = &self.steps[..first.min(self.steps.len())];
        let told: Vec<&Step> = earlier
            .iter()
            .filter(|step| step.reply.is_some() || !step.notes.is_empty() || !step.heard.is_empty())
            .collect();
        if told.is_empty() {
            return None;
        }
        let mut lines = vec!["Earlier steps, in a line each; what they brought is no longer shown:".to_owned()];
        if told.len() > LINES {
            lines.push(format!("- ({} steps before these)", told.len() - LINES));
        }
        lines.extend(told.iter().skip(told.len().saturating_sub(LINES)).map(|step| step.line()));
        Some(lines.join("\n"))
    }
}

impl Step {
    const fn new(step: StepNo) -> Self {
        Self { step, reply: None, actions: Vec::new(), heard: Vec::new(), notes: Vec::new() }
    }

    fn messages(&self, blobs: &BlobCache, result_limit: u64) -> Result<Vec<Message>, NotLoaded> {
        let mut messages = Vec::new();
        if !self.heard.is_empty() {
            messages.push(Message::user(self.heard.join("\n")));
        }
        if let Some(reply) = &self.reply {
            // An archive that was checked when it was read holds blocks here.
            let blocks: Vec<Block> = serde_json::from_value(reply.open(blobs)?).unwrap_or_default();
            let calls: Vec<String> = Message::assistant(blocks.clone()).calls().map(|call| call.id.clone()).collect();
            if blocks.iter().any(|block| !matches!(block, Block::Opaque(_))) {
                messages.push(Message::assistant(blocks));
            }
            let mut results = Vec::new();
            for (number, (call, told)) in (0..).zip(calls.into_iter().zip(&self.actions)) {
                let action = ActionId { step: self.step, action: ActionNo(number) };
                let (content, is_error) = told.content(action, blobs, result_limit)?;
                results.push(CallResult { call, content, is_error });
            }
            if !results.is_empty() {
                messages.push(Message::results(results));
            }
        }
        if !self.notes.is_empty() {
            messages.push(Message::user(self.notes.join("\n")));
        }
        Ok(messages)
    }

    fn line(&self) -> String {
        let calls: Vec<String> = self
            .actions
            .iter()
            .map(|told| {
                let outcome = match &told.result {
                    Some(Answered::Outcome(outcome)) => outcome.code.name(),
                    Some(Answered::Refused(_)) => "refused",
                    None => "open",
                };
                format!("{} ({outcome})", told.tool)
            })
            .collect();
        let calls = if calls.is_empty() { "no call".to_owned() } else { calls.join(", ") };
        // What a person said stays, whatever is left out.
        let said = self.heard.iter().chain(&self.notes).filter(|note| note.starts_with(SAID));
        let last = self.notes.last().filter(|note| !note.starts_with(SAID));
        let notes: String = said.chain(last).map(|note| format!(" {note}")).collect();
        format!("- step {}: {calls}.{notes}", self.step)
    }
}

impl Told {
    fn content(&self, action: ActionId, blobs: &BlobCache, limit: u64) -> Result<(String, bool), NotLoaded> {
        Ok(match &self.result {
            None => ("(no result yet)".to_owned(), true),
            Some(Answered::Refused(reason)) => (failure("refused", reason), true),
            Some(Answered::Outcome(outcome)) if outcome.is_ok() => {
                let text = match outcome.data.open(blobs)? {
                    Json::String(text) => text,
                    Json::Null => "done".to_owned(),
                    other => other.to_string(),
                };
                let meaning = outcome.meaning_of_empty.as_deref().map(|meaning| format!("\n({meaning})"));
                let handle = match Control::find(&self.tool) {
                    Some(_) => String::new(),
                    None => format!("@{action}: "),
                };
                (handle + &preview(&text, limit) + &meaning.unwrap_or_default(), false)
            }
            Some(Answered::Outcome(outcome)) => {
                (failure(outcome.code.name(), outcome.error.as_deref().unwrap_or_default()), true)
            }
        })
    }
}

fn failure(code: &str, error: &str) -> String {
    serde_json::json!({ "ok": false, "code": code, "error": error }).to_string()
}

/// The beginning of a text that is too long, with a mark that says so.
pub(super) fn preview(text: &str, limit: u64) -> String {
    if super::estimate(text) <= limit {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut quarters = 0;
    for character in text.chars() {
        quarters += if character.is_ascii() { 1 } else { 4 };
        if quarters > limit * 4 {
            break;
        }
        kept.push(character);
    }
    let (shown, all) = (kept.chars().count(), text.chars().count());
    format!("{kept}\n[cut: {shown} of {all} characters are shown; recall reads on]")
}

fn told_of(found: &LoopFound) -> String {
    let tools = found.tools.join(", ");
    let what = match found.what {
        LoopKind::Repetition => format!("The same call of {tools} brought the same {} times.", found.rounds),
        LoopKind::Cycle => {
            format!("The calls {tools} went round {} times and brought the same each time.", found.rounds)
        }
        LoopKind::Fruitless => format!("{} steps in a row brought nothing new.", found.rounds),
    };
    let then = match found.response {
        Some(Response::Withhold) => " These calls are out of reach from now on.",
        Some(Response::Replan) => " This way is given up.",
        Some(Response::Ask) => " A person is asked.",
        Some(Response::Tell) | None => "",
    };
    format!(
        "{what}{then} Doing it again changes nothing: do something else, wait if time is what is missing, ask a person, or give this way up by `replan`."
    )
}
