//! Grounding (R25): every identifier of a kind in what goes out must occur in something that was really obtained.
//!
//! A task says how identifiers look (`grounded: { order: "ORD-[0-9]+" }`). Made-up ones, by a model or by a mistake in a template, are
//! refused with the nearest real one, and the tool is not called.

use std::collections::{BTreeMap, BTreeSet};

use regex::Regex;

use crate::json::Json;

/// How the identifiers of a tool's arguments look, by kind.
#[derive(Debug, Clone, Default)]
pub struct Grounding {
    kinds: Vec<(String, Regex)>,
}

/// Identifiers that were really obtained, by kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Known(BTreeMap<String, BTreeSet<String>>);

/// An identifier that was never obtained.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ungrounded {
    /// Its kind.
    pub kind: String,
    /// The identifier.
    pub identifier: String,
    /// The most similar one of that kind that was obtained.
    pub nearest: Option<String>,
}

impl Grounding {
    /// Compiles the patterns of a task.
    ///
    /// # Errors
    /// The kind whose pattern is no regular expression, and why.
    pub fn compile(patterns: &BTreeMap<String, String>) -> Result<Self, (String, String)> {
        let compile = |(kind, pattern): (&String, &String)| match Regex::new(pattern) {
            Ok(regex) => Ok((kind.clone(), regex)),
            Err(error) => Err((kind.clone(), error.to_string())),
        };
        Ok(Self { kinds: patterns.iter().map(compile).collect::<Result<_, _>>()? })
    }

    /// Whether it looks for anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.kinds.is_empty()
    }

    /// Takes over the patterns of another tool, so that one walk through the archive serves all.
    pub fn merge(&mut self, other: &Self) {
        for (kind, regex) in &other.kinds {
            if !self.kinds.iter().any(|(own, pattern)| own == kind && pattern.as_str() == regex.as_str()) {
                self.kinds.push((kind.clone(), regex.clone()));
            }
        }
    }

    /// Adds the identifiers in `value` to what is known.
    pub fn learn(&self, value: &Json, known: &mut Known) {
        self.each(value, &mut |kind, identifier| {
            known.0.entry(kind.to_owned()).or_default().insert(identifier.to_owned());
        });
    }

    /// The first identifier in `value` that isn't known.
    #[must_use]
    pub fn ungrounded(&self, value: &Json, known: &Known) -> Option<Ungrounded> {
        let mut found = None;
        self.each(value, &mut |kind, identifier| {
            let of_kind = known.0.get(kind);
            if found.is_none() && !of_kind.is_some_and(|known| known.contains(identifier)) {
                let nearest = of_kind.and_then(|known| {
                    known.iter().max_by(|a, b| {
                        strsim::jaro_winkler(a, identifier).total_cmp(&strsim::jaro_winkler(b, identifier))
                    })
                });
                found = Some(Ungrounded {
                    kind: kind.to_owned(),
                    identifier: identifier.to_owned(),
                    nearest: nearest.cloned(),
                });
            }
        });
        found
    }

    /// Whether `value` holds any identifier.
    #[must_use]
    pub fn concerns(&self, value: &Json) -> bool {
        let mut any = false;
        self.each(value, &mut |_, _| any = true);
        any
    }

    fn each(&self, value: &Json, visit: &mut impl FnMut(&str, &str)) {
        let mut texts = |text: &str| {
            for (kind, regex) in &self.kinds {
                regex.find_iter(text).for_each(|found| visit(kind, found.as_str()));
            }
        };
        each_text(value, &mut texts);
    }
}

/// Every text in a value: strings, keys, and numbers as they are written.
fn each_text(value: &Json, visit: &mut impl FnMut(&str)) {
    match value {
        Json::String(text) => visit(text),
        Json::Number(number) => visit(&number.to_string()),
        Json::Array(items) => items.iter().for_each(|item| each_text(item, visit)),
        Json::Object(map) => {
            for (key, item) in map {
                visit(key);
                each_text(item, visit);
            }
        }
        Json::Null | Json::Bool(_) => {}
    }
}
