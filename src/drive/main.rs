//! The `shardrace-scaling` binary: drives one engine without sockets and prints what it found as a line of JSON.

use shardrace::internals::drive::{Options, run};
use shardrace::internals::tools::output::{Output, complain};
use std::process::ExitCode;

const NAME: &str = "shardrace-scaling";

fn main() -> ExitCode {
    let mut out = Output::default();
    let mut code = ExitCode::SUCCESS;
    if let Some(text) = Options::help_or_version(std::env::args_os()) {
        write!(out, "{text}");
    } else {
        match Options::of(std::env::args_os()).and_then(|options| run(&options)) {
            Ok(line) => writeln!(out, "{line}"),
            Err(reason) => {
                complain(format_args!("{NAME}: {}", reason.trim_end()));
                code = ExitCode::FAILURE;
            }
        }
    }
    out.finish(NAME, code)
}
