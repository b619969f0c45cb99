//! What models of a run may still use, and what happens when the next call doesn't fit in.
//!
//! What may be spent is decided before each call, from what was spent, what calls under way may use, and what calls without an
//! answer may have cost: so a run is never over its budget, whatever becomes of its calls. Resuming changes nothing, since all of it
//! is folded from the records; only a person raises a limit, and that is a record.

use std::collections::BTreeMap;
use std::fmt::Display;

use serde::{Deserialize, Serialize};

use crate::model::{Amount, Money, Usage};
use crate::record::{About, BudgetStaged, BudgetWarned, Event, LimitReached, QuestionAsked};
use crate::task::{Budget, Stage, Task};

use super::{Draft, ModelTotals, RunState};

/// From these shares on, in percent, the model and the hooks are told.
const WARNED_AT: [u8; 2] = [80, 95];

/// What stands before the name of a budget in the name of a limit.
const PREFIX: &str = "budget.";

/// The budget of an account, which a person can't raise for one run.
const PER_DAY: &str = "per_day.";

/// How a run stands with its budgets.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BudgetState {
    /// Stages of `on_exceed` that were taken.
    #[serde(default)]
    pub stages: u32,
    /// The prompt shows the last steps only.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub summary_only: bool,
    /// The model that is asked instead of the usual one, by its position.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
    /// What was last said about each budget that is nearly used up.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub warned: BTreeMap<String, BudgetWarned>,
}

/// A budget into which a call doesn't fit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Over {
    /// `tokens`, `cost_usd`, `per_day.tokens` or `per_day.cost_usd`.
    pub budget: &'static str,
    /// Its limit, for a reader.
    pub limit: String,
    /// What is left of it, for a reader.
    pub left: String,
    /// What the call may use, for a reader.
    pub needed: String,
}

/// What a run may use in all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RunLimit {
    /// Tokens.
    pub tokens: Option<u64>,
    /// Money.
    pub cost: Option<Money>,
}

impl RunState {
    /// What models used so far, calls without a word about use counted with what was reserved for them.
    #[must_use]
    pub fn spent(&self) -> Amount {
        let totals = &self.models;
        Amount { tokens: totals.usage.total(), cost: totals.cost } + totals.estimated
    }

    /// What calls under way may use.
    #[must_use]
    pub fn reserved(&self) -> Amount {
        self.models.reserved.values().copied().sum()
    }

    /// What the run may use in all.
    #[must_use]
    pub fn budget_limit(&self, task: &Task) -> RunLimit {
        let given = |budget: &Budget| (budget.tokens, budget.cost_usd.map(|cost| cost.0));
        let (tokens, cost) = task.budget.as_ref().map_or((None, None), given);
        RunLimit { tokens: self.raised.tokens.or(tokens), cost: self.raised.cost.or(cost) }
    }

    /// Whether a call that may use `needed` fits into the run's budget; if not, into which it doesn't.
    #[must_use]
    pub fn fits(&self, task: &Task, needed: Amount) -> Option<Over> {
        let limit = self.budget_limit(task);
        let used = self.spent() + self.reserved();
        let all = used + needed;
        if let Some(tokens) = limit.tokens.filter(|tokens| all.tokens > *tokens) {
            return Some(over("tokens", tokens, tokens.saturating_sub(used.tokens), needed.tokens));
        }
        limit.cost.filter(|cost| all.cost > *cost).map(|cost| over("cost_usd", cost, cost.less(used.cost), needed.cost))
    }

    /// What is to be said of budgets that are nearly used up, and wasn't yet. `account` is what the account has used today.
    #[must_use]
    pub fn budget_warnings(&self, task: &Task, account: Option<Amount>) -> Vec<Event> {
        let limit = self.budget_limit(task);
        let used = self.spent() + self.reserved();
        let mut found = Vec::new();
        found.extend(limit.tokens.and_then(|limit| self.warning("tokens", used.tokens, limit)));
        found.extend(limit.cost.and_then(|limit| self.money_warning("cost_usd", used.cost, limit)));
        let per_day = task.budget.as_ref().and_then(|budget| budget.per_day).unwrap_or_default();
        if let Some(used) = account {
            found.extend(per_day.tokens.and_then(|limit| self.warning("per_day.tokens", used.tokens, limit)));
            found.extend(per_day.cost_usd.and_then(|limit| self.money_warning("per_day.cost_usd", used.cost, limit.0)));
        }
        found.into_iter().map(Event::BudgetWarned).collect()
    }

    fn warning(&self, budget: &str, used: u64, limit: u64) -> Option<BudgetWarned> {
        let percent = self.to_be_told(budget, used, limit)?;
        Some(warned(budget, percent, used, limit, limit.saturating_sub(used)))
    }

    fn money_warning(&self, budget: &str, used: Money, limit: Money) -> Option<BudgetWarned> {
        let percent = self.to_be_told(budget, used.picodollars, limit.picodollars)?;
        Some(warned(budget, percent, used, limit, limit.less(used)))
    }

    /// The highest share that is reached and wasn't told.
    fn to_be_told(&self, budget: &str, used: u64, limit: u64) -> Option<u8> {
        let told = self.budget.warned.get(budget).map_or(0, |warned| warned.percent);
        let reached = |percent: &u8| u128::from(used) * 100 >= u128::from(limit) * u128::from(*percent);
        WARNED_AT.into_iter().rev().find(reached).filter(|percent| *percent > told)
    }

    /// The share that is used of a budget of the run that is nearly used up, a line each for the model.
    #[must_use]
    pub fn budget_lines(&self, task: &Task) -> Vec<String> {
        let limit = self.budget_limit(task);
        let used = self.spent() + self.reserved();
        let mut lines = Vec::new();
        let near = |used: u64, limit: u64| {
            let share = u128::from(used) * 100;
            WARNED_AT.map(|percent| share >= u128::from(limit) * u128::from(percent))
        };
        let mut tell = |near: [bool; 2], line: String| {
            if near[0] {
                let end = if near[1] { " The end is near: bring what matters to an end now." } else { "" };
                lines.push(format!("{line}{end}"));
            }
        };
        if let Some(limit) = limit.tokens {
            let left = limit.saturating_sub(used.tokens);
            tell(near(used.tokens, limit), format!("Tokens left: {left} of {limit}."));
        }
        if let Some(limit) = limit.cost {
            let left = limit.less(used.cost);
            tell(near(used.cost.picodollars, limit.picodollars), format!("Money left: {left} of {limit}."));
        }
        for (budget, warned) in self.budget.warned.iter().filter(|(budget, _)| budget.starts_with(PER_DAY)) {
            lines.push(format!("Left of {budget} for all runs of the account: {} of {}.", warned.left, warned.limit));
        }
        lines
    }

    /// What is done about a call that doesn't fit: the next stage. `cheaper` is the position of a model that costs less than the one
    /// that is asked now.
    #[must_use]
    pub fn exceed(&self, task: &Task, over: &Over, cheaper: Option<u32>) -> Vec<Draft> {
        let stages = task.budget.as_ref().map_or(&[][..], |budget| &budget.on_exceed);
        let mut next = (1..).zip(stages.iter().copied()).skip(self.budget.stages as usize);
        // Nobody can grant for one run what the account of many has used up.
        let (taken, stage) = next
            .find(|(_, stage)| *stage != Stage::SemiManual || !over.is_per_day())
            .unwrap_or((u32::try_from(stages.len()).unwrap_or(u32::MAX), Stage::Stop));
        let reason = format!(
            "the next call may use {}, and of the {} of `{}` {} are left",
            over.needed, over.limit, over.budget, over.left
        );
        let staged = BudgetStaged {
            stage,
            budget: over.budget.to_owned(),
            stages: taken,
            reason,
            model: cheaper.filter(|_| stage == Stage::SmallerModel),
        };
        let mut drafts = vec![Draft::from(Event::BudgetStaged(staged))];
        let reached = LimitReached { limit: format!("{PREFIX}{}", over.budget), value: over.limit.clone() };
        match stage {
            Stage::SummaryOnly | Stage::SmallerModel => {}
            Stage::SemiManual => {
                let question = format!(
                    "The run has used up `{}` ({}; {} are left, the next call may use {}). Continue with as much again, or abort?",
                    reached.limit, over.limit, over.left, over.needed
                );
                drafts.push(Event::LimitReached(reached).into());
                let asked = QuestionAsked { branch: None, action: None, about: About::Limit, question };
                drafts.push(Event::QuestionAsked(asked).into());
            }
            Stage::Stop => drafts.push(Event::LimitReached(reached).into()),
        }
        drafts
    }

    /// Whether the run was stopped, or a person is asked, since a budget is used up: then no model is asked.
    #[must_use]
    pub fn is_out_of_budget(&self) -> bool {
        self.stopped.as_ref().is_some_and(|stopped| stopped.limit.starts_with(PREFIX))
    }

    /// A budget that a person raises is a new one: all stages are taken back.
    pub(super) fn budget_raised(&mut self) {
        self.budget = BudgetState::default();
    }

    /// What holds from a stage on.
    pub(super) fn staged(&mut self, event: &BudgetStaged) {
        self.budget.stages = event.stages;
        match event.stage {
            Stage::SummaryOnly => self.budget.summary_only = true,
            Stage::SmallerModel => self.budget.model = event.model.or(self.budget.model),
            Stage::SemiManual | Stage::Stop => {}
        }
    }

    /// Somebody looks at the account anew: its day may be another.
    pub(super) fn look_at_account_anew(&mut self) {
        let per_day = |limit: &str| limit.strip_prefix(PREFIX).is_some_and(|budget| budget.starts_with(PER_DAY));
        if self.stopped.as_ref().is_some_and(|stopped| per_day(&stopped.limit)) {
            self.stopped = None;
            self.budget_raised();
        }
    }
}

impl ModelTotals {
    pub(super) fn called(&mut self, call: u32, reserved: Option<Amount>) {
        if let Some(reserved) = reserved {
            self.reserved.insert(call, reserved);
        }
    }

    /// Counts what a call used. Where its provider didn't say, what was reserved for it counts.
    pub(super) fn count(&mut self, call: u32, usage: &Usage, cost: Option<Money>) {
        let reserved = self.reserved.remove(&call).unwrap_or_default();
        self.usage = self.usage.plus(usage);
        if !usage.is_known() {
            self.estimated.tokens += reserved.tokens.saturating_sub(usage.total());
        }
        match cost {
            Some(cost) => self.cost += cost,
            None => {
                self.unpriced += 1;
                self.estimated.cost += reserved.cost;
            }
        }
    }

    /// A call without a reply: `usage` is there when it may be billed all the same.
    pub(super) fn failed(&mut self, call: u32, usage: Option<&Usage>, cost: Option<Money>) {
        match usage {
            Some(usage) => self.count(call, usage, cost),
            None => drop(self.reserved.remove(&call)),
        }
    }

    /// Nobody will ever know what calls under way used: what was reserved for them counts.
    pub(super) fn lose(&mut self) {
        let lost: Amount = std::mem::take(&mut self.reserved).into_values().sum();
        self.estimated += lost;
    }
}

impl Over {
    /// An account's day into which a call doesn't fit, if it is so.
    #[must_use]
    pub fn of_day(task: &Task, used: Amount, needed: Amount) -> Option<Self> {
        let per_day = task.budget.as_ref()?.per_day?;
        let all = used + needed;
        if let Some(limit) = per_day.tokens.filter(|limit| all.tokens > *limit) {
            return Some(over("per_day.tokens", limit, limit.saturating_sub(used.tokens), needed.tokens));
        }
        let limit = per_day.cost_usd.filter(|limit| all.cost > limit.0)?.0;
        Some(over("per_day.cost_usd", limit, limit.less(used.cost), needed.cost))
    }

    /// Whether it is of an account's day.
    #[must_use]
    pub fn is_per_day(&self) -> bool {
        self.budget.starts_with(PER_DAY)
    }
}

/// What a call did use: as its provider says, and where that isn't known, what was reserved for it.
#[must_use]
pub fn used(usage: &Usage, cost: Option<Money>, reserved: Amount) -> Amount {
    let tokens = if usage.is_known() { usage.total() } else { reserved.tokens.max(usage.total()) };
    Amount { tokens, cost: cost.unwrap_or(reserved.cost) }
}

fn over(budget: &'static str, limit: impl Display, left: impl Display, needed: impl Display) -> Over {
    Over { budget, limit: limit.to_string(), left: left.to_string(), needed: needed.to_string() }
}

fn warned(budget: &str, percent: u8, used: impl Display, limit: impl Display, left: impl Display) -> BudgetWarned {
    let (used, limit, left) = (used.to_string(), limit.to_string(), left.to_string());
    BudgetWarned { budget: budget.to_owned(), percent, used, limit, left }
}
