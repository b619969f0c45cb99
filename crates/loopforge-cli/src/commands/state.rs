//! `loopforge state RUN [get KEY [MEMBER] | set KEY VALUE]`

use std::collections::BTreeMap;
use std::io::Write;

use clap::{Args, Subcommand};
use comfy_table::Cell;
use loopforge_core::expression::StateValue;
use loopforge_core::id::{RunId, Seq};
use loopforge_core::json::Json;
use loopforge_core::payload::Payload;
use loopforge_store::Store;
use serde_json::json;

use crate::context::{Context, user};
use crate::error::{CliError, Exit};
use crate::output::{Output, table};
use crate::text::{bytes, line, preview, safe};
use crate::view::{self, glance};

/// Read a run's state, also as it was, or set a value.
#[derive(Debug, Args)]
pub struct State {
    /// The run; a few characters of its id's end will do. The last one when absent
    pub run: Option<String>,
    /// The last run (this is the default)
    #[arg(long, conflicts_with = "run")]
    pub last: bool,
    /// List the keys as they were after this record
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
    /// What to do. All keys are listed when absent
    #[command(subcommand)]
    pub action: Option<Action>,
}

/// What to do with a key.
#[derive(Debug, Subcommand)]
pub enum Action {
    /// Print a value
    Get(Get),
    /// Set a value, as a person; the run must not be worked on
    Set(Set),
}

/// Print a value.
#[derive(Debug, Args)]
pub struct Get {
    /// The key
    pub key: String,
    /// The member of the map under that key
    pub member: Option<String>,
    /// As it was after this record
    #[arg(long, value_name = "SEQ")]
    pub at: Option<u64>,
    /// All versions, the oldest first, instead of the value
    #[arg(long, conflicts_with = "at")]
    pub history: bool,
}

/// Set a value.
#[derive(Debug, Args)]
pub struct Set {
    /// The key
    pub key: String,
    /// The value, as JSON; what is no JSON is a text
    pub value: String,
    /// The member of the map under that key; without it the key as a whole is replaced
    #[arg(long)]
    pub member: Option<String>,
    /// The value is a text, also when it looks like JSON
    #[arg(long)]
    pub text: bool,
}

impl State {
    /// Carries it out.
    ///
    /// # Errors
    /// No such run or key; for `set` also a run that somebody works on, or that has ended: nothing was changed.
    pub async fn run(self, context: &Context) -> Result<Exit, CliError> {
        if let Some(Action::Set(set)) = self.action {
            return set.run(context, self.run.as_deref()).await;
        }
        let store = context.look()?;
        let id = context.find_run(store.as_ref(), self.run.as_deref()).await?;
        let head = store.run(id).await?.head;
        let mut out = Output::new();
        match self.action {
            Some(Action::Get(get)) if get.history => get.history(context, store.as_ref(), id, &mut out).await?,
            Some(Action::Get(get)) => {
                let at = moment(get.at.or(self.at), head)?;
                get.value(context, store.as_ref(), id, at, &mut out).await?;
            }
            Some(Action::Set(_)) | None => {
                list(context, store.as_ref(), id, moment(self.at, head)?, &mut out).await?;
            }
        }
        out.finish()?;
        Ok(Exit::Success)
    }
}

fn moment(at: Option<u64>, head: Seq) -> Result<Option<Seq>, CliError> {
    match at.map(Seq) {
        Some(at) if at > head => Err(CliError::usage(format!("there is no record {at} yet: the last one is {head}"))),
        at => Ok(at),
    }
}

async fn list(
    context: &Context,
    store: &dyn Store,
    run: RunId,
    at: Option<Seq>,
    out: &mut Output,
) -> Result<(), CliError> {
    let state = store.state(run, at).await?;
    if context.json {
        let mut whole = serde_json::Map::new();
        for (key, value) in &state {
            whole.insert(key.clone(), whole_value(store, value).await?);
        }
        return out.json(&json!({ "run": run, "at": at, "state": whole }));
    }
    if state.is_empty() {
        crate::say!("{run} has nothing in its state");
        return Ok(());
    }
    let mut rows = table(&["KEY", "SIZE", "VALUE"], "VALUE");
    for (key, value) in &state {
        let (size, shown) = match value {
            StateValue::Single(payload) => (bytes(payload.size()), glance(payload, 80)),
            StateValue::Members(members) => {
                let size = members.values().map(Payload::size).sum();
                let names: Vec<&str> = members.keys().take(5).map(String::as_str).collect();
                let more = if members.len() > names.len() { ", …" } else { "" };
                (bytes(size), line(&format!("{} members: {}{more}", members.len(), names.join(", ")), 80))
            }
        };
        rows.add_row(vec![Cell::new(line(key, 60)), Cell::new(size), Cell::new(shown)]);
    }
    out.table(&rows, 0)
}

async fn whole_value(store: &dyn Store, value: &StateValue) -> Result<Json, CliError> {
    Ok(match value {
        StateValue::Single(payload) => opened(store, payload).await?,
        StateValue::Members(members) => {
            let mut map = serde_json::Map::new();
            for (member, payload) in members {
                map.insert(member.clone(), opened(store, payload).await?);
            }
            Json::Object(map)
        }
    })
}

async fn opened(store: &dyn Store, payload: &Payload) -> Result<Json, CliError> {
    let (value, problems) = view::open(store, payload).await?;
    for problem in problems {
        crate::say!("problem: {}", safe(&problem));
    }
    Ok(value)
}

impl Get {
    async fn value(
        self,
        context: &Context,
        store: &dyn Store,
        run: RunId,
        at: Option<Seq>,
        out: &mut Output,
    ) -> Result<(), CliError> {
        let found = store.state_value(run, &self.key, at).await?;
        let Some(found) = found.filter(|value| !matches!(value, StateValue::Members(members) if members.is_empty()))
        else {
            let keys: Vec<String> = store.state(run, at).await?.into_keys().collect();
            return Err(CliError::usage(format!("the state has no key `{}`", self.key)).hint(known("keys", &keys)));
        };
        let value = match (&self.member, &found) {
            (None, value) => whole_value(store, value).await?,
            (Some(member), StateValue::Members(members)) => match members.get(member) {
                Some(payload) => opened(store, payload).await?,
                None => return Err(self.no_member(members)),
            },
            (Some(member), StateValue::Single(payload)) => {
                let mut value = opened(store, payload).await?;
                match value.get_mut(member.as_str()) {
                    Some(part) => part.take(),
                    None => return Err(self.no_member(&BTreeMap::new())),
                }
            }
        };
        if context.json {
            return out.json(&value);
        }
        // All of it: whoever asks for one value wants to read it.
        let (text, _) = preview(&value, usize::MAX);
        Ok(writeln!(out, "{text}")?)
    }

    fn no_member(&self, members: &BTreeMap<String, Payload>) -> CliError {
        let member = self.member.as_deref().unwrap_or_default();
        let names: Vec<String> = members.keys().cloned().collect();
        CliError::usage(format!("`{}` has no member `{member}`", self.key)).hint(known("members", &names))
    }

    async fn history(self, context: &Context, store: &dyn Store, run: RunId, out: &mut Output) -> Result<(), CliError> {
        let versions = store.state_history(run, &self.key, self.member.as_deref()).await?;
        if versions.is_empty() {
            return Err(CliError::usage(format!("`{}` was never set", self.key)));
        }
        let mut rows = table(&["RECORD", "TIME", "MEMBER", "VALUE"], "VALUE");
        for version in &versions {
            if context.json {
                let value = opened(store, &version.value).await?;
                let at = version.at.to_string();
                out.json(&json!({ "seq": version.seq, "at": at, "member": version.member, "value": value }))?;
                continue;
            }
            rows.add_row(vec![
                Cell::new(version.seq),
                Cell::new(version.at),
                Cell::new(line(version.member.as_deref().unwrap_or_default(), 40)),
                Cell::new(glance(&version.value, 80)),
            ]);
        }
        if context.json { Ok(()) } else { out.table(&rows, 0) }
    }
}

fn known(what: &str, names: &[String]) -> String {
    /// More than these help nobody.
    const SHOWN: usize = 20;
    if names.is_empty() {
        return format!("there are no {what}");
    }
    let more = if names.len() > SHOWN { ", …" } else { "" };
    let shown: Vec<String> = names.iter().take(SHOWN).map(|name| line(name, 60)).collect();
    format!("its {what} are: {}{more}", shown.join(", "))
}

impl Set {
    async fn run(self, context: &Context, run: Option<&str>) -> Result<Exit, CliError> {
        let engine = context.engine()?;
        let id = context.find_run(engine.store().as_ref(), run).await?;
        let value = if self.text {
            Json::String(self.value)
        } else {
            serde_json::from_str(&self.value).unwrap_or(Json::String(self.value))
        };
        let seq = engine.set_state(id, &self.key, self.member.as_deref(), value, &user()).await?;
        if context.json {
            let mut out = Output::new();
            out.json(&json!({ "run": id, "key": self.key, "member": self.member, "seq": seq }))?;
            out.finish()?;
        }
        crate::say!("set, as record {seq}. Read it with: loopforge state {id} get {}", line(&self.key, 60));
        Ok(Exit::Success)
    }
}
