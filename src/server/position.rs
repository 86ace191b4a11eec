//! Where a replica stood in the stream of its master when it ended in order, so that it goes on there when it starts again.
//!
//! ```text
//! replication.position:  name of the stream | offset | database | last epoch of the log      (words of one line)
//! ```
//! It is written when the log is on the disk as a whole, and taken away by the next start before anything changes: whoever
//! finds it has the data that it tells of. The epoch says which log that is.

use crate::aof::{Disk, replace};
use crate::config::Directive;
use crate::replication::Role;
use crate::replication::link::Position;
use crate::state::Server;
use std::io::{self, ErrorKind};
use std::path::PathBuf;

const NAME: &str = "replication.position";

/// Notes where the data stands that the log has, which has ended.
pub fn keep(server: &Server, disk: &dyn Disk) {
    let is_replica = matches!(server.replication.role(), Role::Replica(_));
    let is_the_stream_s = is_replica && server.config.is_on(Directive::ReplicaReadOnly) && server.has_log();
    let Some((Position { id, offset }, database)) = server.replication.position().filter(|_| is_the_stream_s) else {
        return;
    };
    let line = format!("{id} {offset} {database} {}\n", server.log_control.last_epoch());
    if let Err(error) = replace(disk, &dir(server), NAME, line.as_bytes()) {
        tracing::warn!("Where this replica stood is not noted, it will ask for all data: {error}");
    }
}

/// Goes on where the last run has ended, if it did in order and this log is that one's.
pub fn restore(server: &Server, disk: &dyn Disk) -> io::Result<()> {
    let path = dir(server).join(NAME);
    let Some(bytes) = disk.read(&path)? else { return Ok(()) };
    disk.remove(&path)?;
    disk.sync_dir(&dir(server))?;
    let is_replica = matches!(server.replication.role(), Role::Replica(_));
    match parse(&bytes) {
        Some((position, database, epoch)) if is_replica && epoch == server.log_control.found_epoch() => {
            tracing::info!("The data is that of the stream {} up to {}", position.id, position.offset);
            server.replication.restore(position, database);
            Ok(())
        }
        Some(_) => Ok(()),
        None => Err(io::Error::new(ErrorKind::InvalidData, format!("{}: it is no position", path.display()))),
    }
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
