//! The process: how it starts, why it refuses to, what it logs, how it ends.

use harness::server::{arguments, binary, other_placements};
use harness::{Data, EVERY_ENGINE, Ended, Server, Setup, Value, on_every_process, request, run_to_its_end, wait_until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::Duration;

fn run(arguments: &[&str]) -> Ended {
    let dir = Data::new();
    run_to_its_end(Command::new(harness::server::binary()).args(arguments).current_dir(dir.path()))
}

#[track_caller]
fn assert_refused(ended: &Ended, texts: &[&str]) {
    assert_eq!(ended.status.code(), Some(1), "{ended:?}");
    for text in texts {
        assert!(ended.stderr.contains(text), "stderr says nothing of {text:?}: {}", ended.stderr);
    }
}

#[test]
fn a_bad_flag_is_named_with_the_reason() {
    for (arguments, texts) in [
        (vec!["--port", "abc"], ["--port", "integer"]),
        (vec!["--port", "70000"], ["--port", "between 0 and 65535"]),
        (vec!["--port", "-1"], ["--port", "between 0 and 65535"]),
        (vec!["--engine", "magic"], ["--engine", "mutex, dashmap, actor"]),
        (vec!["--shards", "100000"], ["--shards", "between"]),
        (vec!["--appendonly", "maybe"], ["--appendonly", "'yes' or 'no'"]),
        (vec!["--appendfsync", "sometimes"], ["--appendfsync", "everysec, always, no"]),
        (vec!["--maxclients", "0"], ["--maxclients", "between"]),
        (
            vec!["--client-output-buffer-limit", "normal 1"],
            ["--client-output-buffer-limit", "Wrong number of arguments in buffer limit"],
        ),
        (vec!["--proto-max-bulk-len", "1xb"], ["--proto-max-bulk-len", "a memory value"]),
        (vec!["--nosuchflag", "1"], ["--nosuchflag", "unknown directive"]),
        (vec!["--bind", "nowhere"], ["nowhere", "can't listen"]),
        (vec!["--port"], ["--port", "wrong number of arguments"]),
        (vec!["/no/such/file.conf"], ["/no/such/file.conf", "can't read"]),
    ] {
        assert_refused(&run(&arguments), &texts);
    }
}

#[test]
fn a_bad_line_of_the_config_file_is_named_with_the_reason() {
    for (line, text) in [
        ("prot 7000", "unknown directive 'prot'"),
        ("port", "wrong number of arguments"),
        ("port abc", "integer"),
        ("appendonly \"yes", "unbalanced quotes"),
        ("engine magic", "mutex, dashmap, actor"),
        ("maxmemory-policy allkeys-mru", "noeviction"),
    ] {
        let data = Data::new();
        let path = data.path().join("shardrace.conf");
        std::fs::write(&path, format!("# a comment\n\nport 0\n{line}\n")).unwrap();
        let path = path.to_str().unwrap();
        assert_refused(&run(&[path]), &[path, "line 4", line, text]);
    }
}

#[test]
fn a_config_file_configures_and_a_flag_overrides_it() {
    let data = Data::new();
    let path = data.path().join("shardrace.conf");
    std::fs::write(&path, "requirepass \"p w\"\nMAXCLIENTS 77\nhz 20\nappendonly no\n").unwrap();
    let server = data.start(EVERY_ENGINE[0], &[path.to_str().unwrap(), "--hz", "30"]);
    let mut client = server.client();
    client.expect("AUTH \"p w\"", "+OK\r\n");
    client.expect("CONFIG GET maxclients", "*2\r\n$10\r\nmaxclients\r\n$2\r\n77\r\n");
    client.expect("CONFIG GET hz", "*2\r\n$2\r\nhz\r\n$2\r\n30\r\n");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    for engine in ["mutex", "dashmap", "actor"] {
        let ended = run(&["--port", &port, "--engine", engine]);
        assert_refused(&ended, &["can't listen", &format!("127.0.0.1:{port}"), "in use"]);
    }
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let data = Data::new();
    let file = data.path().join("file");
    std::fs::write(&file, "no directory").unwrap();
    let dir = file.to_str().unwrap();
    assert_refused(&run(&["--port", "0", "--dir", dir]), &[dir, "can't create"]);
    let logfile = format!("{dir}/log");
    assert_refused(&run(&["--port", "0", "--appendonly", "no", "--logfile", &logfile]), &[&logfile, "log file"]);
}

#[test]
fn a_directory_has_one_server_at_a_time() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let pid_file = data.path().join("server.pid");
        let flags = ["--pidfile", pid_file.to_str().unwrap()];
        let server = data.start(setup, &flags);
        server.client().expect("SET k v", "+OK\r\n");
        for other in EVERY_ENGINE {
            let dir = data.path().join("appendonlydir");
            assert_refused(&data.start_refused(other, &flags), &[dir.to_str().unwrap(), "in use", "another server"]);
            assert_eq!(std::fs::read_to_string(&pid_file).unwrap(), format!("{}\n", server.pid()));
        }
        // Without a log it uses no file of the directory.
        data.start(setup, &["--appendonly", "no"]).assert_serving();
        server.client().expect("GET k", "$1\r\nv\r\n");
        let data = server.kill();
        data.start(setup, &[]).client().expect("GET k", "$1\r\nv\r\n");
    }
}

#[test]
fn help_and_version_are_printed_and_succeed() {
    let help = run(&["--help"]);
    assert!(help.status.success());
    for flag in ["--engine", "--shards", "--port", "--appendfsync", "--requirepass", "--dir"] {
        assert!(help.stdout.contains(flag), "{flag} is not in the help");
    }
    let version = run(&["--version"]);
    assert!(version.status.success());
    let expected = format!("shardrace {} (sources {})", env!("CARGO_PKG_VERSION"), env!("SHARDRACE_SOURCES"));
    assert_eq!(version.stdout.trim(), expected);
}

#[test]
fn the_help_fits_a_terminal_of_80_columns_and_lists_each_directive_once() {
    let help = run(&["--help"]).stdout;
    for line in help.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    // As tests/compat/redis-server reads it.
    let mut names: Vec<&str> = help.lines().filter_map(|line| line.trim_start().strip_prefix("--")).collect();
    names.iter_mut().for_each(|name| *name = name.split([' ', '=']).next().unwrap());
    for name in ["engine", "maxmemory-policy", "save", "port", "replicaof", "latency-tracking-info-percentiles"] {
        assert_eq!(names.iter().filter(|found| **found == name).count(), 1, "{name}: {names:?}");
    }
    // What is used is not counted without jemalloc.
    let policies = if cfg!(feature = "jemalloc") { "allkeys-random, noeviction]" } else { "<noeviction>" };
    assert!(help.contains(policies), "{help}");
}

/// What `shardrace … | true` gets, and a full disk: no panic, which would be an abort.
#[test]
fn an_answer_that_nobody_reads_is_dropped_and_one_that_cannot_be_written_is_an_error() {
    for question in ["--help", "--version"] {
        let ask = |stdout: Stdio| {
            let mut command = Command::new(binary());
            command.arg(question).stdin(Stdio::null()).stdout(stdout).stderr(Stdio::piped()).output().unwrap()
        };
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let unread = ask(writer.into());
        assert!(unread.status.success() && unread.stderr.is_empty(), "{question}: {unread:?}");
        let full = ask(std::fs::File::options().write(true).open("/dev/full").unwrap().into());
        assert_eq!(full.status.code(), Some(1), "{question}: {full:?}");
        let told = String::from_utf8_lossy(&full.stderr);
        assert!(told.contains("can't write to the standard output: No space left"), "{question}: {told}");
    }
}

#[test]
fn a_signal_drains_syncs_and_exits_with_0() {
    for signal in ["TERM", "INT"] {
        for setup in EVERY_ENGINE {
            let server = Server::start(setup, &["--appendfsync", "no"]);
            let mut client = server.client();
            let mut idle = server.client();
            idle.expect("PING", "+PONG\r\n");
            // Already sent when the signal comes: replied before the end.
            let requests: Vec<u8> =
                (0..2_000).flat_map(|index| request(&["SET", &format!("key:{index}"), "v"])).collect();
            client.send(&requests);
            assert_eq!(client.reply(), b"+OK\r\n");
            server.signal(signal);
            let replies = client.values(1_999);
            assert!(replies.iter().all(|reply| *reply == Value::Simple(b"OK".to_vec())));
            assert!(client.until_closed().is_empty());
            assert!(idle.until_closed().is_empty());
            let (status, data, log) = server.wait_for_end();
            assert_eq!(status.code(), Some(0), "{setup:?} SIG{signal}: {log}");
            assert!(log.contains("User requested shutdown") && log.contains("bye bye"), "{log}");
            let server = data.start(setup, &[]);
            assert_eq!(server.client().value(&["DBSIZE"]), Value::Integer(2_000), "{setup:?} SIG{signal}");
        }
    }
}

#[test]
fn a_stopping_server_accepts_nobody_and_waits_for_nobody_for_ever() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no"]);
        let value = "v".repeat(8 << 20);
        server.client().call(&["SET", "big", &value]);
        // It never reads: the server must end nevertheless.
        let slow = server.client();
        slow.stream().write_all(&request(&["GET", "big"]).repeat(8)).unwrap();
        wait_until("it has replies to take", || {
            let list = server.client().value(&["CLIENT", "LIST"]).text();
            list.lines().any(|line| !line.contains(" obl=0 "))
        });
        let address = server.address();
        let (status, _, log) = server.stop();
        assert_eq!(status.code(), Some(0), "{setup:?}: {log}");
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}

#[test]
fn a_second_sigint_ends_the_server_at_once() {
    let server = Server::start(EVERY_ENGINE[3], &["--appendonly", "no"]);
    let value = "v".repeat(8 << 20);
    server.client().call(&["SET", "big", &value]);
    let slow = server.client();
    slow.stream().write_all(&request(&["GET", "big"]).repeat(8)).unwrap();
    wait_until("it has replies to take", || {
        let list = server.client().value(&["CLIENT", "LIST"]).text();
        list.lines().any(|line| !line.contains(" obl=0 "))
    });
    server.signal("INT");
    server.wait_for_log("Received SIGINT. User requested shutdown");
    let start = std::time::Instant::now();
    server.signal("INT");
    let (status, _, log) = server.wait_for_end();
    assert_eq!(status.code(), Some(1), "{log}");
    assert!(start.elapsed() < std::time::Duration::from_secs(3), "it went on draining");
}

/// `timeout`, and supervisors that signal a group after its first process, send SIGTERM twice.
#[test]
fn a_second_sigterm_does_not_cost_the_last_snapshot() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &["--appendonly", "no", "--save", "3600 1"]);
        let mut client = server.client();
        for index in 0..32 {
            client.call(&["SET", &format!("big:{index}"), &"v".repeat(1 << 20)]);
        }
        server.signal("TERM");
        server.wait_for_log("Received SIGTERM. User requested shutdown");
        server.signal("TERM");
        let (status, data, log) = server.wait_for_end();
        assert_eq!(status.code(), Some(0), "{setup:?}: {log}");
        let server = data.start(setup, &["--appendonly", "no"]);
        server.client().expect("DBSIZE", ":32\r\n");
    }
}

#[test]
fn log_lines_have_the_form_of_redis() {
    on_every_process(|server| {
        let log = server.log();
        assert!(log.lines().count() >= 2, "{log}");
        for line in log.lines() {
            assert!(is_redis_line(line), "{line:?}");
        }
        let setup = server.setup();
        assert!(log.contains(&format!("engine={}", setup.engine)), "{log}");
        assert!(log.contains("append only file in") && log.contains("appendfsync everysec"), "{log}");
    });
}

/// `12345:M 21 Nov 2026 10:50:43.123 * message`
fn is_redis_line(line: &str) -> bool {
    let words: Vec<&str> = line.splitn(7, ' ').collect();
    let [role, day, month, year, time, mark, message] = words[..] else { return false };
    let is_number = |text: &str, len: usize| text.len() == len && text.bytes().all(|byte| byte.is_ascii_digit());
    let clock: Vec<&str> = time.split([':', '.']).collect();
    let is_clock = clock.len() == 4 && clock.iter().zip([2, 2, 2, 3]).all(|(part, len)| is_number(part, len));
    role.strip_suffix(":M").is_some_and(|pid| pid.parse::<u32>().is_ok())
        && is_number(day, 2)
        && month.len() == 3
        && is_number(year, 4)
        && is_clock
        && matches!(mark, "*" | "#" | "-" | ".")
        && !message.is_empty()
}

#[test]
fn log_lines_are_json_where_wanted() {
    let data = Data::new();
    let file = data.path().join("log");
    let path = file.to_str().unwrap().to_owned();
    let arguments = ["--port", "0", "--appendonly", "no", "--log-format", "json", "--logfile", &path];
    let mut child = Command::new(harness::server::binary()).args(arguments).current_dir(data.path()).spawn().unwrap();
    wait_until("it is ready", || std::fs::read_to_string(&file).is_ok_and(|log| log.contains("Ready to accept")));
    child.kill().unwrap();
    child.wait().unwrap();
    for line in std::fs::read_to_string(&file).unwrap().lines() {
        assert!(line.starts_with("{\"timestamp\":") && line.ends_with('}'), "{line}");
    }
}

#[test]
fn sighup_lets_the_log_lines_go_on_in_a_new_file_and_other_signals_do_nothing() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let (file, old) = (data.path().join("log"), data.path().join("log.1"));
        let mut command = Command::new("sh");
        // The harness reads from the standard error what goes to the file.
        command.args([
            "-c",
            "touch log && tail --pid=$$ -n +1 -f log >&2 & exec \"$0\" \"$@\"",
            binary(),
            "--logfile",
            "log",
        ]);
        command.args(arguments(&data, setup)).env_remove("RUST_LOG").current_dir(data.path());
        let server = Server::spawn(&mut command, data, setup);
        let mut client = server.client();
        client.expect("SET k v", "+OK\r\n");
        for signal in ["USR1", "PIPE"] {
            server.signal(signal);
            client.expect("GET k", "$1\r\nv\r\n");
        }
        std::fs::rename(&file, &old).unwrap();
        server.signal("HUP");
        wait_until("there is a new file", || {
            std::fs::read_to_string(&file).is_ok_and(|log| log.contains("opened anew"))
        });
        let before = std::fs::read_to_string(&old).unwrap();
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("a new line stands in it", || std::fs::read_to_string(&file).unwrap().contains("rewriting started"));
        assert_eq!(std::fs::read_to_string(&old).unwrap(), before, "{setup:?}: nothing goes to the old file");
        // If it cannot be opened the lines continue in the old file.
        std::fs::rename(&file, old.with_extension("2")).unwrap();
        std::fs::create_dir(&file).unwrap();
        server.signal("HUP");
        wait_until("it says so", || {
            let refused = format!("Can't open the log file {} anew", file.display());
            std::fs::read_to_string(old.with_extension("2")).unwrap().contains(&refused)
        });
        // The connections, the data and the log are unchanged.
        client.expect("GET k", "$1\r\nv\r\n");
        let data = server.kill();
        data.start(setup, &[]).client().expect("GET k", "$1\r\nv\r\n");
    }
}

#[test]
fn without_a_log_file_sighup_does_nothing() {
    on_every_process(|server| {
        server.signal("HUP");
        server.assert_serving();
    });
}

#[test]
fn the_start_says_when_nothing_is_kept() {
    let server = Server::start(EVERY_ENGINE[0], &["--appendonly", "no", "--save", ""]);
    let said = "No log and no save points: what was written since the last SAVE or BGSAVE is lost.";
    assert!(server.log().contains(said), "{}", server.log());
    let quiet = Server::start(EVERY_ENGINE[0], &["--loglevel", "debug"]);
    quiet.client().expect("GET k", "$-1\r\n");
    assert!(!quiet.log().to_lowercase().contains("get"), "no command is logged: {}", quiet.log());
}

/// The messages on the socket of a supervisor while a server starts and ends.
fn told(name: &std::ffi::OsStr, socket: &std::os::unix::net::UnixDatagram, mode: &str) -> String {
    let (data, setup) = (Data::new(), EVERY_ENGINE[0]);
    socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    let mut command = Command::new(binary());
    command.args(arguments(&data, setup)).args(["--supervised", mode]).env("NOTIFY_SOCKET", name);
    let server = Server::spawn(&mut command, data, setup);
    let mut text = String::new();
    let mut receive_until = |word: &str| {
        while !text.contains(word) {
            let mut bytes = [0; 256];
            let len = socket.recv(&mut bytes).unwrap();
            text.push_str(std::str::from_utf8(&bytes[..len]).unwrap());
        }
    };
    receive_until("READY=1\n");
    assert_eq!(server.info()["process_supervised"], "systemd");
    assert!(server.stop().0.success());
    receive_until("STOPPING=1\n");
    text
}

#[test]
fn systemd_is_told_when_the_server_is_ready_and_when_it_ends() {
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::{SocketAddr, UnixDatagram};
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notify");
    let text = told(path.as_os_str(), &UnixDatagram::bind(&path).unwrap(), "systemd");
    assert!(text.contains("STATUS=Ready to accept connections\n"), "{text}");
    let name = format!("shardrace-test-{}", std::process::id());
    let socket = UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    told(format!("@{name}").as_ref(), &socket, "auto");
    // A missing supervisor does not keep the server from serving.
    let server = Server::start(EVERY_ENGINE[0], &["--supervised", "systemd"]);
    server.wait_for_log("NOTIFY_SOCKET not found");
    assert_eq!(server.info()["process_supervised"], "no");
}

#[test]
fn a_log_file_and_a_pid_file_without_a_directory_are_in_that_of_the_data() {
    let (data, setup) = (Data::new(), EVERY_ENGINE[0]);
    let mut command = Command::new(binary());
    command.args(arguments(&data, setup)).args(["--pidfile", "server.pid"]);
    let server = Server::spawn(&mut command, data, setup);
    let pid = std::fs::read_to_string(server.data().path().join("server.pid")).unwrap();
    assert_eq!(pid, format!("{}\n", server.pid()));
    let (_, data, _) = server.stop();
    assert!(!data.path().join("server.pid").exists());
    let ended = run_to_its_end(Command::new(binary()).args(arguments(&data, setup)).args([
        "--logfile",
        "server.log",
        "--bind",
        "203.0.113.1",
    ]));
    assert!(!ended.status.success());
    let log = std::fs::read_to_string(data.path().join("server.log")).unwrap();
    assert!(log.contains("203.0.113.1"), "{log}");
}

/// A command of nobody, if the test is the superuser's: a limit on processes does not count for that one.
fn unprivileged(program: &str) -> Command {
    let mut command = Command::new("sh");
    let drop = "[ $(id -u) != 0 ] || set -- setpriv --reuid 65534 --regid 65534 --clear-groups -- \"$@\"; exec \"$@\"";
    command.args(["-c", drop, "sh", program]);
    command
}

/// From now on its user may have this many processes and threads.
fn limit_processes(server: &Server, most: u64) {
    let (pid, most) = (server.pid().to_string(), most.to_string());
    let status = unprivileged("prlimit").args(["--pid", &pid, &format!("--nproc={most}:")]).status();
    assert!(status.expect("there is a shell").success());
}

#[test]
fn a_server_that_gets_too_few_threads_says_so_and_ends() {
    let pinned = other_placements().map(|(setup, flags)| (setup, flags.to_vec()));
    for (setup, flags) in EVERY_ENGINE.map(|setup| (setup, Vec::new())).into_iter().chain(pinned) {
        // Besides the workers: the first thread, a spare one, one that loads, and one of the log.
        for most in 1..setup.threads + 4 {
            let data = Data::new();
            std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
            let mut command = unprivileged("prlimit");
            command.arg(format!("--nproc={most}")).arg(binary()).args(arguments(&data, setup)).args(&flags);
            let ended = run_to_its_end(command.env_remove("RUST_LOG").current_dir(data.path()));
            let is_said = ended.stderr.contains("Fatal: can't start") && ended.stderr.contains("thread");
            assert!(is_said && !ended.stderr.contains("panicked"), "{setup:?} {flags:?}, {most} threads: {ended:?}");
            assert_eq!(ended.status.code(), Some(1), "{setup:?}, {most} threads: {ended:?}");
        }
    }
}

#[test]
fn many_shards_write_little_when_they_start() {
    const SHARDS: usize = 64;
    let data = Data::new();
    let setup = Setup { engine: "actor", shards: SHARDS, threads: 2 };
    for _ in 0..2 {
        let server = data.start(setup, &[]);
        let io = std::fs::read_to_string(format!("/proc/{}/io", server.pid())).unwrap();
        let written = io.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap().parse::<u64>().unwrap();
        assert!(written < SHARDS as u64 * 4096, "{written} bytes");
        assert!(server.stop().0.success());
    }
}

#[test]
fn a_server_that_gets_no_more_threads_goes_on() {
    const LEN: usize = 60_000;
    const MANY: u64 = 1000;
    let pinned = other_placements().map(|(setup, flags)| (setup, flags.to_vec()));
    for (setup, flags) in EVERY_ENGINE.map(|setup| (setup, Vec::new())).into_iter().chain(pinned) {
        println!("on {setup:?} {flags:?}");
        let data = Data::new();
        std::fs::set_permissions(data.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let mut command = unprivileged(binary());
        command.args(arguments(&data, setup)).args(flags).args(["--enable-debug-command", "yes"]);
        command.env_remove("RUST_LOG").current_dir(data.path());
        let server = Server::spawn(&mut command, data, setup);
        let mut client = server.client();
        for first in (0..LEN).step_by(1000) {
            let numbers = (first..first + 1000).map(|number| number.to_string());
            client.value(&["RPUSH".to_owned(), "list".to_owned()].into_iter().chain(numbers).collect::<Vec<_>>());
        }
        limit_processes(&server, 0);
        // It leaves its tasks to a spare thread.
        assert_eq!(client.value(&["LRANGE", "list", "0", "-1"]).elements().len(), LEN, "{setup:?}");
        client.expect("BGSAVE", "+Background saving started\r\n");
        wait_until("it has failed", || server.info()["rdb_last_bgsave_status"] == "err");
        client.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        wait_until("it has failed", || server.info()["aof_last_bgrewrite_status"] == "err");
        let library = "#!lua name=l\nredis.register_function('f', function() return 1 end)";
        assert_eq!(client.value(&["FUNCTION", "LOAD", library]).text(), "l");
        client.expect("SET k v", "+OK\r\n");
        client.expect("DEBUG LOADAOF", "+OK\r\n");
        client.expect("LLEN list", &format!(":{LEN}\r\n"));
        limit_processes(&server, MANY);
        client.expect("BGSAVE", "+Background saving started\r\n");
        wait_until("it is saved", || server.info()["rdb_last_bgsave_status"] == "ok");
        let (status, _, log) = server.stop();
        assert!(status.success(), "{setup:?}: {log}");
    }
}

/// A server in the background, which ends with this.
struct Daemon {
    data: Data,
    pid: u32,
}

impl Daemon {
    fn of(data: Data) -> Self {
        let pid = std::fs::read_to_string(data.path().join("pid")).unwrap().trim().parse().unwrap();
        Self { data, pid }
    }

    fn call(&self, line: &str) -> String {
        let mut stream = UnixStream::connect(self.data.path().join("socket")).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream.write_all(format!("{line}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }

    fn is_running(&self) -> bool {
        // A process that has ended, and that nobody has waited for, is still there.
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid)).unwrap_or_default();
        stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", &self.pid.to_string()]).stderr(Stdio::null()).status();
    }
}

fn daemon_flags(data: &Data) -> [String; 6] {
    let [socket, pid, log] = ["socket", "pid", "log"].map(|name| data.path().join(name).display().to_string());
    ["--unixsocket".into(), socket, "--pidfile".into(), pid, "--logfile".into(), log]
}

#[test]
fn a_server_in_the_background_has_a_session_of_its_own_and_listens_when_its_starter_ends() {
    for setup in EVERY_ENGINE {
        for config_on_stdin in [None, Some("daemonize yes\n")] {
            let data = Data::new();
            let mut command = Command::new(binary());
            match config_on_stdin {
                Some(_) => command.arg("-"),
                None => command.args(["--daemonize", "yes"]),
            };
            command.args(arguments(&data, setup)).args(daemon_flags(&data)).current_dir(data.path());
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut starter = command.spawn().unwrap();
            starter.stdin.take().unwrap().write_all(config_on_stdin.unwrap_or_default().as_bytes()).unwrap();
            let mut status = None;
            wait_until("the end of what starts it", || {
                status = starter.try_wait().unwrap();
                status.is_some()
            });
            let daemon = Daemon::of(data);
            assert_eq!(status.unwrap().code(), Some(0), "{setup:?}");
            // Who waits for the end of these streams does not wait for the server.
            for stream in 0..3 {
                let path = std::fs::read_link(format!("/proc/{}/fd/{stream}", daemon.pid)).unwrap();
                assert_eq!(path.to_str(), Some("/dev/null"), "stream {stream}");
            }
            assert_eq!(starter.wait_with_output().unwrap().stdout, b"");
            assert!(daemon.call("SET k v").starts_with("+OK"), "{setup:?}");
            assert!(daemon.call("INFO server").contains(&format!("process_id:{}\r\n", daemon.pid)));
            assert!(daemon.call("CONFIG GET daemonize").contains("$3\r\nyes\r\n"));
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", daemon.pid)).unwrap();
            let fields: Vec<&str> = stat.rsplit_once(") ").unwrap().1.split(' ').collect();
            // The state, the parent, the group, the session, the terminal.
            let pid = daemon.pid.to_string();
            assert_eq!((fields[2], fields[3], fields[4]), (&*pid, &*pid, "0"), "{stat}");
            assert!(daemon.call("SHUTDOWN NOSAVE").is_empty());
            wait_until("the end", || !daemon.is_running());
            let log = std::fs::read_to_string(daemon.data.path().join("log")).unwrap();
            assert!(log.contains("Ready to accept connections") && log.contains("bye bye"), "{log}");
            assert!(!daemon.data.path().join("pid").exists());
        }
    }
}

#[test]
fn the_process_that_starts_a_server_in_the_background_fails_with_it() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let flags = ["--daemonize", "yes", "--bind", "127.0.0.1", "--port", &port];
    assert_refused(&run(&flags), &["can't listen", &port]);
    assert_refused(&run(&["--daemonize", "yes", "--port", "x"]), &["integer"]);
}
