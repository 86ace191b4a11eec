//! An fsync that takes seconds: which requests wait for it, and which do not.

use super::process::Machine;
use super::tracking::Behaviour;
use harness::{Client, EVERY_ENGINE, Server, Setup, request, wait_until};
use std::time::{Duration, Instant};

const SLOW: Duration = Duration::from_millis(5000);
/// How long a quick reply may take on a busy machine.
const QUICK: Duration = Duration::from_millis(1500);

/// A server whose disk can be made slow.
struct Slow {
    machine: Machine,
    server: Server,
}

impl Slow {
    fn start(setup: Setup, policy: &str) -> Self {
        Self::start_with(setup, policy, SLOW)
    }

    fn start_with(setup: Setup, policy: &str, slow: Duration) -> Self {
        let behaviour = Behaviour { slow_ms: slow.as_millis() as u64, ..Behaviour::default() };
        let machine = Machine::new(&["--appendfsync", policy], behaviour);
        let server = machine.start(setup);
        Self { machine, server }
    }

    fn set_slow(&self, is_slow: bool) {
        let mark = self.machine.places().slow();
        if is_slow { std::fs::write(mark, "").unwrap() } else { std::fs::remove_file(mark).unwrap() }
    }
}

/// How long a reply took.
fn time_of(connection: &mut Client, words: &[&str]) -> Duration {
    let start = Instant::now();
    connection.call(words);
    start.elapsed()
}

/// Runs a test on every engine at the same time: mostly they wait.
fn on_every_engine_at_once(test: impl Fn(Setup) + Sync) {
    std::thread::scope(|scope| {
        let test = &test;
        let threads = EVERY_ENGINE.map(|setup| scope.spawn(move || test(setup)));
        threads.into_iter().for_each(|thread| thread.join().expect("the test has said why"));
    });
}

#[test]
fn under_always_no_reply_comes_before_a_slow_fsync_and_the_server_goes_on_meanwhile() {
    on_every_engine_at_once(|setup| {
        let slow = Slow::start(setup, "always");
        let mut other = slow.server.client();
        other.expect("SET other v", "+OK\r\n");
        slow.set_slow(true);
        let mut writer = slow.server.client();
        let (start, commands) = (Instant::now(), slow.server.info_number("engine_commands"));
        writer.send(&request(&["SET", "key", "v"]));
        wait_until("the write is executed", || slow.server.info_number("engine_commands") > commands);
        // Reads of the same shard are executed; their replies may show the write, and wait for it.
        let mut readers: Vec<Client> = (0..4).map(|_| slow.server.client()).collect();
        readers.iter_mut().for_each(|reader| reader.send(&request(&["GET", "key"])));
        wait_until("reads are executed", || slow.server.info_number("engine_commands") >= commands + 5);
        assert!(start.elapsed() < SLOW / 2, "{setup:?}: a shard waited for the disk");
        assert!(writer.is_silent(), "{setup:?}: a reply came before its fsync");
        if setup.shards == 7 {
            // Shards whose log has nothing to sync are not affected.
            let took = time_of(&mut other, &["GET", "other"]);
            assert!(took < QUICK, "{setup:?}: a read of another shard took {took:?}");
        }
        assert_eq!(writer.reply(), b"+OK\r\n");
        assert!(start.elapsed() >= SLOW, "{setup:?}: a reply came before its fsync");
        readers.iter_mut().for_each(|reader| assert_eq!(reader.reply(), b"$1\r\nv\r\n"));
        let longest = slow.server.info_number("aof_fsync_us_max") as u128;
        assert!((SLOW.as_micros()..2 * SLOW.as_micros()).contains(&longest), "{setup:?}: INFO tells of {longest} us");
    });
}

#[test]
fn under_everysec_writers_wait_when_the_disk_is_behind_by_more_than_two_seconds_and_readers_do_not() {
    on_every_engine_at_once(|setup| {
        let slow = Slow::start(setup, "everysec");
        let (mut writer, mut reader) = (slow.server.client(), slow.server.client());
        writer.expect("SET key v", "+OK\r\n");
        slow.set_slow(true);
        let start = Instant::now();
        // The disk may be late for a while.
        let mut quick = 0;
        let waited = loop {
            let took = time_of(&mut writer, &["SET", "key", "v"]);
            if took > QUICK {
                break took;
            }
            quick += 1;
            assert!(start.elapsed() < 3 * SLOW, "{setup:?}: nobody waits for the disk");
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(start.elapsed() - waited > Duration::from_millis(500), "{setup:?}: it waited after {quick} writes");
        assert!(start.elapsed() - waited < Duration::from_millis(4000), "{setup:?}: it waited after {quick} writes");
        // It has just been released; now it waits again, and readers do not.
        wait_until("the disk is behind again", || {
            writer.send(&request(&["SET", "key", "w"]));
            std::thread::sleep(Duration::from_millis(300));
            let is_waiting = writer.is_silent();
            if !is_waiting {
                writer.reply();
            }
            is_waiting
        });
        let took = time_of(&mut reader, &["GET", "key"]);
        assert!(took < QUICK, "{setup:?}: a read took {took:?}");
        slow.set_slow(false);
        assert_eq!(writer.reply(), b"+OK\r\n");
    });
}

/// A base is written, and keys change before their turn: they are added to it first, so that many bytes wait for the
/// disk.
#[test]
fn writes_wait_while_too_much_of_an_image_waits_for_the_disk_and_reads_do_not() {
    const SLOW: Duration = Duration::from_millis(1000);
    /// In all, several times what may wait and what is synced at once.
    const KEYS: usize = 40;
    on_every_engine_at_once(|setup| {
        // Under this policy no reply waits for an fsync of the log.
        let slow = Slow::start_with(setup, "no", SLOW);
        let (mut writer, mut reader) = (slow.server.client(), slow.server.client());
        let value = "x".repeat(1 << 20);
        // All in one shard, and so in one base.
        let key = |number: usize| format!("{{one}}:{}", number % KEYS);
        (0..KEYS).for_each(|number| assert_eq!(writer.call(&["SET", &key(number), &value]), b"+OK\r\n"));
        slow.set_slow(true);
        writer.expect("BGREWRITEAOF", "+Background append only file rewriting started\r\n");
        let start = Instant::now();
        let is_waiting = |writer: &mut Client| {
            let sent = Instant::now();
            while sent.elapsed() < SLOW / 5 && writer.is_silent() {}
            writer.is_silent()
        };
        for number in 0.. {
            assert!(start.elapsed() < 20 * SLOW, "{setup:?}: no write waits, or reads wait as well");
            writer.send(&request(&["SETRANGE", &key(number), "0", "changed"]));
            if is_waiting(&mut writer) {
                reader.expect(&format!("GETRANGE {} 7 8", key(number)), "$2\r\nxx\r\n");
                // On a busy machine the disk may have finished meanwhile: another write shows it.
                if writer.is_silent() {
                    break;
                }
            }
            writer.reply();
        }
        slow.set_slow(false);
        assert_eq!(writer.reply(), format!(":{}\r\n", value.len()).into_bytes());
        wait_until("the rewriting ends", || slow.server.info_number("aof_rewrite_in_progress") == 0);
        assert_eq!(slow.server.info()["aof_last_bgrewrite_status"], "ok", "{setup:?}");
    });
}
