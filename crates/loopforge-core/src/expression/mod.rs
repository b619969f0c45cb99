//! Expressions and templates: one language (CEL) for rules, conditions and values.
//!
//! `done_when`, `when`, `requires` and `criteria` are expressions. Elsewhere a text may hold `${ expression }`; a text that
//! is one expression and nothing else keeps the type of its value, any other becomes text. `$${` stands for `${`.
//!
//! Names that can be read: [`ROOTS`], the names that the surrounding subgoal saved, and a `foreach`'s own name.

mod names;
mod template;
mod values;

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::Json;
use crate::payload::{NotLoaded, Payload};

use names::{Call, Walk, brackets_and_signs, column, is_within, plain_path};

pub use template::Template;
pub use values::{Scope, StateValue, Values};

/// The names that every expression can read.
pub const ROOTS: &[&str] = &["inputs", "state", "subgoals", "usage", "last", "run"];

/// The longest expression in bytes.
const MAX_LENGTH: usize = 4096;
/// The deepest brackets.
const MAX_BRACKETS: usize = 48;
/// The most operators, dots and brackets.
const MAX_SIGNS: usize = 400;
/// The deepest expression. A chain such as `a + b + c` nests too; evaluation recurses, so that this bounds the stack.
const MAX_DEPTH: usize = 160;

static ENVIRONMENT: LazyLock<Arc<cel::Env>> = LazyLock::new(|| {
    let mut environment = cel::Env::stdlib();
    for added in [
        environment.add_extension(cel::extensions::strings),
        environment.add_extension(cel::extensions::lists),
        environment.add_extension(cel::extensions::math),
    ] {
        debug_assert!(added.is_ok(), "the extensions declare different functions: {added:?}");
    }
    Arc::new(environment)
});

/// A text that is not an expression, with the place in that text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{source_text}` is not an expression: {message} (column {column})")]
pub struct InvalidExpression {
    /// The text.
    pub source_text: String,
    /// What is wrong.
    pub message: String,
    /// 1 for the first character.
    pub column: usize,
}

/// Why an expression has no value now.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// Something that it reads must be loaded first; then evaluate again.
    #[error(transparent)]
    NotLoaded(#[from] NotLoaded),
    /// It has no value: a name is missing, types don't fit.
    #[error("`{expression}`: {message}")]
    Invalid {
        /// The expression's text.
        expression: String,
        /// What is wrong.
        message: String,
    },
}

/// A compiled expression.
#[derive(Clone)]
pub struct Expression(Arc<Compiled>);

struct Compiled {
    source: String,
    program: cel::Program,
    /// Free names, the first part of each path.
    names: BTreeSet<String>,
    /// What it reads, as far as it is written out.
    paths: BTreeSet<Vec<String>>,
    calls: BTreeSet<Call>,
    /// What is read of the roots that are loaded by key.
    inputs: Keys,
    state: Keys,
    /// Set when the expression is one plain name, possibly with fields: `page` or `page.url`.
    path: Option<Vec<String>>,
}

/// Which keys of a root an expression reads.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Keys {
    named: BTreeSet<String>,
    /// Read by a computed key, or as a whole.
    all: bool,
}

impl Expression {
    /// Compiles `source`.
    ///
    /// # Errors
    /// [`InvalidExpression`] with the place.
    pub fn compile(source: &str) -> Result<Self, InvalidExpression> {
        let refused = |message: &str| InvalidExpression {
            source_text: source.to_owned(),
            message: message.to_owned(),
            column: 1,
        };
        if source.len() > MAX_LENGTH {
            return Err(refused("longer than 4096 bytes"));
        }
        // The parser recurses for brackets and for chains, before it counts.
        let (brackets, signs) = brackets_and_signs(source);
        if brackets > MAX_BRACKETS {
            return Err(refused("brackets nested too deeply"));
        }
        if signs > MAX_SIGNS {
            return Err(refused("too many parts for one expression"));
        }
        let program = ENVIRONMENT.compile(source).map_err(|errors| {
            let first = errors.errors.first();
            InvalidExpression {
                source_text: source.to_owned(),
                message: first.map_or_else(|| errors.to_string(), |error| short_message(&error.msg)),
                column: match first {
                    Some(error) if error.msg.contains("<EOF>") => source.chars().count().max(1),
                    Some(error) => column(source, error.pos),
                    None => 1,
                },
            }
        })?;
        if !is_within(program.expression(), MAX_DEPTH) {
            return Err(refused("nested too deeply, or a chain of too many parts"));
        }
        let mut walk = Walk::default();
        walk.expression(program.expression());
        let path = plain_path(program.expression());
        Ok(Self(Arc::new(Compiled {
            source: source.to_owned(),
            program,
            names: walk.names,
            paths: walk.paths,
            calls: walk.calls,
            inputs: walk.inputs,
            state: walk.state,
            path,
        })))
    }

    /// The text it was compiled from.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.0.source
    }

    /// The free names that it reads: roots, saved names, a `foreach`'s name.
    #[must_use]
    pub fn names(&self) -> &BTreeSet<String> {
        &self.0.names
    }

    /// What it reads, each as a free name and the fields after it, as far as they are written out: `state.pages["a"]` is
    /// `["state", "pages", "a"]`.
    pub fn paths(&self) -> impl Iterator<Item = &[String]> {
        self.0.paths.iter().map(Vec::as_slice)
    }

    /// The functions that it calls and that don't exist.
    pub fn unknown_functions(&self) -> impl Iterator<Item = &str> {
        self.0.calls.iter().filter(|call| !call.exists()).map(|call| call.name.as_str())
    }

    /// Its value.
    ///
    /// # Errors
    /// [`EvalError`]; a missing name or key is [`EvalError::Invalid`], never a default.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Json, EvalError> {
        let mut context = cel::Context::with_env(Arc::clone(&ENVIRONMENT));
        for name in &self.0.names {
            let value = match name.as_str() {
                _ if scope.locals.contains_key(name) => match scope.locals.get(name) {
                    Some(payload) => to_cel(&payload.open(&scope.values.blobs)?),
                    None => continue,
                },
                "inputs" => root(&self.0.inputs, |key| scope.values.input(key), || scope.values.input_keys())?,
                "state" => root(&self.0.state, |key| scope.values.state(key), || scope.values.state_keys())?,
                other => match (scope.facts)(other) {
                    Some(value) => to_cel(&value),
                    None => continue,
                },
            };
            context.add_variable_from_value(name.clone(), value);
        }
        let value = self.0.program.execute(&context).map_err(|error| self.invalid(&error))?;
        value.json().map_err(|_| EvalError::Invalid {
            expression: self.0.source.clone(),
            message: "its value can't be written as JSON".to_owned(),
        })
    }

    /// Its value, kept apart from its large parts. A plain name that was saved passes through as it is, unread.
    ///
    /// # Errors
    /// As [`Self::evaluate`].
    pub fn evaluate_payload(&self, scope: &Scope<'_>) -> Result<PayloadOrJson, EvalError> {
        if let Some([name]) = self.0.path.as_deref()
            && let Some(payload) = scope.locals.get(name)
        {
            return Ok(PayloadOrJson::Payload(payload.clone()));
        }
        self.evaluate(scope).map(PayloadOrJson::Json)
    }

    /// Whether it holds.
    ///
    /// # Errors
    /// As [`Self::evaluate`], and when its value is neither true nor false.
    pub fn holds(&self, scope: &Scope<'_>) -> Result<bool, EvalError> {
        match self.evaluate(scope)? {
            Json::Bool(holds) => Ok(holds),
            other => Err(EvalError::Invalid {
                expression: self.0.source.clone(),
                message: format!("is {other}, and not true or false"),
            }),
        }
    }

    fn invalid(&self, error: &cel::ExecutionError) -> EvalError {
        let message = match error {
            cel::ExecutionError::NoSuchKey(key) => format!("there is no `{key}`"),
            cel::ExecutionError::UndeclaredReference(name) => format!("`{name}` has no value yet"),
            other => other.to_string(),
        };
        EvalError::Invalid { expression: self.0.source.clone(), message }
    }
}

/// A value that may have been kept apart already.
#[derive(Debug, Clone, PartialEq)]
pub enum PayloadOrJson {
    /// Kept apart already.
    Payload(Payload),
    /// A plain value.
    Json(Json),
}

/// The parser's message without what only its authors understand.
fn short_message(message: &str) -> String {
    let line = message.lines().next().unwrap_or(message).trim_start_matches("Syntax error: ");
    if line.starts_with("Incomplete") {
        return "something is missing here".to_owned();
    }
    if let Some(found) = line.strip_prefix("token recognition error at: ") {
        return format!("{found} means nothing here");
    }
    let line = line.split(" expecting ").next().unwrap_or(line);
    line.replace("extraneous input", "unexpected")
        .replace("mismatched input", "unexpected")
        .replace("'<EOF>'", "the end")
}

impl fmt::Debug for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Expression({:?})", self.0.source)
    }
}

impl fmt::Display for Expression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.source)
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.source == other.0.source
    }
}

impl Serialize for Expression {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0.source)
    }
}

impl<'de> Deserialize<'de> for Expression {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let source = String::deserialize(deserializer)?;
        let inner = source.trim().strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or(&source);
        Self::compile(inner.trim()).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Expression {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Expression".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "type": "string",
            "description": "A CEL expression over inputs, state, subgoals, usage, last and run.",
            "examples": ["size(state.pages) == size(inputs.pages)"]
        })
    }
}

fn root(
    keys: &Keys,
    get: impl Fn(&str) -> Result<Option<Json>, NotLoaded>,
    all: impl Fn() -> Result<Vec<String>, NotLoaded>,
) -> Result<cel::Value, NotLoaded> {
    let names = if keys.all { all()? } else { keys.named.iter().cloned().collect() };
    let mut map = HashMap::new();
    for name in names {
        if let Some(value) = get(&name)? {
            map.insert(cel::objects::Key::from(name), to_cel(&value));
        }
    }
    Ok(cel::Value::Map(cel::objects::Map { map: Arc::new(map) }))
}

/// JSON as CEL sees it. Whole numbers are `int` wherever they fit, so that `1 + x` works.
fn to_cel(value: &Json) -> cel::Value {
    match value {
        Json::Null => cel::Value::Null,
        Json::Bool(bool) => cel::Value::Bool(*bool),
        Json::Number(number) => match (number.as_i64(), number.as_u64(), number.as_f64()) {
            (Some(int), _, _) => cel::Value::Int(int),
            (None, Some(uint), _) => cel::Value::UInt(uint),
            (None, None, float) => cel::Value::Float(float.unwrap_or(f64::NAN)),
        },
        Json::String(text) => cel::Value::String(Arc::new(text.clone())),
        Json::Array(items) => cel::Value::List(Arc::new(items.iter().map(to_cel).collect())),
        Json::Object(map) => cel::Value::Map(cel::objects::Map {
            map: Arc::new(map.iter().map(|(key, item)| (cel::objects::Key::from(key.clone()), to_cel(item))).collect()),
        }),
    }
}
