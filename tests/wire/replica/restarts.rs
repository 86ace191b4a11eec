//! A server that starts again continues where it was: a replica however it ended, a master if it ended in order.

use super::*;
use std::path::{Path, PathBuf};

/// The flags of a replica that starts again.
pub fn again(master: SocketAddr) -> Vec<String> {
    let flags = [&REPLICA[..], &["--replicaof", "127.0.0.1"]].concat();
    flags.into_iter().map(str::to_owned).chain([master.port().to_string()]).collect()
}

pub fn start(data: &Data, setup: Setup, flags: &[String]) -> Server {
    data.start(setup, &flags.iter().map(String::as_str).collect::<Vec<_>>())
}

pub fn number(client: &mut Client, field: &str) -> u64 {
    info(client)[field].parse().expect("it is a number")
}

#[test]
fn a_replica_goes_on_where_it_was_whether_it_ended_in_order_or_was_killed() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let mut theirs = master.client();
        let mut load = Load::new(seed());
        load.send(&mut theirs, 500);
        let mut server = replica_of(master.address(), setup, &[]);
        let mut ours = server.client();
        // A FLUSHALL while the master sends a snapshot makes it cut the link.
        wait_for_sync(&mut theirs, &mut ours);
        load.send(&mut theirs, 500);
        theirs.expect("SELECT 5", "+OK\r\n");
        theirs.expect("SET in five", "+OK\r\n");
        assert_same(&mut theirs, &mut ours);
        let flags = again(master.address());
        wait_for_whole_log(&mut ours);
        for round in 0..effort("RESTARTS", 4) {
            let (before, data) = match round % 2 {
                // Data in flight when it is killed is sent again.
                1 => {
                    load.send(&mut theirs, 500);
                    (server.log(), server.kill())
                }
                _ => {
                    let (_, data, log) = server.stop();
                    (log, data)
                }
            };
            // The stream continues in the database that it had selected.
            theirs.expect(&format!("SET in {round}"), "+OK\r\n");
            let partial = number(&mut theirs, "sync_partial_ok");
            server = start(&data, setup, &flags);
            let mut ours = server.client();
            load.send(&mut theirs, 500);
            assert_same(&mut theirs, &mut ours);
            assert_eq!(number(&mut theirs, "sync_full"), 1, "round {round}: {before}{}", server.log());
            assert!(number(&mut theirs, "sync_partial_ok") > partial, "round {round}: {before}{}", server.log());
            if round == 1 {
                // The new log has its position, too.
                ours.call(&["BGREWRITEAOF"]);
                wait_for_whole_log(&mut ours);
            }
        }
        assert!(!server.log().contains("REPLICATION HAS ENDED"), "{}", server.log());
    }
}

#[test]
fn a_replica_that_was_killed_while_its_master_writes_has_all_of_it_once() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let mut server = replica_of(master.address(), setup, &[]);
        let (mut theirs, mut ours) = (master.client(), server.client());
        assert_same(&mut theirs, &mut ours);
        wait_for_whole_log(&mut ours);
        let flags = again(master.address());
        let rounds = effort("KILLS", 4);
        for _ in 0..rounds {
            let begun = number(&mut ours, "slave_repl_offset");
            let data = std::thread::scope(|scope| {
                let writer = scope.spawn(|| {
                    let mut client = master.client();
                    // A command applied twice, or not at all, would show.
                    for count in 0..300 {
                        let keys = [0, 1, 2].map(|at| format!("count:{}", (count + at) % 7));
                        let add = |key: &String| vec!["INCR".to_owned(), key.clone()];
                        let mut requests = vec![vec!["MULTI".to_owned()]];
                        requests.extend(keys.iter().map(add));
                        requests.push(vec!["RPUSH".to_owned(), "list".to_owned(), count.to_string()]);
                        requests.push(vec!["EXEC".to_owned()]);
                        client.pipeline(&requests);
                    }
                });
                wait_until("some of it is there", || number(&mut ours, "slave_repl_offset") > begun + 2_000);
                let data = server.kill();
                writer.join().unwrap();
                data
            });
            server = start(&data, setup, &flags);
            ours = server.client();
            assert_same(&mut theirs, &mut ours);
            assert_eq!(number(&mut theirs, "sync_full"), 1, "{}", server.log());
        }
        assert!(number(&mut theirs, "sync_partial_ok") >= rounds as u64);
        assert_eq!(number(&mut theirs, "sync_partial_err"), 0);
    }
}

/// The data of a replica with the libraries of functions of later: what is left when the last records of its log are
/// lost, since the libraries are on the disk before them.
fn with_later_functions(data: &Data, later: &Data) -> Data {
    let mixed = data.copy();
    let dir = mixed.path().join("appendonlydir");
    let files = |dir: &Path| std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let is_of_functions = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("functions-");
    files(&dir).iter().filter(|path| is_of_functions(path)).for_each(|path| std::fs::remove_file(path).unwrap());
    let taken = files(&later.path().join("appendonlydir")).into_iter().filter(is_of_functions);
    taken.for_each(|path| _ = std::fs::copy(&path, dir.join(path.file_name().unwrap())).unwrap());
    // The manifest names them, with all that it says of the log, and ends with its check.
    let manifest = |data: &Data| data.path().join("appendonlydir/shardrace.manifest");
    let text = |data: &Data| std::fs::read_to_string(manifest(data)).unwrap();
    let (text, later) = (text(data), text(later));
    let line = |text: &str, word: &str| text.lines().find(|line| line.starts_with(word)).unwrap().to_owned() + "\n";
    let text = ["format ", "functions "]
        .iter()
        .fold(text, |text, &word| text.replace(&line(&text, word), &line(&later, word)));
    let text = text.replace(&line(&text, "check "), "");
    let check = crc32fast::hash(text.as_bytes());
    std::fs::write(manifest(&mixed), format!("{text}check {check:08x}\n")).unwrap();
    mixed
}

#[test]
fn libraries_that_are_of_later_than_the_log_of_a_replica_stand_against_nothing_that_its_master_sends_again() {
    let library = |name: &str, function: &str| {
        let code = format!("redis.register_function('{function}', function() return '{name}' end)");
        vec!["FUNCTION".to_owned(), "LOAD".to_owned(), format!("#!lua name={name}\n{code}")]
    };
    let libraries = |client: &mut Client| {
        let list = client.value(&["FUNCTION", "LIST"]);
        let mut names: Vec<_> = list.elements().iter().map(|library| library.elements()[1].text()).collect();
        names.sort();
        names
    };
    let owned = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
    let ended = "REPLICATION HAS ENDED";
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = master();
        let mut theirs = master.client();
        let port = master.address().port().to_string();
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let successor = RedisOracle::start_replica(&[&at_once[..], &["--replicaof", "127.0.0.1", &port]].concat());
        assert_same(&mut theirs, &mut successor.client());
        theirs.pipeline(&[library("first", "f"), library("stays", "s"), owned("SET before 1")]);
        let server = replica_of(master.address(), setup, &[]);
        assert_same(&mut theirs, &mut server.client());
        wait_for_whole_log(&mut server.client());
        let payload = theirs.value(&["FUNCTION", "DUMP"]).bytes().to_vec();
        let flags = again(master.address());
        let data = server.kill();

        let later = start(&data.copy(), setup, &flags);
        wait_for_sync(&mut theirs, &mut later.client());
        theirs.pipeline(&[owned("INCR during"), owned("FUNCTION DELETE first"), owned("FUNCTION DELETE stays")]);
        theirs.call(&[&b"FUNCTION"[..], b"RESTORE", &payload, b"APPEND"]);
        theirs.pipeline(&[
            owned("FUNCTION DELETE first"),
            library("short", "g"),
            library("plain", "p"),
            owned("MULTI"),
            owned("FUNCTION DELETE short"),
            owned("INCR during"),
            library("last", "F"),
            owned("EXEC"),
            library("other", "G"),
        ]);
        assert_same(&mut theirs, &mut later.client());
        let later = later.kill();
        // What they lack comes in the same read.
        theirs.pipeline(&[owned("INCR after"), library("latest", "l"), owned("FUNCTION DELETE latest")]);

        let server = start(&with_later_functions(&data, &later), setup, &flags);
        let mut ours = server.client();
        assert_same(&mut theirs, &mut ours);
        assert_eq!(libraries(&mut ours), ["last", "other", "plain", "stays"], "{}", server.log());
        assert!(server.log().contains("The libraries of functions are those of the stream"), "{}", server.log());
        assert!(!server.log().contains(ended), "{}", server.log());
        assert_eq!(number(&mut theirs, "sync_full"), 2, "{}", server.log());

        // Then they are of one moment.
        let whole = server.kill();
        let server = start(&whole, setup, &flags);
        assert_same(&mut theirs, &mut server.client());
        assert!(!server.log().contains("The libraries of functions are those of the stream"), "{}", server.log());

        // Before, no replica can begin with them. A pause keeps the stream from being applied.
        let nobody = ["--replicaof", "127.0.0.1", "1"].map(str::to_owned);
        let flags = [&REPLICA.map(str::to_owned)[..], &nobody].concat();
        let server = start(&with_later_functions(&data, &later), setup, &flags);
        let mut ours = server.client();
        ours.expect("CLIENT PAUSE 60000 WRITE", "+OK\r\n");
        follow(&mut ours, master.address());
        wait_until("it is linked", || is_linked(&mut ours));
        let ahead = "-NOMASTERLINK Can't SYNC while the functions are ahead of the data\r\n";
        server.client().expect("PSYNC ? -1", ahead);
        ours.expect("CLIENT UNPAUSE", "+OK\r\n");
        assert_same(&mut theirs, &mut ours);
        assert!(!server.log().contains(ended), "{}", server.log());

        // A successor of the master that has not all of its stream may lack what the libraries have.
        assert_same(&mut theirs, &mut successor.client());
        let mut theirs = successor.client();
        theirs.expect("REPLICAOF NO ONE", "+OK\r\n");
        let server = start(&with_later_functions(&data, &later), setup, &again(successor.address()));
        wait_until("it has all of it", || number(&mut theirs, "sync_full") == 1);
        assert_same(&mut theirs, &mut server.client());
        assert!(server.log().contains("which it may not have"), "{}", server.log());
        assert_eq!(libraries(&mut server.client()), ["last", "other", "plain", "stays"], "{}", server.log());
    }
}

#[test]
fn who_has_written_by_itself_goes_on_nowhere() {
    for setup in ENGINES {
        println!("on {setup:?}");
        let master = master();
        let mut theirs = master.client();
        let mut load = Load::new(seed());
        load.send(&mut theirs, 500);
        let server = replica_of(master.address(), setup, &[]);
        let mut ours = server.client();
        assert_same(&mut theirs, &mut ours);
        wait_for_whole_log(&mut ours);
        let flags = again(master.address());
        // It was promoted while it ran.
        ours.expect("REPLICAOF NO ONE", "+OK\r\n");
        ours.expect("SET own data", "+OK\r\n");
        let mut syncs = 1;
        let mut data = server.kill();
        for ends_in_order in [false, true] {
            let server = start(&data, setup, &flags);
            let mut ours = server.client();
            assert_same(&mut theirs, &mut ours);
            syncs += 1;
            assert_eq!(number(&mut theirs, "sync_full"), syncs, "{}", server.log());
            wait_for_whole_log(&mut ours);
            // It was started as a master.
            load.send(&mut theirs, 50);
            assert_same(&mut theirs, &mut ours);
            let alone = server.kill().start(setup, &REPLICA);
            alone.client().expect("SET own data", "+OK\r\n");
            data = if ends_in_order { alone.stop().1 } else { alone.kill() };
        }
        let server = start(&data, setup, &flags);
        assert_same(&mut theirs, &mut server.client());
        assert_eq!(number(&mut theirs, "sync_full"), syncs + 1, "{}", server.log());
    }
}

#[test]
fn replicas_of_a_master_that_has_ended_in_order_go_on_when_it_is_there_again() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let mut theirs = master.client();
        let mut load = Load::new(seed());
        load.send(&mut theirs, 500);
        let port = master.address().port().to_string();
        let ours = replica_of(master.address(), setup, &["--appendonly", "no"]);
        let real = RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &port]);
        assert_same(&mut theirs, &mut ours.client());
        assert_same(&mut theirs, &mut real.client());
        load.send(&mut theirs, 500);
        let id = info(&mut theirs)["master_replid"].clone();
        let (_, data, _) = master.stop();
        // They look for it at its old address.
        let flags = [&MASTER[..], &["--port", &port]].concat();
        let master = data.start(setup, &flags);
        let mut theirs = master.client();
        theirs.expect("SET written again", "+OK\r\n");
        load.send(&mut theirs, 500);
        assert_same(&mut theirs, &mut ours.client());
        assert_same(&mut theirs, &mut real.client());
        let figures = info(&mut theirs);
        assert_eq!((&figures["sync_full"][..], &figures["sync_partial_ok"][..]), ("0", "2"), "{}", master.log());
        // As in Redis: the stream has another name from there on.
        assert_eq!(figures["master_replid2"], id);
        assert_ne!(figures["master_replid"], id);
    }
}

#[test]
fn what_expires_while_a_master_is_down_goes_from_its_replicas_too() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let mut theirs = master.client();
        let port = master.address().port().to_string();
        let ours = replica_of(master.address(), setup, &[]);
        let real = RedisOracle::start_replica(&["--replicaof", "127.0.0.1", &port]);
        theirs.expect("SET stays v", "+OK\r\n");
        assert_same(&mut theirs, &mut ours.client());
        assert_same(&mut theirs, &mut real.client());
        for line in ["SET counted 100", "RPUSH list old", "SADD other x", "SET unmet v"] {
            theirs.call(&words(line));
        }
        for key in ["counted", "list", "other", "unmet"] {
            theirs.value(&["PEXPIRE", key, "500"]);
        }
        let (_, data, _) = master.stop();
        std::thread::sleep(Duration::from_millis(600));
        let flags = [&MASTER[..], &["--port", &port]].concat();
        let master = data.start(setup, &flags);
        let mut theirs = master.client();
        // What nobody may do before the changes are in the stream: the search for expired keys, or this, removes a key.
        theirs.expect("GET counted", "$-1\r\n");
        theirs.expect("INCR counted", ":1\r\n");
        theirs.expect("RPUSH list new", ":1\r\n");
        theirs.expect("LPUSH other x", ":1\r\n");
        for replica in [&mut ours.client(), &mut real.client()] {
            wait_for_sync(&mut theirs, replica);
            assert_eq!(replica.value(&["GET", "counted"]).text(), "1");
            replica.expect("LRANGE list 0 -1", "*1\r\n$3\r\nnew\r\n");
            replica.expect("TYPE other", "+list\r\n");
            wait_until("the key that no command met is gone", || replica.value(&["DBSIZE"]) == Value::Integer(4));
        }
        assert_same(&mut theirs, &mut ours.client());
        let figures = info(&mut theirs);
        assert_eq!((&figures["sync_full"][..], &figures["sync_partial_ok"][..]), ("0", "2"), "{}", master.log());
    }
}

#[test]
fn a_replica_tells_its_master_what_is_on_its_disk() {
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let master = Server::start(setup, &MASTER);
        let logging = replica_of(master.address(), setup, &["--appendonly", "yes", "--appendfsync", "everysec"]);
        let other = replica_of(master.address(), setup, &["--appendonly", "no"]);
        let mut client = master.client();
        assert_same(&mut client, &mut logging.client());
        assert_same(&mut client, &mut other.client());
        wait_for_whole_log(&mut logging.client());
        for count in 1..4 {
            client.expect("INCR count", &format!(":{count}\r\n"));
            // Two have it, one of them on its disk.
            assert_eq!(client.value(&["WAIT", "2", "30000"]).integer(), 2);
            let synced = client.value(&["WAITAOF", "0", "1", "30000"]);
            assert_eq!(synced.elements()[1].integer(), 1, "{}", logging.log());
        }
        assert_eq!(client.value(&["WAITAOF", "0", "2", "50"]).elements()[1].integer(), 1);
    }
}
