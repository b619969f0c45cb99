//! `loopforge import [FILE]`

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use loopforge::gateway::Registry;
use loopforge::transfer::Import as Checked;
use serde_json::json;

use crate::context::Context;
use crate::error::{CliError, Exit, resume_hint};
use crate::output::Output;
use crate::text::{line, safe};

/// Take over a run that `export` wrote out, from this store or another.
///
/// All of it is checked before anything is written: the hash of the export, every record, every large value.
#[derive(Debug, Args)]
pub struct Import {
    /// The export; standard input when absent or `-`
    pub file: Option<PathBuf>,
    /// Where the run works from now on; the folder that it had, when absent
    #[arg(long, value_name = "FOLDER")]
    pub workspace: Option<PathBuf>,
    /// From where its task's relative paths are read from now on; the folder that it had, when absent
    #[arg(long, value_name = "FOLDER")]
    pub base: Option<PathBuf>,
}

impl Import {
    /// Carries it out.
    ///
    /// # Errors
    /// The export is not whole, or the store has the run already. Nothing was written then.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        // What comes through a pipe is read twice like a file, so it is kept in one meanwhile.
        let mut kept = None;
        let path = match self.file.filter(|file| file.as_os_str() != "-") {
            Some(file) => file,
            None => kept.insert(spool()?).path().to_owned(),
        };
        let mut import = Checked::check(&path, &Registry::default())?;
        import.relocate(absolute(self.workspace)?, absolute(self.base)?);
        let (info, records) = (import.info().clone(), import.records());
        import.store(context.open()?.as_ref()).await?;
        if context.json {
            let mut out = Output::new();
            out.json(&json!({ "run": info.id, "name": info.name, "status": info.status, "records": records }))?;
            out.finish()?;
        }
        crate::say!("imported {} ({}), {records} records", info.id, line(&info.name, 60));
        if !info.status.is_final() {
            if !Path::new(&info.base).is_dir() {
                crate::say!("  its folder `{}` is not here: `--base` names another", safe(&info.base));
            }
            crate::say!("  files in its folder are not part of an export. Go on with: {}", resume_hint(info.id));
        }
        Ok(Exit::Success)
    }
}

fn absolute(folder: Option<PathBuf>) -> Result<Option<String>, CliError> {
    let Some(folder) = folder else { return Ok(None) };
    let absolute = std::path::absolute(&folder)
        .map_err(|error| CliError::io(&format!("`{}` is no folder", folder.display()), error))?;
    Ok(Some(absolute.display().to_string()))
}

/// Standard input in a file that goes with the process.
fn spool() -> Result<tempfile::NamedTempFile, CliError> {
    let io = |error| CliError::io("what comes on standard input can't be kept", error);
    let mut file = tempfile::NamedTempFile::new().map_err(io)?;
    std::io::copy(&mut std::io::stdin().lock(), &mut file).map_err(io)?;
    file.flush().map_err(io)?;
    Ok(file)
}
