//! Telling a run something: notes, orders, and more of its budget.

use loopforge_core::id::{RecordId, RunId};
use loopforge_core::model::Amount;
use loopforge_core::record::{Event, LimitsRaised, Order};
use loopforge_store::{Message, StoreError};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::clock;
use crate::driver::{self, Run};
use crate::engine::Engine;
use crate::error::EngineError;

/// What became of something that a run was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Told {
    /// Nobody works on the run: it is in the archive.
    Archived,
    /// It waits for whoever works on the run, or takes it up.
    Posted,
}

impl Engine {
    /// Tells a run something, whoever works on it. A note waits until somebody does; an order takes effect at once where nobody does:
    /// [`Order::Cancel`] ends the run then.
    ///
    /// After `Ok` it survives anything.
    ///
    /// # Errors
    /// [`EngineError::Ended`] when it has ended; [`EngineError::Store`]. Nothing was told then.
    pub async fn say(&self, id: RunId, order: Order, by: &str) -> Result<Told, EngineError> {
        let info = self.store.run(id).await?;
        if info.status.is_final() {
            return Err(EngineError::Ended { run: id, status: info.status });
        }
        let message = Message { id: RecordId(Uuid::now_v7()), by: by.to_owned(), at: clock::now(), order };
        if matches!(message.order, Order::Note { .. }) {
            self.store.post(id, &message).await?;
            return Ok(Told::Posted);
        }
        let lease = match self.claim(id).await {
            Ok(lease) => lease,
            Err(EngineError::Store(StoreError::Held { .. })) => {
                self.store.post(id, &message).await?;
                return Ok(Told::Posted);
            }
            Err(error) => return Err(error),
        };
        let cancel = message.order == Order::Cancel;
        let (mut run, _) = self.reopen_or_release(id, lease).await?;
        match run.record(vec![driver::taken(message)]) {
            Ok(()) if cancel => run.drive(CancellationToken::new()).await.map(drop)?,
            Ok(()) => {
                let archived = run.flush().await;
                run.leave().await;
                archived?;
            }
            Err(error) => {
                run.leave().await;
                return Err(error);
            }
        }
        Ok(Told::Archived)
    }

    /// Grants a run that nobody works on more tokens and money. All that its budget had taken away comes back with it.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] when its task doesn't limit what is to be raised; [`StoreError::Held`] while somebody works on it.
    /// Nothing was changed.
    pub async fn grant(&self, id: RunId, more: Amount, by: &str) -> Result<(), EngineError> {
        let lease = self.claim(id).await?;
        let (mut run, _) = self.reopen_or_release(id, lease).await?;
        let granted = match raise(&run, more, by) {
            Ok(raised) => match run.record(vec![Event::LimitsRaised(raised).into()]) {
                Ok(()) => run.flush().await,
                Err(error) => Err(error),
            },
            Err(error) => Err(error),
        };
        run.leave().await;
        granted
    }

    async fn reopen_or_release(
        &self,
        id: RunId,
        lease: loopforge_store::Lease,
    ) -> Result<(Run, Option<loopforge_core::id::Seq>), EngineError> {
        match self.reopen(id, lease.clone(), None).await {
            Ok(opened) => Ok(opened),
            Err(error) => {
                // The first error tells what is wrong; a lease that can't be given up lapses by itself.
                let _ = self.store.release_lease(&lease).await;
                Err(error)
            }
        }
    }
}

/// The limits of a run with so much more.
pub(crate) fn raise(run: &Run, more: Amount, by: &str) -> Result<LimitsRaised, EngineError> {
    let limit = run.state().budget_limit(&run.prepared().task);
    let missing =
        |what: &str| EngineError::Invalid(format!("the task limits no {what} (`budget.{what}`): nothing to raise"));
    let tokens = match (more.tokens, limit.tokens) {
        (0, _) => None,
        (more, Some(limit)) => Some(limit.saturating_add(more)),
        (_, None) => return Err(missing("tokens")),
    };
    let cost = match (more.cost.picodollars, limit.cost) {
        (0, _) => None,
        (_, Some(limit)) => Some(limit + more.cost),
        (_, None) => return Err(missing("cost_usd")),
    };
    if tokens.is_none() && cost.is_none() {
        return Err(EngineError::Invalid("nothing more is granted: say how much".to_owned()));
    }
    Ok(LimitsRaised { max_steps: None, max_duration_ms: None, tokens, cost, by: by.to_owned() })
}
