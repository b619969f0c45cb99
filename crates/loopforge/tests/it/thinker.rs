//! A model whose replies a test writes down.

use std::fmt;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopforge_core::json::Json;
use loopforge_core::model::{Arguments, Block, ModelError, Reply, Request, StopReason, ToolCall, Usage};
use loopforge_models::{Answer, CallContext, Description, Exchange, Model};
use serde_json::json;

type Thinking = Arc<dyn Fn(usize, &Request) -> Result<Reply, ModelError> + Send + Sync>;

/// Answers as a test says, and remembers what it was asked.
#[derive(Clone)]
pub(crate) struct Thinker {
    description: Description,
    think: Thinking,
    asked: Arc<Mutex<Vec<Request>>>,
}

impl Thinker {
    /// `think` gets the number of the call, from 1, and the prompt.
    pub(crate) fn new(think: impl Fn(usize, &Request) -> Result<Reply, ModelError> + Send + Sync + 'static) -> Self {
        let description = Description {
            name: "test/thinker".to_owned(),
            provider: "test".to_owned(),
            model: "thinker".to_owned(),
            context_window: None,
            max_output_tokens: None,
            address: String::new(),
        };
        Self { description, think: Arc::new(think), asked: Arc::default() }
    }

    /// Gives these replies, one after the other, and the last one from then on.
    pub(crate) fn saying(replies: Vec<Reply>) -> Self {
        Self::new(move |number, _| Ok(replies[(number - 1).min(replies.len() - 1)].clone()))
    }

    /// The prompts, in order.
    pub(crate) fn prompts(&self) -> Vec<Request> {
        self.asked.lock().unwrap().clone()
    }
}

impl fmt::Debug for Thinker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Thinker")
    }
}

#[async_trait]
impl Model for Thinker {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn call(&self, request: &Request, _context: &CallContext) -> Answer {
        let number = {
            let mut asked = self.asked.lock().unwrap();
            asked.push(request.clone());
            asked.len()
        };
        assert_eq!(request.unpaired(), None, "call {number} would be refused by any provider");
        Answer { result: (self.think)(number, request), exchange: Exchange::default() }
    }
}

/// A reply that makes calls.
pub(crate) fn calls(calls: &[(&str, Json)]) -> Reply {
    let blocks = (0..)
        .zip(calls)
        .map(|(number, (name, arguments)): (usize, _)| {
            Block::ToolCall(ToolCall {
                id: format!("call_{number}_{name}"),
                provider_id: None,
                name: (*name).to_owned(),
                arguments: Arguments::of(arguments.clone()),
            })
        })
        .collect();
    reply(blocks, StopReason::ToolCalls)
}

/// A reply with a call whose arguments are this text.
pub(crate) fn raw_call(name: &str, arguments: &str) -> Reply {
    let call = ToolCall {
        id: "call_raw".to_owned(),
        provider_id: None,
        name: name.to_owned(),
        arguments: Arguments::read(arguments),
    };
    reply(vec![Block::ToolCall(call)], StopReason::ToolCalls)
}

/// A reply of words only.
pub(crate) fn says(text: &str) -> Reply {
    reply(vec![Block::text(text)], StopReason::End)
}

/// The claim that the subgoal is done.
pub(crate) fn finish(summary: &str) -> Reply {
    calls(&[("finish", json!({ "summary": summary }))])
}

pub(crate) fn reply(blocks: Vec<Block>, stop: StopReason) -> Reply {
    let usage = Usage { input: Some(100), output: Some(20), ..Usage::default() };
    Reply { id: None, model: Some("thinker-1".to_owned()), blocks, stop, usage, marks: Vec::new() }
}
