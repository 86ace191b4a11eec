//! The typical use of applications, through a client library.

use harness::{EVERY_ENGINE, Embedded, Endpoint, on_every_engine};
use redis::{Client, Commands, Connection, ErrorKind, RedisResult, Value};
use std::collections::{HashMap, HashSet};

fn connect(server: &Endpoint, options: &str) -> Connection {
    let url = format!("redis://{}/{options}", server.address());
    Client::open(url).and_then(|client| client.get_connection()).unwrap_or_else(|error| panic!("{error}"))
}

#[test]
fn a_session_store_keeps_and_forgets() {
    on_every_engine(|server| {
        let mut redis = connect(server, "");
        let _: () = redis.set_ex("session:1", "alice", 1_000).unwrap();
        let _: () = redis.hset_multiple("user:alice", &[("name", "Alice"), ("visits", "0")]).unwrap();
        let visits: i64 = redis.hincr("user:alice", "visits", 1).unwrap();
        assert_eq!(visits, 1);
        let ttl: i64 = redis.ttl("session:1").unwrap();
        assert!((990..=1_000).contains(&ttl));
        let user: HashMap<String, String> = redis.hgetall("user:alice").unwrap();
        assert_eq!(user["name"], "Alice");
        let gone: i64 = redis.del(&["session:1", "user:alice"]).unwrap();
        assert_eq!(gone, 2);
        let nobody: Option<String> = redis.get("session:1").unwrap();
        assert_eq!(nobody, None);
    });
}

#[test]
fn a_work_queue_hands_out_each_job_once() {
    const JOBS: usize = 600;
    on_every_engine(|server| {
        let mut redis = connect(server, "");
        let jobs: Vec<usize> = (0..JOBS).collect();
        let _: () = redis.rpush("jobs", &jobs).unwrap();
        let taken: Vec<Vec<usize>> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..4)
                .map(|_| {
                    scope.spawn(|| {
                        let mut redis = connect(server, "");
                        let mut mine = Vec::new();
                        while let Some(job) = redis.lpop::<_, Option<usize>>("jobs", None).unwrap() {
                            mine.push(job);
                        }
                        mine
                    })
                })
                .collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert!(taken.iter().all(|mine| mine.is_sorted()), "each worker saw the queue in order");
        let mut all = taken.concat();
        all.sort_unstable();
        assert_eq!(all, jobs);
    });
}

#[test]
fn counters_of_many_connections_lose_nothing() {
    const CONNECTIONS: usize = 8;
    const INCREMENTS: usize = 500;
    on_every_engine(|server| {
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let mut redis = connect(server, "");
                    for chunk in 0..INCREMENTS / 50 {
                        let mut pipe = redis::pipe();
                        (0..50).for_each(|index| {
                            pipe.incr(format!("counter:{}", (chunk * 50 + index) % 5), 1).ignore();
                            pipe.sadd("everybody", index).ignore();
                        });
                        pipe.query::<()>(&mut redis).unwrap();
                    }
                });
            }
        });
        let mut redis = connect(server, "");
        let totals: Vec<usize> =
            redis.mget((0..5).map(|index| format!("counter:{index}")).collect::<Vec<_>>()).unwrap();
        assert_eq!(totals, [CONNECTIONS * INCREMENTS / 5; 5]);
        let everybody: usize = redis.scard("everybody").unwrap();
        assert_eq!(everybody, 50);
    });
}

#[test]
fn a_resp3_client_gets_typed_replies() {
    on_every_engine(|server| {
        let mut redis = connect(server, "?protocol=resp3");
        let _: () = redis.sadd("s", &["a", "b"]).unwrap();
        let _: () = redis.hset("h", "f", "v").unwrap();
        let set: Value = redis.smembers("s").unwrap();
        assert!(matches!(set, Value::Set(_)), "{set:?}");
        let map: Value = redis.hgetall("h").unwrap();
        assert!(matches!(map, Value::Map(_)), "{map:?}");
        let null: Value = redis.get("missing").unwrap();
        assert_eq!(null, Value::Nil);
        let members: HashSet<String> = redis.smembers("s").unwrap();
        assert_eq!(members, ["a", "b"].map(String::from).into());
    });
}

#[test]
fn a_pipeline_gives_results_and_an_error_in_their_places() {
    on_every_engine(|server| {
        let mut redis = connect(server, "");
        let results: (String, i64, Vec<Option<String>>) = redis::pipe()
            .set("k", "v")
            .ignore()
            .get("k")
            .incr("n", 5)
            .mget(&["k", "missing", "n"])
            .query(&mut redis)
            .unwrap();
        assert_eq!(results, ("v".into(), 5, vec![Some("v".into()), None, Some("5".into())]));
        let wrong: RedisResult<i64> = redis.llen("k");
        let error = wrong.unwrap_err();
        assert_eq!(error.code(), Some("WRONGTYPE"), "{error}");
        let still: String = redis.get("k").unwrap();
        assert_eq!(still, "v");
    });
}

#[test]
fn a_client_library_authenticates() {
    for setup in EVERY_ENGINE {
        let server = Embedded::start(setup, &["--requirepass", "p@ss"]);
        let refused = Client::open(format!("redis://{}/", server.address())).unwrap().get_connection();
        let asked = refused.and_then(|mut redis| redis.get::<_, Option<String>>("k"));
        assert_eq!(asked.unwrap_err().code(), Some("NOAUTH"));
        let wrong = Client::open(format!("redis://:wrong@{}/", server.address())).unwrap().get_connection();
        assert_eq!(wrong.err().map(|error| error.kind()), Some(ErrorKind::AuthenticationFailed));
        for protocol in ["", "?protocol=resp3"] {
            let url = format!("redis://:p%40ss@{}/{protocol}", server.address());
            let mut redis = Client::open(url).unwrap().get_connection().unwrap();
            let nothing: Option<String> = redis.get("k").unwrap();
            assert_eq!(nothing, None);
        }
    }
}
