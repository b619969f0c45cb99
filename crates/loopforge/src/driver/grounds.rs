//! What a run has really obtained, for tools whose arguments must be grounded (R25).

use loopforge_core::evaluate::grounding::{Grounding, Known};
use loopforge_core::id::Seq;
use loopforge_core::json::Json;
use loopforge_core::payload::{BlobCache, NotLoaded, Payload};
use loopforge_core::record::Event;

use crate::error::EngineError;
use crate::gateway::Armed;
use crate::gateway::admit::{self, Refusal};

use super::Run;

/// Records that are read at once.
const PAGE: usize = 500;

/// Identifiers in inputs and results, up to a record. Filled when a tool first asks; a run without such tools pays nothing.
#[derive(Default)]
pub(super) struct Grounds {
    upto: Seq,
    patterns: Grounding,
    known: Known,
}

impl Run {
    /// The refusal of a call whose arguments name something that this run never obtained.
    pub(super) async fn check_grounds(
        &mut self,
        tool: &str,
        armed: &Armed,
        arguments: &Json,
    ) -> Result<Option<Refusal>, EngineError> {
        if armed.grounding.is_empty() || !armed.grounding.concerns(arguments) {
            return Ok(None);
        }
        self.learn_grounds().await?;
        let found = armed.grounding.ungrounded(arguments, &self.grounds.known);
        Ok(found.map(|found| admit::ungrounded(tool, &found)))
    }

    /// Reads the records that came since the last time.
    async fn learn_grounds(&mut self) -> Result<(), EngineError> {
        self.journal.harden();
        self.flush().await?;
        if self.grounds.patterns.is_empty() {
            for (_, armed) in self.prepared.toolbox.iter() {
                self.grounds.patterns.merge(&armed.grounding);
            }
        }
        loop {
            let page = self.store.records(self.id, self.grounds.upto, PAGE).await?;
            let full = page.len() == PAGE;
            for record in page {
                self.grounds.upto = record.seq;
                match &record.event {
                    Event::RunStarted(started) => {
                        self.grounds.patterns.learn(&Json::String(started.goal.clone()), &mut self.grounds.known);
                        for input in started.inputs.values() {
                            self.learn_payload(input).await?;
                        }
                    }
                    Event::ActionFinished(finished) if finished.result.is_ok() => {
                        self.learn_payload(&finished.result.data).await?;
                    }
                    _ => {}
                }
            }
            if !full {
                return Ok(());
            }
        }
    }

    async fn learn_payload(&mut self, payload: &Payload) -> Result<(), EngineError> {
        let mut blobs = BlobCache::default();
        loop {
            match payload.open(&blobs) {
                Ok(value) => {
                    self.grounds.patterns.learn(&value, &mut self.grounds.known);
                    return Ok(());
                }
                Err(NotLoaded::Blob(reference)) => blobs.insert(reference, &self.store.blob(&reference).await?),
                // A payload asks for blobs only.
                Err(NotLoaded::State(_) | NotLoaded::WholeState) => return Ok(()),
            }
        }
    }
}
