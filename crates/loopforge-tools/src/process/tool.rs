//! The tool itself.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use async_trait::async_trait;
use loopforge_core::json::Json;
use loopforge_core::task::{Grants, Sandbox};
use loopforge_core::tool::{Code, Contract, Effect, ToolResult};
use serde_json::json;

use super::grants::{PROCESSES, Place, confinement};
use super::output::{Output, describe, stderr_text};
use super::program::{find_on_path, where_it_was_looked_for};
use super::run::{Ending, Outcome, Run, run};
use super::template::CommandTemplate;
use super::{DEFAULT_OUTPUT_CAP, helper, sandbox_support};
use crate::{CallContext, EffectStatus, Tool};

/// Where programs are looked for when LoopForge itself has no `PATH`.
const DEFAULT_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What makes a process tool.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// Program and arguments; `{name}` stands for an argument of the call.
    pub command: Vec<String>,
    /// What the tool promises.
    pub contract: Contract,
    /// The command that tells whether an effect happened.
    pub status: Option<Vec<String>>,
    /// What the command may reach. `None` grants nothing beyond what programs need to start, and the workspace.
    pub sandbox: Option<Sandbox>,
    /// Bytes that the command may print; more ends it.
    pub output_cap: usize,
    /// The program that is called as helper, with [`super::HELPER_ARGUMENT`] first. `None` is the running program.
    pub helper: Option<PathBuf>,
}

impl ProcessConfig {
    /// A sandboxed command with defaults for all else.
    #[must_use]
    pub fn new(command: Vec<String>, contract: Contract) -> Self {
        Self { command, contract, status: None, sandbox: None, output_cap: DEFAULT_OUTPUT_CAP, helper: None }
    }
}

/// Why something can't be a process tool. Nothing was started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProcessError {
    /// The command is empty.
    #[error("the command names no program")]
    NoProgram,
    /// The program would be chosen by an argument of the call.
    #[error("the program `{program}` depends on an argument: name the program itself, or write `{{{{` for a brace")]
    ProgramFromArgument {
        /// The first word.
        program: String,
    },
    /// No command line can carry it.
    #[error("the command's word {word:?} holds a NUL character")]
    NulInCommand {
        /// The word.
        word: String,
    },
    /// The command names an argument that calls don't have.
    #[error(
        "the command names the argument `{name}`, which the input schema lacks: declare it, or write `{{{{{name}}}}}` for \
         the text in braces"
    )]
    UnknownArgument {
        /// What stands in braces.
        name: String,
    },
    /// The program is not there.
    #[error("there is no program `{program}`{hint}")]
    ProgramNotFound {
        /// As the command names it.
        program: String,
        /// Where it was looked for, and what to do.
        hint: String,
    },
    /// This kernel can't build the sandbox.
    #[error(
        "processes can't be sandboxed here ({missing}): use a newer kernel, or allow the process everything with `sandbox: off`"
    )]
    NoSandbox {
        /// What the kernel lacks.
        missing: String,
    },
}

/// A command of the host.
#[derive(Debug)]
pub struct ProcessTool {
    contract: Contract,
    command: CommandTemplate,
    status: Option<CommandTemplate>,
    /// `None` is `sandbox: off`.
    grants: Option<Grants>,
    output_cap: usize,
    helper: PathBuf,
}

impl ProcessTool {
    /// Makes a tool of a command. Nothing is started, and whether the program exists is seen by the first call.
    ///
    /// # Errors
    /// - [`ProcessError::NoProgram`], [`ProcessError::ProgramFromArgument`], [`ProcessError::NulInCommand`],
    ///   [`ProcessError::UnknownArgument`]: the command can't be filled in.
    /// - [`ProcessError::NoSandbox`]: the kernel lacks Landlock or seccomp.
    pub fn new(config: ProcessConfig) -> Result<Self, ProcessError> {
        let command = CommandTemplate::new(&config.command)?;
        let status = config.status.as_deref().map(CommandTemplate::new).transpose()?;
        let declared = config.contract.input_schema.get("properties");
        for name in command.arguments().chain(status.iter().flat_map(CommandTemplate::arguments)) {
            let of_status = name == "step_token" && status.is_some();
            if declared.is_some_and(|properties| properties.get(name).is_none()) && !of_status {
                return Err(ProcessError::UnknownArgument { name: name.to_owned() });
            }
        }
        let grants = match config.sandbox {
            Some(Sandbox::Switch(_)) => None,
            Some(Sandbox::Grants(grants)) => Some(grants),
            None => Some(Grants::default()),
        };
        if grants.is_some() {
            let support = sandbox_support();
            if !support.is_sufficient() {
                return Err(ProcessError::NoSandbox { missing: support.gaps.join("; ") });
            }
        }
        Ok(Self {
            contract: config.contract,
            command,
            status,
            grants,
            output_cap: config.output_cap,
            helper: config.helper.unwrap_or_else(|| helper::OWN_PROGRAM.into()),
        })
    }

    /// Finds the program that calls will start, with the task's folder `base`.
    ///
    /// # Errors
    /// [`ProcessError::ProgramNotFound`]: calls would fail, having done nothing.
    pub fn find_program(&self, base: &Path) -> Result<PathBuf, ProcessError> {
        let program = self.command.program();
        let path = search_path();
        let found = if program.contains('/') {
            Some(base.join(program)).filter(|path| path.is_file())
        } else {
            find_on_path(program, &path)
        };
        found.ok_or_else(|| ProcessError::ProgramNotFound {
            program: program.to_owned(),
            hint: where_it_was_looked_for(program, &path, base, self.grants.is_some()),
        })
    }

    /// Runs one of the tool's commands.
    async fn run(&self, template: &CommandTemplate, arguments: &Json, context: &CallContext) -> ToolResult {
        let mut command = match template.fill(arguments) {
            Ok(command) => command,
            Err(error) => return ToolResult::failure(Code::InvalidArgument, error.to_string()).not_sent(),
        };
        let prepared = Place::of(&context.base, &context.workspace).and_then(|place| {
            if command[0].contains('/') {
                command[0] = place.base.join(&command[0]).to_string_lossy().into_owned();
            }
            let confinement =
                self.grants.as_ref().map(|grants| confinement(grants, template, &command[0], &place)).transpose()?;
            Ok((place, confinement))
        });
        let (place, confinement) = match prepared {
            Ok(prepared) => prepared,
            Err(problem) => return ToolResult::failure(Code::Internal, problem).not_sent(),
        };
        let path =
            std::env::var("PATH").ok().filter(|path| !path.is_empty()).unwrap_or_else(|| DEFAULT_PATH.to_owned());
        let program = command[0].clone();
        let outcome = run(Run {
            helper: self.helper.clone(),
            command,
            environment: self.environment(&place, &path, context),
            folder: place.base.clone(),
            confinement,
            document: arguments.to_string().into_bytes(),
            timeout: context.timeout,
            cancel: context.cancel.clone(),
            output_cap: self.output_cap,
        })
        .await;
        self.result(outcome, &program, &path, &place.base, context)
    }

    /// The whole environment of the command; nothing is inherited.
    fn environment(&self, place: &Place, path: &str, context: &CallContext) -> BTreeMap<OsString, OsString> {
        let mut environment = BTreeMap::new();
        for name in self.grants.iter().flat_map(|grants| &grants.env) {
            if let Some(value) = std::env::var_os(name) {
                environment.insert(OsString::from(name), value);
            }
        }
        let mut set = |name: &str, value: OsString| environment.insert(name.into(), value);
        set("PATH", path.into());
        set("LANG", "C.UTF-8".into());
        set("HOME", place.workspace.clone().into());
        set("TMPDIR", place.temporary.clone().into());
        set("LOOPFORGE_WORKSPACE", place.workspace.clone().into());
        set("LOOPFORGE_RUN", context.run.to_string().into());
        set("LOOPFORGE_STEP", context.action.step.to_string().into());
        set("LOOPFORGE_ATTEMPT", context.attempt.to_string().into());
        if let Some(token) = &context.step_token {
            set("LOOPFORGE_STEP_TOKEN", token.to_string().into());
        }
        environment
    }

    fn result(&self, outcome: Outcome, program: &str, path: &str, base: &Path, context: &CallContext) -> ToolResult {
        let stderr = stderr_text(&outcome.stderr.0, outcome.stderr.1);
        let effect = self.contract.effect;
        let failure = |code, what: String| ToolResult::failure(code, describe(what, &stderr));
        let broken = if effect == Effect::Write { Code::Unknown } else { Code::Internal };
        let mut result = match outcome.ending {
            Ending::Exited(code) => Output::read(outcome.stdout).into_result(code, &stderr, effect),
            Ending::NotStarted { .. } if context.cancel.is_cancelled() => {
                failure(Code::Cancelled, "the call was cancelled before the command was started".to_owned()).not_sent()
            }
            Ending::NotStarted { message, missing } => {
                let mut message = format!("cannot start `{program}`: {message}");
                if missing {
                    message.push_str(&where_it_was_looked_for(program, path, base, self.grants.is_some()));
                }
                failure(Code::Internal, message).not_sent()
            }
            Ending::Signalled(signal) => failure(broken, format!("the command was ended by {}", signal_name(signal))),
            Ending::TimedOut => failure(
                Code::Timeout,
                format!(
                    "the command did not end within {:?}; it and all that it had started were ended",
                    context.timeout
                ),
            ),
            Ending::Cancelled => failure(
                Code::Cancelled,
                "the call was cancelled; the command and all that it had started were ended".to_owned(),
            ),
            Ending::TooMuchOutput => failure(
                Code::MalformedOutput,
                format!(
                    "the command printed more than {} bytes and was ended: let it write to a file",
                    self.output_cap
                ),
            ),
            Ending::TooManyProcesses => {
                failure(broken, format!("the command had more than {PROCESSES} processes at once, and all were ended"))
            }
            Ending::Lost(message) => failure(broken, format!("`{program}` was lost: {message}")),
        };
        if outcome.left_behind > 0 {
            result =
                result.mark(format!("{} processes that the command had left running were ended", outcome.left_behind));
        }
        if outcome.immortal > 0 {
            result = result.mark(format!("{} processes could not be ended and may still run", outcome.immortal));
        }
        result
    }
}

#[async_trait]
impl Tool for ProcessTool {
    fn contract(&self) -> &Contract {
        &self.contract
    }

    async fn call(&self, arguments: Json, context: &CallContext) -> ToolResult {
        self.run(&self.command, &arguments, context).await
    }

    async fn status(&self, arguments: Json, context: &CallContext) -> EffectStatus {
        let Some(status) = &self.status else {
            return EffectStatus::Unknown("the task names no command that can tell".to_owned());
        };
        let mut question = if arguments.is_object() { arguments } else { json!({ "arguments": arguments }) };
        question["step_token"] = context.step_token.as_ref().map(ToString::to_string).into();
        let result = self.run(status, &question, context).await;
        match (result.code, Output::happened(&result)) {
            (Code::Success, Some(Ok(happened))) => EffectStatus::Happened(happened),
            (Code::Success, Some(Err(()))) | (Code::NotFound, _) => EffectStatus::NotHappened,
            (Code::Success, None) => EffectStatus::Unknown(
                "the status command's answer has not the shape { \"happened\": true | false, \"result\": ... }"
                    .to_owned(),
            ),
            (code, _) => EffectStatus::Unknown(format!(
                "the status command failed ({code}): {}",
                result.error.unwrap_or_default()
            )),
        }
    }
}

/// Where programs are looked for.
fn search_path() -> String {
    std::env::var("PATH").ok().filter(|path| !path.is_empty()).unwrap_or_else(|| DEFAULT_PATH.to_owned())
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        4 => "SIGILL",
        6 => "SIGABRT",
        7 => "SIGBUS",
        8 => "SIGFPE",
        9 => "SIGKILL, perhaps for want of memory",
        11 => "SIGSEGV",
        15 => "SIGTERM",
        24 => "SIGXCPU: its processor time was used up",
        25 => "SIGXFSZ: a file became larger than allowed",
        31 => "SIGSYS",
        _ => "a signal",
    };
    format!("signal {signal} ({name})")
}
