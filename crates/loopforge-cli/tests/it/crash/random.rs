//! Kills at random instants, through runs with parallel branches.

use std::time::{Duration, Instant};

use super::{WRITTEN, writes};

/// Kills in all. They fall where the time goes: into helpers that start, commands at work, appends, takeovers.
const KILLS: usize = 200;

/// A small generator with a fixed start; the instants are as random as the machine's scheduling makes them anyway.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % limit
    }
}

/// R17, R39, R40, IDM-05.
#[test]
fn kills_at_random_instants_lose_nothing_and_repeat_nothing() {
    let reference = {
        let bench = writes(3);
        let begun = Instant::now();
        assert_eq!(bench.run(None).status.code(), Some(0));
        (bench.summary(), begun.elapsed())
    };
    let (reference, whole) = reference;
    let longest = u64::try_from(whole.as_micros()).unwrap();
    let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15);
    let mut kills = 0;
    while kills < KILLS {
        let bench = writes(3);
        let mut recorded = Vec::new();
        // A run is killed a few times, then it may go on in peace.
        for _ in 0..1 + numbers.below(8) {
            let ended = bench.kill_after(Duration::from_micros(numbers.below(longest)));
            bench.assert_kept(&recorded);
            recorded = bench.records();
            if !ended.was_killed() {
                break;
            }
            kills += 1;
        }
        bench.finish();
        assert_eq!(bench.written(), WRITTEN, "after {kills} kills");
        assert_eq!(bench.summary(), reference, "after {kills} kills");
        bench.assert_kept(&recorded);
    }
}
