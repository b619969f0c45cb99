//! `loopforge demo`

use clap::Args;

use crate::context::Context;
use crate::error::{CliError, Exit};

/// See it: a page patrol over a real shop on loopback, killed in the middle and resumed.
#[derive(Debug, Args)]
pub struct Demo {
    /// Where the demonstration keeps its files. A new folder when absent
    #[arg(long, value_name = "FOLDER")]
    pub folder: Option<std::path::PathBuf>,
}

impl Demo {
    /// Carries it out.
    ///
    /// # Errors
    /// A part of it can't be started.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        crate::demo::run(self.folder, context.json).await
    }
}
