//! What calls of models may use: reserved before each call, settled after it.

use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::RunId;
use loopforge_core::model::{Amount, Price, Usage};
use loopforge_core::prompt::Prompt;
use loopforge_core::run::{Over, RunLimit, used};
use loopforge_core::task::Budget;
use loopforge_store::{DayLimit, Reservation, Reserved, Store, StoreError};
use tokio_util::sync::CancellationToken;

use crate::error::EngineError;

use super::Run;

/// How long room in an account is waited for that other runs have reserved and may give back.
const PATIENCE: Duration = Duration::from_secs(120);
/// The first wait before it is looked again, and the longest.
const WAITS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(2));

/// What the budgets say to a call.
pub(super) enum Room {
    /// It fits in; what is reserved for it, where the task has a budget.
    Granted(Option<Amount>),
    /// It fits into the run's budget, and will into the account's once other runs give back what they don't use.
    Crowded(Box<Reservation>),
    /// Something has changed: the prompt is to be made anew, or no model is asked any more.
    Changed,
}

impl Run {
    /// Says what of budgets is nearly used up, before a prompt is made that shall tell it.
    pub(super) fn warn_of_budgets(&mut self) -> Result<(), EngineError> {
        let warnings = self.state.budget_warnings(&self.prepared.task, None);
        self.record(warnings.into_iter().map(Into::into).collect())
    }

    /// Makes room for a call, or does what the task says when there is none.
    pub(super) async fn make_room(&mut self, call: u32, prompt: &Prompt, model: u32) -> Result<Room, EngineError> {
        let prepared = Arc::clone(&self.prepared);
        let budget = prepared.task.budget.as_ref();
        // A probe is limited, whatever the task says.
        if budget.is_none() && self.state.budget_limit(&prepared.task) == RunLimit::default() {
            return Ok(Room::Granted(None));
        }
        let output = prompt.request.max_output_tokens.map_or(prepared.task.limits.max_tokens_per_step, u64::from);
        let price = prepared.models.price(model);
        let needed = Amount {
            tokens: prompt.tokens.saturating_add(output),
            cost: price.map(|price| price.most(prompt.tokens, output)).unwrap_or_default(),
        };
        if let Some(over) = self.state.fits(&prepared.task, needed) {
            self.exceed(&over, model)?;
            return Ok(Room::Changed);
        }
        let Some(wanted) = budget.and_then(|budget| reservation(budget, self.id, call, needed)) else {
            return Ok(Room::Granted(Some(needed)));
        };
        match self
            .patience()
            .ask(|store| {
                let wanted = wanted.clone();
                async move { store.reserve(&wanted).await }
            })
            .await?
        {
            Reserved::Granted(today) => {
                let warnings = self.state.budget_warnings(&prepared.task, Some(today.spent + today.reserved));
                if warnings.is_empty() {
                    return Ok(Room::Granted(Some(needed)));
                }
                self.record(warnings.into_iter().map(Into::into).collect())?;
                Ok(Room::Changed)
            }
            Reserved::Refused(today) if wanted.limit.allows(today.spent + needed) => {
                Ok(Room::Crowded(Box::new(wanted)))
            }
            Reserved::Refused(today) => {
                if let Some(over) = Over::of_day(&prepared.task, today.spent, needed) {
                    self.exceed(&over, model)?;
                }
                Ok(Room::Changed)
            }
        }
    }

    /// Does what the task says about a call that doesn't fit in.
    pub(super) fn exceed(&mut self, over: &Over, model: u32) -> Result<(), EngineError> {
        let cheaper = self.prepared.models.cheaper_than(model);
        let drafts = self.state.exceed(&self.prepared.task, over, cheaper);
        self.record(drafts)
    }

    /// Other runs kept their account's day reserved for too long.
    pub(super) async fn exceed_day(&mut self, call: u32) -> Result<(), EngineError> {
        let prepared = Arc::clone(&self.prepared);
        let needed = self.state.models.reserved.get(&call).copied().unwrap_or_default();
        let Some(account) = prepared.task.budget.as_ref().and_then(|budget| budget.account.clone()) else {
            return Ok(());
        };
        let today = self
            .patience()
            .ask(|store| {
                let account = account.clone();
                async move { store.account(&account).await }
            })
            .await?;
        match Over::of_day(&prepared.task, today.spent + today.reserved, needed) {
            Some(over) => self.exceed(&over, self.state.budget.model.unwrap_or_default()),
            None => Ok(()),
        }
    }

    /// Books what a call used with its account.
    pub(super) async fn settle_call(&mut self, call: u32, spent: Amount) -> Result<(), EngineError> {
        if !self.has_account() {
            return Ok(());
        }
        let run = self.id;
        self.patience().ask(|store| async move { store.settle(run, call, spent).await }).await
    }

    /// Books calls whose owner is gone: what was reserved counts, since nobody will ever know what they used. One that was never archived
    /// was never made.
    pub(super) async fn settle_lost(&mut self) -> Result<(), EngineError> {
        if !self.has_account() {
            return Ok(());
        }
        let run = self.id;
        for (call, reserved) in self.patience().ask(|store| async move { store.reservations(run).await }).await? {
            let spent = if call > self.state.models.calls { Amount::NOTHING } else { reserved };
            self.settle_call(call, spent).await?;
        }
        Ok(())
    }

    fn has_account(&self) -> bool {
        self.prepared.task.budget.as_ref().is_some_and(|budget| budget.account.is_some())
    }

    /// How the store is asked: for as long as an append would be tried.
    fn patience(&self) -> Patience {
        Patience { store: Arc::clone(&self.store), run: self.id, span: self.options.store_patience }
    }
}

/// Asks the store, and again while it can't be reached.
struct Patience {
    store: Arc<dyn Store>,
    run: RunId,
    span: Duration,
}

impl Patience {
    async fn ask<T, F: Future<Output = Result<T, StoreError>>>(
        self,
        ask: impl Fn(Arc<dyn Store>) -> F,
    ) -> Result<T, EngineError> {
        let deadline = tokio::time::Instant::now() + self.span;
        loop {
            match ask(Arc::clone(&self.store)).await {
                Err(error) if error.is_transient() && tokio::time::Instant::now() < deadline => {
                    tracing::warn!(run = %self.run, "no model is asked until its budget is known: {error}");
                    tokio::time::sleep(WAITS.1).await;
                }
                result => return Ok(result?),
            }
        }
    }
}

fn reservation(budget: &Budget, run: RunId, call: u32, amount: Amount) -> Option<Reservation> {
    let per_day = budget.per_day.unwrap_or_default();
    Some(Reservation {
        run,
        call,
        account: budget.account.clone()?,
        amount,
        limit: DayLimit { tokens: per_day.tokens, cost: per_day.cost_usd.map(|cost| cost.0) },
    })
}

/// What a call used, by its provider's word and its price, or else what was reserved for it.
pub(super) fn spent(usage: &Usage, price: Option<&Price>, reserved: Option<Amount>) -> Amount {
    used(usage, price.and_then(|price| price.cost(usage)), reserved.unwrap_or_default())
}

/// Waits until other runs give back what they don't use. Returns whether there was room.
pub(super) async fn wait_for_room(store: &dyn Store, wanted: &Reservation, cancel: &CancellationToken) -> bool {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut wait = WAITS.0;
    loop {
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = cancel.cancelled() => return false,
        }
        match store.reserve(wanted).await {
            Ok(Reserved::Granted(_)) => return true,
            // Waiting longer brings nothing: it was spent.
            Ok(Reserved::Refused(today)) if !wanted.limit.allows(today.spent + wanted.amount) => return false,
            Ok(Reserved::Refused(_)) | Err(_) if tokio::time::Instant::now() < deadline => {}
            Ok(Reserved::Refused(_)) | Err(_) => return false,
        }
        wait = (wait * 2).min(WAITS.1);
    }
}
