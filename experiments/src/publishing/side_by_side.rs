//! Tables from the raw output of a side-by-side run with redis-benchmark: `docs/results/*.txt`, lines such as
//!
//! ```text
//! P16c200d1024   set  actor   612345     1.20  1.43 [1.13-1.88]  0.56 [0.42-0.70]   1.10
//! ```
//!
//! that is load, command, server, throughput, CPU per operation, the ratios of both to the first server with their
//! spread, and the client's CPU per operation. `experiments/scripts/side_by_side.py` writes them, followed by the
//! measurements of each pass, from which the table is computed again:
//!
//! ```text
//! pass 3 P16c200d1024 set actor 612345.2 1.2 1.1 0.031
//! ```
//!
//! The last word is how many cores others used meanwhile; older files lack it. The lines before the passes say how many
//! samples were disturbed.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::statistics::quantiles::median;

/// One line: the ratios of CPU and throughput are kept as written.
struct Line {
    load: String,
    command: String,
    server: String,
    cpu: String,
    throughput: String,
}

impl Line {
    fn measures_as(&self, other: &Self) -> bool {
        (&self.load, &self.command, &self.server) == (&other.load, &other.command, &other.server)
    }
}

/// For each load and command, CPU per operation and throughput of each server as ratios to the first. `words` is the
/// file, relative to `root`.
pub fn table(root: &Path, words: &[&str]) -> Result<String> {
    let [file] = words else { anyhow::bail!("the file is needed, and nothing else") };
    let text = fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
    let mut lines: Vec<Line> = Vec::new();
    for line in text.lines().filter_map(parse) {
        // A second run of a load may follow the whole table, as a check of the first.
        if !lines.iter().any(|known| known.measures_as(&line)) {
            lines.push(line);
        }
    }
    check_passes(&text).with_context(|| format!("in {file}"))?;
    let first = lines.first().with_context(|| format!("{file} holds no line of figures"))?;
    let others = lines.iter().filter(|line| line.load == first.load && line.command == first.command).skip(1);
    let servers: Vec<&str> = others.map(|line| line.server.as_str()).collect();
    let mut table =
        format!("\n\n| load | command | {} |\n|---|---|{}\n", servers.join(" | "), "---|".repeat(servers.len()));
    for base in lines.iter().filter(|line| line.server == first.server) {
        let of = |server: &&str| {
            let is_it =
                |line: &&Line| line.load == base.load && line.command == base.command && line.server == **server;
            lines.iter().find(is_it).with_context(|| format!("{file} has no {server} at {}", base.load))
        };
        let found = servers.iter().map(of).collect::<Result<Vec<_>>>()?;
        let cells: Vec<String> = found.iter().map(|line| format!("{} / {}", line.cpu, line.throughput)).collect();
        let load = description(&base.load)?;
        table.push_str(&format!("| {load} | {} | {} |\n", base.command.to_uppercase(), cells.join(" | ")));
    }
    table.push('\n');
    Ok(table)
}

/// What a pass measured on a server: throughput, CPU per operation of the server and of the client.
struct Pass<'a> {
    cell: [&'a str; 3],
    found: [f64; 3],
}

/// Fails if a line of the table does not follow from the passes. A file without passes is from before they were kept.
fn check_passes(text: &str) -> Result<()> {
    let passes: Vec<Pass> = text.lines().filter_map(pass).collect();
    if passes.is_empty() {
        return Ok(());
    }
    for line in text.lines().filter(|line| parse(line).is_some()) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let of = |server: &str| {
            let cell = [words[0], words[1], server];
            passes.iter().filter(|pass| pass.cell == cell).map(|pass| pass.found).collect::<Vec<_>>()
        };
        let first = passes.iter().find(|pass| pass.cell[..2] == words[..2]).map_or("", |pass| pass.cell[2]);
        let expected = computed(&of(words[2]), &of(first)).with_context(|| format!("no passes for {line:?}"))?;
        ensure!(words[3..] == expected, "the passes give {:?}, not {:?}", expected.join(" "), words[3..].join(" "));
    }
    Ok(())
}

/// `pass NUMBER LOAD TEST SERVER RPS CPU CLIENT [FOREIGN]`
fn pass(line: &str) -> Option<Pass<'_>> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let ["pass", _, load, test, server, rate, cpu, client, ref foreign @ ..] = words[..] else { return None };
    let is_whole = foreign.len() <= 1 && foreign.iter().all(|cores| cores.parse::<f64>().is_ok());
    if !is_whole {
        return None;
    }
    let found = [rate.parse().ok()?, cpu.parse().ok()?, client.parse().ok()?];
    Some(Pass { cell: [load, test, server], found })
}

/// The words of a line of the table, starting with its figures.
fn computed(own: &[[f64; 3]], base: &[[f64; 3]]) -> Option<Vec<String>> {
    let of = |place: usize| median(&mut own.iter().map(|found| found[place]).collect::<Vec<_>>());
    let ratio = |place: usize| {
        let pairs = own.iter().zip(base).filter(|(_, base)| base[place] > 0.0);
        let mut ratios: Vec<f64> = pairs.map(|(own, base)| own[place] / base[place]).collect();
        let middle = median(&mut ratios)?;
        Some([format!("{middle:.2}"), format!("[{:.2}-{:.2}]", ratios.first()?, ratios.last()?)])
    };
    let [rate, cpu, client] = [of(0)?, of(1)?, of(2)?];
    let ratios = [ratio(0)?, ratio(1)?].concat();
    let ends = ([format!("{rate:.0}"), format!("{cpu:.2}")], [format!("{client:.2}")]);
    Some([&ends.0[..], &ratios, &ends.1].concat())
}

fn parse(line: &str) -> Option<Line> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [load, command, server, rate, _, throughput, _, cpu, _, _] = words[..] else { return None };
    rate.parse::<u64>().ok()?;
    let word = str::to_owned;
    Some(Line {
        load: word(load),
        command: word(command),
        server: word(server),
        cpu: word(cpu),
        throughput: word(throughput),
    })
}

/// `P16c200d1024` in words.
fn description(load: &str) -> Result<String> {
    let rest = load.strip_prefix('P').with_context(|| format!("{load:?} does not begin with its pipeline"))?;
    let (pipeline, rest) = rest.split_once('c').with_context(|| format!("{load:?} has no connections"))?;
    let (clients, size) = rest.split_once('d').map_or((rest, None), |(clients, size)| (clients, Some(size)));
    ensure!([pipeline, clients].iter().all(|part| part.parse::<u32>().is_ok()), "{load:?} is not of numbers");
    let size = match size.map(str::parse::<u32>).transpose()? {
        Some(bytes) if bytes % 1024 == 0 => format!(", {} KB", bytes / 1024),
        Some(bytes) => format!(", {bytes} bytes"),
        None => String::new(),
    };
    Ok(format!("pipeline {pipeline}, {clients} connections{size}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_row_for_each_load_and_command_and_a_column_for_each_server() {
        let folder = tempfile::tempdir().unwrap();
        let text = "load test server rps us/op rps ratio us/op ratio client us/op\n\
            P1c50 set redis 1000 9.10 1.00 [1.00-1.00] 1.00 [1.00-1.00] 10.80\n\
            P1c50 set actor 2000 4.50 2.00 [1.90-2.10] 0.50 [0.40-0.60] 10.80\n\
            P16c200d1024 get redis 1000 9.10 1.00 [1.00-1.00] 1.00 [1.00-1.00] 10.80\n\
            P16c200d1024 get actor 1100 8.00 1.10 [1.00-1.20] 0.88 [0.80-0.90] 10.80\n\
            P1c50 set redis 3000 9.10 1.00 [1.00-1.00] 1.00 [1.00-1.00] 10.80\n\
            peak memory actor 15 MiB\n";
        fs::write(folder.path().join("raw.txt"), text).unwrap();
        let expected = "\n\n| load | command | actor |\n|---|---|---|\n\
            | pipeline 1, 50 connections | SET | 0.50 / 2.00 |\n\
            | pipeline 16, 200 connections, 1 KB | GET | 0.88 / 1.10 |\n\n";
        assert_eq!(table(folder.path(), &["raw.txt"]).unwrap(), expected);
        assert!(table(folder.path(), &["nothing.txt"]).is_err());
    }

    #[test]
    fn a_ratio_that_the_passes_do_not_give_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let text = "P1c50 set redis 1100 9.00 1.00 [1.00-1.00] 1.00 [1.00-1.00] 10.00\n\
            P1c50 set actor 2100 4.50 1.91 [1.83-2.00] 0.50 [0.50-0.50] 10.00\n\
            pass 1 P1c50 set redis 1000 9.0 10.0\npass 1 P1c50 set actor 2000 4.5 10.0\n\
            pass 2 P1c50 set actor 2200 4.5 10.0\npass 2 P1c50 set redis 1200 9.0 10.0\n";
        let made = |text: &str| {
            fs::write(folder.path().join("raw.txt"), text).unwrap();
            table(folder.path(), &["raw.txt"])
        };
        let text = text.replace("1.91 [", "1.92 [");
        let with_foreign = text.replace("9.0 10.0\n", "9.0 10.0 0.031\n").replace("4.5 10.0\n", "4.5 10.0 0.300\n");
        assert_eq!(with_foreign.matches(" 0.300\n").count(), 2);
        assert_eq!(made(&with_foreign).unwrap(), made(&text).unwrap(), "with the load of others and without it");
        assert!(made(&with_foreign.replace("redis 1200", "redis 1300")).is_err(), "its passes are checked as well");
        assert!(made(&text).unwrap().contains("| 0.50 / 1.92 |"));
        for (from, to) in
            [("1.92 [", "1.93 ["), ("0.50 [", "0.49 ["), ("actor 2100", "actor 2101"), ("redis 1200", "redis 1300")]
        {
            let error = made(&text.replacen(from, to, 1)).unwrap_err();
            assert!(format!("{error:#}").contains("the passes give"), "{from}: {error:#}");
        }
    }
}
