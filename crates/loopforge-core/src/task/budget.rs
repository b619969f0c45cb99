//! The `budget` block of a task: what its models may use, and what happens past it.

use std::borrow::Cow;
use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::model::{Money, Price};

/// What the models of a task may use in a run, and its account in a day.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// Tokens of input and output together, in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money, in a run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
    /// Whose budget of the day it goes to. All runs of all tasks that name it share it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<String>,
    /// What the account may use in a day, from midnight to midnight in UTC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_day: Option<PerDay>,
    /// What models cost, by `provider/name`, in the place of the prices that are known.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub prices: BTreeMap<String, ModelPrice>,
    /// What is done, one after the other, each time that the next call of a model doesn't fit in. The last one is always `stop`.
    #[serde(default = "usual_stages")]
    pub on_exceed: Vec<Stage>,
}

/// What an account may use in a day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PerDay {
    /// Tokens of input and output together.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<u64>,
    /// Money.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_usd: Option<Usd>,
}

/// What a model costs: US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelPrice {
    /// Input that was not in the cache.
    pub input: Usd,
    /// Input read from the cache; as `input` where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_input: Option<Usd>,
    /// Input written to the cache; as `input` where none is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<Usd>,
    /// Output, reasoning included.
    pub output: Usd,
}

impl ModelPrice {
    /// As it is reckoned with.
    #[must_use]
    pub fn price(&self) -> Price {
        Price {
            input: self.input.0,
            cached_input: self.cached_input.map(|price| price.0),
            cache_write: self.cache_write.map(|price| price.0),
            output: self.output.0,
            long: None,
        }
    }
}

/// What is done when the next call of a model doesn't fit into a budget (R61).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// The model decides from the last steps, and a line for each one before.
    SummaryOnly,
    /// A cheaper model is asked: the next one of `fallback` that costs less, else the `summarizer`.
    SmallerModel,
    /// A person is asked; going on grants as much again.
    SemiManual,
    /// The run stops with a checkpoint.
    Stop,
}

impl Stage {
    /// The word, as a task file has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SummaryOnly => "summary_only",
            Self::SmallerModel => "smaller_model",
            Self::SemiManual => "semi_manual",
            Self::Stop => "stop",
        }
    }
}

/// The stages of a task that names none: nobody waits for an answer, and nothing stops that could go on for less.
#[must_use]
pub fn usual_stages() -> Vec<Stage> {
    vec![Stage::SummaryOnly, Stage::SmallerModel, Stage::Stop]
}

impl Budget {
    /// Whether it limits money.
    #[must_use]
    pub fn limits_money(&self) -> bool {
        self.cost_usd.is_some() || self.per_day.is_some_and(|per_day| per_day.cost_usd.is_some())
    }
}

/// An amount of US dollars in a task file: `5`, `2.50` or `"2.50usd"`, exact.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Usd(pub Money);

impl Serialize for Usd {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match serde_json::Value::deserialize(deserializer)? {
            serde_json::Value::String(text) => text,
            // The shortest digits that give this number, which are those that somebody wrote.
            other => other.to_string(),
        };
        Money::parse(&text).map(Self).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Usd {
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": ["number", "string"], "description": "US dollars: 5, 2.50 or \"2.50usd\"." })
    }
}
