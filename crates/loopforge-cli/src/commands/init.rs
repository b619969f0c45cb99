//! `loopforge init [FOLDER]`

use std::path::PathBuf;

use clap::Args;

use crate::context::Context;
use crate::error::{CliError, Exit};

/// Write a task file to start from.
#[derive(Debug, Args)]
pub struct Init {
    /// The folder; made if it isn't there
    #[arg(default_value = ".")]
    pub folder: PathBuf,
}

/// What a new folder gets. Files that are there are left alone.
const FILES: &[(&str, &str)] =
    &[("task.yaml", include_str!("../../templates/task.yaml")), (".gitignore", ".loopforge/\n")];

impl Init {
    /// Carries it out.
    ///
    /// # Errors
    /// A task file is there already, or the folder can't be written to.
    pub fn run(self, context: &Context) -> Result<Exit, CliError> {
        let task = self.folder.join("task.yaml");
        if task.exists() {
            return Err(CliError::usage(format!("`{}` is there already, and was left alone", task.display()))
                .hint("`loopforge init OTHER_FOLDER` writes elsewhere"));
        }
        let io = |error| CliError::io(&format!("`{}` can't be written to", self.folder.display()), error);
        std::fs::create_dir_all(&self.folder).map_err(io)?;
        let mut written = Vec::new();
        for (name, content) in FILES {
            let path = self.folder.join(name);
            if path.exists() {
                continue;
            }
            std::fs::write(&path, content).map_err(io)?;
            written.push(path.display().to_string());
        }
        if context.json {
            crate::tell!("{}", serde_json::json!({ "written": written }));
        } else {
            for path in &written {
                crate::tell!("wrote {path}");
            }
        }
        crate::say!("Next: loopforge check {0}, then loopforge run {0}", task.display());
        Ok(Exit::Success)
    }
}
