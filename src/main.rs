//! The `shardrace` binary.

use shardrace::Config;
use shardrace::internals::base::has_ended;
use shardrace::internals::config::CommandLineEnd;
use shardrace::internals::config::logging;
use shardrace::internals::server::{self, Platform, daemon};
use shardrace::internals::tools::output::{Output, complain};
use shardrace::internals::tools::{check_aof, import};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1).peekable();
    match arguments.peek().and_then(|first| first.to_str()) {
        Some("check-aof") => check_aof::run(arguments),
        Some("import") => import_from_redis(),
        _ => serve(),
    }
}

fn serve() -> ExitCode {
    let config = match Config::from_command_line(std::env::args_os()) {
        Ok(config) => config,
        Err(CommandLineEnd::Asked(text)) => return print(&text),
        Err(CommandLineEnd::Refused(reason)) => return refuse(&reason),
    };
    if daemon::is_wanted(&config) {
        return daemon::start(&config).unwrap_or_else(|reason| refuse(&reason));
    }
    daemon::leave_session();
    let log_file = match logging::start(&config) {
        Ok(log_file) => log_file,
        Err(reason) => return refuse(&reason),
    };
    config.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    end_process_on_panic();
    match server::run(config, Platform { log_file, ..Platform::default() }) {
        Ok(()) => ExitCode::SUCCESS,
        Err(reason) => {
            tracing::error!("Fatal: {reason}");
            ExitCode::FAILURE
        }
    }
}

/// `shardrace import PATH --dir DIR`: starts no server.
fn import_from_redis() -> ExitCode {
    match import::run(std::env::args_os()) {
        Ok(report) => print(&format!("{report}\n")),
        Err(reason) => refuse(&reason),
    }
}

fn print(text: &str) -> ExitCode {
    let mut out = Output::default();
    write!(out, "{text}");
    out.finish("shardrace", ExitCode::SUCCESS)
}

fn refuse(reason: &str) -> ExitCode {
    complain(format_args!("shardrace: {}", reason.trim_end()));
    ExitCode::FAILURE
}

/// A task that panics would leave clients waiting for replies that never come; a process that ends does not.
fn end_process_on_panic() {
    let report = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if has_ended(panic.payload()) {
            return;
        }
        report(panic);
        eprintln!("shardrace: a panic is a bug of the server: the process ends so that no client waits for ever");
        std::process::abort();
    }));
}
