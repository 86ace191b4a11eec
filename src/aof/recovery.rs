//! Recovery: reading the log back at the start.
//!
//! Each chain is replayed in the layout that wrote it, one segment after the other into a keyspace of its own; where
//! the layout changed, the nodes then move to the keyspaces of the next. A torn tail is cut; damage before the end is
//! refused, because what follows it may depend on what is lost.

use super::manifest::{Layout, Manifest};
use super::record::{
    Frame, Header, SEGMENT_HEADER, Salt, decode, decode_header, for_each_effect, holds_record, segment_header,
};
use super::segment::{LogThread, Segment, SharedPolicy};
use crate::commands;
use crate::keyspace::{Effects, Keyspace, Segmented, Store};
use crate::resp::{Args, Reply};
use crate::routing::shard_of;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

/// What recovery gives the engine.
pub struct Recovered {
    /// The data, one table per owner.
    pub stores: Vec<Segmented>,
    /// Where each owner appends.
    pub segments: Vec<Arc<Segment>>,
    /// What ends the log threads.
    pub threads: Vec<LogThread>,
}

/// Reads the log of `dir`, and opens it for `layout` to append to.
pub fn recover(dir: &Path, layout: &Layout, policy: &SharedPolicy) -> Result<Recovered, String> {
    let start = Instant::now();
    std::fs::create_dir_all(dir).map_err(|error| format!("can't create {}: {error}", dir.display()))?;
    let mut manifest = Manifest::read(dir)?;
    let mut totals = Totals::default();
    let mut stores = empty_stores(1);
    for (number, chain) in manifest.chains() {
        stores = divide(stores, chain.shards);
        for (index, store) in stores.iter_mut().enumerate() {
            replay_file(&Manifest::segment_path(dir, *number, index), store, &mut totals)?;
        }
    }
    stores = divide(stores, layout.shards);

    let chain = manifest.continue_as(layout);
    let opened = (0..layout.shards).map(|index| open_segment(dir, chain, index, policy));
    let (segments, threads) = opened.collect::<Result<Vec<_>, String>>()?.into_iter().unzip();
    manifest.write(dir).map_err(|error| format!("can't write the manifest of {}: {error}", dir.display()))?;
    if totals.records > 0 || totals.cut > 0 {
        tracing::info!(
            "DB loaded from append only file: {:.3} seconds, {} records, {} keys, {} bytes, {} bytes cut",
            start.elapsed().as_secs_f64(),
            totals.records,
            stores.iter().map(Segmented::len).sum::<usize>(),
            totals.bytes,
            totals.cut,
        );
    }
    Ok(Recovered { stores, segments, threads })
}

#[derive(Debug, Default)]
struct Totals {
    records: u64,
    bytes: u64,
    cut: u64,
}

fn empty_stores(count: usize) -> Vec<Segmented> {
    (0..count).map(|_| Segmented::default()).collect()
}

/// Moves every node to the owner it has among `shards`.
fn divide(stores: Vec<Segmented>, shards: usize) -> Vec<Segmented> {
    if stores.len() == shards {
        return stores;
    }
    let mut divided = empty_stores(shards);
    for store in stores {
        for node in store.into_nodes() {
            let target = &mut divided[shard_of(node.key(), shards)];
            target.insert_node(node);
        }
    }
    divided
}

fn replay_file(path: &Path, store: &mut Segmented, totals: &mut Totals) -> Result<(), String> {
    let mut bytes = Vec::new();
    let describe = |what: &str, error: std::io::Error| format!("can't {what} {}: {error}", path.display());
    let mut file = match OpenOptions::new().read(true).write(true).open(path) {
        Ok(file) => file,
        // A crash between the manifest and the first segment leaves files out: they held nothing.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(describe("open", error)),
    };
    file.read_to_end(&mut bytes).map_err(|error| describe("read", error))?;
    let whole = match decode_header(&bytes) {
        Header::Whole(salt) => replay_records(path, &bytes, salt, store, totals)?,
        Header::Torn => 0,
        Header::Foreign => return Err(format!("{}: its header is damaged or of another format", path.display())),
    };
    if whole < bytes.len() {
        let cut = bytes.len() - whole;
        totals.cut += cut as u64;
        tracing::warn!("{}: the last {cut} bytes are no whole record; cut at {whole}", path.display());
        file.set_len(whole as u64).and_then(|()| file.sync_all()).map_err(|error| describe("cut", error))?;
    }
    Ok(())
}

/// Replays the records of a segment; gives where the whole ones end.
fn replay_records(
    path: &Path,
    bytes: &[u8],
    salt: Salt,
    store: &mut Segmented,
    totals: &mut Totals,
) -> Result<usize, String> {
    let mut replay = Replay::new(std::mem::take(store));
    let mut position = SEGMENT_HEADER;
    loop {
        match decode(&bytes[position..], salt) {
            Frame::Record(payload, len) => {
                replay
                    .apply(payload)
                    .map_err(|reason| format!("{}: record at byte {position}: {reason}", path.display()))?;
                totals.records += 1;
                totals.bytes += len as u64;
                position += len;
            }
            Frame::Broken if holds_record(&bytes[position..], salt) => {
                return Err(format!(
                    "{}: the record at byte {position} is damaged and is not the last one. Refusing to start with a \
                     part of the data; move the file away to start without it",
                    path.display(),
                ));
            }
            Frame::End | Frame::Broken => break,
        }
    }
    *store = replay.into_store();
    Ok(position)
}

/// Runs logged effects over a keyspace in which nothing expires: expiry is in the log.
struct Replay {
    keyspace: Keyspace<Segmented>,
    spans: Vec<crate::resp::Span>,
    replies: Vec<u8>,
}

impl Replay {
    fn new(store: Segmented) -> Self {
        // The clock stands at 0 and no effect is random: the same log gives the same state on any day.
        let keyspace = Keyspace::new(store, 0, fastrand::Rng::with_seed(0), Effects::new(false));
        Self { keyspace, spans: Vec::new(), replies: Vec::new() }
    }

    fn apply(&mut self, payload: &[u8]) -> Result<(), String> {
        let Self { keyspace, spans, replies } = self;
        let mut outcome = Ok(());
        for_each_effect(payload, spans, |bytes, spans| {
            let args = Args::new(bytes, spans);
            outcome = std::mem::replace(&mut outcome, Ok(())).and_then(|()| apply_effect(keyspace, args, replies));
        })
        .ok_or("is no list of effects")?;
        outcome
    }

    fn into_store(self) -> Segmented {
        self.keyspace.into_parts().0
    }
}

fn apply_effect(keyspace: &mut Keyspace<Segmented>, args: Args<'_>, replies: &mut Vec<u8>) -> Result<(), String> {
    let name = args.get(0).ok_or("holds an effect without a command")?;
    let id = commands::find(name).filter(|id| commands::command(*id).is_write());
    let id = id.filter(|id| commands::command(*id).accepts(args.len()));
    let id = id.ok_or_else(|| format!("holds an effect that is no write: {}", String::from_utf8_lossy(name)))?;
    replies.clear();
    commands::execute(id, keyspace, args, &mut Reply::new(replies, false));
    match replies.first() {
        Some(b'-') => Err(format!("fails on replay: {}", String::from_utf8_lossy(replies).trim_end())),
        _ => Ok(()),
    }
}

fn open_segment(
    dir: &Path,
    chain: u32,
    index: usize,
    policy: &SharedPolicy,
) -> Result<(Arc<Segment>, LogThread), String> {
    let path = Manifest::segment_path(dir, chain, index);
    let describe = |error: std::io::Error| format!("can't open {} to append: {error}", path.display());
    let mut file = OpenOptions::new().create(true).read(true).append(true).open(&path).map_err(describe)?;
    let mut len = file.seek(std::io::SeekFrom::End(0)).map_err(describe)?;
    let salt = if len == 0 {
        let salt = Salt(fastrand::u32(..));
        file.write_all(&segment_header(salt)).and_then(|()| file.sync_all()).map_err(describe)?;
        File::open(dir).and_then(|dir| dir.sync_all()).map_err(describe)?;
        len = SEGMENT_HEADER as u64;
        salt
    } else {
        let mut header = [0; SEGMENT_HEADER];
        file.rewind().and_then(|()| file.read_exact(&mut header)).map_err(describe)?;
        match decode_header(&header) {
            Header::Whole(salt) => salt,
            Header::Torn | Header::Foreign => unreachable!("recovery reads the header of every segment first"),
        }
    };
    Ok(Segment::start(path, file, len, salt, policy.clone()))
}
