//! The position of the data in a stream when the server ended, so that the stream continues there when it starts again.
//!
//! A replica logs its position with the changes that it applies ([`StreamPlace`]), so even a killed replica continues.
//! Libraries of functions are on the disk before the log is, so they may be of later then: their own position is in
//! the manifest.
//!
//! A server that ends in order writes its position to a file: the log contains neither PINGs nor a master's own
//! position.
//!
//! ```text
//! replication.position:  name of the stream | offset | database | last epoch of the log      (words of one line)
//! ```
//! It is written when the log is completely on the disk, and removed by the next start before anything changes: if it
//! exists, the data is at the position in it. The epoch identifies the log.

use crate::aof::{Disk, Manifest, Segment, replace};
use crate::config::Directive;
use crate::keyspace::StreamPlace;
use crate::replication::Role;
use crate::replication::link::Position;
use crate::state::Server;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;

const NAME: &str = "replication.position";

/// Writes the position of the data in the log, which has ended.
pub fn keep(server: &Server, disk: &dyn Disk) {
    let has_stream_data = is_of_a_stream(server) && server.has_log();
    let Some((Position { id, offset }, database)) = server.replication.position_at_end().filter(|_| has_stream_data)
    else {
        return;
    };
    let line = format!("{id} {offset} {database} {}\n", server.log_control.last_epoch());
    if let Err(error) = replace(disk, &dir(server), NAME, line.as_bytes()) {
        tracing::warn!("The replication offset can't be saved: {error}");
    }
}

/// Continues where the last run ended, if it ended in order and this log is the one it wrote; a replica also at the
/// position in its log. If the data will be changed by others than a master, that is recorded in the log.
pub fn restore(
    server: &Server,
    disk: &dyn Disk,
    logged: Option<StreamPlace>,
    manifest: &Manifest,
    segments: &[Arc<Segment>],
) {
    let kept = take(server, disk).unwrap_or_else(|error| {
        tracing::warn!("The replication offset of the last run can't be read: {error}");
        None
    });
    let kept = kept.filter(|(_, _, epoch)| *epoch == server.log_control.found_epoch());
    let of_log = logged.as_ref().and_then(|StreamPlace { id, offset, database }| {
        let position = Position { id: id.clone()?, offset: *offset };
        Some((position, *database))
    });
    let found = kept.map(|(position, database, _)| (position, database)).or(of_log);
    let is_replica = matches!(server.replication.role(), Role::Replica(_));
    if let Some((position, database)) = found.filter(|_| is_of_a_stream(server)) {
        tracing::info!("The data is that of the stream {} up to {}", position.id, position.offset);
        match is_replica {
            true => {
                server.replication.restore(position, database);
                return restore_functions_position(server, manifest);
            }
            false => {
                server.replication.restore_as_master(position);
                // Until all changes are in the stream.
                server.pause.begin_switch();
            }
        }
    }
    if let Some(StreamPlace { id: Some(_), offset, .. }) = logged {
        let payload = StreamPlace::none_at(offset).payload();
        segments.iter().for_each(|segment| segment.append_payload(&payload));
    }
}

fn restore_functions_position(server: &Server, manifest: &Manifest) {
    if let Some(StreamPlace { id: Some(id), offset, .. }) = manifest.functions_place() {
        server.replication.set_functions_position(Position { id: id.clone(), offset: *offset });
    }
    if let Some(Position { id, offset }) = server.replication.functions_ahead() {
        tracing::info!("The libraries of functions are those of the stream {id} up to {offset}");
    }
}

/// Whether only a master changes the data, or all changes made here are in the stream.
fn is_of_a_stream(server: &Server) -> bool {
    let is_replica = matches!(server.replication.role(), Role::Replica(_));
    match is_replica {
        true => server.config.is_on(Directive::ReplicaReadOnly),
        // Otherwise no replica can follow it.
        false => server.config.number(Directive::MultiKey) == 0,
    }
}

/// The position written by the last run, once.
fn take(server: &Server, disk: &dyn Disk) -> io::Result<Option<(Position, u16, u64)>> {
    let path = dir(server).join(NAME);
    let Some(bytes) = disk.read(&path)? else { return Ok(None) };
    disk.remove(&path)?;
    disk.sync_dir(&dir(server))?;
    let invalid = || io::Error::new(ErrorKind::InvalidData, format!("{}: it is no position", path.display()));
    parse(&bytes).map(Some).ok_or_else(invalid)
}

fn dir(server: &Server) -> PathBuf {
    PathBuf::from(server.config.text(Directive::Dir))
}

fn parse(bytes: &[u8]) -> Option<(Position, u16, u64)> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let words: Vec<&str> = text.split(' ').collect();
    let [id, offset, database, epoch] = words.as_slice() else { return None };
    let position = Position { id: (*id).to_owned(), offset: offset.parse().ok()? };
    Some((position, database.parse().ok()?, epoch.parse().ok()?))
}
