//! The demonstration: a page patrol over a shop on this machine, killed in the middle and resumed.
//!
//! The shop runs here; each patrol is a `loopforge` process of its own, so that one can really be killed. What is printed at
//! the end is counted, not claimed: from the archive, and from the shop's own log. Anything unexpected makes it fail.

mod findings;
mod patrol;
pub mod shop;

use std::path::{Path, PathBuf};

use serde_json::json;

use crate::error::{CliError, Exit};
use findings::Findings;
use patrol::{Patrol, Until};
use shop::{Day, Shop, ShopOptions};

/// Steps of the second patrol that are archived when its process is killed.
const STEPS_BEFORE_THE_KILL: usize = 20;

/// Runs the demonstration in `folder`, or in a new folder under the current one.
///
/// # Errors
/// A part of it can't be started, or a patrol did not end as it must.
pub async fn run(folder: Option<PathBuf>, json: bool) -> Result<Exit, CliError> {
    let folder = folder.unwrap_or_else(|| PathBuf::from("loopforge-demo"));
    prepare(&folder)?;
    let folder =
        folder.canonicalize().map_err(|error| CliError::io("the demonstration's folder can't be read", error))?;
    let shop = Shop::start(Day::First, ShopOptions::default())
        .await
        .map_err(|error| CliError::io("the shop can't open a port on 127.0.0.1", error))?;
    let say = |text: &str| {
        if !json {
            crate::tell!("{text}")
        }
    };
    say(&format!(
        "A shop with {} product pages is open at {}. LoopForge patrols it on two days.",
        shop.product_urls().len(),
        shop.base_url()
    ));
    let patrol = Patrol::new(&folder, &shop, json)?;

    say("\nDay 1: the first patrol. There is nothing to compare with yet.");
    patrol.start(Until::End).await?;

    shop.set_day(Day::Second);
    say("\nDay 2: prices, stocks and texts have changed; some pages misbehave.");
    let killed = patrol.start(Until::Steps(STEPS_BEFORE_THE_KILL)).await?;
    let archived = findings::archived_pages(&folder, &killed).await?;
    let at_the_kill = shop.log().len();
    say(&format!(
        "\nThe process got SIGKILL after {STEPS_BEFORE_THE_KILL} steps: {} pages were archived by then. It is resumed:",
        archived.len()
    ));
    let resumed = patrol.resume().await?;

    let found = Findings::collect(&folder, &shop, &resumed, &archived, at_the_kill).await?;
    if json {
        crate::tell!("{}", json!({ "demo": found.document() }));
    } else {
        crate::tell!("\n{}", found.text());
        crate::tell!("{}", further(&folder, &resumed));
    }
    match found.problems().as_slice() {
        [] => Ok(Exit::Success),
        problems => Err(CliError::new(
            Exit::Failed,
            format!("the demonstration did not end as it must: {}", problems.join("; ")),
        )),
    }
}

/// Where a person can look now.
fn further(folder: &Path, run: &str) -> String {
    let folder = folder.display();
    let short = &run[run.len() - 6..];
    format!(
        "Look further:\n  \
         loopforge --store {folder}/loopforge.db show {short}\n  \
         loopforge --store {folder}/loopforge.db trace {short}\n  \
         loopforge --store {folder}/loopforge.db effects {short}\n  \
         loopforge --store {folder}/loopforge.db graph {short}\n\
         The task file is {folder}/task.yaml; it patrols any list of URLs:\n  \
         loopforge run {folder}/task.yaml --input pages=@urls.txt\n\
         (In a checkout, `cargo run --release --` stands for `loopforge`.)"
    )
}

/// Makes the folder and the task file. What an earlier demonstration left there is its own and is removed.
fn prepare(folder: &Path) -> Result<(), CliError> {
    const TASK: &str = include_str!("../../../../examples/page-patrol/task.yaml");
    const MARK: &str = ".loopforge-demo";
    let io = |error| CliError::io(&format!("`{}` can't be written to", folder.display()), error);
    if folder.join(MARK).exists() {
        std::fs::remove_dir_all(folder).map_err(io)?;
    } else if folder.is_dir() && std::fs::read_dir(folder).map_err(io)?.next().is_some() {
        return Err(CliError::usage(format!("`{}` holds other files, which were left alone", folder.display()))
            .hint("choose another with `--folder`"));
    }
    std::fs::create_dir_all(folder).map_err(io)?;
    std::fs::write(folder.join(MARK), "made by `loopforge demo`, which removes this folder when it is started again\n")
        .map_err(io)?;
    std::fs::write(folder.join("task.yaml"), TASK).map_err(io)
}
