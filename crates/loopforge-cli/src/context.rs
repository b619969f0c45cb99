//! What commands share: the store, the engine, the way to talk.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use loopforge::{Engine, Options};
use loopforge_core::id::RunId;
use loopforge_store::sqlite::SqliteStore;
use loopforge_store::{Owner, RunInfo, Store};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;

use crate::cli::Global;
use crate::error::CliError;

/// Sends the log to standard error. `LOOPFORGE_LOG` overrides, in the syntax of `RUST_LOG`.
pub fn init_log(verbose: u8) {
    let level = match verbose {
        0 => "warn,loopforge::hook=info",
        1 => "info",
        2 => "info,loopforge=debug,loopforge_store=debug,loopforge_tools=debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env("LOOPFORGE_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // A second call happens in tests only, and the first one holds.
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none())
        .try_init();
}

/// What a command works with.
#[derive(Debug, Clone)]
pub struct Context {
    /// Data as JSON.
    pub json: bool,
    /// The file of the store.
    pub store_path: PathBuf,
}

impl Context {
    /// Reads the global options.
    ///
    /// # Errors
    /// A store that this version can't open.
    pub fn new(global: &Global) -> Result<Self, CliError> {
        Ok(Self { json: global.json, store_path: store_path(&global.store)? })
    }

    /// Opens the store for work, making it if it isn't there.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn open(&self) -> Result<Arc<dyn Store>, CliError> {
        if let Some(folder) = self.store_path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
            std::fs::create_dir_all(folder).map_err(|error| {
                CliError::io(&format!("the store's folder `{}` can't be made", folder.display()), error)
            })?;
        }
        Ok(Arc::new(SqliteStore::open(&self.store_path)?))
    }

    /// Opens the store for looking. It is not made, migrated or changed.
    ///
    /// # Errors
    /// Also when there is no store.
    pub fn look(&self) -> Result<Arc<dyn Store>, CliError> {
        if !self.store_path.exists() {
            return Err(CliError::usage(format!("there is no store at `{}`", self.store_path.display()))
                .hint("`loopforge run FILE` makes one; `--store` or LOOPFORGE_STORE names another"));
        }
        Ok(Arc::new(SqliteStore::open_read_only(&self.store_path)?))
    }

    /// An engine that works in the store's folder.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn engine(&self) -> Result<Engine, CliError> {
        let store = self.open()?;
        let folder = self.store_path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let folder = folder
            .canonicalize()
            .map_err(|error| CliError::io(&format!("the folder `{}` can't be read", folder.display()), error))?;
        let mut options = Options::new(folder.join("runs"));
        options.lives = Some(folder.join("workers"));
        // For tests of takeover, which can't wait a minute.
        if let Some(seconds) = std::env::var("LOOPFORGE_LEASE_SECONDS").ok().and_then(|text| text.parse().ok()) {
            options.lease_ttl = std::time::Duration::from_secs_f64(f64::max(seconds, 0.2));
        }
        Ok(Engine::new(store, options))
    }

    /// Where processes of this machine that work on this store show that they are alive.
    fn lives(&self) -> PathBuf {
        self.store_path.parent().unwrap_or(Path::new("")).join("workers")
    }

    /// A run as it stands: one whose owner's process is gone has no owner, whatever its lease says. That owner comes along.
    #[must_use]
    pub fn present(&self, mut info: RunInfo) -> (RunInfo, Option<Owner>) {
        let gone = info.owner.take_if(|owner| loopforge::is_gone(&self.lives(), &owner.id));
        (info, gone)
    }

    /// Finds a run by its id, by the beginning of one, or the last one for `None`.
    ///
    /// # Errors
    /// No such run, or several.
    pub async fn find_run(&self, store: &dyn Store, given: Option<&str>) -> Result<RunId, CliError> {
        /// Enough to find a run that a person still remembers.
        const LOOKED_THROUGH: usize = 10_000;
        let Some(given) = given else {
            let last = store.runs(1).await?;
            return last
                .first()
                .map(|run| run.id)
                .ok_or_else(|| CliError::usage("this store holds no runs").hint("`loopforge run FILE` starts one"));
        };
        if let Ok(id) = RunId::from_str(given) {
            return Ok(id);
        }
        let wanted = given.strip_prefix("run_").unwrap_or(given);
        let runs = store.runs(LOOKED_THROUGH).await?;
        let matching: Vec<RunId> = runs
            .iter()
            .map(|run| run.id)
            .filter(|id| {
                let text = id.to_string();
                // Ids of one day begin alike, so the end of an id is as good as its beginning.
                text[4..].starts_with(wanted) || text.ends_with(wanted)
            })
            .collect();
        match (wanted.len() >= 3, matching.as_slice()) {
            (true, [one]) => Ok(*one),
            (true, [_, _, ..]) => {
                Err(CliError::usage(format!("`{given}` fits {} runs: give more of the id", matching.len())))
            }
            _ => Err(CliError::usage(format!("there is no run `{given}`"))
                .hint("`loopforge ls` lists the runs of this store; three or more characters of an id's end will do")),
        }
    }
}

fn store_path(store: &str) -> Result<PathBuf, CliError> {
    if store.starts_with("postgres:") || store.starts_with("postgresql:") {
        return Err(CliError::usage("PostgreSQL is not available in this version of LoopForge")
            .hint("use `--store sqlite:PATH`, or leave it out for ./.loopforge/loopforge.db"));
    }
    let path = store.strip_prefix("sqlite:").unwrap_or(store);
    if path.is_empty() {
        return Err(CliError::usage("`--store` names no file").hint("write `--store sqlite:PATH`"));
    }
    Ok(PathBuf::from(path))
}

/// Who does something, for the archive.
#[must_use]
pub fn user() -> String {
    std::env::var("USER").unwrap_or_else(|_| "a person at the command line".to_owned())
}

/// Fires at the first Ctrl-C, SIGTERM or SIGHUP; at the second the process ends at once, and the run can be resumed all the same.
#[must_use]
pub fn interruption() -> CancellationToken {
    let token = CancellationToken::new();
    let fired = token.clone();
    tokio::spawn(async move {
        wait_for_signal().await;
        fired.cancel();
        crate::say!("interrupted: ending the step at hand (once more to stop at once)");
        wait_for_signal().await;
        std::process::exit(130);
    });
    token
}

async fn wait_for_signal() {
    use tokio::signal::unix::{SignalKind, signal};
    // A terminal or connection that goes away is an interruption too.
    match (signal(SignalKind::terminate()), signal(SignalKind::hangup())) {
        (Ok(mut terminate), Ok(mut hangup)) => {
            tokio::select! {
                _ = tokio::signal::ctrl_c() => {}
                _ = terminate.recv() => {}
                _ = hangup.recv() => {}
            }
        }
        _ => {
            let _ = tokio::signal::ctrl_c().await;
        }
    }
}
