//! Opening runs: new ones, and those that a crash, a person or a limit interrupted.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopforge_core::checkpoint;
use loopforge_core::expression::Values;
use loopforge_core::id::{RecordId, RunId, Seq};
use loopforge_core::json::{self, Json};
use loopforge_core::model::Amount;
use loopforge_core::payload::Payload;
use loopforge_core::record::{Event, FORMAT, LimitsRaised, Record, RunResumed, RunStarted};
use loopforge_core::run::{Draft, RunState};
use loopforge_core::task;
use loopforge_store::dispatch::Polling;
use loopforge_store::{Dispatch, Lease, NewRun, Store, StoreError, Worker};
use uuid::Uuid;

use crate::driver::{Mail, Run, Watcher};
use crate::error::EngineError;
use crate::gateway::Registry;
use crate::heart::Heart;
use crate::killpoint::{self, When};
use crate::life::{self, Life};
use crate::prepare::Prepared;
use crate::{VERSION, clock};

/// Records that are read at once when a run is folded.
const PAGE: usize = 1000;

/// How often a worker looks for runs that are due, where nobody tells it of them.
const POLL: Duration = Duration::from_secs(1);

/// Opens runs in one store, as one worker.
#[derive(Clone)]
pub struct Engine {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) worker: Worker,
    pub(crate) options: Options,
    pub(crate) registry: Registry,
    pub(crate) mail: Arc<Mail>,
    life: Arc<Mutex<Option<Life>>>,
    pub(crate) heart: Heart,
    pub(crate) dispatch: Arc<dyn Dispatch>,
}

/// Habits of an engine.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where the folders of runs go. An absolute path.
    pub workspaces: PathBuf,
    /// The folder where processes of this machine show that they are alive; `None` where none is shared. With it, a run whose owner was
    /// killed can be taken up at once; without it, when the lease has lapsed.
    pub lives: Option<PathBuf>,
    /// How long a lease lasts without renewal (R45).
    pub lease_ttl: Duration,
    /// How long a store that fails is waited for before a run is given up; it can be resumed then.
    pub store_patience: Duration,
    /// The wait before each time that a status query without an answer is made again; after the last one a person is asked.
    pub ask_again: Vec<Duration>,
    /// Blobs kept in memory, in bytes.
    pub blob_memory: u64,
    /// What becomes of runs that others could take up.
    pub company: Company,
    /// Whether a run stops before a lease that can't be renewed ends: needed where another machine may take it up then. Without it a store
    /// that fails is waited for as long as `store_patience` says.
    pub stop_before_lapse: bool,
}

/// Whether others could go on with a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Company {
    /// Somebody looks after each run: it stays with this process while it waits, and is paused when the process is interrupted.
    Alone,
    /// Workers share the runs of the store. One that waits for longer than this is left to whoever claims it then, and so is one whose
    /// worker is interrupted.
    Shared {
        /// How long a run may wait and stay.
        longest_wait: Duration,
    },
}

impl Options {
    /// The usual habits.
    #[must_use]
    pub fn new(workspaces: PathBuf) -> Self {
        Self {
            workspaces,
            lives: None,
            lease_ttl: Duration::from_secs(60),
            store_patience: Duration::from_secs(300),
            ask_again: vec![Duration::from_secs(2), Duration::from_secs(10)],
            blob_memory: 64 << 20,
            company: Company::Alone,
            stop_before_lapse: false,
        }
    }
}

/// A new run, before it is stored.
struct Beginning {
    new: NewRun,
    state: RunState,
    values: Values,
    workspace: PathBuf,
}

/// What a new run is given.
#[derive(Default)]
pub struct Start {
    /// Inputs by name, as [`crate::inputs`] reads them.
    pub inputs: BTreeMap<String, Json>,
    /// Sees every record once it is archived.
    pub watcher: Option<Watcher>,
}

/// How a run is taken up again.
#[derive(Default)]
pub struct Resume {
    /// A higher number of steps.
    pub max_steps: Option<u64>,
    /// A longer time since the run's start.
    pub max_duration: Option<Duration>,
    /// More tokens and money, on top of what the run may use.
    pub more: Amount,
    /// The task as it is now, if that matters. The run goes on with the task that it has, unless this one is another and is accepted.
    pub task: Option<TaskText>,
    /// Who accepts another task and another version of LoopForge, where they differ; with `None` a difference is refused.
    pub accept: Option<String>,
    /// Sees every record once it is archived.
    pub watcher: Option<Watcher>,
}

/// The text of a task, and where it comes from, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskText {
    /// A file, say.
    pub origin: String,
    /// Byte for byte.
    pub source: Vec<u8>,
}

impl TaskText {
    /// Reads a task file, or as much of it as shows that it is too large to be one.
    ///
    /// # Errors
    /// [`EngineError::Io`].
    pub fn of_file(path: &Path) -> Result<Self, EngineError> {
        let origin = path.display().to_string();
        let source = crate::inputs::read_at_most(path, task::MAX_TASK_BYTES as u64)
            .map_err(|source| EngineError::Io { what: format!("the task file `{origin}` can't be read"), source })?;
        Ok(Self { origin, source })
    }
}

impl Engine {
    /// An engine on `store`. Each process has a worker id of its own, drawn now.
    #[must_use]
    pub fn new(store: Arc<dyn Store>, options: Options) -> Self {
        let label = format!("process {}", std::process::id());
        let worker = Worker { id: Uuid::now_v7().simple().to_string(), label, lease_ttl: options.lease_ttl };
        Self {
            store,
            worker,
            options,
            registry: Registry::default(),
            mail: Arc::default(),
            life: Arc::default(),
            heart: Heart::default(),
            dispatch: Arc::new(Polling::every(POLL)),
        }
    }

    /// Adds tools that task files can name as `builtin`.
    #[must_use]
    pub fn with_tools(mut self, registry: Registry) -> Self {
        self.registry = registry;
        self
    }

    /// Tells workers of runs that are due, and is told of them.
    #[must_use]
    pub fn with_dispatch(mut self, dispatch: Arc<dyn Dispatch>) -> Self {
        self.dispatch = dispatch;
        self
    }

    /// The store.
    #[must_use]
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// The tools that a program added.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Creates a run. After `Ok` it is in the archive and survives anything; [`Run::drive`] carries it out.
    ///
    /// # Errors
    /// [`EngineError::Invalid`] when a model of the task can't be asked as things are (a key is missing), [`EngineError::Io`] when its
    /// folder can't be made, [`EngineError::Store`]. Nothing was created.
    pub async fn start(&self, prepared: Arc<Prepared>, start: Start) -> Result<Run, EngineError> {
        if let [problem, ..] = prepared.models.problems() {
            return Err(EngineError::Invalid(problem.clone()));
        }
        let Beginning { new, state, values, workspace } = self.begin(&prepared, start.inputs)?;
        let records = new.records.clone();
        self.live();
        killpoint::at_append(Seq(1), When::Before);
        let lease = self.store.create_run(new, &self.worker).await?;
        killpoint::at_append(Seq(1), When::After);
        let mut run = Run::new(self, prepared, state, values, lease, workspace, start.watcher);
        run.show(&records);
        Ok(run)
    }

    /// Creates a run for the workers of the store, and returns its id. After `Ok` it is in the archive and survives anything.
    ///
    /// # Errors
    /// As [`Self::start`].
    pub async fn queue(&self, prepared: &Prepared, inputs: BTreeMap<String, Json>) -> Result<RunId, EngineError> {
        let Beginning { new, .. } = self.begin(prepared, inputs)?;
        let id = new.id;
        self.store.queue_run(new).await?;
        self.dispatch.wake(id).await;
        Ok(id)
    }

    /// What a new run begins with.
    fn begin(&self, prepared: &Prepared, inputs: BTreeMap<String, Json>) -> Result<Beginning, EngineError> {
        let id = RunId(Uuid::now_v7());
        let workspace = self.options.workspaces.join(id.to_string());
        std::fs::create_dir_all(&workspace).map_err(|source| EngineError::Io {
            what: format!("the run's folder `{}` can't be made", workspace.display()),
            source,
        })?;
        let mut blobs = Vec::new();
        let inputs: BTreeMap<String, Payload> = inputs
            .into_iter()
            .map(|(name, mut value)| {
                json::clean(&mut value);
                (name, Payload::stow(value, &mut blobs))
            })
            .collect();
        let at = clock::now();
        let event = Event::RunStarted(RunStarted {
            format: FORMAT,
            task: prepared.hash,
            name: prepared.task.name.clone(),
            goal: prepared.task.goal.clone(),
            version: VERSION.to_owned(),
            inputs: inputs.clone(),
            file: prepared.file.as_ref().map(|file| file.display().to_string()),
        });
        let record = Record { seq: Seq(1), id: RecordId(Uuid::now_v7()), at, event };
        let mut state = RunState::new(id, &prepared.task);
        state.apply(&record).map_err(|source| EngineError::Archive { run: id, source })?;
        let mut values = Values::new(inputs, true);
        for blob in &blobs {
            values.blobs.insert(blob.reference, &blob.bytes);
        }
        let new = NewRun {
            id,
            name: prepared.task.name.clone(),
            task: prepared.source.clone(),
            workspace: workspace.display().to_string(),
            base: prepared.base.display().to_string(),
            at,
            records: vec![record.clone()],
            blobs,
        };
        Ok(Beginning { new, state, values, workspace })
    }

    /// Takes up a run that was claimed with others. Its lease is given up when that fails.
    pub(crate) async fn adopt(&self, lease: Lease) -> Result<Run, EngineError> {
        let run = lease.run;
        let lease = self.settle_calls(lease).await?;
        match self.go_on(run, lease.clone(), Resume::default()).await {
            Ok(run) => Ok(run),
            Err(error) => {
                let _ = self.store.release_lease(&lease).await;
                Err(error)
            }
        }
    }

    /// Takes a run up again: the newest checkpoint, and the records after it.
    ///
    /// # Errors
    /// [`StoreError::Held`] says who has it and until when; nothing was changed. [`EngineError::Ended`] when there is nothing left to
    /// do. [`EngineError::Archive`], [`StoreError::Corrupt`], [`StoreError::Newer`]: it can't be read; nothing was changed.
    /// [`EngineError::Changed`]: the task or the version of LoopForge is another, and nobody accepted that, or it can't be accepted;
    /// nothing was changed.
    pub async fn resume(&self, id: RunId, resume: Resume) -> Result<Run, EngineError> {
        let lease = self.claim(id).await?;
        match self.go_on(id, lease.clone(), resume).await {
            Ok(run) => Ok(run),
            Err(error) => {
                // The first error tells what is wrong; a lease that can't be given up lapses by itself.
                let _ = self.store.release_lease(&lease).await;
                Err(error)
            }
        }
    }

    /// Claims a run. A lease whose worker died on this machine doesn't hold anybody up, and what workers before started there has ended
    /// when this returns.
    pub(crate) async fn claim(&self, id: RunId) -> Result<Lease, EngineError> {
        self.live();
        match self.store.claim_run(id, &self.worker).await {
            Err(StoreError::Held { run, owner, worker_id, until }) => {
                let dead = match &self.options.lives {
                    Some(lives) => life::is_dead(lives, &worker_id).await.then_some(lives),
                    None => None,
                };
                let Some(lives) = dead else {
                    return Err(StoreError::Held { run, owner, worker_id, until }.into());
                };
                self.store.void_lease(run, &worker_id).await?;
                let lease = self.settle_calls(self.store.claim_run(id, &self.worker).await?).await?;
                life::forget(lives, &worker_id);
                Ok(lease)
            }
            claimed => self.settle_calls(claimed?).await,
        }
    }

    /// Ends what workers of this machine that lost the run still do for it: nobody may ask whether it happened before.
    async fn settle_calls(&self, lease: Lease) -> Result<Lease, EngineError> {
        let Some(lives) = self.options.lives.as_ref().filter(|_| !lease.before.is_empty()) else { return Ok(lease) };
        for worker in &lease.before {
            if !life::end_calls(lives, worker, lease.run).await {
                // Given up without an append, so that the next one knows of them too.
                let _ = self.store.release_lease(&lease).await;
                return Err(EngineError::CallsAtWork(lease.run));
            }
        }
        // It took its time.
        match self.store.renew_lease(&lease, self.options.lease_ttl).await {
            Ok(_) => Ok(lease),
            Err(StoreError::LeaseLost(run)) => Err(EngineError::Fenced(run)),
            Err(error) => Err(error.into()),
        }
    }

    /// Shows other processes of this machine that this one is alive. Without it they wait until its leases lapse.
    pub(crate) fn live(&self) {
        let Some(lives) = &self.options.lives else { return };
        let mut life = self.life.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if life.is_none() {
            match Life::begin(lives, &self.worker.id) {
                Ok(begun) => *life = Some(begun),
                Err(error) => tracing::warn!("`{}` can't hold a sign of life: {error}", lives.display()),
            }
        }
    }

    /// Folds a claimed run, so that it can be driven. Its archive isn't changed.
    pub(crate) async fn reopen(
        &self,
        id: RunId,
        lease: Lease,
        watcher: Option<Watcher>,
    ) -> Result<(Run, Option<Seq>), EngineError> {
        let info = self.store.run(id).await?;
        if info.status.is_final() {
            return Err(EngineError::Ended { run: id, status: info.status });
        }
        let source = self.store.task(info.task).await?;
        let prepared = Prepared::from_store(source, &PathBuf::from(&info.base), &self.registry)?;
        let loaded = self.load(id, &prepared).await?;
        if loaded.state.head != lease.head {
            let problem = format!("{id}: the archive ends at {}, its head says {}", loaded.state.head, lease.head);
            return Err(StoreError::Corrupt(problem).into());
        }
        if loaded.state.ended.is_some() {
            return Err(EngineError::Ended { run: id, status: loaded.state.status() });
        }
        let values = Values::new(self.inputs(id).await?, false);
        let workspace = PathBuf::from(&info.workspace);
        std::fs::create_dir_all(&workspace).map_err(|source| EngineError::Io {
            what: format!("the run's folder `{}` can't be made", workspace.display()),
            source,
        })?;
        let mut run = Run::new(self, prepared, loaded.state, values, lease, workspace, watcher);
        run.owe(loaded.records);
        Ok((run, loaded.checkpoint))
    }

    /// Opens a claimed run and says in its archive that it goes on.
    async fn go_on(&self, id: RunId, lease: Lease, resume: Resume) -> Result<Run, EngineError> {
        let (mut run, checkpoint) = self.reopen(id, lease, resume.watcher).await?;
        if let Some(max_steps) = resume.max_steps.filter(|max| *max <= run.state().last_step.0) {
            let used = run.state().last_step;
            let problem =
                format!("{used} steps have been used already: `max_steps` must be more than that, not {max_steps}");
            return Err(EngineError::Invalid(problem));
        }
        let accepted = self.accept(&mut run, resume.task, resume.accept).await?;
        let mut drafts = vec![self.resumed(checkpoint)];
        drafts.extend(accepted);
        let budget = match resume.more {
            Amount::NOTHING => None,
            more => Some(crate::tell::raise(&run, more, &self.worker.label)?),
        };
        if resume.max_steps.is_some() || resume.max_duration.is_some() || budget.is_some() {
            drafts.push(
                Event::LimitsRaised(LimitsRaised {
                    max_steps: resume.max_steps,
                    max_duration_ms: resume
                        .max_duration
                        .map(|span| u64::try_from(span.as_millis()).unwrap_or(u64::MAX)),
                    tokens: budget.as_ref().and_then(|raised| raised.tokens),
                    cost: budget.as_ref().and_then(|raised| raised.cost),
                    by: self.worker.label.clone(),
                })
                .into(),
            );
        }
        run.record(drafts)?;
        run.flush().await?;
        Ok(run)
    }

    /// The record that a new owner begins with.
    pub(crate) fn resumed(&self, checkpoint: Option<Seq>) -> Draft {
        let (worker, version) = (self.worker.label.clone(), VERSION.to_owned());
        Event::RunResumed(RunResumed { worker, version, checkpoint }).into()
    }

    /// Folds a run's records, from the newest checkpoint that can be used.
    ///
    /// # Errors
    /// As [`Self::resume`].
    pub async fn load(&self, id: RunId, prepared: &Prepared) -> Result<Loaded, EngineError> {
        let kept = self.store.load_checkpoint(id).await?;
        let why = match kept.map(|kept| (kept.seq, checkpoint::read(&kept.bytes))) {
            // It may be of the task before: the record that changed it comes then.
            Some((seq, Ok(state))) if state.run == id && state.head == seq => {
                let loaded = self.fold(id, state, Some(seq)).await?;
                if loaded.state.task == prepared.hash {
                    return Ok(loaded);
                }
                Some((seq, "the checkpoint belongs to something else".to_owned()))
            }
            Some((seq, Ok(_))) => Some((seq, "the checkpoint belongs to something else".to_owned())),
            Some((seq, Err(unusable))) => Some((seq, unusable.to_string())),
            None => None,
        };
        if let Some((seq, why)) = why {
            tracing::warn!(run = %id, %seq, "{why}; the archive is read from its first record");
        }
        let loaded = self.fold(id, RunState::new(id, &prepared.task), None).await?;
        if loaded.state.task != prepared.hash {
            let problem = format!("{id}: its records have task {}, its row has {}", loaded.state.task, prepared.hash);
            return Err(StoreError::Corrupt(problem).into());
        }
        Ok(loaded)
    }

    /// Applies the records after `state`.
    async fn fold(&self, id: RunId, mut state: RunState, checkpoint: Option<Seq>) -> Result<Loaded, EngineError> {
        let mut records = Vec::new();
        loop {
            let page = self.store.records(id, state.head, PAGE).await?;
            let full = page.len() == PAGE;
            for record in page {
                state.apply(&record).map_err(|source| EngineError::Archive { run: id, source })?;
                // Only records that a notice may be owed for are kept.
                if crate::hooks::may_owe(&record.event) && record.seq > state.told {
                    records.push(record);
                }
            }
            if !full {
                return Ok(Loaded { state, checkpoint, records });
            }
        }
    }

    async fn inputs(&self, id: RunId) -> Result<BTreeMap<String, Payload>, EngineError> {
        Ok(self.started(id).await?.inputs)
    }

    /// What a run was started with.
    ///
    /// # Errors
    /// [`EngineError::Store`]: there is no such run, or its first record can't be read.
    pub async fn started(&self, id: RunId) -> Result<RunStarted, EngineError> {
        let first = self.store.records(id, Seq(0), 1).await?;
        match first.into_iter().next().map(|record| record.event) {
            Some(Event::RunStarted(started)) => Ok(started),
            Some(_) => Err(StoreError::Corrupt(format!("{id}: its first record is not `run_started`")).into()),
            None => Err(StoreError::NoRun(id).into()),
        }
    }
}

/// A run as its archive tells it.
#[derive(Debug)]
pub struct Loaded {
    /// Its state.
    pub state: RunState,
    /// The checkpoint from which it was folded.
    pub checkpoint: Option<Seq>,
    /// Records for which notices may be owed.
    pub(crate) records: Vec<Record>,
}
