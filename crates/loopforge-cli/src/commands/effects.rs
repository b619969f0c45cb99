//! `loopforge effects RUN`

use clap::Args;
use comfy_table::Cell;
use loopforge_core::id::StepToken;
use loopforge_core::record::Event;
use loopforge_core::tool::Effect;
use loopforge_store::{EffectInfo, EffectState, RunInfo, Store};
use serde_json::{Value, json};

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::{Output, status_cell, table};
use crate::text::line;
use crate::view::View;

/// List what a run changed in the world, or may have changed.
#[derive(Debug, Args)]
pub struct Effects {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// How many at most, the newest
    #[arg(long, value_name = "N")]
    pub limit: Option<usize>,
}

impl Effects {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or a store that can't be read.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let view = View::load(context, store.as_ref(), id).await?;
        let mut effects: Vec<Value> = store.effects(id).await?.iter().map(|effect| known(effect, &view.info)).collect();
        effects.extend(planned(store.as_ref(), &view).await?);
        let left_out = self.limit.map_or(0, |limit| effects.len().saturating_sub(limit));
        let effects = effects.split_off(left_out);
        let mut out = Output::new();
        if context.json {
            out.json(&json!({ "run": id, "effects": effects, "left_out": left_out, "problems": view.problems }))?;
        } else if effects.is_empty() {
            crate::say!("{id} has changed nothing in the world");
        } else {
            let mut rows =
                table(&["STEP", "TOOL", "STATE", "TRIES", "RESULT", "BUSINESS KEY", "TOKEN"], "BUSINESS KEY");
            for effect in &effects {
                let text = |name: &str| effect[name].as_str().map(|text| line(text, 60)).unwrap_or_default();
                rows.add_row(vec![
                    Cell::new(text("action")),
                    Cell::new(text("tool")),
                    status_cell(&text("state")),
                    Cell::new(&effect["attempts"]),
                    Cell::new(text("code")),
                    Cell::new(text("business_key")),
                    Cell::new(text("token")),
                ]);
            }
            out.table(&rows, 0)?;
            if left_out > 0 {
                crate::say!("{left_out} older ones are not shown");
            }
        }
        for problem in &view.problems {
            crate::say!("problem: {}", crate::text::safe(problem));
        }
        out.finish()?;
        Ok(Exit::Success)
    }
}

/// What is known of an effect of a run. One that was started is unknown once nobody works on the run: nobody will say what came of it.
pub fn state(effect: &EffectInfo, run: &RunInfo) -> EffectState {
    match effect.state {
        EffectState::Started if run.owner.is_none() => EffectState::Unknown,
        state => state,
    }
}

/// An effect for programs.
pub fn known(effect: &EffectInfo, run: &RunInfo) -> Value {
    json!({
        "action": effect.action.to_string(),
        "step": effect.action.step,
        "tool": effect.tool,
        "state": state(effect, run).name(),
        "business_key": effect.business_key,
        "token": effect.token,
        "attempts": effect.attempts,
        "started_at": effect.started_at.to_string(),
        "code": effect.outcome.as_ref().map(|outcome| outcome.code),
        "error": effect.outcome.as_ref().and_then(|outcome| outcome.error.clone()),
    })
}

/// Writes that were decided and not started: nothing of them can have happened.
async fn planned(store: &dyn Store, view: &View) -> Result<Vec<Value>, CliError> {
    let mut planned = Vec::new();
    let Some(state) = &view.state else { return Ok(planned) };
    for branch in state.branches.values() {
        if !matches!(branch.phase, loopforge_core::run::Phase::Acting { .. }) {
            continue;
        }
        let mut decided = Vec::new();
        let mut started = Vec::new();
        for record in store.step_records(view.info.id, branch.step).await? {
            match record.event {
                Event::ActionDecided(event) if event.effect != Effect::Read => decided.push(event),
                Event::ActionStarted(event) => started.push(event.id),
                Event::ActionRefused(event) => started.push(event.id),
                Event::ActionFinished(event) => started.push(event.id),
                _ => {}
            }
        }
        for event in decided.into_iter().filter(|event| !started.contains(&event.id)) {
            planned.push(json!({
                "action": event.id.to_string(),
                "step": event.id.step,
                "tool": event.tool,
                "state": "planned",
                "business_key": event.business_key,
                "token": StepToken::of(view.info.id, state.incarnation, event.id.step, event.id.action),
                "attempts": 0,
                "started_at": null,
                "code": null,
                "error": null,
            }));
        }
    }
    Ok(planned)
}
