//! The `shardrace-scaling` binary: drives one engine without sockets and prints what it found as a line of JSON.

use shardrace::internals::drive::{Options, run};
use std::process::ExitCode;

fn main() -> ExitCode {
    if let Some(text) = Options::help_or_version(std::env::args_os()) {
        print!("{text}");
        return ExitCode::SUCCESS;
    }
    match Options::of(std::env::args_os()).and_then(|options| run(&options)) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(reason) => {
            eprintln!("shardrace-scaling: {}", reason.trim_end());
            ExitCode::FAILURE
        }
    }
}
