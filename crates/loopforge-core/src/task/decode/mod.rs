//! From the located tree to a [`Task`](super::Task), with all mistakes found on the way.
//!
//! This module has the readers of plain values; [`schema`] has those of the task file's parts. Serde's derived readers
//! are not used here, because they stop at the first mistake.

mod schema;

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::rc::Rc;

use super::SaveTo;
use super::not_available;
use super::problem::{Finding, ProblemCode, Report};
use super::tree::{Entry, Node, Value};
use crate::expression::{Expression, InvalidExpression, Template};
use crate::json::Json;
use crate::time::Span;

/// The most entries of a list or map of the schema. Data can have more; it belongs into an input.
const MAX_ENTRIES: usize = 1000;

/// Where a part of the task stands.
#[derive(Debug, Clone)]
pub(super) struct Place {
    /// Its key, or the value itself in a list.
    pub(super) key: Range<usize>,
    pub(super) node: Rc<Node>,
}

/// Reads a tree, reports mistakes, and remembers where everything stood.
pub(super) struct Decoder<'a, 's, 't> {
    report: &'a mut Report<'s, 't>,
    path: String,
    /// By path.
    places: HashMap<String, Place>,
    /// Set when a value had to be left out, so that what was read is not the whole task.
    incomplete: bool,
}

/// The keys of one map, with those that were asked for.
struct Fields<'n> {
    definition: &'static str,
    /// "a tool", for messages.
    words: &'static str,
    node: &'n Node,
    entries: &'n [Entry],
    known: Vec<&'static str>,
}

/// Reads `root` as a task.
///
/// The task is `None` when values had to be left out; then checking what is left would report consequences, not causes.
pub(super) fn task(report: &mut Report<'_, '_>, root: &Rc<Node>) -> (Option<super::Task>, HashMap<String, Place>) {
    let mut decoder = Decoder { report, path: String::new(), places: HashMap::new(), incomplete: false };
    decoder.places.insert(String::new(), Place { key: 0..0, node: Rc::clone(root) });
    let task = decoder.task(root);
    (task.filter(|_| !decoder.incomplete), decoder.places)
}

/// Each reader gives `None` when the value was reported as wrong.
impl Decoder<'_, '_, '_> {
    /// Reports a mistake in the value at the present path, which is then left out.
    fn wrong<T>(&mut self, node: &Node, finding: Finding) -> Option<T> {
        self.wrong_at(node.span.clone(), finding)
    }

    fn wrong_at<T>(&mut self, range: Range<usize>, finding: Finding) -> Option<T> {
        self.report.add(range, self.path.clone(), finding);
        self.incomplete = true;
        None
    }

    fn wrong_type<T>(&mut self, node: &Node, expected: &str, remedy: Option<String>) -> Option<T> {
        let mut finding = match node.value {
            Value::Null => Finding::new(ProblemCode::EmptyValue, format!("no value given, expected {expected}"))
                .remedy("give a value, or remove the key"),
            _ => Finding::new(ProblemCode::WrongType, format!("expected {expected}, found {}", node.describe())),
        };
        if remedy.is_some() && !matches!(node.value, Value::Null) {
            finding.remedy = remedy;
        }
        self.wrong(node, finding)
    }

    /// Runs `read` with the path of a member of the present value, and remembers its place.
    fn at<T>(&mut self, member: &str, place: Place, read: impl FnOnce(&mut Self) -> T) -> T {
        self.inside(member, |decoder| {
            decoder.places.insert(decoder.path.clone(), place);
            read(decoder)
        })
    }

    /// Runs `read` with the path of a member of the present value.
    fn inside<T>(&mut self, member: &str, read: impl FnOnce(&mut Self) -> T) -> T {
        let length = self.path.len();
        self.path.push_str(member);
        let result = read(self);
        self.path.truncate(length);
        result
    }

    fn member<T>(&mut self, entry: &Entry, read: impl FnOnce(&mut Self, &Node) -> T) -> T {
        let place = Place { key: entry.key_span.clone(), node: Rc::clone(&entry.node) };
        let member = member_path(&self.path, &entry.key);
        self.at(&member, place, |decoder| read(decoder, &entry.node))
    }

    fn fields<'n>(&mut self, node: &'n Node, definition: &'static str, words: &'static str) -> Option<Fields<'n>> {
        match &node.value {
            Value::Map(entries) => Some(Fields { definition, words, node, entries, known: Vec::new() }),
            _ => self.wrong_type(node, &format!("{words}, which is a map"), None),
        }
    }

    fn optional<T>(
        &mut self,
        fields: &mut Fields<'_>,
        key: &'static str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<T> {
        fields.known.push(key);
        let entry = fields.entries.iter().find(|entry| entry.key == key)?;
        self.member(entry, read)
    }

    fn required<T>(
        &mut self,
        fields: &mut Fields<'_>,
        key: &'static str,
        read: impl FnOnce(&mut Self, &Node) -> Option<T>,
    ) -> Option<T> {
        if fields.entries.iter().any(|entry| entry.key == key) {
            return self.optional(fields, key, read);
        }
        fields.known.push(key);
        let finding = Finding::new(ProblemCode::Missing, format!("{} lacks `{key}`", fields.words))
            .remedy(format!("add `{key}: ...`"));
        let start = fields.node.span.start;
        let first = fields.entries.first().map_or(start..start, |entry| entry.key_span.clone());
        self.wrong_at(first, finding)
    }

    /// Reports the keys that nobody asked for.
    fn finish(&mut self, fields: &Fields<'_>) {
        for entry in fields.entries.iter().filter(|entry| !fields.known.contains(&entry.key.as_str())) {
            if self.report.is_full() {
                return;
            }
            let path = format!("{}{}", self.path, member_path(&self.path, &entry.key));
            if let Some(part) = not_available::find(fields.definition, &entry.key) {
                let value = match entry.node.to_json() {
                    Json::String(text) => text,
                    other => other.to_string(),
                };
                if part.harmless != Some(value.as_str()) {
                    let message = format!("`{}` is not available in this version of LoopForge", part.key);
                    let finding = Finding::new(ProblemCode::NotAvailable, message).remedy(part.remedy);
                    self.report.add(entry.key_span.clone(), path, finding);
                }
                continue;
            }
            let finding =
                Finding::new(ProblemCode::UnknownKey, format!("unknown key `{}` in {}", entry.key, fields.words));
            let finding = match other_word(fields, &entry.key) {
                Some(word) => Finding { nearest: Some(word.to_owned()), ..finding },
                None => finding.known(&entry.key, "keys", &fields.known),
            };
            self.report.add(entry.key_span.clone(), path, finding);
        }
    }

    fn list<T>(&mut self, node: &Node, item: impl Fn(&mut Self, &Node) -> Option<T>) -> Option<Vec<T>> {
        let Value::List(items) = &node.value else {
            let remedy = match &node.value {
                Value::Text(text) => Some(format!("write it in brackets: `[{text}]`")),
                Value::Map(_) => Some("begin each entry with `- `".to_owned()),
                _ => None,
            };
            return self.wrong_type(node, "a list", remedy);
        };
        self.bounded(node, items.len())?;
        let read = |(position, node): (usize, &Rc<Node>)| {
            let place = Place { key: node.span.clone(), node: Rc::clone(node) };
            self.at(&format!("[{position}]"), place, |decoder| item(decoder, node))
        };
        Some(items.iter().enumerate().filter_map(read).collect())
    }

    fn map<T>(&mut self, node: &Node, item: impl Fn(&mut Self, &Node) -> Option<T>) -> Option<BTreeMap<String, T>> {
        let Value::Map(entries) = &node.value else {
            return self.wrong_type(node, "a map", None);
        };
        self.bounded(node, entries.len())?;
        let read = |entry: &Entry| Some((entry.key.clone(), self.member(entry, &item)?));
        Some(entries.iter().filter_map(read).collect())
    }

    fn bounded(&mut self, node: &Node, entries: usize) -> Option<()> {
        if entries <= MAX_ENTRIES {
            return Some(());
        }
        let message = format!("{entries} entries, at most {MAX_ENTRIES} are read here");
        let finding = Finding::new(ProblemCode::TooLarge, message);
        self.wrong(node, finding.remedy("put a long list into a file, name it under `inputs`, and use `foreach`"))
    }

    fn text(&mut self, node: &Node) -> Option<String> {
        let remedy = match &node.value {
            Value::Text(text) => return Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some("put it in quotes".to_owned()),
            Value::Map(_) => Some("a text that begins with `{` is written in quotes".to_owned()),
            Value::List(_) => Some("a text that begins with `[` is written in quotes".to_owned()),
            Value::Null => None,
        };
        self.wrong_type(node, "a text", remedy)
    }

    fn texts(&mut self, node: &Node) -> Option<Vec<String>> {
        self.list(node, Self::text)
    }

    fn bool(&mut self, node: &Node) -> Option<bool> {
        let remedy = match &node.value {
            Value::Bool(bool) => return Some(*bool),
            Value::Text(text) => match text.to_lowercase().as_str() {
                "yes" | "on" | "true" => Some("write `true`".to_owned()),
                "no" | "off" | "false" => Some("write `false`".to_owned()),
                _ => None,
            },
            _ => None,
        };
        self.wrong_type(node, "`true` or `false`", remedy)
    }

    fn whole(&mut self, node: &Node) -> Option<u64> {
        let remedy = match &node.value {
            Value::Number(number) => match (number.as_u64(), number.as_f64()) {
                (Some(whole), _) => return Some(whole),
                (None, Some(float)) if float.fract() == 0.0 && float >= 0.0 => Some(format!("write `{float:.0}`")),
                _ => None,
            },
            Value::Text(text) if text.parse::<u64>().is_ok() => Some("write it without quotes".to_owned()),
            _ => None,
        };
        self.wrong_type(node, "a whole number from 0", remedy)
    }

    fn small(&mut self, node: &Node) -> Option<u32> {
        let whole = self.whole(node)?;
        u32::try_from(whole).ok().or_else(|| {
            let message = format!("{whole} is too large, at most {} is possible", u32::MAX);
            self.wrong(node, Finding::new(ProblemCode::BadValue, message))
        })
    }

    /// A number from 0 to 2, which is the range of temperatures.
    fn temperature(&mut self, node: &Node) -> Option<f32> {
        if let Value::Number(number) = &node.value
            && let Some(value) = number.as_f64().filter(|value| (0.0..=2.0).contains(value))
        {
            #[expect(clippy::cast_possible_truncation, reason = "0 to 2, and nobody sets more than two digits")]
            return Some(value as f32);
        }
        self.wrong_type(node, "a number from 0 to 2", None)
    }

    fn span(&mut self, node: &Node) -> Option<Span> {
        match &node.value {
            Value::Text(text) => match Span::parse(text) {
                Ok(span) => Some(span),
                Err(message) => self.wrong(node, Finding::new(ProblemCode::BadValue, message)),
            },
            Value::Number(number) => {
                self.wrong_type(node, "a time span", Some(format!("say the unit: `{number}s` for seconds")))
            }
            _ => self.wrong_type(node, "a time span such as `10s`", None),
        }
    }

    /// One of a few words.
    fn word<T: Copy>(&mut self, node: &Node, words: &[(&'static str, T)]) -> Option<T> {
        let names: Vec<&str> = words.iter().map(|(name, _)| *name).collect();
        let Value::Text(text) = &node.value else {
            return self.wrong_type(node, &format!("one of {}", names.join(", ")), None);
        };
        if let Some((_, value)) = words.iter().find(|(name, _)| name == text) {
            return Some(*value);
        }
        let finding = Finding::new(ProblemCode::BadValue, format!("`{text}` is not one of {}", names.join(", ")));
        let begins = names.iter().find(|name| !text.is_empty() && name.starts_with(text.as_str()));
        let nearest = super::problem::nearest(text, names.iter().copied()).or(begins.map(|name| (*name).to_owned()));
        self.wrong(node, Finding { nearest, ..finding })
    }

    #[expect(clippy::unnecessary_wraps, reason = "a reader like the others")]
    fn json(&mut self, node: &Node) -> Option<Json> {
        Some(node.to_json())
    }

    fn expression(&mut self, node: &Node) -> Option<Expression> {
        let text = match &node.value {
            Value::Text(text) => text.as_str(),
            Value::Bool(true) => "true",
            Value::Bool(false) => "false",
            _ => return self.wrong_type(node, "an expression, which is a text", Some("put it in quotes".to_owned())),
        };
        let trimmed = text.trim();
        let inner = trimmed.strip_prefix("${").and_then(|rest| rest.strip_suffix('}')).unwrap_or(trimmed).trim();
        if inner.is_empty() {
            return self.wrong(node, Finding::new(ProblemCode::BadExpression, "an expression without anything in it"));
        }
        if inner.contains("${") {
            let finding = Finding::new(ProblemCode::BadExpression, "`${` stands within an expression")
                .remedy("the whole text is an expression: write the names without `${ }`");
            return self.wrong(node, finding);
        }
        match Expression::compile(inner) {
            Ok(expression) => Some(expression),
            Err(error) => self.bad_expression(node, &error),
        }
    }

    fn bad_expression<T>(&mut self, node: &Node, error: &InvalidExpression) -> Option<T> {
        let range = self.within(node, &error.source_text, error.column);
        self.wrong_at(range, Finding::new(ProblemCode::BadExpression, format!("not an expression: {}", error.message)))
    }

    /// The byte of the source that is the `column`th character of `part`, which stands in `node`. The whole of `node` when the text
    /// was written with escapes.
    fn within(&self, node: &Node, part: &str, column: usize) -> Range<usize> {
        let written = self.report.source.text().get(node.span.clone()).unwrap_or_default();
        // A text of several lines is indented in the file, but each line of it stands there.
        let mut before = column.saturating_sub(1);
        let mut line = part;
        for next in part.split_inclusive('\n') {
            line = next;
            match next.chars().count() {
                length if length <= before => before -= length,
                _ => break,
            }
        }
        let Some(position) = written.find(line.trim_end()) else { return node.span.clone() };
        let start = node.span.start + position + line.chars().take(before).map(char::len_utf8).sum::<usize>();
        start..start + 1
    }

    fn template(&mut self, node: &Node) -> Option<Template> {
        let found = self.report.found().len();
        self.check_texts(node);
        if self.report.found().len() > found {
            return None;
        }
        match Template::compile(node.to_json()) {
            Ok(template) => Some(template),
            Err(error) => self.bad_expression(node, &error),
        }
    }

    /// Compiles each text by itself, so that each mistake is found, and at its place.
    fn check_texts(&mut self, node: &Node) {
        match &node.value {
            Value::Text(text) => {
                if let Err(error) = Template::compile(Json::String(text.clone())) {
                    self.bad_expression::<()>(node, &error);
                }
            }
            Value::List(items) => {
                for (position, item) in items.iter().enumerate() {
                    self.inside(&format!("[{position}]"), |decoder| decoder.check_texts(item));
                }
            }
            Value::Map(entries) => {
                for entry in entries {
                    let member = member_path(&self.path, &entry.key);
                    self.inside(&member, |decoder| decoder.check_texts(&entry.node));
                }
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn save_to(&mut self, node: &Node) -> Option<SaveTo> {
        let text = self.text(node)?;
        match SaveTo::parse(&text) {
            Ok(place) => Some(place),
            Err(message) => self.wrong(node, Finding::new(ProblemCode::BadName, message)),
        }
    }
}

/// The path of a member: `.key`, or `["key"]` when it isn't a plain name.
pub(super) fn member_path(parent: &str, key: &str) -> String {
    let plain = !key.is_empty() && key.chars().all(|character| character.is_alphanumeric() || "_-".contains(character));
    match (plain, parent.is_empty()) {
        (true, true) => key.to_owned(),
        (true, false) => format!(".{key}"),
        (false, _) => format!("[{key:?}]"),
    }
}

/// Words of other tools for our keys.
const OTHER_WORDS: &[(&str, &str)] = &[
    ("depends_on", "needs"),
    ("dependencies", "needs"),
    ("after", "needs"),
    ("if", "when"),
    ("condition", "when"),
    ("args", "with"),
    ("arguments", "with"),
    ("params", "with"),
    ("tool", "call"),
    ("uses", "call"),
    ("output", "save"),
    ("register", "save"),
    ("for_each", "foreach"),
    ("loop", "foreach"),
    ("items", "in"),
    ("item", "as"),
    ("command", "process"),
    ("cmd", "process"),
    ("retries", "retry"),
    ("sleep", "wait"),
    ("fallback", "or_else"),
    ("url", "webhook"),
    ("event", "on"),
    ("action", "do"),
    ("tasks", "subgoals"),
    ("limits", "loop"),
    ("description", "goal"),
];

fn other_word(fields: &Fields<'_>, key: &str) -> Option<&'static str> {
    OTHER_WORDS.iter().find(|(other, ours)| *other == key && fields.known.contains(ours)).map(|(_, ours)| *ours)
}
