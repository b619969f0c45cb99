//! `loopforge graph RUN`

mod build;
mod dot;
mod json;
mod mermaid;
mod tree;

use clap::{Args, ValueEnum};

use crate::context::Context;
use crate::error::{CliError, Exit};
use crate::output::Output;
use crate::text::safe;
use crate::view::View;

/// Draw a run: its subgoals, items, steps and actions.
#[derive(Debug, Args)]
pub struct Graph {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// How it is drawn
    #[arg(long, value_enum, default_value_t = Format::Tree)]
    pub format: Format,
    /// All items, however many; otherwise those that went well are counted once there are many
    #[arg(long)]
    pub all: bool,
}

/// Ways to draw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For the terminal
    Tree,
    /// For Markdown
    Mermaid,
    /// For Graphviz
    Dot,
    /// Nodes and edges, for programs; always all
    Json,
}

impl Graph {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run, or a store that can't be read.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        /// Items, and steps without one, of each subgoal that are drawn one by one.
        const MOST: usize = 60;
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let view = View::load(context, store.as_ref(), id).await?;
        let picture = build::picture(store.as_ref(), &view).await?;
        let most = if self.all { usize::MAX } else { MOST };
        let mut out = Output::new();
        match if context.json { Format::Json } else { self.format } {
            Format::Tree => tree::write(&picture, most, &mut out)?,
            Format::Mermaid => mermaid::write(&picture, most, &mut out)?,
            Format::Dot => dot::write(&picture, most, &mut out)?,
            Format::Json => out.json(&json::document(&picture))?,
        }
        out.finish()?;
        for problem in &picture.problems {
            crate::say!("problem: {}", safe(problem));
        }
        Ok(Exit::Success)
    }
}
