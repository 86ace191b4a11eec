//! The rows of commands that run in the connection. Their functions are in `connection`, which has a table of them: the
//! rows are used everywhere, also for reading a log, and know no connection.

pub(super) mod acl;
pub(super) mod administration;
pub(super) mod cluster;
pub(super) mod connections;
pub(super) mod following;
pub(super) mod pubsub;
pub(super) mod replication;
pub(super) mod transactions;
pub(super) mod waiting;
