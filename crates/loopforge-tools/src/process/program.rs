//! Where a command's program is, and what to say when it isn't there.

use std::path::{Path, PathBuf};

/// Finds a program whose name has no `/`.
pub(super) fn find_on_path(program: &str, path: &str) -> Option<PathBuf> {
    path.split(':')
        .filter(|folder| !folder.is_empty())
        .map(|folder| Path::new(folder).join(program))
        .find(|file| file.is_file())
}

/// Explains, in parentheses, why `program` could not be executed.
pub(super) fn where_it_was_looked_for(program: &str, path: &str, base: &Path, sandboxed: bool) -> String {
    if program.contains('/') {
        return if !Path::new(program).is_file() {
            format!(" (relative paths start at the task's folder, `{}`)", base.display())
        } else {
            " (it is there: it must be executable, and so must the interpreter that its first line names be)".to_owned()
        };
    }
    match find_on_path(program, path) {
        Some(found) if sandboxed => format!(
            " (it is at `{}`, where the sandbox doesn't let it be executed: grant that with `sandbox: {{ read: [...] }}`)",
            found.display()
        ),
        Some(found) => format!(" (it is at `{}`: is it executable?)", found.display()),
        None => format!(
            " (looked for on PATH, `{path}`; write `./{program}` for a file in the task's folder, `{}`)",
            base.display()
        ),
    }
}
