//! The arguments of a call as a model wrote them.

use std::collections::HashSet;
use std::fmt;

use serde::de::{DeserializeSeed, Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

use crate::json::Json;

/// The most bytes of a model's text that a reason repeats.
const SHOWN: usize = 60;

/// The arguments of a call: an object, or text that is none.
///
/// Text that is no JSON object is told apart by its type. It never becomes `{}`, and no tool is called with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(into = "Wire", try_from = "Wire")]
pub enum Arguments {
    /// A JSON object.
    Object {
        /// The text as the provider sent it; empty where it sent none, which means "no arguments".
        text: String,
        /// What it says.
        value: Map<String, Json>,
    },
    /// Anything else.
    Malformed(Malformed),
}

/// Arguments that can't be used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Malformed {
    /// The text as the provider sent it.
    pub text: String,
    /// What is wrong with it and where, in a sentence of bounded size for the model.
    pub why: String,
}

impl Arguments {
    /// Reads the text that a provider sent.
    ///
    /// Nothing but blanks is an empty object: a call without arguments. Refused besides broken JSON and values that are no
    /// object: a key that stands twice (which of the two is meant?) and an integer beyond 64 bits (it would be rounded).
    #[must_use]
    pub fn read(text: impl Into<String>) -> Self {
        let text = text.into();
        if text.trim().is_empty() {
            return Self::Object { text, value: Map::new() };
        }
        match parse(&text) {
            Ok(value) => Self::Object { text, value },
            Err(why) => Self::Malformed(Malformed { text, why }),
        }
    }

    /// Takes a value from a provider that sends arguments as JSON and not as text.
    #[must_use]
    pub fn of(value: Json) -> Self {
        match value {
            Json::Object(value) => Self::Object { text: Json::Object(value.clone()).to_string(), value },
            Json::Null => Self::read(""),
            other => {
                let why = format!("the arguments are {}, but must be an object", kind(&other));
                Self::Malformed(Malformed { text: other.to_string(), why })
            }
        }
    }

    /// The text as the provider sent it.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Object { text, .. } | Self::Malformed(Malformed { text, .. }) => text,
        }
    }

    /// The object, where it is one.
    #[must_use]
    pub const fn object(&self) -> Option<&Map<String, Json>> {
        match self {
            Self::Object { value, .. } => Some(value),
            Self::Malformed(_) => None,
        }
    }

    /// What is wrong, where it is no object.
    #[must_use]
    pub const fn malformed(&self) -> Option<&Malformed> {
        match self {
            Self::Object { .. } => None,
            Self::Malformed(malformed) => Some(malformed),
        }
    }
}

/// In records the text stands once; the object is read from it again.
#[derive(Serialize, Deserialize)]
struct Wire {
    text: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    malformed: Option<String>,
}

impl From<Arguments> for Wire {
    fn from(arguments: Arguments) -> Self {
        match arguments {
            Arguments::Object { text, .. } => Self { text, malformed: None },
            Arguments::Malformed(Malformed { text, why }) => Self { text, malformed: Some(why) },
        }
    }
}

impl TryFrom<Wire> for Arguments {
    type Error = String;

    fn try_from(wire: Wire) -> Result<Self, String> {
        if let Some(why) = wire.malformed {
            return Ok(Self::Malformed(Malformed { text: wire.text, why }));
        }
        match Self::read(wire.text) {
            Self::Malformed(malformed) => Err(format!("archived arguments can't be read: {}", malformed.why)),
            read => Ok(read),
        }
    }
}

fn parse(text: &str) -> Result<Map<String, Json>, String> {
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Strict.deserialize(&mut reader).and_then(|value| reader.end().map(|()| value));
    match value {
        Ok(Value::Object(value)) => match long_integer(text) {
            Some(digits) => Err(format!("the number {} is too long to be exact: write it as text", shorten(digits))),
            None => Ok(value),
        },
        Ok(other) => Err(format!("the arguments are {}, but must be an object", kind(&other))),
        Err(error) => {
            let place = line_start(text, error.line()) + error.column();
            let rest: String =
                text.get(floor(text, place.saturating_sub(1))..).unwrap_or_default().chars().take(20).collect();
            let at = if rest.is_empty() { String::new() } else { format!(", at `{rest}`") };
            Err(format!("the arguments are no valid JSON: {}{at}", shorten(&error.to_string())))
        }
    }
}

fn line_start(text: &str, line: usize) -> usize {
    text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum()
}

fn floor(text: &str, mut place: usize) -> usize {
    while !text.is_char_boundary(place) {
        place = place.saturating_sub(1);
        if place > text.len() {
            place = text.len();
        }
    }
    place
}

fn shorten(text: &str) -> String {
    if text.len() <= 2 * SHOWN { text.to_owned() } else { format!("{}…", &text[..floor(text, SHOWN)]) }
}

/// An integer that 64 bits don't hold, if there is one. `text` is valid JSON.
fn long_integer(text: &str) -> Option<&str> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'-' | b'0'..=b'9' => {
                let length = bytes[at..].iter().take_while(|byte| b"+-.eE0123456789".contains(byte)).count();
                let number = &text[at..at + length];
                if !number.contains(['.', 'e', 'E']) && number.parse::<i64>().is_err() && number.parse::<u64>().is_err()
                {
                    return Some(number);
                }
                at += length;
            }
            _ => at += 1,
        }
    }
    None
}

const fn kind(value: &Json) -> &'static str {
    match value {
        Json::Null => "null",
        Json::Bool(_) => "true or false",
        Json::Number(_) => "a number",
        Json::String(_) => "a text",
        Json::Array(_) => "a list",
        Json::Object(_) => "an object",
    }
}

/// Reads a value as `serde_json` does, but refuses an object with a key that stands twice.
struct Strict;

impl<'de> DeserializeSeed<'de> for Strict {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict {
    type Value = Json;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Json, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Self)? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let mut members = Map::new();
        let mut seen = HashSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom(format!("the key `{}` stands twice", shorten(&key))));
            }
            members.insert(key, map.next_value_seed(Self)?);
        }
        Ok(Json::Object(members))
    }
}
