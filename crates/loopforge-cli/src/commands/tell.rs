//! `loopforge note`, `pause`, `unpause`, `cancel`: telling a run something, whoever works on it.

use clap::Args;
use loopforge::Told;
use loopforge_core::record::Order;

use crate::context::{Context, user};
use crate::error::{CliError, Exit, resume_hint};

/// Tell a run something while it goes on, or for when it goes on.
#[derive(Debug, Args)]
pub struct Note {
    /// The run; a few characters of its id's end will do
    pub run: String,
    /// What its models shall know
    pub text: String,
    /// Give up what a model is at, and ask it anew with the note; what it used so far counts. Calls of tools go on to their end
    #[arg(long)]
    pub now: bool,
}

/// Stop work on a run, so that a resume goes on from there.
#[derive(Debug, Args)]
pub struct Pause {
    /// The run; a few characters of its id's end will do
    pub run: String,
}

/// Let a paused run go on.
#[derive(Debug, Args)]
pub struct Unpause {
    /// The run; a few characters of its id's end will do
    pub run: String,
}

/// Stop a run for good.
#[derive(Debug, Args)]
pub struct Cancel {
    /// The run; a few characters of its id's end will do
    pub run: String,
}

impl Note {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or one that has ended.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        if self.text.trim().is_empty() {
            return Err(CliError::usage("the note says nothing"));
        }
        let order = Order::Note { text: self.text, now: self.now };
        let (archived, posted) = ("", "it is read between steps, or when the run goes on");
        tell(context, &self.run, order, archived, posted, false).await
    }
}

impl Pause {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or one that has ended.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let posted = "whoever works on it stops within a second or so, once what it writes has ended";
        tell(context, &self.run, Order::Pause, "it is paused", posted, true).await
    }
}

impl Unpause {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or one that has ended.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        tell(context, &self.run, Order::Unpause, "it is paused no more", "whoever works on it is told", true).await
    }
}

impl Cancel {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or one that has ended.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        let posted = "whoever works on it ends it within a second or so, once what it writes has ended";
        tell(context, &self.run, Order::Cancel, "it is cancelled", posted, false).await
    }
}

async fn tell(
    context: &Context,
    run: &str,
    order: Order,
    archived: &str,
    posted: &str,
    goes_on: bool,
) -> Result<Exit, CliError> {
    let engine = context.engine()?;
    let id = context.find_run(engine.store().as_ref(), Some(run)).await?;
    let told = engine.say(id, order.clone(), &user()).await?;
    if context.json {
        let told = match told {
            Told::Archived => "archived",
            Told::Posted => "posted",
        };
        crate::tell!("{}", serde_json::json!({ "run": id.to_string(), "order": order, "told": told }));
    }
    match told {
        Told::Archived if goes_on => crate::say!("{id}: {archived}. Go on with: {}", resume_hint(id)),
        Told::Archived => crate::say!("{id}: {archived}"),
        Told::Posted => crate::say!("{id}: {posted}"),
    }
    Ok(Exit::Success)
}
