//! What can be typed.

use clap::{Args, Parser, Subcommand};

use crate::commands;

/// Runs agent tasks to their end: archived step by step, resumed after any crash, effects made once.
#[derive(Debug, Parser)]
#[command(name = "loopforge", version, max_term_width = 100, propagate_version = true)]
pub struct Cli {
    /// Holds for all commands.
    #[command(flatten)]
    pub global: Global,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Options of all commands.
#[derive(Debug, Clone, Args)]
pub struct Global {
    /// Where the archive lives: `sqlite:PATH`, a path, or `postgres://...`
    #[arg(
        long,
        global = true,
        env = "LOOPFORGE_STORE",
        default_value = "sqlite:.loopforge/loopforge.db",
        hide_env_values = true
    )]
    pub store: String,
    /// Data as JSON on standard output (JSON Lines for streams)
    #[arg(long, global = true)]
    pub json: bool,
    /// Say more on standard error; twice for everything
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
}

/// The subcommands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// See it: a page patrol over a real shop on loopback, killed in the middle and resumed
    Demo(commands::demo::Demo),
    /// Write a task file to start from
    Init(commands::init::Init),
    /// Check a task file and say what would run
    Check(commands::check::Check),
    /// Make the first steps of a task, and say from them what the whole will use
    Estimate(commands::estimate::Estimate),
    /// Run a task file
    Run(commands::run::Run),
    /// Go on with a run after a crash, an interruption, an answer or a limit
    Resume(commands::resume::Resume),
    /// Carry out the runs that are due, beside other workers
    Worker(commands::worker::Worker),
    /// Answer what a run waits for
    Resolve(commands::resolve::Resolve),
    /// Tell a run something while it goes on, or for when it goes on
    Note(commands::tell::Note),
    /// Stop work on a run, so that a resume goes on from there
    Pause(commands::tell::Pause),
    /// Let a paused run go on
    Unpause(commands::tell::Unpause),
    /// Stop a run for good
    Cancel(commands::tell::Cancel),
    /// Show what a run used and has left, or grant it more
    Budget(commands::budget::Budget),
    /// List the runs of the store, the newest first
    Ls(commands::ls::Ls),
    /// Show how far a run is, what it waits for, and how it ended
    Show(commands::show::Show),
    /// Follow a run that another process works on, until it ends
    Watch(commands::watch::Watch),
    /// Draw a run: its subgoals, items, steps and actions
    Graph(commands::graph::Graph),
    /// Read a run's archive, or one step of it in full
    Trace(commands::trace::Trace),
    /// Read a run's state, also as it was, or set a value
    State(commands::state::State),
    /// List what a run changed in the world, or may have changed
    Effects(commands::effects::Effects),
    /// Write a run out as JSON Lines, with everything that it is made of
    Export(commands::export::Export),
    /// Take over a run that `export` wrote out, from this store or another
    Import(commands::import::Import),
    /// Remove ended runs by rule, and what no run needs any more
    Gc(commands::gc::Gc),
    /// Check this machine and the store
    Doctor(commands::doctor::Doctor),
    /// Print the JSON Schema of task files, for editors
    Schema(commands::schema::Schema),
    /// Print completions for a shell
    Completions(commands::completions::Completions),
}
