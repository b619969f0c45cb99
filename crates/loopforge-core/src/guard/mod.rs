//! The repetition guard (R6, R7): it watches the last calls and says when they go round in a circle.
//!
//! A call is compared by its tool and arguments *and* by what came of it. A poll whose answer changes, a retry that then
//! succeeds, paging and the same tool with other arguments are no repetition. The table is small and travels in
//! checkpoints, so a restart neither forgets a loop nor sees one twice.

#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::id::ContentHash;
use crate::record::LoopKind;
use crate::tool::Code;

/// Calls that are remembered. Source: SPEC R6.
pub const WINDOW: usize = 20;

/// The same round this often is a loop. Source: SPEC R6.
pub const ROUNDS: usize = 3;

/// The longest cycle that is looked for: with [`ROUNDS`] rounds it fits into the window.
pub const LONGEST_CYCLE: usize = WINDOW / ROUNDS;

/// A call as the guard sees it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// The tool.
    pub tool: String,
    /// Hash of the canonical arguments.
    pub digest: ContentHash,
    /// How it ended.
    pub code: Code,
    /// Hash of the answer without its volatile parts.
    pub fingerprint: ContentHash,
}

/// The last calls of a run, the oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Window {
    calls: VecDeque<Seen>,
    /// Calls since the last report: they alone are looked at, so that one loop is reported once a round and a hint clears it.
    fresh: usize,
}

/// A loop that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loop {
    /// What it is.
    pub what: LoopKind,
    /// Calls in one round.
    pub period: usize,
    /// Rounds that were seen.
    pub rounds: usize,
    /// The tools in it, in order.
    pub tools: Vec<String>,
}

impl Window {
    /// Takes a call in. Returns whether it brought something not seen before: a new call, or a new outcome of a known one.
    pub fn push(&mut self, call: Seen) -> bool {
        let novel = !self.calls.contains(&call);
        self.calls.push_back(call);
        if self.calls.len() > WINDOW {
            self.calls.pop_front();
        }
        self.fresh = (self.fresh + 1).min(WINDOW);
        novel
    }

    /// Whether some call of this tool in the window, with whatever arguments, ended so.
    #[must_use]
    pub fn saw(&self, tool: &str, code: Code, fingerprint: ContentHash) -> bool {
        self.calls.iter().any(|call| call.tool == tool && call.code == code && call.fingerprint == fingerprint)
    }

    /// The last calls, at most so many, the oldest first.
    #[must_use]
    pub fn last(&self, calls: usize) -> Vec<Seen> {
        self.calls.iter().skip(self.calls.len().saturating_sub(calls)).cloned().collect()
    }

    /// Starts to look anew: what was seen before a person's hint, or was reported, is no part of a further loop.
    pub fn clear(&mut self) {
        self.fresh = 0;
    }

    /// The loop that the last call completed, if it did. The shortest period is reported.
    #[must_use]
    pub fn find_loop(&self) -> Option<Loop> {
        let calls: Vec<&Seen> = self.calls.iter().skip(self.calls.len() - self.fresh).collect();
        (1..=LONGEST_CYCLE).find_map(|period| {
            let rounds = rounds_at_end(&calls, period);
            (rounds >= ROUNDS).then(|| {
                let round = &calls[calls.len() - period..];
                Loop {
                    what: if period == 1 { LoopKind::Repetition } else { LoopKind::Cycle },
                    period,
                    rounds,
                    tools: round.iter().map(|call| call.tool.clone()).collect(),
                }
            })
        })
    }

    /// How often the given call stands at the end with the same outcome each time.
    #[must_use]
    pub fn repeats_of(&self, tool: &str, digest: ContentHash) -> usize {
        let Some(last) = self.calls.back() else { return 0 };
        if last.tool != tool || last.digest != digest {
            return 0;
        }
        self.calls.iter().rev().take(self.fresh).take_while(|call| *call == last).count()
    }
}

/// How many times the last `period` calls stand at the end, one after the other.
fn rounds_at_end(calls: &[&Seen], period: usize) -> usize {
    let Some(start) = calls.len().checked_sub(period) else { return 0 };
    let round = &calls[start..];
    calls.rchunks_exact(period).take_while(|chunk| chunk == &round).count()
}
