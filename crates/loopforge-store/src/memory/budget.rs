//! Budgets of accounts and messages to runs, in memory.

use std::collections::{BTreeMap, HashMap};

use loopforge_core::id::{RecordId, RunId};
use loopforge_core::model::Amount;
use loopforge_core::time::Timestamp;

use crate::{AccountDay, Day, Message, Reservation, Reserved};

/// What accounts use.
#[derive(Debug, Clone, Default)]
pub(super) struct Budgets {
    days: HashMap<(String, Day), AccountDay>,
    calls: BTreeMap<(RunId, u32), Held>,
}

#[derive(Debug, Clone)]
struct Held {
    account: String,
    day: Day,
    amount: Amount,
    settled: bool,
}

impl Budgets {
    pub(super) fn account(&self, account: &str, day: Day) -> AccountDay {
        let nothing = AccountDay { day, spent: Amount::NOTHING, reserved: Amount::NOTHING };
        self.days.get(&(account.to_owned(), day)).copied().unwrap_or(nothing)
    }

    fn change(&mut self, account: &str, day: Day, change: impl FnOnce(&mut AccountDay)) {
        let mut then = self.account(account, day);
        change(&mut then);
        self.days.insert((account.to_owned(), day), then);
    }

    pub(super) fn reserve(&mut self, wanted: &Reservation, now: Timestamp) -> Reserved {
        let (key, day) = ((wanted.run, wanted.call), Day::of(now));
        match self.calls.get(&key).cloned() {
            Some(held) if held.settled => return Reserved::Granted(self.account(&held.account, held.day)),
            Some(earlier) => {
                self.calls.remove(&key);
                let less = |then: &mut AccountDay| then.reserved = then.reserved.less(earlier.amount);
                self.change(&earlier.account, earlier.day, less);
            }
            None => {}
        }
        let today = self.account(&wanted.account, day);
        if !wanted.limit.allows(today.spent + today.reserved + wanted.amount) {
            return Reserved::Refused(today);
        }
        self.change(&wanted.account, day, |today| today.reserved += wanted.amount);
        let held = Held { account: wanted.account.clone(), day, amount: wanted.amount, settled: false };
        self.calls.insert(key, held);
        Reserved::Granted(self.account(&wanted.account, day))
    }

    pub(super) fn settle(&mut self, run: RunId, call: u32, spent: Amount) {
        let Some(held) = self.calls.get_mut(&(run, call)).filter(|held| !held.settled) else { return };
        held.settled = true;
        let held = held.clone();
        self.change(&held.account, held.day, |then| {
            then.reserved = then.reserved.less(held.amount);
            then.spent += spent;
        });
    }

    pub(super) fn open(&self, run: RunId) -> Vec<(u32, Amount)> {
        let of_run = self.calls.range((run, 0)..=(run, u32::MAX)).filter(|(_, held)| !held.settled);
        of_run.map(|((_, call), held)| (*call, held.amount)).collect()
    }

    pub(super) fn forget(&mut self, run: RunId) {
        self.calls.retain(|(of, _), _| *of != run);
    }
}

/// What people tell a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Inbox(Vec<(Message, bool)>);

impl Inbox {
    pub(super) fn post(&mut self, message: &Message) {
        self.0.push((message.clone(), false));
    }

    pub(super) fn has(&self, id: RecordId) -> bool {
        self.0.iter().any(|(there, _)| there.id == id)
    }

    pub(super) fn waiting(&self) -> Vec<Message> {
        self.0.iter().filter(|(_, taken)| !taken).map(|(message, _)| message.clone()).collect()
    }

    pub(super) fn taken(&mut self, ids: &[RecordId]) {
        for (_, taken) in self.0.iter_mut().filter(|(message, _)| ids.contains(&message.id)) {
            *taken = true;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|(_, taken)| *taken)
    }
}
