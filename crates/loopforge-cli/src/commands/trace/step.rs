//! One step in full: what it was given, what it did, what came of it.

use std::io::Write;
use std::time::Duration;

use loopforge_core::id::{BranchId, Seq, StepNo};
use loopforge_core::json::Json;
use loopforge_core::payload::Payload;
use loopforge_core::record::{ActionFinished, Event, Record, StateSaved};
use loopforge_store::{EffectInfo, RunInfo, Store};
use serde::Serialize;
use serde_json::{Value, json};

use crate::commands::effects;
use crate::commands::progress::settled_by;
use crate::commands::show::verdict;
use crate::commands::summary::summary;
use crate::context::Context;
use crate::error::CliError;
use crate::output::{self, Output};
use crate::text::{bytes, line, preview, safe, span};
use crate::view::{self, Archive, Place};

/// Characters of a value that are shown without `--full`.
const PREVIEW: usize = 2000;
const WIDTH: usize = 160;

/// Shows a step.
pub(super) async fn show(
    context: &Context,
    store: &dyn Store,
    info: &RunInfo,
    step: StepNo,
    full: bool,
    out: &mut Output,
) -> Result<(), CliError> {
    let records = records(store, info, step).await?;
    let effects: Vec<EffectInfo> =
        store.effects(info.id).await?.into_iter().filter(|effect| effect.action.step == step).collect();
    let shown = Shown { store, info, effects, width: if full { usize::MAX } else { PREVIEW } };
    if context.json {
        return shown.document(step, &records, out).await;
    }
    let mut began = None;
    let mut data = None;
    for record in &records {
        if let Event::StepStarted(_) = record.event {
            began = Some(record.at);
        }
        let after = began.map(|began| format!("+{}", span(record.at.since(began)))).unwrap_or_default();
        if let Event::ActionFinished(event) = &record.event {
            data = Some(&event.result.data);
        }
        shown.record(record, &after, data, out).await?;
    }
    Ok(())
}

/// The records of a step, and those between them that concern its branch: questions, answers, ends of waits.
async fn records(store: &dyn Store, info: &RunInfo, step: StepNo) -> Result<Vec<Record>, CliError> {
    /// A step that waits for ever does not make the whole archive be read.
    const FURTHEST: u64 = 100_000;
    let none = || {
        CliError::usage(format!("{} has no step {step}", info.id))
            .hint(format!("`loopforge trace {}` lists its records, with their steps", info.id))
    };
    let own = store.step_records(info.id, step).await?;
    let (Some(first), Some(last)) = (own.first(), own.last()) else { return Err(none()) };
    let over = matches!(last.event, Event::StepEvaluated(_));
    let until = if over { last.seq } else { Seq(info.head.0.min(first.seq.0.saturating_add(FURTHEST))) };
    let branch = own.iter().find_map(|record| match &record.event {
        Event::StepStarted(event) => Some(event.branch),
        _ => None,
    });
    let mut records = Vec::new();
    let mut archive = Archive::new(store, info.id, Seq(first.seq.0 - 1), until);
    while let Some(page) = archive.next().await? {
        for place in page {
            match place {
                Place::Record(record) => {
                    let mine = match record.event.step() {
                        Some(of) => of == step,
                        None => branch.is_some() && branch_of(&record.event) == branch,
                    };
                    if mine {
                        records.push(*record);
                    }
                }
                Place::Unreadable { seq, problem } => crate::say!("record {seq}: {}", safe(&problem)),
            }
        }
    }
    Ok(records)
}

/// The branch of an event that names no step.
const fn branch_of(event: &Event) -> Option<BranchId> {
    match event {
        Event::WaitEnded(event) => Some(event.branch),
        Event::QuestionAsked(event) => event.branch,
        Event::QuestionAnswered(event) => event.branch,
        Event::LifecycleMoved(event) | Event::LifecycleRefused(event) => Some(event.branch),
        Event::LoopFound(event) => Some(event.branch),
        _ => None,
    }
}

struct Shown<'a> {
    store: &'a dyn Store,
    info: &'a RunInfo,
    effects: Vec<EffectInfo>,
    width: usize,
}

impl Shown<'_> {
    /// Shows a record; `data` is the last result before it.
    async fn record(
        &self,
        record: &Record,
        after: &str,
        data: Option<&Payload>,
        out: &mut Output,
    ) -> Result<(), CliError> {
        match &record.event {
            Event::StepStarted(event) => {
                let item = event.item.map(|item| format!(", item {item}")).unwrap_or_default();
                writeln!(
                    out,
                    "step {} of {}{item}, branch {}, {}",
                    event.step, event.subgoal, event.branch, record.at
                )?;
                let basis = &event.basis;
                writeln!(out, "  how far is the goal?       {} of {}", basis.done, basis.of)?;
                let last = basis.last.map_or("no call yet", |code| code.name());
                writeln!(out, "  is the last result good?   {last}")?;
                writeln!(out, "  what is most sensible now? {}", line(&basis.next, WIDTH))?;
                if let Some(input) = &event.input {
                    self.value("input", input, out).await?;
                }
            }
            Event::ActionDecided(event) => {
                writeln!(out, "{after:<8} action {} {} ({})", event.id, safe(&event.tool), event.effect)?;
                if event.alternative > 0 {
                    writeln!(out, "  alternative {}", event.alternative)?;
                }
                if let Some(key) = &event.business_key {
                    writeln!(out, "  business key {}", line(key, WIDTH))?;
                }
                if let Some(save) = &event.save {
                    let member = save.member.as_ref().map(|member| format!("[{member}]")).unwrap_or_default();
                    let place = if save.local { "this item only" } else { "state" };
                    writeln!(out, "  saves to {}{} ({place})", safe(&save.name), line(&member, 60))?;
                }
                self.value("arguments", &event.arguments, out).await?;
            }
            Event::ActionFinished(event) => self.finished(event, after, out).await?,
            Event::StateSaved(event) => {
                self.state(record.seq, event, after, out).await?;
                if data == Some(&event.value) {
                    writeln!(out, "  after: the data above")?;
                } else {
                    self.value("after", &event.value, out).await?;
                }
            }
            Event::StepEvaluated(event) => {
                writeln!(out, "{after:<8} evaluated")?;
                verdict(out, &event.verdict, "  ")?;
            }
            other => {
                // Questions are long, and here they are read to their end.
                let kind = other.kind().replace('_', " ");
                writeln!(out, "{after:<8} {kind} {}", summary(other, self.width))?;
            }
        }
        Ok(())
    }

    async fn finished(&self, event: &ActionFinished, after: &str, out: &mut Output) -> Result<(), CliError> {
        let result = &event.result;
        let how = match settled_by(event.source) {
            Some(how) => how.to_owned(),
            None => format!("answered in {}", span(Duration::from_micros(event.took_us))),
        };
        let tries = if event.attempt == 1 { "1 try".to_owned() } else { format!("{} tries", event.attempt) };
        writeln!(out, "{after:<8} finished {} {}, {tries}, {how}", event.id, output::status(result.code.name()))?;
        if let Some(error) = &result.error {
            writeln!(out, "  error {}", safe(error))?;
        }
        if let Some(meaning) = &result.meaning_of_empty {
            writeln!(out, "  empty means: {}", line(meaning, WIDTH))?;
        }
        for mark in &result.marks {
            writeln!(out, "  mark {}", line(mark, WIDTH))?;
        }
        for (at, value) in &result.key_fields {
            writeln!(out, "  key field {} = {}", line(at, 60), crate::text::short(value, 100))?;
        }
        if let Some(raw) = &result.raw {
            writeln!(out, "  bytes as they came: {}, blob {} (see `loopforge export`)", bytes(raw.size), raw.hash)?;
        }
        self.value("data", &result.data, out).await?;
        if let Some(effect) = self.effects.iter().find(|effect| effect.action == event.id) {
            writeln!(
                out,
                "  effect {}, token {}",
                output::status(effects::state(effect, self.info).name()),
                effect.token
            )?;
        }
        Ok(())
    }

    async fn state(&self, seq: Seq, event: &StateSaved, after: &str, out: &mut Output) -> Result<(), CliError> {
        let member = event.member.as_ref().map(|member| format!("[{}]", line(member, 60))).unwrap_or_default();
        writeln!(out, "{after:<8} state {}{member}, record {seq}", safe(&event.key))?;
        match self.before(seq, event).await? {
            Some(before) => self.value("before", &before, out).await?,
            None => writeln!(out, "  before: nothing")?,
        }
        Ok(())
    }

    /// The value that a record replaced.
    async fn before(&self, seq: Seq, event: &StateSaved) -> Result<Option<Payload>, CliError> {
        let versions = self.store.state_history(self.info.id, &event.key, event.member.as_deref()).await?;
        Ok(versions.into_iter().rfind(|version| version.seq < seq).map(|version| version.value))
    }

    async fn open(&self, payload: &Payload) -> Result<Json, CliError> {
        let (value, problems) = view::open(self.store, payload).await?;
        for problem in problems {
            crate::say!("problem: {}", safe(&problem));
        }
        Ok(value)
    }

    /// Short values stand behind their name, long ones below it.
    async fn value(&self, name: &str, payload: &Payload, out: &mut Output) -> Result<(), CliError> {
        const SHORT: usize = 100;
        let value = self.open(payload).await?;
        if value.is_null() {
            return Ok(writeln!(out, "  {name}: null")?);
        }
        // A small value stays on one line, whatever it is made of.
        if payload.size() <= SHORT as u64 && !value.is_string() {
            return Ok(writeln!(out, "  {name}: {}", safe(&value.to_string()))?);
        }
        let (text, cut) = preview(&value, self.width);
        if text.len() <= SHORT && !text.contains('\n') {
            return Ok(writeln!(out, "  {name}: {text}")?);
        }
        writeln!(out, "  {name} ({}):", bytes(payload.size()))?;
        for line in text.lines() {
            writeln!(out, "    {line}")?;
        }
        if cut {
            writeln!(out, "    … (--full shows all of it)")?;
        }
        Ok(())
    }

    /// For programs: the records as they are, and beside them what they refer to.
    async fn document(&self, step: StepNo, records: &[Record], out: &mut Output) -> Result<(), CliError> {
        #[derive(Serialize)]
        struct Document<'a> {
            run: loopforge_core::id::RunId,
            step: StepNo,
            records: &'a [Record],
            opened: Vec<Value>,
            effects: Vec<Value>,
        }
        let mut opened = Vec::new();
        for Record { seq, event, .. } in records {
            match event {
                Event::StepStarted(event) => {
                    if let Some(input) = &event.input {
                        opened.push(json!({ "seq": seq, "input": self.open(input).await? }));
                    }
                }
                Event::ActionDecided(event) => {
                    opened.push(json!({ "seq": seq, "arguments": self.open(&event.arguments).await? }));
                }
                Event::ActionFinished(event) => {
                    opened.push(json!({ "seq": seq, "data": self.open(&event.result.data).await? }));
                }
                Event::StateSaved(event) => {
                    let before = match self.before(*seq, event).await? {
                        Some(before) => self.open(&before).await?,
                        None => Json::Null,
                    };
                    opened.push(json!({ "seq": seq, "before": before, "after": self.open(&event.value).await? }));
                }
                _ => {}
            }
        }
        let effects = self.effects.iter().map(|effect| effects::known(effect, self.info)).collect();
        out.json(&Document { run: self.info.id, step, records, opened, effects })
    }
}
