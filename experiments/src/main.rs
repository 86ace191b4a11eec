//! The `experiments` binary: the command line of the lab.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use experiments::catalog::Definition;
use experiments::interrupt::Interrupted;
use experiments::process::{CHILD_COMMAND, become_program};
use experiments::results::RunFolder;
use experiments::run::{self, Options};
use experiments::{memory, report, sweep};

/// Runs sweeps over the engines and their peers, and writes a report.
#[derive(Debug, Parser)]
#[command(version)]
struct CommandLine {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Debug, Subcommand)]
enum Subcommands {
    /// Measure, or continue to measure, and write the report
    Run(RunFlags),
    /// Rebuild summary and report from the raw data of a run
    Report {
        /// The folder of the run
        folder: PathBuf,
    },
    /// Become the program of a trial (the lab starts servers and generator through this)
    #[command(name = CHILD_COMMAND, hide = true)]
    Child {
        parent: i32,
        program: PathBuf,
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Print the resident memory for each key, by shape of the data
    Memory {
        /// Keys in each server; half as many elements where the shape is one large key
        #[arg(long, value_name = "N", default_value_t = 1_000_000)]
        keys: usize,
        /// The servers
        #[arg(long, num_args = 1.., value_name = "NAME", default_values = ["mutex", "dashmap", "actor", "redis-server"])]
        servers: Vec<String>,
        /// A server by command, as for `run`
        #[arg(long, value_name = "NAME=COMMAND", env = "EXPERIMENTS_SERVERS", value_delimiter = ';', value_parser = Definition::parse)]
        server: Vec<Definition>,
    },
    /// List the sweeps
    List {
        /// The folder of sweeps
        #[arg(long, value_name = "DIR", default_value = "experiments/sweeps")]
        sweeps: PathBuf,
    },
}

#[derive(Debug, Args)]
struct RunFlags {
    /// Sweeps: files, folders, or names in experiments/sweeps [default: all but the quick one]
    #[arg(long, num_args = 1.., value_name = "DIR|FILE|NAME")]
    sweeps: Vec<PathBuf>,
    /// Folder of the run [default: a new one in experiments/results, or an unfinished one there]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// The quick sweep, or a shortened version of those named
    #[arg(long)]
    quick: bool,
    /// Continue the run in --out, or a matching unfinished one: the default
    #[arg(long, conflicts_with = "fresh")]
    resume: bool,
    /// Begin a new run even where one could be continued
    #[arg(long)]
    fresh: bool,
    /// A server by command, with {port} and {dir}; or, by path alone, a Redis-like one. Replaces or joins those of the sweeps
    #[arg(long, value_name = "NAME=COMMAND", env = "EXPERIMENTS_SERVERS", value_delimiter = ';', value_parser = Definition::parse)]
    server: Vec<Definition>,
    /// The load generator [default: loadgen beside this executable]
    #[arg(long, value_name = "PATH")]
    loadgen: Option<PathBuf>,
    /// Gives the order of the trials [default: drawn from the clock]
    #[arg(long)]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    match execute(CommandLine::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("experiments: {error:#}");
            ExitCode::from(if error.is::<Interrupted>() { 130 } else { 1 })
        }
    }
}

fn execute(command: Subcommands) -> Result<()> {
    match command {
        Subcommands::Run(flags) => run::run(&flags.into()),
        Subcommands::Report { folder } => {
            println!("{}", report::write(&RunFolder::open(&folder)?)?.display());
            Ok(())
        }
        Subcommands::Memory { keys, servers, server } => {
            memory::run(&memory::Options { keys, servers, definitions: server })
        }
        Subcommands::Child { parent, program, arguments } => become_program(parent, &program, &arguments),
        Subcommands::List { sweeps } => {
            for sweep in sweep::load_folder(&sweeps)? {
                println!("{:<12} {}", sweep.name, sweep.question);
            }
            Ok(())
        }
    }
}

impl From<RunFlags> for Options {
    fn from(flags: RunFlags) -> Self {
        Self {
            sweeps: flags.sweeps,
            sweeps_home: "experiments/sweeps".into(),
            results_home: "experiments/results".into(),
            out: flags.out,
            quick: flags.quick,
            fresh: flags.fresh,
            definitions: flags.server,
            generator: flags.loadgen,
            seed: flags.seed,
        }
    }
}
