//! The rows of commands that run in the connection. Their functions are in `connection`, which has the table of them: the
//! rows are known to all, also to what reads a log, and know no connection.

pub(super) mod cluster;
pub(super) mod connections;
pub(super) mod following;
pub(super) mod pubsub;
pub(super) mod replication;
pub(super) mod server;
pub(super) mod transactions;
pub(super) mod waiting;
