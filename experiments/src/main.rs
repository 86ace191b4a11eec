//! The `experiments` binary: the command line of the lab.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use clap::{Args, Parser, Subcommand};
use experiments::base::files::write_whole;
use experiments::base::interrupt::Interrupted;
use experiments::base::output::{Output, tell};
use experiments::judging::{claims, simulation};
use experiments::measuring::memory;
use experiments::measuring::process::{CHILD_COMMAND, become_program};
use experiments::plan::catalog::Definition;
use experiments::plan::{schedule, sweep};
use experiments::publishing::document::{self, Library};
use experiments::publishing::{locks_or_actors, queries, report, scaling_page, seal, verify};
use experiments::results::folder::{self, RunFolder};
use experiments::run::{self, Options};
use experiments::scaling;

/// The documents whose figures are kept right.
const DOCUMENTS: [&str; 8] = [
    "README.md",
    locks_or_actors::PAGE,
    "docs/scaling.md",
    "docs/results.md",
    "docs/results/multi-key.md",
    "docs/results/planted.md",
    "docs/results/claimants.md",
    "docs/results/lab-checks.md",
];
/// Those of them that a new run of everything is for; the others say themselves which run they discuss.
const DOCUMENTS_OF_A_RUN: [&str; 2] = ["README.md", "docs/results.md"];
const RESULTS: &str = "experiments/results";

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
    /// Rebuild the reports of runs from their raw data
    Report {
        /// The folders of the runs [default: all finished ones in experiments/results]
        folders: Vec<PathBuf>,
        /// The claims to audit
        #[arg(long, value_name = "DIR", default_value = "experiments/claims")]
        claims: PathBuf,
    },
    /// Put the figures of runs into documents, at their queries
    Fill {
        /// The documents [default: all that have queries; with --run README.md and docs/results.md]
        documents: Vec<PathBuf>,
        /// The run whose figures they are to have from now on [default: the one each names]
        #[arg(long, value_name = "DIR")]
        run: Option<PathBuf>,
        /// The claims to audit
        #[arg(long, value_name = "DIR", default_value = "experiments/claims")]
        claims: PathBuf,
    },
    /// Mark figures that no query gives as history of a commit, and note the digests of raw files, in documents
    ///
    /// A section whose figures are as they were sealed keeps its annotation.
    Seal {
        /// The documents [default: all]
        documents: Vec<PathBuf>,
        /// The commit that was measured [default: the last that changed an unchanged document; where a branch left
        /// main]
        #[arg(long, value_name = "COMMIT")]
        commit: Option<String>,
    },
    /// Fail where a report or a document says anything else than raw data give
    Verify {
        /// The documents
        #[arg(default_values = DOCUMENTS)]
        documents: Vec<PathBuf>,
        /// The folder of runs
        #[arg(long, value_name = "DIR", default_value = RESULTS)]
        results: PathBuf,
        /// The claims that are audited
        #[arg(long, value_name = "DIR", default_value = "experiments/claims")]
        claims: PathBuf,
    },
    /// Print how often the lab's own checks err, by simulation: docs/results/lab-checks.txt
    Simulate {
        /// Gives all chance
        #[arg(long, default_value_t = simulation::SEED)]
        seed: u64,
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
        /// The servers, separated by spaces
        #[arg(long, num_args = 1.., value_name = "NAME", default_values = ["mutex", "dashmap", "actor", "redis-server"])]
        servers: Vec<String>,
        /// A server by command, as for `run`
        #[arg(long, value_name = "NAME=COMMAND", env = "EXPERIMENTS_SERVERS", value_delimiter = ';', value_parser = Definition::parse)]
        server: Vec<Definition>,
        /// Only the shapes whose names contain this
        #[arg(long, value_name = "TEXT", default_value = "")]
        shapes: String,
        /// Write the raw lines into a file
        #[arg(long, value_name = "FILE")]
        out: Option<PathBuf>,
    },
    /// Measure the engines without sockets, on 1 thread and on as many as there are cores
    ///
    /// `make scaling` builds the driver; docs/scaling.md says what is measured.
    Scaling {
        /// The grid: which engines, threads and loads
        #[arg(long, value_name = "FILE", default_value = "experiments/scaling/full.toml")]
        grid: PathBuf,
        /// The driver [default: shardrace-scaling beside this executable]
        #[arg(long, value_name = "PATH")]
        driver: Option<PathBuf>,
        /// The file that is written
        #[arg(long, value_name = "FILE", default_value = "experiments/results/scaling/scaling.jsonl")]
        out: PathBuf,
        /// Numbers of threads [default: those of the grid]
        #[arg(long, value_delimiter = ',', value_name = "N,…")]
        threads: Vec<usize>,
        /// Fit it into about this many minutes, by shorter windows
        #[arg(long)]
        minutes: Option<f64>,
        /// Gives the order
        #[arg(long, default_value_t = 1)]
        seed: u64,
        /// Blocks of the grid [default: all]
        #[arg(long, value_delimiter = ',', value_name = "NAME,…")]
        blocks: Vec<String>,
    },
    /// Print the tables of what `scaling` has measured, and what the model predicts
    ScalingTables {
        /// The file
        file: PathBuf,
        /// Print beside it what was predicted from this file: predicted, measured, refuted
        #[arg(long, value_name = "FILE")]
        predicted: Option<PathBuf>,
    },
    /// Make the page "locks or actors, on how many cores?" from what `scaling` has measured
    ///
    /// README.md and docs/locks-or-actors.md name the file from now on; their figure, sentences and tables are written
    /// anew.
    ScalingPage {
        /// The file, within the repository
        file: PathBuf,
        /// The claims to audit: README.md has figures from runs, too
        #[arg(long, value_name = "DIR", default_value = "experiments/claims")]
        claims: PathBuf,
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
    /// Sweeps, separated by spaces: files, folders, or names in experiments/sweeps [default: all but the quick one]
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
    /// A server by command, with {port} and {dir}; or, by path alone, a Redis-like one. Replaces or joins those of the
    /// sweeps
    #[arg(long, value_name = "NAME=COMMAND", env = "EXPERIMENTS_SERVERS", value_delimiter = ';', value_parser = Definition::parse)]
    server: Vec<Definition>,
    /// The load generator [default: loadgen beside this executable]
    #[arg(long, value_name = "PATH")]
    loadgen: Option<PathBuf>,
    /// Gives the order of the trials [default: drawn from the clock]
    #[arg(long)]
    seed: Option<u64>,
    /// Fit the run into about this many minutes: short lists, short windows, all repeats
    #[arg(long, value_name = "MINUTES", conflicts_with = "quick")]
    budget: Option<f64>,
    /// With --budget: the lists stay as they are written, only windows become short
    #[arg(long, requires = "budget")]
    whole: bool,
    /// With --budget: repeat each point fewer times if it is too small for all rounds of the shortest windows
    #[arg(long, requires = "budget")]
    fewer_rounds: bool,
    /// Begin no trial while this file exists: so that a machine can be shared in turns
    #[arg(long, value_name = "FILE")]
    hold: Option<PathBuf>,
    /// Repeat every point at most this many times; an unfinished run of one sweep that is continued ends after this
    /// many rounds
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    rounds: Option<u32>,
    /// Threads of the generator, at most one for each connection [default: what the sweeps say, which is one]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    generator_threads: Option<u32>,
    /// Let every peer on PATH (redis-server, valkey-server, dragonfly) join every sweep
    #[arg(long)]
    join_peers: bool,
    /// The claims to audit
    #[arg(long, value_name = "DIR", default_value = "experiments/claims")]
    claims: PathBuf,
}

fn main() -> ExitCode {
    let mut out = Output::default();
    match execute(CommandLine::parse().command, &mut out).and_then(|()| out.finish()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(format_args!("experiments: {error:#}"));
            ExitCode::from(if error.is::<Interrupted>() { 130 } else { 1 })
        }
    }
}

fn execute(command: Subcommands, out: &mut Output) -> Result<()> {
    match command {
        Subcommands::Run(flags) => run::run(&flags.into()),
        Subcommands::Report { folders, claims } => {
            let claims = claims::load(&claims)?;
            let folders = if folders.is_empty() { folder::runs(RESULTS.as_ref())? } else { folders };
            for folder in folders {
                writeln!(out, "{}", report::write(&RunFolder::open(&folder)?, &claims)?.display());
            }
            Ok(())
        }
        Subcommands::Fill { documents, run, claims } => fill(&documents, run.as_deref(), &claims, out),
        Subcommands::Seal { documents, commit } => seal_documents(&documents, commit.as_deref(), out),
        Subcommands::Verify { documents, results, claims } => verify(&documents, &results, &claims, out),
        Subcommands::Simulate { seed } => {
            write!(out, "{}", simulation::table(seed));
            Ok(())
        }
        Subcommands::Memory { keys, servers, server, shapes, out: raw } => {
            memory::run(&memory::Options { keys, servers, definitions: server, shapes, out: raw }, out)
        }
        Subcommands::Scaling { grid, driver, out: file, threads, minutes, seed, blocks } => {
            scaling::run(&scaling::Options { grid, driver, out: file, threads, minutes, seed, blocks })
        }
        Subcommands::ScalingTables { file, predicted } => {
            let text = match predicted {
                Some(predicted) => scaling::comparison(&predicted, &file)?,
                None => scaling::tables(&file)?,
            };
            writeln!(out, "{text}");
            Ok(())
        }
        Subcommands::ScalingPage { file, claims } => scaling_page(&file, &claims, out),
        Subcommands::Child { parent, program, arguments } => become_program(parent, &program, &arguments),
        Subcommands::List { sweeps } => {
            for sweep in sweep::load_folder(&sweeps)? {
                let trials = schedule::points(&sweep).len() * sweep.repeats as usize;
                writeln!(out, "{:<14} {trials:>5} trials  {}", sweep.name, sweep.question);
            }
            Ok(())
        }
    }
}

fn seal_documents(documents: &[PathBuf], commit: Option<&str>, out: &mut Output) -> Result<()> {
    let root = Path::new(".");
    let all = if documents.is_empty() { seal::documents(root)? } else { documents.to_vec() };
    for path in &all {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let commit = match commit {
            Some(commit) => commit.to_owned(),
            None => seal::commit_of(root, path).map_or_else(|| seal::present_commit(root), Ok)?,
        };
        let sealed = seal::sealed(root, path, &text, &commit).with_context(|| format!("in {}", path.display()))?;
        if sealed != text {
            write_whole(path, &sealed)?;
            writeln!(out, "{}: sealed at {commit}", path.display());
        }
    }
    Ok(())
}

fn fill(documents: &[PathBuf], run: Option<&Path>, claims: &Path, out: &mut Output) -> Result<()> {
    let mut library = Library::new(".".as_ref(), claims::load(claims)?);
    let ours = if run.is_some() { &DOCUMENTS_OF_A_RUN[..] } else { &DOCUMENTS[..] };
    let ours: Vec<PathBuf> = ours.iter().map(PathBuf::from).collect();
    for path in if documents.is_empty() { &ours } else { documents } {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let filled = document::filled(&mut library, path, &text, run);
        let filled = filled.and_then(|filled| seal::renewed(&text, &filled));
        let filled = filled.with_context(|| format!("in {}", path.display()))?;
        write_whole(path, &seal::with_digests(".".as_ref(), path, &filled)?)?;
        writeln!(out, "{}: {} queries", path.display(), queries::count(&text));
    }
    print_paths(&library.write_made()?, out);
    Ok(())
}

fn scaling_page(file: &Path, claims: &Path, out: &mut Output) -> Result<()> {
    let root = fs::canonicalize(".").context("the repository has no path")?;
    let whole = fs::canonicalize(file).with_context(|| format!("cannot find {}", file.display()))?;
    let file = whole.strip_prefix(&root).with_context(|| format!("{} is outside of the repository", file.display()))?;
    print_paths(&scaling_page::publish(".".as_ref(), file, &claims::load(claims)?)?, out);
    Ok(())
}

fn print_paths(paths: &[PathBuf], out: &mut Output) {
    for path in paths {
        writeln!(out, "{}", path.display());
    }
}

fn verify(documents: &[PathBuf], results: &Path, claims: &Path, out: &mut Output) -> Result<()> {
    let findings = verify::all(".".as_ref(), results, documents, &claims::load(claims)?)?;
    for difference in &findings.differences {
        tell(difference);
    }
    let (runs, figures, differences) = (findings.runs, findings.figures, findings.differences.len());
    let documents = findings.documents;
    ensure!(
        differences == 0,
        "{differences} differences from what raw data give, in {runs} runs and {figures} queries"
    );
    writeln!(
        out,
        "{runs} runs and {figures} queries in documents are what raw data give; {documents} documents are sealed"
    );
    Ok(())
}

impl From<RunFlags> for Options {
    fn from(flags: RunFlags) -> Self {
        Self {
            sweeps: flags.sweeps,
            sweeps_home: "experiments/sweeps".into(),
            results_home: RESULTS.into(),
            out: flags.out,
            quick: flags.quick,
            fresh: flags.fresh,
            definitions: flags.server,
            generator: flags.loadgen,
            seed: flags.seed,
            budget_minutes: flags.budget,
            whole: flags.whole,
            fewer_rounds: flags.fewer_rounds,
            hold: flags.hold,
            rounds: flags.rounds,
            generator_threads: flags.generator_threads,
            join_peers: flags.join_peers,
            claims_home: flags.claims,
        }
    }
}
