//! Commands about replication.

use super::LocalCall;
use crate::commands::Outcome;
use crate::replication::{Master, Role};
use crate::resp::{Args, Reply};

/// ROLE: O(1)
pub fn role(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let replication = &call.server.replication;
    match replication.role() {
        Role::Master => {
            reply.array(3);
            reply.bulk(b"master");
            write_offset(replication.offset(), reply);
            reply.array(0);
        }
        Role::Replica(Master { host, port, link }) => {
            reply.array(5);
            reply.bulk(b"slave");
            reply.bulk(host.as_bytes());
            reply.integer(port.into());
            reply.bulk(link.name().as_bytes());
            write_offset(replication.offset(), reply);
        }
    }
    Ok(())
}

fn write_offset(offset: u64, reply: &mut Reply<'_>) {
    reply.integer(i64::try_from(offset).expect("no stream gets as long as 2^63 bytes"));
}
