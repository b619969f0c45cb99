//! Connections, and trying again.
//!
//! A connection can be cut at any time: by an idle limit on the way, a restart, a failover. Every operation here may be
//! repeated without harm, also after one whose acknowledgement was lost, so a cut costs a moment and not an error.

use std::time::{Duration, Instant};

use deadpool_postgres::{Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime};
use tokio_postgres::Config;
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error::Failed;
use crate::StoreError;
use crate::dispatch::jittered;

/// The waits between tries: the first, and the longest. Each is cut by chance, so that many workers don't come at once.
const FIRST_WAIT: Duration = Duration::from_millis(20);
const LONGEST_WAIT: Duration = Duration::from_millis(500);

/// A number of connections with the same settings.
pub(crate) fn pool(
    config: Config,
    tls: &MakeRustlsConnect,
    size: usize,
    patience: Duration,
) -> Result<Pool, StoreError> {
    let manager = Manager::from_config(config, tls.clone(), ManagerConfig { recycling_method: RecyclingMethod::Fast });
    Pool::builder(manager)
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .wait_timeout(Some(patience.max(Duration::from_secs(30))))
        .create_timeout(Some(patience.max(Duration::from_secs(10))))
        .build()
        .map_err(|error| StoreError::Unavailable(format!("connections can't be kept: {error}")))
}

/// Gives a connection back, or throws it away when its error may have left it in doubt.
pub(crate) fn settle<T>(connection: Object, result: Result<T, Failed>) -> Result<T, Failed> {
    if result.as_ref().is_err_and(Failed::spoils) {
        drop(Object::take(connection));
    }
    result
}

/// When to try again, and when to give up.
#[derive(Debug)]
pub(crate) struct Tries {
    started: Instant,
    patience: Duration,
    wait: Duration,
}

impl Tries {
    pub(crate) fn new(patience: Duration) -> Self {
        Self { started: Instant::now(), patience, wait: FIRST_WAIT }
    }

    /// Whether the operation that failed is to be tried again, after the wait that this makes.
    pub(crate) async fn again(&mut self, failed: &Failed) -> bool {
        if !failed.may_pass() || self.started.elapsed() + self.wait > self.patience {
            return false;
        }
        tracing::debug!(?failed, "the store is tried again");
        tokio::time::sleep(jittered(self.wait)).await;
        self.wait = (self.wait * 2).min(LONGEST_WAIT);
        true
    }
}
