//! The models of a task, ready to be asked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopforge_core::model::{ErrorKind, ModelError, Request};
use loopforge_core::task::{ModelSpec, Task};
use loopforge_models::{Answer, CallContext, Description, Exchange, Model, Setup};

use crate::gateway::Registry;

/// The models of a task in the order in which they are asked. Empty for a task that needs none.
#[derive(Default)]
pub struct Models {
    chain: Vec<Arc<dyn Model>>,
    problems: Vec<String>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.chain.iter().map(|model| &model.describe().name)).finish()
    }
}

impl Models {
    /// Sets the models of a task up. Nothing is sent.
    ///
    /// A model that can't be set up is no error here, so that runs can be looked at and answered without its key: see
    /// [`Self::problems`]. Asked all the same, it says what is wrong, and the run pauses.
    #[must_use]
    pub fn build(task: &Task, registry: &Registry, base: &Path) -> Self {
        let mut models = Self::default();
        for (position, name) in task.model.iter().flat_map(ModelSpec::chain).enumerate() {
            let Some(spec) = &task.model else { break };
            let model = match registry.model(name) {
                Some(own) => Ok(Arc::clone(own)),
                None => loopforge_models::build(&setup(name, spec, position == 0), base),
            };
            models.chain.push(model.unwrap_or_else(|error| {
                models.problems.push(error.to_string());
                Arc::new(Unset::new(name, error.to_string()))
            }));
        }
        models
    }

    /// What keeps models from being asked, a sentence each with the remedy.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The model at a position of the chain; the last one for all after it.
    #[must_use]
    pub fn at(&self, position: u32) -> Option<&Arc<dyn Model>> {
        self.chain.get(position as usize).or(self.chain.last())
    }

    /// The models, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<dyn Model>> {
        self.chain.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> u32 {
        u32::try_from(self.chain.len()).unwrap_or(u32::MAX)
    }

    /// Whether the task needs no model.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }
}

/// The address and key of the task belong to its first model, and to those of the same provider.
fn setup(name: &str, spec: &ModelSpec, first: bool) -> Setup {
    let provider = |name: &str| name.split('/').next().map(str::to_owned);
    let own = first || provider(name) == provider(&spec.name);
    Setup {
        base_url: spec.base_url.clone().filter(|_| own),
        api_key_env: spec.api_key_env.clone().filter(|_| own),
        api: spec.api.filter(|_| own),
        headers: if own { spec.headers.clone() } else { Default::default() },
        body: if own { spec.body.clone().into_iter().collect() } else { Default::default() },
        context_window: spec.context_window.filter(|_| first),
        ..Setup::named(name)
    }
}

/// A model that can't be asked as things are.
#[derive(Debug)]
struct Unset {
    description: Description,
    problem: String,
}

impl Unset {
    fn new(name: &str, problem: String) -> Self {
        let (provider, model) = name.split_once('/').unwrap_or((name, ""));
        let description = Description {
            name: name.to_owned(),
            provider: provider.to_owned(),
            model: model.to_owned(),
            context_window: None,
            max_output_tokens: None,
            address: String::new(),
        };
        Self { description, problem }
    }
}

#[async_trait]
impl Model for Unset {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn call(&self, _request: &Request, _context: &CallContext) -> Answer {
        let error = ModelError::new(ErrorKind::NotConfigured, self.problem.clone());
        Answer { result: Err(error), exchange: Exchange::default() }
    }
}
