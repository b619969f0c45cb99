//! `loopforge budget RUN`

use std::io::Write;

use clap::Args;
use loopforge_core::model::{Amount, Money};
use loopforge_core::run::RunState;
use loopforge_core::task::Task;
use serde_json::{Value, json};

use crate::context::{Context, user};
use crate::error::{CliError, Exit, resume_hint};
use crate::output::Output;
use crate::view::View;

/// Show what a run used and has left, or grant it more.
#[derive(Debug, Args)]
pub struct Budget {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// Grant so much more: `2usd` or `50000tokens`; both by giving it twice
    #[arg(long, value_name = "AMOUNT", value_parser = amount)]
    pub add: Vec<Amount>,
}

/// Reads `2usd`, `$2.50`, `50000tokens`, each with or without a `+`.
pub fn amount(text: &str) -> Result<Amount, String> {
    let text = text.trim().trim_start_matches('+');
    let tokens = text.strip_suffix("tokens").or_else(|| text.strip_suffix("token")).map(str::trim);
    match tokens {
        Some(tokens) => {
            let tokens = tokens.parse().map_err(|_| format!("`{text}` is no number of tokens: write `50000tokens`"))?;
            Ok(Amount { tokens, cost: Money::ZERO })
        }
        None if text.ends_with("usd") || text.starts_with('$') => Ok(Amount { tokens: 0, cost: Money::parse(text)? }),
        None => Err(format!("say what `{text}` is: write `{text}usd` or `{text}tokens`")),
    }
}

impl Budget {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run; or the task doesn't limit what is to be raised.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let more: Amount = self.add.into_iter().sum();
        if more != Amount::NOTHING {
            let engine = context.engine()?;
            let id = context.find_run(engine.store().as_ref(), self.run.as_deref()).await?;
            engine.grant(id, more, &user()).await?;
            crate::say!("{id}: granted. Go on with: {}", resume_hint(id));
        }
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let view = View::load(context, store.as_ref(), id).await?;
        let (Some(task), Some(state)) = (&view.task, &view.state) else {
            return Err(CliError::new(Exit::Environment, view.problems.join("; ")));
        };
        let mut out = Output::new();
        let account = match task.budget.as_ref().and_then(|budget| budget.account.as_ref()) {
            Some(account) => Some((account, store.account(account).await?)),
            None => None,
        };
        if context.json {
            let mut document = document(task, state);
            document["run"] = json!(id);
            document["account"] = json!(account.map(|(name, day)| json!({
                "name": name, "day_begins": day.day.begins().to_string(), "spent": amount_document(day.spent),
                "reserved": amount_document(day.reserved),
            })));
            out.json(&document)?;
        } else {
            lines(&mut out, task, state)?;
            if let Some((name, day)) = account {
                let per_day = task.budget.as_ref().and_then(|budget| budget.per_day).unwrap_or_default();
                let of = |limit: Option<String>| limit.map(|limit| format!(" of {limit}")).unwrap_or_default();
                writeln!(
                    out,
                    "account   {name}, today (UTC): {} tokens used{}, {} reserved; {} used{}, {} reserved",
                    day.spent.tokens,
                    of(per_day.tokens.map(|limit| limit.to_string())),
                    day.reserved.tokens,
                    day.spent.cost,
                    of(per_day.cost_usd.map(|limit| limit.0.to_string())),
                    day.reserved.cost
                )?;
            }
        }
        out.finish()?;
        Ok(Exit::Success)
    }
}

fn amount_document(amount: Amount) -> Value {
    // As text: a number of JSON would be rounded.
    json!({ "tokens": amount.tokens, "cost_usd": amount.cost.to_string().trim_start_matches('$') })
}

/// What a run used and has left, for programs.
pub fn document(task: &Task, state: &RunState) -> Value {
    let limit = state.budget_limit(task);
    let used = state.spent() + state.reserved();
    json!({
        "calls": state.models.calls,
        "spent": amount_document(state.spent()),
        "estimated": amount_document(state.models.estimated),
        "reserved": amount_document(state.reserved()),
        "limit": {
            "tokens": limit.tokens, "cost_usd": limit.cost.map(|cost| cost.to_string().trim_start_matches('$').to_owned()),
        },
        "left": {
            "tokens": limit.tokens.map(|tokens| tokens.saturating_sub(used.tokens)),
            "cost_usd": limit.cost.map(|cost| cost.less(used.cost).to_string().trim_start_matches('$').to_owned()),
        },
        "stages": state.budget.stages,
    })
}

/// What a run used and has left, for people; nothing of a run without models.
pub fn lines(out: &mut Output, task: &Task, state: &RunState) -> Result<(), CliError> {
    if state.models.calls == 0 && task.budget.is_none() {
        return Ok(());
    }
    let (spent, reserved, limit) = (state.spent(), state.reserved(), state.budget_limit(task));
    let used = spent + reserved;
    let tokens = limit.tokens.map(|limit| format!(" of {limit}, {} left", limit.saturating_sub(used.tokens)));
    let cost = limit.cost.map(|limit| format!(" of {limit}, {} left", limit.less(used.cost)));
    let held = if reserved == Amount::NOTHING {
        String::new()
    } else {
        format!("; {} tokens and {} reserved", reserved.tokens, reserved.cost)
    };
    let unpriced = match state.models.unpriced {
        0 => String::new(),
        calls => format!("; {calls} calls without a known cost"),
    };
    writeln!(
        out,
        "models    {} calls; {} tokens{}; {}{}{held}{unpriced}",
        state.models.calls,
        spent.tokens,
        tokens.unwrap_or_default(),
        spent.cost,
        cost.unwrap_or_default()
    )?;
    Ok(())
}

/// The end of a command that raises the limit at which a run stopped.
pub const fn raise(limit: &str) -> &'static str {
    match limit.as_bytes() {
        b"max_duration" => " --max-duration SPAN",
        b"budget.tokens" => " --budget +50000tokens",
        b"budget.cost_usd" => " --budget +2usd",
        // The account's day ends by itself.
        b"budget.per_day.tokens" | b"budget.per_day.cost_usd" => "",
        _ => " --max-steps N",
    }
}
