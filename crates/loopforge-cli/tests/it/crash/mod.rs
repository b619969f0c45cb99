//! Real processes, really killed: whatever the place, a resume brings the run to the same end, and every effect is made once.

#![expect(clippy::unwrap_used, reason = "tests")]

mod agent;
mod agent_patrol;
mod ahead;
mod bench;
mod places;
mod random;
mod tasks;

use bench::Bench;

/// The test's own writes: six items, three kinds of tool, `parallel` at once.
fn writes(parallel: u32) -> Bench {
    let task = include_str!("task.yaml").replace("PARALLEL", &parallel.to_string());
    Bench::new(&[("task.yaml", &task), ("tally.sh", include_str!("tally.sh"))], &[])
}

/// What the tally must hold.
const WRITTEN: [&str; 6] = ["fifth", "first", "fourth", "second", "sixth", "third"];
