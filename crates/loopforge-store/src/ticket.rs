//! Waiting for an append later than giving it to the store.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use crate::{Appended, StoreError};

type Answer = Result<Appended, StoreError>;

/// What becomes of an append that was submitted: a future that is ready once it is as durable as was asked, or failed.
///
/// Dropping it takes nothing back.
pub struct Ticket {
    answer: Pin<Box<dyn Future<Output = Answer> + Send>>,
    hurry: Option<Box<dyn FnOnce() + Send>>,
}

impl Ticket {
    /// A ticket whose answer `answer` brings.
    pub fn new(answer: impl Future<Output = Answer> + Send + 'static) -> Self {
        Self { answer: Box::pin(answer), hurry: None }
    }

    /// A ticket that has its answer.
    #[must_use]
    pub fn answered(answer: Answer) -> Self {
        Self::new(std::future::ready(answer))
    }

    /// What tells the store, at most once, that somebody waits.
    #[must_use]
    pub fn on_hurry(self, hurry: impl FnOnce() + Send + 'static) -> Self {
        Self { hurry: Some(Box::new(hurry)), ..self }
    }

    /// Says that somebody waits for the answer. Until then a store may hold the append back for a few milliseconds, so that
    /// others share its flush.
    pub fn hurry(&mut self) {
        if let Some(hurry) = self.hurry.take() {
            hurry();
        }
    }
}

impl Future for Ticket {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        self.answer.as_mut().poll(context)
    }
}

impl fmt::Debug for Ticket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Ticket")
    }
}
