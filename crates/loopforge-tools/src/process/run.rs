//! One run of a command: start the helper, feed it, collect what comes, and see the end of all of it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, Command};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::helper::SUPERVISOR_ARGUMENTS;
use super::wire::{Confinement, Order, Report};

/// The part of standard error that is kept: its end.
const STDERR_KEPT: usize = 8 * 1024;
/// How long the helper has to end everything; its own patience, and some for a loaded machine.
const END_PATIENCE: Duration = Duration::from_secs(10);
/// How long to read on once all processes are gone. Only a pipe that was handed to a process elsewhere is open then.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);

/// A command and what surrounds it.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) helper: PathBuf,
    pub(super) command: Vec<String>,
    pub(super) folder: PathBuf,
    pub(super) environment: BTreeMap<OsString, OsString>,
    pub(super) confinement: Option<Confinement>,
    pub(super) document: Vec<u8>,
    pub(super) timeout: Duration,
    pub(super) cancel: CancellationToken,
    pub(super) output_cap: usize,
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// Nothing was started.
    NotStarted { message: String, missing: bool },
    /// The command ended by itself.
    Exited(i32),
    /// A signal that we did not send ended it.
    Signalled(i32),
    /// It was ended at its time limit.
    TimedOut,
    /// It was ended because the call was cancelled.
    Cancelled,
    /// It was ended because it printed more than the cap.
    TooMuchOutput,
    /// It was ended because it had started too many processes.
    TooManyProcesses,
    /// The helper broke; the command may have run.
    Lost(String),
}

/// What a run left.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) ending: Ending,
    pub(super) stdout: Vec<u8>,
    /// The end of standard error, and whether something before it was cut.
    pub(super) stderr: (Vec<u8>, bool),
    /// Processes that were left behind by a command that ended by itself, and were ended.
    pub(super) left_behind: usize,
    /// Processes that could not be ended.
    pub(super) immortal: usize,
}

impl Outcome {
    fn without_output(ending: Ending) -> Self {
        Self { ending, stdout: Vec::new(), stderr: (Vec::new(), false), left_behind: 0, immortal: 0 }
    }
}

/// Runs a command to its end, whichever comes first: its own, the time limit, a cancellation, a cap.
///
/// When this returns, the command and all that it started are gone, unless [`Outcome::immortal`] says otherwise. When
/// the future is dropped, the helper sees its socket close and ends them too.
pub(super) async fn run(run: Run) -> Outcome {
    if run.cancel.is_cancelled() {
        let message = "the call was cancelled before the command was started".to_owned();
        return Outcome::without_output(Ending::NotStarted { message, missing: false });
    }
    let order = Order { confinement: run.confinement.clone(), document_size: run.document.len() as u64 };
    let started = order.to_frame().and_then(|frame| Ok((frame, start(&run)?)));
    let (frame, (mut child, control)) = match started {
        Ok(started) => started,
        Err(error) => {
            let message = format!("cannot start the helper `{}`: {error}", run.helper.display());
            return Outcome::without_output(Ending::NotStarted { message, missing: false });
        }
    };
    let (over, too_much) = oneshot::channel();
    let mut stdout = spawn_reader(child.stdout.take(), |source| read_all(source, run.output_cap, over));
    let mut stderr = spawn_reader(child.stderr.take(), read_tail);

    let (reports, mut orders) = control.into_split();
    let mut reports = Reports { lines: BufReader::new(reports), pid: None, last: None };
    let stop = tokio::select! {
        // First: a command that ended in the last moment has ended.
        biased;
        () = converse(&frame, &run.document, &mut orders, &mut reports) => None,
        () = run.cancel.cancelled() => Some(Ending::Cancelled),
        Ok(()) = too_much => Some(Ending::TooMuchOutput),
        () = tokio::time::sleep(run.timeout) => Some(Ending::TimedOut),
    };
    if stop.is_some() {
        let _ = orders.shutdown().await;
        let _ = tokio::time::timeout(END_PATIENCE, reports.read_to_end()).await;
    }
    end_helper(&mut child, reports.pid).await;
    let stdout_rest = tokio::time::timeout(DRAIN_PATIENCE, &mut stdout);
    let stderr_rest = tokio::time::timeout(DRAIN_PATIENCE, &mut stderr);
    let (stdout, stderr) = tokio::join!(stdout_rest, stderr_rest);
    let stdout = stdout.ok().and_then(Result::ok);
    let stderr = stderr.ok().and_then(Result::ok).unwrap_or_default();
    conclude(stop, reports, stdout, stderr)
}

fn conclude(
    stop: Option<Ending>,
    reports: Reports,
    stdout: Option<Option<Vec<u8>>>,
    stderr: (Vec<u8>, bool),
) -> Outcome {
    let mut outcome = Outcome { stderr, ..Outcome::without_output(Ending::Lost(String::new())) };
    let started = reports.pid.is_some();
    let ending = match reports.last {
        Some(Report::Ended { code, signal, left_behind, immortal, too_many }) => {
            (outcome.left_behind, outcome.immortal) = (left_behind, immortal);
            match (code, signal) {
                _ if too_many => Ending::TooManyProcesses,
                (Some(code), _) => Ending::Exited(code),
                (None, Some(signal)) => Ending::Signalled(signal),
                (None, None) => Ending::Lost("the command could not be ended".to_owned()),
            }
        }
        Some(Report::NotConfined { message }) if started => Ending::Lost(message),
        Some(Report::NotConfined { message }) => {
            Ending::NotStarted { message: format!("the sandbox could not be built: {message}"), missing: false }
        }
        Some(Report::NotExecuted { message, errno }) => {
            let missing = matches!(
                errno.map(rustix::io::Errno::from_raw_os_error),
                Some(rustix::io::Errno::NOENT | rustix::io::Errno::ACCESS)
            );
            Ending::NotStarted { message, missing }
        }
        Some(Report::Started { .. }) => Ending::Lost("the helper was ended from outside".to_owned()),
        None => Ending::Lost(
            "the helper did not answer: a program that embeds LoopForge calls `process::sandbox_main` at the start of \
             `main`, or names a helper"
                .to_owned(),
        ),
    };
    outcome.ending = match stop {
        // Refused before the limit was noticed: then nothing was started, and that is the better news.
        Some(_) if matches!(ending, Ending::NotStarted { .. }) => ending,
        Some(stop) => stop,
        None => match stdout {
            // It ended by itself, but after the cap, or its pipe is open somewhere else still.
            Some(None) => Ending::TooMuchOutput,
            Some(Some(bytes)) => {
                outcome.stdout = bytes;
                ending
            }
            None if matches!(ending, Ending::NotStarted { .. }) => ending,
            None => Ending::Lost("its output never ended: a process outside of the call holds it open".to_owned()),
        },
    };
    outcome
}

fn start(run: &Run) -> io::Result<(Child, UnixStream)> {
    let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
    ours.set_nonblocking(true)?;
    let control = UnixStream::from_std(ours)?;
    let child = Command::new(&run.helper)
        .args(SUPERVISOR_ARGUMENTS)
        .args(&run.command)
        .current_dir(&run.folder)
        .env_clear()
        .envs(&run.environment)
        // A group of its own: Ctrl-C in the terminal is LoopForge's to handle.
        .process_group(0)
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?;
    Ok((child, control))
}

/// Gives the order, then listens until the helper is done.
async fn converse(frame: &[u8], document: &[u8], orders: &mut OwnedWriteHalf, reports: &mut Reports) {
    // A write that fails means that the helper broke off; its report, or the lack of one, tells why.
    if orders.write_all(frame).await.is_ok() {
        let _ = orders.write_all(document).await;
    }
    reports.read_to_end().await;
}

/// What the helper told so far.
struct Reports {
    lines: BufReader<OwnedReadHalf>,
    pid: Option<i32>,
    last: Option<Report>,
}

impl Reports {
    async fn read_to_end(&mut self) {
        let mut line = String::new();
        while self.lines.read_line(&mut line).await.is_ok_and(|length| length > 0) {
            if let Ok(report) = serde_json::from_str(&line) {
                if let Report::Started { pid } = report {
                    self.pid = Some(pid);
                }
                self.last = Some(report);
            }
            line.clear();
        }
    }
}

/// Waits for the helper; a helper that doesn't end is killed, and the command's own group with it.
async fn end_helper(child: &mut Child, command: Option<i32>) {
    if tokio::time::timeout(DRAIN_PATIENCE, child.wait())
        .await
        .is_ok_and(|status| status.is_ok_and(|status| status.success()))
    {
        return;
    }
    // Not the orderly way. The command is the leader of a group of its own, which can't have been reused while its
    // leader's parent had not reaped it.
    if let Ok(None) = child.try_wait() {
        if let Some(group) = command.and_then(Pid::from_raw) {
            let _ = kill_process_group(group, Signal::KILL);
        }
        let _ = child.kill().await;
    }
}

fn spawn_reader<S, F, T>(source: Option<S>, read: impl FnOnce(S) -> F) -> AbortOnDropHandle<T>
where
    F: Future<Output = T> + Send + 'static,
    T: Send + Default + 'static,
{
    AbortOnDropHandle::new(match source {
        Some(source) => tokio::spawn(read(source)),
        None => tokio::spawn(async { T::default() }),
    })
}

/// Reads all; `None`, and a word through `over`, when it is more than `cap`.
async fn read_all(mut source: impl AsyncRead + Unpin, cap: usize, over: oneshot::Sender<()>) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    let limit = cap as u64 + 1;
    // An error of a pipe is its end.
    let _ = (&mut source).take(limit).read_to_end(&mut all).await;
    if all.len() > cap {
        let _ = over.send(());
        return None;
    }
    Some(all)
}

/// Reads all and keeps the end.
async fn read_tail(mut source: impl AsyncRead + Unpin) -> (Vec<u8>, bool) {
    let mut kept = Vec::new();
    let mut cut = false;
    let mut buffer = vec![0; 16 * 1024];
    while let Ok(length) = source.read(&mut buffer).await {
        if length == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..length]);
        if kept.len() > 2 * STDERR_KEPT {
            kept.drain(..kept.len() - STDERR_KEPT);
            cut = true;
        }
    }
    if kept.len() > STDERR_KEPT {
        kept.drain(..kept.len() - STDERR_KEPT);
        cut = true;
    }
    (kept, cut)
}
