//! The core alone: decide, apply, decide; no store, no runtime, no clock.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use loopforge::gateway::Registry;
use loopforge_core::expression::Values;
use loopforge_core::id::{ContentHash, RecordId, RunId, Seq};
use loopforge_core::json::{self, Json};
use loopforge_core::payload::{NotLoaded, Payload};
use loopforge_core::record::{Event, FORMAT, Outcome, OutcomeSource, Record, RunStarted};
use loopforge_core::run::{Draft, Move, RunState};
use loopforge_core::time::Timestamp;
use loopforge_core::tool::Code;

use crate::content::Text;
use crate::proc;
use crate::report::Row;
use crate::tools::{Answer, Deed};
use crate::work;

/// Steps of the run, and how many of them are measured at its beginning and at its end.
const STEPS: u64 = 10_000;
const MEASURED: u64 = 1_000;

pub(super) fn rows(base: &Path) -> Result<Vec<Row>> {
    let mut core = Core::new(base)?;
    core.until(MEASURED)?;
    let first = proc::thread_time();
    core.until(2 * MEASURED)?;
    let early = proc::thread_time() - first;
    core.until(STEPS - MEASURED)?;
    let last = proc::thread_time();
    core.until(STEPS)?;
    let late = proc::thread_time() - last;
    let each = |time: Duration| time.as_secs_f64() * 1e6 / MEASURED as f64;
    Ok(vec![
        Row::plain(format!("core time per step at {MEASURED} steps"), each(early), "µs"),
        Row::at_most(format!("core time per step at {STEPS} steps"), each(late), 200.0, "µs"),
    ])
}

/// A run without anything around it.
struct Core {
    prepared: Arc<loopforge::Prepared>,
    state: RunState,
    values: Values,
    /// Each record is a second after the one before.
    now: i64,
}

impl Core {
    fn new(base: &Path) -> Result<Self> {
        let registry =
            Registry::default().with("answer", Arc::new(Answer::new(Deed::Read, Text::Page, Arc::default())));
        let prepared = work::prepared(base, &registry)?;
        let mut blobs = Vec::new();
        // More than are worked on, so that the run doesn't end.
        let items: Json = (0..STEPS + 1).collect::<Vec<u64>>().into();
        let inputs = BTreeMap::from([("items".to_owned(), Payload::stow(items, &mut blobs))]);
        let mut values = Values::new(inputs.clone(), true);
        for blob in &blobs {
            values.blobs.insert(blob.reference, &blob.bytes);
        }
        let state = RunState::new(RunId(Default::default()), &prepared.task);
        let mut core = Self { prepared, state, values, now: 0 };
        core.apply(vec![
            Event::RunStarted(RunStarted {
                format: FORMAT,
                task: core.prepared.hash,
                name: "bench".to_owned(),
                goal: "bench".to_owned(),
                version: String::new(),
                inputs,
                file: None,
            })
            .into(),
        ])?;
        Ok(core)
    }

    /// Goes on until so many steps are evaluated.
    fn until(&mut self, steps: u64) -> Result<()> {
        while self.state.totals.steps < steps {
            let facts = self.prepared.toolbox.facts();
            let next = self.state.next(&self.prepared.task, facts, &self.values, Timestamp(self.now), &|_| false);
            match next {
                Ok(Move::Record(drafts)) => self.apply(drafts)?,
                Ok(Move::Call(call)) => {
                    let data = Json::String(Text::Page.answer(call.action.step.0));
                    let fingerprint = ContentHash::of(json::canonical(&data).as_bytes());
                    let mut blobs = Vec::new();
                    let result = Outcome {
                        code: Code::Success,
                        data: Payload::stow(data, &mut blobs),
                        error: None,
                        meaning_of_empty: None,
                        retry_after_ms: None,
                        marks: Vec::new(),
                        raw: None,
                        key_fields: BTreeMap::new(),
                        effect_excluded: false,
                        fingerprint,
                    };
                    let drafts = self.state.finish(call, 1, OutcomeSource::Call, result, blobs, Duration::ZERO);
                    self.apply(drafts.context("a call that was asked for is not open")?)?;
                }
                Ok(Move::Calibrate(_) | Move::Think(_) | Move::Consult | Move::Idle(_) | Move::Ended(_)) => {
                    bail!("the run has stopped")
                }
                Err(NotLoaded::Blob(_) | NotLoaded::State(_) | NotLoaded::WholeState) => bail!("a value is missing"),
            }
        }
        Ok(())
    }

    fn apply(&mut self, drafts: Vec<Draft>) -> Result<()> {
        for draft in drafts {
            self.now += 1_000_000;
            let seq = Seq(self.state.head.0 + 1);
            let record = Record { seq, id: RecordId(Default::default()), at: Timestamp(self.now), event: draft.event };
            self.state.apply(&record)?;
        }
        Ok(())
    }
}
