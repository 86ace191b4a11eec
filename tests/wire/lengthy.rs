//! A command over many elements: the other tasks of its thread are served meanwhile, and nothing sees half of it.

use crate::placement::of_shards;
use harness::{Client, EVERY_PLACEMENT, Server, Setup, Value, request, wait_until};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Members of the set.
const MEMBERS: usize = 30_000;
/// How often a command names the set. One command then takes some tenths of a second, and its reply is short.
const TIMES: usize = if cfg!(debug_assertions) { 500 } else { 1500 };
/// So many replies meanwhile are not those of a moment before or after the command.
const REPLIES_MIN: usize = 20;

const MUTEX: Setup = Setup { engine: "mutex", shards: 1, threads: 1 };
const DASHMAP: Setup = Setup { engine: "dashmap", shards: 8, threads: 1 };
const ACTOR: Setup = Setup { engine: "actor", shards: 1, threads: 1 };
const TWO_SHARDS: Setup = Setup { engine: "actor", shards: 2, threads: 1 };
/// All on one thread: with more of them, others are served in any case.
const EVERY_ENGINE: [Setup; 4] = [MUTEX, DASHMAP, ACTOR, TWO_SHARDS];

/// Every engine, and two shards of the actor engine with every placement.
fn everywhere() -> impl Iterator<Item = (Setup, &'static [&'static str])> {
    // The search for expired keys wants the lock, too, and the spare thread waits with it (docs/adr/0027): not before
    // enough replies are counted on a busy machine.
    const SELDOM: &[&str] = &["--hz", "1"];
    EVERY_ENGINE.into_iter().map(|setup| (setup, SELDOM)).chain(pinned(TWO_SHARDS))
}

/// The placements that are not the default.
fn pinned(setup: Setup) -> impl Iterator<Item = (Setup, &'static [&'static str])> {
    EVERY_PLACEMENT[1..].iter().map(move |placement| (setup, &placement[..]))
}

/// Adds members to a set.
fn fill(client: &mut Client, set: &str) {
    for first in (0..MEMBERS).step_by(1000) {
        let members = (first..first + 1000).map(|number| format!("member:{number}"));
        let words: Vec<String> = ["SADD".to_owned(), set.to_owned()].into_iter().chain(members).collect();
        client.value(&words);
    }
}

/// SINTERCARD of the set with itself.
fn lengthy(set: &str) -> Vec<String> {
    let words = ["SINTERCARD".to_owned(), TIMES.to_string()];
    words.into_iter().chain(std::iter::repeat_n(set.to_owned(), TIMES)).collect()
}

/// Has a client send a request, and another one `meanwhile` again and again until the reply is there. Returns the
/// reply, and how many replies the other one has had.
fn replies_meanwhile<A: AsRef<[u8]>>(
    server: &Server,
    client: &mut Client,
    lengthy: &[A],
    meanwhile: &[&str],
) -> (Value, usize) {
    let mut asking = server.client();
    let has_ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        client.send(&request(lengthy));
        let counting = scope.spawn(|| {
            let mut count = 0;
            while !has_ended.load(Ordering::Relaxed) {
                asking.call(meanwhile);
                count += 1;
                // It waits for the server; the server should not wait for it.
                std::thread::sleep(Duration::from_millis(1));
            }
            count
        });
        let begin = Instant::now();
        let reply = client.value_of_next();
        has_ended.store(true, Ordering::Relaxed);
        println!("it took {:?}", begin.elapsed());
        (reply, counting.join().expect("a thread that asks does not panic"))
    })
}

#[test]
fn the_only_thread_serves_others_while_a_command_visits_many_elements() {
    for (setup, placement) in everywhere() {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        let mut client = server.client();
        fill(&mut client, "set");
        let (reply, count) = replies_meanwhile(&server, &mut client, &lengthy("set"), &["PING"]);
        assert_eq!(reply.integer(), MEMBERS as i64);
        assert!(count >= REPLIES_MIN, "{setup:?}: {count}");
    }
}

#[test]
fn the_only_thread_serves_keys_of_other_shards_while_a_command_visits_many_elements() {
    for (setup, placement) in [(DASHMAP, &[][..]), (TWO_SHARDS, &[])].into_iter().chain(pinned(TWO_SHARDS)) {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        let mut client = server.client();
        fill(&mut client, "set");
        // One key of several is on another shard; those of the same shard wait.
        let mut count_of = |key: &str| replies_meanwhile(&server, &mut client, &lengthy("set"), &["GET", key]).1;
        let counts: Vec<usize> = (0..6).map(|number| count_of(&format!("key:{number}"))).collect();
        assert!(counts.iter().any(|&count| count >= REPLIES_MIN), "{setup:?}: {counts:?}");
    }
}

/// Has the keys' names and how often to name the first of them.
const SCRIPT: &str = "local keys = {} for at = 1, tonumber(ARGV[1]) do keys[at] = KEYS[1] end \
                      return redis.call('SINTERCARD', #keys, unpack(keys))";

#[test]
fn the_only_thread_serves_others_while_a_transaction_visits_many_elements() {
    for (setup, placement) in everywhere() {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        let mut client = server.client();
        fill(&mut client, "set");
        client.expect("MULTI", "+OK\r\n");
        client.call(&lengthy("set"));
        let (replies, count) = replies_meanwhile(&server, &mut client, &["EXEC"], &["PING"]);
        assert_eq!(replies.elements(), [Value::Integer(MEMBERS as i64)]);
        assert!(count >= REPLIES_MIN, "{setup:?}: {count}");
    }
}

#[test]
fn the_only_thread_serves_others_while_a_script_without_locks_visits_many_elements() {
    for (setup, placement) in [(ACTOR, &[][..]), (TWO_SHARDS, &[])].into_iter().chain(pinned(TWO_SHARDS)) {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        let mut client = server.client();
        fill(&mut client, "set");
        // A script that runs for so long would leave the thread's tasks in any case.
        client.expect("CONFIG SET busy-reply-threshold 0", "+OK\r\n");
        let script = ["EVAL", SCRIPT, "1", "set", &TIMES.to_string()];
        let (reply, count) = replies_meanwhile(&server, &mut client, &script, &["PING"]);
        assert_eq!(reply.integer(), MEMBERS as i64);
        assert!(count >= REPLIES_MIN, "{setup:?}: {count}");
    }
}

const LOOP: &str = "while true do end";

/// A request that comes meanwhile must not block the only other thread at a lock of the script.
#[test]
fn scripts_that_loop_after_something_long_can_be_killed() {
    let visits_and_loops = format!("{} {LOOP}", SCRIPT.replace("return ", ""));
    let visits_and_loops: Vec<String> =
        ["EVAL", &visits_and_loops, "1", "set", &TIMES.to_string()].map(str::to_owned).into();
    let words = |line: &[&str]| line.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let loops = words(&["EVAL", LOOP, "0"]);
    let cases = [
        ("one script", vec![loops.clone()]),
        ("a transaction has two scripts", vec![words(&["MULTI"]), loops.clone(), loops.clone(), words(&["EXEC"])]),
        ("the script does both", vec![visits_and_loops]),
        ("a transaction does both", vec![words(&["MULTI"]), lengthy("set"), loops.clone(), words(&["EXEC"])]),
        ("the command comes before the script", vec![lengthy("set"), loops.clone()]),
        ("another script comes before", vec![loops.clone(), loops.clone(), loops]),
    ];
    // Threads that are pinned take over nothing from each other.
    let of_two_threads = [MUTEX, DASHMAP, TWO_SHARDS].map(|setup| Setup { threads: 2, ..setup });
    let pinned = of_two_threads.map(|setup| (setup, &EVERY_PLACEMENT[1][..], &cases[..2]));
    for (setup, placement, cases) in EVERY_ENGINE.map(|setup| (setup, &[][..], &cases[..])).into_iter().chain(pinned) {
        for (name, requests) in cases {
            println!("on {setup:?} with {placement:?}: {name}");
            let server = Server::start(setup, placement);
            let mut client = server.client();
            fill(&mut client, "set");
            client.expect("CONFIG SET busy-reply-threshold 500", "+OK\r\n");
            client.send(&requests.iter().flat_map(|words| request(words)).collect::<Vec<u8>>());
            let scripts = requests.iter().filter(|words| words[0] == "EVAL").count();
            let mut asking = Vec::new();
            for _ in 0..scripts {
                std::thread::sleep(Duration::from_millis(20));
                for _ in 0..3 {
                    let mut client = server.client();
                    client.send(&request(&["GET", "{set}"]));
                    asking.push(client);
                }
                let mut killing = server.client();
                wait_until("the script is killed", || killing.call(&["SCRIPT", "KILL"]) == b"+OK\r\n");
            }
            for asking in &mut asking {
                let reply = String::from_utf8(asking.reply()).expect("it is text");
                assert!(reply == "$-1\r\n" || reply.starts_with("-BUSY "), "{setup:?}: {reply}");
            }
            let replies: Vec<String> =
                requests.iter().map(|_| String::from_utf8(client.reply()).expect("they are text")).collect();
            let killed = replies.iter().map(|reply| reply.matches("killed by user").count()).sum::<usize>();
            assert_eq!(killed, scripts, "{setup:?}, {name}: {replies:?}");
        }
    }
}

#[test]
fn replies_keep_the_order_of_requests_around_a_command_that_visits_many_elements() {
    for (setup, placement) in everywhere() {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        let mut client = server.client();
        fill(&mut client, "set");
        let mut requests = Vec::new();
        for number in 0..40 {
            requests.push(vec!["SET".to_owned(), format!("key:{number}"), number.to_string()]);
            if number % 10 == 5 {
                requests.push(lengthy("set"));
                requests.push(vec!["SREM".to_owned(), "set".to_owned(), format!("member:{number}")]);
            }
            requests.push(vec!["GET".to_owned(), format!("key:{number}")]);
        }
        let mut members = MEMBERS as i64;
        for (request, reply) in requests.iter().zip(client.pipeline(&requests)) {
            match request[0].as_str() {
                "SET" => assert_eq!(reply, Value::Simple(b"OK".into()), "{setup:?}"),
                "GET" => assert_eq!(reply.text(), request[1]["key:".len()..], "{setup:?}"),
                "SREM" => {
                    assert_eq!(reply, Value::Integer(1), "{setup:?}");
                    members -= 1;
                }
                _ => assert_eq!(reply, Value::Integer(members), "{setup:?}"),
            }
        }
    }
}

#[test]
fn no_command_sees_half_of_a_change_while_commands_visit_many_elements() {
    /// Two sets, on two shards where there are two, that always have the same members.
    const SETS: [&str; 2] = ["{a}set", "{b}set"];
    const LOOKS: usize = 30;
    let both = |what: &str, member: &str| -> Vec<Vec<String>> {
        let change = |set: &str| vec![what.to_owned(), set.to_owned(), member.to_owned()];
        vec![vec!["MULTI".to_owned()], change(SETS[0]), change(SETS[1]), vec!["EXEC".to_owned()]]
    };
    for (setup, placement) in everywhere() {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        let mut client = server.client();
        SETS.iter().for_each(|set| fill(&mut client, set));
        let has_ended = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for writer in 0..3 {
                let (server, has_ended) = (&server, &has_ended);
                scope.spawn(move || {
                    let mut writing = server.client();
                    while !has_ended.load(Ordering::Relaxed) {
                        for what in ["SADD", "SREM"] {
                            let replies = writing.pipeline(&both(what, &format!("of:{writer}")));
                            assert_eq!(replies[3].elements(), [Value::Integer(1), Value::Integer(1)]);
                        }
                    }
                });
            }
            let [one, other] = SETS;
            for _ in 0..LOOKS {
                let difference = client.value(&["SDIFF", one, other]);
                assert_eq!(difference.elements(), [], "{setup:?}");
                let replies = client.pipeline(&[
                    vec!["MULTI"],
                    vec!["SCARD", one],
                    vec!["SUNIONSTORE", "union", one, other],
                    vec!["SINTERCARD", "2", one, other],
                    vec!["SCARD", other],
                    vec!["EXEC"],
                ]);
                let counts: Vec<i64> = replies[5].elements().iter().map(Value::integer).collect();
                assert!(counts.iter().all(|count| *count == counts[0]), "{setup:?}: {counts:?}");
            }
            has_ended.store(true, Ordering::Relaxed);
        });
    }
}

/// Batches that connections have run in place.
fn in_place(server: &Server) -> u64 {
    of_shards(server, "in_place").iter().sum()
}

#[test]
fn commands_over_many_elements_run_on_pinned_threads_in_place_or_not_and_others_are_served() {
    const LEN: usize = 50_001;
    let setups = [ACTOR, TWO_SHARDS, Setup { threads: 2, ..TWO_SHARDS }];
    for (setup, placement) in setups.into_iter().flat_map(pinned) {
        println!("on {setup:?} with {placement:?}");
        let server = Server::start(setup, placement);
        // They take the threads in turn.
        let mut clients = [server.client(), server.client()];
        for key in ["a", "b"] {
            make(&mut clients[0], "set", key, LEN);
        }
        for client in &mut clients {
            for key in ["a", "b"] {
                let before = in_place(&server);
                let sorted = client.value(&["SORT", key, "ALPHA"]).byte_strings();
                assert!(sorted.len() == LEN && sorted.is_sorted());
                let mut union = client.value(&["SUNION", key]).byte_strings();
                union.sort_unstable();
                assert!(union == sorted);
                client.expect(&format!("SET {{{key}}}x v"), "+OK\r\n");
                let ran = in_place(&server) - before;
                match placement[3] {
                    "inline" if setup.threads == 1 => assert_eq!(ran, 3),
                    "inline" => assert!(ran == 0 || ran == 3, "{ran}"),
                    _ => assert_eq!(ran, 0),
                }
            }
        }
        let (reply, count) = replies_meanwhile(&server, &mut clients[0], &lengthy("a"), &["PING"]);
        assert_eq!(reply.integer(), LEN as i64);
        assert!(count >= REPLIES_MIN, "{count}");
        server.assert_serving();
    }
}

/// The threads of a server that run tasks, the spare one among them, and how often each has gone to sleep.
fn sleeps(server: &Server) -> BTreeMap<PathBuf, u64> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", server.pid())).expect("the server runs");
    let sleeps = |path: PathBuf| {
        let read = |name| std::fs::read_to_string(path.join(name)).ok();
        let status = read("status").filter(|_| read("comm").is_some_and(|name| name.trim() == "worker"))?;
        let count = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        Some((path, count.trim().parse().expect("a number")))
    };
    // A thread may end meanwhile.
    tasks.filter_map(|task| sleeps(task.expect("it is read").path())).collect()
}

/// How many of them have run something since.
fn woken(server: &Server, before: &BTreeMap<PathBuf, u64>) -> usize {
    sleeps(server).iter().filter(|(thread, count)| before.get(*thread) != Some(count)).count()
}

/// The words of an element.
type ElementOf = fn(usize) -> Vec<String>;

/// Makes a collection of `len` elements, a string of 1024 bytes for each, or as many keys.
fn make(client: &mut Client, kind: &str, key: &str, len: usize) {
    if kind == "string" {
        client.value(&["SETRANGE", key, &(len * 1024 - 1).to_string(), "x"]);
        return;
    }
    let numbers: Vec<usize> = (0..len).collect();
    for numbers in numbers.chunks(1000) {
        let (head, element): (&[&str], ElementOf) = match kind {
            "set" => (&["SADD", key], |number| vec![format!("{number}x")]),
            "list" => (&["RPUSH", key], |number| vec![format!("{number}x")]),
            "hash" => (&["HSET", key], |number| vec![format!("{number}x"), "v".to_owned()]),
            "zset" => (&["ZADD", key], |number| vec!["1".to_owned(), format!("{number}x")]),
            "keys" => (&["MSET"], |number| vec![format!("{number}x"), "v".to_owned()]),
            other => panic!("{other} is no kind"),
        };
        let elements = numbers.iter().flat_map(|&number| element(number));
        let words: Vec<String> = head.iter().map(|word| (*word).to_owned()).chain(elements).collect();
        assert!(!matches!(client.value(&words), Value::Error(_)));
    }
}

/// Commands that visit as many elements as `key` has.
const LENGTHY: [(&str, &str); 35] = [
    ("set", "SMEMBERS key"),
    ("set", "SUNION key"),
    ("set", "SINTER key"),
    ("set", "SDIFF key other"),
    ("set", "SUNIONSTORE to key"),
    ("set", "SINTERSTORE to key"),
    ("set", "SDIFFSTORE to key"),
    ("set", "SINTERCARD 1 key"),
    ("set", "SRANDMEMBER key 100000"),
    ("set", "SORT key ALPHA"),
    ("set", "COPY key to"),
    ("set", "DUMP key"),
    ("set", "DEL key"),
    ("hash", "HGETALL key"),
    ("hash", "HKEYS key"),
    ("hash", "HVALS key"),
    ("hash", "HRANDFIELD key 100000"),
    ("list", "LRANGE key 0 -1"),
    ("list", "LREM key 0 none"),
    ("list", "LTRIM key 1 0"),
    ("list", "SORT key ALPHA"),
    ("zset", "ZRANGE key 0 -1"),
    ("zset", "ZREVRANGEBYSCORE key 2 0"),
    ("zset", "ZRANGESTORE to key 0 -1"),
    ("zset", "ZREMRANGEBYRANK key 0 -1"),
    ("zset", "ZUNION 1 key"),
    ("zset", "ZINTERSTORE to 1 key"),
    ("zset", "ZDIFF 1 key"),
    ("zset", "DEL key"),
    ("string", "BITCOUNT key"),
    ("string", "BITPOS key 1"),
    ("string", "BITOP NOT to key"),
    ("keys", "KEYS none*"),
    ("keys", "FLUSHDB"),
    ("keys", "FLUSHALL"),
];

#[test]
fn a_command_over_fifty_thousand_elements_leaves_its_threads_tasks_to_another_and_a_smaller_one_does_not() {
    let engines = EVERY_ENGINE.iter().filter(|setup| **setup != TWO_SHARDS).cycle();
    for ((kind, line), setup) in LENGTHY.into_iter().zip(engines) {
        let server = Server::start(*setup, &[]);
        let mut client = server.client();
        for (len, expected) in [(49_999, 1), (50_000, 2)] {
            client.expect("FLUSHALL", "+OK\r\n");
            make(&mut client, kind, "key", len);
            let before = sleeps(&server);
            assert_eq!(before.len(), 2, "the worker and its spare thread: {before:?}");
            let reply = client.value(&line.split_whitespace().collect::<Vec<_>>());
            assert!(!matches!(reply, Value::Error(_)), "{line}: {reply:?}");
            // The other thread wakes meanwhile.
            let what = format!("{setup:?}, {len} elements, {expected} threads: {line}");
            wait_until(&what, || woken(&server, &before) >= expected);
            assert_eq!(woken(&server, &before), expected, "{what}");
        }
    }
}
