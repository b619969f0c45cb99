//! A hook for tests of recovery: the process kills itself at a chosen place.
//!
//! `LOOPFORGE_KILL_AT` holds one place, as `docs/design/testing.md` describes:
//!
//! | Place | The process gets SIGKILL |
//! |---|---|
//! | `record:N:before` | right before the append that holds record N is given to the store; earlier ones may be under way |
//! | `record:N:after` | right after that append was committed |
//! | `call:N:before` | before the N-th tool call of this process starts |
//! | `call:N:after` | after that call has returned, before its outcome is archived |
//!
//! SIGKILL can't be caught, so nothing is tidied up: what a test finds is what a crash leaves. Unset, a place costs one load.

use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use loopforge_core::id::Seq;
use rustix::process::{Signal, getpid, kill_process};

/// The variable.
const VARIABLE: &str = "LOOPFORGE_KILL_AT";

/// On which side of a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    Before,
    After,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Record,
    Call,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    kind: Kind,
    number: u64,
    when: When,
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            format!(
                "{VARIABLE}: `{text}` is not `record:N:before`, `record:N:after`, `call:N:before` or `call:N:after`"
            )
        };
        let [kind, number, when] = text.split(':').collect::<Vec<_>>()[..] else { return Err(wrong()) };
        let kind = match kind {
            "record" => Kind::Record,
            "call" => Kind::Call,
            _ => return Err(wrong()),
        };
        let when = match when {
            "before" => When::Before,
            "after" => When::After,
            _ => return Err(wrong()),
        };
        Ok(Self { kind, number: number.parse().map_err(|_| wrong())?, when })
    }
}

fn chosen() -> Option<Place> {
    static CHOSEN: OnceLock<Option<Place>> = OnceLock::new();
    *CHOSEN.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        text.parse().map_err(|wrong| tracing::error!("{wrong}")).ok()
    })
}

/// An append of records up to `last` is about to be made, or was committed.
pub(crate) fn at_append(last: Seq, when: When) {
    if let Some(place) = chosen()
        && place.kind == Kind::Record
        && place.when == when
        && place.number <= last.0
    {
        die();
    }
}

/// A tool call is about to be made; returns its number in this process, for [`after_call`].
pub(crate) fn before_call() -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let Some(place) = chosen() else { return 0 };
    let number = CALLS.fetch_add(1, Ordering::Relaxed) + 1;
    if place == (Place { kind: Kind::Call, number, when: When::Before }) {
        die();
    }
    number
}

/// The call has returned.
pub(crate) fn after_call(number: u64) {
    if chosen() == Some(Place { kind: Kind::Call, number, when: When::After }) {
        die();
    }
}

fn die() -> ! {
    // Without permission to signal itself a process can't be what a test wants to look at.
    let _ = kill_process(getpid(), Signal::KILL);
    loop {
        std::thread::park();
    }
}
