//! Asking models what the run as a whole wants to know: its plan, and whether the goal is reached.

use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::Seq;
use loopforge_core::model::{Price, ToolSchema};
use loopforge_core::payload::{Blob, BlobKind, NotLoaded};
use loopforge_core::prompt::{self, Board, Prompt, Troubles};
use loopforge_core::record::{Event, ModelCalled, ModelFailed, PromptRef};
use loopforge_core::run::{Replied, View};
use loopforge_core::task::Subgoal;
use loopforge_models::Answer;

use crate::clock;
use crate::error::EngineError;

use super::Run;
use super::budget::Room;
use super::think::{self, PAGE};

impl Run {
    /// Asks a model. As for a step, all that was decided before is archived first, and the intent of the call with it.
    pub(super) async fn consult(&mut self) -> Result<(), EngineError> {
        self.flush().await?;
        let troubles = self.troubles().await?;
        let prepared = Arc::clone(&self.prepared);
        let call = self.state.models.calls.saturating_add(1);
        // A planner may give any tool of the task to a subgoal.
        let tools = think::schemas(&prepared, &Subgoal::whole(""));
        let (purpose, position, model, prompt, reserved, crowded) = loop {
            self.warn_of_budgets()?;
            let Some(consult) = &self.state.consult else { return Ok(()) };
            let purpose = consult.purpose;
            let asked = prepared.models.position_for(purpose, consult.model);
            let position = self.state.budget.model.map_or(asked, |cheaper| cheaper.max(asked));
            let Some(model) = prepared.models.at(position).map(Arc::clone) else {
                return Err(EngineError::Invalid(format!("run {}: the task has no model", self.id)));
            };
            let prompt = loop {
                match self.assemble_consult(&troubles, &tools, &model.describe().name) {
                    Ok(Some(prompt)) => break prompt,
                    Ok(None) => return Ok(()),
                    Err(missing) => self.load(missing).await?,
                }
            };
            match self.make_room(call, &prompt, position).await? {
                Room::Granted(reserved) => break (purpose, position, model, prompt, reserved, None),
                Room::Crowded(wanted) => break (purpose, position, model, prompt, Some(wanted.amount), Some(wanted)),
                Room::Changed if self.state.is_out_of_budget() => return Ok(()),
                Room::Changed => {}
            }
        };
        let called = ModelCalled {
            branch: None,
            step: None,
            purpose,
            call,
            model: model.describe().name.clone(),
            prompt: PromptRef { digest: prompt.digest, upto: self.state.head, tokens: prompt.tokens, left_out: 0 },
            max_output_tokens: prompt.request.max_output_tokens.unwrap_or_default(),
            reserved,
        };
        self.send(called, model, prompt, position, crowded).await
    }

    fn assemble_consult(
        &self,
        troubles: &Troubles,
        tools: &[ToolSchema],
        model: &str,
    ) -> Result<Option<Prompt>, NotLoaded> {
        let board = Board { task: &self.task, state: &self.state, troubles, tools, values: &self.values, model };
        prompt::consult(&board)
    }

    /// The calls that failed so far. A run is consulted about a few times, so its archive is read each time.
    async fn troubles(&mut self) -> Result<Troubles, EngineError> {
        let mut troubles = Troubles::default();
        let mut upto = Seq(0);
        loop {
            let page = self.store.records(self.id, upto, PAGE).await?;
            let full = page.len() == PAGE;
            for record in page {
                upto = record.seq;
                troubles.push(&record);
            }
            if !full {
                return Ok(troubles);
            }
        }
    }

    /// Takes in what a model answered. `anew` says that nothing is wrong with the model, and it is asked again at once.
    pub(super) fn take_advice(
        &mut self,
        call: u32,
        answer: Answer,
        took: Duration,
        price: Option<Price>,
        anew: bool,
    ) -> Result<(), EngineError> {
        let prepared = Arc::clone(&self.prepared);
        let task = Arc::clone(&self.task);
        match answer.result {
            Ok(reply) => {
                let raw = (!answer.exchange.response.is_empty())
                    .then(|| Blob::new(BlobKind::Bytes, answer.exchange.response.to_vec()));
                let cost = price.and_then(|price| price.cost(&reply.usage));
                let replied = Replied { call, reply, cost, raw, took };
                let view =
                    View { task: &task, tools: prepared.toolbox.facts(), values: &self.values, now: clock::now() };
                let drafts = self.state.take_consult(&view, &prepared.catalog, &replied);
                self.record(drafts.unwrap_or_default())
            }
            Err(error) => {
                let purpose = self.state.consult.as_ref().map(|consult| consult.purpose);
                let chain = purpose.map_or(0, |purpose| prepared.models.count_for(purpose));
                let now = clock::now();
                let cost = price.and_then(|price| price.cost(&error.usage));
                let failed = self.state.consult_failure(&task, call, &error, chain, now).map(|failed| {
                    let cost = cost.filter(|_| failed.usage.is_some());
                    let (retry_at, next_model) =
                        if anew { (Some(now), None) } else { (failed.retry_at, failed.next_model) };
                    ModelFailed { cost, retry_at, next_model, ..failed }
                });
                self.record(failed.into_iter().map(|failed| Event::ModelFailed(failed).into()).collect())
            }
        }
    }
}
