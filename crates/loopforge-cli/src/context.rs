//! What commands share: the store, the engine, the way to talk.

use std::fmt;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use loopforge::{Company, Engine, Options};
use loopforge_core::id::RunId;
use loopforge_store::dispatch::{Dispatch, Polling};
use loopforge_store::postgres::PostgresStore;
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
    /// Where the store is.
    pub place: Place,
}

/// Where a store is.
#[derive(Clone)]
pub enum Place {
    /// In a file.
    File(PathBuf),
    /// In PostgreSQL, at this address. It may hold a password.
    Postgres(String),
}

impl Place {
    fn read(store: &str) -> Result<Self, CliError> {
        if store.starts_with("postgres:") || store.starts_with("postgresql:") {
            // Says at once what is wrong with the address; nothing is connected.
            PostgresStore::new_read_only(store)?;
            return Ok(Self::Postgres(store.to_owned()));
        }
        let path = store.strip_prefix("sqlite:").unwrap_or(store);
        if path.is_empty() {
            return Err(CliError::usage("`--store` names no file").hint("write `--store sqlite:PATH`"));
        }
        Ok(Self::File(PathBuf::from(path)))
    }

    /// The folder for what is kept beside the store.
    #[must_use]
    pub fn folder(&self) -> &Path {
        match self {
            Self::File(path) => path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new(".")),
            Self::Postgres(_) => Path::new(".loopforge"),
        }
    }
}

/// Without passwords.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Postgres(url) => match PostgresStore::new_read_only(url) {
                Ok(store) => f.write_str(store.place()),
                Err(_) => f.write_str("postgres"),
            },
        }
    }
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Context {
    /// Reads the global options.
    ///
    /// # Errors
    /// A store that this version can't open.
    pub fn new(global: &Global) -> Result<Self, CliError> {
        Ok(Self { json: global.json, place: Place::read(&global.store)? })
    }

    /// Opens the store for work, making it if it isn't there.
    ///
    /// # Errors
    /// What is wrong with it, and what to do.
    pub fn open(&self) -> Result<Arc<dyn Store>, CliError> {
        match &self.place {
            Place::File(path) => {
                let folder = self.place.folder();
                std::fs::create_dir_all(folder).map_err(|error| {
                    CliError::io(&format!("the store's folder `{}` can't be made", folder.display()), error)
                })?;
                Ok(Arc::new(SqliteStore::open(path)?))
            }
            Place::Postgres(url) => Ok(Arc::new(PostgresStore::new(url)?)),
        }
    }

    /// Opens the store for looking. It is not made, migrated or changed.
    ///
    /// # Errors
    /// Also when there is no store.
    pub fn look(&self) -> Result<Arc<dyn Store>, CliError> {
        match &self.place {
            Place::File(path) if !path.exists() => {
                Err(CliError::usage(format!("there is no store at `{}`", path.display()))
                    .hint("`loopforge run FILE` makes one; `--store` or LOOPFORGE_STORE names another"))
            }
            Place::File(path) => Ok(Arc::new(SqliteStore::open_read_only(path)?)),
            Place::Postgres(url) => Ok(Arc::new(PostgresStore::new_read_only(url)?)),
        }
    }

    /// An engine that works in the store's folder.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn engine(&self) -> Result<Engine, CliError> {
        self.engine_with(|_| {})
    }

    /// An engine of a worker: it shares the runs of the store with others.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn worker(&self) -> Result<Engine, CliError> {
        /// A run that waits for longer costs a row and nothing else.
        const LONGEST_WAIT: Duration = Duration::from_secs(5);
        self.engine_with(|options| {
            options.company = Company::Shared { longest_wait: LONGEST_WAIT };
            options.stop_before_lapse = true;
        })
    }

    fn engine_with(&self, change: impl FnOnce(&mut Options)) -> Result<Engine, CliError> {
        /// How often a worker looks for itself. Hints make it look sooner.
        const LOOK: Duration = Duration::from_secs(1);
        let (store, dispatch): (Arc<dyn Store>, Arc<dyn Dispatch>) = match &self.place {
            Place::File(_) => (self.open()?, Arc::new(Polling::every(LOOK))),
            Place::Postgres(url) => {
                let store = PostgresStore::new(url)?;
                let dispatch = Arc::new(store.dispatch(LOOK));
                (Arc::new(store), dispatch)
            }
        };
        let folder = self.place.folder();
        std::fs::create_dir_all(folder)
            .and_then(|()| folder.canonicalize())
            .map_err(|error| CliError::io(&format!("the folder `{}` can't be read", folder.display()), error))
            .map(|folder| {
                let mut options = Options::new(folder.join("runs"));
                options.lives = Some(folder.join("workers"));
                // Another machine may take a run up as soon as its lease has ended.
                options.stop_before_lapse = matches!(self.place, Place::Postgres(_));
                // For tests of takeover, which can't wait a minute.
                if let Some(seconds) = std::env::var("LOOPFORGE_LEASE_SECONDS").ok().and_then(|text| text.parse().ok())
                {
                    options.lease_ttl = Duration::from_secs_f64(f64::max(seconds, 0.2));
                }
                change(&mut options);
                Engine::new(store, options).with_dispatch(dispatch)
            })
    }

    /// Where processes of this machine that work on this store show that they are alive.
    fn lives(&self) -> PathBuf {
        self.place.folder().join("workers")
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
