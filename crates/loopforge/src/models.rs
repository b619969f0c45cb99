//! The models of a task, ready to be asked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopforge_core::model::{ErrorKind, ModelError, Price, Request};
use loopforge_core::record::Purpose;
use loopforge_core::task::{Budget, ModelPrice, ModelSpec, Task};
use loopforge_models::{Answer, CallContext, Description, Exchange, Model, Prices, Setup};

use crate::gateway::Registry;

/// The models of a task in the order in which they are asked. Empty for a task that needs none.
#[derive(Default)]
pub struct Models {
    chain: Vec<Arc<dyn Model>>,
    /// The task's `summarizer`. It comes after the chain where a cheaper model is wanted.
    summarizer: Option<Arc<dyn Model>>,
    /// What they cost, in the same order, where that is known.
    prices: Vec<Option<Price>>,
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
        let Some(spec) = &task.model else { return models };
        for (position, name) in spec.chain().enumerate() {
            let model = models.one(name, spec, position == 0, registry, base);
            models.chain.push(model);
        }
        if let Some(name) = &spec.summarizer {
            models.summarizer = Some(models.one(name, spec, false, registry, base));
        }
        models.find_prices(task);
        models
    }

    fn one(&mut self, name: &str, spec: &ModelSpec, first: bool, registry: &Registry, base: &Path) -> Arc<dyn Model> {
        let model = match registry.model(name) {
            Some(own) => Ok(Arc::clone(own)),
            None => loopforge_models::build(&setup(name, spec, first), base),
        };
        model.unwrap_or_else(|error| {
            self.problems.push(error.to_string());
            Arc::new(Unset::new(name, error.to_string()))
        })
    }

    /// The position of the model that is asked for a purpose: a judge is the `summarizer` where there is one, and then as all.
    #[must_use]
    pub fn position_for(&self, purpose: Purpose, position: u32) -> u32 {
        match (purpose, self.summarizer.is_some(), position) {
            (Purpose::Judge, true, 0) => self.len(),
            (Purpose::Judge, true, _) => position - 1,
            _ => position,
        }
    }

    /// How many models can be asked for a purpose.
    #[must_use]
    pub fn count_for(&self, purpose: Purpose) -> u32 {
        let judge = purpose == Purpose::Judge && self.summarizer.is_some();
        self.len() + u32::from(judge)
    }

    /// What the models cost: as the task says, else as is known. A budget of money can't be kept to with a model whose price nobody knows.
    fn find_prices(&mut self, task: &Task) {
        let known = Prices::known();
        let budget = task.budget.as_ref();
        let names = task.model.iter().flat_map(|spec| spec.chain().chain(spec.summarizer.as_deref()));
        for name in names {
            let own = budget.and_then(|budget| budget.prices.get(name)).map(ModelPrice::price);
            let price = own.or_else(|| known.of(name));
            if price.is_none() && budget.is_some_and(Budget::limits_money) {
                self.problems.push(format!(
                    "nobody knows what `{name}` costs, so a budget of money can't be kept to: give its price per million tokens, \
                     `budget: {{ prices: {{ {name}: {{ input: 0.25, output: 2 }} }} }}`, or limit `tokens` instead"
                ));
            }
            self.prices.push(price);
        }
    }

    /// What the model at a position costs, where that is known.
    #[must_use]
    pub fn price(&self, position: u32) -> Option<Price> {
        let last = self.prices.len().checked_sub(1)?;
        self.prices[(position as usize).min(last)]
    }

    /// The position of a model that costs less than the one at `position`: the next one of the chain that does, else the `summarizer` if
    /// it isn't known to cost more.
    #[must_use]
    pub fn cheaper_than(&self, position: u32) -> Option<u32> {
        // Three tokens are read for each that is written, about.
        let weight = |price: Price| price.most(300_000, 100_000);
        let now = self.price(position).map(weight);
        let next = position.saturating_add(1)..self.len();
        let cheaper = |at: &u32| self.price(*at).map(weight).zip(now).is_some_and(|(other, now)| other < now);
        let summarizer = self.len();
        let found = next.clone().find(cheaper);
        found.or_else(|| {
            let known_as_dearer = self.price(summarizer).map(weight).zip(now).is_some_and(|(other, now)| other >= now);
            (self.summarizer.is_some() && position < summarizer && !known_as_dearer).then_some(summarizer)
        })
    }

    /// What keeps models from being asked, a sentence each with the remedy.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// The model at a position of the chain; after it the `summarizer`, or where there is none, the last one.
    #[must_use]
    pub fn at(&self, position: u32) -> Option<&Arc<dyn Model>> {
        match &self.summarizer {
            Some(summarizer) if position >= self.len() => Some(summarizer),
            _ => self.chain.get(position as usize).or(self.chain.last()),
        }
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
