//! What an append changes in the table of effects.
//!
//! The rows that may matter are read first; what becomes of them is worked out here, append by append, so that one that is
//! refused leaves the others alone.

use std::collections::HashMap;

use loopforge_core::id::{ActionNo, StepNo, StepToken};
use loopforge_core::record::ActionId;
use tokio_postgres::Row;

use super::rows::News;
use super::text::{escape, unescape};
use crate::derive::{self, EffectNews};
use crate::sqlite::body::unsigned;
use crate::{EffectState, StoreError};

/// The run's key, step and action.
type Key = (i64, i64, i64);

/// A row of the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EffectRow {
    /// As it stands in the table.
    pub(crate) token: String,
    pub(crate) business_key: Option<String>,
    pub(crate) holds_key: bool,
    pub(crate) state: String,
    pub(crate) attempts: i64,
    pub(crate) started_seq: i64,
    pub(crate) outcome_seq: Option<i64>,
    pub(crate) outcome_open: bool,
}

/// The columns that [`Table::read`] takes.
pub(crate) const COLUMNS: &str = "effect.run, effect.step, effect.action, effect.token, effect.business_key, \
                                  effect.holds_key, effect.state, effect.attempts, effect.started_seq, \
                                  effect.outcome_seq, effect.outcome_open";

/// The rows that matter, and what was changed in them.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: HashMap<Key, EffectRow>,
    changed: Vec<Key>,
}

impl Table {
    /// Takes rows in as they stand in the table.
    pub(crate) fn read(rows: &[Row]) -> Self {
        let row = |row: &Row| {
            let effect = EffectRow {
                token: row.get(3),
                business_key: row.get(4),
                holds_key: row.get(5),
                state: row.get(6),
                attempts: row.get(7),
                started_seq: row.get(8),
                outcome_seq: row.get(9),
                outcome_open: row.get(10),
            };
            ((row.get(0), row.get(1), row.get(2)), effect)
        };
        Self { rows: rows.iter().map(row).collect(), changed: Vec::new() }
    }

    /// Makes the changes of one append, or none of them.
    pub(crate) fn apply(&mut self, run: i64, news: &[News]) -> Result<(), StoreError> {
        let mut before = Vec::new();
        for one in news {
            let key = (run, one.step, one.action);
            before.push((key, self.rows.get(&key).cloned()));
            let result = match &one.news {
                EffectNews::Started { token, business_key, attempt, .. } => {
                    self.start(key, token, business_key.as_deref(), *attempt, one.seq)
                }
                EffectNews::Finished { .. } | EffectNews::Unknown | EffectNews::NotHappened => {
                    self.turn(key, &one.news, one.seq);
                    Ok(())
                }
            };
            if let Err(error) = result {
                for (key, row) in before.into_iter().rev() {
                    match row {
                        Some(row) => self.rows.insert(key, row),
                        None => self.rows.remove(&key),
                    };
                }
                return Err(error);
            }
        }
        self.changed.extend(before.into_iter().map(|(key, _)| key));
        Ok(())
    }

    /// The rows that are not as they were, each once. Those that give a business key up come first.
    pub(crate) fn changed(&self) -> Vec<(Key, &EffectRow)> {
        let mut keys = self.changed.clone();
        keys.sort_unstable();
        keys.dedup();
        let mut rows: Vec<_> = keys.into_iter().filter_map(|key| Some((key, self.rows.get(&key)?))).collect();
        rows.sort_by_key(|(_, row)| row.holds_key);
        rows
    }

    fn key_holder(&self, run: i64, business_key: &str) -> Option<Key> {
        let holds = |(key, row): (&Key, &EffectRow)| {
            (key.0 == run && row.holds_key && row.business_key.as_deref() == Some(business_key)).then_some(*key)
        };
        self.rows.iter().find_map(holds)
    }

    fn start(
        &mut self,
        key: Key,
        token: &StepToken,
        business_key: Option<&str>,
        attempt: u32,
        seq: i64,
    ) -> Result<(), StoreError> {
        let stored = escape(&token.0).into_owned();
        let stored_key = business_key.map(|key| escape(key).into_owned());
        if self.rows.iter().any(|(other, row)| *other != key && row.token == stored) {
            return Err(StoreError::Duplicate { key: token.0.clone() });
        }
        if let (Some(business_key), Some(stored)) = (business_key, &stored_key)
            && self.key_holder(key.0, stored).is_some_and(|holder| holder != key)
        {
            return Err(StoreError::Duplicate { key: business_key.to_owned() });
        }
        let attempts = i64::from(attempt);
        let (holds_key, state) = (stored_key.is_some(), EffectState::Started.name().to_owned());
        match self.rows.get_mut(&key) {
            Some(row) if row.state == EffectState::Confirmed.name() => {
                return Err(StoreError::Duplicate { key: token.0.clone() });
            }
            Some(row) if row.token != stored => {
                let action = ActionNo(u32::try_from(key.2).unwrap_or(u32::MAX));
                return Err(derive::another_token(ActionId { step: StepNo(unsigned(key.1)), action }));
            }
            Some(row) => {
                row.attempts = row.attempts.max(attempts);
                (row.business_key, row.holds_key, row.state) = (stored_key, holds_key, state);
            }
            None => {
                let row = EffectRow {
                    token: stored,
                    business_key: stored_key,
                    holds_key,
                    state,
                    attempts,
                    started_seq: seq,
                    outcome_seq: None,
                    outcome_open: false,
                };
                self.rows.insert(key, row);
            }
        }
        Ok(())
    }

    /// Moves an effect on, if the action has one that is not confirmed yet.
    fn turn(&mut self, key: Key, news: &EffectNews, seq: i64) {
        let Some(row) = self.rows.get(&key).filter(|row| row.state != EffectState::Confirmed.name()) else { return };
        let mut row = row.clone();
        let state = news.state();
        // An outcome of an effect that is unknown, or was when it was found not to have happened, gives way to a later
        // one.
        if matches!(news, EffectNews::Finished { .. }) && (row.outcome_seq.is_none() || row.outcome_open) {
            (row.outcome_seq, row.outcome_open) = (Some(seq), state == EffectState::Unknown);
        }
        state.name().clone_into(&mut row.state);
        let free = |business_key: &str| self.key_holder(key.0, business_key).is_none_or(|holder| holder == key);
        row.holds_key = state.holds_key() && row.business_key.as_deref().is_some_and(free);
        self.rows.insert(key, row);
    }
}

/// A token as it was before it was stored.
pub(crate) fn token(stored: String) -> StepToken {
    StepToken(unescape(stored))
}
