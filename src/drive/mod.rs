//! `shardrace-scaling`: the engines without sockets, for `experiments scaling`.
//!
//! One process drives one engine with one load and prints one line of JSON. As many worker threads as the lab asks for,
//! each pinned to its own core, run the server's runtime. On it run connections without a socket, each a closed loop:
//! it takes a prepared batch of requests, parses it, passes it to the engine through the
//! [`Session`](crate::engine::Session) that a connection of the server uses, and drops the replies when all have come.
//!
//! It leaves out: reading and writing sockets, wake-ups by the network, the checks before a command (authentication,
//! CLIENT PAUSE, transactions, MONITOR), INFO's counts of clients, and the log. It includes: the runtime with its
//! settings, the parser, the command table, batching, the sessions, engines, keyspace and commands, the counts of
//! commands, and the sampling of reads.
//!
//! It also drives [`references`]: locks and delegation that the server does not have, for comparison. They leave out
//! more; each says what.
//!
//! It is built only with the feature `scaling`: the server contains none of it.

mod connection;
mod load;
mod measure;
mod options;
mod processes;
mod references;
mod report;
mod targets;
mod zipf;

pub use options::Options;

/// Measures as `options` say, and returns a line of JSON.
pub fn run(options: &Options) -> Result<String, String> {
    let found = targets::measure_target(options)?;
    Ok(report::line(options, &found))
}

// A test that cannot go on says where and why by panicking.
#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    fn quick(arguments: &[&str]) -> Result<String, String> {
        let short = ["shardrace-scaling", "--seconds", "0.1", "--warm-up", "0.01", "--keys", "200", "--no-pinning"];
        run(&Options::of(short.iter().chain(arguments))?)
    }

    fn number(line: &str, field: &str) -> f64 {
        let (_, rest) = line.split_once(&format!("\"{field}\":")).unwrap_or_else(|| panic!("no {field}: {line}"));
        let end = rest.find([',', '}']).unwrap();
        rest[..end].parse().unwrap_or_else(|_| panic!("{field}: {line}"))
    }

    #[test]
    fn the_version_names_the_sources_that_the_lab_compares() {
        let version = Options::help_or_version(["shardrace-scaling", "--version"]).unwrap();
        let sources = version.trim().split_once("(sources ").and_then(|(_, rest)| rest.strip_suffix(')'));
        assert_eq!(sources, Some(env!("SHARDRACE_SOURCES")), "{version}");
        assert!(Options::help_or_version(["shardrace-scaling", "--help"]).unwrap().contains("--engine"));
        assert_eq!(Options::help_or_version(["shardrace-scaling", "--batch", "1"]), None);
        assert_eq!(Options::help_or_version(["shardrace-scaling", "--nonsense"]), None);
    }

    #[test]
    fn every_engine_and_reference_replies_to_every_load_that_it_takes() {
        for engine in Options::ENGINES {
            for load in [
                &["--batch", "1"][..],
                &["--batch", "16", "--reads", "100", "--skew", "zipf:0.99"],
                &["--batch", "16", "--reads", "0", "--skew", "one", "--batching", "command"],
                &["--batch", "16", "--multi-key", "20", "--prefetch", "no"],
                &["--batch", "8", "--data", "hashes"],
                &["--batch", "8", "--data", "zsets", "--value-size", "8"],
            ] {
                let mut arguments = vec!["--engine", engine, "--threads", "2"];
                arguments.extend(load);
                let found = quick(&arguments);
                if engine.starts_with("map-") && load.contains(&"--data") {
                    assert!(found.unwrap_err().contains("strings"), "{arguments:?}");
                    continue;
                }
                let line = found.unwrap_or_else(|reason| panic!("{arguments:?}: {reason}"));
                let (requests, batches) = (number(&line, "requests"), number(&line, "batches"));
                assert!(batches > 0.0 && requests == batches * number(&line, "batch"), "{line}");
                assert!(number(&line, "p50_ns") <= number(&line, "p99_ns"), "{line}");
                if engine.contains("mutex") || engine.contains("rwlock") || engine.contains("combining") {
                    assert!(number(&line, "lock_free") > 0.0, "{line}");
                }
            }
        }
    }

    #[test]
    fn delegation_needs_a_core_for_its_server() {
        let reason = quick(&["--engine", "ref-delegation", "--threads", "1"]).unwrap_err();
        assert!(reason.contains("thread of its own"), "{reason}");
    }

    #[test]
    fn what_threads_and_connections_have_done_adds_up() {
        let line = quick(&["--engine", "mutex", "--threads", "2", "--connections", "3"]).unwrap();
        let list = |field: &str| {
            let (_, rest) = line.split_once(&format!("\"{field}\":[")).unwrap();
            let (list, _) = rest.split_once(']').unwrap();
            list.split(',').map(|count| count.parse::<u64>().unwrap()).collect::<Vec<_>>()
        };
        let (threads, connections) = (list("requests_of_threads"), list("requests_of_connections"));
        assert_eq!((threads.len(), connections.len()), (2, 6), "{line}");
        assert_eq!(threads.iter().sum::<u64>(), connections.iter().sum::<u64>(), "{line}");
        assert_eq!(connections.iter().sum::<u64>() as f64, number(&line, "requests"), "{line}");
    }

    #[test]
    fn a_wrong_option_is_refused_by_its_name() {
        for (arguments, word) in [
            (&["--engine", "none"][..], "engine"),
            (&["--skew", "zipf"], "skew"),
            (&["--reads", "101"], "reads"),
            (&["--batch", "0"], "batch"),
            (&["--multi-key", "10", "--data", "sets"], "multi-key"),
            (&["--shards", "3", "--engine", "dashmap"], "power of two"),
        ] {
            let reason = quick(arguments).unwrap_err();
            assert!(reason.contains(word), "{arguments:?}: {reason}");
        }
    }
}
