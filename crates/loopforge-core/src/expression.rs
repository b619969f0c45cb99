//! Expressions and templates: one language (CEL) for rules, conditions and values.
//!
//! `done_when`, `when`, `requires` and `criteria` are expressions. Elsewhere a text may hold `${ expression }`; a text that
//! is one expression and nothing else keeps the type of its value, any other becomes text. `$${` stands for `${`.
//!
//! Names that can be read: [`ROOTS`], the names that the surrounding subgoal saved, and a `foreach`'s own name.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::{Arc, LazyLock};

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::json::Json;
use crate::payload::{BlobCache, NotLoaded, Payload};

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

/// What an expression can see.
pub struct Scope<'a> {
    /// Inputs, state and blobs.
    pub values: &'a Values,
    /// Names saved by the surrounding subgoal or item.
    pub locals: &'a BTreeMap<String, Payload>,
    /// The other roots, made when asked for.
    pub facts: &'a dyn Fn(&str) -> Option<Json>,
}

/// Inputs and state of a run, as far as they are loaded.
///
/// State is loaded by key, when an expression first reads it: a run of ten thousand steps need not read all it ever kept.
#[derive(Debug, Default)]
pub struct Values {
    inputs: BTreeMap<String, Payload>,
    state: BTreeMap<String, StateValue>,
    whole: bool,
    /// Blobs at hand.
    pub blobs: BlobCache,
}

/// What a state key holds.
#[derive(Debug, Clone, PartialEq)]
pub enum StateValue {
    /// One value.
    Single(Payload),
    /// Values by member: what `save: "pages[url]"` wrote.
    Members(BTreeMap<String, Payload>),
}

impl Values {
    /// Values of a run that has nothing in its state yet (`whole`), or whose state is to be loaded by key.
    #[must_use]
    pub fn new(inputs: BTreeMap<String, Payload>, whole: bool) -> Self {
        Self { inputs, whole, ..Self::default() }
    }

    /// Sets what the store holds for `key`; `None` when it holds nothing.
    pub fn load(&mut self, key: &str, value: Option<StateValue>) {
        self.state.insert(key.to_owned(), value.unwrap_or_else(|| StateValue::Members(BTreeMap::new())));
    }

    /// Says that every key was loaded.
    pub fn loaded_whole(&mut self) {
        self.whole = true;
    }

    /// Takes over a value that was just saved. A key that isn't loaded stays unloaded: the store has the rest.
    pub fn save(&mut self, key: &str, member: Option<&str>, value: Payload) {
        if !self.whole && !self.state.contains_key(key) && member.is_some() {
            return;
        }
        match member {
            None => {
                self.state.insert(key.to_owned(), StateValue::Single(value));
            }
            Some(member) => {
                let entry = self.state.entry(key.to_owned()).or_insert_with(|| StateValue::Members(BTreeMap::new()));
                match entry {
                    StateValue::Members(members) => {
                        members.insert(member.to_owned(), value);
                    }
                    StateValue::Single(_) => {
                        *entry = StateValue::Members(BTreeMap::from([(member.to_owned(), value)]));
                    }
                }
            }
        }
    }

    fn input_keys(&self) -> Result<Vec<String>, NotLoaded> {
        Ok(self.inputs.keys().cloned().collect())
    }

    fn input(&self, key: &str) -> Result<Option<Json>, NotLoaded> {
        self.inputs.get(key).map(|payload| payload.open(&self.blobs)).transpose()
    }

    fn state_keys(&self) -> Result<Vec<String>, NotLoaded> {
        if self.whole { Ok(self.state.keys().cloned().collect()) } else { Err(NotLoaded::WholeState) }
    }

    fn state(&self, key: &str) -> Result<Option<Json>, NotLoaded> {
        let blobs = &self.blobs;
        match self.state.get(key) {
            None if self.whole => Ok(None),
            None => Err(NotLoaded::State(key.to_owned())),
            Some(StateValue::Single(payload)) => payload.open(blobs).map(Some),
            Some(StateValue::Members(members)) if members.is_empty() => Ok(None),
            Some(StateValue::Members(members)) => {
                let mut map = serde_json::Map::new();
                for (member, payload) in members {
                    map.insert(member.clone(), payload.open(blobs)?);
                }
                Ok(Some(Json::Object(map)))
            }
        }
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

/// A function as an expression calls it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Call {
    name: String,
    /// `value.name()`, not `name(value)`.
    member: bool,
}

impl Call {
    /// Asks by a call that fits no function of that name, because the library has no list of its functions: a name that exists
    /// is answered by another error than one that doesn't.
    fn exists(&self) -> bool {
        let probe = if self.member { format!("dyn(null).{}()", self.name) } else { format!("{}()", self.name) };
        let Ok(program) = ENVIRONMENT.compile(&probe) else { return true };
        let context = cel::Context::with_env(Arc::clone(&ENVIRONMENT));
        !matches!(program.execute(&context), Err(cel::ExecutionError::UndeclaredReference(_)))
    }
}

/// The first parts of names such as `math.ceil`.
const NAMESPACES: &[&str] = &["math", "lists", "strings", "optional"];

/// Finds what an expression reads and calls.
#[derive(Default)]
struct Walk {
    bound: Vec<String>,
    names: BTreeSet<String>,
    paths: BTreeSet<Vec<String>>,
    calls: BTreeSet<Call>,
    inputs: Keys,
    state: Keys,
}

impl Walk {
    fn expression(&mut self, node: &IdedExpr) {
        if let Some(path) = static_path(node) {
            return self.path(path);
        }
        match &node.expr {
            Expr::Ident(_) => {}
            Expr::Select(select) => self.expression(&select.operand),
            Expr::Call(call) => {
                match call.target.as_deref() {
                    Some(IdedExpr { expr: Expr::Ident(name), .. }) if self.is_namespace(name, &call.func_name) => {}
                    Some(target) => {
                        self.expression(target);
                        self.call(&call.func_name, true);
                    }
                    None => self.call(&call.func_name, false),
                }
                for argument in &call.args {
                    self.expression(argument);
                }
            }
            Expr::Comprehension(comprehension) => {
                self.expression(&comprehension.iter_range);
                self.expression(&comprehension.accu_init);
                let outer = self.bound.len();
                self.bound.push(comprehension.iter_var.clone());
                self.bound.extend(comprehension.iter_var2.clone());
                self.bound.push(comprehension.accu_var.clone());
                self.expression(&comprehension.loop_cond);
                self.expression(&comprehension.loop_step);
                self.expression(&comprehension.result);
                self.bound.truncate(outer);
            }
            Expr::List(list) => list.elements.iter().for_each(|element| self.expression(element)),
            Expr::Map(map) => map.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Struct(fields) => fields.entries.iter().for_each(|entry| self.entry(&entry.expr)),
            Expr::Literal(_) | Expr::Unspecified => {}
        }
    }

    fn entry(&mut self, entry: &EntryExpr) {
        match entry {
            EntryExpr::MapEntry(entry) => {
                self.expression(&entry.key);
                self.expression(&entry.value);
            }
            EntryExpr::StructField(field) => self.expression(&field.value),
        }
    }

    fn is_namespace(&self, name: &str, function: &str) -> bool {
        NAMESPACES.contains(&name)
            && !self.bound.iter().any(|bound| bound == name)
            && Call { name: format!("{name}.{function}"), member: false }.exists()
    }

    /// Operators are calls too, under names that nobody can write.
    fn call(&mut self, name: &str, member: bool) {
        if name.starts_with(|first: char| first.is_ascii_alphabetic()) {
            self.calls.insert(Call { name: name.to_owned(), member });
        }
    }

    fn path(&mut self, path: Vec<String>) {
        let Some((name, fields)) = path.split_first() else { return };
        if self.bound.contains(name) {
            return;
        }
        self.names.insert(name.clone());
        let keys = match name.as_str() {
            "inputs" => Some(&mut self.inputs),
            "state" => Some(&mut self.state),
            _ => None,
        };
        if let Some(keys) = keys {
            match fields.first() {
                Some(key) => {
                    keys.named.insert(key.clone());
                }
                None => keys.all = true,
            }
        }
        self.paths.insert(path);
    }
}

/// How deep brackets nest, and how many operators, dots and brackets there are outside of texts.
fn brackets_and_signs(source: &str) -> (usize, usize) {
    let (mut open, mut deepest, mut signs) = (0_usize, 0, 0);
    let mut quote = None;
    let mut escaped = false;
    for character in source.chars() {
        match (quote, character) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(begin), _) => quote = (character != begin).then_some(begin),
            (None, '"' | '\'') => quote = Some(character),
            (None, '(' | '[' | '{') => {
                open += 1;
                signs += 1;
            }
            (None, ')' | ']' | '}') => open = open.saturating_sub(1),
            (None, ',' | '_') => {}
            (None, other) if other.is_ascii_punctuation() => signs += 1,
            (None, _) => {}
        }
        deepest = deepest.max(open);
    }
    (deepest, signs)
}

/// Whether an expression has at most `depth` levels.
fn is_within(node: &IdedExpr, depth: usize) -> bool {
    let Some(left) = depth.checked_sub(1) else { return false };
    let entry = |entry: &EntryExpr| match entry {
        EntryExpr::MapEntry(entry) => is_within(&entry.key, left) && is_within(&entry.value, left),
        EntryExpr::StructField(field) => is_within(&field.value, left),
    };
    match &node.expr {
        Expr::Ident(_) | Expr::Literal(_) | Expr::Unspecified => true,
        Expr::Select(select) => is_within(&select.operand, left),
        Expr::Call(call) => {
            call.target.iter().all(|target| is_within(target, left))
                && call.args.iter().all(|argument| is_within(argument, left))
        }
        Expr::Comprehension(part) => {
            [&part.iter_range, &part.accu_init, &part.loop_cond, &part.loop_step, &part.result]
                .into_iter()
                .all(|part| is_within(part, left))
        }
        Expr::List(list) => list.elements.iter().all(|element| is_within(element, left)),
        Expr::Map(map) => map.entries.iter().all(|part| entry(&part.expr)),
        Expr::Struct(fields) => fields.entries.iter().all(|part| entry(&part.expr)),
    }
}

/// A name and the fields after it, where all of them are written out. `state["key"]` reads that key only, as `state.key` does.
fn static_path(node: &IdedExpr) -> Option<Vec<String>> {
    let (base, field) = match &node.expr {
        Expr::Ident(name) => return Some(vec![name.clone()]),
        Expr::Select(select) => (select.operand.as_ref(), select.field.clone()),
        Expr::Call(call) if call.func_name == "_[_]" => match call.args.as_slice() {
            [base, IdedExpr { expr: Expr::Literal(LiteralValue::String(key)), .. }] => (base, key.inner().to_owned()),
            _ => return None,
        },
        _ => return None,
    };
    let mut path = static_path(base)?;
    path.push(field);
    Some(path)
}

fn plain_path(node: &IdedExpr) -> Option<Vec<String>> {
    match &node.expr {
        Expr::Ident(name) => Some(vec![name.clone()]),
        Expr::Select(select) if !select.test => {
            let mut path = plain_path(&select.operand)?;
            path.push(select.field.clone());
            Some(path)
        }
        _ => None,
    }
}

/// The character of the whole text at a line and column of it, each from 1.
fn column(source: &str, (line, column): (isize, isize)) -> usize {
    let lines_before = usize::try_from(line.saturating_sub(1)).unwrap_or(0);
    let before: usize = source.split_inclusive('\n').take(lines_before).map(|line| line.chars().count()).sum();
    before + usize::try_from(column).unwrap_or(1).max(1)
}

/// A JSON value in whose texts `${ }` is replaced.
#[derive(Debug, Clone, PartialEq)]
pub struct Template {
    source: Json,
    root: Node,
}

#[derive(Debug, Clone, PartialEq)]
enum Node {
    /// Holds no expression.
    Constant(Json),
    /// One expression and nothing else: keeps its type.
    Value(Expression),
    /// Text with expressions in it.
    Text(Vec<Part>),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
}

#[derive(Debug, Clone, PartialEq)]
enum Part {
    Literal(String),
    Expression(Expression),
}

impl Template {
    /// Finds and compiles the expressions in `source`.
    ///
    /// # Errors
    /// The first expression that doesn't compile.
    pub fn compile(source: Json) -> Result<Self, InvalidExpression> {
        let root = Node::compile(&source)?;
        Ok(Self { source, root })
    }

    /// What it was compiled from.
    #[must_use]
    pub fn source(&self) -> &Json {
        &self.source
    }

    /// All expressions in it.
    #[must_use]
    pub fn expressions(&self) -> Vec<&Expression> {
        let mut found = Vec::new();
        self.root.collect(&mut found);
        found
    }

    /// The value, when no expression takes part in it.
    #[must_use]
    pub fn constant(&self) -> Option<Json> {
        self.root.constant()
    }

    /// The value with all expressions replaced.
    ///
    /// # Errors
    /// The first expression that has no value.
    pub fn fill(&self, scope: &Scope<'_>) -> Result<Json, EvalError> {
        self.root.fill(scope)
    }
}

impl Node {
    fn compile(source: &Json) -> Result<Self, InvalidExpression> {
        Ok(match source {
            Json::String(text) => Self::compile_text(text)?,
            Json::Array(items) => Self::List(items.iter().map(Self::compile).collect::<Result<_, _>>()?),
            Json::Object(map) => Self::Map(
                map.iter()
                    .map(|(key, item)| Ok((key.clone(), Self::compile(item)?)))
                    .collect::<Result<_, InvalidExpression>>()?,
            ),
            Json::Null | Json::Bool(_) | Json::Number(_) => Self::Constant(source.clone()),
        })
    }

    fn compile_text(text: &str) -> Result<Self, InvalidExpression> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("${") {
            if rest[..start].ends_with('$') {
                literal.push_str(&rest[..start]);
                literal.push('{');
                rest = &rest[start + 2..];
                continue;
            }
            literal.push_str(&rest[..start]);
            let body = &rest[start + 2..];
            let end = expression_end(body).ok_or_else(|| InvalidExpression {
                source_text: text.to_owned(),
                message: "`${` has no closing `}`".to_owned(),
                column: text.len() - rest.len() + start + 1,
            })?;
            if !literal.is_empty() {
                parts.push(Part::Literal(std::mem::take(&mut literal)));
            }
            parts.push(Part::Expression(Expression::compile(body[..end].trim())?));
            rest = &body[end + 1..];
        }
        literal.push_str(rest);
        if !literal.is_empty() {
            parts.push(Part::Literal(literal));
        }
        Ok(match parts.as_slice() {
            [] => Self::Constant(Json::String(String::new())),
            [Part::Literal(only)] => Self::Constant(Json::String(only.clone())),
            [Part::Expression(only)] => Self::Value(only.clone()),
            _ => Self::Text(parts),
        })
    }

    fn constant(&self) -> Option<Json> {
        Some(match self {
            Self::Constant(value) => value.clone(),
            Self::Value(_) | Self::Text(_) => return None,
            Self::List(items) => Json::Array(items.iter().map(Self::constant).collect::<Option<_>>()?),
            Self::Map(entries) => {
                let entries = entries.iter().map(|(key, item)| Some((key.clone(), item.constant()?)));
                Json::Object(entries.collect::<Option<_>>()?)
            }
        })
    }

    fn collect<'a>(&'a self, found: &mut Vec<&'a Expression>) {
        match self {
            Self::Constant(_) => {}
            Self::Value(expression) => found.push(expression),
            Self::Text(parts) => found.extend(parts.iter().filter_map(|part| match part {
                Part::Expression(expression) => Some(expression),
                Part::Literal(_) => None,
            })),
            Self::List(items) => items.iter().for_each(|item| item.collect(found)),
            Self::Map(entries) => entries.iter().for_each(|(_, item)| item.collect(found)),
        }
    }

    fn fill(&self, scope: &Scope<'_>) -> Result<Json, EvalError> {
        Ok(match self {
            Self::Constant(value) => value.clone(),
            Self::Value(expression) => match expression.evaluate_payload(scope)? {
                PayloadOrJson::Payload(payload) => payload.open(&scope.values.blobs)?,
                PayloadOrJson::Json(value) => value,
            },
            Self::Text(parts) => {
                let mut text = String::new();
                for part in parts {
                    match part {
                        Part::Literal(literal) => text.push_str(literal),
                        Part::Expression(expression) => match expression.evaluate(scope)? {
                            Json::String(value) => text.push_str(&value),
                            other => text.push_str(&other.to_string()),
                        },
                    }
                }
                Json::String(text)
            }
            Self::List(items) => Json::Array(items.iter().map(|item| item.fill(scope)).collect::<Result<_, _>>()?),
            Self::Map(entries) => {
                Json::Object(entries.iter().map(|(key, item)| Ok((key.clone(), item.fill(scope)?))).collect::<Result<
                    _,
                    EvalError,
                >>(
                )?)
            }
        })
    }
}

/// The position of the `}` that closes an expression; braces of map literals and in strings don't count.
fn expression_end(body: &str) -> Option<usize> {
    let mut depth = 0usize;
    let mut quote = None;
    let mut escaped = false;
    for (position, character) in body.char_indices() {
        match (quote, character) {
            (Some(_), _) if escaped => escaped = false,
            (Some(_), '\\') => escaped = true,
            (Some(open), _) if character == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(character),
            (None, '{') => depth += 1,
            (None, '}') if depth == 0 => return Some(position),
            (None, '}') => depth -= 1,
            (None, _) => {}
        }
    }
    None
}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.source.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::compile(Json::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

impl schemars::JsonSchema for Template {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!({
            "description": "Any value; `${ expression }` in its texts is replaced. A text that is one expression keeps the type of its value."
        })
    }
}
