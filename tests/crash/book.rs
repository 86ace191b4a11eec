//! The book: the files, how much of each was synced, and the synced names.
//!
//! The server's process writes a line of the journal after each change, before it continues; the test that kills it
//! reads them:
//!
//! ```text
//! file 3 chain-1.segment-0.aof      a new file, number 3, has this name
//! sync 3 2048                       so much of it was synced
//! name shardrace.manifest.new shardrace.manifest
//! remove shardrace.manifest.new
//! dir                               all names were synced
//! ```
//!
//! Each file has a second name, its number, in the directory of the journal: a file whose name is reused is not lost.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const JOURNAL: &str = "journal";

/// What is known to be on the disk.
#[derive(Debug, Default)]
pub struct Book {
    /// How much of each file was synced, by its number.
    pub synced: Vec<u64>,
    /// The current names.
    pub names: BTreeMap<String, usize>,
    /// The names as they were synced.
    pub synced_names: BTreeMap<String, usize>,
}

/// Where the files and the book of them are.
#[derive(Debug, Clone)]
pub struct Places {
    /// The directory of the log.
    pub log: PathBuf,
    /// The directory of the journal.
    pub book: PathBuf,
}

impl Places {
    pub fn journal(&self) -> PathBuf {
        self.book.join(JOURNAL)
    }

    /// While this exists, segments cannot be read.
    pub fn hold(&self) -> PathBuf {
        self.book.join("hold")
    }

    /// While this exists, fsyncs are slow.
    pub fn slow(&self) -> PathBuf {
        self.book.join("slow")
    }

    /// A file by its number.
    pub fn file(&self, number: usize) -> PathBuf {
        self.book.join(number.to_string())
    }

    /// Begins a new book: everything is on the disk.
    pub fn begin(&self) {
        fs::create_dir_all(&self.log).unwrap();
        if self.book.exists() {
            fs::remove_dir_all(&self.book).unwrap();
        }
        fs::create_dir_all(&self.book).unwrap();
        let mut journal = String::new();
        for (number, name) in self.names().into_iter().enumerate() {
            let path = self.log.join(&name);
            fs::hard_link(&path, self.file(number)).unwrap();
            journal += &format!("file {number} {name}\nsync {number} {}\n", fs::metadata(&path).unwrap().len());
        }
        fs::write(self.journal(), journal + "dir\n").unwrap();
    }

    /// Records what a process did just before it was killed: the journal may lack its last line.
    pub fn catch_up(&self) {
        let book = Book::read(self);
        let is_here = |name: &str| self.log.join(name).exists();
        for name in book.names.keys().filter(|name| !is_here(name)) {
            append(&self.journal(), &format!("remove {name}"));
        }
        let made = self.names().into_iter().filter(|name| !book.names.contains_key(name));
        for (number, name) in (book.synced.len()..).zip(made) {
            if self.file(number).exists() {
                fs::remove_file(self.file(number)).unwrap();
            }
            fs::hard_link(self.log.join(&name), self.file(number)).unwrap();
            append(&self.journal(), &format!("file {number} {name}"));
        }
    }

    /// The names in the directory of the log, without the lock.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(&self.log) else { return Vec::new() };
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| !name.ends_with(".lock")).collect()
    }

    /// Power is lost: a random part of what was not synced is left, perhaps changed.
    pub fn lose_power(&self, loss: Loss, random: &mut fastrand::Rng) {
        let book = Book::read(self);
        let names = book.names.keys().chain(book.synced_names.keys()).collect::<BTreeSet<_>>();
        let mut left = Vec::new();
        for name in names {
            let (new, old) = (book.names.get(name), book.synced_names.get(name));
            if let Some(&number) = if random.bool() { new } else { old } {
                let bytes = fs::read(self.file(number)).unwrap();
                left.push((name.clone(), without_power(bytes, book.synced[number] as usize, loss, random)));
            }
        }
        fs::remove_dir_all(&self.log).unwrap();
        fs::create_dir_all(&self.log).unwrap();
        left.iter().for_each(|(name, bytes)| fs::write(self.log.join(name), bytes).unwrap());
        self.begin();
    }
}

/// The effect of a power loss on data that was not synced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loss {
    /// It takes the end.
    End,
    /// It takes the end, or leaves other bytes in its place.
    Any,
}

/// The rest of a file.
fn without_power(mut bytes: Vec<u8>, synced: usize, loss: Loss, random: &mut fastrand::Rng) -> Vec<u8> {
    let kept = random.usize(synced..=bytes.len());
    match random.u8(..5) {
        _ if loss == Loss::End => bytes.truncate(kept),
        // The file system recorded the length before the bytes.
        0 => bytes[kept..].fill(0),
        // It wrote later pages, but not earlier ones.
        1 => {
            let end = random.usize(kept..=bytes.len());
            bytes[kept..end].fill(0);
        }
        // Old contents of the disk.
        2 => random.fill(&mut bytes[kept..]),
        _ => bytes.truncate(kept),
    }
    bytes
}

impl Book {
    /// Reads the journal.
    pub fn read(places: &Places) -> Self {
        let text = fs::read_to_string(places.journal()).unwrap();
        let mut book = Self::default();
        text.lines().for_each(|line| book.note(line));
        book
    }

    fn note(&mut self, line: &str) {
        match line.split(' ').collect::<Vec<_>>()[..] {
            ["file", number, name] => {
                assert_eq!(number.parse(), Ok(self.synced.len()), "files are numbered in turn");
                self.names.insert(name.to_owned(), self.synced.len());
                self.synced.push(0);
            }
            ["sync", number, len] => self.synced[number.parse::<usize>().unwrap()] = len.parse().unwrap(),
            ["name", from, to] => {
                let number = self.names.remove(from).expect("what is renamed is there");
                self.names.insert(to.to_owned(), number);
            }
            ["remove", name] => drop(self.names.remove(name).expect("what is removed is there")),
            ["dir"] => self.synced_names = self.names.clone(),
            _ => panic!("no line of a journal: {line:?}"),
        }
    }
}

/// Appends to a journal.
pub fn append(journal: &Path, line: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().append(true).open(journal).expect("the journal is there");
    file.write_all(format!("{line}\n").as_bytes()).expect("the journal can be written");
}

#[test]
fn what_was_synced_survives_a_power_loss_and_the_rest_perhaps_not() {
    let dir = tempfile::tempdir().unwrap();
    let places = Places { log: dir.path().join("log"), book: dir.path().join("book") };
    places.begin();
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let disk = super::tracking::TrackingDisk::new(places.clone(), super::tracking::Behaviour::default());
        use shardrace::internals::aof::Disk;
        let file = disk.append_to(&places.log.join("a")).unwrap();
        file.write_all(b"synced").and_then(|()| file.sync()).unwrap();
        disk.sync_dir(&places.log).unwrap();
        file.write_all(b"not").unwrap();
        disk.append_to(&places.log.join("b")).unwrap();
        let old = fs::read(places.log.join("a")).unwrap();
        places.lose_power(Loss::Any, &mut fastrand::Rng::with_seed(seed));
        let a = fs::read(places.log.join("a")).unwrap();
        assert!(a.starts_with(&old[..old.len() - 3]) && a.len() <= old.len(), "{a:?}");
        seen.insert((a.ends_with(b"not"), a.ends_with(b"synced"), places.log.join("b").exists()));
        fs::remove_file(places.log.join("a")).unwrap();
        if places.log.join("b").exists() {
            fs::remove_file(places.log.join("b")).unwrap();
        }
        places.begin();
    }
    assert!(seen.len() > 3, "{seen:?}");
}
