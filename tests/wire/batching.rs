//! How the commands of a read run: together or separately, with prefetching or without. Clients see no difference.

use harness::{
    Client, EVERY_BATCHING, EVERY_ENGINE, Embedded, RedisOracle, Server, Setup, Value, effort, request, seed,
};

/// Runs a test on every engine with each way to run the commands of a read.
fn on_every_batching(flags: &[&str], test: impl Fn(&Embedded, [&str; 4])) {
    for setup in EVERY_ENGINE {
        for batching in EVERY_BATCHING {
            println!("on {setup:?} with {batching:?}");
            test(&Embedded::start(setup, &[&batching[..], flags].concat()), batching);
        }
    }
}

/// Whether commands of a read run together.
fn is_by_read(batching: [&str; 4]) -> bool {
    batching[1] == "read"
}

#[test]
fn config_and_info_tell_how_the_commands_of_a_read_run() {
    on_every_batching(&[], |server, [_, batching, _, prefetch]| {
        let mut client = server.client();
        let reply = client.value(&["CONFIG", "GET", "batching", "prefetch"]);
        let words: Vec<String> = reply.elements().iter().map(Value::text).collect();
        let wanted = ["batching", batching, "prefetch", prefetch];
        assert!(words == wanted || words == [&wanted[2..], &wanted[..2]].concat(), "{words:?}");
        let info = server.info();
        assert_eq!((info["batching"].as_str(), info["prefetch"].as_str()), (batching, prefetch));
        let other = if batching == "read" { "command" } else { "read" };
        let refused = client.call(&["CONFIG", "SET", "batching", other]);
        assert!(refused.starts_with(b"-ERR CONFIG SET failed"), "{}", refused.escape_ascii());
    });
}

#[test]
fn a_read_is_one_acquisition_or_one_message_unless_each_command_is() {
    const COMMANDS: u64 = 60;
    on_every_batching(&["--appendonly", "no"], |server, batching| {
        let Setup { engine, shards, .. } = server.setup();
        let taken = || match engine {
            "mutex" => server.info_number("lock_acquired_free") + server.info_number("lock_acquired_after_wait"),
            _ => {
                let info = server.info();
                let of_shard = |shard: usize| {
                    let line = &info[&format!("shard{shard}")];
                    let batches = line.split("batches=").nth(1).and_then(|rest| rest.split(',').next());
                    batches.unwrap().parse::<u64>().unwrap()
                };
                (0..shards).map(of_shard).sum()
            }
        };
        if engine == "dashmap" {
            // It does not count its locks: how long they are held shows in what other clients see, below.
            return;
        }
        let mut client = server.client();
        client.value(&["SET", "k", "v"]);
        let before = taken();
        let requests: Vec<Vec<u8>> = (0..COMMANDS).map(|_| request(&["GET", "k"])).collect();
        client.send(&requests.concat());
        client.values(requests.len());
        let during = taken() - before;
        // A read may end anywhere, though it nearly always has all of this; and prefetching takes the lock, too.
        let is_right = if is_by_read(batching) { during <= 20 } else { (COMMANDS..2 * COMMANDS).contains(&during) };
        assert!(is_right, "{during} for {COMMANDS} commands");
    });
}

/// A request of any kind that pipelines have, over few keys.
fn random_request(random: &mut fastrand::Rng) -> Vec<Vec<u8>> {
    let mut key = || format!("k{}", random.u8(..30));
    let (a, b, c) = (key(), key(), key());
    let number = random.i32(-5..100).to_string();
    let value = "v".repeat(if random.u8(..20) == 0 { 10_000 } else { random.usize(..50) });
    let words: Vec<&str> = match random.u8(..34) {
        0..=5 => vec!["GET", &a],
        6..=9 => vec!["SET", &a, &value],
        10 => vec!["SET", &a, &value, "PX", "100000"],
        11 => vec!["INCR", &a],
        12 => vec!["APPEND", &a, &value],
        13 => vec!["MSET", &a, "1", &b, &number, &c, &value],
        14 => vec!["MGET", &a, &b, &c],
        15 => vec!["DEL", &a, &b],
        16 => vec!["EXISTS", &a, &b, &a],
        17 => vec!["PEXPIRE", &a, &number],
        18 => vec!["LPUSH", &a, &value, &b],
        19 => vec!["LPOP", &a],
        20 => vec!["LRANGE", &a, "0", "-1"],
        21 => vec!["RENAME", &a, &b],
        22 => vec!["COPY", &a, &b, "DB", "1"],
        23 => vec!["PING"],
        24 => vec!["MULTI"],
        25 | 26 => vec!["EXEC"],
        27 => vec!["SELECT", if random.bool() { "0" } else { "1" }],
        28 => vec!["BLPOP", &a, "0.001"],
        29 => vec!["NOSUCH", &a],
        30 => vec!["GET"],
        31 => vec!["DBSIZE"],
        32 => vec!["SUNIONSTORE", &a, &b, &c],
        _ => vec!["SADD", &a, &b, &c],
    };
    words.into_iter().map(|word| word.as_bytes().to_vec()).collect()
}

#[test]
fn a_pipeline_has_redis_s_replies_however_its_commands_run() {
    let mut random = fastrand::Rng::with_seed(seed());
    let mut requests: Vec<Vec<Vec<u8>>> = Vec::new();
    while requests.len() < effort("BATCHING_COMMANDS", 1_500) {
        let next = random_request(&mut random);
        let is_short = |request: &Vec<Vec<u8>>| request[0] == b"PEXPIRE" && request[2].len() < 3;
        // Whether a key is due within the pipeline depends on its speed; one that is due at once does not.
        if !is_short(&next) || next[2].starts_with(b"-") || next[2] == b"0" {
            requests.push(next);
        }
    }
    let run = |client: &mut Client| -> Vec<Value> {
        client.call(&["FLUSHALL"]);
        requests.chunks(300).flat_map(|requests| client.pipeline(requests)).collect()
    };
    let wanted = run(&mut RedisOracle::start().client());
    on_every_batching(&[], |server, _| {
        let replies = run(&mut server.client());
        for (index, (got, wanted)) in replies.iter().zip(&wanted).enumerate() {
            let line: Vec<String> = requests[index].iter().map(|word| word.escape_ascii().to_string()).collect();
            assert_eq!(got, wanted, "request {index}: {line:?}");
        }
        server.assert_serving();
    });
}

#[test]
fn keys_that_are_due_are_gone_for_the_rest_of_the_read_and_counted_once() {
    const KEYS: usize = 48;
    // They are not removed before the read.
    on_every_batching(&["--hz", "1"], |server, _| {
        let mut client = server.client();
        let is_due = |index: usize| index % 3 == 1;
        for round in 0..3 {
            let key = |index: usize| format!("{round}:{index}");
            let sets = (0..KEYS).map(|index| match is_due(index) {
                true => ["SET".into(), key(index), index.to_string(), "PX".into(), "20".into()].to_vec(),
                false => ["SET".into(), key(index), index.to_string()].to_vec(),
            });
            client.pipeline(&sets.collect::<Vec<_>>());
            std::thread::sleep(std::time::Duration::from_millis(30));
            let before = (server.info_number("keyspace_hits"), server.info_number("keyspace_misses"));
            let gets: Vec<_> = (0..KEYS).map(|index| vec!["GET".to_owned(), key(index)]).collect();
            for (index, reply) in client.pipeline(&gets).into_iter().enumerate() {
                let wanted = if is_due(index) { Value::NullBulk } else { Value::Bulk(index.to_string().into_bytes()) };
                assert_eq!(reply, wanted, "round {round}, key {index}");
            }
            let hits = server.info_number("keyspace_hits") - before.0;
            let misses = server.info_number("keyspace_misses") - before.1;
            assert_eq!((hits, misses), (KEYS as u64 / 3 * 2, KEYS as u64 / 3), "round {round}");
        }
    });
}

#[test]
fn what_has_no_room_in_the_output_is_left_and_runs_once_when_it_has() {
    const REPLIES: usize = 64;
    const BYTES: usize = 1 << 20;
    on_every_batching(&["--appendonly", "no"], |server, _| {
        let mut client = server.client();
        client.value(&["SET", "{t}big", &"v".repeat(BYTES)]);
        let pair = [request(&["GET", "{t}big"]), request(&["INCR", "{t}n"])].concat();
        client.send(&pair.repeat(REPLIES));
        std::thread::sleep(std::time::Duration::from_millis(300));
        let ran = server.client().value(&["GET", "{t}n"]);
        let ran: usize = if ran == Value::NullBulk { 0 } else { ran.text().parse().unwrap() };
        // Sockets hold some megabytes of unread replies.
        assert!(ran < REPLIES / 2, "{ran} of {REPLIES} have run, with {BYTES} bytes of replies each");
        for number in 1..=REPLIES as i64 {
            assert_eq!(client.value_of_next().bytes().len(), BYTES);
            assert_eq!(client.value_of_next(), Value::Integer(number));
        }
        server.assert_serving();
    });
}

#[test]
fn inline_requests_and_muted_ones_keep_their_place_among_the_others() {
    on_every_batching(&[], |server, _| {
        let mut client = server.client();
        let get = request(&["GET", "n"]);
        let incr = request(&["INCR", "n"]);
        let parts: [&[u8]; 9] = [
            &incr,
            &incr,
            b"INCR \"n\"\r\n",
            &incr,
            &request(&["CLIENT", "REPLY", "SKIP"]),
            &incr,
            &incr,
            &request(&["ECHO", "x"]),
            &get,
        ];
        client.send(&parts.concat());
        let replies = client.values(7);
        let number = Value::Integer;
        let bulk = |text: &str| Value::Bulk(text.as_bytes().to_vec());
        assert_eq!(replies, [number(1), number(2), number(3), number(4), number(6), bulk("x"), bulk("6")]);
        assert!(client.is_silent());
    });
}

#[test]
fn commands_of_connections_that_share_keys_are_each_one_step() {
    const CONNECTIONS: usize = 6;
    const ROUNDS: usize = 40;
    const PIPELINE: usize = 50;
    on_every_batching(&["--appendonly", "no"], |server, _| {
        std::thread::scope(|scope| {
            for connection in 0..CONNECTIONS {
                let mut client = server.client();
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        // Each with its own order of the same keys: locks taken in that order would deadlock.
                        let pairs: Vec<Vec<String>> = (0..PIPELINE)
                            .map(|index| {
                                let key = format!("n{}", (index * (connection * 2 + 1) + round) % 16);
                                if index % 5 == 0 { vec!["GET".into(), key] } else { vec!["INCR".into(), key] }
                            })
                            .collect();
                        client.pipeline(&pairs);
                    }
                });
            }
        });
        let mut client = server.client();
        let values = (0..16).map(|n| client.value(&["GET", &format!("n{n}")]));
        let total: usize = values.map(|value| value.text().parse::<usize>().unwrap()).sum();
        assert_eq!(total, CONNECTIONS * ROUNDS * PIPELINE / 5 * 4);
    });
}

#[test]
fn what_a_read_has_changed_is_whole_in_the_log_and_in_its_order() {
    for setup in EVERY_ENGINE {
        for batching in EVERY_BATCHING {
            println!("on {setup:?} with {batching:?}");
            let server = Server::start(setup, &batching);
            let mut client = server.client();
            let requests: Vec<Vec<String>> = (0..500)
                .map(|index| match index % 4 {
                    0 => vec!["APPEND".into(), format!("a{}", index % 7), format!("<{index}>")],
                    1 => vec!["RPUSH".into(), format!("l{}", index % 7), index.to_string()],
                    2 => vec!["MSET".into(), "x".into(), index.to_string(), "y".into(), index.to_string()],
                    _ => vec!["GET".into(), "x".into()],
                })
                .collect();
            client.pipeline(&requests);
            let look = |client: &mut Client| {
                let of = |client: &mut Client, n: usize| {
                    [client.call(&["GET", &format!("a{n}")]), client.call(&["LRANGE", &format!("l{n}"), "0", "-1"])]
                };
                let mut all: Vec<_> = (0..7).flat_map(|n| of(client, n)).collect();
                all.push(client.call(&["MGET", "x", "y"]));
                all
            };
            let before = look(&mut client);
            let server = server.kill().start(setup, &batching);
            assert_eq!(look(&mut server.client()), before);
        }
    }
}
