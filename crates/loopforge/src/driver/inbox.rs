//! What people tell a run that somebody works on (R57, R75).

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopforge_core::id::{RecordId, RunId};
use loopforge_core::record::{Event, NoteTaken, Order, OrderTaken};
use loopforge_core::run::Draft;
use loopforge_store::{Message, Store};
use tokio::time::Instant;

use crate::error::EngineError;

use super::Run;

/// How often a process asks the store whether somebody was told something. Within a second a person sees that it was heard.
pub(super) const LISTEN: Duration = Duration::from_millis(400);

/// Asks for all runs of a process together, so that hundreds of runs cost one look.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    looked: Option<Instant>,
    addressed: HashSet<RunId>,
}

impl Mail {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_due(&self) -> bool {
        let mut state = self.state();
        let due = state.looked.is_none_or(|at| at.elapsed() >= LISTEN);
        if due {
            state.looked = Some(Instant::now());
        }
        due
    }

    async fn has(&self, store: &dyn Store, run: RunId) -> bool {
        if self.is_due() {
            match store.addressed().await {
                Ok(addressed) => self.state().addressed = addressed.into_iter().collect(),
                // The next look finds it.
                Err(error) => tracing::debug!("what runs were told can't be read: {error}"),
            }
        }
        self.state().addressed.contains(&run)
    }

    fn taken(&self, run: RunId) {
        self.state().addressed.remove(&run);
    }
}

impl Run {
    /// Takes in what people told the run. Returns whether somebody paused it.
    pub(super) async fn listen(&mut self) -> Result<bool, EngineError> {
        let mail = Arc::clone(&self.mail);
        // What was told while nobody worked on it is there from the first moment.
        if !std::mem::take(&mut self.not_heard) && !mail.has(&*self.store, self.id).await {
            return Ok(false);
        }
        let messages = match self.store.inbox(self.id).await {
            Ok(messages) => messages,
            Err(error) if error.is_transient() => {
                self.not_heard = true;
                return Ok(false);
            }
            Err(error) => return Err(error.into()),
        };
        mail.taken(self.id);
        if messages.is_empty() || self.state.ended.is_some() {
            return Ok(false);
        }
        let was_paused = self.state.paused.is_some();
        let ids: Vec<RecordId> = messages.iter().map(|message| message.id).collect();
        let new: Vec<Message> =
            messages.into_iter().filter(|message| !self.state.heard.contains(&message.id)).collect();
        let mut now = false;
        for message in new {
            now |= matches!(message.order, Order::Note { now: true, .. });
            self.record(vec![taken(message)])?;
        }
        self.flush().await?;
        if let Err(error) = self.store.taken(self.id, &ids).await {
            tracing::warn!(run = %self.id, "messages are archived, and can't be marked as taken: {error}");
        }
        if self.state.aborted {
            self.drop_reads();
        } else if now {
            for (call, cancel) in &self.asking {
                self.given_up.insert(*call);
                cancel.cancel();
            }
        }
        Ok(!was_paused && self.state.paused.is_some())
    }

    /// Drops what can be dropped: reads and calls of models. Writes go on to their end.
    fn drop_reads(&mut self) {
        self.thinking.cancel();
        self.ready.clear();
        self.held.clear();
        for flight in self.in_flight.values().filter(|flight| !flight.write) {
            flight.abort.abort();
        }
        self.in_flight.retain(|_, flight| flight.write);
    }
}

/// The record of a message.
pub(crate) fn taken(message: Message) -> Draft {
    let Message { id, by, at, order } = message;
    match order {
        Order::Note { text, now } => Event::NoteTaken(NoteTaken { id, text, by, told_at: at, now }).into(),
        order => Event::OrderTaken(OrderTaken { id, order, by, told_at: at }).into(),
    }
}
