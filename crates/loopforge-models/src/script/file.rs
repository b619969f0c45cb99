//! The script file.

use std::collections::BTreeMap;
use std::time::Duration;

use loopforge_core::expression::{Expression, ROOTS, Template};
use loopforge_core::model::{ErrorKind, ModelError, StopReason, Usage};
use loopforge_core::time::Span;
use regex::Regex;
use serde::{Deserialize, Deserializer};

use super::play::NAMES;

/// A list of rules. The first one that fits answers.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Script {
    /// The rules, in the order in which they are tried.
    pub rules: Vec<Rule>,
}

/// What is answered, and when.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// For messages about it.
    #[serde(default)]
    pub name: Option<String>,
    /// When it fits. Always, where nothing is said.
    #[serde(default)]
    pub when: When,
    /// How often it fits at most, in a process.
    #[serde(default)]
    pub times: Option<u32>,
    /// Lists of what a pattern finds in the conversation, without repetitions: group 1 where there is one.
    #[serde(default)]
    pub find: BTreeMap<String, Pattern>,
    /// Values of expressions, under names.
    #[serde(default, rename = "let")]
    pub values: BTreeMap<String, Expression>,
    /// The answer, in order.
    #[serde(default)]
    pub reply: Vec<Part>,
    /// Why it stops; by what it says, where nothing is given.
    #[serde(default)]
    pub stop: Option<StopReason>,
    /// What it says of use; an estimate from the size, where nothing is given.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// The wait before the answer.
    #[serde(default)]
    pub delay: Option<Span>,
    /// What goes wrong.
    #[serde(default)]
    pub fault: Option<Fault>,
}

/// When a rule fits: all that is given must hold. Named groups of patterns become names for expressions.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct When {
    /// The turn: 1 before the model has said anything.
    #[serde(default)]
    pub turn: Option<u32>,
    /// In the last message, whoever wrote it.
    #[serde(default)]
    pub text: Option<Pattern>,
    /// In the last message of the user.
    #[serde(default)]
    pub user: Option<Pattern>,
    /// In the system text.
    #[serde(default)]
    pub system: Option<Pattern>,
    /// Anywhere in the conversation, results included.
    #[serde(default)]
    pub conversation: Option<Pattern>,
    /// The last results are of a call of this tool, alone or among others.
    #[serde(default)]
    pub after: Option<String>,
    /// The tool is offered.
    #[serde(default)]
    pub offered: Option<String>,
    /// An expression that must hold. It sees names of patterns, of `find` and of `let`.
    #[serde(default, rename = "if")]
    pub condition: Option<Expression>,
}

/// A regular expression.
#[derive(Debug, Clone)]
pub struct Pattern(pub Regex);

impl<'de> Deserialize<'de> for Pattern {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Regex::new(&text).map(Self).map_err(|error| serde::de::Error::custom(last_line(&error)))
    }
}

/// The parser's error draws over several lines; the last one says what is wrong.
fn last_line(error: &regex::Error) -> String {
    let text = error.to_string();
    let line = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
    format!("not a regular expression: {line}")
}

/// A part of an answer.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub enum Part {
    /// Text. `${ expression }` is replaced.
    Say {
        /// The text.
        say: Template,
    },
    /// Reasoning, which comes back as a block that is kept.
    Think {
        /// The text.
        think: Template,
    },
    /// A call with arguments.
    Call {
        /// The tool.
        call: String,
        /// Its arguments. `${ expression }` is replaced.
        #[serde(default = "no_arguments")]
        with: Template,
        /// The id, where a certain one is wanted; else the adapter's rule for missing ids gives one.
        #[serde(default)]
        id: Option<String>,
    },
    /// A call with arguments as text, which need be no JSON.
    Raw {
        /// The tool.
        call: String,
        /// The text of its arguments.
        raw: String,
        /// The id, where a certain one is wanted.
        #[serde(default)]
        id: Option<String>,
    },
}

fn no_arguments() -> Template {
    Template::compile(loopforge_core::json::Json::Object(serde_json::Map::new()))
        .unwrap_or_else(|_| unreachable!("an empty map has no expressions"))
}

/// What goes wrong.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The provider refuses.
    Error(FaultError),
    /// The answer breaks off before its end.
    Cut,
    /// Nothing comes.
    Silent,
}

/// An error of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultError {
    /// Its kind: `rate_limited`, `overloaded`, `context_too_long`, ...
    pub kind: ErrorKind,
    /// What it says.
    #[serde(default)]
    pub message: Option<String>,
    /// The wait that it asks for.
    #[serde(default)]
    pub retry_after: Option<Span>,
}

impl FaultError {
    /// As an error of a call.
    #[must_use]
    pub fn to_error(&self) -> ModelError {
        let message = self.message.clone().unwrap_or_else(|| format!("the script says: {}", self.kind));
        ModelError::new(self.kind, message).retry_after(self.retry_after.map(|span| span.0))
    }
}

impl Script {
    /// Reads a script: YAML or JSON.
    ///
    /// # Errors
    /// A sentence with the place and what is wrong.
    pub fn read(text: &str) -> Result<Self, String> {
        let script: Self = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
        for (place, rule) in script.rules.iter().enumerate() {
            rule.check().map_err(|problem| format!("{}: {problem}", rule.title(place)))?;
        }
        Ok(script)
    }
}

impl Rule {
    /// Its name, or its place for people.
    pub(super) fn title(&self, place: usize) -> String {
        self.name.clone().unwrap_or_else(|| format!("rule {}", place + 1))
    }

    pub(super) fn delay(&self) -> Duration {
        self.delay.map_or(Duration::ZERO, |span| span.0)
    }

    /// Names are known before a request comes: a wrong one is a mistake of the file.
    fn check(&self) -> Result<(), String> {
        let mut known: Vec<&str> = NAMES.to_vec();
        for pattern in self.when.patterns() {
            known.extend(pattern.0.capture_names().flatten());
        }
        known.extend(self.find.keys().map(String::as_str));
        if let Some(name) = known.iter().find(|name| ROOTS.contains(name)) {
            return Err(format!("`{name}` can't be a name here"));
        }
        let check = |expression: &Expression, known: &[&str]| match expression
            .names()
            .iter()
            .find(|name| !known.contains(&name.as_str()))
        {
            Some(name) => Err(format!("`{expression}` reads `{name}`, which is not known here")),
            None => Ok(()),
        };
        for expression in self.values.values() {
            check(expression, &known)?;
        }
        known.extend(self.values.keys().map(String::as_str));
        if let Some(expression) = &self.when.condition {
            check(expression, &known)?;
        }
        for part in &self.reply {
            let template = match part {
                Part::Say { say: template } | Part::Think { think: template } | Part::Call { with: template, .. } => {
                    template
                }
                Part::Raw { .. } => continue,
            };
            for expression in template.expressions() {
                check(expression, &known)?;
            }
        }
        Ok(())
    }
}

impl When {
    pub(super) fn patterns(&self) -> impl Iterator<Item = &Pattern> {
        [&self.text, &self.user, &self.system, &self.conversation].into_iter().flatten()
    }
}
