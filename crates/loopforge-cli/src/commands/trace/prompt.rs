//! What a model was shown at a step.

use std::io::Write;

use loopforge::Engine;
use loopforge_core::id::{RunId, StepNo};
use loopforge_core::model::{Block, Role};
use serde_json::json;

use crate::context::Context;
use crate::error::CliError;
use crate::output::Output;
use crate::text::safe;

/// Shows the prompts of a step.
pub(super) async fn show(
    context: &Context,
    engine: &Engine,
    run: RunId,
    step: StepNo,
    out: &mut Output,
) -> Result<(), CliError> {
    let prompts = engine.prompts(run, step).await?;
    if prompts.is_empty() {
        return Err(CliError::usage(format!("no model was asked in step {step} of {run}"))
            .hint(format!("`loopforge trace {run}` lists its records, with their steps")));
    }
    for shown in &prompts {
        let called = &shown.called;
        if context.json {
            out.json(&json!({
                "call": called.call, "model": called.model, "digest": called.prompt.digest, "exact": shown.exact,
                "tokens": called.prompt.tokens, "left_out": called.prompt.left_out, "request": shown.prompt.request,
            }))?;
            continue;
        }
        let exact = if shown.exact {
            "as it was sent, byte for byte"
        } else {
            "NOT as it was sent: this version makes it otherwise, or the task was changed"
        };
        writeln!(
            out,
            "call {} to {}, about {} tokens, {} steps left out; {exact}",
            called.call, called.model, called.prompt.tokens, called.prompt.left_out
        )?;
        let names: Vec<&str> = shown.prompt.request.tools.iter().map(|tool| tool.name.as_str()).collect();
        writeln!(out, "\n--- tools\n{}", names.join(", "))?;
        writeln!(out, "\n--- system\n{}", safe(&shown.prompt.request.system))?;
        for message in &shown.prompt.request.messages {
            let role = match message.role {
                Role::User => "user",
                Role::Assistant => "assistant",
                Role::Tool => "tool",
            };
            writeln!(out, "\n--- {role}")?;
            for block in &message.blocks {
                match block {
                    Block::Text { text } => writeln!(out, "{}", safe(text))?,
                    Block::ToolCall(call) => {
                        writeln!(out, "call {} {}", safe(&call.name), safe(call.arguments.text()))?;
                    }
                    Block::ToolResult(result) => writeln!(out, "{}", safe(&result.content))?,
                    Block::Opaque(opaque) => {
                        let text = opaque.readable().unwrap_or_else(|| "(only its provider can read it)".to_owned());
                        writeln!(out, "[{}] {}", safe(&opaque.provider), safe(&text))?;
                    }
                }
            }
        }
    }
    Ok(())
}
