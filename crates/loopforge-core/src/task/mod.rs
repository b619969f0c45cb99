//! The task file: what to do, with which tools, within which limits.
//!
//! [`Task`] is the whole schema; parts whose mechanism is not built yet are refused by name, never ignored. [`read()`] turns a text
//! into a checked task, or into a list of problems that each say the place and the remedy.

mod budget;
mod check;
mod decode;
mod facts;
mod hook;
pub mod inputs;
mod model;
mod not_available;
mod problem;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod text;
mod tree;

pub use budget::{Budget, ModelPrice, PerDay, Stage, Usd, usual_stages};
pub use facts::{FACTS, Fact};
pub use hook::{Hook, HookAction, HookEvent};
pub use model::{Mode, ModelSpec, OnLimit};
pub use not_available::{NOT_AVAILABLE, NotAvailable};
pub use problem::{Problem, ProblemCode, Problems, Snippet};
pub use read::{Builtin, Catalog, MAX_TASK_BYTES, read, read_bytes, read_stored, too_large};
pub use schema::json_schema;

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::expression::{Expression, Template};
use crate::json::Json;
use crate::time::Span;
use crate::tool::Effect;

/// A task: the definition of which a run is one execution.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// A short name, used in file names: letters, digits, `-`, `_`, `.`.
    pub name: String,
    /// What is to be reached, in the user's words.
    pub goal: String,
    /// What a run is given, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub inputs: BTreeMap<String, Input>,
    /// The models that plan and act. Needed by subgoals without `steps`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<ModelSpec>,
    /// The tools that a run can reach, by the name under which subgoals call them. Nothing else can be reached.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, ToolSpec>,
    /// The parts of the goal, in the order in which they are shown. Without them the goal is worked on as a whole.
    #[serde(default)]
    pub subgoals: Vec<Subgoal>,
    /// Limits and habits of the loop.
    #[serde(default, rename = "loop")]
    pub limits: Limits,
    /// What its models may use, and what happens past it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// When the task has succeeded.
    #[serde(default)]
    pub evaluator: Evaluator,
    /// The business lifecycle, where the task has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<Lifecycle>,
    /// What is told to whom.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub hooks: Vec<Hook>,
}

/// Where the value of an input comes from when a run isn't given one. At most one of `lines`, `text`, `json`, `value`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Input {
    /// A text file: the list of its lines, without blank ones and those that begin with `#`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lines: Option<String>,
    /// A text file: its content.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// A JSON file: its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub json: Option<String>,
    /// The value itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Json>,
    /// For whoever starts the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}

/// A tool as the task uses it: where it comes from, and what the task tightens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ToolSpec {
    /// The name of a built-in tool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub builtin: Option<String>,
    /// A program and its arguments. Arguments of a call go to its standard input as JSON; `{name}` in an argument is replaced by
    /// that argument of the call. Its standard output is the result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<Vec<String>>,
    /// One sentence for whoever plans with it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments, on top of the tool's own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema: Option<Json>,
    /// JSON Schema that `data` of a result must fulfil; a result that doesn't is `malformed_output`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<Json>,
    /// Whether a call changes the world. A process is a write unless this says `read`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// A repeated call with the same step token changes nothing more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotent: Option<bool>,
    /// The arguments that identify the effect: the same effect is made once in a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub effect_key: Vec<String>,
    /// How identifiers in its arguments look, by kind, as regular expressions. Each that occurs there must occur in a result or an input
    /// of this run, or the call is refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub grounded: BTreeMap<String, String>,
    /// How to ask whether an effect happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// Must hold before each call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub requires: Option<Expression>,
    /// Arguments that every call gets, unless it gives its own.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Template>,
    /// Time limit of a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Span>,
    /// Tries and waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry: Option<Retry>,
    /// Calls per subgoal that somebody decides freely; calls bounded by a list don't count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_calls: Option<u32>,
    /// How many calls may run at once in this run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub concurrency: Option<u32>,
    /// How long the answer of a read stays good: the same call within it is answered from the archive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache: Option<Span>,
    /// JSON pointers into a result's `data` of values that matter verbatim.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub key_fields: Vec<String>,
    /// JSON pointers into a result's `data` of parts that change with every call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volatile: Vec<String>,
    /// What an empty answer means.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub meaning_of_empty: Option<String>,
    /// Hosts that a network tool may reach: `shop.example`, `*.example.com`, `127.0.0.1:*`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allow: Vec<String>,
    /// What a process may reach.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sandbox: Option<Sandbox>,
}

/// How to ask whether an effect happened: another tool of this task, or a process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Status {
    /// The name of a tool. It gets the call's arguments and `step_token`, and answers `{ "happened": true | false, "result": ... }`
    /// or with the code `not_found`.
    Tool(String),
    /// A process that is asked in the same way.
    Process(StatusProcess),
}

/// A process that tells whether an effect happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StatusProcess {
    /// Program and arguments.
    pub process: Vec<String>,
}

/// Tries and waits of a tool.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Retry {
    /// Tries in all, the first included.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_attempts: Option<u32>,
    /// The waits between tries; the last one holds for all further.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backoff: Option<Vec<Span>>,
    /// The longest wait that a target may ask for within a call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest_wait: Option<Span>,
}

/// What a process may reach.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Sandbox {
    /// `sandbox: off`.
    Switch(SandboxSwitch),
    /// Grants.
    Grants(Grants),
}

/// `off` lets a process reach what LoopForge itself can.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SandboxSwitch {
    /// No sandbox.
    Off,
}

/// What a sandboxed process may reach; nothing else. Paths are relative to the task file.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Paths that it may read, besides the system's programs and libraries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    /// Paths that it may read and write, besides the run's workspace.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    /// The network: `none` or `any`.
    #[serde(default)]
    pub net: Net,
    /// Names of environment variables that it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<String>,
    /// Megabytes of address space.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_mb: Option<u64>,
    /// Seconds of processor time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cpu_s: Option<u64>,
}

/// What of the network a process may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Net {
    /// Nothing.
    #[default]
    None,
    /// Everything that the host can reach.
    Any,
}

/// A part of the goal.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Subgoal {
    /// Its name: letters, digits and `_`, so that expressions can say `subgoals.ID`.
    pub id: String,
    /// What is to be reached, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub goal: Option<String>,
    /// The subgoals that must be done before.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub needs: Vec<String>,
    /// Must hold, besides its steps having ended, for it to be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done_when: Option<Expression>,
    /// When false once its needs are met, the subgoal is skipped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// The tools that it may call, of those that the task lists. All when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tools: Option<Vec<String>>,
    /// Repeats the steps for each item of a list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub foreach: Option<ForEach>,
    /// What is done, in order. A subgoal with steps is a workflow and needs no model; without them, a model decides each call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Entry>,
    /// What happens when a step fails for good. `fail` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_failure: Option<OnFailure>,
}

impl Subgoal {
    /// The goal of a task that names no subgoals.
    #[must_use]
    pub fn whole(goal: &str) -> Self {
        Self {
            id: "goal".to_owned(),
            goal: Some(goal.to_owned()),
            needs: Vec::new(),
            done_when: None,
            when: None,
            tools: None,
            foreach: None,
            steps: Vec::new(),
            on_failure: None,
        }
    }

    /// Whether a model decides what is done.
    #[must_use]
    pub fn is_agent(&self) -> bool {
        self.steps.is_empty()
    }
}

/// Repetition over a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ForEach {
    /// The list. It is read once, when the subgoal starts.
    #[serde(rename = "in")]
    pub list: Expression,
    /// The name of the item in its steps.
    #[serde(rename = "as")]
    pub name: String,
    /// How many items are worked on at once.
    #[serde(default = "one")]
    pub parallel: u32,
}

fn one() -> u32 {
    1
}

/// One entry of a workflow: exactly one of `call`, `set`, `wait`, `enter`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// The tool to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<String>,
    /// The arguments of the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Template>,
    /// Where the result's `data` goes: `name`, or `name[key]` for one member of a map in state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub save: Option<SaveTo>,
    /// When false, the entry is passed over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub when: Option<Expression>,
    /// Calls to try instead, in order, when this one fails.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub or_else: Vec<Alternative>,
    /// Values to put into state, by key.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub set: BTreeMap<String, Template>,
    /// A time to wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait: Option<Span>,
    /// The lifecycle state to go to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enter: Option<String>,
}

/// A call to try when another failed. Its result goes where the other's would have gone.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Alternative {
    /// The tool to call.
    pub call: String,
    /// The arguments of the call.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub with: BTreeMap<String, Template>,
}

/// Where a result goes.
#[derive(Debug, Clone, PartialEq)]
pub struct SaveTo {
    /// The name.
    pub name: String,
    /// The member, for `name[key]`.
    pub member: Option<Expression>,
}

impl SaveTo {
    /// Reads `name` or `name[expression]`; a leading `state.` is allowed.
    ///
    /// # Errors
    /// A sentence that says how it is written.
    pub fn parse(text: &str) -> Result<Self, String> {
        let trimmed = text.trim();
        let trimmed = trimmed.strip_prefix("state.").unwrap_or(trimmed);
        let (name, member) = match trimmed.split_once('[') {
            None => (trimmed, None),
            Some((name, rest)) => {
                let inner = rest
                    .strip_suffix(']')
                    .ok_or_else(|| format!("`{text}` has no closing `]`: write `name` or `name[key]`"))?;
                (name, Some(Expression::compile(inner).map_err(|error| error.to_string())?))
            }
        };
        if !is_name(name) {
            return Err(format!("`{text}` is not a place to save to: write `name` or `name[key]`"));
        }
        if crate::expression::ROOTS.contains(&name) {
            return Err(format!("`{name}` is a name of LoopForge's own: choose another"));
        }
        Ok(Self { name: name.to_owned(), member })
    }
}

impl std::fmt::Display for SaveTo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.member {
            None => f.write_str(&self.name),
            Some(member) => write!(f, "{}[{member}]", self.name),
        }
    }
}

impl Serialize for SaveTo {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SaveTo {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for SaveTo {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "SaveTo".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({ "type": "string", "description": "A name, or name[key] for one member of a map in state." })
    }
}

/// Whether expressions can name it.
#[must_use]
pub fn is_name(text: &str) -> bool {
    let mut characters = text.chars();
    characters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && characters.all(|other| other.is_ascii_alphanumeric() || other == '_')
}

/// What happens when a step fails for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The subgoal fails, and with it the run, once what runs beside it has ended.
    #[default]
    Fail,
    /// A passing failure is set aside and tried again after the rest; one that won't heal is noted, and the rest goes on.
    Defer,
    /// A person decides.
    Ask,
    /// The subgoal fails, and the planner may put something else in its place, at most `max_replans` times in a run.
    Replan,
}

/// Limits and habits of the loop.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// No further step runs by itself after this many.
    pub max_steps: u64,
    /// What happens then.
    pub on_max_steps: OnMaxSteps,
    /// No further step starts after this time since the run's start; time in which nobody owned the run counts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_duration: Option<Span>,
    /// A checkpoint after this many steps ...
    pub checkpoint_interval: u64,
    /// ... or after this time without one.
    pub checkpoint_max_age: Span,
    /// A step that waits longer for a call is checked: the call is cancelled and judged.
    pub idle_timeout: Span,
    /// Calls of one tool in one subgoal that somebody decides freely.
    pub max_calls_per_tool: u32,
    /// Steps in a row without a useful observation, after which the strategy must change.
    pub max_continuous_loops: u32,
    /// Failures in a row of one path, after which it is given up.
    pub replan_after: u32,
    /// Rounds in which items set aside are tried again.
    pub defer_rounds: u32,
    /// Branches that run at once in the whole run.
    pub parallel: u32,
    /// Whether a planner makes and amends the subgoals.
    pub mode: Mode,
    /// The most tokens that a model may write in a step.
    pub max_tokens_per_step: u64,
    /// Times that the planner may amend the plan in a run; and times that a subgoal may begin anew on another way before a person is asked,
    /// or the subgoal fails.
    pub max_replans: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_steps: 60,
            on_max_steps: OnMaxSteps::Stop,
            max_duration: None,
            checkpoint_interval: 5,
            checkpoint_max_age: Span::seconds(300),
            idle_timeout: Span::seconds(600),
            max_calls_per_tool: 10,
            max_continuous_loops: 8,
            replan_after: 3,
            defer_rounds: 2,
            parallel: 8,
            mode: Mode::default(),
            max_tokens_per_step: 4000,
            max_replans: 3,
        }
    }
}

/// What happens when `max_steps` is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnMaxSteps {
    /// The run stops with a checkpoint; it can be resumed with a higher limit.
    #[default]
    Stop,
    /// A person decides.
    Ask,
}

/// When the task has succeeded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Evaluator {
    /// Must all hold at the end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Expression>,
    /// Whether a model judges at the end whether the goal is reached, once all rules hold. Its no leads to another plan, or fails the run;
    /// its yes is reported as judged, not as verified.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub judge: bool,
    /// Whether the planner may amend the plan when a criterion doesn't hold at the end, or the judge says no.
    #[serde(default = "yes", skip_serializing_if = "Clone::clone")]
    pub allow_replan: bool,
}

impl Default for Evaluator {
    fn default() -> Self {
        Self { criteria: Vec::new(), judge: false, allow_replan: true }
    }
}

const fn yes() -> bool {
    true
}

/// The business lifecycle of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Lifecycle {
    /// The state in which a run begins.
    pub initial: String,
    /// Where a run can go from each state.
    pub transitions: BTreeMap<String, Vec<String>>,
    /// The tools allowed in a state; all in a state that isn't named here.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub tools: BTreeMap<String, Vec<String>>,
}
