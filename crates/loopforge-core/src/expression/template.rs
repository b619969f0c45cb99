//! Templates: JSON values in whose texts `${ }` is replaced.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::{EvalError, Expression, InvalidExpression, PayloadOrJson, Scope};
use crate::json::Json;

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
