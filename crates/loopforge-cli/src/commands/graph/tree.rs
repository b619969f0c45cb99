//! For the terminal.

use std::io::Write;

use loopforge_core::record::{OutcomeSource, Route};

use crate::commands::progress::settled_by;
use crate::commands::summary::led;
use crate::error::CliError;
use crate::output::{Output, status};
use crate::text::line;

use super::build::{Action, End, Item, Picture, Step, Subgoal};

const WIDTH: usize = 120;

/// Draws the tree.
pub(super) fn write(picture: &Picture, most: usize, out: &mut Output) -> Result<(), CliError> {
    writeln!(out, "{}  {}  {}", picture.run, line(&picture.name, 60), status(picture.status))?;
    let count = picture.subgoals.len();
    for (at, subgoal) in picture.subgoals.iter().enumerate() {
        let (here, below) = branch(at + 1 == count);
        write_subgoal(subgoal, most, here, below, out)?;
    }
    Ok(())
}

/// What stands before a node, and before what is below it.
const fn branch(last: bool) -> (&'static str, &'static str) {
    if last { ("└─ ", "   ") } else { ("├─ ", "│  ") }
}

fn write_subgoal(subgoal: &Subgoal, most: usize, here: &str, below: &str, out: &mut Output) -> Result<(), CliError> {
    let done = subgoal.items.values().filter(|item| item.status() == "done").count();
    let of = subgoal.of.map(|of| format!(", {done} of {of} items")).unwrap_or_default();
    let needs = match subgoal.needs.as_slice() {
        [] => String::new(),
        needs => format!(", after {}", needs.join(", ")),
    };
    let reason = subgoal.reason.as_ref().map(|reason| format!(": {}", line(reason, WIDTH))).unwrap_or_default();
    writeln!(out, "{here}{} {}{of}{needs}{reason}", subgoal.id, status(subgoal.status))?;
    // Without a list the steps hang on the subgoal itself.
    if let (true, Some(only)) = (subgoal.of.is_none(), subgoal.items.get(&None)) {
        return write_steps(only, most, below, out);
    }
    let chosen = subgoal.chosen(most);
    let rest = chosen.rest();
    let count = chosen.items.len();
    for (number, (at, item)) in chosen.items.into_iter().enumerate() {
        let (here, deeper) = branch(number + 1 == count && rest.is_none());
        let at = at.map(|at| format!("[{at}] ")).unwrap_or_default();
        writeln!(out, "{below}{here}{at}{} {}", item.label, status(item.status()))?;
        write_steps(item, most, &format!("{below}{deeper}"), out)?;
    }
    if let Some(rest) = rest {
        writeln!(out, "{below}└─ and {rest} (--all shows them)")?;
    }
    Ok(())
}

fn write_steps(item: &Item, most: usize, below: &str, out: &mut Output) -> Result<(), CliError> {
    let hidden = item.steps.len().saturating_sub(most);
    if hidden > 0 {
        writeln!(out, "{below}├─ {hidden} earlier steps (--all shows them)")?;
    }
    let count = item.steps.len();
    for (number, step) in item.steps.iter().enumerate().skip(hidden) {
        let (here, deeper) = branch(number + 1 == count);
        writeln!(out, "{below}{here}step {}{}", step.step, how(step))?;
        let actions = step.actions.len();
        for (number, action) in step.actions.iter().enumerate() {
            let (here, _) = branch(number + 1 == actions);
            writeln!(out, "{below}{deeper}{here}{}", mark(action))?;
        }
    }
    Ok(())
}

fn how(step: &Step) -> String {
    if let Some(question) = &step.question {
        return format!(": waits for a person: {}", line(question, WIDTH));
    }
    match (&step.verdict, step.waits_until) {
        (Some(verdict), _) if matches!(verdict.route, Route::Continue | Route::BranchDone) => String::new(),
        (Some(verdict), _) => format!(": {}", line(&led(verdict), WIDTH)),
        (None, Some(until)) => format!(": waits until {until}"),
        (None, None) => ": open".to_owned(),
    }
}

fn mark(action: &Action) -> String {
    let mark = match action.end {
        End::Open => "…",
        End::Unknown => "?",
        End::Refused(_) => "⊘",
        End::Finished(..) if action.end.went_well() => "✓",
        End::Finished(..) => "✗",
    };
    let word = if action.end.went_well() { String::new() } else { format!(" {}", action.end.word()) };
    let effect = if action.effect == loopforge_core::tool::Effect::Read {
        String::new()
    } else {
        format!(", {}", action.effect)
    };
    let tries = if action.tries > 1 { format!(", {} tries", action.tries) } else { String::new() };
    let source = match action.end {
        End::Finished(_, source) if source != OutcomeSource::Call => {
            settled_by(source).map(|how| format!(", {how}")).unwrap_or_default()
        }
        _ => String::new(),
    };
    format!("{mark} {}{word}{effect}{tries}{source}", line(&action.tool, 60))
}
