//! What every expression can read: the one list, for checks, help and documents.

/// A value that expressions can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// The first part of the name.
    pub root: &'static str,
    /// What follows. In capitals, a name of the task's own: an input, a state key, a subgoal.
    pub field: &'static str,
    /// Its type, as CEL calls it.
    pub kind: &'static str,
    /// What it is.
    pub about: &'static str,
}

const fn fact(root: &'static str, field: &'static str, kind: &'static str, about: &'static str) -> Fact {
    Fact { root, field, kind, about }
}

/// All of them.
pub const FACTS: &[Fact] = &[
    fact("inputs", "NAME", "any", "what the run was given"),
    fact("state", "KEY", "any", "what a step saved or set; after `save: key[member]` a map"),
    fact("subgoals", "ID.status", "string", "where the subgoal stands"),
    fact("subgoals", "ID.done", "bool", "it ended well, in part at least"),
    fact("subgoals", "ID.total", "int", "items of its list; without `foreach` its steps"),
    fact("subgoals", "ID.items_done", "int", "of these, how many are done"),
    fact("subgoals", "ID.deferred", "int", "how many are set aside to be tried again"),
    fact("subgoals", "ID.given_up", "list", "those that were given up, each with `item`, `code`, `reason`"),
    fact("usage", "steps", "int", "steps of the run so far"),
    fact("usage", "calls", "int", "tool calls so far"),
    fact("usage", "failures", "int", "of these, how many failed"),
    fact("usage", "elapsed_s", "int", "seconds since the run began"),
    fact("last", "ok", "bool", "whether the last call succeeded"),
    fact("last", "code", "string", "its result code, such as `success` or `not_found`"),
    fact("last", "error", "string", "what went wrong, or null"),
    fact("last", "tool", "string", "which tool it called, or null"),
    fact("run", "id", "string", "the run"),
    fact("run", "name", "string", "the task's name"),
    fact("run", "started_at", "string", "when the run began, RFC 3339 in UTC"),
    fact("run", "date", "string", "the day on which it began, such as 2026-01-31"),
];

/// The fields of `root` that can follow it, or the fields of one subgoal.
pub(super) fn fields(root: &str) -> Vec<&'static str> {
    let of_root = FACTS.iter().filter(|fact| fact.root == root);
    of_root.map(|fact| fact.field.strip_prefix("ID.").unwrap_or(fact.field)).collect()
}
