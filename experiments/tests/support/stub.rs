//! The stand-ins of the lab's tests. `experiments-stub serve --port N [--crash-after-ms N] [--crash-at-start]` is a
//! server that answers just enough; any other command line is that of a generator, whose windows last a tenth of what
//! they are asked for and whose figures are computed from its arguments, so that a test can compute them too.

use std::collections::HashMap;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::exit;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

/// What the server says of itself, and of where its time goes.
const INFO: &str = "$107\r\nredis_version:stub\r\nmem_allocator:nothing\r\n\
    stage_queue:count=4,mean=1.5,p50=1.25,p99=2.5,p999=2.5,max=2.5\r\n\r\n";

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some("serve") => serve(&flags(&arguments[1..])),
        Some("--version") => println!("stub 1.0"),
        Some("--help") => println!("  --cross-shard <PERCENT>\n  --keys-per-command <KEYS>\n  --rate-limiting <RATE>"),
        _ => generate(&flags(&arguments)),
    }
}

/// Flags with their values; a flag without one has an empty value.
fn flags(arguments: &[String]) -> HashMap<&str, &str> {
    let value =
        |index: usize| arguments.get(index + 1).filter(|next| !next.starts_with("--")).map_or("", String::as_str);
    let names = arguments.iter().enumerate().filter(|(_, word)| word.starts_with("--"));
    names.map(|(index, name)| (name.as_str(), value(index))).collect()
}

fn number(flags: &HashMap<&str, &str>, name: &str) -> u64 {
    flags.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// A tenth of the seconds that a flag asks for; all of them where windows are to be as long as planned.
fn tenth(flags: &HashMap<&str, &str>, name: &str) -> Duration {
    let seconds: f64 = flags.get(name).and_then(|value| value.parse().ok()).unwrap_or(0.0);
    let is_whole = std::env::var_os("STUB_WHOLE_WINDOWS").is_some();
    Duration::from_secs_f64(if is_whole { seconds } else { seconds / 10.0 })
}

fn serve(flags: &HashMap<&str, &str>) {
    println!("stub server starts");
    if let Ok(word) = env::var("STUB_WORD") {
        println!("its environment says {word}");
    }
    if flags.contains_key("--crash-at-start") {
        eprintln!("FATAL: the stub was told to crash at start");
        exit(3);
    }
    let crash_after = number(flags, "--crash-after-ms");
    if crash_after > 0 {
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(crash_after));
            eprintln!("FATAL: the stub was told to crash later");
            exit(4);
        });
    }
    let listener = TcpListener::bind(("127.0.0.1", number(flags, "--port") as u16)).expect("the port is free");
    for stream in listener.incoming() {
        let stream = stream.expect("a connection");
        thread::spawn(move || answer(stream));
    }
}

fn answer(stream: TcpStream) {
    let mut replies = stream.try_clone().expect("a second handle");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let reply = match line.as_str() {
            "PING" => "+PONG\r\n",
            "DBSIZE" => ":7\r\n",
            "INFO" => INFO,
            "RESETSTAT" => "+OK\r\n",
            _ => continue,
        };
        if replies.write_all(reply.as_bytes()).is_err() {
            return;
        }
    }
}

fn generate(flags: &HashMap<&str, &str>) {
    let Some(json) = flags.get("--json-out-file") else {
        return;
    };
    thread::sleep(tenth(flags, "--warm-up"));
    let started_unix_ms = UNIX_EPOCH.elapsed().expect("after 1970").as_millis();
    let window = tenth(flags, "--test-time");
    thread::sleep(window);
    let (clients, pipeline) = (number(flags, "--clients"), number(flags, "--pipeline"));
    let ops_per_sec = (1000 * clients + pipeline + 10 * number(flags, "--cross-shard")) as f64 + 0.5;
    let requests = (ops_per_sec * window.as_secs_f64()).round();
    // Of an open loop it does what it can, and says what it left.
    let due = number(flags, "--rate-limiting") as f64 * window.as_secs_f64();
    let unsent = (due - requests).max(0.0) as u64;
    // Nine of ten GETs find their key, and GETs are half of the requests.
    let misses = (requests / 20.0) as u64;
    let (hits, slice) = (9 * misses, (ops_per_sec / 10.0) as u64);
    // What Little's law has for a closed loop.
    let mean_us = 0.95e6 * (clients * pipeline) as f64 / ops_per_sec;
    // The connection that waits longest waits half as long again as the middle one, and more with a pipeline.
    let slowest = 15 + 10 * (pipeline - 1);
    // Never below the median.
    let p99 = pipeline + 10;
    let slices = vec![slice.to_string(); (window.as_secs_f64() * 10.0) as usize].join(",");
    // An open loop alone has a schedule to lag behind.
    let lag = flags.get("--rate-limiting").map_or("null", |_| r#"{"p50":0.5,"p99":4.5}"#);
    let text = format!(
        r#"{{"format":"shardrace-loadgen/1","config":{{}},"started_unix_ms":{started_unix_ms},"duration_s":{},
        "slices_100ms":[{slices}],"unsent":{unsent},
        "totals":{{"requests":{requests},"errors":0,"hits":{hits},"misses":{misses},"ops_per_sec":{ops_per_sec},
        "latency_us":{{"mean":{mean_us},"p50":{clients}.25,"p99":{p99}.75,"p99.9":99.5,"max":100.0}}}},
        "connections":{{"count":{clients},"served":{clients},"ops_per_sec":{{"min":1,"median":2,"max":3,"jain":0.75}},
        "mean_latency_us":{{"min":1,"median":10,"max":{slowest},"jain":0.5}}}},
        "generator":{{"cpu_us_per_op":1.5,"threads":1,"schedule_lag_us":{lag}}}}}"#,
        window.as_secs_f64()
    );
    fs::write(json, text).expect("the folder exists");
    fs::write(format!("{}.hlog", flags["--hdr-file-prefix"]), "#[stub]\n").expect("the folder exists");
}
