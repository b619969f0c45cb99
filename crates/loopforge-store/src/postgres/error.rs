//! From PostgreSQL's errors to ours: what can the caller do?

use deadpool_postgres::PoolError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::StoreError;

/// Why an operation did not go through.
#[derive(Debug)]
pub(crate) enum Failed {
    /// PostgreSQL or the way to it failed. Whether something was committed may be unknown.
    Sql(Error),
    /// No connection was to be had.
    Pool(String),
    /// The operation refuses. Nothing was written.
    Refused(StoreError),
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        Self::Refused(error)
    }
}

impl From<PoolError> for Failed {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => Self::Sql(error),
            PoolError::Timeout(_) => Self::Pool("all connections are busy, or none can be made in time".to_owned()),
            other => Self::Pool(other.to_string()),
        }
    }
}

impl Failed {
    /// Whether the same operation may go through on another connection, or a moment later.
    pub(crate) fn may_pass(&self) -> bool {
        match self {
            Self::Refused(_) => false,
            Self::Pool(_) => true,
            Self::Sql(error) => match error.code() {
                // The way to the server failed, or no host could be written to.
                None => true,
                Some(code) => passes(code),
            },
        }
    }

    /// Whether its connection must not be used again.
    pub(crate) fn spoils(&self) -> bool {
        match self {
            Self::Refused(_) | Self::Pool(_) => false,
            Self::Sql(error) => match error.code() {
                None => true,
                Some(code) => {
                    matches!(code.code().get(..2), Some("57" | "58" | "08" | "XX"))
                        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
                }
            },
        }
    }

    /// In our terms.
    pub(crate) fn into_store_error(self, place: &str) -> StoreError {
        match self {
            Self::Refused(error) => error,
            Self::Pool(problem) => StoreError::Unavailable(format!("{place}: {problem}")),
            Self::Sql(error) => store_error(&error, place),
        }
    }
}

fn passes(code: &SqlState) -> bool {
    let class = code.code().get(..2).unwrap_or_default();
    matches!(class, "08" | "40" | "53" | "55" | "57" | "58") && *code != SqlState::DISK_FULL
        || *code == SqlState::READ_ONLY_SQL_TRANSACTION
}

fn store_error(error: &Error, place: &str) -> StoreError {
    let Some(database) = error.as_db_error() else {
        let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
        return match cause.contains("does not allow writes") {
            true => StoreError::ReadOnly(format!("{place} is a copy that can't be written to")),
            false => StoreError::Unavailable(format!("{place} can't be reached: {error}{cause}")),
        };
    };
    let (code, told) = (database.code(), database.message());
    let text = format!("{place}: {told} (SQLSTATE {})", code.code());
    match code.code() {
        "53100" => StoreError::Full(format!("no room is left for {text}; make room, then go on")),
        "25006" => StoreError::ReadOnly(text),
        "42501" => {
            StoreError::ReadOnly(format!("{text}; grant the role the right to use and create the store's schema"))
        }
        "XX001" | "XX002" => StoreError::Corrupt(format!("{text}; restore a backup")),
        // A wrong password, role or database: waiting doesn't help, and somebody must be told.
        "28000" | "28P01" | "3D000" => StoreError::NotAStore(text),
        // Tables that aren't as the program expects them.
        "42P01" | "42703" | "42883" | "42P07" => StoreError::NotAStore(text),
        _ => StoreError::Unavailable(text),
    }
}
