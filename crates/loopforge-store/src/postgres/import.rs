//! Taking a run over from another store.

use std::sync::Arc;

use deadpool_postgres::ClientWrapper;
use loopforge_core::id::Seq;
use tokio_postgres::types::ToSql;

use super::address::{Address, Lock, Share};
use super::append::{begin, blobs_there, check_needed};
use super::create::insert_rows;
use super::error::Failed;
use super::lease::READY;
use super::rows::Rows;
use super::text::escape;
use crate::sqlite::body::signed;
use crate::sqlite::content::Content;
use crate::{Page, Pages, RunInfo, StoreError, derive};

/// A run on its way from another store.
#[derive(Debug)]
pub(crate) struct Import {
    pub(crate) run: RunInfo,
    pub(crate) text: Vec<u8>,
    pub(crate) content: Content,
    pub(crate) pages: Arc<dyn Pages>,
}

/// Stores a run with all its pages, or nothing of it.
pub(crate) async fn import(
    client: &ClientWrapper,
    import: &Import,
    address: &Address,
    now: Option<i64>,
) -> Result<(), Failed> {
    let lock = address.lock(Lock::Blobs, Share::WithOthers);
    client.batch_execute(&format!("{}; select {lock}", begin(true))).await?;
    let Import { run, text, content, pages } = import;
    let insert = client
        .prepare_cached(
            "insert into task (hash, size, codec, content) values ($1, $2, $3, $4) on conflict (hash) do nothing",
        )
        .await?;
    let (hash, codec) = (content.hash.as_slice(), i16::from(content.compressed));
    client.execute(&insert, &[&hash, &content.size, &codec, &content.bytes]).await?;
    let insert = client
        .prepare_cached(
            "insert into run (id, name, task, workspace, base, status, head_seq, steps, created_at, updated_at, wake_at) \
             values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11) on conflict (id) do nothing returning key",
        )
        .await?;
    let (name, workspace, base) = (escape(&run.name), escape(&run.workspace), escape(&run.base));
    let (task, status, wake_at) = (run.task.0.as_slice(), run.status.name(), run.wake_at.map(|at| at.0));
    let (head_seq, steps) = (signed(run.head.0), signed(run.steps));
    let params: [&(dyn ToSql + Sync); 11] = [
        &run.id.0,
        &name,
        &task,
        &workspace,
        &base,
        &status,
        &head_seq,
        &steps,
        &run.created_at.0,
        &run.updated_at.0,
        &wake_at,
    ];
    let row = client.query_opt(&insert, &params).await?.ok_or(StoreError::Exists(run.id))?;
    let key: i64 = row.get(0);
    let (mut head, mut last_task, mut number) = (Seq(0), None, 0);
    while let Some(page) = read(Arc::clone(pages), number).await? {
        number += 1;
        if page.records.is_empty() {
            return Err(StoreError::Invalid(format!("page {number} has no records")).into());
        }
        if last_task.is_none() {
            last_task = Some(derive::first_task(&page.records)?);
        }
        last_task = page.records.iter().rev().find_map(|record| derive::changed_task(&record.event)).or(last_task);
        let records = page.records.len() as u64;
        let rows = Rows::new(head, page.records, &page.blobs)?;
        check_needed(&rows, &blobs_there(client, &rows).await?)?;
        insert_rows(client, run.id, key, &rows).await?;
        head = Seq(head.0 + records);
    }
    let last_task = last_task.ok_or_else(|| StoreError::Invalid("there are no records to import".to_owned()))?;
    derive::check_imported(run, head, last_task, text)?;
    let sql = format!(
        "update run set ready_at = {READY} from (select coalesce($2::int8, now_us()) as now) as clock where run.key = $1"
    );
    let statement = client.prepare_cached(&sql).await?;
    client.execute(&statement, &[&key, &now]).await?;
    Ok(client.batch_execute("commit").await?)
}

/// Reads a page on a thread for blocking work.
async fn read(pages: Arc<dyn Pages>, number: usize) -> Result<Option<Page>, Failed> {
    let read = tokio::task::spawn_blocking(move || pages.page(number)).await;
    let page = read.map_err(|error| StoreError::Unavailable(format!("a page could not be read: {error}")))?;
    Ok(page?)
}
