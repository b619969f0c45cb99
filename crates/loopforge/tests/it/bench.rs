//! A task, a store, and tools whose behaviour a test writes down.

use std::fmt;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use loopforge::gateway::Registry;
use loopforge::{Company, Engine, EngineError, Options, Prepared, Report, Resume, Run, Start};
use loopforge_core::expression::StateValue;
use loopforge_core::id::{RunId, Seq, StepNo};
use loopforge_core::json::Json;
use loopforge_core::payload::{BlobCache, Payload};
use loopforge_core::record::{
    ActionFinished, ActionRefused, Answer, AttemptFailed, Event, Record, RunEnded, SubgoalOutcome,
};
use loopforge_core::tool::{Contract, ToolResult};
use loopforge_store::Store;
use loopforge_store::memory::MemoryStore;
use loopforge_tools::{CallContext, EffectStatus, Tool};
use serde_json::json;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

use crate::laws;

type Answering = Pin<Box<dyn Future<Output = ToolResult> + Send>>;
type Telling = Arc<dyn Fn(&Json) -> EffectStatus + Send + Sync>;

/// A call as the tool saw it.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) arguments: Json,
    pub(crate) token: Option<String>,
    pub(crate) at: Instant,
}

/// What a script is given.
pub(crate) struct Asked {
    /// 1 for the first call of this tool.
    pub(crate) number: usize,
    pub(crate) arguments: Json,
    pub(crate) cancel: CancellationToken,
}

/// A tool that does as a test says, and remembers its calls.
#[derive(Clone)]
pub(crate) struct Scripted {
    contract: Contract,
    script: Arc<dyn Fn(Asked) -> Answering + Send + Sync>,
    status: Option<Telling>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Scripted {
    fn new<F: Future<Output = ToolResult> + Send + 'static>(
        contract: Contract,
        script: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Self {
        Self { contract, script: Arc::new(move |asked| Box::pin(script(asked))), status: None, seen: Arc::default() }
    }

    pub(crate) fn read<F: Future<Output = ToolResult> + Send + 'static>(
        script: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::new(Contract::read("reads", json!({ "type": "object" })), script)
    }

    pub(crate) fn write<F: Future<Output = ToolResult> + Send + 'static>(
        script: impl Fn(Asked) -> F + Send + Sync + 'static,
    ) -> Self {
        Self::new(Contract::write("writes", json!({ "type": "object" })), script)
    }

    /// A read that answers with its arguments.
    pub(crate) fn echo() -> Self {
        Self::read(|asked| async { ToolResult::success(asked.arguments) })
    }

    /// A write that answers with its arguments.
    pub(crate) fn write_echo() -> Self {
        Self::write(|asked| async { ToolResult::success(asked.arguments) })
    }

    pub(crate) fn with_status(mut self, status: impl Fn(&Json) -> EffectStatus + Send + Sync + 'static) -> Self {
        self.status = Some(Arc::new(status));
        self
    }

    pub(crate) fn calls(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The argument `name` of each call, in order.
    pub(crate) fn called_with(&self, name: &str) -> Vec<Json> {
        self.calls().into_iter().map(|call| call.arguments[name].clone()).collect()
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scripted")
    }
}

#[async_trait]
impl Tool for Scripted {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        let asked = {
            let mut seen = self.seen.lock().unwrap();
            seen.push(Seen {
                arguments: arguments.clone(),
                token: context.step_token.as_ref().map(ToString::to_string),
                at: Instant::now(),
            });
            Asked { number: seen.len(), arguments, cancel: context.cancel.clone() }
        };
        (self.script)(asked).await
    }

    fn can_tell(&self) -> bool {
        self.status.is_some()
    }

    async fn status(&self, arguments: Json, _context: &CallContext) -> EffectStatus {
        match &self.status {
            Some(status) => status(&arguments),
            None => EffectStatus::Unknown("not asked".to_owned()),
        }
    }
}

/// A task and what it runs on.
pub(crate) struct Bench {
    folder: TempDir,
    pub(crate) store: Arc<dyn Store>,
    registry: Registry,
    task: String,
    pub(crate) patience: Duration,
    pub(crate) lease_ttl: Duration,
}

impl Bench {
    /// A task without its name and goal, in a store in memory.
    pub(crate) fn new(task: &str) -> Self {
        Self::on(Arc::new(MemoryStore::new()), task)
    }

    pub(crate) fn on(store: Arc<dyn Store>, task: &str) -> Self {
        Self {
            folder: TempDir::new().unwrap(),
            store,
            registry: Registry::default(),
            task: format!("name: test\ngoal: Be tested.\n{task}"),
            patience: Duration::from_secs(60),
            lease_ttl: Duration::from_secs(60),
        }
    }

    /// Adds a tool under the name by which the task's `builtin` finds it.
    pub(crate) fn tool(mut self, name: &str, tool: &Scripted) -> Self {
        self.registry = self.registry.with(name, Arc::new(tool.clone()));
        self
    }

    /// Adds a model under the name by which the task finds it.
    pub(crate) fn model(mut self, name: &str, model: &crate::thinker::Thinker) -> Self {
        self.registry = self.registry.with_model(name, Arc::new(model.clone()));
        self
    }

    /// Adds any model under the name by which the task finds it.
    pub(crate) fn any_model(mut self, name: &str, model: Arc<dyn loopforge_models::Model>) -> Self {
        self.registry = self.registry.with_model(name, model);
        self
    }

    /// An engine with a worker id of its own, as another process would have.
    pub(crate) fn engine(&self) -> Engine {
        let mut options = Options::new(self.folder.path().join("runs"));
        options.store_patience = self.patience;
        options.lease_ttl = self.lease_ttl;
        options.ask_again = vec![Duration::from_millis(1); 2];
        Engine::new(Arc::clone(&self.store), options).with_tools(self.registry.clone())
    }

    /// The same for a worker that shares the runs of the store.
    pub(crate) fn shared_engine(&self, longest_wait: Duration) -> Engine {
        let mut options = Options::new(self.folder.path().join("runs"));
        options.store_patience = self.patience;
        options.company = Company::Shared { longest_wait };
        options.stop_before_lapse = true;
        Engine::new(Arc::clone(&self.store), options).with_tools(self.registry.clone())
    }

    pub(crate) fn prepared(&self) -> Arc<Prepared> {
        Prepared::from_source(self.task.clone().into_bytes(), "task.yaml", self.folder.path(), &self.registry)
            .unwrap_or_else(|error| panic!("{error}"))
    }

    pub(crate) async fn start(&self) -> Result<Run, EngineError> {
        let prepared = self.prepared();
        let inputs = loopforge::inputs::read(&prepared.task, self.folder.path(), "task.yaml", &[]).unwrap();
        self.engine().start(prepared, Start { inputs, ..Start::default() }).await
    }

    /// Starts a run and drives it as far as it goes.
    pub(crate) async fn run(&self) -> Story {
        let run = self.start().await.unwrap();
        self.drive(run).await
    }

    pub(crate) async fn resume(&self, id: RunId) -> Story {
        let run = self.engine().resume(id, Resume::default()).await.unwrap();
        self.drive(run).await
    }

    pub(crate) async fn drive(&self, run: Run) -> Story {
        let report = run.drive(CancellationToken::new()).await.unwrap();
        self.story(report).await
    }

    pub(crate) async fn answer(&self, story: &Story, answer: Answer) {
        let step = story.report.questions[0].step;
        self.engine().answer(story.report.run, step, answer, "a test").await.unwrap();
    }

    pub(crate) async fn story(&self, report: Report) -> Story {
        let records = self.store.records(report.run, Seq(0), usize::MAX).await.unwrap();
        assert_eq!(self.store.check().await.unwrap(), []);
        let state = self.store.state(report.run, None).await.unwrap();
        laws::check(report.run, &self.prepared().task, &records, &state);
        Story { report, records }
    }

    /// The only run of the store.
    pub(crate) async fn only_run(&self) -> RunId {
        self.store.runs(2).await.unwrap()[0].id
    }

    /// A state value as JSON; `null` when it isn't there.
    pub(crate) async fn state(&self, run: RunId, key: &str) -> Json {
        let value = self.store.state_value(run, key, None).await.unwrap();
        match value {
            None => Json::Null,
            Some(StateValue::Single(payload)) => self.open(&payload).await,
            Some(StateValue::Members(members)) => {
                let mut whole = Json::Null;
                for (name, payload) in members {
                    whole[name] = self.open(&payload).await;
                }
                whole
            }
        }
    }

    async fn open(&self, payload: &Payload) -> Json {
        let mut blobs = BlobCache::default();
        for hole in &payload.holes {
            blobs.insert(hole.blob, &self.store.blob(&hole.blob).await.unwrap());
        }
        payload.open(&blobs).unwrap()
    }
}

/// What a run came to.
#[derive(Debug)]
pub(crate) struct Story {
    pub(crate) report: Report,
    pub(crate) records: Vec<Record>,
}

impl Story {
    pub(crate) fn kinds(&self) -> Vec<&'static str> {
        self.records.iter().map(|record| record.event.kind()).collect()
    }

    pub(crate) fn count(&self, kind: &str) -> usize {
        self.kinds().into_iter().filter(|other| *other == kind).count()
    }

    pub(crate) fn finished(&self) -> Vec<&ActionFinished> {
        self.records
            .iter()
            .filter_map(|record| match &record.event {
                Event::ActionFinished(finished) => Some(finished),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn refused(&self) -> Vec<&ActionRefused> {
        self.records
            .iter()
            .filter_map(|record| match &record.event {
                Event::ActionRefused(refused) => Some(refused),
                _ => None,
            })
            .collect()
    }

    pub(crate) fn failed_tries(&self) -> Vec<&AttemptFailed> {
        self.records
            .iter()
            .filter_map(|record| match &record.event {
                Event::AttemptFailed(failed) => Some(failed),
                _ => None,
            })
            .collect()
    }

    /// How a subgoal ended, and why.
    pub(crate) fn subgoal(&self, id: &str) -> (SubgoalOutcome, &str) {
        self.records
            .iter()
            .find_map(|record| match &record.event {
                Event::SubgoalEnded(ended) if ended.subgoal == id => Some((ended.outcome, ended.reason.as_str())),
                _ => None,
            })
            .unwrap_or_else(|| panic!("`{id}` has not ended"))
    }

    pub(crate) fn end(&self) -> &RunEnded {
        match &self.records.iter().rev().find(|record| record.event.kind() == "run_ended").unwrap().event {
            Event::RunEnded(ended) => ended,
            _ => unreachable!(),
        }
    }

    pub(crate) fn step_of_question(&self) -> Option<StepNo> {
        self.report.questions[0].step
    }
}
