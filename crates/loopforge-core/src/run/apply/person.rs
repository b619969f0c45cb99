//! What people are asked, and what they answer.

use crate::record::{About, Answer, QuestionAnswered, QuestionAsked};
use crate::run::{ActionState, Phase, Question, RunState, WaitFor};

impl RunState {
    pub(super) fn question_asked(&mut self, event: &QuestionAsked) -> Result<(), String> {
        let question = Question { about: event.about, action: event.action, text: event.question.clone() };
        match (event.branch, event.action) {
            (None, _) => {
                if self.question.is_some() {
                    return Err("the run waits for another answer".to_owned());
                }
                self.question = Some(question);
            }
            (Some(branch), Some(action)) => {
                self.open_action(branch, action, "question_asked")?.state = ActionState::Asked(question);
            }
            (Some(id), None) => {
                let branch = self.branch_in(id, "question_asked")?;
                if matches!(branch.phase, Phase::Acting { .. }) {
                    return Err("the branch has calls at work: say which one is asked about".to_owned());
                }
                branch.phase = Phase::Waiting { on: WaitFor::Person(question) };
            }
        }
        Ok(())
    }

    pub(super) fn question_answered(&mut self, event: &QuestionAnswered) -> Result<(), String> {
        self.window.clear();
        if event.answer == Answer::Abort {
            if self.aborted {
                return Err("the run is being stopped already".to_owned());
            }
            self.aborted = true;
            return Ok(());
        }
        let Some(id) = event.branch else {
            return self.question.take().map(|_| self.stopped = None).ok_or_else(|| "no question is open".to_owned());
        };
        let branch = self.branch_in(id, "question_answered")?;
        match (&branch.phase, event.answer) {
            // The record that follows says what became of the action.
            (Phase::Acting { actions }, Answer::Happened | Answer::Not)
                if actions.iter().any(|action| matches!(action.state, ActionState::Asked(_))) => {}
            (Phase::Acting { actions }, Answer::Told)
                if actions.iter().any(|action| {
                    matches!(&action.state, ActionState::Asked(question) if question.about == About::Information)
                }) => {}
            (Phase::Waiting { on: WaitFor::Person(_) }, Answer::Continue) => {
                if let Some(agent) = &mut branch.agent {
                    agent.guard = None;
                    agent.bad_in_row = 0;
                    agent.replans = 0;
                    agent.window.clear();
                }
                branch.failure = None;
                branch.alternative = 0;
                branch.corrected = false;
                branch.phase = Phase::Ready;
            }
            (Phase::Waiting { on: WaitFor::Person(_) }, Answer::Skip) => self.give_up(id, "a person skipped it"),
            _ => return Err("no question is open there that this answers".to_owned()),
        }
        Ok(())
    }
}
