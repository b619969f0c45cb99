//! The parts of the task file whose mechanism this version doesn't have.
//!
//! They stand in the published schema, so that a file can be planned with them, and are refused by name: a limit or an approval that
//! is silently not honoured is worse than none.

/// A key of the schema that this version refuses.
#[derive(Debug)]
pub struct NotAvailable {
    /// The definition in the schema that has the key.
    pub definition: &'static str,
    /// The key.
    pub key: &'static str,
    /// What it will do.
    pub about: &'static str,
    /// What a run would do without it, and what to do now.
    pub remedy: &'static str,
    /// The value that asks for nothing more than happens anyway; it is accepted.
    pub harmless: Option<&'static str>,
}

const fn part(
    definition: &'static str,
    key: &'static str,
    about: &'static str,
    remedy: &'static str,
    harmless: Option<&'static str>,
) -> NotAvailable {
    NotAvailable { definition, key, about, remedy, harmless }
}

/// All such keys.
pub const NOT_AVAILABLE: &[NotAvailable] = &[
    part(
        "Task",
        "mcpServers",
        "MCP servers whose tools the task can use.",
        "no server would be started; remove it, and use `builtin` or `process` tools",
        None,
    ),
    part(
        "Limits",
        "summary_threshold",
        "The share of the context window at which it is compacted.",
        "there is no model whose context could fill; remove it",
        None,
    ),
    part("ToolSpec", "mcp", "The MCP server that has the tool.", "use `builtin` or `process`", None),
    part("ToolSpec", "http", "An HTTP endpoint.", "use `builtin: http_get` or a `process`", None),
    part("ToolSpec", "openapi", "An operation of an OpenAPI document.", "use `builtin: http_get` or a `process`", None),
    part(
        "ToolSpec",
        "approval",
        "Whether a person must agree to each call.",
        "nobody would be asked before a call; remove it, or leave the call out of the task and make it yourself",
        Some("never"),
    ),
    part(
        "ToolSpec",
        "compensate",
        "The tool that undoes an effect on rollback.",
        "nothing would be undone; remove it, and undo effects by a step of your own",
        None,
    ),
    part(
        "ToolSpec",
        "confirm",
        "Who takes a second look before a write.",
        "nobody would look; remove it, and say what must hold in `requires`",
        None,
    ),
    part(
        "Entry",
        "approve",
        "A person's decision in the middle of a workflow.",
        "nobody would be asked; remove it, or end the task before this step",
        None,
    ),
    part(
        "Subgoal",
        "parallel",
        "How many actions a model may take at once here.",
        "remove it: subgoals that don't need each other run side by side, and `foreach` has a `parallel` of its own",
        None,
    ),
    part(
        "Subgoal",
        "agent",
        "How a model works on a subgoal without steps.",
        "no model would work on it; give the subgoal `steps`",
        None,
    ),
];

/// The entry for a key.
pub(super) fn find(definition: &str, key: &str) -> Option<&'static NotAvailable> {
    NOT_AVAILABLE.iter().find(|part| part.definition == definition && part.key == key)
}
