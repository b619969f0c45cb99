//! What an expression can see: inputs, state, saved names, facts of the run.

use std::collections::BTreeMap;

use crate::json::Json;
use crate::payload::{BlobCache, NotLoaded, Payload};

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

    pub(crate) fn input_keys(&self) -> Result<Vec<String>, NotLoaded> {
        Ok(self.inputs.keys().cloned().collect())
    }

    pub(crate) fn input(&self, key: &str) -> Result<Option<Json>, NotLoaded> {
        self.inputs.get(key).map(|payload| payload.open(&self.blobs)).transpose()
    }

    pub(crate) fn state_keys(&self) -> Result<Vec<String>, NotLoaded> {
        if self.whole { Ok(self.state.keys().cloned().collect()) } else { Err(NotLoaded::WholeState) }
    }

    /// What a key holds, for a glance: the value as far as it stands in records, or how many members there are.
    pub(crate) fn glance(&self, key: &str) -> Option<String> {
        match self.state.get(key)? {
            StateValue::Single(payload) if payload.holes.is_empty() => Some(payload.inline.to_string()),
            StateValue::Single(payload) => Some(format!("(a large value, {} bytes)", payload.size())),
            StateValue::Members(members) if members.is_empty() => None,
            StateValue::Members(members) => {
                let names: Vec<&str> = members.keys().take(10).map(String::as_str).collect();
                Some(format!("(a map of {}: {})", members.len(), names.join(", ")))
            }
        }
    }

    pub(crate) fn state(&self, key: &str) -> Result<Option<Json>, NotLoaded> {
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
