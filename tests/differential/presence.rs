//! Which commands are tested: all that the server knows, except those listed here with a reason.

use harness::generator::families::FAMILIES;
use harness::{Server, Setup, Value};
use std::collections::BTreeSet;

/// Commands tested by `publishing`, not by a grammar: one request has several replies.
pub const PUBLISHING: &[&str] = &[
    "SUBSCRIBE",
    "UNSUBSCRIBE",
    "PSUBSCRIBE",
    "PUNSUBSCRIBE",
    "PUBLISH",
    "PUBSUB",
    "SSUBSCRIBE",
    "SUNSUBSCRIBE",
    "SPUBLISH",
];

/// Commands that the server knows but that are not tested, and why. Names with a `*` at the end are prefixes.
const NOT_TRIED: &[(&str, &str)] = &[
    ("ACL", "the users are those of 7.2, and 7.0 judges; tests/wire/acl.rs"),
    ("COMMAND", "the table describes what is there, which is not what Redis has; tests/wire/introspection.rs"),
    ("CONFIG", "the directives are not Redis's; tests/wire/introspection.rs"),
    ("INFO", "what it tells is about this server; tests/wire/introspection.rs"),
    ("STATS", "Shardrace's own"),
    ("TIME", "no two servers reply the same"),
    ("QUIT", "closes the connection, which the test needs; tests/wire/connections.rs"),
    ("DEBUG", "looks at the inside of the server"),
    ("PFDEBUG", "looks at the inside of a HyperLogLog; tests/wire/hyperloglog.rs"),
    ("PFSELFTEST", "tests the code of the server, not a key"),
    ("WAITAOF", "unknown to Redis 7.0, which judges"),
    ("MODULE", "there are no modules, whatever came before; tests/wire/administration.rs"),
    ("LOLWUT", "a picture of the version"),
    ("CLUSTER", "describes one node, which the server that judges is not; tests/wire/cluster.rs"),
    ("READONLY", "as CLUSTER"),
    ("READWRITE", "as CLUSTER"),
    ("ASKING", "as CLUSTER"),
    ("MEMORY", "tells about the allocator"),
    ("LATENCY", "tells about this server's past"),
    ("SLOWLOG", "tells about this server's past"),
    ("MONITOR", "never ends"),
    ("EVAL", "tried by `scripts`, not by a grammar"),
    ("FCALL", "as EVAL"),
    ("FCALL_RO", "as EVAL"),
    ("FUNCTION", "as EVAL"),
    ("EVALSHA", "as EVAL"),
    ("EVAL_RO", "as EVAL"),
    ("EVALSHA_RO", "as EVAL"),
    ("SCRIPT", "as EVAL"),
    ("SHUTDOWN", "ends the server"),
    ("REPLICAOF", "makes the server another's; tests/wire/replica"),
    ("SLAVEOF", "as REPLICAOF"),
    ("FAILOVER", "as REPLICAOF; tests/wire/replica/failover.rs"),
    ("PSYNC", "makes the connection one of a replica; tests/wire/replication.rs"),
    ("SYNC", "as PSYNC"),
    ("REPLCONF", "as PSYNC"),
    ("ROLE", "tells about replicas, which the server that judges has not; tests/wire/replication.rs"),
    ("BGREWRITEAOF", "tells about this server's log"),
    ("LASTSAVE", "a time"),
    ("SAVE", "writes a file; tests/wire/rdb.rs"),
    ("BGSAVE", "writes a file; tests/wire/rdb.rs"),
    ("DUMP", "what it replies is of the version of the format that 7.2 has; tests/wire/rdb.rs"),
    ("RESTORE", "takes what DUMP replied; tests/wire/rdb.rs"),
    ("RESTORE-ASKING", "as RESTORE"),
    ("MIGRATE", "needs another server; tests/wire/migration.rs"),
];

fn has_generator(name: &str) -> bool {
    FAMILIES.iter().flat_map(|family| family.commands).any(|command| command.0 == name) || PUBLISHING.contains(&name)
}

fn known_commands(server: &Server) -> BTreeSet<String> {
    let all = server.client().value(&["COMMAND", "LIST"]);
    all.byte_strings().iter().map(|name| String::from_utf8_lossy(name).to_uppercase()).collect()
}

fn any_server() -> Server {
    Server::start(Setup { engine: "mutex", shards: 1, threads: 1 }, &[])
}

#[test]
fn every_command_of_the_server_is_tried_or_says_why_not() {
    let known = known_commands(&any_server());
    let is_excused = |name: &str| NOT_TRIED.iter().any(|excuse| excuse.0 == name);
    let forgotten: Vec<&String> =
        known.iter().filter(|name| !name.contains('|') && !has_generator(name) && !is_excused(name)).collect();
    assert!(forgotten.is_empty(), "write a grammar in families.rs for {forgotten:?}");
    let twice: Vec<_> = NOT_TRIED.iter().filter(|excuse| has_generator(excuse.0) || excuse.1.is_empty()).collect();
    assert!(twice.is_empty(), "tried, and excused: {twice:?}");
}

#[test]
fn every_command_that_is_tried_is_known_to_the_server() {
    let server = any_server();
    let mut client = server.client();
    let families = FAMILIES.iter().filter(|family| family.name != "nothing").flat_map(|family| family.commands);
    for name in families.map(|command| command.0).chain(PUBLISHING.iter().copied()) {
        assert!(!client.value(&["COMMAND", "INFO", name]).elements()[0].is_null(), "{name}");
    }
}

#[test]
fn every_command_that_is_tried_is_known_to_the_judge() {
    let oracle = harness::RedisOracle::start();
    let mut client = oracle.client();
    for command in FAMILIES.iter().filter(|family| family.name != "nothing").flat_map(|family| family.commands) {
        let info = client.value(&["COMMAND", "INFO", command.0]);
        assert_ne!(info.elements()[0], Value::NullArray, "{}", command.0);
    }
}
