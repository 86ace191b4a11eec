//! INFO: which fields exist, and that they are true.

use harness::{Client, EVERY_ENGINE, RedisOracle, Server, on_every_engine, request, wait_until};
use std::collections::BTreeSet;
use std::time::Duration;

/// Fields of Redis 7.0 that are missing here; docs/INFO.md says why.
const MISSING: [&str; 14] = [
    "atomicvar_api",
    "current_save_keys_processed",
    "current_save_keys_total",
    "dump_payload_sanitizations",
    "expire_cycle_cpu_milliseconds",
    "expired_stale_perc",
    "expired_time_cap_reached_count",
    "gcc_version",
    "redis_git_dirty",
    "redis_git_sha1",
    "reply_buffer_expands",
    "reply_buffer_shrinks",
    "total_reads_processed",
    "total_writes_processed",
];

/// Fields that only 7.2 has.
const NEWER: [&str; 6] = [
    "acl_access_denied_auth",
    "acl_access_denied_channel",
    "acl_access_denied_cmd",
    "acl_access_denied_key",
    "evicted_clients",
    "listener0",
];

fn set(client: &mut Client, arguments: &[&str]) {
    assert_eq!(client.call(arguments), b"+OK\r\n");
}

fn fields(text: &str) -> BTreeSet<String> {
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    let is_of_a_command = |name: &str| name.starts_with("cmdstat_") || name.starts_with("latency_percentiles_usec_");
    lines.map(|(name, _)| name.to_owned()).filter(|name| !is_of_a_command(name)).collect()
}

#[test]
fn the_fields_are_those_of_redis_but_for_the_ones_that_the_document_names() {
    let oracle = RedisOracle::start();
    let of_redis = fields(&oracle.client().value(&["INFO", "everything"]).text());
    let document = include_str!("../../docs/INFO.md");
    on_every_engine(|server| {
        let ours = fields(&server.client().value(&["INFO", "everything"]).text());
        // Those of the log exist when it is on, which it is not in the other server.
        let missing: Vec<&str> = of_redis.difference(&ours).map(String::as_str).collect();
        assert_eq!(missing, MISSING);
        for name in &missing {
            assert!(document.contains(&format!("`{name}`")), "docs/INFO.md does not say why there is no {name}");
        }
        for name in NEWER {
            assert!(ours.contains(name), "{name}");
        }
    });
}

#[test]
fn the_peak_of_memory_is_that_of_what_was_in_use() {
    const VALUE: usize = 1 << 20;
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        let before = server.info_number("used_memory");
        let value = "v".repeat(VALUE);
        (0..48).for_each(|index| set(&mut client, &["SET", &format!("k{index}"), &value]));
        let full = server.info_number("used_memory");
        assert!(full >= before + 48 * VALUE as u64, "{before} {full}");
        client.expect("FLUSHALL", "+OK\r\n");
        wait_until("the memory is free", || server.info_number("used_memory") < before + 24 * VALUE as u64);
        let info = server.info();
        let number = |name: &str| info[name].parse::<u64>().unwrap_or_else(|_| panic!("{name}: {}", info[name]));
        let peak = number("used_memory_peak");
        // A peak of resident memory would include the program, and the pages around the values.
        assert!((full..full + 8 * VALUE as u64).contains(&peak), "{setup:?}: {full}, peak {peak}");
        assert_eq!(info["used_memory_peak_human"], format!("{:.2}M", peak as f64 / f64::from(1 << 20)));
        let percent = format!("{:.2}%", number("used_memory") as f64 * 100.0 / peak as f64);
        assert_eq!(info["used_memory_peak_perc"], percent);
        let parts = number("used_memory_overhead") + number("used_memory_dataset");
        assert_eq!(parts, number("used_memory"), "{setup:?}");
        let (allocated, active, resident) =
            (number("allocator_allocated"), number("allocator_active"), number("allocator_resident"));
        assert!(allocated <= active && active <= resident, "{allocated} {active} {resident}");
        assert!(number("total_system_memory") > number("used_memory_rss"));
        assert!(number("used_memory_startup") > 0 && number("used_memory_startup") <= before);
    }
}

#[test]
fn a_peak_between_two_looks_of_info_is_seen() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let mut client = server.client();
        let value = "v".repeat(32 << 20);
        set(&mut client, &["SET", "k", &value]);
        // No request asks for it; the server measures once a second.
        std::thread::sleep(Duration::from_millis(1300));
        client.expect("DEL k", ":1\r\n");
        assert!(server.info_number("used_memory_peak") >= 32 << 20, "{setup:?}");
    }
}

#[test]
fn the_mean_time_to_live_is_that_of_the_keys() {
    on_every_engine(|server| {
        let mut client = server.client();
        let mean = |field: &str| {
            let info = server.info();
            let (_, mean) = info[field].split_once("avg_ttl=").unwrap();
            mean.parse::<u64>().unwrap()
        };
        for (key, seconds) in [("a", "100"), ("b", "300"), ("c", "1100")] {
            set(&mut client, &["SET", key, "v", "EX", seconds]);
        }
        client.expect("SET d v", "+OK\r\n");
        let is_about = |mean: u64, seconds: u64| ((seconds - 20) * 1000..=seconds * 1000).contains(&mean);
        assert!(is_about(mean("db0"), 500), "{}", mean("db0"));
        client.expect("PERSIST c", ":1\r\n");
        assert!(is_about(mean("db0"), 200), "{}", mean("db0"));
        client.expect("EXPIRE b 900", ":1\r\n");
        client.expect("SELECT 3", "+OK\r\n");
        client.expect("SET e v EX 50", "+OK\r\n");
        assert!(is_about(mean("db0"), 500) && is_about(mean("db3"), 50));
        client.expect("SWAPDB 0 3", "+OK\r\n");
        assert!(is_about(mean("db3"), 500) && is_about(mean("db0"), 50));
        client.expect("FLUSHDB", "+OK\r\n");
        client.expect("SET f v", "+OK\r\n");
        assert_eq!(mean("db3"), 0);
    });
}

#[test]
fn rates_and_counts_are_those_of_what_happens() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--requirepass", "secret"]);
        let mut client = server.client();
        client.call(&["AUTH", "wrong"]);
        client.call(&["HELLO", "3", "AUTH", "default", "wrong"]);
        client.expect("AUTH secret", "+OK\r\n");
        let text = |client: &mut Client| client.value(&["INFO", "everything"]).text();
        let field = |text: &str, name: &str| -> String {
            let line = text.lines().find(|line| line.split(':').next() == Some(name));
            line.unwrap_or_else(|| panic!("no {name} in {text}")).split_once(':').unwrap().1.to_owned()
        };
        assert_eq!(field(&text(&mut client), "acl_access_denied_auth"), "2");
        let value = "v".repeat(100_000);
        wait_until("the rates are seen", || {
            (0..10).for_each(|_| set(&mut client, &["SET", "k", &value]));
            (0..10).for_each(|_| drop(client.call(&["GET", "k"])));
            let text = text(&mut client);
            let is_high = |name: &str| field(&text, name).parse::<f64>().unwrap() > 500.0;
            is_high("instantaneous_input_kbps") && is_high("instantaneous_output_kbps")
        });
        let mut waiting = [server.client(), server.client()];
        for (client, timeout) in waiting.iter_mut().zip(["0", "1000"]) {
            client.expect("AUTH secret", "+OK\r\n");
            client.send(&request(&["BLPOP", "list", timeout]));
        }
        wait_until("both wait", || field(&text(&mut client), "blocked_clients") == "2");
        assert_eq!(field(&text(&mut client), "clients_in_timeout_table"), "1");
        client.expect("LPUSH list a b", ":2\r\n");
        wait_until("none waits", || field(&text(&mut client), "clients_in_timeout_table") == "0");
        client.expect("CONFIG RESETSTAT", "+OK\r\n");
        let text = text(&mut client);
        assert_eq!(field(&text, "acl_access_denied_auth"), "0");
        for (name, value) in [("cluster_enabled", "0"), ("role", "master"), ("tracking_clients", "0")] {
            assert_eq!(field(&text, name), value);
        }
        assert!(text.contains("\r\n# Modules\r\n\r\n# Commandstats\r\n"), "{text}");
        let listener = format!("name=tcp,bind=127.0.0.1,port={}", server.address().port());
        assert_eq!(field(&text, "listener0"), listener);
        for name in ["used_cpu_sys_main_thread", "used_cpu_user_main_thread"] {
            assert!(field(&text, name).parse::<f64>().is_ok(), "{name}");
        }
        assert!(field(&text, "executable").ends_with("/shardrace"));
    }
}
