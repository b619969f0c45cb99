//! Looks for damage, and says what to do about it.
//!
//! It must get through a damaged database: what can't be read is a finding, and the rest is looked at all the same.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt::Display;

use loopforge_core::id::{ContentHash, RunId, Seq};
use loopforge_core::record::{Event, Record};
use rusqlite::{Connection, Row, params};
use uuid::Uuid;

use super::body::{self, COLUMNS, unsigned};
use super::content;
use super::error::Failed;
use super::read;
use crate::Finding;
use crate::memory::effects::{Changes, Draft, Effects, Tokens};

/// Findings of one kind that are told one by one.
const TOLD: usize = 20;

const RESTORE: &str = "restore a backup; the runs that are not named here can go on";
const REMAKE: &str = "restore a backup, or start the task anew: this run's archive can't be trusted beyond this place; \
                      `loopforge export` writes it out as far as it is whole";

/// Checks the whole database.
pub(crate) fn check(connection: &Connection) -> Vec<Finding> {
    let mut check = Check { connection, findings: Vec::new(), referenced: HashMap::new(), tokens: Tokens::new() };
    check.part("the file", Check::file);
    check.part("the records' ids", Check::record_ids);
    check.part("the runs", Check::runs);
    check.part("the blobs", Check::blobs);
    check.part("the checkpoints", Check::checkpoints);
    check.findings
}

struct Check<'a> {
    connection: &'a Connection,
    findings: Vec<Finding>,
    /// Blobs that records refer to, with the first run that does.
    referenced: HashMap<ContentHash, RunId>,
    tokens: Tokens,
}

struct Run {
    key: i64,
    id: RunId,
    head: i64,
    task: Vec<u8>,
}

impl Check<'_> {
    fn add(&mut self, run: Option<RunId>, problem: impl Display, remedy: &str) {
        self.findings.push(Finding { run, problem: problem.to_string(), remedy: remedy.to_owned() });
    }

    fn part(&mut self, what: &str, part: impl FnOnce(&mut Self) -> Result<(), Failed>) {
        match part(self) {
            Ok(()) => {}
            Err(Failed::Sql(error)) => self.add(None, format!("{what} can't be read as a whole: {error}"), RESTORE),
            Err(Failed::Refused(error)) => self.add(None, error, RESTORE),
        }
    }

    fn file(&mut self) -> Result<(), Failed> {
        let mut select = self.connection.prepare(&format!("pragma quick_check({TOLD})"))?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let problem: String = row.get(0)?;
            if problem != "ok" {
                self.add(None, format!("SQLite finds the file damaged: {problem}"), RESTORE);
            }
        }
        Ok(())
    }

    fn record_ids(&mut self) -> Result<(), Failed> {
        let sql = format!("select hex(id), count(*) from record group by id having count(*) > 1 limit {TOLD}");
        let mut select = self.connection.prepare(&sql)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            let (id, count): (String, i64) = (row.get(0)?, row.get(1)?);
            self.add(None, format!("{count} records have the id rec_{}", id.to_lowercase()), RESTORE);
        }
        let strays: i64 = self.connection.query_row(
            "select count(*) from record where run not in (select key from run)",
            [],
            |row| row.get(0),
        )?;
        if strays > 0 {
            self.add(None, format!("{strays} records belong to no run"), RESTORE);
        }
        Ok(())
    }

    fn runs(&mut self) -> Result<(), Failed> {
        let mut select = self.connection.prepare("select key, id, head_seq, task from run order by key")?;
        let run = |row: &Row<'_>| {
            let id = RunId(Uuid::from_bytes(row.get(1)?));
            Ok(Run { key: row.get(0)?, id, head: row.get(2)?, task: row.get(3)? })
        };
        let runs: Vec<Run> = select.query_map([], run)?.collect::<Result<_, _>>()?;
        for run in runs {
            self.task(&run);
            let (id, what) = (run.id, format!("the records of {}", run.id));
            if let Err(error) = self.run(&run) {
                let problem = match error {
                    Failed::Sql(error) => format!("{what} can't be read as a whole: {error}"),
                    Failed::Refused(error) => error.to_string(),
                };
                self.add(Some(id), problem, REMAKE);
            }
        }
        Ok(())
    }

    fn task(&mut self, run: &Run) {
        let Ok(hash) = <[u8; 32]>::try_from(run.task.as_slice()) else {
            return self.add(Some(run.id), "the hash of its task has a wrong length", RESTORE);
        };
        match read::task(self.connection, ContentHash(hash)) {
            Ok(_) => {}
            Err(Failed::Sql(error)) => self.add(Some(run.id), format!("its task can't be read: {error}"), RESTORE),
            Err(Failed::Refused(error)) => self.add(Some(run.id), error, RESTORE),
        }
    }

    /// Reads a run's archive and makes its tables anew, for comparison.
    fn run(&mut self, run: &Run) -> Result<(), Failed> {
        let sql = format!("select {COLUMNS} from record where run = ?1 order by seq");
        let mut select = self.connection.prepare_cached(&sql)?;
        let mut rows = select.query([run.key])?;
        let (mut last, mut whole) = (0, true);
        let (mut effects, mut state) = (Effects::default(), BTreeSet::new());
        while let Some(row) = rows.next()? {
            let seq: i64 = row.get(0)?;
            if seq != last + 1 {
                whole = false;
                self.add(Some(run.id), format!("records {} to {} are missing", last + 1, seq - 1), REMAKE);
            }
            last = seq;
            match body::read(row) {
                Ok(Ok(record)) => self.take_in(run, &record, &mut effects, &mut state),
                Ok(Err(unreadable)) => {
                    whole = false;
                    self.add(Some(run.id), unreadable.into_store_error(run.id), REMAKE);
                }
                Err(error) => {
                    whole = false;
                    self.add(Some(run.id), format!("record {seq} can't be read: {error}"), REMAKE);
                }
            }
        }
        if last != run.head {
            let problem = format!("its last record is {last}, and its row says {}", run.head);
            self.add(Some(run.id), problem, REMAKE);
        }
        // With holes in the archive the tables can't be made from it, and the holes were told.
        if whole {
            self.compare_state(run, &state)?;
            self.compare_effects(run, &effects)?;
        }
        Ok(())
    }

    fn take_in(
        &mut self,
        run: &Run,
        record: &Record,
        effects: &mut Effects,
        state: &mut BTreeSet<(String, u64, Option<String>)>,
    ) {
        record.event.for_each_blob(&mut |blob| {
            self.referenced.entry(blob.hash).or_insert(run.id);
        });
        if let Event::StateSaved(saved) = &record.event {
            state.insert((saved.key.clone(), record.seq.0, saved.member.clone()));
        }
        let mut draft = Draft { run: run.id, effects, tokens: &self.tokens, changes: Changes::default() };
        let added = draft.add(record);
        let changes = draft.changes;
        match added {
            Ok(()) => effects.accept(changes, &mut self.tokens, run.id),
            Err(error) => self.add(Some(run.id), format!("record {}: {error}", record.seq), RESTORE),
        }
    }

    fn compare_state(&mut self, run: &Run, expected: &BTreeSet<(String, u64, Option<String>)>) -> Result<(), Failed> {
        let mut select = self.connection.prepare_cached("select key, seq, member from state where run = ?1")?;
        let rows = select.query_map([run.key], |row| Ok((row.get(0)?, unsigned(row.get(1)?), row.get(2)?)))?;
        let there: BTreeSet<_> = rows.collect::<Result<_, _>>()?;
        for (key, seq, _) in expected.symmetric_difference(&there).take(TOLD) {
            let problem = format!("state `{key}` at record {seq} stands only in the archive or only in the table");
            self.add(Some(run.id), problem, RESTORE);
        }
        Ok(())
    }

    fn compare_effects(&mut self, run: &Run, expected: &Effects) -> Result<(), Failed> {
        let there = read::effects(self.connection, run.id)?;
        let expected: Vec<_> = expected.all().cloned().collect();
        for effect in expected.iter().filter(|effect| !there.contains(effect)).take(TOLD) {
            let problem = format!("the effect of action {} is not as the archive says", effect.action);
            self.add(Some(run.id), problem, RESTORE);
        }
        if there.len() > expected.len() {
            self.add(Some(run.id), "there are effects that the archive doesn't know", RESTORE);
        }
        Ok(())
    }

    fn blobs(&mut self) -> Result<(), Failed> {
        let mut select = self.connection.prepare("select hash, size, codec, content from blob")?;
        let mut rows = select.query([])?;
        let mut sound = HashSet::new();
        while let Some(row) = rows.next()? {
            let hash: [u8; 32] = row.get(0)?;
            match content::read(&hash, row.get(1)?, row.get(2)?, row.get(3)?) {
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
        let missing: Vec<_> =
            self.referenced.iter().filter(|(hash, _)| !sound.contains(hash)).map(|(hash, run)| (*hash, *run)).collect();
        for (hash, run) in missing.into_iter().take(TOLD) {
            self.add(Some(run), format!("blob {hash} is missing"), RESTORE);
        }
        Ok(())
    }

    fn checkpoints(&mut self) -> Result<(), Failed> {
        let mut select = self.connection.prepare(
            "select run.id, checkpoint.seq, hash, size, codec, content from checkpoint join run on run.key = run",
        )?;
        let mut rows = select.query(params![])?;
        while let Some(row) = rows.next()? {
            let run = RunId(Uuid::from_bytes(row.get(0)?));
            let hash: Vec<u8> = row.get(2)?;
            if let Err(problem) = content::read(&hash, row.get(3)?, row.get(4)?, row.get(5)?) {
                let seq = Seq(unsigned(row.get(1)?));
                let remedy = "nothing needs to be done: it is passed over, and the archive has all that it held";
                self.add(Some(run), format!("the checkpoint at record {seq} {problem}"), remedy);
            }
        }
        Ok(())
    }
}
