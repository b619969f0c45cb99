//! Tasks and worlds at random.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Duration;

use loopforge_core::json::{self, Json};
use loopforge_core::record::{About, Answer};
use loopforge_core::tool::Code;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::{collection, option};
use serde_json::json;

use super::sim::{Ask, Brings, Script, Settle};

/// What a run is made from, as data that shrinks well.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    subgoals: Vec<SubgoalPlan>,
    /// Branches at once in the whole run.
    pub(crate) parallel: u32,
    pub(crate) max_steps: u64,
    ask_at_limit: bool,
    replan_after: u32,
    settle: Settle,
    seed: u64,
    order: u64,
}

#[derive(Debug, Clone)]
struct SubgoalPlan {
    /// Bits: which of the subgoals before it are needed.
    needs: u8,
    /// Items, and how many at once.
    foreach: Option<(u32, u32)>,
    on_failure: Option<&'static str>,
    when: Option<&'static str>,
    done_when: Option<&'static str>,
    entries: Vec<EntryPlan>,
}

#[derive(Debug, Clone)]
struct EntryPlan {
    kind: Kind,
    when: Option<&'static str>,
}

#[derive(Debug, Clone)]
enum Kind {
    Call { tool: &'static str, or_else: Option<&'static str>, save: bool, broken: bool },
    Set { broken: bool },
    Wait(u32),
    Enter(&'static str),
}

fn kind() -> impl Strategy<Value = Kind> {
    let tool = prop_oneof![3 => Just("fetch"), 1 => Just("parse"), 2 => Just("push")];
    let alternative = option::weighted(0.3, prop_oneof![Just("mirror"), Just("push")]);
    prop_oneof![
        6 => (tool, alternative, any::<bool>(), proptest::bool::weighted(0.05))
            .prop_map(|(tool, or_else, save, broken)| Kind::Call { tool, or_else, save, broken }),
        2 => proptest::bool::weighted(0.15).prop_map(|broken| Kind::Set { broken }),
        1 => (1_u32..90).prop_map(Kind::Wait),
        // A state that can always be entered, and one that never can.
        1 => prop_oneof![4 => Just(Kind::Enter("OPEN")), 1 => Just(Kind::Enter("CLOSED"))],
    ]
}

fn subgoal() -> impl Strategy<Value = SubgoalPlan> {
    let truth = || prop_oneof![4 => Just("inputs.yes"), 3 => Just("!inputs.yes"), 1 => Just("no_such_name")];
    let entry = (kind(), option::weighted(0.3, truth())).prop_map(|(kind, when)| EntryPlan { kind, when });
    let on_failure = option::of(prop_oneof![Just("fail"), Just("defer"), Just("ask")]);
    let done_when = option::weighted(0.2, prop_oneof![3 => Just("inputs.yes"), 1 => Just("size(state) > 1000")]);
    (
        any::<u8>(),
        option::of((0_u32..7, 1_u32..5)),
        on_failure,
        option::weighted(0.2, truth()),
        done_when,
        collection::vec(entry, 1..4),
    )
        .prop_map(|(needs, foreach, on_failure, when, done_when, entries)| SubgoalPlan {
            needs,
            foreach,
            on_failure,
            when,
            done_when,
            entries,
        })
}

pub(crate) fn plan() -> impl Strategy<Value = Plan> {
    let settle =
        prop_oneof![Just(Settle::StatusQuery), Just(Settle::Person), Just(Settle::Again), Just(Settle::LateAnswer)];
    let limits = (1_u32..6, 1_u64..40, any::<bool>(), 1_u32..4);
    (collection::vec(subgoal(), 1..5), limits, settle, any::<u64>(), any::<u64>()).prop_map(
        |(subgoals, (parallel, max_steps, ask_at_limit, replan_after), settle, seed, order)| Plan {
            subgoals,
            parallel,
            max_steps,
            ask_at_limit,
            replan_after,
            settle,
            seed,
            order,
        },
    )
}

impl Plan {
    /// The same, so that its end doesn't depend on which of two calls ends first: nothing that one item does is read by another.
    pub(crate) fn unordered(mut self) -> Self {
        self.max_steps = 100_000;
        self.replan_after = 100_000;
        for subgoal in &mut self.subgoals {
            // The first failure ends the list: what else was begun by then is a matter of time.
            if let (Some((_, parallel)), None | Some("fail")) = (&mut subgoal.foreach, subgoal.on_failure) {
                *parallel = 1;
            }
        }
        self
    }

    pub(crate) fn script(&self) -> Script {
        let subgoals: Vec<Json> = self.subgoals.iter().enumerate().map(|(place, plan)| plan.json(place)).collect();
        let task = json!({
            "name": "t",
            "goal": "g",
            "subgoals": subgoals,
            "loop": {
                "max_steps": self.max_steps, "on_max_steps": if self.ask_at_limit { "ask" } else { "stop" },
                "parallel": self.parallel, "replan_after": self.replan_after,
            },
            "states": { "initial": "NEW", "transitions": { "NEW": ["OPEN"], "OPEN": ["OPEN"] } },
            "evaluator": { "criteria": ["inputs.yes"] },
        });
        let seed = self.seed;
        let mut script = Script::new(task, move |ask| world(seed, ask)).input("yes", json!(true));
        for (place, subgoal) in self.subgoals.iter().enumerate() {
            let items = 0..subgoal.foreach.map_or(0, |(items, _)| items);
            // Large items are kept apart.
            let items = items.map(|item| if item % 3 == 2 { json!([item, "x".repeat(1500)]) } else { json!([item]) });
            script = script.input(&format!("list{place}"), items.collect());
        }
        script.settle = self.settle;
        script.order = self.order;
        script.people(|question| (question.about == About::Failure).then_some(Answer::Skip))
    }
}

impl SubgoalPlan {
    fn json(&self, place: usize) -> Json {
        let needs: Vec<String> =
            (0..place).filter(|need| self.needs & (1 << need) != 0).map(|need| format!("s{need}")).collect();
        let each = self.foreach.is_some();
        let steps: Vec<Json> =
            self.entries.iter().enumerate().map(|(entry, plan)| plan.json(&format!("{place}_{entry}"), each)).collect();
        let mut json = json!({ "id": format!("s{place}"), "needs": needs, "steps": steps });
        for (key, value) in [("on_failure", self.on_failure), ("when", self.when), ("done_when", self.done_when)] {
            if let Some(value) = value {
                json[key] = json!(value);
            }
        }
        if let Some((_, parallel)) = self.foreach {
            json["foreach"] = json!({ "in": format!("inputs.list{place}"), "as": "item", "parallel": parallel });
        }
        json
    }
}

impl EntryPlan {
    fn json(&self, place: &str, each: bool) -> Json {
        let item = if each { "${ item }" } else { "alone" };
        let mut json = match &self.kind {
            Kind::Call { tool, or_else, save, broken } => {
                let what = if *broken { "${ no_such_name }" } else { item };
                let mut json = json!({ "call": tool, "with": { "what": what, "place": place } });
                if let Some(other) = or_else {
                    json["or_else"] = json!([{ "call": other, "with": { "what": item, "instead": place } }]);
                }
                if *save {
                    let member = if each { "[string(item[0])]" } else { "" };
                    json["save"] = json!(format!("kept_{place}{member}"));
                }
                json
            }
            Kind::Set { broken } => {
                let value = if *broken { "${ inputs.no_such_input }" } else { "of ${ inputs.yes }" };
                json!({ "set": { format!("a_{place}"): "constant", format!("b_{place}"): value } })
            }
            Kind::Wait(seconds) => json!({ "wait": format!("{seconds}s") }),
            Kind::Enter(state) => json!({ "enter": state }),
        };
        if let Some(when) = self.when {
            json["when"] = json!(when);
        }
        json
    }
}

/// What a call brings: always the same for the same call, try and round.
fn world(seed: u64, ask: &Ask<'_>) -> Brings {
    let mut hasher = DefaultHasher::new();
    (seed, ask.tool, json::canonical(ask.arguments)).hash(&mut hasher);
    let draw = hasher.finish();
    let data = match draw % 7 {
        0 => json!({ "page": "y".repeat(3000), "no": draw % 1000 }),
        1 => Json::Null,
        _ => json!({ "no": draw % 1000 }),
    };
    let first = ask.attempt == 1;
    match draw / 7 % 20 {
        0 => Brings::Fails(Code::RateLimited),
        1 if first => Brings::Fails(Code::RateLimited),
        2 if ask.rounds == 0 => Brings::Fails(Code::RateLimited),
        3 => Brings::FailsAsking(Code::RateLimited, Duration::from_secs(30)),
        4 if ask.rounds == 0 => Brings::FailsAsking(Code::RateLimited, Duration::from_secs(120)),
        5 if ask.tool != "push" => Brings::Fails(Code::MalformedOutput),
        6 => Brings::Fails(Code::Permanent),
        7 => Brings::Fails(Code::NotFound),
        8 => Brings::Refusal,
        9 if first => Brings::Lost { happened: true },
        10 if first => Brings::Lost { happened: false },
        11 if first && ask.tool == "push" => Brings::Fails(Code::Unavailable),
        _ => Brings::Data(data),
    }
}
