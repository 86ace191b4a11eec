//! Flags of redis-benchmark and memtier_benchmark that mean something else here, or nothing: what to
//! use instead. Those that mean the same are understood (`-P`, `-r`, `-d 1k`, `--rate-limiting 50k`).

/// One of their flags, and ours in its place.
struct Foreign {
    names: &'static [&'static str],
    /// Which of its values are theirs; all if it takes none, or is not a flag of ours.
    is_theirs: fn(&str) -> bool,
    answer: &'static str,
}

const ANY: fn(&str) -> bool = |_| true;
const NO_NUMBER: fn(&str) -> bool = |value| value.parse::<u64>().is_err();

const FOREIGN: [Foreign; 21] = [
    Foreign {
        names: &["-h", "--host"],
        is_theirs: |value| !value.is_empty() && !value.starts_with('-'),
        answer: "the target is -s HOST",
    },
    Foreign {
        names: &["-t", "--tests"],
        is_theirs: NO_NUMBER,
        answer: "-t are threads; for the test set use --ratio 1:0, for get --ratio 0:1, for mset --keys-per-command 10 \
                 --ratio 1:0, for any other command --workload FILE.toml (loadgen/README.md)",
    },
    Foreign {
        names: &["-P", "--protocol"],
        is_theirs: NO_NUMBER,
        answer: "-P is the pipeline's depth; the protocol is --resp 2 or --resp 3",
    },
    Foreign {
        names: &["-n"],
        is_theirs: NO_NUMBER,
        answer: "-n are requests in total; to write every key use --prefill",
    },
    Foreign {
        names: &["-s", "-S", "--unix-socket"],
        is_theirs: |value| value.starts_with('/'),
        answer: "targets are reached by TCP: -s HOST[:PORT]",
    },
    Foreign { names: &["-3"], is_theirs: ANY, answer: "RESP3 is --resp 3" },
    Foreign {
        names: &["-k"],
        is_theirs: ANY,
        answer: "connections stay open; to measure connecting use --connect-storm",
    },
    Foreign {
        names: &["--reconnect-interval"],
        is_theirs: ANY,
        answer: "connections stay open; to measure connecting use --connect-storm",
    },
    Foreign { names: &["-l"], is_theirs: ANY, answer: "for a run of a given length use --test-time SECS" },
    Foreign { names: &["--csv"], is_theirs: ANY, answer: "--hdr-file-prefix PREFIX writes PREFIX.csv" },
    Foreign { names: &["-e"], is_theirs: ANY, answer: "the first error reply is always shown" },
    Foreign { names: &["-u"], is_theirs: ANY, answer: "the target is -s HOST -p PORT -a [USER:]PASSWORD" },
    Foreign { names: &["--user"], is_theirs: ANY, answer: "credentials are -a USER:PASSWORD" },
    Foreign {
        names: &["--dbnum", "--select-db"],
        is_theirs: ANY,
        answer: "there is no flag for a database: loadgen uses 0",
    },
    Foreign {
        names: &["--cluster", "--cluster-mode", "--tls"],
        is_theirs: ANY,
        answer: "loadgen speaks plain TCP and follows no redirections; several targets are -s HOST:PORT,HOST:PORT",
    },
    Foreign { names: &["-I"], is_theirs: ANY, answer: "loadgen has no idle connections" },
    Foreign { names: &["-R", "--random-data"], is_theirs: ANY, answer: "values are always cut from a random block" },
    Foreign { names: &["--randomize", "--distinct-client-seed"], is_theirs: ANY, answer: "the seed is --seed NUMBER" },
    Foreign {
        names: &["--command", "--command-ratio", "--command-key-pattern"],
        is_theirs: ANY,
        answer: "commands with weights are in a file: --workload FILE.toml (loadgen/README.md)",
    },
    Foreign {
        names: &["--multi-key-get"],
        is_theirs: ANY,
        answer: "MGETs of K keys are --keys-per-command K --ratio 0:1",
    },
    Foreign {
        names: &["-o", "--out-file", "--client-stats"],
        is_theirs: ANY,
        answer: "files are --json-out-file FILE and --hdr-file-prefix PREFIX",
    },
];

/// What to use instead of the first flag of another tool, if there is one.
pub fn answer(arguments: &[String]) -> Option<String> {
    arguments.iter().enumerate().find_map(|(place, argument)| {
        let next = || arguments.get(place + 1).map_or("", String::as_str);
        let (name, value) = match argument.split_once('=') {
            Some((name, value)) if name.starts_with("--") => (name, value),
            _ => (argument.as_str(), next()),
        };
        let foreign = FOREIGN.iter().find(|foreign| foreign.names.contains(&name) && (foreign.is_theirs)(value))?;
        Some(format!("'{name}' is another tool's: {}", foreign.answer))
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::Cli;

    fn answered(line: &str) -> Option<String> {
        answer(&line.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn another_tools_flag_is_answered_with_ours() {
        for (line, ours) in [
            ("-h 10.0.0.1 -n 5", "-s HOST"),
            ("--host=10.0.0.1", "-s HOST"),
            ("-n 5 -t set,get", "--ratio 1:0"),
            ("-P resp3", "--resp 3"),
            ("-n allkeys", "--prefill"),
            ("-s /tmp/redis.sock", "by TCP"),
            ("--multi-key-get=8", "--keys-per-command"),
            ("--command INCR", "--workload"),
            ("-k 0", "--connect-storm"),
            ("--tls", "plain TCP"),
        ] {
            assert!(answered(line).is_some_and(|answer| answer.contains(ours)), "{line}: {:?}", answered(line));
        }
    }

    #[test]
    fn our_own_flags_are_nobody_elses() {
        for line in ["-h", "-s 10.0.0.1 -t 2 -n 100 -P 16 -r 1000 -d 1k -c 5 -p 1", "--help", "-h -q"] {
            assert_eq!(answered(line), None, "{line}");
        }
    }

    /// No flag of ours is taken for another tool's, whatever its value.
    #[test]
    fn what_is_always_refused_is_no_flag_of_ours() {
        for foreign in FOREIGN.iter().filter(|foreign| (foreign.is_theirs)("1")) {
            for name in foreign.names {
                let is_ours = *name == "-h" || Cli::try_parse_from(["loadgen", name, "1"]).is_ok();
                assert!(!is_ours || *name == "-h", "{name}");
            }
        }
    }
}
