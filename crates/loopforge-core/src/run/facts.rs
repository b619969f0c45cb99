//! What expressions can read besides inputs and state: `subgoals`, `usage`, `last`, `run`.

use serde_json::json;

use crate::json::Json;
use crate::payload::BlobCache;
use crate::record::SubgoalOutcome;
use crate::task::Task;
use crate::time::Timestamp;

use super::{Progress, RunState, SubgoalStatus};

impl RunState {
    /// The value of a root, or `None` for a name that is none.
    ///
    /// `now` is the time of the last record, not of the clock: an expression has the same value when it is evaluated again.
    pub(crate) fn fact(&self, task: &Task, root: &str, blobs: &BlobCache) -> Option<Json> {
        Some(match root {
            "subgoals" => Json::Object(
                self.subgoals
                    .iter()
                    .map(|progress| (progress.id.clone(), self.in_its_place(progress).fact(task, blobs)))
                    .collect(),
            ),
            "usage" => json!({
                "steps": self.totals.steps,
                "calls": self.totals.calls,
                "failures": self.totals.failures,
                "elapsed_s": self.last_at.since(self.started_at).as_secs(),
            }),
            "last" => match &self.last_call {
                Some(last) => json!({
                    "ok": last.code == crate::tool::Code::Success,
                    "code": last.code.name(),
                    "error": last.error,
                    "tool": last.tool,
                }),
                None => json!({ "ok": true, "code": "success", "error": null, "tool": null }),
            },
            "run" => json!({
                "id": self.run.to_string(),
                "name": task.name,
                "started_at": rfc3339(self.started_at),
                "date": rfc3339(self.started_at).get(..10),
            }),
            _ => return None,
        })
    }
}

impl RunState {
    /// The subgoal that now stands where this one stood: rules that name a replaced one mean what took its place.
    fn in_its_place<'a>(&'a self, progress: &'a Progress) -> &'a Progress {
        let mut found = progress;
        for _ in 0..self.subgoals.len() {
            let next = found.replaced_by.as_ref();
            match next.and_then(|id| self.subgoals.iter().find(|other| other.id == *id)) {
                Some(next) => found = next,
                None => break,
            }
        }
        found
    }
}

fn rfc3339(at: Timestamp) -> String {
    at.to_string()
}

impl Progress {
    fn fact(&self, task: &Task, blobs: &BlobCache) -> Json {
        let subgoal = task.subgoals.iter().find(|subgoal| subgoal.id == self.id);
        let entries = subgoal.map_or(0, |subgoal| subgoal.steps.len());
        let done = matches!(self.status, SubgoalStatus::Ended(SubgoalOutcome::Done | SubgoalOutcome::Partial));
        json!({
            "status": self.status.name(),
            "done": done,
            "total": self.list.as_ref().map_or(entries, |list| list.count as usize),
            "items_done": self.done,
            "deferred": self.deferred.len(),
            "given_up": self.given_up.iter().map(|given_up| json!({
                // An item too large to stand in a record, which isn't at hand, is named by its position.
                "item": given_up.item.open(blobs).unwrap_or_else(|_| json!(given_up.position)),
                "code": given_up.code.name(),
                "reason": given_up.reason,
            })).collect::<Vec<_>>(),
        })
    }
}
