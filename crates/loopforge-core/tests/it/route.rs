//! Where a step leads, row by row.

use loopforge_core::evaluate::{Situation, route};
use loopforge_core::record::Route;
use loopforge_core::task::OnFailure;
use loopforge_core::time::Timestamp;
use loopforge_core::tool::Code;

const DUE: Timestamp = Timestamp(7);

const QUIET: Situation<'_> = Situation {
    failure: None,
    can_correct: false,
    can_defer: false,
    rounds_left: false,
    on_failure: OnFailure::Fail,
    due: DUE,
    more_entries: false,
};

fn failed(code: Code) -> Situation<'static> {
    Situation { failure: Some((code, "it broke")), ..QUIET }
}

#[test]
fn the_route_follows_the_table() {
    let listed = |code| Situation { can_defer: true, rounds_left: true, on_failure: OnFailure::Defer, ..failed(code) };
    let table = [
        ("all is done", QUIET, Route::BranchDone),
        ("there is more", Situation { more_entries: true, ..QUIET }, Route::Continue),
        (
            "a broken result, the first time",
            Situation { can_correct: true, ..failed(Code::MalformedOutput) },
            Route::Correct,
        ),
        ("a broken result, again", failed(Code::MalformedOutput), Route::Fail),
        ("only a broken result is corrected", Situation { can_correct: true, ..failed(Code::Permanent) }, Route::Fail),
        (
            "a broken result of an item, the first time",
            Situation { can_correct: true, ..listed(Code::MalformedOutput) },
            Route::Correct,
        ),
        ("an item that may heal", listed(Code::Unavailable), Route::Defer { due: DUE }),
        ("an item that is asked to wait", listed(Code::RateLimited), Route::Defer { due: DUE }),
        ("an item that did not answer", listed(Code::Timeout), Route::Defer { due: DUE }),
        ("an item that did not heal", Situation { rounds_left: false, ..listed(Code::Unavailable) }, Route::GiveUp),
        ("an item that can't heal", listed(Code::NotFound), Route::GiveUp),
        ("a person wants to know", Situation { on_failure: OnFailure::Ask, ..failed(Code::Permanent) }, Route::Person),
        ("nobody wants to know", failed(Code::Permanent), Route::Fail),
        ("outside of a list nothing is set aside", failed(Code::Unavailable), Route::Fail),
        (
            "a failure counts before what is left",
            Situation { more_entries: true, ..failed(Code::Refused) },
            Route::Fail,
        ),
    ];
    for (what, situation, expected) in table {
        let (found, reason) = route(&situation);
        assert_eq!(found, expected, "{what}");
        assert_eq!(reason.contains("it broke"), situation.failure.is_some(), "{what}: {reason}");
    }
}
