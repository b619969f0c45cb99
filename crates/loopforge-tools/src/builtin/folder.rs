//! A folder that nothing leads out of, and files that appear whole or not at all.
//!
//! Every path is opened beneath the folder's handle, so that no `..`, absolute path or symbolic link leads elsewhere, also
//! when somebody changes the tree at the same time.

use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, OpenOptions};
use loopforge_core::id::ContentHash;
use loopforge_core::tool::{Code, ToolResult};

use super::arguments::invalid;
use super::compute::Gate;
use crate::{CallContext, EffectStatus};

/// Names that begin so are LoopForge's own; listings leave them out.
pub(super) const OWN_PREFIX: &str = ".loopforge-";

/// A folder.
#[derive(Debug)]
pub(super) struct Folder {
    dir: Dir,
}

/// What happens when a file of another content has the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Existing {
    /// It stays, and nothing is written.
    Keep,
    /// It is replaced.
    Replace,
}

/// How a write ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Written {
    /// The file is there now, durably.
    Now,
    /// It was there with this very content.
    Already,
    /// A file of another content has the name.
    Occupied,
    /// The call was given up; nothing was changed.
    GivenUp,
}

/// Whether a file has some content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Same,
    Other,
    Nothing,
}

impl Folder {
    /// Opens a folder, or makes it.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        if !path.is_dir() {
            std::fs::create_dir_all(path)?;
            if let Some(parent) = path.parent() {
                sync_dir(&Dir::open_ambient_dir(parent, ambient_authority())?)?;
            }
        }
        Ok(Self { dir: Dir::open_ambient_dir(path, ambient_authority())? })
    }

    /// Opens a folder if it is there.
    pub(super) fn open(path: &Path) -> io::Result<Option<Self>> {
        match Dir::open_ambient_dir(path, ambient_authority()) {
            Ok(dir) => Ok(Some(Self { dir })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The folder's handle.
    pub(super) fn dir(&self) -> &Dir {
        &self.dir
    }

    /// Compares a file with a content.
    pub(super) fn holds(&self, path: &Path, content: &[u8]) -> io::Result<Holds> {
        let metadata = match self.dir.metadata(path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Holds::Nothing),
            Err(error) => return Err(error),
        };
        if !metadata.is_file() || metadata.len() != content.len() as u64 {
            return Ok(Holds::Other);
        }
        let same = ContentHash::of(&self.dir.read(path)?) == ContentHash::of(content);
        Ok(if same { Holds::Same } else { Holds::Other })
    }

    /// Writes a file in one go: a reader sees all of it or nothing, and after `Written::Now` it survives a crash.
    ///
    /// A crash leaves at most a file whose name begins with [`OWN_PREFIX`]; `tag` names its maker, whose next write beside it removes it.
    pub(super) fn write(
        &self,
        path: &Path,
        content: &[u8],
        existing: Existing,
        tag: &str,
        gate: &Gate,
    ) -> io::Result<Written> {
        match (self.holds(path, content)?, existing) {
            // Whoever asks again after a crash must find it durable, too.
            (Holds::Same, _) => {
                let (parent, _) = self.parent_of(path)?;
                sync_dir(&parent)?;
                return Ok(Written::Already);
            }
            (Holds::Other, Existing::Keep) => return Ok(Written::Occupied),
            _ => {}
        }
        let (parent, name) = self.parent_of(path)?;
        let temporary = prepare(&parent, content, tag)?;
        let written = if gate.pass() { publish(&parent, &temporary, name, existing) } else { Ok(Written::GivenUp) };
        // After a rename there is nothing to remove; else nothing may stay.
        let _ = parent.remove_file(&temporary);
        let written = written?;
        sync_dir(&parent)?;
        // Somebody was faster: with the same content that is as good.
        if written == Written::Occupied && self.holds(path, content)? == Holds::Same {
            return Ok(Written::Already);
        }
        Ok(written)
    }

    /// The folder in which a file stands, made if needed, and the file's name there.
    fn parent_of<'a>(&self, path: &'a Path) -> io::Result<(Dir, &'a Path)> {
        let name = path.file_name().map(Path::new).ok_or(io::ErrorKind::InvalidInput)?;
        let mut dir = self.dir.try_clone()?;
        for part in path.parent().into_iter().flat_map(Path::components) {
            dir = match dir.open_dir(part) {
                Ok(inner) => inner,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    match dir.create_dir(part) {
                        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                        _ => sync_dir(&dir)?,
                    }
                    dir.open_dir(part)?
                }
                Err(error) => return Err(error),
            };
        }
        Ok((dir, name))
    }
}

/// Writes `content` to a new file of a name that nobody else uses.
fn prepare(parent: &Dir, content: &[u8], tag: &str) -> io::Result<String> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let own = format!("{OWN_PREFIX}{tag}-");
    for entry in parent.entries()? {
        let name = entry?.file_name();
        if name.to_str().is_some_and(|name| name.starts_with(&own)) {
            // An earlier try of the same effect: it was killed, or given up.
            let _ = parent.remove_file(&name);
        }
    }
    let number = COUNTER.fetch_add(1, Ordering::Relaxed);
    let name = format!("{own}{}-{number}", std::process::id());
    let mut file = parent.open_with(&name, OpenOptions::new().write(true).create_new(true))?;
    file.write_all(content)?;
    file.sync_all()?;
    Ok(name)
}

fn publish(parent: &Dir, temporary: &str, name: &Path, existing: Existing) -> io::Result<Written> {
    match existing {
        Existing::Replace => parent.rename(temporary, parent, name)?,
        // A link is refused where a name is taken, in one step; a rename would replace.
        Existing::Keep => match parent.hard_link(temporary, parent, name) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(Written::Occupied),
            // A file system without links: all that is left is to look first.
            Err(_) if parent.symlink_metadata(name).is_ok() => return Ok(Written::Occupied),
            Err(_) => parent.rename(temporary, parent, name)?,
        },
    }
    Ok(Written::Now)
}

/// Makes the names in a folder durable.
#[cfg(unix)]
fn sync_dir(dir: &Dir) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    // The handle itself may be one that only names the folder.
    let handle = rustix::fs::openat(dir, ".", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::fsync(handle)?)
}

/// Elsewhere names are made durable with the file.
#[cfg(not(unix))]
fn sync_dir(_: &Dir) -> io::Result<()> {
    Ok(())
}

/// Reads the path of a call: relative, downward, of names that every system can carry.
///
/// # Errors
/// A result that names `argument` and what a path looks like.
pub(super) fn read_path(argument: &str, text: &str) -> Result<PathBuf, ToolResult> {
    let refuse = |why: &str| {
        let shown: String = text.chars().flat_map(char::escape_debug).collect();
        Err(invalid(format!(
            "`{argument}` is `{shown}`, which {why}: give a path below the folder, as in `reports/today.md`"
        )))
    };
    if text.is_empty() {
        return refuse("is empty");
    }
    if text.contains('\0') || text.contains('\u{2400}') {
        return refuse("has a NUL character");
    }
    if text.chars().any(char::is_control) {
        return refuse("has control characters");
    }
    if text.contains('\\') || text.contains(':') {
        return refuse("has a `\\` or `:`, which not every system allows");
    }
    if text.len() > 1000 || text.split('/').any(|part| part.len() > 200) {
        return refuse("is too long");
    }
    if text.ends_with('/') {
        return refuse("names a folder");
    }
    let path = Path::new(text);
    for component in path.components() {
        match component {
            Component::Normal(name) if name.to_str().is_some_and(|name| name.starts_with(OWN_PREFIX)) => {
                return refuse("has a name that LoopForge keeps for itself");
            }
            Component::Normal(_) => {}
            Component::RootDir | Component::Prefix(_) => return refuse("is absolute"),
            Component::ParentDir => return refuse("goes up with `..`"),
            Component::CurDir => return refuse("has a `.` for a name"),
        }
    }
    Ok(path.to_owned())
}

/// Puts the run's id and the step's number in place of `{run}` and `{step}`.
pub(super) fn fill_in(name: &str, context: &CallContext) -> String {
    name.replace("{run}", &context.run.to_string()).replace("{step}", &context.action.step.to_string())
}

/// What marks the files that one effect has begun.
pub(super) fn tag(context: &CallContext) -> String {
    context.step_token.as_ref().map_or_else(|| format!("{}-{}", context.run, context.action), ToString::to_string)
}

/// The result of a file operation that failed.
pub(super) fn failure(doing: &str, error: &io::Error) -> ToolResult {
    let code = match error.kind() {
        io::ErrorKind::NotFound => Code::NotFound,
        io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
            // The only refusal that comes from no system call is the folder's own.
            return invalid(format!("cannot {doing}: the path leads out of the folder (through a symbolic link?)"));
        }
        io::ErrorKind::PermissionDenied => Code::Unauthorized,
        io::ErrorKind::NotADirectory | io::ErrorKind::IsADirectory | io::ErrorKind::InvalidInput => {
            Code::InvalidArgument
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::ReadOnlyFilesystem => {
            Code::Permanent
        }
        _ => Code::Unavailable,
    };
    ToolResult::failure(code, format!("cannot {doing}: {error}"))
}

/// What a look at the files said of an effect.
pub(super) fn status(asked: Result<io::Result<EffectStatus>, tokio::task::JoinError>) -> EffectStatus {
    match asked {
        Ok(Ok(status)) => status,
        Ok(Err(error)) => EffectStatus::Unknown(format!("the files can't be looked at: {error}")),
        Err(error) => EffectStatus::Unknown(format!("the look at the files broke down: {error}")),
    }
}

#[cfg(test)]
mod tests;
