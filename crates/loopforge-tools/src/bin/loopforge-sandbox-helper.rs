//! The sandbox's helper as a program of its own, for tests and for programs that embed LoopForge and can't be re-executed.

use std::process::ExitCode;

use loopforge_tools::process;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == process::HELPER_ARGUMENT) {
        return process::sandbox_main(arguments);
    }
    eprintln!("this program is started by LoopForge to run commands in a sandbox");
    ExitCode::from(64)
}
