//! Snapshots and payloads of servers that are newer than the oracle: Redis 8.2 and Valkey 9.1. `snapshots/make.py` made
//! the files with the real binaries.

use crate::rdb::assert_same_keys;
use harness::server::binary;
use harness::{Client, Data, EVERY_ENGINE, RedisOracle, Setup, Value, on_every_engine, run_to_its_end};
use std::path::{Path, PathBuf};
use std::process::Command;

const ENGINES: [Setup; 3] = [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[4]];

/// The names of the files, and the servers that wrote them.
const SERVERS: [(&str, &str); 2] = [("redis-8.2", "Redis 8.2.3 (RDB 12)"), ("valkey-9.1", "Valkey 9.1.2 (RDB 80)")];

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/wire/snapshots").join(name)
}

/// The requests of `make.py`, except the deadlines of fields that it removed again.
fn requests() -> Vec<Vec<String>> {
    let text = std::fs::read_to_string(file("make.py")).unwrap();
    let lines = text.split("\"\"\"").nth(3).unwrap().trim().lines();
    let lines = lines.filter(|line| !["HEXPIRE", "HPERSIST"].iter().any(|name| line.starts_with(name)));
    lines.map(|line| line.split(' ').flat_map(expanded).collect()).collect()
}

fn expanded(word: &str) -> Vec<String> {
    let Some((kind, rest)) = word.strip_prefix('{').and_then(|word| word.strip_suffix('}')?.split_once(':')) else {
        return vec![word.to_owned()];
    };
    let count: usize = rest.split(':').next().unwrap().parse().unwrap();
    (0..count)
        .flat_map(|n| match kind {
            "numbers" => vec![format!("m{n}")],
            "pairs" => vec![format!("field:{n}"), n.to_string()],
            _ => vec![n.to_string(), format!("member:{n}")],
        })
        .collect()
}

/// An old Redis with the same requests.
fn reference() -> RedisOracle {
    let oracle = RedisOracle::start();
    let replies = oracle.client().pipeline(&requests());
    let errors: Vec<_> = replies.iter().filter(|reply| matches!(reply, Value::Error(_))).collect();
    assert!(errors.is_empty(), "{errors:?}");
    oracle
}

fn assert_like(reference: &RedisOracle, client: &mut Client) {
    let mut theirs = reference.client();
    assert_same_keys(client, &mut theirs);
    client.expect("PEXPIRETIME until", ":33177117420000\r\n");
    for client in [client, &mut theirs] {
        client.expect("SELECT 3", "+OK\r\n");
        client.expect("GET other", "$1\r\n3\r\n");
        client.expect("DBSIZE", ":1\r\n");
    }
}

fn with_snapshot(name: &str) -> Data {
    let data = Data::new();
    std::fs::copy(file(name), data.path().join("dump.rdb")).unwrap();
    data
}

#[test]
fn snapshots_of_redis_8_and_valkey_9_are_loaded_taken_over_and_imported() {
    let reference = reference();
    for setup in ENGINES {
        for (name, origin) in SERVERS {
            for flags in [&["--appendonly", "no", "--save", ""][..], &[]] {
                let server = with_snapshot(&format!("{name}.rdb")).start(setup, flags);
                let log = server.log();
                assert!(log.contains(origin), "{setup:?} {flags:?}: {log}");
                server.client().expect("FCALL f 0", ":1\r\n");
                assert_like(&reference, &mut server.client());
            }
            let data = Data::new();
            let mut import = Command::new(binary());
            import.arg("import").arg(file(&format!("{name}.rdb"))).arg("--dir").arg(data.path());
            let ended = run_to_its_end(import.args(["--engine", setup.engine, "--shards", &setup.shards.to_string()]));
            assert!(ended.stdout.contains(origin), "{ended:?}");
            let server = data.start(setup, &[]);
            server.client().expect("FCALL f 0", ":1\r\n");
            assert_like(&reference, &mut server.client());
        }
    }
}

/// Fields do not expire here: without their deadlines the data would differ.
#[test]
fn a_snapshot_with_a_field_that_expires_is_refused_with_the_name_of_the_key() {
    const WORDS: &str = "the value of the key hash:expiring: a field of the hash expires, and fields that expire are not \
                         supported here";
    for (name, _) in SERVERS {
        let snapshot = format!("{name}-expiring.rdb");
        for flags in [&["--appendonly", "no"][..], &[]] {
            let data = with_snapshot(&snapshot);
            let ended = data.start_refused(EVERY_ENGINE[0], flags);
            assert!(ended.stderr.contains(WORDS) && ended.stderr.contains("dump.rdb: at byte "), "{ended:?}");
            assert_eq!(std::fs::read(data.path().join("dump.rdb")).unwrap(), std::fs::read(file(&snapshot)).unwrap());
        }
        let data = Data::new();
        let mut import = Command::new(binary());
        let ended = run_to_its_end(import.arg("import").arg(file(&snapshot)).arg("--dir").arg(data.path()));
        assert!(!ended.status.success() && ended.stderr.contains(WORDS), "{ended:?}");
    }
}

#[test]
fn payloads_of_redis_8_and_valkey_9_are_restored_and_one_with_a_field_that_expires_is_refused() {
    let reference = reference();
    on_every_engine(|server| {
        for (name, _) in SERVERS {
            let mut client = server.client();
            client.expect("FLUSHALL", "+OK\r\n");
            for line in std::fs::read_to_string(file(&format!("{name}.dump"))).unwrap().lines() {
                let (key, hex) = line.split_once(' ').unwrap();
                let payload: Vec<u8> =
                    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
                let (ttl, options): (&str, &[&[u8]]) =
                    if key == "until" { ("33177117420000", &[b"ABSTTL"]) } else { ("0", &[]) };
                let words = [&[b"RESTORE".as_slice(), key.as_bytes(), ttl.as_bytes(), &payload][..], options].concat();
                let reply = client.value(&words);
                if key == "hash:expiring" {
                    let wanted = "ERR the value of the key hash:expiring: a field of the hash expires, and fields \
                                  that expire are not supported: see HPERSIST";
                    assert_eq!(reply, Value::Error(wanted.into()), "{name}");
                    // Other versions of either are not in use yet.
                    for (version, is_known) in [(13, false), (79, false), (80, true), (81, false)] {
                        let mut other = payload.clone();
                        let end = other.len() - 8;
                        other[end - 2] = version;
                        let crc = crc::Crc::<u64>::new(&crc::CRC_64_REDIS).checksum(&other[..end]);
                        other[end..].copy_from_slice(&crc.to_le_bytes());
                        let reply = client.value(&[b"RESTORE".as_slice(), b"other", b"0", &other]);
                        let is_footer = reply.text().contains("version or checksum are wrong");
                        assert_eq!(!is_footer, is_known, "{name}, version {version}: {reply:?}");
                    }
                } else {
                    assert_eq!(reply, Value::Simple(b"OK".to_vec()), "{name}: {key}");
                }
            }
            client.expect("SELECT 3", "+OK\r\n");
            client.expect("SET other 3", "+OK\r\n");
            client.expect("SELECT 0", "+OK\r\n");
            assert_like(&reference, &mut client);
        }
    });
}
