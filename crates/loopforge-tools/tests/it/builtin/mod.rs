mod archive;
mod files;
mod http_get;
mod http_request;
mod patrol;
mod report;
mod server;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loopforge_core::id::{ActionNo, RunId, StepNo, StepToken};
use loopforge_core::record::ActionId;
use loopforge_tools::builtin::{self, BuiltinConfig, BuiltinError};
use loopforge_tools::{CallContext, Tool};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// A context of step 3 of run 1.
fn context() -> CallContext {
    context_in(Path::new("/nonexistent"))
}

fn context_in(base: &Path) -> CallContext {
    step_of(base, 1, 3)
}

/// A context of a step of a run whose workspace is a folder of its own under `base`.
fn step_of(base: &Path, run: u128, step: u64) -> CallContext {
    let run = RunId(Uuid::from_u128(run));
    let action = ActionId { step: StepNo(step), action: ActionNo(0) };
    CallContext {
        run,
        action,
        attempt: 1,
        step_token: Some(StepToken::of(run, 0, action.step, action.action)),
        timeout: Duration::from_secs(20),
        cancel: CancellationToken::new(),
        workspace: Arc::new(base.join(".loopforge/runs").join(run.to_string())),
        base: Arc::new(base.to_owned()),
    }
}

fn tool(name: &str) -> Arc<dyn Tool> {
    builtin::find(name, &BuiltinConfig::default()).unwrap()
}

fn network_tool(name: &str, allow: &[&str]) -> Arc<dyn Tool> {
    let config = BuiltinConfig { allow: allow.iter().map(ToString::to_string).collect() };
    builtin::find(name, &config).unwrap()
}

#[test]
fn every_builtin_has_a_closed_schema_and_a_description() {
    for name in builtin::names() {
        let tool = tool(name);
        let contract = tool.contract();
        assert_eq!(contract.input_schema["type"], "object", "{name}");
        assert!(jsonschema::validator_for(&contract.input_schema).is_ok(), "{name}");
        assert_eq!(contract.input_schema["additionalProperties"], false, "{name}");
        assert!(contract.description.ends_with('.'), "{name}");
        for (argument, schema) in contract.input_schema["properties"].as_object().unwrap() {
            assert!(schema.get("description").is_some(), "{name}.{argument} has no description");
        }
    }
}

#[test]
fn an_unknown_name_gets_the_nearest() {
    let unknown = |name| builtin::find(name, &BuiltinConfig::default()).unwrap_err();
    assert_eq!(
        unknown("http_gett"),
        BuiltinError::UnknownBuiltin { name: "http_gett".to_owned(), nearest: Some("http_get") }
    );
    assert_eq!(unknown("zzz").to_string(), "there is no built-in tool `zzz`");
    let bad = BuiltinConfig { allow: vec!["http://a.test".to_owned()] };
    assert!(matches!(builtin::find("http_get", &bad), Err(BuiltinError::InvalidHost { .. })));
}
