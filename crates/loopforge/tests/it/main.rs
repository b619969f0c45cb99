//! The engine in process: real stores, tools that do as a test says.
#![expect(clippy::unwrap_used, reason = "tests")]

mod admission;
mod agent;
mod agent_http;
mod ahead;
mod archives;
mod bench;
mod budget;
mod fleet;
mod graph;
mod hooks;
mod laws;
mod limits;
mod lists;
mod owners;
mod plan;
mod results;
mod retries;
mod storage;
mod thinker;
mod writes;
