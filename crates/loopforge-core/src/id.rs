//! Names of things: newtypes, so that a run can't be passed where a step is meant.
//!
//! Ids made from randomness or time are made outside (the core has neither); here they are only carried, written and
//! read. Text forms have a prefix (`run_...`) and sort by time.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

/// A text that is not an id of the wanted kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a {kind}: expected {expected}")]
pub struct InvalidId {
    /// What was given.
    pub text: String,
    /// What it should have been.
    pub kind: &'static str,
    /// How such an id looks.
    pub expected: &'static str,
}

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident, $prefix:literal, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(pub Uuid);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!($prefix, "{}"), self.0.simple())
            }
        }

        impl FromStr for $name {
            type Err = InvalidId;
            fn from_str(text: &str) -> Result<Self, InvalidId> {
                text.strip_prefix($prefix)
                    .and_then(|rest| Uuid::try_parse(rest).ok())
                    .map(Self)
                    .ok_or_else(|| InvalidId {
                        text: text.to_owned(),
                        kind: $kind,
                        expected: concat!($prefix, " and 32 hexadecimal digits"),
                    })
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}

uuid_id!(
    /// One execution of a task. UUID v7, so that runs sort by the time of their start.
    RunId, "run_", "run id"
);
uuid_id!(
    /// A record, named by its writer: a commit can succeed although its acknowledgement is lost, and then this id tells
    /// whether the record at a position is the writer's own.
    RecordId, "rec_", "record id"
);
uuid_id!(
    /// Drawn at random by whoever claims a run. An epoch alone is not enough: a failover can issue it twice.
    LeaseId, "lease_", "lease id"
);

macro_rules! number_id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The one after this.
            #[must_use]
            pub const fn next(self) -> Self {
                Self(self.0 + 1)
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

number_id!(
    /// Position of a record in its run's archive: 1 for the first, without gaps. 0 means "before the first".
    Seq(u64)
);
number_id!(
    /// Number of a step in its run: 1 for the first.
    StepNo(u64)
);
number_id!(
    /// Position of an action within its step: 0 for the first.
    ActionNo(u32)
);
number_id!(
    /// A branch of a run: what works on one subgoal, or on one item of its list.
    BranchId(u64)
);

/// BLAKE3 of exact bytes: the name of a blob or of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// The hash of `bytes`.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self(*blake3::hash(bytes).as_bytes())
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(blake3::Hash::from_bytes(self.0).to_hex().as_str())
    }
}

impl FromStr for ContentHash {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        blake3::Hash::from_hex(text).map(|hash| Self(*hash.as_bytes())).map_err(|_| InvalidId {
            text: text.to_owned(),
            kind: "content hash",
            expected: "64 hexadecimal digits",
        })
    }
}

impl Serialize for ContentHash {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ContentHash {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<str>::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// The idempotency key of one effect: the same for every try of the same action, different for every other action.
///
/// 32 hexadecimal digits, made from run, incarnation, step and action by [`StepToken::of`]. It travels to the target
/// as `Idempotency-Key` (HTTP) or `LOOPFORGE_STEP_TOKEN` (process).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StepToken(pub String);

impl StepToken {
    /// The token of an action. It depends on nothing that a restart changes: no counter of the process, no clock.
    ///
    /// `incarnation` rises when a run is rolled back, so that work done anew is a new effect.
    #[must_use]
    pub fn of(run: RunId, incarnation: u32, step: StepNo, action: ActionNo) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key("loopforge 2026-11-30 step token");
        hasher.update(run.0.as_bytes());
        hasher.update(&incarnation.to_le_bytes());
        hasher.update(&step.0.to_le_bytes());
        hasher.update(&action.0.to_le_bytes());
        Self(hasher.finalize().to_hex().as_str()[..32].to_owned())
    }
}

impl fmt::Display for StepToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
