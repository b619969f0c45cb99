//! The tools that the workloads call: Rust functions, so that nothing but LoopForge is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use clap::ValueEnum;
use loopforge_core::json::Json;
use loopforge_core::tool::{Code, Contract, ToolResult};
use loopforge_tools::{CallContext, Tool};
use serde_json::json;

use crate::content::Text;

/// What a call does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Deed {
    /// Answers at once.
    Read,
    /// The same, as a write that can't be repeated.
    Write,
    /// Doesn't answer until it is cancelled.
    Hang,
    /// Fails for good, so that a person is asked.
    Fail,
}

/// The tool.
#[derive(Debug)]
pub(crate) struct Answer {
    deed: Deed,
    text: Text,
    contract: Contract,
    /// Calls that were begun.
    calls: Arc<AtomicU64>,
}

impl Answer {
    pub(crate) fn new(deed: Deed, text: Text, calls: Arc<AtomicU64>) -> Self {
        let schema = json!({
            "type": "object",
            "properties": { "item": { "type": "integer" }, "url": { "type": "string" } },
            "required": ["item"],
        });
        let contract = match deed {
            Deed::Read | Deed::Hang | Deed::Fail => Contract::read("answers with a text of 2 KB", schema),
            Deed::Write => Contract::write("answers with a text of 2 KB", schema),
        };
        Self { deed, text, contract, calls }
    }
}

#[async_trait]
impl Tool for Answer {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        self.calls.fetch_add(1, Ordering::Relaxed);
        match self.deed {
            Deed::Read | Deed::Write => {
                // Different in each run and for each item: equal content would be stored once.
                let run = context.run.0.as_u128() as u64;
                let item = arguments["item"].as_u64().unwrap_or_default();
                ToolResult::success(Json::String(self.text.answer(run.wrapping_add(item.wrapping_mul(0x10_0001)))))
            }
            Deed::Hang => {
                context.cancel.cancelled().await;
                ToolResult::failure(Code::Cancelled, "it was cancelled")
            }
            Deed::Fail => ToolResult::failure(Code::Permanent, "it is meant to fail"),
        }
    }
}
