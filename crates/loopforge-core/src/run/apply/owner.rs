//! What changes with the owner of a run, and with the task that it goes on with.

use crate::record::TaskChange;
use crate::run::agent::MODEL;
use crate::run::{ActionState, Phase, Progress, RunState, SubgoalStatus, ThoughtState};

impl RunState {
    pub(super) fn run_resumed(&mut self) {
        self.paused = None;
        self.totals.resumes += 1;
        self.look_at_account_anew();
        // What kept a model from answering may be mended.
        for branch in self.branches.values_mut() {
            if branch.failure.as_ref().is_some_and(|failure| failure.tool == MODEL && !failure.code.is_of_request())
                && let Some(agent) = &mut branch.agent
            {
                branch.failure = None;
                agent.model = 0;
                agent.model_failures = 0;
            }
        }
        self.consult_resumed();
        self.lose_started_calls();
    }

    /// Whether a write was started whose outcome isn't archived.
    #[must_use]
    pub fn has_started_calls(&self) -> bool {
        self.branches.values().any(|branch| match &branch.phase {
            Phase::Acting { actions } => actions.iter().any(|action| action.state == ActionState::Started),
            _ => false,
        })
    }

    /// Takes the calls of the owner before for lost: a read can be made again, a started write may have happened.
    pub fn lose_started_calls(&mut self) {
        self.models.lose();
        self.lose_consult();
        for branch in self.branches.values_mut() {
            if let Phase::Thinking { thought } = &mut branch.phase
                && thought.state == ThoughtState::Called
            {
                thought.state = ThoughtState::Lost;
                self.models.lost += 1;
            }
            if let Phase::Acting { actions } = &mut branch.phase {
                for action in actions.iter_mut().filter(|action| action.state == ActionState::Started) {
                    action.lost += 1;
                    action.state =
                        ActionState::Unknown { reason: "the process ended between the call and its answer".to_owned() };
                }
            }
        }
    }

    /// Goes on with another task: its subgoals in its order, each as far as it was.
    pub(super) fn task_changed(&mut self, change: &TaskChange) -> Result<(), String> {
        let mut subgoals = Vec::with_capacity(change.subgoals.len());
        for id in &change.subgoals {
            let known = self.subgoals.iter().find(|progress| progress.id == *id).cloned();
            subgoals.push(known.unwrap_or_else(|| Progress::new(id)));
        }
        // What a planner added stays in the plan, after what the task says.
        let added = self.subgoals.iter().filter(|progress| self.plan.added(&progress.id));
        subgoals.extend(added.filter(|progress| !change.subgoals.contains(&progress.id)).cloned());
        let ids: Vec<String> = subgoals.iter().map(|progress| progress.id.clone()).collect();
        let position = |id: &str| ids.iter().position(|named| named == id);
        let lost = |progress: &&Progress| progress.status != SubgoalStatus::Pending && position(&progress.id).is_none();
        if let Some(progress) = self.subgoals.iter().find(lost) {
            return Err(format!(
                "the other task has no subgoal `{}`, which is {}",
                progress.id,
                progress.status.name()
            ));
        }
        for branch in self.branches.values_mut() {
            let id = &self.subgoals[branch.subgoal].id;
            branch.subgoal = position(id).ok_or_else(|| format!("the other task has no subgoal `{id}`"))?;
        }
        self.subgoals = subgoals;
        self.task = change.to.hash;
        Ok(())
    }
}
