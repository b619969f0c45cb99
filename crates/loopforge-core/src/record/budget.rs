//! Events of budgets: what is nearly used up, and what is done once it is.

use serde::{Deserialize, Serialize};

use crate::task::Stage;

/// Of [`super::Event::BudgetWarned`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetWarned {
    /// `tokens`, `cost_usd`, `per_day.tokens` or `per_day.cost_usd`.
    pub budget: String,
    /// The share of it that is used or reserved: this many percent, or more.
    pub percent: u8,
    /// What is used or reserved, for a reader.
    pub used: String,
    /// The limit, for a reader.
    pub limit: String,
    /// What is left, for a reader.
    pub left: String,
}

/// Of [`super::Event::BudgetStaged`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BudgetStaged {
    /// What is done from now on.
    pub stage: Stage,
    /// The budget into which the next call didn't fit, as in [`BudgetWarned`].
    pub budget: String,
    /// Stages of `on_exceed` that are taken with it.
    pub stages: u32,
    /// Of what there was too little, in a sentence.
    pub reason: String,
    /// The position of the model that is asked from now on, where that is another. None of a `smaller_model` for which there is no
    /// cheaper one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<u32>,
}
