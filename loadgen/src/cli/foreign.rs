//! Flags of redis-benchmark and memtier_benchmark that mean something else here, or nothing: what to
//! use instead. Those that mean the same are understood (`-P`, `-r`, `-n 10k`, `-d 1k`, `--rate-limiting 50k`).
//! A value may be joined to its flag: `-P16`, `-hHOST`, `--tests=set`.

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
        // -hq is our -h and our -q.
        is_theirs: |value| !matches!(value, "" | "q" | "V") && !value.starts_with('-'),
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
        is_theirs: |value| value == "allkeys",
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
        let (name, value) = joined(argument)
            .unwrap_or_else(|| (argument.as_str(), arguments.get(place + 1).map_or("", String::as_str)));
        let foreign = FOREIGN.iter().find(|foreign| foreign.names.contains(&name) && (foreign.is_theirs)(value))?;
        Some(format!("'{name}' is another tool's: {}", foreign.answer))
    })
}

/// A flag and the value that is joined to it; `None` if there is none.
fn joined(argument: &str) -> Option<(&str, &str)> {
    if argument.starts_with("--") {
        return argument.split_once('=');
    }
    argument.split_at_checked(2).filter(|(name, value)| name.starts_with('-') && !value.is_empty())
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
            ("-h10.0.0.1 -p6379 -c50", "-s HOST"),
            ("-c50 -P16 -tset,get", "--ratio 1:0"),
            ("-Presp3", "--resp 3"),
            ("-nallkeys", "--prefill"),
            ("-s/tmp/redis.sock", "by TCP"),
            ("-k0", "--connect-storm"),
        ] {
            assert!(answered(line).is_some_and(|answer| answer.contains(ours)), "{line}: {:?}", answered(line));
        }
    }

    #[test]
    fn our_own_flags_are_nobody_elses() {
        for line in [
            "-h",
            "-s 10.0.0.1 -t 2 -n 100 -P 16 -r 1000 -d 1k -c 5 -p 1",
            "-s10.0.0.1 -t2 -n100 -P16 -r1000 -d1k -c5 -p1",
            "--help",
            "-h -q",
            "-hq",
            "-n 10k",
            "-n 1e6",
            "-n -5",
            "-n many",
        ] {
            assert_eq!(answered(line), None, "{line}");
        }
    }

    #[test]
    fn a_value_that_is_joined_to_its_short_flag_is_the_same() {
        let parsed = |line: &str| {
            let words = std::iter::once("loadgen").chain(line.split_whitespace());
            format!("{:?}", Cli::try_parse_from(words).expect(line))
        };
        let apart = "-s 10.0.0.1 -p 6380 -a secret -c 5 -t 2 -n 100 -P 16 -r 1000 -d 1k -x 3 -q";
        assert_eq!(parsed("-s10.0.0.1 -p6380 -asecret -c5 -t2 -n100 -P16 -r1000 -d1k -x3 -q"), parsed(apart));
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
