//! What people tell runs, as rows.

use deadpool_postgres::ClientWrapper;
use loopforge_core::id::{RecordId, RunId};
use uuid::Uuid;

use super::budget::key_of;
use super::error::Failed;
use super::text::{escape, unescape};
use crate::Message;
use crate::sqlite::inbox::read;

pub(crate) async fn post(client: &ClientWrapper, run: RunId, id: RecordId, content: &str) -> Result<(), Failed> {
    let run = key_of(client, run).await?;
    let statement = client
        .prepare_cached("insert into inbox (run, id, content) values ($1, $2, $3) on conflict (id) do nothing")
        .await?;
    client.execute(&statement, &[&run, &id.0, &escape(content)]).await?;
    Ok(())
}

pub(crate) async fn waiting(client: &ClientWrapper, run: RunId) -> Result<Vec<Message>, Failed> {
    let run = key_of(client, run).await?;
    let statement =
        client.prepare_cached("select content from inbox where run = $1 and not taken order by place").await?;
    let mut messages = Vec::new();
    for row in client.query(&statement, &[&run]).await? {
        messages.push(read(&unescape(row.get(0)))?);
    }
    Ok(messages)
}

pub(crate) async fn taken(client: &ClientWrapper, run: RunId, ids: &[RecordId]) -> Result<(), Failed> {
    let run = key_of(client, run).await?;
    let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
    let statement = client.prepare_cached("update inbox set taken = true where run = $1 and id = any($2)").await?;
    client.execute(&statement, &[&run, &ids]).await?;
    Ok(())
}

pub(crate) async fn addressed(client: &ClientWrapper) -> Result<Vec<RunId>, Failed> {
    let statement = client
        .prepare_cached("select distinct run.id from inbox join run on run.key = inbox.run where not inbox.taken")
        .await?;
    Ok(client.query(&statement, &[]).await?.iter().map(|row| RunId(row.get(0))).collect())
}
