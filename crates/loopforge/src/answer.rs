//! A person answers what a run waits for.

use std::time::Duration;

use loopforge_core::id::{BranchId, RunId, StepNo};
use loopforge_core::record::{
    About, ActionId, ActionNotHappened, Answer, Event, LimitsRaised, OutcomeSource, QuestionAnswered, QuestionAsked,
};
use loopforge_core::run::{Action, ActionState, Call, Draft, Phase, RunState, WaitFor};
use tokio_util::sync::CancellationToken;

use crate::accept::other_version;
use crate::clock;
use crate::driver::Run;
use crate::engine::Engine;
use crate::error::EngineError;

impl Engine {
    /// Answers an open question of a run that nobody works on. `step` names the step that it is about; `None` the run as a whole.
    ///
    /// After `Ok` the answer is archived and survives anything; [`Self::resume`] goes on with it. [`Answer::Abort`] ends the run at once.
    ///
    /// # Errors
    /// [`EngineError::NoQuestion`] lists what is open; [`EngineError::Changed`]: a resume must accept another version of LoopForge first.
    /// Nothing was changed in these. [`StoreError::Held`] while somebody works on the run.
    ///
    /// [`StoreError::Held`]: loopforge_store::StoreError::Held
    pub async fn answer(&self, id: RunId, step: Option<StepNo>, answer: Answer, by: &str) -> Result<(), EngineError> {
        self.take_answer(id, step, answer, None, by).await
    }

    /// Tells a model what it asked a person for. `step` names the step that asked; it can be left out while one question is open.
    ///
    /// After `Ok` the answer is archived and survives anything; [`Self::resume`] goes on with it.
    ///
    /// # Errors
    /// As [`Self::answer`].
    pub async fn tell(&self, id: RunId, step: Option<StepNo>, text: &str, by: &str) -> Result<(), EngineError> {
        self.take_answer(id, step, Answer::Told, Some(text), by).await
    }

    async fn take_answer(
        &self,
        id: RunId,
        step: Option<StepNo>,
        answer: Answer,
        text: Option<&str>,
        by: &str,
    ) -> Result<(), EngineError> {
        let lease = self.claim(id).await?;
        let (mut run, checkpoint) = match self.reopen(id, lease.clone(), None).await {
            Ok(opened) => opened,
            Err(error) => {
                // The first error tells what is wrong; a lease that can't be given up lapses by itself.
                let _ = self.store.release_lease(&lease).await;
                return Err(error);
            }
        };
        if let Some(version) = other_version(&run.state().version) {
            run.leave().await;
            return Err(EngineError::Changed { run: id, version: Some(version), task: None });
        }
        // The owner may have died before it could ask: then its open calls are unknown now, and can be answered for.
        let mut drafts = Vec::new();
        let mut state = run.state().clone();
        if state.has_started_calls() {
            state.lose_started_calls();
            drafts.push(self.resumed(checkpoint));
        }
        let outcome = match answer_drafts(&state, step, answer, text, by) {
            Some(answered) => {
                drafts.extend(answered);
                drafts.extend(more(&run, answer, by).filter(|_| step.is_none()));
                match run.record(drafts) {
                    Ok(()) => run.flush().await,
                    Err(error) => Err(error),
                }
            }
            None => Err(EngineError::NoQuestion {
                run: id,
                about: step.map_or_else(|| "about the run as a whole".to_owned(), |step| format!("about step {step}")),
                open: open_questions(&state),
            }),
        };
        if outcome.is_ok() && answer == Answer::Abort {
            return run.drive(CancellationToken::new()).await.map(drop);
        }
        run.leave().await;
        outcome
    }
}

/// `--continue` at a limit grants as much again as the task did.
fn more(run: &Run, answer: Answer, by: &str) -> Option<Draft> {
    let state = run.state();
    let asked = state.question.as_ref().is_some_and(|question| question.about == About::Limit);
    if !asked || answer != Answer::Continue {
        return None;
    }
    if state.is_out_of_budget() {
        let budget = run.prepared().task.budget.as_ref()?;
        let limit = state.budget_limit(&run.prepared().task);
        let tokens = budget.tokens.map(|more| limit.tokens.unwrap_or_default().saturating_add(more));
        let cost = budget.cost_usd.map(|more| limit.cost.unwrap_or_default() + more.0);
        let raised = LimitsRaised { max_steps: None, max_duration_ms: None, tokens, cost, by: by.to_owned() };
        return Some(Event::LimitsRaised(raised).into());
    }
    let limits = &run.prepared().task.limits;
    let max_steps = Some(state.last_step.0.max(state.max_steps(&run.prepared().task)) + limits.max_steps.max(1));
    let elapsed = clock::now().since(state.started_at);
    let max_duration_ms =
        limits.max_duration.map(|more| u64::try_from((elapsed + more.0).as_millis()).unwrap_or(u64::MAX));
    Some(
        Event::LimitsRaised(LimitsRaised { max_steps, max_duration_ms, tokens: None, cost: None, by: by.to_owned() })
            .into(),
    )
}

fn open_questions(state: &RunState) -> String {
    let open: Vec<String> = state
        .questions()
        .map(|(branch, question)| match (question.action, branch.and_then(|id| state.branches.get(&id))) {
            (Some(action), _) => format!("step {}: {}", action.step, question.text),
            (None, Some(branch)) => format!("step {}: {}", branch.step, question.text),
            (None, None) => format!("the run: {}", question.text),
        })
        .collect();
    if open.is_empty() { "no question is open".to_owned() } else { format!("open are: {}", open.join("; ")) }
}

fn answer_drafts(
    state: &RunState,
    step: Option<StepNo>,
    answer: Answer,
    text: Option<&str>,
    by: &str,
) -> Option<Vec<Draft>> {
    let answered = |branch| {
        let text = text.map(str::to_owned);
        Draft::from(Event::QuestionAnswered(QuestionAnswered { branch, answer, text, by: by.to_owned() }))
    };
    if answer == Answer::Told {
        return told(state, step, text.unwrap_or_default(), answered);
    }
    let Some(step) = step else {
        return (state.question.is_some() || answer == Answer::Abort).then(|| vec![answered(None)]);
    };
    for (id, branch) in state.branches.iter().filter(|(_, branch)| branch.step == step) {
        match &branch.phase {
            Phase::Waiting { on: WaitFor::Person(_) }
                if matches!(answer, Answer::Continue | Answer::Skip | Answer::Abort) =>
            {
                return Some(vec![answered(Some(*id))]);
            }
            Phase::Acting { actions } if matches!(answer, Answer::Happened | Answer::Not | Answer::Abort) => {
                let Some(action) = actions
                    .iter()
                    .find(|action| matches!(action.state, ActionState::Asked(_) | ActionState::Unknown { .. }))
                else {
                    continue;
                };
                let mut drafts = Vec::new();
                if let ActionState::Unknown { reason } = &action.state {
                    drafts.push(unknown_effect(*id, action, reason).into());
                }
                drafts.push(answered(Some(*id)));
                drafts.extend(settled(state, Call { branch: *id, action: action.id }, answer, by));
                return Some(drafts);
            }
            _ => {}
        }
    }
    None
}

/// What a person tells becomes the result of the call that asked. Without a step there must be one such question only.
fn told(
    state: &RunState,
    step: Option<StepNo>,
    text: &str,
    answered: impl Fn(Option<BranchId>) -> Draft,
) -> Option<Vec<Draft>> {
    let asked: Vec<Call> = state
        .branches
        .iter()
        .filter_map(|(id, branch)| match &branch.phase {
            Phase::Acting { actions } => Some((*id, actions)),
            _ => None,
        })
        .flat_map(|(branch, actions)| actions.iter().map(move |action| (branch, action)))
        .filter(
            |(_, action)| matches!(&action.state, ActionState::Asked(question) if question.about == About::Information),
        )
        .map(|(branch, action)| Call { branch, action: action.id })
        .filter(|call| step.is_none_or(|step| call.action.step == step))
        .collect();
    let [call] = asked.as_slice() else { return None };
    let mut drafts = vec![answered(Some(call.branch))];
    let (result, blobs) = crate::gateway::outcome::said(text);
    drafts.extend(state.finish(*call, 1, OutcomeSource::Person, result, blobs, Duration::ZERO)?);
    Some(drafts)
}

/// What a person's word makes of an action.
fn settled(state: &RunState, call: Call, answer: Answer, by: &str) -> Vec<Draft> {
    match answer {
        Answer::Happened => {
            let attempt = state.action(call.action).map_or(1, |(_, action)| action.attempts);
            let result = crate::gateway::outcome::without_data();
            state.finish(call, attempt, OutcomeSource::Person, result, Vec::new(), Duration::ZERO).unwrap_or_default()
        }
        Answer::Not => vec![
            Event::ActionNotHappened(ActionNotHappened {
                branch: call.branch,
                id: call.action,
                source: OutcomeSource::Person,
                note: format!("{by} says so"),
            })
            .into(),
        ],
        Answer::Abort | Answer::Continue | Answer::Skip | Answer::Told => Vec::new(),
    }
}

/// The question whether an effect happened.
pub(crate) fn unknown_effect(branch: BranchId, action: &Action, reason: &str) -> Event {
    /// What a person needs to recognise the call, not all that it sent.
    const SHOWN: usize = 200;
    let ActionId { step, action: number } = action.id;
    let tool = &action.tool;
    let all = action.arguments.inline.to_string();
    let mut arguments: String = all.chars().take(SHOWN).collect();
    if arguments.len() < all.len() {
        arguments.push('…');
    }
    Event::QuestionAsked(QuestionAsked {
        branch: Some(branch),
        action: Some(action.id),
        about: About::UnknownEffect,
        question: format!(
            "Did the call of `{tool}` with {arguments} (step {step}, action {number}) take effect? It was started, and what came of it \
             is not known: {reason}. Look at its target, then say `--happened`, `--not` or `--abort`."
        ),
    })
}
