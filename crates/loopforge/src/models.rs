//! The models of a task, ready to be asked.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use loopforge_core::task::{ModelSpec, Task};
use loopforge_models::Model;

use crate::error::EngineError;
use crate::gateway::Registry;

/// The models of a task in the order in which they are asked. Empty for a task that needs none.
#[derive(Default)]
pub struct Models {
    chain: Vec<Arc<dyn Model>>,
}

impl fmt::Debug for Models {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.chain.iter().map(|model| &model.describe().name)).finish()
    }
}

impl Models {
    /// Sets the models of a task up. Nothing is sent.
    ///
    /// # Errors
    /// [`EngineError::Invalid`], naming the model and what is wrong with it.
    pub fn build(task: &Task, registry: &Registry, base: &Path) -> Result<Self, EngineError> {
        let Some(spec) = &task.model else { return Ok(Self::default()) };
        let chain = spec.chain().map(|name| one(name, spec, registry, base)).collect::<Result<_, _>>()?;
        Ok(Self { chain })
    }

    /// The model at a position of the chain; the last one for all after it.
    #[must_use]
    pub fn at(&self, position: u32) -> Option<&Arc<dyn Model>> {
        self.chain.get(position as usize).or(self.chain.last())
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

fn one(name: &str, _spec: &ModelSpec, registry: &Registry, _base: &Path) -> Result<Arc<dyn Model>, EngineError> {
    if let Some(own) = registry.model(name) {
        return Ok(Arc::clone(own));
    }
    Err(EngineError::Invalid(format!("model `{name}`: there is no such provider")))
}
