//! Recordings of models: a cassette of what went over the wire, played without any model.
//!
//! A recording answers only what was asked when it was made. A request that differs is an error that says where, and nothing is made up:
//! whoever changed a prompt has to record again.

mod cassette;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopforge_core::model::{ErrorKind, ModelError, Request};

use crate::{Answer, CallContext, Description, Exchange, Model};

pub use cassette::{Cassette, Recorded};

/// A model that plays recorded answers.
#[derive(Debug)]
pub struct Replay {
    description: Description,
    answers: Vec<Recorded>,
    used: Mutex<Vec<bool>>,
}

impl Replay {
    /// A model by the name `name` that plays `answers`, each once.
    #[must_use]
    pub fn new(name: impl Into<String>, answers: Vec<Recorded>) -> Self {
        let name = name.into();
        let (provider, model) = name.split_once('/').unwrap_or(("replay", &name));
        Self {
            description: Description {
                provider: provider.to_owned(),
                model: model.to_owned(),
                context_window: None,
                max_output_tokens: None,
                address: String::new(),
                name,
            },
            used: Mutex::new(vec![false; answers.len()]),
            answers,
        }
    }

    /// Reads a cassette.
    ///
    /// # Errors
    /// A sentence that names the file, the line and what is wrong.
    pub fn open(name: impl Into<String>, path: &Path) -> Result<Self, String> {
        Ok(Self::new(name, cassette::read(path)?))
    }

    /// The first answer to `asked` that was not played yet.
    fn take(&self, asked: &[String]) -> Result<&Recorded, ModelError> {
        let mut used = self.used.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let place = (0..used.len()).find(|place| !used[*place] && self.answers[*place].asked == asked);
        if let Some(place) = place {
            used[place] = true;
            return Ok(&self.answers[place]);
        }
        let next = used.iter().position(|used| !used);
        drop(used);
        let message = match next.map(|place| (place, &self.answers[place])) {
            None => "every answer of the recording was played".to_owned(),
            Some((place, next)) => {
                let differs = (0..).find(|part| asked.get(*part) != next.asked.get(*part)).unwrap_or_default();
                let what = cassette::part_name(differs);
                format!("the recording has no answer to this request; beside its answer {}, {what} differs", place + 1)
            }
        };
        Err(ModelError::new(ErrorKind::NoAnswer, message))
    }
}

#[async_trait]
impl Model for Replay {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn call(&self, request: &Request, context: &CallContext) -> Answer {
        match self.take(&cassette::asked(request)) {
            Ok(recorded) => recorded.answer(request, context),
            Err(error) => Answer { result: Err(error), exchange: Exchange::default() },
        }
    }
}

/// A model whose answers are recorded.
#[derive(Debug)]
pub struct Recorder {
    model: Arc<dyn Model>,
    cassette: Cassette,
}

impl Recorder {
    /// Records what `model` answers, at the end of `cassette`.
    #[must_use]
    pub fn new(model: Arc<dyn Model>, cassette: Cassette) -> Self {
        Self { model, cassette }
    }
}

#[async_trait]
impl Model for Recorder {
    fn describe(&self) -> &Description {
        self.model.describe()
    }

    async fn call(&self, request: &Request, context: &CallContext) -> Answer {
        let mut answer = self.model.call(request, context).await;
        let recorded = Recorded::new(self.describe(), request, &answer);
        if let Err(error) = self.cassette.add(&recorded) {
            // A recording with a gap would be found out only when it is played.
            answer.result = Err(ModelError::new(ErrorKind::NotConfigured, error));
        }
        answer
    }
}
