//! The `model` block of a task: which models think for it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::json::Json;
use crate::model::Api;

/// The models of a task. `model: provider/name` alone is enough; the rest has defaults.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelSpec {
    /// `provider/name`: `openai/gpt-5-mini`, `anthropic/claude-haiku-4-5`, `script/rules.yaml`, ...
    #[serde(rename = "use")]
    pub name: String,
    /// Where the provider is reached, when not at its usual address. `${env.NAME}` is replaced.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// The environment variable with the key. The key itself never stands in a task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
    /// How it is spoken to, when not as the provider's name says: `chat` for a name of your own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api: Option<Api>,
    /// Headers sent along. `${env.NAME}` is replaced.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// Members that replace those of each request's body; `null` takes one out. For servers that are particular.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub body: BTreeMap<String, Json>,
    /// Tokens that the model can take in and write, together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens that a prompt may have, when that is less than the window: 32,000 when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_budget: Option<u64>,
    /// 0 for the likeliest answer. Absent: the provider's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f32>,
    /// Models to ask, in order, when the one before can't be had.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fallback: Vec<String>,
    /// What happens at a model's limits of use.
    #[serde(default, skip_serializing_if = "is_default")]
    pub on_limit: OnLimit,
    /// The model that summarises and judges, when that is another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub summarizer: Option<String>,
}

/// What happens when a model's limits of use are exhausted (R74).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnLimit {
    /// The limit is waited out, as long as the provider says, and the run goes on by itself.
    #[default]
    Wait,
    /// The next model of `fallback` is asked.
    Fallback,
}

/// How a task is planned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// A planner makes the subgoals, or amends those that the task has, when a way fails.
    #[default]
    PlanExecute,
    /// The model goes step by step, without a planner.
    React,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

impl ModelSpec {
    /// The tokens that a prompt may have when the task says nothing. Source: DESIGN, prompt and memory: a window of a million tokens is no
    /// reason to pay for it at every step.
    pub const CONTEXT_BUDGET: u64 = 32_000;

    /// The models in the order in which they are asked.
    pub fn chain(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.name.as_str()).chain(self.fallback.iter().map(String::as_str))
    }

    /// The tokens that a prompt may have.
    #[must_use]
    pub fn budget(&self) -> u64 {
        let wished = self.context_budget.unwrap_or(Self::CONTEXT_BUDGET);
        self.context_window.map_or(wished, |window| window.min(wished))
    }
}
