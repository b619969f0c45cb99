//! Looking at a run without touching it: its archive page by page, its state folded, values with their large parts.
//!
//! What is damaged, or newer than this program, is named and passed over; the rest is still shown.

use loopforge::gateway::Registry;
use loopforge_core::checkpoint;
use loopforge_core::id::{RunId, Seq, StepNo};
use loopforge_core::json::Json;
use loopforge_core::payload::{BlobCache, NotLoaded, Payload};
use loopforge_core::record::{About, Event, Record, RunEnded, RunStatus};
use loopforge_core::run::RunState;
use loopforge_core::task::{self, Task};
use loopforge_store::{Owner, RunInfo, Store, StoreError};

use crate::context::Context;
use crate::error::CliError;

/// Records that are read at once.
const PAGE: usize = 1000;

/// A place in an archive.
#[derive(Debug)]
pub enum Place {
    /// A record.
    Record(Box<Record>),
    /// A record that can't be read.
    Unreadable {
        /// Its place.
        seq: Seq,
        /// What is wrong.
        problem: String,
    },
}

/// Reads an archive page by page, as far as it went when the reading began.
#[derive(Debug)]
pub struct Archive<'a> {
    store: &'a dyn Store,
    run: RunId,
    after: Seq,
    head: Seq,
    page: usize,
    /// What is read next; 1 while a damaged record is looked for.
    now: usize,
}

impl<'a> Archive<'a> {
    /// The records after `after`, up to `head`.
    #[must_use]
    pub fn new(store: &'a dyn Store, run: RunId, after: Seq, head: Seq) -> Self {
        Self { store, run, after, head, page: PAGE, now: PAGE }
    }

    /// Reads at most `page` records at once.
    #[must_use]
    pub fn paged(mut self, page: usize) -> Self {
        self.page = page.max(1);
        self.now = self.page;
        self
    }

    /// The next page; none at the end.
    ///
    /// # Errors
    /// The store can't be read at all.
    pub async fn next(&mut self) -> Result<Option<Vec<Place>>, CliError> {
        if self.after >= self.head {
            return Ok(None);
        }
        let left = usize::try_from(self.head.0 - self.after.0).unwrap_or(usize::MAX);
        let records = match self.store.records(self.run, self.after, left.min(self.now)).await {
            Ok(records) => records,
            // One bad record spoils its page: it is found by reading one by one.
            Err(StoreError::Corrupt(_) | StoreError::Newer { .. }) if self.now > 1 => {
                self.now = 1;
                return Ok(Some(Vec::new()));
            }
            Err(error @ (StoreError::Corrupt(_) | StoreError::Newer { .. })) => {
                self.after = self.after.next();
                self.now = self.page;
                return Ok(Some(vec![Place::Unreadable { seq: self.after, problem: error.to_string() }]));
            }
            Err(error) => return Err(error.into()),
        };
        // The store tells of records that are missing, so none is the end.
        let Some(last) = records.last() else { return Ok(None) };
        self.after = last.seq;
        Ok(Some(records.into_iter().map(|record| Place::Record(Box::new(record))).collect()))
    }
}

/// A run, as far as it can be read.
#[derive(Debug)]
pub struct View {
    /// What the list of runs says. It has no owner whose process is gone.
    pub info: RunInfo,
    /// Whose process is gone, although its lease lasts still.
    pub gone: Option<Owner>,
    /// Its task, with its plan as it is now; none when its text can't be read.
    pub task: Option<Task>,
    /// Its state; none without a task. After a damaged record it is the one before it.
    pub state: Option<RunState>,
    /// What can't be read, in sentences.
    pub problems: Vec<String>,
}

/// A question that is open.
#[derive(Debug)]
pub struct Open {
    /// The step that waits; none when the run as a whole waits.
    pub step: Option<StepNo>,
    /// What it is about.
    pub about: About,
    /// The question.
    pub text: String,
}

impl View {
    /// Folds a run from its newest checkpoint that can be used.
    ///
    /// # Errors
    /// No such run, or a store that can't be read at all.
    pub async fn load(context: &Context, store: &dyn Store, run: RunId) -> Result<Self, CliError> {
        let (info, gone) = context.present(store.run(run).await?);
        let mut view = Self { info, gone, task: None, state: None, problems: Vec::new() };
        let read = match store.task(view.info.task).await {
            Ok(text) => task::read_stored(&text, &loopforge::catalog(&Registry::default()))
                .map_err(|problems| format!("the task can't be read by this version: {problems}")),
            Err(error) => Err(error.to_string()),
        };
        match read {
            Ok(task) => {
                view.fold(store, &task).await?;
                let planned = view.state.as_ref().map(|state| state.plan.of(&task).into_owned());
                view.task = Some(planned.unwrap_or(task));
            }
            Err(problem) => view.problems.push(problem),
        }
        Ok(view)
    }

    async fn fold(&mut self, store: &dyn Store, task: &Task) -> Result<(), CliError> {
        let run = self.info.id;
        let kept = store.load_checkpoint(run).await?.and_then(|kept| checkpoint::read(&kept.bytes).ok());
        let mut state = kept
            .filter(|state| state.run == run && state.task == self.info.task && state.head <= self.info.head)
            .unwrap_or_else(|| RunState::new(run, task));
        let mut archive = Archive::new(store, run, state.head, self.info.head);
        'pages: while let Some(page) = archive.next().await? {
            for place in page {
                let problem = match place {
                    // An illegal record leaves a state that is good enough to be looked at, though not to go on from.
                    Place::Record(record) => match state.apply(&record) {
                        Ok(()) => continue,
                        Err(illegal) => illegal.to_string(),
                    },
                    Place::Unreadable { problem, .. } => problem,
                };
                self.problems.push(format!("what follows record {} is not shown: {problem}", state.head));
                break 'pages;
            }
        }
        self.state = Some(state);
        Ok(())
    }

    /// The word for where it stands.
    #[must_use]
    pub fn status(&self) -> &'static str {
        status(&self.info)
    }

    /// Calls that wait for the answer about another call of the same effect: the step of each, and the step that is asked about.
    #[must_use]
    pub fn held(&self) -> Vec<(StepNo, StepNo)> {
        let held = self.state.iter().flat_map(RunState::held_calls);
        held.map(|(held, behind)| (held.step, behind.step)).collect()
    }

    /// The open questions.
    #[must_use]
    pub fn questions(&self) -> Vec<Open> {
        let Some(state) = &self.state else { return Vec::new() };
        state
            .questions()
            .map(|(branch, question)| Open {
                step: branch.and_then(|id| state.branches.get(&id)).map(|branch| branch.step),
                about: question.about,
                text: question.text.clone(),
            })
            .collect()
    }
}

impl Open {
    /// The commands that answer it.
    #[must_use]
    pub fn answers(&self, run: &str) -> Vec<String> {
        let step = self.step.map(|step| format!(" {step}")).unwrap_or_default();
        answers(self.about).iter().map(|answer| format!("loopforge resolve {run}{step} {answer}")).collect()
    }

    /// Lines that say how to answer, to stand under the question.
    #[must_use]
    pub fn advice(&self, run: &str) -> String {
        format!("  answer with: {}", self.answers(run).join("\n           or: "))
    }
}

/// What can be answered to a question.
#[must_use]
pub const fn answers(about: About) -> &'static [&'static str] {
    match about {
        About::UnknownEffect => &["--happened", "--not", "--abort"],
        About::Failure => &["--continue", "--skip", "--abort"],
        About::Limit | About::Loop => &["--continue", "--abort"],
        About::Information => &["--tell TEXT", "--abort"],
    }
}

/// The word for where a run stands. `running` needs an owner: without one, the run was `interrupted`.
#[must_use]
pub fn status(info: &RunInfo) -> &'static str {
    match info.status {
        RunStatus::Running if info.owner.is_none() => "interrupted",
        status => status.name(),
    }
}

/// How a run ended; none when it hasn't.
///
/// # Errors
/// The store can't be read at all.
pub async fn ending(store: &dyn Store, info: &RunInfo) -> Result<Option<RunEnded>, CliError> {
    /// Notices come after the end; there are a few per hook.
    const LAST: u64 = 200;
    if !info.status.is_final() {
        return Ok(None);
    }
    let mut ended = None;
    let mut archive = Archive::new(store, info.id, Seq(info.head.0.saturating_sub(LAST)), info.head);
    while let Some(page) = archive.next().await? {
        for place in page {
            if let Place::Record(record) = place
                && let Event::RunEnded(event) = record.event
            {
                ended = Some(event);
            }
        }
    }
    Ok(ended)
}

/// A whole value. A part that is missing or damaged is named in its place; the sentences say which.
///
/// # Errors
/// The store can't be read at all.
pub async fn open(store: &dyn Store, payload: &Payload) -> Result<(Json, Vec<String>), CliError> {
    let mut blobs = BlobCache::default();
    let mut problems = Vec::new();
    let mut readable = payload.clone();
    let mut kept = Vec::new();
    for hole in std::mem::take(&mut readable.holes) {
        match store.blob(&hole.blob).await {
            Ok(bytes) => {
                blobs.insert(hole.blob, &bytes);
                kept.push(hole);
            }
            Err(StoreError::Corrupt(problem)) => {
                if let Some(place) = readable.inline.pointer_mut(&hole.at) {
                    *place = Json::String(format!("({problem})"));
                }
                problems.push(problem);
            }
            Err(error) => return Err(error.into()),
        }
    }
    readable.holes = kept;
    let value = readable.open(&blobs).map_err(|missing| match missing {
        NotLoaded::Blob(blob) => StoreError::Corrupt(format!("blob {} can't be read", blob.hash)),
        NotLoaded::State(_) | NotLoaded::WholeState => StoreError::Corrupt(missing.to_string()),
    })?;
    Ok((value, problems))
}

/// A value at a glance, without loading its large parts.
#[must_use]
pub fn glance(payload: &Payload, width: usize) -> String {
    if let [hole] = payload.holes.as_slice()
        && hole.at.is_empty()
    {
        return format!("({})", crate::text::bytes(hole.blob.size));
    }
    let mut value = payload.inline.clone();
    for hole in &payload.holes {
        if let Some(place) = value.pointer_mut(&hole.at) {
            *place = Json::String(format!("({})", crate::text::bytes(hole.blob.size)));
        }
    }
    crate::text::short(&value, width)
}

/// The shortest ends of the ids of `runs` that name each of them, at least six characters; all of one length.
#[must_use]
pub fn ends(runs: &[RunInfo]) -> usize {
    const SHORTEST: usize = 6;
    let ids: Vec<String> = runs.iter().map(|run| run.id.to_string()).collect();
    (SHORTEST..32)
        .find(|length| {
            let mut ends: Vec<&str> = ids.iter().map(|id| &id[id.len() - length..]).collect();
            ends.sort_unstable();
            ends.windows(2).all(|pair| pair[0] != pair[1])
        })
        .unwrap_or(32)
}
