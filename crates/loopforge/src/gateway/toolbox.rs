//! The tools of a task, ready to be called: where they come from, with what the task tightened.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use jsonschema::Validator;
use loopforge_core::evaluate::grounding::Grounding;
use loopforge_core::expression::Expression;
use loopforge_core::run::ToolFacts;
use loopforge_core::task::{Status, Task, ToolSpec};
use loopforge_core::tool::{Contract, Effect};
use loopforge_models::Model;
use loopforge_tools::Tool;
use loopforge_tools::builtin::{self, BuiltinConfig};
use loopforge_tools::process::{ProcessConfig, ProcessTool};

use crate::error::EngineError;

/// What a program adds: tools, by the name that a task gives as `builtin`, and models.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    tools: BTreeMap<String, Arc<dyn Tool>>,
    models: BTreeMap<String, Arc<dyn Model>>,
}

impl Registry {
    /// Adds a model, by the name that a task gives as `model`. It goes before a provider of the same name.
    #[must_use]
    pub fn with_model(mut self, name: impl Into<String>, model: Arc<dyn Model>) -> Self {
        self.models.insert(name.into(), model);
        self
    }

    /// An added model.
    pub(crate) fn model(&self, name: &str) -> Option<&Arc<dyn Model>> {
        self.models.get(name)
    }

    /// Adds a tool. One of the same name is replaced, also a built-in.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, tool: Arc<dyn Tool>) -> Self {
        self.tools.insert(name.into(), tool);
        self
    }

    /// The added tools, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<dyn Tool>)> {
        self.tools.iter().map(|(name, tool)| (name.as_str(), tool))
    }
}

/// A tool as a task uses it.
pub struct Armed {
    /// Makes the calls.
    pub tool: Arc<dyn Tool>,
    /// The tool's contract after the task's tightening.
    pub contract: Contract,
    /// Time limit of one try.
    pub timeout: Duration,
    /// How to ask whether an effect happened.
    pub status: StatusVia,
    /// Must hold before each call.
    pub requires: Option<Expression>,
    /// Calls in a run.
    pub max_calls: Option<u32>,
    /// Calls at once.
    pub concurrency: Option<usize>,
    /// How long the answer of a read stays good.
    pub cache: Option<Duration>,
    /// How identifiers in its arguments look, each of which must have been obtained.
    pub grounding: Grounding,
    input: Vec<Validator>,
    output: Option<Validator>,
}

/// How to ask whether an effect happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatusVia {
    /// Nobody can tell.
    Nobody,
    /// The tool itself can.
    Itself,
    /// Another tool of the task, by its name.
    Tool(String),
}

impl fmt::Debug for Armed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Armed").field("tool", &self.tool).field("status", &self.status).finish_non_exhaustive()
    }
}

impl Armed {
    /// The first reason why `arguments` break a schema: the place and what is wrong there.
    #[must_use]
    pub fn broken_input(&self, arguments: &serde_json::Value) -> Option<String> {
        self.input.iter().find_map(|schema| broken(schema, arguments))
    }

    /// The first reason why `data` breaks what the task demands of a result.
    #[must_use]
    pub fn broken_output(&self, data: &serde_json::Value) -> Option<String> {
        self.output.as_ref().and_then(|schema| broken(schema, data))
    }
}

fn broken(schema: &Validator, value: &serde_json::Value) -> Option<String> {
    /// A message may quote the value; what a model or a person reads stays short.
    const LONGEST: usize = 300;
    let error = schema.iter_errors(value).next()?;
    let place = error.instance_path().to_string();
    let mut message: String = error.to_string().chars().take(LONGEST).collect();
    if !place.is_empty() {
        message = format!("at `{place}`: {message}");
    }
    Some(message)
}

/// The tools of a task.
#[derive(Debug)]
pub struct Toolbox {
    armed: BTreeMap<String, Arc<Armed>>,
    facts: BTreeMap<String, ToolFacts>,
}

impl Toolbox {
    /// Sets the tools of a task up.
    ///
    /// # Errors
    /// [`EngineError::Builtin`], [`EngineError::Process`] or [`EngineError::Invalid`], naming the tool.
    pub fn build(task: &Task, registry: &Registry) -> Result<Self, EngineError> {
        let mut armed = BTreeMap::new();
        let mut facts = BTreeMap::new();
        for (name, spec) in &task.tools {
            let tool = arm(name, spec, registry)?;
            facts.insert(
                name.clone(),
                ToolFacts {
                    effect: tool.contract.effect,
                    deterministic: tool.contract.deterministic,
                    effect_key: spec.effect_key.clone(),
                    retry: tool.contract.retry.clone(),
                },
            );
            armed.insert(name.clone(), Arc::new(tool));
        }
        Ok(Self { armed, facts })
    }

    /// A tool, by its name in the task.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Arc<Armed>> {
        self.armed.get(name)
    }

    /// What the core must know of the tools.
    #[must_use]
    pub fn facts(&self) -> &BTreeMap<String, ToolFacts> {
        &self.facts
    }

    /// All tools, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Arc<Armed>)> {
        self.armed.iter().map(|(name, armed)| (name.as_str(), armed))
    }
}

fn arm(name: &str, spec: &ToolSpec, registry: &Registry) -> Result<Armed, EngineError> {
    let tool = source(name, spec, registry)?;
    let contract = tightened(tool.contract(), spec);
    let schema = |what: &str, schema: &serde_json::Value| {
        jsonschema::validator_for(schema)
            .map_err(|error| EngineError::Invalid(format!("tool `{name}`: its {what} is not a JSON Schema: {error}")))
    };
    let mut input = vec![schema("input schema", &contract.input_schema)?];
    if let Some(own) = &spec.input_schema {
        input.push(schema("`input_schema`", own)?);
    }
    let output = spec.output_schema.as_ref().map(|own| schema("`output_schema`", own)).transpose()?;
    let status = match &spec.status {
        Some(Status::Tool(other)) => StatusVia::Tool(other.clone()),
        Some(Status::Process(_)) => StatusVia::Itself,
        None if tool.can_tell() => StatusVia::Itself,
        None => StatusVia::Nobody,
    };
    Ok(Armed {
        timeout: spec.timeout.map_or_else(|| contract.timeout.limit(), |span| span.0),
        status,
        requires: spec.requires.clone(),
        max_calls: spec.max_calls,
        concurrency: spec.concurrency.map(|limit| limit.max(1) as usize),
        cache: spec.cache.map(|span| span.0).filter(|_| contract.effect == Effect::Read),
        grounding: Grounding::compile(&spec.grounded)
            .map_err(|(kind, why)| EngineError::Invalid(format!("tool `{name}`: `grounded.{kind}`: {why}")))?,
        input,
        output,
        contract,
        tool,
    })
}

fn source(name: &str, spec: &ToolSpec, registry: &Registry) -> Result<Arc<dyn Tool>, EngineError> {
    if let Some(builtin) = &spec.builtin {
        if let Some(own) = registry.tools.get(builtin) {
            return Ok(Arc::clone(own));
        }
        let config = BuiltinConfig { allow: spec.allow.clone() };
        return builtin::find(builtin, &config)
            .map_err(|source| EngineError::Builtin { tool: name.to_owned(), source });
    }
    if let Some(argv) = &spec.process {
        let tool = ProcessTool::new(process(argv, spec))
            .map_err(|source| EngineError::Process { tool: name.to_owned(), source })?;
        return Ok(Arc::new(tool));
    }
    Err(EngineError::Invalid(format!("tool `{name}` has no source: give `builtin` or `process`")))
}

/// A command as the task describes it. It counts as a write unless the task says otherwise: nobody else knows what it does.
fn process(argv: &[String], spec: &ToolSpec) -> ProcessConfig {
    let schema = spec.input_schema.clone().unwrap_or_else(|| serde_json::json!({ "type": "object" }));
    let description = spec.description.clone().unwrap_or_else(|| format!("runs {}", argv.join(" ")));
    let contract = match spec.effect {
        Some(Effect::Read) => Contract::read(description, schema),
        Some(Effect::Write) | None => Contract::write(description, schema),
    };
    let status = match &spec.status {
        Some(Status::Process(status)) => Some(status.process.clone()),
        Some(Status::Tool(_)) | None => None,
    };
    ProcessConfig { status, sandbox: spec.sandbox.clone(), ..ProcessConfig::new(argv.to_vec(), contract) }
}

/// The tool's own contract with what the task says on top.
fn tightened(own: &Contract, spec: &ToolSpec) -> Contract {
    let mut contract = own.clone();
    if let Some(effect) = spec.effect {
        contract.effect = effect;
        if effect == Effect::Write && own.effect == Effect::Read {
            contract.idempotent = false;
            contract.timeout = loopforge_core::tool::TimeoutKind::Write;
        }
    }
    if let Some(idempotent) = spec.idempotent {
        contract.idempotent = idempotent;
    }
    if let Some(description) = &spec.description {
        contract.description.clone_from(description);
    }
    if let Some(retry) = &spec.retry {
        if let Some(max_attempts) = retry.max_attempts {
            contract.retry.max_attempts = max_attempts.max(1);
        }
        if let Some(backoff) = &retry.backoff {
            contract.retry.backoff = backoff.iter().map(|span| span.0).collect();
        }
        if let Some(longest_wait) = retry.longest_wait {
            contract.retry.longest_wait = longest_wait.0;
        }
    }
    contract.key_fields.extend(spec.key_fields.iter().cloned());
    contract.volatile.extend(spec.volatile.iter().cloned());
    if let Some(meaning) = &spec.meaning_of_empty {
        contract.meaning_of_empty = Some(meaning.clone());
    }
    contract
}
