//! What a model is shown at a step.
//!
//! A prompt is a pure function of the task, the archive up to a record, and the state at it, so that the exact bytes of every step can be
//! made again. Its order keeps the beginning the same from step to step, so that providers' caches hold it: rules, goal, tools; then the
//! steps of this branch, the oldest first; at the end the status, which is new each time and never kept.

mod consult;
mod history;
#[cfg(test)]
mod tests;
mod text;
mod tokens;

pub use consult::{Board, Troubles, consult};
pub use history::History;
pub use tokens::estimate;

use crate::agent::Control;
use crate::expression::Values;
use crate::id::{BranchId, ContentHash};
use crate::json;
use crate::model::{Message, Request, ToolSchema};
use crate::payload::NotLoaded;
use crate::run::RunState;
use crate::task::{ModelSpec, Task};

/// What a prompt is made from.
#[derive(Debug)]
pub struct Frame<'a> {
    /// The task.
    pub task: &'a Task,
    /// The run after the last record.
    pub state: &'a RunState,
    /// The branch that is to act.
    pub branch: BranchId,
    /// What happened in it.
    pub history: &'a History,
    /// The tools that its subgoal may call.
    pub tools: &'a [ToolSchema],
    /// Inputs and state.
    pub values: &'a Values,
    /// The model that is asked.
    pub model: &'a str,
}

/// A prompt, with what is known of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Prompt {
    /// What is sent.
    pub request: Request,
    /// Its size in tokens, estimated.
    pub tokens: u64,
    /// Steps of the branch that it leaves out.
    pub left_out: u32,
    /// Names the request.
    pub digest: ContentHash,
}

/// Makes the prompt of a branch.
///
/// # Errors
/// [`NotLoaded`]: load it and ask again.
pub fn assemble(frame: &Frame<'_>) -> Result<Option<Prompt>, NotLoaded> {
    let Some(branch) = frame.state.branches.get(&frame.branch) else { return Ok(None) };
    let subgoal = &frame.task.subgoals[branch.subgoal];
    let budget = frame.task.model.as_ref().map_or(ModelSpec::CONTEXT_BUDGET, ModelSpec::budget);
    let mut tools: Vec<ToolSchema> = frame.tools.to_vec();
    tools.extend(Control::ALL.iter().map(|control| control.schema()));
    let mut goal = Message::user(text::goal(frame, subgoal, branch, budget)?);
    goal.prefix_end = true;
    let status = Message::user(text::status(frame, subgoal, branch)?);
    let fixed = estimate(text::RULES)
        + tokens::of_messages(std::slice::from_ref(&goal))
        + tokens::of_messages(std::slice::from_ref(&status))
        + tokens::of_tools(&tools);
    let steps_shown = if frame.state.budget.summary_only { history::LAST_STEPS } else { usize::MAX };
    let room = history::Room { budget, left: budget.saturating_sub(fixed), steps: steps_shown };
    let (steps, left_out) = frame.history.messages(&frame.values.blobs, &room)?;
    let mut messages = vec![goal];
    messages.extend(steps);
    if let Some(last) = messages.last_mut() {
        last.prefix_end = true;
    }
    messages.push(status);
    let tokens = fixed + tokens::of_messages(&messages[1..messages.len() - 1]);
    let request = Request {
        tools,
        max_output_tokens: u32::try_from(frame.task.limits.max_tokens_per_step).ok(),
        temperature: frame.task.model.as_ref().and_then(|model| model.temperature).map(f64::from),
        cache_key: Some(frame.state.run.to_string()),
        ..Request::new(frame.model, text::RULES, messages)
    };
    let canonical = json::canonical(&serde_json::to_value(&request).unwrap_or_default());
    Ok(Some(Prompt { digest: ContentHash::of(canonical.as_bytes()), request, tokens, left_out }))
}
