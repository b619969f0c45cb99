//! From a task's grants to what a process may reach.
//!
//! One rule goes beyond the list: a path that lies in a folder which the process can write grants nothing further. It is
//! reachable through that folder anyway, and a command could else put a link to `/` in its place and have the next call
//! open everything.

use std::path::{Path, PathBuf};

use loopforge_core::task::{Grants, Net};

use super::template::CommandTemplate;
use super::wire::{Confinement, Limits};

/// Address space of a process, unless the grants say otherwise.
const DEFAULT_MEMORY_MB: u64 = 4096;
/// The largest file that a process can write.
const FILE_BYTES: u64 = 1024 * 1024 * 1024;
/// Files that a process can have open.
const OPEN_FILES: u64 = 1024;
/// Processes of a call that can live at once.
pub(super) const PROCESSES: usize = 256;

/// The folders of a call, as absolute paths without links.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) base: PathBuf,
    pub(super) workspace: PathBuf,
    pub(super) temporary: PathBuf,
}

impl Place {
    /// Finds the folders, and makes those that the run owns.
    pub(super) fn of(base: &Path, workspace: &Path) -> Result<Self, String> {
        let temporary = workspace.join("tmp");
        std::fs::create_dir_all(&temporary)
            .map_err(|error| format!("cannot make the folder `{}`: {error}", temporary.display()))?;
        let absolute =
            |path: &Path| path.canonicalize().map_err(|error| format!("cannot find `{}`: {error}", path.display()));
        let workspace = absolute(workspace)?;
        Ok(Self { base: absolute(base)?, temporary: workspace.join("tmp"), workspace })
    }
}

/// What a command may reach: its grants, the workspace, its program, and the files that the task names in its words.
pub(super) fn confinement(
    grants: &Grants,
    template: &CommandTemplate,
    program: &str,
    place: &Place,
) -> Result<Confinement, String> {
    let write = writable(grants, place)?;
    let mut read = Vec::new();
    for granted in &grants.read {
        let path = place.base.join(granted);
        if is_within(&path, &write) {
            continue;
        }
        if !path.exists() {
            let base = place.base.display();
            return Err(format!("the sandbox grants reading `{granted}`, which doesn't exist in `{base}`"));
        }
        read.push(path);
    }
    // `python3 tally.py`: the task's author named this very file. Folders and arguments of the call grant nothing.
    let own_program = Some(program).filter(|program| program.contains('/'));
    let named = template.fixed_words().chain(own_program).map(|word| place.base.join(word));
    read.extend(named.filter(|path| path.is_file() && !is_within(path, &write)));
    let limits = Limits {
        memory_bytes: grants.memory_mb.unwrap_or(DEFAULT_MEMORY_MB).saturating_mul(1024 * 1024),
        cpu_s: grants.cpu_s,
        file_bytes: FILE_BYTES,
        open_files: OPEN_FILES,
        processes: PROCESSES,
    };
    Ok(Confinement { read, write, network: grants.net == Net::Any, limits })
}

/// The folders and files that can be written. A granted folder that doesn't exist is made.
fn writable(grants: &Grants, place: &Place) -> Result<Vec<PathBuf>, String> {
    let mut granted: Vec<PathBuf> = grants.write.iter().map(|granted| place.base.join(granted)).collect();
    // Outer folders first: what lies in them is then seen to be theirs.
    granted.sort_by_key(|path| path.components().count());
    let mut roots = vec![place.workspace.clone()];
    for path in granted {
        if is_within(&path, &roots) {
            continue;
        }
        let explain = |error: std::io::Error| {
            format!("cannot make the folder `{}` that the sandbox grants: {error}", path.display())
        };
        if !path.exists() {
            std::fs::create_dir_all(&path).map_err(explain)?;
        }
        roots.push(path.canonicalize().map_err(explain)?);
    }
    Ok(roots)
}

/// Whether any folder on the way to `path` lies in one of `roots`, so that whoever writes there decides what it is.
fn is_within(path: &Path, roots: &[PathBuf]) -> bool {
    path.ancestors()
        .skip(1)
        .filter_map(|folder| folder.canonicalize().ok())
        .any(|folder| roots.iter().any(|root| folder.starts_with(root)))
}
