//! What is drawn: made from a run's records.

use std::collections::{BTreeMap, HashMap};

use loopforge_core::id::{BranchId, RunId, Seq, StepNo};
use loopforge_core::record::{ActionId, Event, OutcomeSource, Record, Route, Verdict};
use loopforge_core::run::SubgoalStatus;
use loopforge_core::time::Timestamp;
use loopforge_core::tool::{Code, Effect};
use loopforge_store::Store;

use crate::commands::summary::route;
use crate::error::CliError;
use crate::view::{Archive, Place, View, glance};

/// A run as it is drawn.
pub(super) struct Picture {
    pub(super) run: RunId,
    pub(super) name: String,
    pub(super) status: &'static str,
    pub(super) subgoals: Vec<Subgoal>,
    pub(super) problems: Vec<String>,
}

/// A subgoal.
pub(super) struct Subgoal {
    pub(super) id: String,
    pub(super) status: &'static str,
    pub(super) needs: Vec<String>,
    /// Items of its list, where it has one.
    pub(super) of: Option<u32>,
    pub(super) reason: Option<String>,
    /// By position; one without a position where there is no list.
    pub(super) items: BTreeMap<Option<u32>, Item>,
}

/// An item of a list, or a subgoal's only part.
#[derive(Default)]
pub(super) struct Item {
    pub(super) label: String,
    pub(super) steps: Vec<Step>,
}

/// A step.
pub(super) struct Step {
    pub(super) step: StepNo,
    pub(super) actions: Vec<Action>,
    /// None while it is open.
    pub(super) verdict: Option<Verdict>,
    pub(super) waits_until: Option<Timestamp>,
    pub(super) question: Option<String>,
}

/// An action.
pub(super) struct Action {
    pub(super) id: ActionId,
    pub(super) tool: String,
    pub(super) effect: Effect,
    pub(super) tries: u32,
    pub(super) end: End,
}

/// How an action ended.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// It hasn't.
    Open,
    /// It isn't known whether it took effect.
    Unknown,
    /// The gateway refused it.
    Refused(Code),
    /// It came to an outcome.
    Finished(Code, OutcomeSource),
}

impl End {
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Unknown => "unknown",
            Self::Refused(code) | Self::Finished(code, _) => code.name(),
        }
    }

    pub(super) fn went_well(self) -> bool {
        matches!(self, Self::Finished(Code::Success, _))
    }
}

impl Item {
    /// The word for where it stands.
    pub(super) fn status(&self) -> &'static str {
        match self.steps.last().map(Step::route) {
            None | Some(None | Some(Route::Continue | Route::Correct | Route::Replan)) => "active",
            Some(Some(Route::BranchDone)) => "done",
            Some(Some(Route::Defer { .. })) => "set aside",
            Some(Some(Route::GiveUp)) => "given up",
            Some(Some(Route::Person)) => "waiting",
            Some(Some(Route::Fail)) => "failed",
        }
    }

    /// Whether there is nothing to be said of it: done, at the first try of everything.
    pub(super) fn is_plain(&self) -> bool {
        self.status() == "done"
            && self.steps.iter().all(|step| {
                matches!(step.route(), Some(Route::Continue | Route::BranchDone))
                    && step.actions.iter().all(|action| action.tries <= 1 && action.end.went_well())
            })
    }
}

impl Step {
    /// The step in a box: its number, its tools with their outcomes, and where it led if not simply on.
    pub(super) fn label(&self) -> String {
        let mut label = format!("step {}", self.step);
        for action in &self.actions {
            let tries = if action.tries > 1 { format!(" ({} tries)", action.tries) } else { String::new() };
            label.push_str(&format!(", {}: {}{tries}", action.tool, action.end.word()));
        }
        match self.route() {
            Some(Route::Continue | Route::BranchDone) => {}
            Some(led) => label.push_str(&format!(": {}", route(&led))),
            None => label.push_str(": open"),
        }
        label
    }

    /// Where its verdict led.
    pub(super) fn route(&self) -> Option<Route> {
        self.verdict.as_ref().map(|verdict| verdict.route)
    }
}

/// The items of a subgoal that are drawn, in order.
pub(super) struct Chosen<'a> {
    pub(super) items: Vec<(Option<u32>, &'a Item)>,
    /// How many of which status are not drawn.
    left_out: BTreeMap<&'static str, usize>,
}

impl Chosen<'_> {
    /// What is not drawn, in words.
    pub(super) fn rest(&self) -> Option<String> {
        let counts: Vec<String> = self.left_out.iter().map(|(word, count)| format!("{count} {word}")).collect();
        let all: usize = self.left_out.values().sum();
        (all > 0).then(|| format!("{all} more items: {}", counts.join(", ")))
    }
}

impl Subgoal {
    /// Chooses at most `most` items to be drawn.
    pub(super) fn chosen(&self, most: usize) -> Chosen<'_> {
        let mut items: Vec<(Option<u32>, &Item)> = self.items.iter().map(|(at, item)| (*at, item)).collect();
        let mut left_out = BTreeMap::new();
        if items.len() > most {
            // What went well says the least.
            items.sort_by_key(|(at, item)| (item.is_plain(), *at));
            for (_, item) in items.drain(most..) {
                *left_out.entry(item.status()).or_default() += 1;
            }
            items.sort_by_key(|(at, _)| *at);
        }
        Chosen { items, left_out }
    }
}

/// Makes the picture of a run.
pub(super) async fn picture(store: &dyn Store, view: &View) -> Result<Picture, CliError> {
    let info = &view.info;
    let mut builder = Builder {
        picture: Picture {
            run: info.id,
            name: info.name.clone(),
            status: view.status(),
            subgoals: Vec::new(),
            problems: view.problems.clone(),
        },
        open: HashMap::new(),
    };
    if let Some(task) = &view.task {
        for subgoal in &task.subgoals {
            builder.subgoal(&subgoal.id).needs.clone_from(&subgoal.needs);
        }
    }
    let mut archive = Archive::new(store, info.id, Seq(0), info.head);
    while let Some(page) = archive.next().await? {
        for place in page {
            match place {
                Place::Record(record) => builder.take(&record),
                Place::Unreadable { seq, problem } => {
                    builder.picture.problems.push(format!("record {seq} is not drawn: {problem}"));
                }
            }
        }
    }
    Ok(builder.picture)
}

struct Builder {
    picture: Picture,
    /// Where the last step of a branch is: subgoal, item, step.
    open: HashMap<BranchId, (usize, Option<u32>, usize)>,
}

impl Builder {
    fn subgoal(&mut self, id: &str) -> &mut Subgoal {
        let subgoals = &mut self.picture.subgoals;
        let at = subgoals.iter().position(|subgoal| subgoal.id == id).unwrap_or_else(|| {
            subgoals.push(Subgoal {
                id: id.to_owned(),
                status: SubgoalStatus::Pending.name(),
                needs: Vec::new(),
                of: None,
                reason: None,
                items: BTreeMap::new(),
            });
            subgoals.len() - 1
        });
        &mut subgoals[at]
    }

    fn step(&mut self, branch: BranchId) -> Option<&mut Step> {
        let (subgoal, item, step) = *self.open.get(&branch)?;
        self.picture.subgoals[subgoal].items.get_mut(&item)?.steps.get_mut(step)
    }

    fn action(&mut self, branch: BranchId, id: ActionId) -> Option<&mut Action> {
        self.step(branch)?.actions.iter_mut().find(|action| action.id == id)
    }

    fn end(&mut self, branch: BranchId, id: ActionId, tries: u32, end: End) {
        if let Some(action) = self.action(branch, id) {
            action.tries = action.tries.max(tries);
            action.end = end;
        }
    }

    fn take(&mut self, record: &Record) {
        match &record.event {
            Event::SubgoalStarted(event) => {
                let subgoal = self.subgoal(&event.subgoal);
                subgoal.status = SubgoalStatus::Active.name();
                subgoal.of = event.list.as_ref().map(|list| list.count);
            }
            Event::SubgoalEnded(event) => {
                let subgoal = self.subgoal(&event.subgoal);
                subgoal.status = SubgoalStatus::Ended(event.outcome).name();
                subgoal.reason = Some(event.reason.clone());
            }
            Event::StepStarted(event) => {
                let subgoal = self.subgoal(&event.subgoal);
                let item = subgoal.items.entry(event.item).or_default();
                if let Some(input) = &event.input {
                    item.label = glance(input, 60);
                }
                item.steps.push(Step {
                    step: event.step,
                    actions: Vec::new(),
                    verdict: None,
                    waits_until: None,
                    question: None,
                });
                let step = item.steps.len() - 1;
                let at = self.picture.subgoals.iter().position(|subgoal| subgoal.id == event.subgoal);
                if let Some(at) = at {
                    self.open.insert(event.branch, (at, event.item, step));
                }
            }
            Event::ActionDecided(event) => {
                let action =
                    Action { id: event.id, tool: event.tool.clone(), effect: event.effect, tries: 0, end: End::Open };
                if let Some(step) = self.step(event.branch) {
                    step.actions.push(action);
                }
            }
            Event::ActionRefused(event) => self.end(event.branch, event.id, 0, End::Refused(event.code)),
            Event::ActionStarted(event) => self.end(event.branch, event.id, event.attempt, End::Open),
            Event::AttemptFailed(event) => self.end(event.branch, event.id, event.attempt, End::Open),
            Event::ActionUnknown(event) => self.end(event.branch, event.id, 0, End::Unknown),
            Event::ActionNotHappened(event) => self.end(event.branch, event.id, 0, End::Open),
            Event::ActionFinished(event) => {
                let end = End::Finished(event.result.code, event.source);
                self.end(event.branch, event.id, event.attempt, end);
            }
            Event::WaitStarted(event) => {
                if let Some(step) = self.step(event.branch) {
                    step.waits_until = Some(event.until);
                }
            }
            Event::QuestionAsked(event) => {
                if let Some(step) = event.branch.and_then(|branch| self.step(branch)) {
                    step.question = Some(event.question.clone());
                }
            }
            Event::QuestionAnswered(event) => {
                if let Some(step) = event.branch.and_then(|branch| self.step(branch)) {
                    step.question = None;
                }
            }
            Event::StepEvaluated(event) => {
                if let Some(step) = self.step(event.branch) {
                    step.verdict = Some(event.verdict.clone());
                }
            }
            _ => {}
        }
    }
}
