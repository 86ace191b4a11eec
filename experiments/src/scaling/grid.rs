//! The grid of measurements: blocks, each of which crosses every list with every other.

use std::fmt;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

/// A grid, as written in a file of `experiments/scaling`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grid {
    /// The question that it answers.
    pub question: String,
    /// Numbers of worker threads. Those above the number of cores are left out.
    pub threads: Vec<usize>,
    /// Length of the measured window.
    #[serde(default = "half")]
    pub seconds: f64,
    /// Length of the warm-up.
    #[serde(default = "fifth")]
    pub warm_up: f64,
    /// How often each point is measured.
    pub repeats: u32,
    /// The blocks.
    pub block: Vec<Block>,
}

/// Points that belong together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Block {
    /// Its name.
    pub name: String,
    /// Engines and references, `NAME` or `NAME/SHARDS`.
    pub engines: Vec<String>,
    /// Requests in a batch.
    #[serde(default = "sixteen")]
    pub batch: Vec<usize>,
    /// Percent of requests that read.
    #[serde(default = "fifty")]
    pub reads: Vec<u32>,
    /// How keys are drawn.
    #[serde(default = "uniform")]
    pub skew: Vec<String>,
    /// Percent of requests that take several keys.
    #[serde(default = "nought")]
    pub multi_key: Vec<u32>,
    /// The type of the keys.
    #[serde(default = "strings")]
    pub data: Vec<String>,
    /// Bytes of a value.
    #[serde(default = "sixty_four")]
    pub value_size: Vec<usize>,
    /// `read`, `command`.
    #[serde(default = "read")]
    pub batching: Vec<String>,
    /// `yes`, `no`.
    #[serde(default = "yes")]
    pub prefetch: Vec<String>,
    /// Connections for each thread.
    #[serde(default = "eight")]
    pub connections: Vec<usize>,
    /// Nanoseconds that the mutex engine wastes under its lock, in a driver with that feature; empty for none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub planted_ns: Vec<u64>,
    /// How often each point is measured; default: as the grid says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeats: Option<u32>,
    /// Numbers of threads; default: those of the grid.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Vec<usize>>,
}

fn half() -> f64 {
    0.5
}
fn fifth() -> f64 {
    0.2
}
fn sixteen() -> Vec<usize> {
    vec![16]
}
fn fifty() -> Vec<u32> {
    vec![50]
}
fn nought() -> Vec<u32> {
    vec![0]
}
fn sixty_four() -> Vec<usize> {
    vec![64]
}
fn eight() -> Vec<usize> {
    vec![8]
}
fn uniform() -> Vec<String> {
    vec!["uniform".into()]
}
fn strings() -> Vec<String> {
    vec!["strings".into()]
}
fn read() -> Vec<String> {
    vec!["read".into()]
}
fn yes() -> Vec<String> {
    vec!["yes".into()]
}

/// One point of a grid.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Point {
    /// Its block.
    pub block: String,
    /// The engine, `NAME` or `NAME/SHARDS`.
    pub engine: String,
    /// Worker threads.
    pub threads: usize,
    /// Nanoseconds that the mutex engine wastes under its lock.
    pub planted_ns: Option<u64>,
    /// Further flags of the driver and their values.
    flags: Vec<(&'static str, String)>,
}

impl Grid {
    /// Reads a grid.
    pub(crate) fn load(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&text).with_context(|| format!("in {}", path.display()))
    }

    /// Parses a grid.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let grid: Self = toml::from_str(text)?;
        let repeats = grid.block.iter().filter_map(|block| block.repeats);
        ensure!(repeats.chain([grid.repeats]).all(|count| count > 0), "a point is measured once at least");
        ensure!(!grid.threads.is_empty() && !grid.threads.contains(&0), "threads are numbers from 1 on");
        ensure!(!grid.block.is_empty(), "there is a block at least");
        Ok(grid)
    }

    /// Keeps the blocks of these names, or all if there are no names.
    pub(crate) fn retain_blocks(&mut self, names: &[String]) -> Result<()> {
        for name in names {
            ensure!(self.block.iter().any(|block| block.name == *name), "there is no block {name:?}");
        }
        self.block.retain(|block| names.is_empty() || names.contains(&block.name));
        Ok(())
    }

    /// How often the points of a block are measured.
    pub(crate) fn repeats_of(&self, name: &str) -> u32 {
        let block = self.block.iter().find(|block| block.name == name);
        block.and_then(|block| block.repeats).unwrap_or(self.repeats)
    }

    /// How many rounds there are: as many as the point that is measured most often needs.
    pub(crate) fn rounds(&self) -> u32 {
        self.block.iter().map(|block| block.repeats.unwrap_or(self.repeats)).max().unwrap_or(0)
    }

    /// Leaves out all rounds after the first `most`.
    pub(crate) fn cap_rounds(&mut self, most: u32) {
        self.repeats = self.repeats.min(most);
        for repeats in self.block.iter_mut().filter_map(|block| block.repeats.as_mut()) {
            *repeats = most.min(*repeats);
        }
    }

    /// How many trials there are.
    pub(crate) fn trials(&self) -> usize {
        self.points().iter().map(|point| self.repeats_of(&point.block) as usize).sum()
    }

    /// Removes numbers of threads above `cores`.
    pub(crate) fn retain_threads(&mut self, cores: usize) {
        self.threads.retain(|&threads| threads <= cores);
        for block in &mut self.block {
            if let Some(threads) = &mut block.threads {
                threads.retain(|&threads| threads <= cores);
            }
        }
    }

    /// All points. Delegation has none with one thread, because its server needs a thread of its own.
    pub(crate) fn points(&self) -> Vec<Point> {
        let mut points = Vec::new();
        for block in &self.block {
            let threads = block.threads.as_ref().unwrap_or(&self.threads);
            let planted: Vec<Option<u64>> = match &block.planted_ns[..] {
                [] => vec![None],
                some => some.iter().copied().map(Some).collect(),
            };
            for flags in block.combinations() {
                for engine in &block.engines {
                    for &threads in threads {
                        if engine == "ref-delegation" && threads < 2 {
                            continue;
                        }
                        for &planted_ns in &planted {
                            let (block, engine, flags) = (block.name.clone(), engine.clone(), flags.clone());
                            points.push(Point { block, engine, threads, planted_ns, flags });
                        }
                    }
                }
            }
        }
        points
    }
}

impl Block {
    fn combinations(&self) -> Vec<Vec<(&'static str, String)>> {
        let texts = |numbers: &[usize]| numbers.iter().map(usize::to_string).collect::<Vec<_>>();
        let shares = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>();
        let lists = [
            ("--batch", texts(&self.batch)),
            ("--reads", shares(&self.reads)),
            ("--skew", self.skew.clone()),
            ("--multi-key", shares(&self.multi_key)),
            ("--data", self.data.clone()),
            ("--value-size", texts(&self.value_size)),
            ("--batching", self.batching.clone()),
            ("--prefetch", self.prefetch.clone()),
            ("--connections", texts(&self.connections)),
        ];
        let mut all = vec![Vec::new()];
        for (flag, values) in lists {
            let with = |known: &Vec<(&'static str, String)>| {
                let known = known.clone();
                values.clone().into_iter().map(move |value| {
                    let mut with = known.clone();
                    with.push((flag, value));
                    with
                })
            };
            all = all.iter().flat_map(with).collect();
        }
        all
    }
}

impl Point {
    /// The driver's flags for it.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let (name, shards) = match self.engine.split_once('/') {
            Some((name, shards)) => (name, Some(shards)),
            None => (self.engine.as_str(), None),
        };
        let mut arguments = vec!["--engine".to_owned(), name.to_owned()];
        arguments.extend(shards.into_iter().flat_map(|shards| ["--shards".to_owned(), shards.to_owned()]));
        arguments.extend(["--threads".to_owned(), self.threads.to_string()]);
        arguments.extend(self.flags.iter().flat_map(|(flag, value)| [(*flag).to_owned(), value.clone()]));
        arguments
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} on {} threads", self.block, self.engine, self.threads)?;
        self.planted_ns.map_or(Ok(()), |ns| write!(f, " planted {ns} ns"))?;
        self.flags.iter().try_for_each(|(flag, value)| write!(f, " {} {value}", flag.trim_start_matches('-')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_crossed_and_delegation_begins_at_two_threads() {
        let grid = Grid::parse(
            "question = 'x'\nthreads = [1, 2]\nrepeats = 1\n[[block]]\nname = 'a'\n\
             engines = ['dashmap/8', 'ref-delegation']\nbatch = [1, 64]\nreads = [0, 50, 100]",
        )
        .unwrap();
        let points = grid.points();
        assert_eq!(points.len(), 2 * 3 * (2 + 1));
        let arguments = points[0].arguments();
        assert_eq!(arguments[..6], ["--engine", "dashmap", "--shards", "8", "--threads", "1"]);
        assert!(arguments.windows(2).any(|pair| pair == ["--skew", "uniform"]), "{arguments:?}");
    }

    #[test]
    fn an_unknown_field_and_an_unknown_block_are_errors() {
        let text = "question = 'x'\nthreads = [1]\nrepeats = 1\n[[block]]\nname = 'a'\nengines = ['mutex']\n";
        assert!(Grid::parse(&format!("{text}bach = [1]")).is_err());
        assert!(Grid::parse(&text.replace("threads = [1]", "threads = [0]")).is_err());
        let mut grid = Grid::parse(text).unwrap();
        assert!(grid.retain_blocks(&["b".into()]).is_err());
        grid.retain_blocks(&["a".into()]).unwrap();
        assert_eq!(grid.block.len(), 1);
    }

    #[test]
    fn threads_beyond_the_cores_are_left_out() {
        let text = "question = 'x'\nthreads = [1, 4]\nrepeats = 1\n[[block]]\nname = 'a'\nengines = ['mutex']\n\
                    [[block]]\nname = 'b'\nengines = ['mutex']\nthreads = [1, 2, 8]";
        let mut grid = Grid::parse(text).unwrap();
        grid.retain_threads(2);
        let threads: Vec<usize> = grid.points().iter().map(|point| point.threads).collect();
        assert_eq!(threads, [1, 1, 2]);
    }

    #[test]
    fn the_grids_of_the_project_are_well_formed() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("scaling");
        let mut count = 0;
        for entry in fs::read_dir(folder).unwrap() {
            let grid = Grid::load(&entry.unwrap().path()).unwrap();
            assert!(!grid.points().is_empty());
            count += 1;
        }
        assert!(count >= 2, "{count}");
    }
}
