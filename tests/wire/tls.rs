//! TLS: connections that are encrypted, who may make them, and what CONFIG SET changes while they last.

use super::configuration::own_address;
use harness::{
    Authority, Client, Data, EVERY_ENGINE, Embedded, RedisOracle, Server, Setup, Signed, TlsClient, Value, free_port,
    of_version_1, request, wait_until,
};
use rustls::version::{TLS12, TLS13};
use rustls::{ClientConfig, SupportedProtocolVersion};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const BOTH: [&SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// Lets a running server listen for TLS, too.
fn listen(client: &mut Client) -> SocketAddr {
    let mut last = String::new();
    for _ in 0..20 {
        let port = free_port();
        last = client.value(&["CONFIG", "SET", "tls-port", &port.to_string()]).text();
        if last == "OK" {
            return SocketAddr::from(([127, 0, 0, 1], port));
        }
    }
    panic!("{last}");
}

/// Starts a server that has a certificate.
fn start(setup: Setup, authority: &Authority, more: &[&str]) -> (Embedded, Client, SocketAddr) {
    println!("on {setup:?}");
    let flags = authority.flags("server");
    let flags: Vec<&str> = flags.iter().map(String::as_str).chain(more.iter().copied()).collect();
    let server = Embedded::start(setup, &flags);
    let mut client = server.client();
    let address = listen(&mut client);
    (server, client, address)
}

fn config(client: &mut Client, name: &str) -> String {
    client.value(&["CONFIG", "GET", name]).elements()[1].text()
}

/// Whether the server serves a connection made like this.
fn is_served(address: SocketAddr, config: &Arc<ClientConfig>) -> bool {
    let Ok(mut client) = TlsClient::connect(address, config) else { return false };
    let mut reply = [0; 7];
    client.send(b"PING\r\n").is_ok() && {
        let (connection, socket) = client.parts();
        rustls::Stream::new(connection, socket).read_exact(&mut reply).is_ok() && reply == *b"+PONG\r\n"
    }
}

/// Waits until nothing listens there. The server runs in the process of the tests: where another test is just starting
/// a server, the new process has this one's sockets until it runs that server.
fn wait_until_closed(address: SocketAddr) {
    wait_until("nothing listens there", || TcpStream::connect(address).is_err());
}

#[test]
fn requests_and_replies_of_every_length_pass_through_tls() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        for version in BOTH {
            let (_server, mut plain, address) = start(setup, &authority, &["--tls-auth-clients", "no"]);
            let mut client = TlsClient::connect(address, &authority.client(None, &[version])).unwrap();
            client.expect("SET key value", "+OK\r\n");
            assert_eq!(plain.value(&["GET", "key"]).text(), "value");
            // Records have up to 16 KB, and what is written at once up to 64.
            for len in [1, 16_383, 16_384, 16_385, 65_535, 65_536, 65_537, 3_000_000] {
                let value = fastrand::Rng::with_seed(len as u64).alphanumeric_text(len);
                client.send(&request(&["SET", "large", &value])).unwrap();
                client.expect_bytes(b"+OK\r\n");
                client.expect("GET large", &format!("${len}\r\n{value}\r\n"));
            }
            let requests: Vec<u8> = (0..10_000).flat_map(|_| request(&["INCR", "counter"])).collect();
            client.send(&requests).unwrap();
            let replies: String = (1..=10_000).map(|number| format!(":{number}\r\n")).collect();
            client.expect_bytes(replies.as_bytes());
            // The last reply comes before the end, and the end is said.
            client.expect("QUIT", "+OK\r\n");
            assert_eq!(client.rest().unwrap(), b"");
        }
    }
}

trait Text {
    fn alphanumeric_text(self, len: usize) -> String;
}

impl Text for fastrand::Rng {
    fn alphanumeric_text(mut self, len: usize) -> String {
        (0..len).map(|_| self.alphanumeric()).collect()
    }
}

#[test]
fn a_client_that_reads_late_gets_all_its_replies() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_server, mut plain, address) = start(setup, &authority, &["--tls-auth-clients", "no"]);
        let value = "v".repeat(1 << 20);
        plain.expect(&format!("SET key {value}"), "+OK\r\n");
        let mut client = TlsClient::connect(address, &authority.client(None, &BOTH)).unwrap();
        client.send(&request(&["GET", "key"]).repeat(50)).unwrap();
        // More than sockets hold.
        wait_until("replies wait", || {
            let list = plain.value(&["CLIENT", "LIST"]).text();
            list.lines().any(|line| line.contains("cmd=get") && !line.contains(" omem=0 "))
        });
        let reply = format!("${}\r\n{value}\r\n", value.len());
        (0..50).for_each(|_| client.expect_bytes(reply.as_bytes()));
    }
}

#[test]
fn subscribers_and_clients_that_wait_are_told_within_tls() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_server, mut plain, address) = start(setup, &authority, &["--tls-auth-clients", "no"]);
        let connect = || TlsClient::connect(address, &authority.client(None, &BOTH)).unwrap();
        let (mut subscriber, mut waiting) = (connect(), connect());
        subscriber.expect("SUBSCRIBE news", "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n");
        waiting.send(b"BLPOP list 0\r\n").unwrap();
        wait_until("it waits", || plain.value(&["INFO", "clients"]).text().contains("blocked_clients:1"));
        plain.expect("PUBLISH news today", ":1\r\n");
        plain.expect("RPUSH list element", ":1\r\n");
        subscriber.expect_bytes(b"*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\ntoday\r\n");
        waiting.expect_bytes(b"*2\r\n$4\r\nlist\r\n$7\r\nelement\r\n");
        // One that is killed is told nothing more.
        plain.expect("CLIENT KILL TYPE pubsub", ":1\r\n");
        assert_eq!(subscriber.rest().unwrap_or_default(), b"");
    }
}

#[test]
fn clients_show_a_certificate_of_the_authority_where_they_have_to() {
    let (authority, another) = (Authority::new(), Authority::new());
    let (own, foreign) = (authority.sign("client"), another.sign("client"));
    let with = |shown: Option<&Signed>, version| authority.client(shown, &[version]);
    for setup in EVERY_ENGINE {
        let (_server, mut plain, address) = start(setup, &authority, &[]);
        for (asked, none, right, wrong) in
            [("yes", false, true, false), ("optional", true, true, false), ("no", true, true, true)]
        {
            plain.expect(&format!("CONFIG SET tls-auth-clients {asked}"), "+OK\r\n");
            for version in BOTH {
                assert_eq!(is_served(address, &with(None, version)), none, "{asked}: none");
                assert_eq!(is_served(address, &with(Some(&own), version)), right, "{asked}: of the authority");
                assert_eq!(is_served(address, &with(Some(&foreign), version)), wrong, "{asked}: of another one");
            }
        }
    }
}

#[test]
fn what_is_no_tls_ends_its_connection_alone() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_server, mut plain, address) = start(setup, &authority, &["--tls-auth-clients", "no"]);
        let mut good = TlsClient::connect(address, &authority.client(None, &BOTH)).unwrap();
        let mut random = fastrand::Rng::with_seed(harness::seed());
        for round in 0..100 {
            let mut socket = TcpStream::connect(address).unwrap();
            socket.set_read_timeout(Some(harness::DEADLINE)).unwrap();
            let bytes: Vec<u8> = match round {
                0 => request(&["PING"]),
                1 => b"GET / HTTP/1.1\r\n\r\n".to_vec(),
                // The beginning of a handshake, and nonsense.
                _ => [
                    vec![22, 3, 1, 0, 60, 1, 0, 0, 56, 3, 3],
                    std::iter::repeat_with(|| random.u8(..)).take(90).collect(),
                ]
                .concat(),
            };
            // It may be closed before all is written.
            let _ = socket.write_all(&bytes);
            let mut rest = Vec::new();
            let _ = socket.read_to_end(&mut rest);
            assert!(!rest.windows(4).any(|window| window == b"PONG"), "round {round}");
            // Nor is a client that does not know TLS sent anything of it.
            assert!(round > 1 || rest.is_empty(), "round {round}: {}", rest.escape_ascii());
        }
        good.expect("PING", "+PONG\r\n");
        // A handshake that does not go on holds nothing up.
        let idle: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(address).unwrap()).collect();
        good.expect("SET key value", "+OK\r\n");
        plain.expect("PING", "+PONG\r\n");
        drop(idle);
        wait_until("only those that are served remain", || {
            plain.value(&["INFO", "clients"]).text().contains("connected_clients:2\r\n")
        });
    }
}

#[test]
fn versions_and_ciphers_are_those_of_the_configuration() {
    let authority = Authority::new();
    let (_server, mut plain, address) = start(EVERY_ENGINE[0], &authority, &["--tls-auth-clients", "no"]);
    let served = |version| is_served(address, &authority.client(None, &[version]));
    for (protocols, has_12, has_13) in
        [("TLSv1.2", true, false), ("TLSv1.3", false, true), ("TLSv1.1 TLSv1.2 TLSv1.3", true, true), ("", true, true)]
    {
        assert_eq!(plain.value(&["CONFIG", "SET", "tls-protocols", protocols]).text(), "OK");
        assert_eq!((served(&TLS12), served(&TLS13)), (has_12, has_13), "{protocols}");
    }
    let suite = || {
        let mut client = TlsClient::connect(address, &authority.client(None, &[&TLS12])).unwrap();
        format!("{:?}", client.parts().0.negotiated_cipher_suite().unwrap().suite())
    };
    plain.expect("CONFIG SET tls-ciphers ECDHE-ECDSA-CHACHA20-POLY1305", "+OK\r\n");
    assert_eq!(suite(), "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256");
    plain.expect(
        "CONFIG SET tls-ciphers DEFAULT:!ECDHE-ECDSA-CHACHA20-POLY1305 tls-prefer-server-ciphers yes",
        "+OK\r\n",
    );
    assert!(suite().starts_with("TLS_ECDHE_ECDSA_WITH_AES"));
    for (name, value) in [
        ("tls-protocols", "TLSv1"),
        ("tls-protocols", "SSLv3"),
        ("tls-ciphers", "NULL-MD5"),
        ("tls-ciphersuites", "none"),
    ] {
        let before = config(&mut plain, name);
        plain.expect(
            &format!("CONFIG SET {name} {value}"),
            &format!("-ERR CONFIG SET failed (possibly related to argument '{name}') - Unable to update TLS configuration. Check server logs.\r\n"),
        );
        assert_eq!(config(&mut plain, name), before);
    }
}

#[test]
fn a_session_is_taken_up_again_where_sessions_are_kept() {
    let authority = Authority::new();
    let (_server, mut plain, address) = start(EVERY_ENGINE[0], &authority, &["--tls-auth-clients", "no"]);
    for (caching, kind) in [("yes", "Some(Resumed)"), ("no", "Some(Full)")] {
        plain.expect(&format!("CONFIG SET tls-session-caching {caching}"), "+OK\r\n");
        for version in BOTH {
            let client = authority.client(None, &[version]);
            let mut last = None;
            for _ in 0..2 {
                let mut connection = TlsClient::connect(address, &client).unwrap();
                // Tickets of TLS 1.3 come after the handshake.
                connection.expect("PING", "+PONG\r\n");
                last = connection.parts().0.handshake_kind();
            }
            assert_eq!(format!("{last:?}"), kind, "{version:?}");
        }
    }
}

#[test]
fn new_connections_see_a_certificate_that_config_set_has_read() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_server, mut plain, address) = start(setup, &authority, &["--tls-auth-clients", "no"]);
        let client = authority.client(None, &BOTH);
        let mut before = TlsClient::connect(address, &client).unwrap();
        // A new certificate in the files of the old one, as what renews certificates leaves it.
        let files = authority.sign("server");
        assert_eq!(TlsClient::connect(address, &client).unwrap().certificate(), before.certificate());
        plain.expect(&format!("CONFIG SET tls-cert-file {}", files.cert), "+OK\r\n");
        assert_ne!(TlsClient::connect(address, &client).unwrap().certificate(), before.certificate());
        before.expect("PING", "+PONG\r\n");
        // What cannot be read changes nothing.
        let key = config(&mut plain, "tls-key-file");
        for wrong in ["/no/such/file", &files.cert, &authority.sign("another").key] {
            plain.expect(
                &format!("CONFIG SET tls-key-file {wrong}"),
                "-ERR CONFIG SET failed (possibly related to argument 'tls-key-file') - Unable to update TLS configuration. Check server logs.\r\n",
            );
            assert_eq!(config(&mut plain, "tls-key-file"), key);
            assert!(is_served(address, &client));
        }
    }
}

#[test]
fn the_port_for_tls_moves_with_bind_and_ends_with_0() {
    let authority = Authority::new();
    let (_server, mut plain, first) = start(EVERY_ENGINE[0], &authority, &["--tls-auth-clients", "no"]);
    let client = authority.client(None, &BOTH);
    let mut before = TlsClient::connect(first, &client).unwrap();
    let second = listen(&mut plain);
    assert!(is_served(second, &client));
    wait_until_closed(first);
    before.expect("PING", "+PONG\r\n");
    let info = plain.value(&["INFO", "server"]).text();
    assert!(info.contains(&format!("listener1:name=tls,bind=127.0.0.1,port={}\r\n", second.port())), "{info}");
    // A port that is in use leaves it where it is.
    let used = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = used.local_addr().unwrap().port();
    plain.expect(
        &format!("CONFIG SET tls-port {port}"),
        "-ERR CONFIG SET failed (possibly related to argument 'tls-port') - Unable to listen on this port. Check server logs.\r\n",
    );
    assert!(is_served(second, &client));
    plain.expect("CONFIG SET bind 127.0.0.2", "+OK\r\n");
    wait_until_closed(second);
    assert!(is_served(SocketAddr::from(([127, 0, 0, 2], second.port())), &client));
    before.expect("CONFIG SET bind 127.0.0.1", "+OK\r\n");
    assert!(is_served(second, &client));
    for ending in ["CONFIG SET tls-port 0", "CONFIG SET bind -127.0.0.1 tls-port 0"] {
        before.expect(ending, "+OK\r\n");
        wait_until_closed(second);
        before.expect(&format!("CONFIG SET bind 127.0.0.1 tls-port {}", second.port()), "+OK\r\n");
        assert!(is_served(second, &client), "{ending}");
    }
    before.expect("PING", "+PONG\r\n");
}

#[test]
fn a_start_without_what_tls_needs_is_refused_with_the_reason() {
    let authority = Authority::new();
    let (own, other) = (authority.sign("own"), authority.sign("other"));
    let (cert, key, ca) = (&*own.cert, &*own.key, &*authority.ca());
    let no_auth = ["--tls-auth-clients", "no"];
    for (flags, reason) in [
        (vec![], "no tls-cert-file"),
        (vec!["--tls-cert-file", cert], "no tls-key-file"),
        (vec!["--tls-cert-file", cert, "--tls-key-file", key], "tls-ca-cert-file or tls-ca-cert-dir"),
        (vec!["--tls-cert-file", "/no/such.crt", "--tls-key-file", key, no_auth[0], no_auth[1]], "/no/such.crt"),
        (vec!["--tls-cert-file", key, "--tls-key-file", key, no_auth[0], no_auth[1]], "there is no certificate in"),
        (
            vec!["--tls-cert-file", cert, "--tls-key-file", &other.key, no_auth[0], no_auth[1]],
            "is not that of the certificate",
        ),
        (vec!["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", key], "there is no certificate in"),
        (
            vec!["--tls-cert-file", cert, "--tls-key-file", key, "--tls-ca-cert-file", ca, "--tls-key-file-pass", "x"],
            "Keys that are encrypted",
        ),
    ] {
        let port = free_port().to_string();
        let flags = [vec!["--tls-port", &port], flags].concat();
        let ended = Data::new().start_refused(EVERY_ENGINE[0], &flags);
        assert_eq!(ended.status.code(), Some(1), "{flags:?}: {ended:?}");
        assert!(ended.stderr.contains(reason), "{flags:?}: {}", ended.stderr);
    }
}

#[test]
fn a_server_may_listen_for_tls_alone_and_redis_cli_reaches_it() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        println!("on {setup:?}");
        let (data, files) = (Data::new(), authority.flags("server"));
        let (server, port) = (0..20)
            .find_map(|_| {
                let port = free_port().to_string();
                let mut command = Command::new(harness::binary());
                command.args(harness::arguments(&data, setup)).args(["--port", "0", "--tls-port", &port]).args(&files);
                let server =
                    Server::spawn_until("Ready to accept connections tls on ", &mut command, data.clone(), setup);
                server.ok().map(|server| (server, port))
            })
            .expect("one of twenty ports stays free for a moment");
        let client = authority.sign("client");
        let cli = |words: &[&str]| {
            let mut cli = Command::new("redis-cli");
            cli.args(["-p", &port, "--tls", "--cacert", &authority.ca(), "--cert", &client.cert, "--key", &client.key]);
            let output = cli.args(words).stdin(Stdio::null()).output().expect("redis-cli runs");
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(cli(&["SET", "key", "value"]), "OK\n");
        assert_eq!(cli(&["GET", "key"]), "value\n");
        assert!(cli(&["INFO", "server"]).contains(&format!("tcp_port:{port}\r\n")));
        assert!(cli(&["CONFIG", "GET", "port"]).contains("\n0\n"));
        assert!(server.log().contains("tls on 127.0.0.1:"), "{}", server.log());
    }
}

#[test]
fn protected_mode_says_within_tls_why_it_refuses() {
    let elsewhere = own_address();
    let bind = format!("127.0.0.1 {elsewhere}");
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_server, mut plain, address) = start(setup, &authority, &["--tls-auth-clients", "no", "--bind", &bind]);
        let client = authority.client(None, &BOTH);
        let remote = SocketAddr::new(elsewhere, address.port());
        let denied = TlsClient::connect(remote, &client).unwrap().rest().unwrap();
        assert!(denied.starts_with(b"-DENIED Redis is running in protected mode"), "{}", denied.escape_ascii());
        assert!(plain.value(&["INFO", "stats"]).text().contains("rejected_connections:1\r\n"));
        plain.expect("CONFIG SET protected-mode no", "+OK\r\n");
        TlsClient::connect(remote, &client).unwrap().expect("PING", "+PONG\r\n");
    }
}

#[test]
fn certificates_of_version_1_count_for_clients_and_for_masters() {
    let authority = Authority::new();
    let (old, ca) = of_version_1(&authority);
    // The last of several flags counts.
    let (_server, mut plain, address) = start(EVERY_ENGINE[0], &authority, &["--tls-ca-cert-file", &ca]);
    let ping = |shown: &Signed| {
        let mut cli = Command::new("redis-cli");
        cli.args([
            "-p",
            &address.port().to_string(),
            "--tls",
            "--insecure",
            "--cert",
            &shown.cert,
            "--key",
            &shown.key,
        ]);
        let output = cli.arg("PING").stdin(Stdio::null()).output().expect("redis-cli runs");
        String::from_utf8(output.stdout).unwrap()
    };
    let of_another = authority.sign("another");
    for protocol in ["TLSv1.2", "TLSv1.3"] {
        plain.expect(&format!("CONFIG SET tls-protocols {protocol}"), "+OK\r\n");
        assert_eq!(ping(&old), "PONG\n", "{protocol}");
        assert_ne!(ping(&of_another), "PONG\n", "{protocol}");
    }
    // The same certificate as that of a master.
    let own_ca = authority.ca();
    let files = ["--tls-cert-file", &old.cert, "--tls-key-file", &old.key, "--tls-ca-cert-file", &own_ca];
    let redis = RedisOracle::start_with(&[&files[..], &["--repl-diskless-sync-delay", "0"]].concat());
    let mut master = redis.client();
    master.expect("SET key value", "+OK\r\n");
    let port = listen(&mut master).port();
    plain.expect("CONFIG SET tls-replication yes", "+OK\r\n");
    plain.expect(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK\r\n");
    wait_for_key(&mut plain, "key", "value");
}

/// Waits until a replica has what its master has.
fn wait_for_key(replica: &mut Client, key: &str, value: &str) {
    wait_until("the replica has the key", || replica.value(&["GET", key]) == Value::Bulk(value.into()));
}

#[test]
fn a_replica_follows_its_master_within_tls() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_master, mut master, address) = start(setup, &authority, &["--repl-diskless-sync-delay", "0"]);
        let (_replica, mut replica, own) = start(setup, &authority, &["--tls-replication", "yes"]);
        let large = "x".repeat(300_000);
        master.expect(&format!("SET before {large}"), "+OK\r\n");
        replica.expect(&format!("REPLICAOF 127.0.0.1 {}", address.port()), "+OK\r\n");
        wait_for_key(&mut replica, "before", &large);
        for number in 0..100 {
            master.expect(&format!("SET key{number} {large}"), "+OK\r\n");
        }
        wait_for_key(&mut replica, "key99", &large);
        let role = format!("{:?}", master.value(&["ROLE"]));
        assert!(role.contains(&own.port().to_string()), "the master knows the port for TLS: {role}");
        // A replica that shows a certificate of somebody else is not let in.
        let another = Authority::new();
        let foreign = another.sign("foreign");
        replica.expect(
            &format!("CONFIG SET tls-client-cert-file {} tls-client-key-file {}", foreign.cert, foreign.key),
            "+OK\r\n",
        );
        replica.expect("REPLICAOF NO ONE", "+OK\r\n");
        replica.expect(&format!("REPLICAOF 127.0.0.1 {}", address.port()), "+OK\r\n");
        master.expect("SET last value", "+OK\r\n");
        std::thread::sleep(Duration::from_millis(1500));
        replica.expect("GET last", "$-1\r\n");
        // Nor does it trust a master of an authority that it does not know.
        let own_again = ["CONFIG", "SET", "tls-client-cert-file", "", "tls-client-key-file", "", "tls-ca-cert-file"];
        let with_authority = |ca: String| own_again.map(str::to_owned).into_iter().chain([ca]).collect::<Vec<String>>();
        assert_eq!(replica.value(&with_authority(another.ca())).text(), "OK");
        std::thread::sleep(Duration::from_millis(1500));
        replica.expect("GET last", "$-1\r\n");
        assert_eq!(replica.value(&with_authority(authority.ca())).text(), "OK");
        wait_for_key(&mut replica, "last", "value");
    }
}

#[test]
fn keys_move_within_tls_where_tls_cluster_says_so() {
    let authority = Authority::new();
    for setup in EVERY_ENGINE {
        let (_target, mut target, address) = start(setup, &authority, &[]);
        let (_server, mut client, _) = start(setup, &authority, &[]);
        let move_it = format!("MIGRATE 127.0.0.1 {} key 0 5000", address.port());
        client.expect("SET key value", "+OK\r\n");
        // The target takes what is not encrypted for an error, and closes.
        let reply = client.call(&move_it.split(' ').collect::<Vec<_>>());
        assert!(reply.starts_with(b"-IOERR error or timeout "), "{reply:?}");
        client.expect("CONFIG SET tls-cluster yes", "+OK\r\n");
        client.expect(&move_it, "+OK\r\n");
        client.expect("EXISTS key", ":0\r\n");
        target.expect("GET key", "$5\r\nvalue\r\n");
    }
}

#[test]
fn redis_follows_this_server_within_tls_and_is_followed() {
    let authority = Authority::new();
    let files = authority.flags("redis");
    let files: Vec<&str> = files.iter().map(String::as_str).collect();
    for setup in EVERY_ENGINE {
        let (_server, mut own, address) =
            start(setup, &authority, &["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"]);
        let redis = RedisOracle::start_with(
            &[&files[..], &["--tls-replication", "yes", "--repl-diskless-sync-delay", "0"]].concat(),
        );
        let mut other = redis.client();
        own.expect("SET mine 1", "+OK\r\n");
        other.expect(&format!("REPLICAOF 127.0.0.1 {}", address.port()), "+OK\r\n");
        wait_for_key(&mut other, "mine", "1");
        own.expect("INCR mine", ":2\r\n");
        wait_for_key(&mut other, "mine", "2");
        // The other way round.
        other.expect("REPLICAOF NO ONE", "+OK\r\n");
        other.expect("SET theirs 1", "+OK\r\n");
        let port = listen(&mut other).port();
        own.expect(&format!("REPLICAOF 127.0.0.1 {port}"), "+OK\r\n");
        wait_for_key(&mut own, "theirs", "1");
        other.expect("INCR theirs", ":2\r\n");
        wait_for_key(&mut own, "theirs", "2");
    }
}
