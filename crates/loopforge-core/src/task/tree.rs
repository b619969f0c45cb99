//! A YAML text as a tree in which every node knows its place.
//!
//! Built from the parser's events, because a place is needed for every key and value, and because all mistakes of a file are
//! to be found in one go. YAML 1.2: `yes`, `no`, `on` and `off` are texts. JSON is YAML.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

use serde_json::Number;
use serde_saphyr::granit_parser::{Event, Marker, Parser, ScalarStyle, ScanError, Tag};

use super::problem::{Finding, Problem, ProblemCode, Report, Source};
use crate::json::Json;

/// Nested deeper than this, a file is refused. Walks over the tree recurse, so this bounds the stack.
const MAX_DEPTH: usize = 64;
/// The weight that a file may reach through aliases: a file of a hundred lines can stand for gigabytes.
const MAX_WEIGHT: usize = 8 * 1024 * 1024;
/// The most values that a file may hold.
const MAX_NODES: usize = 300_000;
/// The longest key in bytes.
const MAX_KEY: usize = 256;

/// A value and its place.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) value: Value,
    /// Bytes of the source.
    pub(super) span: Range<usize>,
    /// Bytes that it takes in memory, about, with aliases counted each time.
    weight: usize,
    depth: usize,
}

/// What a node holds.
#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Rc<Node>>),
    Map(Vec<Entry>),
}

/// A key and its value.
#[derive(Debug, Clone)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_span: Range<usize>,
    pub(super) node: Rc<Node>,
}

impl Node {
    /// The value without places.
    pub(super) fn to_json(&self) -> Json {
        match &self.value {
            Value::Null => Json::Null,
            Value::Bool(bool) => Json::Bool(*bool),
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.clone()),
            Value::List(items) => Json::Array(items.iter().map(|item| item.to_json()).collect()),
            Value::Map(entries) => {
                Json::Object(entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect())
            }
        }
    }

    /// The part to which a JSON pointer leads, or the nearest part on the way.
    pub(super) fn at(&self, pointer: &str) -> &Self {
        let mut node = self;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/").replace("~0", "~");
            let next = match &node.value {
                Value::List(items) => part.parse::<usize>().ok().and_then(|position| items.get(position)),
                Value::Map(entries) => entries.iter().find(|entry| entry.key == part).map(|entry| &entry.node),
                _ => None,
            };
            match next {
                Some(next) => node = next,
                None => break,
            }
        }
        node
    }

    /// What it is, in the words of a message.
    pub(super) fn describe(&self) -> String {
        match &self.value {
            Value::Null => "nothing".to_owned(),
            Value::Bool(bool) => format!("`{bool}`"),
            Value::Number(number) => format!("the number {number}"),
            Value::Text(text) if text.chars().count() <= 40 && !text.contains('\n') => format!("the text `{text}`"),
            Value::Text(_) => "a text".to_owned(),
            Value::List(_) => "a list".to_owned(),
            Value::Map(_) => "a map".to_owned(),
        }
    }
}

/// Reads the source. Mistakes after which reading goes on, such as a key given twice, are added to `report`.
///
/// # Errors
/// The mistake after which nothing further can be read.
pub(super) fn parse(report: &mut Report<'_, '_>) -> Result<Rc<Node>, Box<Problem>> {
    Builder { source: report.source, report, anchors: HashMap::new(), open: Vec::new(), nodes: 0 }.build()
}

struct Builder<'a, 's, 't> {
    source: &'s Source<'t>,
    report: &'a mut Report<'s, 't>,
    anchors: HashMap<usize, Rc<Node>>,
    open: Vec<Open>,
    nodes: usize,
}

/// A list or map that is being read.
struct Open {
    anchor: usize,
    start: usize,
    content: Content,
}

enum Content {
    List(Vec<Rc<Node>>),
    Map { entries: Vec<Entry>, seen: HashSet<String>, key: Option<(String, Range<usize>)>, merges: Vec<Rc<Node>> },
}

impl Builder<'_, '_, '_> {
    fn build(mut self) -> Result<Rc<Node>, Box<Problem>> {
        let mut options = serde_saphyr::granit_parser::Options::default();
        options.set_emit_comments(false);
        options.block_nesting_limit = MAX_DEPTH;
        options.flow_nesting_limit = MAX_DEPTH;
        let text = self.source.text();
        let mut root = None;
        for event in Parser::new_from_str_with_options(text, options) {
            let (event, span) = event.map_err(|error| self.syntax(&error))?;
            let range = offset(&span.start)..offset(&span.end);
            let complete = match event {
                Event::Scalar(text, style, anchor, tag) => {
                    let value = self.scalar(&text, style, tag.as_deref(), &range)?;
                    let weight = 16 + text.len();
                    Some((anchor, Node { value, span: range.clone(), weight, depth: 1 }))
                }
                Event::SequenceStart(_, anchor, tag) => {
                    self.collection_tag(tag.as_deref(), &range)?;
                    self.open.push(Open { anchor, start: range.start, content: Content::List(Vec::new()) });
                    None
                }
                Event::MappingStart(_, anchor, tag) => {
                    self.collection_tag(tag.as_deref(), &range)?;
                    let (entries, merges) = (Vec::new(), Vec::new());
                    let content = Content::Map { entries, seen: HashSet::new(), key: None, merges };
                    self.open.push(Open { anchor, start: range.start, content });
                    None
                }
                Event::SequenceEnd | Event::MappingEnd => self.close(range.start),
                Event::Alias(id) => {
                    let node = self.anchors.get(&id).map(Rc::clone).ok_or_else(|| {
                        self.fail(
                            &range,
                            Finding::new(ProblemCode::Syntax, "an alias stands within what it stands for")
                                .remedy("write the value out"),
                        )
                    })?;
                    self.place(node, &range, &mut root)?;
                    None
                }
                Event::DocumentStart(..) if root.is_some() => {
                    return Err(self.fail(
                        &range,
                        Finding::new(ProblemCode::Syntax, "a second document begins here").remedy(
                            "one file holds one task: remove the `---` and what follows, or use a file of its own",
                        ),
                    ));
                }
                _ => None,
            };
            if let Some((anchor, node)) = complete {
                let node = Rc::new(node);
                if anchor != 0 {
                    self.anchors.insert(anchor, Rc::clone(&node));
                }
                self.place(node, &range, &mut root)?;
            }
        }
        root.ok_or_else(|| {
            let finding = Finding::new(ProblemCode::Empty, "the file is empty")
                .remedy("write a task: it begins with `name`, `goal` and `subgoals`");
            self.fail(&(0..0), finding)
        })
    }

    fn fail(&self, range: &Range<usize>, finding: Finding) -> Box<Problem> {
        fail(self.source, range, finding)
    }

    fn syntax(&self, error: &ScanError) -> Box<Problem> {
        let at = offset(error.marker());
        let message = error.info();
        let finding = if self.source.text()[..at.min(self.source.text().len())].trim_end().is_empty()
            && self.source.text().trim().is_empty()
        {
            Finding::new(ProblemCode::Empty, "the file is empty")
        } else if message.contains("nesting") || message.contains("recursion") {
            Finding::new(ProblemCode::TooLarge, format!("nested deeper than {MAX_DEPTH} levels"))
        } else {
            let finding = Finding::new(ProblemCode::Syntax, format!("not YAML: {message}"));
            match syntax_remedy(message.as_str(), self.line_at(at)) {
                Some(remedy) => finding.remedy(remedy),
                None => finding,
            }
        };
        self.fail(&(at..at), finding)
    }

    fn line_at(&self, at: usize) -> &str {
        let text = self.source.text();
        let at = text.floor_char_boundary(at.min(text.len()));
        let start = text[..at].rfind('\n').map_or(0, |position| position + 1);
        text[start..].lines().next().unwrap_or_default()
    }

    fn scalar(
        &self,
        text: &str,
        style: ScalarStyle,
        tag: Option<&Tag>,
        range: &Range<usize>,
    ) -> Result<Value, Box<Problem>> {
        match tag.map(|tag| if tag.is_yaml_core_schema() { tag.suffix() } else { "" }) {
            Some("str") => return Ok(Value::Text(text.to_owned())),
            None | Some("int" | "float" | "bool" | "null") => {}
            Some(_) => return Err(self.unknown_tag(tag, range)),
        }
        if style != ScalarStyle::Plain {
            return Ok(Value::Text(text.to_owned()));
        }
        plain(text).map_err(|finding| self.fail(range, finding))
    }

    fn collection_tag(&self, tag: Option<&Tag>, range: &Range<usize>) -> Result<(), Box<Problem>> {
        match tag {
            Some(known) if !(known.is_yaml_core_schema() && matches!(known.suffix(), "map" | "seq")) => {
                Err(self.unknown_tag(tag, range))
            }
            _ => Ok(()),
        }
    }

    fn unknown_tag(&self, tag: Option<&Tag>, range: &Range<usize>) -> Box<Problem> {
        let name = tag.map(Tag::original).unwrap_or_default();
        let finding = Finding::new(ProblemCode::Syntax, format!("the tag `{name}` has no meaning here"));
        self.fail(range, finding.remedy("remove it; a text that looks like something else is written in quotes"))
    }

    fn close(&mut self, end: usize) -> Option<(usize, Node)> {
        let Open { anchor, start, content } = self.open.pop()?;
        let value = match content {
            Content::List(items) => Value::List(items),
            Content::Map { mut entries, mut seen, merges, .. } => {
                // What the map says itself goes before what is merged into it.
                for merged in merges {
                    if let Value::Map(others) = &merged.value {
                        for other in others {
                            if seen.insert(other.key.clone()) {
                                entries.push(other.clone());
                            }
                        }
                    }
                }
                Value::Map(entries)
            }
        };
        let (weight, depth) = match &value {
            Value::List(items) => measure(items.iter()),
            Value::Map(entries) => {
                let (weight, depth) = measure(entries.iter().map(|entry| &entry.node));
                (weight + entries.iter().map(|entry| entry.key.len() + 16).sum::<usize>(), depth)
            }
            _ => (0, 0),
        };
        Some((anchor, Node { value, span: start..end.max(start), weight: weight + 16, depth: depth + 1 }))
    }

    /// Puts a complete node where it belongs: into the list or map that is open, or at the top.
    fn place(&mut self, node: Rc<Node>, range: &Range<usize>, root: &mut Option<Rc<Node>>) -> Result<(), Box<Problem>> {
        if node.depth + self.open.len() > MAX_DEPTH {
            let message = format!("nested deeper than {MAX_DEPTH} levels");
            return Err(self.fail(range, Finding::new(ProblemCode::TooLarge, message)));
        }
        self.nodes += 1;
        if node.weight > MAX_WEIGHT || self.nodes > MAX_NODES {
            let finding = Finding::new(ProblemCode::TooLarge, "too many values, counted with what aliases stand for");
            return Err(self.fail(range, finding.remedy("write out what is needed, or read it from an input file")));
        }
        let source = self.source;
        match self.open.last_mut().map(|open| &mut open.content) {
            None => *root = Some(node),
            Some(Content::List(items)) => items.push(node),
            Some(Content::Map { entries, seen, key, merges }) => match key.take() {
                None => *key = Some((key_text(&node, source, range)?, range.clone())),
                Some((name, _)) if name == "<<" => match &node.value {
                    Value::Map(_) => merges.push(node),
                    Value::List(items) if items.iter().all(|item| matches!(item.value, Value::Map(_))) => {
                        merges.extend(items.iter().map(Rc::clone));
                    }
                    _ => {
                        let finding = Finding::new(ProblemCode::WrongType, "`<<` merges maps only");
                        return Err(fail(source, range, finding));
                    }
                },
                Some((name, key_span)) => {
                    if seen.insert(name.clone()) {
                        entries.push(Entry { key: name, key_span, node });
                    } else {
                        let finding = Finding::new(ProblemCode::DuplicateKey, format!("`{name}` is given twice"))
                            .remedy("keep one of the two");
                        self.report.add(key_span, name, finding);
                    }
                }
            },
        }
        Ok(())
    }
}

fn fail(source: &Source<'_>, range: &Range<usize>, finding: Finding) -> Box<Problem> {
    Box::new(source.problem(range.clone(), String::new(), finding))
}

/// What people most often mean, for mistakes whose names only YAML's authors understand.
fn syntax_remedy(message: &str, line: &str) -> Option<&'static str> {
    Some(match message {
        _ if line.contains("${") => "a text with `${ }` is written in quotes: \"${ inputs.pages }\"",
        _ if message.contains("tab") => "indent with spaces, not tabs",
        _ if message.contains("mapping values are not allowed") => {
            "keys of one map begin in one column, and a text with `: ` in it is written in quotes"
        }
        _ if message.contains("unknown anchor") => "a text that begins with `*` is written in quotes",
        _ if message.contains("unclosed quote") => "add the closing quote",
        _ => return None,
    })
}

fn measure<'n>(nodes: impl Iterator<Item = &'n Rc<Node>>) -> (usize, usize) {
    nodes.fold((0, 0), |(weight, depth), node| (weight.saturating_add(node.weight), depth.max(node.depth)))
}

fn key_text(node: &Node, source: &Source<'_>, range: &Range<usize>) -> Result<String, Box<Problem>> {
    match &node.value {
        Value::Text(text) if text.len() > MAX_KEY => {
            let finding = Finding::new(ProblemCode::TooLarge, format!("a key longer than {MAX_KEY} bytes"));
            Err(fail(source, range, finding.remedy("a `:` in a text makes a key of it: quote it")))
        }
        Value::Text(text) => Ok(text.clone()),
        // Keys are names: `200:` and `true:` mean what stands there.
        Value::Null | Value::Bool(_) | Value::Number(_) => {
            Ok(source.text().get(range.clone()).unwrap_or_default().trim().to_owned())
        }
        Value::List(_) | Value::Map(_) => {
            let finding = Finding::new(ProblemCode::WrongType, format!("{} can't be a key", node.describe()))
                .remedy("a text with `{` or `[` is written in quotes: \"${ ... }\"");
            Err(fail(source, range, finding))
        }
    }
}

/// A plain scalar by YAML's core schema.
fn plain(text: &str) -> Result<Value, Finding> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        ".nan" | ".NaN" | ".NAN" | ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | "-.Inf" | "-.INF" => {
            return Err(Finding::new(ProblemCode::BadValue, format!("`{text}` is no number that JSON can hold")));
        }
        _ => match number(text)? {
            Some(number) => Value::Number(number),
            None => Value::Text(text.to_owned()),
        },
    })
}

fn number(text: &str) -> Result<Option<Number>, Finding> {
    let too_large = || {
        Finding::new(ProblemCode::BadValue, format!("`{text}` is too large for a number"))
            .remedy("write it in quotes, as a text")
    };
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    if !digits.starts_with(|first: char| first.is_ascii_digit() || first == '.') {
        return Ok(None);
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(rest) = text.strip_prefix(prefix)
            && !rest.is_empty()
            && rest.chars().all(|digit| digit.is_digit(radix))
        {
            return u64::from_str_radix(rest, radix).map(|value| Some(value.into())).map_err(|_| too_large());
        }
    }
    if digits.bytes().all(|digit| digit.is_ascii_digit()) {
        let plain = text.strip_prefix('+').unwrap_or(text);
        return match (plain.parse::<i64>(), plain.parse::<u64>()) {
            (Ok(value), _) => Ok(Some(value.into())),
            (_, Ok(value)) => Ok(Some(value.into())),
            _ => Err(too_large()),
        };
    }
    if !digits.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E' | b'+' | b'-')) {
        return Ok(None);
    }
    match text.parse::<f64>() {
        Ok(value) => Number::from_f64(value).map(Some).ok_or_else(too_large),
        Err(_) => Ok(None),
    }
}

fn offset(marker: &Marker) -> usize {
    marker.byte_offset().unwrap_or(0)
}
