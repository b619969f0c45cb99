//! Looks for damage, and says what to do about it.
//!
//! What can't be read is a finding, and the rest is looked at all the same. Everything is read in pages, so that a large
//! database doesn't have to fit into memory; runs that go on meanwhile are compared as of one moment each.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;

use deadpool_postgres::ClientWrapper;
use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::record::Event;
use tokio_postgres::types::ToSql;

use super::error::Failed;
use super::read;
use super::rows::{self, columns};
use super::text::unescape;
use crate::memory::effects::{Changes, Draft, Effects, Tokens};
use crate::sqlite::body::unsigned;
use crate::sqlite::content;
use crate::{Finding, StoreError};

/// Findings of one kind that are told one by one.
const TOLD: usize = 20;
/// Rows that are read at once.
const PAGE: i64 = 500;

const RESTORE: &str = "restore a backup; the runs that are not named here can go on";
const REMAKE: &str = "restore a backup, or start the task anew: this run's archive can't be trusted beyond this place";

/// Checks the whole store.
pub(crate) async fn check(client: &ClientWrapper) -> Result<Vec<Finding>, Failed> {
    let mut check = Check { client, findings: Vec::new(), referenced: HashMap::new(), tokens: Tokens::new() };
    check.runs().await?;
    check.blobs().await?;
    check.checkpoints().await?;
    Ok(check.findings)
}

struct Check<'a> {
    client: &'a ClientWrapper,
    findings: Vec<Finding>,
    /// Blobs that records refer to, with the first run that does.
    referenced: HashMap<ContentHash, RunId>,
    tokens: Tokens,
}

/// A run and its archive, folded.
struct Run {
    key: i64,
    id: RunId,
    effects: Effects,
    state: BTreeSet<(String, u64, Option<String>)>,
}

impl Check<'_> {
    fn add(&mut self, run: Option<RunId>, problem: impl Display, remedy: &str) {
        self.findings.push(Finding { run, problem: problem.to_string(), remedy: remedy.to_owned() });
    }

    async fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<tokio_postgres::Row>, Failed> {
        let statement = self.client.prepare_cached(sql).await?;
        Ok(self.client.query(&statement, params).await?)
    }

    async fn runs(&mut self) -> Result<(), Failed> {
        let mut last = i64::MIN;
        loop {
            let page = self
                .query("select key, id, head_seq, task from run where key > $1 order by key limit $2", &[&last, &PAGE])
                .await?;
            let Some(end) = page.last() else { return Ok(()) };
            last = end.get(0);
            for row in &page {
                let id = RunId(row.get(1));
                self.task(id, row.get(3)).await?;
                self.run(row.get(0), id, row.get(2)).await?;
            }
        }
    }

    async fn task(&mut self, run: RunId, hash: &[u8]) -> Result<(), Failed> {
        let Ok(hash) = <[u8; 32]>::try_from(hash) else {
            self.add(Some(run), "the hash of its task has a wrong length", RESTORE);
            return Ok(());
        };
        match read::task(self.client, ContentHash(hash)).await {
            Err(Failed::Refused(error)) => self.add(Some(run), error, RESTORE),
            result => drop(result?),
        }
        Ok(())
    }

    /// Reads a run's archive up to the head that it had, and makes its tables anew, for comparison.
    async fn run(&mut self, key: i64, id: RunId, head: i64) -> Result<(), Failed> {
        let mut run = Run { key, id, effects: Effects::default(), state: BTreeSet::new() };
        let (mut last, mut whole) = (0, true);
        let sql = format!("select {} from record where run = $1 and seq > $2 order by seq limit $3", columns("record"));
        loop {
            let page = self.query(&sql, &[&key, &last, &PAGE]).await?;
            for row in &page {
                let seq: i64 = row.get(0);
                if seq != last + 1 {
                    whole = false;
                    self.add(Some(id), format!("records {} to {} are missing", last + 1, seq - 1), REMAKE);
                }
                last = seq;
                match rows::read(row, 0) {
                    Ok(record) => self.take_in(&mut run, &record),
                    Err(unreadable) => {
                        whole = false;
                        self.add(Some(id), unreadable.into_store_error(id), REMAKE);
                    }
                }
            }
            if (page.len() as i64) < PAGE {
                break;
            }
        }
        // It may have grown since its row was read.
        if last < head {
            whole = false;
            self.add(Some(id), format!("its last record is {last}, and its row says {head}"), REMAKE);
        }
        let now = read::run(self.client, id, None).await?;
        if last > head && unsigned(last) > now.head.0 {
            whole = false;
            self.add(Some(id), format!("its last record is {last}, and its row says {}", now.head), REMAKE);
        }
        // With holes in the archive the tables can't be made from it, and the holes were told. What goes on meanwhile is
        // compared another time.
        if whole && now.head == Seq(unsigned(last)) {
            self.compare(&run).await?;
        }
        Ok(())
    }

    fn take_in(&mut self, run: &mut Run, record: &loopforge_core::record::Record) {
        record.event.for_each_blob(&mut |blob| {
            self.referenced.entry(blob.hash).or_insert(run.id);
        });
        if let Event::StateSaved(saved) = &record.event {
            run.state.insert((saved.key.clone(), record.seq.0, saved.member.clone()));
        }
        let mut draft = Draft { run: run.id, effects: &run.effects, tokens: &self.tokens, changes: Changes::default() };
        let added = draft.add(record);
        let changes = draft.changes;
        match added {
            Ok(()) => run.effects.accept(changes, &mut self.tokens, run.id),
            Err(error) => self.add(Some(run.id), format!("record {}: {error}", record.seq), RESTORE),
        }
    }

    async fn compare(&mut self, run: &Run) -> Result<(), Failed> {
        let rows = self.query("select key, seq, member from state where run = $1", &[&run.key]).await?;
        let there: BTreeSet<_> = rows
            .iter()
            .map(|row| {
                let member: Option<String> = row.get(2);
                (unescape(row.get(0)), unsigned(row.get(1)), member.map(unescape))
            })
            .collect();
        let there_at: Vec<_> = run.state.symmetric_difference(&there).take(TOLD).cloned().collect();
        for (key, seq, _) in there_at {
            let problem = format!("state `{key}` at record {seq} stands only in the archive or only in the table");
            self.add(Some(run.id), problem, RESTORE);
        }
        let there = match read::effects(self.client, run.id).await {
            Err(Failed::Refused(error @ StoreError::Corrupt(_))) => {
                self.add(Some(run.id), error, RESTORE);
                return Ok(());
            }
            there => there?,
        };
        let expected: Vec<_> = run.effects.all().cloned().collect();
        for effect in expected.iter().filter(|effect| !there.contains(effect)).take(TOLD) {
            let problem = format!("the effect of action {} is not as the archive says", effect.action);
            self.add(Some(run.id), problem, RESTORE);
        }
        if there.len() > expected.len() {
            self.add(Some(run.id), "there are effects that the archive doesn't know", RESTORE);
        }
        Ok(())
    }

    async fn blobs(&mut self) -> Result<(), Failed> {
        let mut last: Vec<u8> = Vec::new();
        let mut sound = HashSet::new();
        loop {
            let sql = "select hash, size, codec, content from blob where hash > $1 order by hash limit 50";
            let page = self.query(sql, &[&last]).await?;
            let Some(end) = page.last() else { break };
            last = end.get(0);
            for row in &page {
                let Ok(hash) = <[u8; 32]>::try_from(row.get::<_, &[u8]>(0)) else { continue };
                match content::read(&hash, row.get(1), row.get::<_, i16>(2) == 1, row.get(3)) {
                    Ok(_) => {
                        sound.insert(ContentHash(hash));
                    }
                    Err(problem) => {
                        let hash = ContentHash(hash);
                        let run = self.referenced.remove(&hash);
                        self.add(run, format!("blob {hash} {problem}"), RESTORE);
                    }
                }
            }
        }
        let missing: Vec<_> =
            self.referenced.iter().filter(|(hash, _)| !sound.contains(hash)).map(|(hash, run)| (*hash, *run)).collect();
        for (hash, run) in missing.into_iter().take(TOLD) {
            self.add(Some(run), format!("blob {hash} is missing"), RESTORE);
        }
        Ok(())
    }

    async fn checkpoints(&mut self) -> Result<(), Failed> {
        let (mut run, mut seq) = (i64::MIN, i64::MIN);
        loop {
            let sql = "select checkpoint.run, checkpoint.seq, run.id, hash, size, codec, content \
                       from checkpoint join run on run.key = checkpoint.run \
                       where (checkpoint.run, checkpoint.seq) > ($1, $2) \
                       order by checkpoint.run, checkpoint.seq limit 50";
            let page = self.query(sql, &[&run, &seq]).await?;
            let Some(end) = page.last() else { return Ok(()) };
            (run, seq) = (end.get(0), end.get(1));
            for row in &page {
                let hash: &[u8] = row.get(3);
                if let Err(problem) = content::read(hash, row.get(4), row.get::<_, i16>(5) == 1, row.get(6)) {
                    let seq: i64 = row.get(1);
                    let remedy = "nothing needs to be done: it is passed over, and the archive has all that it held";
                    self.add(Some(RunId(row.get(2))), format!("the checkpoint at record {seq} {problem}"), remedy);
                }
            }
        }
    }
}
