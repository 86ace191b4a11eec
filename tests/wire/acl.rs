//! Users and what they may do: ACL, AUTH, the errors of what is denied, in every place where a command is accepted.

use harness::{Client, Data, EVERY_ENGINE, Embedded, Server, Value, on_every_engine, wait_until, words};
use std::os::unix::fs::PermissionsExt;

const NO_KEY: &str = "-NOPERM No permissions to access a key\r\n";
const NO_CHANNEL: &str = "-NOPERM No permissions to access a channel\r\n";
const WRONG: &str = "-WRONGPASS invalid username-password pair or user is disabled.\r\n";

fn no_command(user: &str, command: &str) -> String {
    format!("-NOPERM User {user} has no permissions to run the '{command}' command\r\n")
}

/// A connection of the default user that has made a user, and one of that user, whose password is `pw`.
fn with_user(server: &Embedded, name: &str, rules: &str) -> (Client, Client) {
    let (mut admin, mut client) = (server.client(), server.client());
    admin.expect(&format!("ACL SETUSER {name} on >pw {rules}"), "+OK\r\n");
    client.expect(&format!("AUTH {name} pw"), "+OK\r\n");
    (admin, client)
}

#[test]
fn a_user_may_run_the_commands_on_the_keys_and_channels_that_its_rules_allow() {
    on_every_engine(|server| {
        let (_, mut client) =
            with_user(server, "ann", "+@all -config|set -flushall ~a* %R~r* %W~w* &c* resetchannels &c*");
        client.expect("SET a1 1", "+OK\r\n");
        client.expect("SET b1 1", NO_KEY);
        client.expect("MSET a1 1 b1 2", NO_KEY);
        client.expect("GET r1", "$-1\r\n");
        client.expect("SET r1 1", NO_KEY);
        client.expect("LPUSH w1 1", ":1\r\n");
        client.expect("LRANGE w1 0 -1", NO_KEY);
        client.expect("COPY r1 w2", ":0\r\n");
        client.expect("COPY w1 a2", NO_KEY);
        client.expect("FLUSHALL", &no_command("ann", "flushall"));
        client.expect("CONFIG SET hz 10", &no_command("ann", "config|set"));
        client.expect("CONFIG GET hz", "*2\r\n$2\r\nhz\r\n$2\r\n10\r\n");
        client.expect("CONFIG NOSUCH", "-ERR unknown subcommand 'NOSUCH'. Try CONFIG HELP.\r\n");
        client.expect("PUBLISH c1 x", ":0\r\n");
        client.expect("PUBLISH d1 x", NO_CHANNEL);
        client.expect("SPUBLISH d1 x", NO_CHANNEL);
        client.expect("PSUBSCRIBE c1", NO_CHANNEL);
        client.expect("SUBSCRIBE c1 d1", NO_CHANNEL);
        client.expect("SUBSCRIBE c1", "*3\r\n$9\r\nsubscribe\r\n$2\r\nc1\r\n:1\r\n");
    });
}

#[test]
fn what_is_denied_in_a_pipeline_has_its_error_in_its_place() {
    on_every_engine(|server| {
        let (_, mut client) = with_user(server, "ann", "+set +get +eval ~a*");
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let requests: Vec<_> =
            ["SET a 1", "GET b", "GET a", "EVAL return{redis.call('get','a')} 0", "SET b 1", "GET a"].map(words).into();
        let values = client.pipeline(&requests);
        let is_error = |value: &Value| matches!(value, Value::Error(_));
        assert_eq!(values.iter().map(is_error).collect::<Vec<_>>(), [false, true, false, false, true, false]);
    });
}

#[test]
fn a_change_of_a_user_holds_for_its_connections_at_once() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "~* &* +@all");
        client.expect("SET k 1", "+OK\r\n");
        admin.expect("ACL SETUSER ann -get resetkeys ~a*", "+OK\r\n");
        client.expect("GET a", &no_command("ann", "get"));
        client.expect("SET k 1", NO_KEY);
        // In one read with the change.
        client.send(b"ACL SETUSER ann -set\r\nSET a 1\r\n");
        client.value_of_next();
        assert_eq!(client.reply(), no_command("ann", "set").as_bytes());
        admin.expect("ACL SETUSER ann allkeys allcommands", "+OK\r\n");
        client.expect("GET k", "$1\r\n1\r\n");
        // The default user is one, too.
        admin.expect("ACL SETUSER default -get", "+OK\r\n");
        admin.expect("GET k", &no_command("default", "get"));
    });
}

#[test]
fn names_and_passwords_open_what_they_belong_to() {
    on_every_engine(|server| {
        let mut admin = server.client();
        admin.expect("AUTH x", "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n");
        admin.expect("ACL SETUSER bob >one >two +acl|whoami", "+OK\r\n");
        let mut client = server.client();
        client.expect("AUTH bob one", WRONG);
        admin.expect("ACL SETUSER bob on", "+OK\r\n");
        client.expect("AUTH bob three", WRONG);
        client.expect("AUTH nobody one", WRONG);
        client.expect("ACL WHOAMI", "$7\r\ndefault\r\n");
        client.expect("AUTH bob two", "+OK\r\n");
        client.expect("ACL WHOAMI", "$3\r\nbob\r\n");
        client.expect("RESET", "+RESET\r\n");
        client.expect("ACL WHOAMI", "$7\r\ndefault\r\n");
        assert!(matches!(client.value(&["HELLO", "2", "AUTH", "bob", "one"]), Value::Array(_)));
        client.expect("ACL WHOAMI", "$3\r\nbob\r\n");
        admin.expect("CONFIG SET requirepass pw", "+OK\r\n");
        let mut late = server.client();
        late.expect("ACL WHOAMI", "-NOAUTH Authentication required.\r\n");
        late.expect("AUTH pw", "+OK\r\n");
        late.expect("ACL WHOAMI", "$7\r\ndefault\r\n");
        admin.expect("ACL SETUSER default off", "+OK\r\n");
        server.client().expect("AUTH pw", WRONG);
        assert_eq!(figure(&mut late, "acl_access_denied_auth"), 4);
    });
}

/// A figure of INFO, asked for by a connection that may.
fn figure(client: &mut Client, field: &str) -> u64 {
    let text = client.value(&["INFO", "stats"]).text();
    let number = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    number.expect("it is there").parse().expect("it is a number")
}

#[test]
fn a_transaction_is_checked_when_it_is_queued_and_again_when_it_runs() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "~a* &c +@all -incr");
        client.expect("MULTI", "+OK\r\n");
        client.expect("INCR a", &no_command("ann", "incr"));
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("MULTI", "+OK\r\n");
        for line in ["SET a 1", "PING", "PUBLISH c 1", "GET a"] {
            client.expect(line, "+QUEUED\r\n");
        }
        admin.expect("ACL SETUSER ann resetkeys ~b -ping resetchannels", "+OK\r\n");
        let because = |reason: &str| {
            format!(
                "-NOPERM ACLs rules changed between the moment the transaction was accumulated and the EXEC call. This \
                 command is no longer allowed for the following reason: no permission to {reason}\r\n"
            )
        };
        let (key, command) = (because("touch the specified keys"), because("execute the command or subcommand"));
        let channel = because("access one of the channels used as arguments");
        client.expect("EXEC", &format!("*4\r\n{key}{command}{channel}{key}"));
        admin.expect("EXISTS a", ":0\r\n");
        client.expect("MULTI", "+OK\r\n");
        admin.expect("ACL SETUSER ann -exec", "+OK\r\n");
        let aborted = "-EXECABORT Transaction discarded because of: NOPERM User ann has no permissions to run the 'exec' command\r\n";
        client.expect("EXEC", aborted);
    });
}

#[test]
fn a_script_may_call_what_its_user_may_run() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "~a* &c +eval +fcall +set +get +publish +function");
        let mut eval = |script: &str| client.value(&["EVAL", script, "0"]);
        assert_eq!(eval("return redis.call('set', 'a', 'x')"), Value::Simple(b"OK".to_vec()));
        let error = |value: Value| match value {
            Value::Error(text) => String::from_utf8(text).unwrap(),
            other => panic!("{other:?}"),
        };
        for (call, reason) in [
            ("'set', 'b', 'x'", "No permissions to access a key"),
            ("'incr', 'a'", "User ann has no permissions to run the 'incr' command"),
            ("'publish', 'd', 'x'", "No permissions to access a channel"),
        ] {
            let text = error(eval(&format!("return redis.call({call})")));
            assert!(text.starts_with(&format!("ERR ACL failure in script: {reason}")), "{text}");
        }
        let checks = "return {redis.acl_check_cmd('set', 'a', 1), redis.acl_check_cmd('set', 'b', 1)}";
        assert_eq!(eval(checks), Value::Array(vec![Value::Integer(1), Value::NullBulk]));
        // A script that is proved to touch only its keys runs on its shard, with the same rules.
        let called = client.value(&["EVAL", "return redis.call('del', KEYS[1])", "1", "a"]);
        assert!(error(called).contains("'del' command"));
        client.expect("EVAL 'return 1' 1 b", NO_KEY);
        let library = "#!lua name=l\nredis.register_function('f', function() return redis.call('get', 'b') end)";
        client.value(&["FUNCTION", "LOAD", library]);
        assert!(error(client.value(&["FCALL", "f", "0"])).contains("No permissions to access a key"));
        assert_eq!(admin.value(&["EXISTS", "b"]), Value::Integer(0));
    });
}

#[test]
fn sort_by_other_keys_needs_permission_to_read_all_of_them() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "+sort +sort_ro ~list");
        admin.expect("RPUSH list 2 1", ":2\r\n");
        let denied = |option| format!("-ERR {option} option of SORT denied due to insufficient ACL permissions.\r\n");
        client.expect("SORT list", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
        client.expect("SORT list BY w*", &denied("BY"));
        client.expect("SORT list GET v*", &denied("GET"));
        client.expect("SORT list GET #", &denied("GET"));
        client.expect("SORT_RO list BY w*", &denied("BY"));
        client.expect("SORT list STORE other", NO_KEY);
        admin.expect("ACL SETUSER ann %R~*", "+OK\r\n");
        client.expect("SORT list BY w* GET #", "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
    });
}

#[test]
fn a_connection_that_waits_gets_nothing_that_its_user_may_not_take_any_more() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "~* +@all");
        client.send(b"BLPOP list 0\r\n");
        wait_until("it waits", || server.info_number("blocked_clients") == 1);
        admin.expect("ACL SETUSER ann resetkeys", "+OK\r\n");
        admin.expect("LPUSH list x", ":1\r\n");
        assert_eq!(client.reply(), NO_KEY.as_bytes());
        admin.expect("LLEN list", ":1\r\n");
        assert!(admin.value(&["INFO", "commandstats"]).text().contains("cmdstat_blpop:calls=0,usec=0,"));
    });
}

#[test]
fn connections_end_with_their_user_and_subscribers_with_their_permission() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "+@all &a &b");
        let mut other = server.client();
        other.expect("AUTH ann pw", "+OK\r\n");
        client.expect("SUBSCRIBE a", "*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n");
        admin.expect("ACL SETUSER ann resetchannels &a", "+OK\r\n");
        assert!(admin.value(&["CLIENT", "LIST"]).text().matches("user=ann").count() == 2);
        admin.expect("ACL SETUSER ann resetchannels &b", "+OK\r\n");
        assert!(client.is_closed());
        other.expect("PING", "+PONG\r\n");
        admin.expect("ACL DELUSER ann nobody", ":1\r\n");
        assert!(other.is_closed());
        admin.expect("ACL DELUSER default", "-ERR The 'default' user cannot be removed\r\n");
        let (_, mut client) = with_user(server, "bob", "+acl");
        client.expect("ACL DELUSER bob", ":1\r\n");
        assert!(client.is_closed());
        let (_, mut client) = with_user(server, "eve", "+@all");
        admin.expect("CLIENT KILL USER nobody", "-ERR No such user 'nobody'\r\n");
        admin.expect("CLIENT KILL USER eve", ":1\r\n");
        assert!(client.is_closed());
    });
}

#[test]
fn what_was_denied_is_in_the_log_once_for_each_kind() {
    on_every_engine(|server| {
        let (mut admin, mut client) = with_user(server, "ann", "+get +eval +multi +exec ~a");
        for line in ["SET a 1", "SET a 1", "GET b", "EVAL \"return redis.call('set','a','1')\" 0"] {
            assert!(client.call(&words(line)).starts_with(b"-"), "{line}");
        }
        client.expect("MULTI", "+OK\r\n");
        client.expect("DEL x", &no_command("ann", "del"));
        let log = admin.call(&["ACL", "LOG"]);
        assert_eq!(Value::of(&log).elements().len(), 4);
        let text = String::from_utf8(log).unwrap();
        for part in ["toplevel", "multi", "lua", "command", "key", "cmd=get", "user=ann"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        admin.expect("ACL LOG RESET", "+OK\r\n");
        admin.expect("ACL LOG", "*0\r\n");
        assert_eq!(server.info_number("acl_access_denied_cmd"), 4);
        assert_eq!(server.info_number("acl_access_denied_key"), 1);
    });
}

#[test]
fn rules_are_shown_as_they_can_be_given_again_and_refused_if_not_understood() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("ACL SETUSER ann on >pw ~a %R~b &c -@all +@read -get (+set ~x)", "+OK\r\n");
        let hash = "30c952fab122c3f9759f02a6d95c3758b246b4fee239957b2d4fee46e26170c4";
        let line = format!(
            "user ann on sanitize-payload #{hash} ~a %R~b resetchannels &c -@all +@read -get (~x resetchannels -@all +set)"
        );
        let default = "user default on nopass sanitize-payload ~* &* +@all";
        assert_eq!(
            client.value(&["ACL", "LIST"]),
            Value::Array([&*line, default].map(|it| Value::Bulk(it.into())).into())
        );
        client.expect("ACL USERS", "*2\r\n$3\r\nann\r\n$7\r\ndefault\r\n");
        for (rule, reason) in [
            ("nosuch", "Syntax error"),
            ("+nosuch", "Unknown command or category name in ACL"),
            ("+config|get|x", "Allowing first-arg of a subcommand is not supported"),
            (
                "#12",
                "The password hash must be exactly 64 characters and contain only lowercase hexadecimal characters",
            ),
            ("<other", "The password you are trying to remove from the user does not exist"),
        ] {
            let error = format!("-ERR Error in ACL SETUSER modifier '{rule}': {reason}\r\n");
            client.expect(&format!("ACL SETUSER ann off {rule}"), &error);
        }
        client.expect("ACL SETUSER ann (+get", "-ERR Unmatched parenthesis in acl selector starting at '(+get'.\r\n");
        assert_eq!(
            client.value(&["ACL", "SETUSER", "a b"]).text(),
            "ERR Usernames can't contain spaces or null characters"
        );
        assert!(
            format!("{:?}", client.value(&["ACL", "LIST"])).contains("ann on"),
            "nothing of a refused change holds"
        );
        client.expect("ACL DRYRUN ann GET a", "$52\r\nUser ann has no permissions to run the 'get' command\r\n");
        client.expect("ACL DRYRUN ann STRLEN a", "+OK\r\n");
        client.expect("ACL DRYRUN ann STRLEN q", "$49\r\nUser ann has no permissions to access the 'q' key\r\n");
        client.expect("ACL GETUSER nobody", "$-1\r\n");
        assert_eq!(client.value(&["ACL", "GENPASS"]).text().len(), 64);
        assert_eq!(client.value(&["ACL", "GENPASS", "5"]).text().len(), 2);
    });
}

#[test]
fn users_are_kept_by_the_configuration_file_or_by_the_acl_file() {
    for setup in EVERY_ENGINE {
        let data = Data::new();
        let (conf, acl) = (data.path().join("server.conf"), data.path().join("users.acl"));
        std::fs::write(&conf, "user ann on >pw ~* +get\n").unwrap();
        let start = |data: Data| {
            let mut command = std::process::Command::new(harness::binary());
            command.arg(&conf).args(harness::arguments(&data, setup));
            Server::spawn(&mut command, data, setup)
        };
        let server = start(data);
        let mut client = server.client();
        client.expect("ACL SETUSER bob on nopass +get", "+OK\r\n");
        client.expect("CONFIG REWRITE", "+OK\r\n");
        let text = std::fs::read_to_string(&conf).unwrap();
        assert!(text.contains("\nuser ann on ") && text.contains("\nuser bob on nopass "), "{text}");
        let (.., data, _) = server.stop();
        let server = start(data);
        let mut client = server.client();
        client.expect("AUTH bob x", "+OK\r\n");
        client.expect("SET k v", &no_command("bob", "set"));
        client.expect("AUTH ann pw", "+OK\r\n");
        server.client().expect("ACL LOAD", "-ERR This Redis instance is not configured to use an ACL file. You may want to specify users via the ACL SETUSER command and then issue a CONFIG REWRITE (assuming you have a Redis configuration file set) in order to store users in the Redis configuration.\r\n");
        let (.., data, _) = server.stop();
        std::fs::write(&conf, format!("aclfile {}\n", acl.display())).unwrap();
        let target = acl.with_extension("target");
        std::fs::write(&target, "user eve on nopass +acl +get ~*\n").unwrap();
        std::fs::set_permissions(&target, std::fs::Permissions::from_mode(0o640)).unwrap();
        std::os::unix::fs::symlink(&target, &acl).unwrap();
        let server = start(data);
        let mut client = server.client();
        client.expect("AUTH eve x", "+OK\r\n");
        client.expect("ACL SETUSER joe on nopass", "+OK\r\n");
        client.expect("ACL SAVE", "+OK\r\n");
        assert!(acl.is_symlink(), "the link was replaced");
        assert_eq!(std::fs::metadata(&target).unwrap().permissions().mode() & 0o777, 0o640);
        client.expect("ACL DELUSER joe", ":1\r\n");
        client.expect("ACL LOAD", "+OK\r\n");
        assert!(client.is_closed(), "its account was replaced");
        server.client().expect("AUTH joe x", "+OK\r\n");
        std::fs::write(&acl, "user eve on\nuser eve off\n").unwrap();
        let error = server.client().value(&["ACL", "LOAD"]).text();
        assert!(error.contains("Duplicate user 'eve' found on line 2"), "{error}");
    }
}

#[test]
fn a_start_with_users_that_are_not_understood_is_refused() {
    for (lines, reason) in [
        ("user ann +nosuch\n", "Unknown command or category name in ACL"),
        ("user ann on\nuser ann off\n", "Duplicate user"),
        ("user ann on\naclfile users.acl\n", "not both"),
        ("aclfile missing.acl\n", "No such file or directory"),
    ] {
        let data = Data::new();
        let conf = data.path().join("server.conf");
        std::fs::write(&conf, lines).unwrap();
        let mut command = std::process::Command::new(harness::binary());
        command.arg(&conf).args(harness::arguments(&data, EVERY_ENGINE[0]));
        let ended = harness::run_to_its_end(&mut command);
        assert!(ended.stderr.contains(reason), "{lines}: {}", ended.stderr);
    }
}
