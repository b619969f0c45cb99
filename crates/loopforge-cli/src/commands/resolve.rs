//! `loopforge resolve RUN STEP --happened | --not | --abort`

use clap::Args;
use loopforge_core::id::StepNo;
use loopforge_core::record::Answer;

use crate::context::{Context, user};
use crate::error::{CliError, Exit, resume_hint};

/// Answer what a run waits for.
#[derive(Debug, Args)]
pub struct Resolve {
    /// The run; a few characters of its id's end will do
    pub run: String,
    /// The step that waits. Left out when the run as a whole waits
    pub step: Option<u64>,
    /// The answer
    #[command(flatten)]
    pub answer: Given,
}

/// The answers; exactly one is given.
#[derive(Debug, Clone, Args)]
#[group(required = true, multiple = false)]
pub struct Given {
    /// The effect happened: go on from there
    #[arg(long)]
    pub happened: bool,
    /// It did not happen: make the call
    #[arg(long)]
    pub not: bool,
    /// Stop the run
    #[arg(long)]
    pub abort: bool,
    /// Try again, or run on
    #[arg(long = "continue")]
    pub go_on: bool,
    /// Give this item up and go on with the rest
    #[arg(long)]
    pub skip: bool,
    /// What was asked for, in words
    #[arg(long, value_name = "TEXT")]
    pub tell: Option<String>,
}

impl Given {
    const fn answer(&self) -> Answer {
        if self.happened {
            Answer::Happened
        } else if self.not {
            Answer::Not
        } else if self.go_on {
            Answer::Continue
        } else if self.skip {
            Answer::Skip
        } else if self.tell.is_some() {
            Answer::Told
        } else {
            Answer::Abort
        }
    }
}

impl Resolve {
    /// Carries it out.
    ///
    /// # Errors
    /// No such question is open; the message lists those that are.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let engine = context.engine()?;
        let id = context.find_run(engine.store().as_ref(), Some(&self.run)).await?;
        let answer = self.answer.answer();
        match &self.answer.tell {
            Some(text) => engine.tell(id, self.step.map(StepNo), text, &user()).await?,
            None => engine.answer(id, self.step.map(StepNo), answer, &user()).await?,
        }
        if context.json {
            crate::tell!("{}", serde_json::json!({ "run": id.to_string(), "step": self.step, "answer": answer }));
        }
        crate::say!("recorded. Go on with: {}", resume_hint(id));
        Ok(Exit::Success)
    }
}
