//! The effects of runs in memory.

use std::collections::HashMap;

use loopforge_core::id::{RunId, StepToken};
use loopforge_core::record::{ActionId, Event, Record};

use crate::derive::{self, EffectNews};
use crate::{EffectInfo, EffectState, StoreError};

/// Who uses a step token, over all runs.
pub(crate) type Tokens = HashMap<StepToken, (RunId, ActionId)>;

/// The effects of one run.
#[derive(Debug, Clone, Default)]
pub(crate) struct Effects {
    /// In the order in which they were started.
    order: Vec<ActionId>,
    by_action: HashMap<ActionId, EffectInfo>,
    /// Who holds a business key.
    keys: HashMap<String, ActionId>,
}

impl Effects {
    pub(crate) fn all(&self) -> impl Iterator<Item = &EffectInfo> {
        self.order.iter().filter_map(|action| self.by_action.get(action))
    }

    pub(crate) fn holder(&self, key: &str) -> Option<&EffectInfo> {
        self.keys.get(key).and_then(|action| self.by_action.get(action))
    }

    /// Makes the changes of a draft.
    pub(crate) fn accept(&mut self, changes: Changes, tokens: &mut Tokens, run: RunId) {
        self.order.extend(changes.order);
        self.by_action.extend(changes.effects);
        for (key, holder) in changes.keys {
            match holder {
                Some(action) => self.keys.insert(key, action),
                None => self.keys.remove(&key),
            };
        }
        for (token, user) in changes.tokens {
            tokens.insert(token, (run, user));
        }
    }
}

/// What an append changes, made apart so that a refusal leaves no trace.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    order: Vec<ActionId>,
    effects: HashMap<ActionId, EffectInfo>,
    keys: HashMap<String, Option<ActionId>>,
    tokens: HashMap<StepToken, ActionId>,
}

/// Changes on top of what there is.
pub(crate) struct Draft<'a> {
    pub(crate) run: RunId,
    pub(crate) effects: &'a Effects,
    pub(crate) tokens: &'a Tokens,
    pub(crate) changes: Changes,
}

impl Draft<'_> {
    /// Takes in what `record` says of an effect.
    pub(crate) fn add(&mut self, record: &Record) -> Result<(), StoreError> {
        let Some((action, news)) = EffectNews::of(&record.event) else { return Ok(()) };
        match &news {
            EffectNews::Started { .. } => self.start(action, news, record),
            _ => {
                self.turn(action, &news, record);
                Ok(())
            }
        }
    }

    fn get(&self, action: ActionId) -> Option<&EffectInfo> {
        self.changes.effects.get(&action).or_else(|| self.effects.by_action.get(&action))
    }

    fn key_holder(&self, key: &str) -> Option<ActionId> {
        self.changes.keys.get(key).copied().unwrap_or_else(|| self.effects.keys.get(key).copied())
    }

    fn token_user(&self, token: &StepToken) -> Option<(RunId, ActionId)> {
        match self.changes.tokens.get(token) {
            Some(action) => Some((self.run, *action)),
            None => self.tokens.get(token).copied(),
        }
    }

    fn release_key(&mut self, action: ActionId, key: Option<&String>) {
        if let Some(key) = key
            && self.key_holder(key) == Some(action)
        {
            self.changes.keys.insert(key.clone(), None);
        }
    }

    fn start(&mut self, action: ActionId, news: EffectNews, record: &Record) -> Result<(), StoreError> {
        let state = news.state();
        let EffectNews::Started { tool, token, business_key, attempt } = news else { return Ok(()) };
        if self.token_user(&token).is_some_and(|user| user != (self.run, action)) {
            return Err(StoreError::Duplicate { key: token.0 });
        }
        if let Some(key) = &business_key
            && self.key_holder(key).is_some_and(|holder| holder != action)
        {
            return Err(StoreError::Duplicate { key: key.clone() });
        }
        let effect = match self.get(action).cloned() {
            Some(effect) if effect.state == EffectState::Confirmed => {
                return Err(StoreError::Duplicate { key: token.0 });
            }
            Some(effect) if effect.token != token => return Err(derive::another_token(action)),
            Some(effect) => {
                self.release_key(action, effect.business_key.as_ref());
                let attempts = effect.attempts.max(attempt);
                EffectInfo { state, token, business_key, attempts, ..effect }
            }
            None => {
                self.changes.order.push(action);
                let (started_at, attempts, outcome) = (record.at, attempt, None);
                EffectInfo { action, tool, token, business_key, state, started_at, attempts, outcome }
            }
        };
        if let Some(key) = &effect.business_key {
            self.changes.keys.insert(key.clone(), Some(action));
        }
        self.changes.tokens.insert(effect.token.clone(), action);
        self.changes.effects.insert(action, effect);
        Ok(())
    }

    /// Moves an effect on, if the action has one that is not confirmed yet.
    fn turn(&mut self, action: ActionId, news: &EffectNews, record: &Record) {
        let Some(mut effect) = self.get(action).filter(|effect| effect.state != EffectState::Confirmed).cloned() else {
            return;
        };
        if let Event::ActionFinished(finished) = &record.event
            && effect.outcome.as_ref().is_none_or(|outcome| outcome.leaves_effect_unknown())
        {
            effect.outcome = Some(finished.result.clone());
        }
        effect.state = news.state();
        if let Some(key) = &effect.business_key {
            if !effect.state.holds_key() {
                self.release_key(action, Some(&key.clone()));
            } else if self.key_holder(key).is_none() {
                self.changes.keys.insert(key.clone(), Some(action));
            }
        }
        self.changes.effects.insert(action, effect);
    }
}
