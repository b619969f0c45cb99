//! Budgets: reserved before each call, settled after it, and never overspent; what is done once they are used up; what people tell
//! a run while it goes on.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use loopforge::{EngineError, Resume, Told};
use loopforge_core::model::{Amount, ErrorKind, ModelError, Money, Reply, Request, Usage};
use loopforge_core::record::{About, Answer as Said, Event, Order, RunOutcome, RunStatus};
use loopforge_core::run::RunState;
use loopforge_core::task::Stage;
use loopforge_models::{Answer, CallContext, Description, Exchange, Model};
use loopforge_store::Store;
use loopforge_store::memory::MemoryStore;
use serde_json::json;
use tokio::sync::{Mutex, Notify};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::bench::{Bench, Scripted, Story};
use crate::thinker::{Thinker, calls};

/// What each call uses, by its provider's word.
const USED: u64 = 1_600;

fn task(budget: &str) -> String {
    format!(
        "
model: {{ use: test/thinker, fallback: [test/cheap] }}
tools: {{ look: {{ builtin: look }} }}
loop: {{ mode: react, max_tokens_per_step: 100, max_calls_per_tool: 1000, max_steps: 200 }}
budget: {budget}
subgoals: [{{ id: find, goal: Find it., done_when: has(state.found) }}]
"
    )
}

const PRICES: &str = "prices: { test/thinker: { input: 3, output: 15 }, test/cheap: { input: 0.3, output: 1.5 } }";

fn using(mut reply: Reply) -> Reply {
    reply.usage = Usage { input: Some(USED - 100), output: Some(100), ..Usage::default() };
    reply
}

/// Looks at another page each time, and finds it at the `last` one.
fn looking(last: usize) -> Thinker {
    Thinker::new(move |number, _| {
        Ok(using(if number < last {
            calls(&[("look", json!({ "page": number }))])
        } else {
            calls(&[("set_state", json!({ "key": "found", "value": true }))])
        }))
    })
}

fn bench(budget: &str, model: &Thinker) -> Bench {
    let bench = Bench::new(&task(budget)).tool("look", &Scripted::echo());
    bench.model("test/thinker", model).model("test/cheap", &looking(usize::MAX))
}

fn fold(bench: &Bench, story: &Story) -> RunState {
    let mut state = RunState::new(story.report.run, &bench.prepared().task);
    story.records.iter().for_each(|record| state.apply(record).unwrap());
    state
}

fn stages(story: &Story) -> Vec<Stage> {
    let stage = |event: &Event| match event {
        Event::BudgetStaged(event) => Some(event.stage),
        _ => None,
    };
    story.records.iter().filter_map(|record| stage(&record.event)).collect()
}

fn stopped_at(story: &Story) -> &str {
    story.report.stopped.as_ref().map_or("", |stopped| stopped.limit.as_str())
}

#[tokio::test]
async fn a_run_stops_before_its_budget_is_overspent_and_goes_on_where_it_was_with_more() {
    let model = looking(9);
    let bench = bench("{ tokens: 8000, on_exceed: [stop] }", &model);
    let story = bench.run().await;
    assert_eq!(story.report.status, RunStatus::Paused);
    assert_eq!(stopped_at(&story), "budget.tokens");
    assert_eq!(stages(&story), [Stage::Stop]);
    let state = fold(&bench, &story);
    let asked = model.prompts().len();
    assert_eq!(state.spent().tokens, USED * asked as u64);
    assert!(asked >= 3 && state.spent().tokens <= 8000, "{asked}");
    assert_eq!(state.reserved(), Amount::NOTHING);
    // A resume alone is no new budget.
    let story = bench.resume(story.report.run).await;
    assert_eq!((stopped_at(&story), model.prompts().len()), ("budget.tokens", asked));
    let more = Amount { tokens: 50_000, cost: Money::ZERO };
    let run = bench.engine().resume(story.report.run, Resume { more, ..Resume::default() }).await.unwrap();
    let story = bench.drive(run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("limits_raised"), 1);
    assert_eq!(fold(&bench, &story).spent().tokens, USED * 9);
    let prompts = model.prompts();
    assert_eq!(prompts[asked].tools, prompts[0].tools);
    assert_eq!(prompts.len(), 9);
}

#[tokio::test]
async fn the_model_and_the_archive_are_told_when_little_is_left() {
    let model = looking(30);
    let story = bench("{ tokens: 20000, on_exceed: [stop] }", &model).run().await;
    let warned: Vec<u8> = story
        .records
        .iter()
        .filter_map(|record| match &record.event {
            Event::BudgetWarned(event) => Some(event.percent),
            _ => None,
        })
        .collect();
    assert_eq!(warned, [80, 95]);
    let last = model.prompts().last().unwrap().messages.last().unwrap().text();
    assert!(last.contains("Tokens left: ") && last.contains(" of 20000."), "{last}");
    assert!(!model.prompts()[0].messages.last().unwrap().text().contains("Tokens left"));
}

#[tokio::test]
async fn the_ladder_goes_down_in_order_and_a_person_s_word_grants_as_much_again() {
    let model = looking(usize::MAX);
    let cheap = looking(usize::MAX);
    let budget =
        format!("{{ cost_usd: 0.033, {PRICES}, on_exceed: [summary_only, smaller_model, semi_manual, stop] }}");
    let bench = bench(&budget, &model).model("test/cheap", &cheap);
    let story = bench.run().await;
    assert_eq!(stages(&story), [Stage::SummaryOnly, Stage::SmallerModel, Stage::SemiManual]);
    assert_eq!(story.report.status, RunStatus::Waiting);
    assert_eq!(story.report.questions[0].about, About::Limit);
    assert!(!cheap.prompts().is_empty());
    let limit = Money::parse("0.033").unwrap();
    let state = fold(&bench, &story);
    assert!(state.spent().cost <= limit && state.spent().cost.picodollars > limit.picodollars / 2);
    // Only the last steps are shown: two, each with its call and its result, and a line for all before.
    assert!(cheap.prompts().last().unwrap().messages.len() <= 7);
    let asked = model.prompts().len();
    bench.answer(&story, Said::Continue).await;
    let story = bench.resume(story.report.run).await;
    let state = fold(&bench, &story);
    assert_eq!(state.budget_limit(&bench.prepared().task).cost, Some(limit + limit));
    assert!(state.spent().cost <= limit + limit);
    assert!(model.prompts().len() > asked, "all that was taken away came back");
}

#[tokio::test]
async fn what_a_provider_does_not_tell_counts_as_reserved() {
    let model = Thinker::new(|number, _| {
        let mut reply = calls(&[("look", json!({ "page": number }))]);
        reply.usage = Usage::default();
        Ok(reply)
    });
    let bench = bench("{ tokens: 10000, on_exceed: [stop] }", &model);
    let story = bench.run().await;
    let state = fold(&bench, &story);
    assert_eq!(stopped_at(&story), "budget.tokens");
    assert!(model.prompts().len() < 10);
    assert_eq!(state.spent(), state.models.estimated);
    assert!(state.spent().tokens > 5_000 && state.spent().tokens <= 10_000, "{:?}", state.spent());
}

#[tokio::test]
async fn a_budget_of_money_needs_a_price() {
    let bench = bench("{ cost_usd: 5 }", &looking(3));
    let refused = bench.start().await.err().unwrap();
    assert!(
        matches!(&refused, EngineError::Invalid(reason) if reason.contains("nobody knows what `test/thinker` costs"))
    );
    assert_eq!(bench.store.runs(1).await.unwrap(), []);
}

/// BUD-01 and the proof of the layer: spent never exceeds the account's day, and little of it is left over.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_runs_at_once_never_overspend_their_account() {
    const LIMIT: u64 = 200_000;
    let model = looking(usize::MAX);
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let budget = format!("{{ account: team-a, per_day: {{ tokens: {LIMIT} }}, on_exceed: [stop] }}");
    let bench = Bench::on(Arc::clone(&store), &task(&budget)).tool("look", &Scripted::echo());
    let bench = bench.model("test/thinker", &model).model("test/cheap", &model);
    let mut runs = JoinSet::new();
    for _ in 0..100 {
        let run = bench.start().await.unwrap();
        runs.spawn(run.drive(CancellationToken::new()));
    }
    while let Some(report) = runs.join_next().await {
        let report = report.unwrap().unwrap();
        let limit = report.stopped.map(|stopped| stopped.limit);
        assert_eq!(limit.as_deref(), Some("budget.per_day.tokens"));
    }
    let today = store.account("team-a").await.unwrap();
    assert_eq!(today.reserved, Amount::NOTHING);
    assert_eq!(today.spent.tokens, USED * model.prompts().len() as u64);
    assert!(today.spent.tokens <= LIMIT && today.spent.tokens > LIMIT - 20_000, "{}", today.spent.tokens);
}

/// Its first call waits until it is cancelled; the next ones find it.
struct Hanging {
    description: Description,
    asked: AtomicUsize,
    prompts: Mutex<Vec<Request>>,
    is_asked: Notify,
}

impl fmt::Debug for Hanging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hanging")
    }
}

impl Hanging {
    fn new() -> Arc<Self> {
        let description = Description {
            name: "test/thinker".to_owned(),
            provider: "test".to_owned(),
            model: "thinker".to_owned(),
            context_window: None,
            max_output_tokens: None,
            address: String::new(),
        };
        let (asked, prompts, is_asked) = (AtomicUsize::new(0), Mutex::default(), Notify::new());
        Arc::new(Self { description, asked, prompts, is_asked })
    }
}

#[async_trait]
impl Model for Hanging {
    fn describe(&self) -> &Description {
        &self.description
    }

    async fn call(&self, request: &Request, context: &CallContext) -> Answer {
        self.prompts.lock().await.push(request.clone());
        let result = if self.asked.fetch_add(1, Ordering::SeqCst) == 0 {
            self.is_asked.notify_one();
            context.cancel.cancelled().await;
            Err(ModelError::new(ErrorKind::Cancelled, "the call was cancelled").billed(Usage::default()))
        } else {
            Ok(using(calls(&[("set_state", json!({ "key": "found", "value": true }))])))
        };
        Answer { result, exchange: Exchange::default() }
    }
}

fn hanging(model: &Arc<Hanging>) -> Bench {
    let budget = "{ account: team-b, tokens: 100000 }";
    let bench = Bench::new(&task(budget)).tool("look", &Scripted::echo());
    bench.any_model("test/thinker", Arc::clone(model) as Arc<dyn Model>).model("test/cheap", &looking(2))
}

#[tokio::test]
async fn a_note_that_must_be_heard_now_gives_the_call_up_and_stands_in_the_next_prompt() {
    let model = Hanging::new();
    let bench = hanging(&model);
    let run = bench.start().await.unwrap();
    let id = run.id();
    let at_work = tokio::spawn(run.drive(CancellationToken::new()));
    model.is_asked.notified().await;
    let note = Order::Note { text: "It is on page 7 第七页.".to_owned(), now: true };
    assert_eq!(bench.engine().say(id, note, "ann").await.unwrap(), Told::Posted);
    let story = bench.story(at_work.await.unwrap().unwrap()).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!((story.count("note_taken"), story.count("model_failed"), story.count("model_called")), (1, 1, 2));
    let prompts = model.prompts.lock().await;
    assert!(prompts[1].messages.iter().any(|message| message.text().contains("It is on page 7 第七页.")));
    // What was reserved for the call that was given up counts, with the run and with the account.
    let state = fold(&bench, &story);
    assert!(state.models.estimated.tokens > 0);
    let today = bench.store.account("team-b").await.unwrap();
    assert_eq!((today.spent.tokens, today.reserved), (state.spent().tokens, Amount::NOTHING));
}

#[tokio::test]
async fn a_note_to_a_run_that_nobody_works_on_is_read_when_it_goes_on() {
    let model = Thinker::new(|number, _| {
        Ok(if number == 1 {
            calls(&[("ask_person", json!({ "question": "Where?" }))])
        } else {
            calls(&[("set_state", json!({ "key": "found", "value": true }))])
        })
    });
    let bench = bench("{ tokens: 100000 }", &model);
    let story = bench.run().await;
    let note = Order::Note { text: "Mind the gap.".to_owned(), now: false };
    bench.engine().say(story.report.run, note, "ann").await.unwrap();
    bench.engine().tell(story.report.run, None, "there", "ann").await.unwrap();
    let story = bench.resume(story.report.run).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    assert_eq!(story.count("note_taken"), 1);
    let second = &model.prompts()[1];
    assert!(second.messages.iter().any(|message| message.text().contains("Mind the gap.")));
    assert_eq!(bench.store.inbox(story.report.run).await.unwrap(), []);
    let late = Order::Note { text: "Too late.".to_owned(), now: false };
    assert!(matches!(bench.engine().say(story.report.run, late, "ann").await, Err(EngineError::Ended { .. })));
}

#[tokio::test]
async fn a_run_that_another_worker_has_is_paused_goes_on_and_is_cancelled_by_message() {
    let model = Hanging::new();
    let bench = hanging(&model);
    let run = bench.start().await.unwrap();
    let id = run.id();
    let at_work = tokio::spawn(run.drive(CancellationToken::new()));
    model.is_asked.notified().await;
    assert_eq!(bench.engine().say(id, Order::Pause, "ann").await.unwrap(), Told::Posted);
    let story = bench.story(at_work.await.unwrap().unwrap()).await;
    assert_eq!(story.report.status, RunStatus::Paused);
    assert_eq!(fold(&bench, &story).paused.as_deref(), Some("ann paused it"));
    // The call that was under way is booked, although nobody knows what it used.
    assert_eq!(bench.store.reservations(id).await.unwrap(), []);
    assert_eq!(bench.engine().say(id, Order::Unpause, "ann").await.unwrap(), Told::Archived);
    assert_eq!(bench.store.run(id).await.unwrap().status, RunStatus::Running);
    model.asked.store(0, Ordering::SeqCst);
    let run = bench.engine().resume(id, Resume::default()).await.unwrap();
    let at_work = tokio::spawn(run.drive(CancellationToken::new()));
    model.is_asked.notified().await;
    assert_eq!(bench.engine().say(id, Order::Cancel, "ann").await.unwrap(), Told::Posted);
    let story = bench.story(at_work.await.unwrap().unwrap()).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Cancelled));
}

/// BUD-03, BUD-04: an owner that dies with a call under way leaves nothing reserved for ever and nothing uncounted.
#[tokio::test]
async fn a_call_whose_owner_died_counts_with_what_was_reserved_once() {
    let model = Hanging::new();
    let bench = hanging(&model);
    let run = bench.start().await.unwrap();
    let id = run.id();
    let at_work = tokio::spawn(run.drive(CancellationToken::new()));
    model.is_asked.notified().await;
    at_work.abort();
    assert!(at_work.await.unwrap_err().is_cancelled());
    let reserved = bench.store.reservations(id).await.unwrap();
    assert_eq!(reserved.len(), 1);
    let owner = bench.store.run(id).await.unwrap().owner.unwrap();
    bench.store.void_lease(id, &owner.id).await.unwrap();
    let story = bench.resume(id).await;
    assert_eq!(story.report.outcome, Some(RunOutcome::Succeeded));
    let state = fold(&bench, &story);
    assert_eq!(state.models.estimated, reserved[0].1);
    assert_eq!(state.spent().tokens, reserved[0].1.tokens + USED);
    let today = bench.store.account("team-b").await.unwrap();
    assert_eq!((today.spent, today.reserved), (state.spent(), Amount::NOTHING));
}
