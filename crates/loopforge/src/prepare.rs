//! A task that was read, checked and whose tools are set up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopforge_core::id::ContentHash;
use loopforge_core::task::{self, Builtin, Catalog, Task};
use loopforge_tools::builtin::{self, BuiltinConfig};

use crate::error::EngineError;
use crate::gateway::{Registry, Toolbox};
use crate::inputs;
use crate::models::Models;

/// Built-ins that reach hosts, and only those that the task allows them.
const NETWORK_TOOLS: &[&str] = &["http_get", "http_request"];

/// A task that can be run.
#[derive(Debug)]
pub struct Prepared {
    /// The task.
    pub task: Arc<Task>,
    /// Its text, byte for byte.
    pub source: Vec<u8>,
    /// Names the text.
    pub hash: ContentHash,
    /// The folder of the task file, absolute.
    pub base: PathBuf,
    /// The task file, absolute, where it was read from one.
    pub file: Option<PathBuf>,
    /// What a planner's subgoals are checked against.
    pub catalog: Catalog,
    /// Its tools.
    pub toolbox: Toolbox,
    /// Its models.
    pub models: Models,
}

impl Prepared {
    /// Reads a task file from disk.
    ///
    /// # Errors
    /// [`EngineError::Io`], [`EngineError::Task`] with all mistakes, or the tool that can't be set up.
    pub fn from_file(path: &Path, registry: &Registry) -> Result<Arc<Self>, EngineError> {
        let origin = path.display().to_string();
        let io = |source| EngineError::Io { what: format!("the task file `{origin}` can't be read"), source };
        let source = inputs::read_at_most(path, task::MAX_TASK_BYTES as u64).map_err(io)?;
        if source.len() > task::MAX_TASK_BYTES {
            let size =
                std::fs::metadata(path).map_or(0, |metadata| usize::try_from(metadata.len()).unwrap_or(usize::MAX));
            return Err(EngineError::Task(task::too_large(&origin, size.max(source.len())).into()));
        }
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let base = parent.canonicalize().map_err(io)?;
        let catalog = catalog(registry);
        let task = task::read_bytes(&source, &origin, &catalog)?;
        let file = path.file_name().map(|name| base.join(name));
        Self::finish(task, catalog, source, &base, file, registry)
    }

    /// Reads a task from its text. `base` is where its relative paths start.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_source(
        source: Vec<u8>,
        origin: &str,
        base: &Path,
        registry: &Registry,
    ) -> Result<Arc<Self>, EngineError> {
        let catalog = catalog(registry);
        let task = task::read_bytes(&source, origin, &catalog)?;
        Self::finish(task, catalog, source, base, None, registry)
    }

    /// Reads a task that a store kept.
    ///
    /// # Errors
    /// As [`Self::from_file`].
    pub fn from_store(source: Vec<u8>, base: &Path, registry: &Registry) -> Result<Arc<Self>, EngineError> {
        let catalog = catalog(registry);
        let task = task::read_stored(&source, &catalog)?;
        Self::finish(task, catalog, source, base, None, registry)
    }

    fn finish(
        task: Task,
        catalog: Catalog,
        source: Vec<u8>,
        base: &Path,
        file: Option<PathBuf>,
        registry: &Registry,
    ) -> Result<Arc<Self>, EngineError> {
        let toolbox = Toolbox::build(&task, registry)?;
        let models = Models::build(&task, registry, base);
        let hash = ContentHash::of(&source);
        Ok(Arc::new(Self { task: Arc::new(task), source, hash, base: base.to_owned(), file, catalog, toolbox, models }))
    }
}

/// What a task file can name as `builtin`: the built-in tools and those of `registry`.
#[must_use]
pub fn catalog(registry: &Registry) -> Catalog {
    let mut catalog = Catalog::default();
    // Contracts don't depend on grants; a network tool without any is only described here, never called.
    for name in builtin::names() {
        if let Ok(tool) = builtin::find(name, &BuiltinConfig::default()) {
            let contract = tool.contract();
            catalog.builtins.insert(
                name.to_owned(),
                Builtin {
                    input_schema: contract.input_schema.clone(),
                    effect: contract.effect,
                    network: NETWORK_TOOLS.contains(&name),
                },
            );
        }
    }
    for (name, tool) in registry.iter() {
        let contract = tool.contract();
        catalog.builtins.insert(
            name.to_owned(),
            Builtin { input_schema: contract.input_schema.clone(), effect: contract.effect, network: false },
        );
    }
    catalog
}
