//! The manifest: which segments make up the log, in which order.
//!
//! ```text
//! format 1
//! boot 6f6cbd43-1d0c-4ef1-a4f8-7ba1c9d5f1a3
//! chain 1 engine actor shards 2
//! chain 2 engine mutex shards 1
//! check 1b2c3d4e
//! ```
//!
//! `boot` names the boot of the operating system in which the log was last written: after another one, power may have
//! been lost. `check` is the CRC-32 of the lines before it: a changed digit would lead into other files.
//!
//! Segment K of chain C is `chain-C.segment-K.aof`. Chains are replayed in order, each in its own layout.

use super::disk::{self, Disk};
use std::io;
use std::path::{Path, PathBuf};

const FORMAT: u32 = 1;
/// The name of the file.
pub const FILE_NAME: &str = "shardrace.manifest";

/// How the data is divided: by which engine, into how many owners.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// The engine's name.
    pub engine: String,
    /// How many segments.
    pub shards: usize,
}

/// The chains of a log directory, oldest first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The boot in which the log was last written; empty where it is not known.
    pub boot: String,
    chains: Vec<(u32, Layout)>,
}

impl Manifest {
    /// Reads the manifest of `dir`; empty where there is none.
    pub fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, String> {
        let path = dir.join(FILE_NAME);
        let text = match disk.read(&path) {
            Ok(Some(bytes)) => String::from_utf8_lossy(&bytes).into_owned(),
            Ok(None) => return Ok(Self::default()),
            Err(error) => return Err(format!("can't read {}: {error}", path.display())),
        };
        Self::parse(&text).map_err(|reason| format!("{}: {reason}", path.display()))
    }

    /// A manifest of these chains, oldest first.
    pub fn of_chains(boot: String, chains: Vec<(u32, Layout)>) -> Self {
        Self { boot, chains }
    }

    /// The chains with their numbers, oldest first.
    pub fn chains(&self) -> &[(u32, Layout)] {
        &self.chains
    }

    /// Ends with a chain of this layout, adding one where it does not; gives its number.
    pub fn continue_as(&mut self, layout: &Layout) -> u32 {
        match self.chains.last() {
            Some((number, last)) if last == layout => *number,
            _ => {
                let number = self.chains.iter().map(|(number, _)| number + 1).max().unwrap_or(1);
                self.chains.push((number, layout.clone()));
                number
            }
        }
    }

    /// Replaces the manifest of `dir`: written aside, synced, renamed, and the directory synced.
    pub fn write(&self, disk: &dyn Disk, dir: &Path) -> io::Result<()> {
        disk::replace(disk, dir, FILE_NAME, self.to_text().as_bytes())
    }

    /// The file of a segment.
    pub fn segment_path(dir: &Path, chain: u32, segment: usize) -> PathBuf {
        dir.join(format!("chain-{chain}.segment-{segment}.aof"))
    }

    fn to_text(&self) -> String {
        let chains = self
            .chains
            .iter()
            .map(|(number, layout)| format!("chain {number} engine {} shards {}\n", layout.engine, layout.shards));
        let boot = if self.boot.is_empty() { String::new() } else { format!("boot {}\n", self.boot) };
        let lines = format!("format {FORMAT}\n{boot}{}", chains.collect::<String>());
        format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        match text.lines().next().and_then(|line| line.strip_prefix("format ")) {
            Some(format) if format == FORMAT.to_string() => {}
            Some(format) => return Err(format!("format {format} is not the format {FORMAT} that this server knows")),
            None => return Err("the first line is not 'format N'".into()),
        }
        let mut lines =
            checked(text).ok_or("is damaged: its last line is not the check of the others")?.lines().peekable();
        lines.next();
        let boot = lines.next_if(|line| line.starts_with("boot ")).map_or("", |line| &line["boot ".len()..]).to_owned();
        let chains = lines.map(|line| parse_chain(line).ok_or_else(|| format!("'{line}' is not a chain")));
        Ok(Self { boot, chains: chains.collect::<Result<_, _>>()? })
    }
}

/// What stands before the last line, which is its check.
fn checked(text: &str) -> Option<&str> {
    let last = text.strip_suffix('\n')?.rfind('\n')? + 1;
    let (lines, check) = text.split_at(last);
    (check == format!("check {:08x}\n", crc32fast::hash(lines.as_bytes()))).then_some(lines)
}

fn parse_chain(line: &str) -> Option<(u32, Layout)> {
    match line.split(' ').collect::<Vec<_>>()[..] {
        ["chain", number, "engine", engine, "shards", shards] => {
            let shards = shards.parse().ok().filter(|&shards| shards > 0)?;
            Some((number.parse().ok()?, Layout { engine: engine.into(), shards }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_reads_back_and_a_newer_format_is_refused() {
        let mut manifest = Manifest::default();
        let (actor, mutex) =
            (Layout { engine: "actor".into(), shards: 4 }, Layout { engine: "mutex".into(), shards: 1 });
        assert_eq!(manifest.continue_as(&actor), 1);
        assert_eq!(manifest.continue_as(&actor), 1);
        assert_eq!(manifest.continue_as(&mutex), 2);
        assert_eq!(manifest.continue_as(&actor), 3);
        assert_eq!(Manifest::parse(&manifest.to_text()).as_ref(), Ok(&manifest));
        manifest.boot = "b-1".into();
        assert_eq!(Manifest::parse(&manifest.to_text()).as_ref(), Ok(&manifest));
        let with_check = |lines: &str| format!("{lines}check {:08x}\n", crc32fast::hash(lines.as_bytes()));
        let refused = |text: &str| Manifest::parse(text).expect_err(text);
        assert!(refused("format 2\n").contains("format 2"));
        assert!(refused(&with_check("format 1\nchain 1 engine actor shards 0\n")).contains("is not a chain"));
        assert!(refused("").contains("format N"));
        let text = manifest.to_text();
        (0..text.len()).for_each(|cut| drop(refused(&text[..cut])));
        for position in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            bytes[position] ^= 1;
            refused(&String::from_utf8(bytes).expect("still ASCII"));
        }
    }
}
