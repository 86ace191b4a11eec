//! Damaged files of the log, and full disks: what was promised is there, or an error says what is not. The whole table
//! of damages is in `src/aof/faults/files.rs`; here the messages of the process and its end are tested.

use harness::{Client, Data, EVERY_ENGINE, Ended, Server, Setup, Value, binary, request, run_to_its_end, wait_until};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// One setup of each engine, the actor engine with several segments.
const ENGINES: [Setup; 3] = [EVERY_ENGINE[0], EVERY_ENGINE[1], EVERY_ENGINE[3]];

fn check(data: &Data, flags: &[&str]) -> Ended {
    run_to_its_end(Command::new(binary()).arg("check-aof").arg(data.path()).args(flags))
}

fn name_of(path: &Path) -> &str {
    path.file_name().unwrap().to_str().unwrap()
}

fn cut(path: &Path, len: u64) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len).unwrap();
}

fn write_keys(client: &mut Client, keys: usize) {
    let sets: Vec<_> = (0..keys).map(|key| vec!["SET".to_owned(), format!("key:{key}"), key.to_string()]).collect();
    client.pipeline(&sets);
}

#[test]
fn a_segment_that_is_missing_or_empty_or_short_is_refused_by_name_and_check_aof_says_the_same() {
    const KEYS: usize = 101;
    for setup in EVERY_ENGINE {
        for is_killed in [false, true] {
            let server = Server::start(setup, &[]);
            write_keys(&mut server.client(), KEYS);
            let data = if is_killed { server.kill() } else { server.stop().1 };
            let segment = data.path().join("appendonlydir/chain-1.segment-0.aof");
            for len in [None, Some(0), Some(9), Some(16), Some(41)] {
                let damaged = data.copy();
                let path = damaged.path().join("appendonlydir").join(name_of(&segment));
                match len {
                    None => std::fs::remove_file(&path).unwrap(),
                    Some(len) => cut(&path, len),
                }
                let what = format!("{setup:?}, killed: {is_killed}, cut to {len:?}");
                let ended = damaged.start_refused(setup, &[]);
                assert_eq!(ended.status.code(), Some(1), "{what}: {}", ended.stderr);
                assert!(ended.stderr.contains(path.to_str().unwrap()), "{what}: {}", ended.stderr);
                let checked = check(&damaged, &[]);
                assert_eq!(checked.status.code(), Some(1), "{what}: {checked:?}");
                assert!(checked.stdout.contains("A server refuses it: "), "{what}: {checked:?}");
                assert!(checked.stdout.contains(name_of(&segment)), "{what}: {checked:?}");
                if len.is_none() {
                    let saved = check(&damaged, &["--salvage"]);
                    assert_eq!(saved.status.code(), Some(0), "{what}: {saved:?}");
                    damaged.start(setup, &[]).assert_serving();
                }
            }
            assert_eq!(data.start(setup, &[]).client().value(&["DBSIZE"]), Value::Integer(KEYS as i64), "{setup:?}");
        }
    }
}

#[test]
fn segments_that_changed_places_and_a_manifest_of_another_log_are_refused_by_name() {
    let setup = EVERY_ENGINE[3];
    let log = || {
        let server = Server::start(setup, &[]);
        write_keys(&mut server.client(), 101);
        server.stop().1
    };
    let (swapped, other) = (log(), log());
    let path = |data: &Data, name: &str| data.path().join("appendonlydir").join(name);
    let manifest = swapped.copy();
    std::fs::copy(path(&other, "shardrace.manifest"), path(&manifest, "shardrace.manifest")).unwrap();
    let [one, two] = [0, 1].map(|segment| path(&swapped, &format!("chain-1.segment-{segment}.aof")));
    let bytes = [&one, &two].map(|path| std::fs::read(path).unwrap());
    std::fs::write(&one, &bytes[1]).unwrap();
    std::fs::write(&two, &bytes[0]).unwrap();
    for data in [&swapped, &manifest] {
        let ended = data.start_refused(setup, &[]);
        assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains("segment-0.aof is of another segment, or of another log"), "{}", ended.stderr);
        let checked = check(data, &[]);
        assert!(
            checked.stdout.contains("A server refuses it: ") && checked.stdout.contains("segment-0"),
            "{checked:?}"
        );
    }
}

/// Makes the disk full for what the process writes to files; mapped files have their space.
fn with_full_disk(server: &Server) {
    wait_until("all is in the files", || server.info_number("aof_unsynced_length") == 0);
    server.limit_files(1);
}

#[test]
fn a_stop_on_a_full_disk_says_what_stands_in_the_write_buffer_only_and_fails_and_the_next_start_has_it() {
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("SET before 1", "+OK\r\n");
        with_full_disk(&server);
        client.expect("SET after 2", "+OK\r\n");
        let (status, data, log) = server.stop();
        assert_eq!(status.code(), Some(1), "{setup:?}: {log}");
        let buffers: Vec<PathBuf> =
            data.log_files().into_iter().filter(|path| name_of(path).ends_with(".write-buffer")).collect();
        assert!(!buffers.is_empty(), "{setup:?}: no buffer is left");
        let is_named = buffers.iter().any(|path| log.contains(path.to_str().unwrap()));
        assert!(is_named && log.contains("bytes stand only in") && log.contains("File too large"), "{setup:?}: {log}");
        assert!(!log.contains("bye bye"), "{setup:?}: {log}");
        let server = data.start(setup, &[]);
        server.client().expect("GET after", "$1\r\n2\r\n");
        server.client().expect("GET before", "$1\r\n1\r\n");
        let (status, _, log) = server.stop();
        assert!(status.success(), "{log}");
    }
}

/// A value too large for a write buffer, whose reply waits for the disk.
fn send_large(server: &Server) -> Client {
    let mut client = server.client();
    client.send(&request(&["SET", "large", &"x".repeat(3_000_000)]));
    server.wait_for_log("Writes are refused");
    client
}

#[test]
fn a_stop_on_a_full_disk_ends_connections_that_wait_for_it_without_their_replies() {
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        server.client().expect("SET before 1", "+OK\r\n");
        with_full_disk(&server);
        let mut waiting = send_large(&server);
        let mut blocked = server.client();
        blocked.send(&request(&["WAITAOF", "1", "0", "0"]));
        let start = Instant::now();
        let (status, data, log) = server.stop();
        let took = start.elapsed();
        assert!(took < Duration::from_secs(20), "{setup:?}: {took:?}");
        assert_eq!(status.code(), Some(1), "{setup:?}: {log}");
        assert!(log.contains("for which no success was replied") && log.contains("segment-"), "{setup:?}: {log}");
        assert!(waiting.values_if_open(1).is_none(), "{setup:?}: a reply to what is lost");
        let server = data.start(setup, &[]);
        server.client().expect("EXISTS large before", ":1\r\n");
    }
}

#[test]
fn reads_over_any_number_of_shards_go_on_while_the_log_cannot_be_written() {
    let keys: Vec<String> = (0..8).map(|number| format!("set:{number}")).collect();
    for setup in ENGINES {
        println!("on {setup:?}");
        let server = Server::start(setup, &[]);
        let mut reader = server.client();
        keys.iter().for_each(|key| drop(reader.call(&["SADD", key, key])));
        with_full_disk(&server);
        let _waiting = send_large(&server);
        // Every shard has something then that it cannot write: the mark of an epoch.
        std::thread::sleep(Duration::from_millis(2500));
        let union = [vec!["SUNION".to_owned()], keys.clone()].concat();
        assert_eq!(reader.value(&union).elements().len(), keys.len());
        reader.expect("MULTI", "+OK\r\n");
        keys.iter().for_each(|key| drop(reader.call(&["SCARD", key])));
        assert_eq!(reader.value(&["EXEC"]).elements().len(), keys.len());
        server.limit_files(u64::MAX);
    }
}

#[test]
fn a_disk_that_gets_room_again_while_the_server_stops_takes_all_and_the_stop_is_a_clean_one() {
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        with_full_disk(&server);
        let mut waiting = send_large(&server);
        server.signal("TERM");
        server.wait_for_log("User requested shutdown");
        server.limit_files(u64::MAX);
        assert_eq!(waiting.values_if_open(1), Some(vec![Value::Simple(b"OK".to_vec())]), "{setup:?}");
        let (status, data, log) = server.wait_for_end();
        assert!(status.success() && log.contains("bye bye"), "{setup:?}: {log}");
        data.start(setup, &[]).client().expect("STRLEN large", ":3000000\r\n");
    }
}

#[test]
fn a_write_buffer_that_the_disk_does_not_take_ends_the_server_with_its_name_and_nothing_acknowledged_is_lost() {
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        let data = server.data().clone();
        server.client().expect("SET before 1", "+OK\r\n");
        wait_until("all is in the files", || server.info_number("aof_unsynced_length") == 0);
        let is_buffer = |path: &PathBuf| name_of(path).ends_with(".write-buffer");
        let buffers: Vec<PathBuf> = data.log_files().into_iter().filter(is_buffer).collect();
        assert!(!buffers.is_empty(), "{setup:?}");
        buffers.iter().for_each(|path| cut(path, 0));
        let mut client = server.client();
        client.send_if_open(&request(&["SET", "after", "2"]));
        assert!(client.values_if_open(1).is_none(), "{setup:?}");
        let (status, data, log) = server.wait_for_end();
        assert_eq!(status.code(), Some(1), "{setup:?}: {log}");
        let line = log.lines().find(|line| line.contains("bus error")).unwrap_or_else(|| panic!("{setup:?}: {log}"));
        assert!(buffers.iter().any(|path| line.contains(path.to_str().unwrap())), "{setup:?}: {line}");
        data.start(setup, &[]).client().expect("GET before", "$1\r\n1\r\n");
    }
}

/// With a log file the message is in that file.
#[test]
fn a_write_buffer_that_the_disk_does_not_take_is_named_in_the_log_file() {
    let data = Data::new();
    let file = data.path().join("server.log");
    let mut child = Command::new(binary())
        .args(harness::arguments(&data, EVERY_ENGINE[0]))
        .args(["--logfile", file.to_str().unwrap()])
        .spawn()
        .unwrap();
    let text = || std::fs::read_to_string(&file).unwrap_or_default();
    wait_until("the server serves", || text().contains("Ready to accept connections"));
    let port: u16 = text().lines().last().and_then(|line| line.rsplit(':').next()).unwrap().parse().unwrap();
    let buffer = data.path().join("appendonlydir/chain-1.segment-0.aof.write-buffer");
    cut(&buffer, 0);
    Client::connect(([127, 0, 0, 1], port).into()).send_if_open(&request(&["SET", "key", "value"]));
    assert_eq!(child.wait().unwrap().code(), Some(1), "{}", text());
    assert!(
        text().contains(&format!("Fatal: can't use the mapped file {}: bus error", buffer.display())),
        "{}",
        text()
    );
}

/// A log of Redis with so many keys, which take more space in ours than their bytes.
fn redis_log(keys: usize, len: usize) -> tempfile::NamedTempFile {
    let mut bytes = Vec::new();
    for key in 0..keys {
        let value: String = (0..len).map(|_| fastrand::alphanumeric()).collect();
        bytes.extend(request(&["SET", &format!("key:{key}"), &value]));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn import(from: &Path, data: &Data, setup: Setup) -> Vec<String> {
    let shards = setup.shards.to_string();
    let (from, dir) = (from.to_str().unwrap(), data.path().to_str().unwrap());
    [binary(), "import", from, "--dir", dir, "--engine", setup.engine, "--shards", &shards].map(str::to_owned).to_vec()
}

/// Runs a command that may make no file longer than so many blocks of 512 bytes.
fn run_on_full_disk(blocks: u64, words: &[String]) -> Ended {
    let mut command = Command::new("sh");
    run_to_its_end(command.args(["-c", &format!("ulimit -f {blocks} && exec \"$0\" \"$@\"")]).args(words))
}

#[test]
fn an_import_onto_a_full_disk_fails_with_the_path_and_leaves_nothing_that_starts() {
    const KEYS: usize = 900;
    let from = redis_log(KEYS, 3000);
    for setup in ENGINES {
        let (mut failed, mut written) = (0, 0);
        for blocks in [0, 1, 100, 2100, 4000, 20_000] {
            let data = Data::new();
            let what = format!("{setup:?}, {blocks} blocks");
            let ended = run_on_full_disk(blocks, &import(from.path(), &data, setup));
            let wanted = if ended.status.success() {
                assert!(ended.stdout.contains(&format!("{KEYS} keys in 1 databases")), "{what}: {ended:?}");
                written += 1;
                KEYS
            } else {
                assert_eq!(ended.status.code(), Some(1), "{what}: {ended:?}");
                assert!(ended.stderr.contains(data.path().to_str().unwrap()), "{what}: {ended:?}");
                assert!(!ended.stdout.contains("written"), "{what}: {ended:?}");
                let left: Vec<PathBuf> =
                    data.log_files().into_iter().filter(|path| !name_of(path).ends_with(".lock")).collect();
                assert!(left.is_empty(), "{what}: {left:?}");
                failed += 1;
                0
            };
            let server = data.start(setup, &[]);
            assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(wanted as i64), "{what}");
        }
        assert!(failed > 3 && written > 0, "{setup:?}: {failed} failed, {written} did not");
    }
}

#[test]
fn an_import_takes_no_memory_for_the_file_beside_that_for_its_keys() {
    const MB: usize = 1 << 20;
    const FILE: usize = 256 * MB;
    // The same key repeatedly, in a log and after a snapshot.
    let set = request(&["SET", "key", &"x".repeat(MB)]);
    let snapshot = b"REDIS0010\xFF\0\0\0\0\0\0\0\0";
    for start in [b"".as_slice(), snapshot] {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), [start, &set.repeat(FILE / MB)].concat()).unwrap();
        let data = Data::new();
        let setup = EVERY_ENGINE[0];
        let mut command = Command::new("sh");
        // Kilobytes of its own memory: mapped files do not count.
        command.args(["-c", &format!("ulimit -d {} && exec \"$0\" \"$@\"", FILE / 2 / 1024)]);
        let ended = run_to_its_end(command.args(import(file.path(), &data, setup)));
        assert!(ended.status.success(), "{ended:?}");
        data.start(setup, &[]).client().expect("STRLEN key", &format!(":{MB}\r\n"));
    }
}

#[test]
fn an_import_reads_what_comes_through_a_pipe() {
    let file = redis_log(10, 100);
    let data = Data::new();
    let setup = EVERY_ENGINE[0];
    let mut command = Command::new("sh");
    command.args(["-c", "cat \"$0\" | \"$@\""]).arg(file.path());
    let ended = run_to_its_end(command.args(import(Path::new("/dev/stdin"), &data, setup)));
    assert!(ended.stdout.contains("10 keys in 1 databases"), "{ended:?}");
    assert_eq!(data.start(setup, &[]).client().value(&["DBSIZE"]), Value::Integer(10));
}

#[test]
fn an_import_that_was_killed_leaves_nothing_that_starts_and_the_next_one_removes_it() {
    const KEYS: usize = 20_000;
    let from = redis_log(KEYS, 500);
    for setup in ENGINES {
        let mut unfinished = 0;
        for _ in 0..10 {
            let data = Data::new();
            let words = import(from.path(), &data, setup);
            let mut child = Command::new(&words[0]).args(&words[1..]).spawn().unwrap();
            let segment = data.path().join("appendonlydir/chain-1.segment-0.aof");
            wait_until("the import writes", || segment.exists());
            child.kill().unwrap();
            child.wait().unwrap();
            let manifest = std::fs::read_to_string(data.path().join("appendonlydir/shardrace.manifest")).unwrap();
            if !manifest.contains("unfinished import") {
                continue;
            }
            unfinished += 1;
            let refused = data.start_refused(setup, &[]);
            assert_eq!(refused.status.code(), Some(1), "{refused:?}");
            assert!(refused.stderr.contains("an import into this directory has not come to its end"), "{refused:?}");
            assert!(check(&data, &[]).stderr.contains("has not come to its end"));
            let again = run_to_its_end(Command::new(&words[0]).args(&words[1..]));
            assert!(again.stdout.contains("removed what an import has left"), "{again:?}");
            assert_eq!(data.start(setup, &[]).client().value(&["DBSIZE"]), Value::Integer(KEYS as i64), "{setup:?}");
            break;
        }
        assert!(unfinished > 0, "{setup:?}: every import had ended before it was killed");
    }
}

/// A start writes: to each file of the log, to the buffers and to the manifest.
#[test]
fn a_start_on_a_full_disk_is_refused_with_a_path_or_serves_and_loses_nothing() {
    const KEYS: usize = 200;
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        write_keys(&mut server.client(), KEYS);
        let data = server.kill();
        let mut refused = 0;
        for blocks in [0, 1, 4, 16] {
            let data = data.copy();
            let words: Vec<String> = [vec![binary().to_owned()], harness::arguments(&data, setup)].concat();
            let mut command = Command::new("sh");
            command.args(["-c", &format!("ulimit -f {blocks} && exec \"$0\" \"$@\"")]).args(&words);
            match Server::try_spawn(&mut command, data.clone(), setup) {
                Ok(server) => drop(server.kill()),
                Err(log) => {
                    assert!(log.contains("Fatal: ") && log.contains(data.path().to_str().unwrap()), "{blocks}: {log}");
                    refused += 1;
                }
            }
            let server = data.start(setup, &[]);
            assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(KEYS as i64), "{setup:?}, {blocks} blocks");
        }
        assert!(refused > 0, "{setup:?}");
    }
}

/// The operating system says what happened, and not where.
#[test]
fn a_directory_that_was_removed_is_named_when_a_rewriting_and_the_end_fail() {
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("SET k v", "+OK\r\n");
        let dir = server.data().path().join("appendonlydir");
        std::fs::remove_dir_all(&dir).unwrap();
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        let dir = dir.display().to_string();
        server.wait_for_log(&format!("Background AOF rewrite failed, the log in {dir} stays as it was: No such file"));
        let (status, _, log) = server.stop();
        assert_eq!(status.code(), Some(1), "{setup:?}: {log}");
        assert!(log.contains(&format!("but not its manifest in {dir}: No such file")), "{setup:?}: {log}");
    }
}

/// As somebody does who restores a backup and restarts the server afterwards, not before.
#[test]
fn a_directory_that_took_the_place_of_the_log_is_not_written_to() {
    for setup in ENGINES {
        let server = Server::start(setup, &[]);
        server.client().expect("SET k backup", "+OK\r\n");
        let backup = server.stop().1;
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        client.expect("SET k newer", "+OK\r\n");
        let (dir, away) = (server.data().path().join("appendonlydir"), Data::new());
        std::fs::rename(&dir, away.path().join("appendonlydir")).unwrap();
        std::fs::rename(backup.copy().path().join("appendonlydir"), &dir).unwrap();
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        let lock = dir.join("shardrace.lock").display().to_string();
        server.wait_for_log(&format!("stays as it was: {lock} is not the file that this server has locked"));
        client.expect("SET k newest", "+OK\r\n");
        let (status, data, log) = server.stop();
        assert_eq!(status.code(), Some(1), "{setup:?}: {log}");
        assert!(log.contains(&format!("but not its manifest in {}: {lock}", dir.display())), "{setup:?}: {log}");
        data.start(setup, &[]).client().expect("GET k", "$6\r\nbackup\r\n");
        away.start(setup, &[]).client().expect("GET k", "$6\r\nnewest\r\n");
    }
}
