//! Which ended runs are kept.

use std::collections::HashMap;
use std::time::Duration;

use loopforge_core::record::RunStatus;
use loopforge_core::time::Timestamp;
use loopforge_store::RunInfo;

/// Which runs can go. A run must meet every part that is given; without any, none goes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// Nothing was appended to it for this long.
    pub older_than: Option<Duration>,
    /// It isn't among this many newest ended ones of its name.
    pub keep: Option<usize>,
    /// It ended in one of these ways; empty for any.
    pub statuses: Vec<RunStatus>,
}

/// The runs that can go by `rule`, in their order. One that hasn't ended, or that somebody owns, never can.
#[must_use]
pub fn choose<'a>(runs: &'a [RunInfo], rule: &Rule, now: Timestamp) -> Vec<&'a RunInfo> {
    if *rule == Rule::default() {
        return Vec::new();
    }
    let mut ended: Vec<&RunInfo> = runs.iter().filter(|run| run.status.is_final() && run.owner.is_none()).collect();
    ended.sort_by_key(|run| std::cmp::Reverse((run.updated_at, run.id)));
    let mut newer: HashMap<&str, usize> = HashMap::new();
    let mut chosen = Vec::new();
    for run in ended {
        let newer = newer.entry(&run.name).or_default();
        let goes = rule.keep.is_none_or(|keep| *newer >= keep)
            && rule.older_than.is_none_or(|age| now.since(run.updated_at) > age)
            && (rule.statuses.is_empty() || rule.statuses.contains(&run.status));
        *newer += 1;
        if goes {
            chosen.push(run.id);
        }
    }
    runs.iter().filter(|run| chosen.contains(&run.id)).collect()
}

#[cfg(test)]
mod tests {
    use loopforge_core::id::{ContentHash, RunId, Seq};

    use super::*;

    fn run(number: u128, name: &str, status: RunStatus, hours_ago: u64) -> RunInfo {
        let at = now().0 - i64::try_from(hours_ago * 3_600_000_000).unwrap_or_default();
        RunInfo {
            id: RunId(uuid::Uuid::from_u128(number)),
            name: name.to_owned(),
            task: ContentHash([0; 32]),
            workspace: String::new(),
            base: String::new(),
            status,
            head: Seq(1),
            steps: 0,
            created_at: Timestamp(at),
            updated_at: Timestamp(at),
            wake_at: None,
            owner: None,
        }
    }

    fn now() -> Timestamp {
        Timestamp(1_796_040_000_000_000)
    }

    fn goes(rule: &Rule) -> Vec<u128> {
        use RunStatus::{Cancelled, Failed, Paused, Running, Succeeded, Waiting};
        let runs = [
            run(1, "a", Succeeded, 1),
            run(2, "a", Failed, 2),
            run(3, "a", Succeeded, 30),
            run(4, "b", Succeeded, 40),
            run(5, "b", Cancelled, 50),
            run(6, "a", Paused, 90),
            run(7, "a", Waiting, 90),
            run(8, "a", Running, 90),
        ];
        choose(&runs, rule, now()).iter().map(|run| run.id.0.as_u128()).collect()
    }

    #[test]
    fn a_run_goes_when_it_meets_every_part_of_the_rule() {
        let day = Some(Duration::from_secs(86_400));
        assert_eq!(goes(&Rule::default()), []);
        assert_eq!(goes(&Rule { older_than: day, ..Rule::default() }), [3, 4, 5]);
        assert_eq!(goes(&Rule { keep: Some(1), ..Rule::default() }), [2, 3, 5]);
        assert_eq!(goes(&Rule { keep: Some(1), older_than: day, ..Rule::default() }), [3, 5]);
        assert_eq!(goes(&Rule { statuses: vec![RunStatus::Failed, RunStatus::Cancelled], ..Rule::default() }), [2, 5]);
        assert_eq!(goes(&Rule { keep: Some(0), ..Rule::default() }), [1, 2, 3, 4, 5]);
    }

    #[test]
    fn one_that_somebody_owns_stays() {
        let owner = loopforge_store::Owner { id: "a".to_owned(), label: "a".to_owned(), until: now() };
        let owned = RunInfo { owner: Some(owner), ..run(1, "a", RunStatus::Succeeded, 9) };
        assert_eq!(choose(&[owned], &Rule { keep: Some(0), ..Rule::default() }, now()), [] as [&RunInfo; 0]);
    }
}
