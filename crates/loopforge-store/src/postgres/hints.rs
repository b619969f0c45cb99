//! Hints by LISTEN and NOTIFY.
//!
//! NOTIFY takes a lock of the whole database at commit, so it has no place in a transaction that writes: one notifier for each
//! process gathers what is to be told, and tells it in a transaction of its own, at most every 50 ms. Listening takes
//! a connection of its own, since a pooled one may be given back or cut off.

use std::collections::BTreeSet;
use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use loopforge_core::id::RunId;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;
use tokio_postgres::AsyncMessage;

use super::Core;
use super::error::Failed;
use super::pool::Tries;
use crate::dispatch::{Dispatch, Hint, jittered};

/// The shortest time between two notifications of a process.
const QUIET: Duration = Duration::from_millis(50);
/// How long a caller waits for its hint to be on its way.
const PATIENCE: Duration = Duration::from_secs(1);
/// Hints that may wait to be sent; more are dropped.
const QUEUE: usize = 1024;
/// How long a listener that was cut off waits before it connects again.
const RECONNECT: Duration = Duration::from_secs(2);

/// Hints of all processes that use the same store.
#[derive(Debug)]
pub struct PostgresHints {
    core: Arc<Core>,
    sender: mpsc::Sender<Told>,
    heard: Arc<Notify>,
    notifier: AbortHandle,
    /// Started by the first who wants to hear something.
    listener: OnceLock<AbortHandle>,
}

struct Told {
    run: RunId,
    sent: oneshot::Sender<()>,
}

impl PostgresHints {
    pub(crate) fn start(core: &Arc<Core>) -> Self {
        let (sender, waiting) = mpsc::channel(QUEUE);
        let notifier = tokio::spawn(notify(Arc::clone(core), waiting)).abort_handle();
        Self { core: Arc::clone(core), sender, heard: Arc::default(), notifier, listener: OnceLock::new() }
    }
}

impl Drop for PostgresHints {
    fn drop(&mut self) {
        self.notifier.abort();
        if let Some(listener) = self.listener.get() {
            listener.abort();
        }
    }
}

#[async_trait]
impl Dispatch for PostgresHints {
    async fn wake(&self, run: RunId) {
        let (sent, told) = oneshot::channel();
        if self.sender.try_send(Told { run, sent }).is_ok() {
            // Whoever ends now would take it along unsent.
            let _ = tokio::time::timeout(PATIENCE, told).await;
        }
    }

    async fn next(&self) -> Hint {
        self.listener
            .get_or_init(|| tokio::spawn(listen(Arc::clone(&self.core), Arc::clone(&self.heard))).abort_handle());
        self.heard.notified().await;
        Hint::LookYourself
    }
}

fn channel(core: &Core) -> String {
    format!("loopforge_{}", core.address.schema)
}

async fn notify(core: Arc<Core>, mut waiting: mpsc::Receiver<Told>) {
    let channel = channel(&core);
    while let Some(first) = waiting.recv().await {
        let mut told = vec![first];
        while let Ok(next) = waiting.try_recv() {
            told.push(next);
        }
        let runs: BTreeSet<String> = told.iter().take(20).map(|told| told.run.to_string()).collect();
        let payload = runs.into_iter().collect::<Vec<_>>().join(" ");
        let sent: Result<(), Failed> = async {
            let connection = core.writers.get().await?;
            let statement = connection.prepare_cached("select pg_notify($1, $2)").await?;
            connection.execute(&statement, &[&channel, &payload]).await?;
            Ok(())
        }
        .await;
        if let Err(error) = sent {
            tracing::debug!(?error, "a hint was not sent; workers find the run by themselves");
        }
        for told in told {
            // Nobody listens when the caller gave up.
            let _ = told.sent.send(());
        }
        tokio::time::sleep(QUIET).await;
    }
}

async fn listen(core: Arc<Core>, heard: Arc<Notify>) {
    loop {
        if let Err(error) = hear(&core, &heard).await {
            tracing::debug!(?error, "hints are not heard now; workers find runs by themselves");
        }
        // What was said meanwhile is lost.
        heard.notify_waiters();
        tokio::time::sleep(jittered(RECONNECT)).await;
    }
}

async fn hear(core: &Core, heard: &Notify) -> Result<(), Failed> {
    let tls = super::tls::connector(&core.address.tls)?;
    let mut tries = Tries::new(core.options.patience);
    let (client, mut connection) = loop {
        match core.address.for_writing().connect(tls.clone()).await.map_err(Failed::from) {
            Err(failed) if tries.again(&failed).await => {}
            connected => break connected?,
        }
    };
    let listen = format!("listen {}", channel(core));
    let listening = client.batch_execute(&listen);
    tokio::pin!(listening);
    let mut started = false;
    loop {
        tokio::select! {
            result = &mut listening, if !started => {
                result?;
                started = true;
            }
            message = poll_fn(|cx| connection.poll_message(cx)) => match message {
                Some(Ok(AsyncMessage::Notification(_))) => heard.notify_one(),
                Some(Ok(_)) => {}
                Some(Err(error)) => return Err(error.into()),
                None => return Ok(()),
            },
        }
    }
}
