//! What the server promises: LoopForge's own promises rest on it.

use std::time::Duration;

use deadpool_postgres::ClientWrapper;

use super::error::Failed;
use crate::sqlite::body::unsigned;

/// What a hard commit survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durable {
    /// Not even a loss of power: the server doesn't wait for its disk.
    Nothing,
    /// A loss of power. There is no copy.
    OneServer,
    /// A loss of power. A failover to the copy may lose the last moments.
    AsynchronousCopy,
    /// A loss of power, and of the server: a commit is on a copy as well.
    SynchronousCopy,
}

/// A server, as it is at this moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerInfo {
    /// Its version, as it says it.
    pub version: String,
    /// What a hard commit survives. None on a copy, which can't tell.
    pub durable: Option<Durable>,
    /// Commits are to wait for copies, and there is none: nothing is acknowledged.
    pub waits_for_a_copy: bool,
    /// How long the oldest transaction has been open. A long one keeps dead rows from being cleaned away.
    pub oldest_transaction: Duration,
}

pub(crate) async fn look(client: &ClientWrapper) -> Result<ServerInfo, Failed> {
    let statement = client
        .prepare_cached(
            "select current_setting('server_version'), pg_is_in_recovery(), current_setting('fsync') = 'on', \
                 current_setting('synchronous_standby_names') <> '', \
                 (select count(*) from pg_stat_replication where state = 'streaming'), \
                 (select count(*) from pg_stat_replication where sync_state in ('sync', 'quorum')), \
                 coalesce((select extract(epoch from max(clock_timestamp() - xact_start)) from pg_stat_activity \
                     where pid <> pg_backend_pid() and backend_type = 'client backend'), 0)::int8",
        )
        .await?;
    let row = client.query_one(&statement, &[]).await?;
    let (is_copy, fsync, wants_copy): (bool, bool, bool) = (row.get(1), row.get(2), row.get(3));
    let (copies, synchronous): (i64, i64) = (row.get(4), row.get(5));
    let durable = match (fsync, wants_copy, copies) {
        (false, _, _) => Durable::Nothing,
        (true, true, _) => Durable::SynchronousCopy,
        (true, false, 0) => Durable::OneServer,
        (true, false, _) => Durable::AsynchronousCopy,
    };
    Ok(ServerInfo {
        version: row.get(0),
        durable: (!is_copy).then_some(durable),
        waits_for_a_copy: !is_copy && wants_copy && synchronous == 0,
        oldest_transaction: Duration::from_secs(unsigned(row.get(6))),
    })
}
