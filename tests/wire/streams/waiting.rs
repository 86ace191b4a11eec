//! Readers that wait: XREAD and XREADGROUP with BLOCK.

use harness::{Client, EVERY_ENGINE, Endpoint, Server, Value, on_every_engine, request, wait_until, words};

/// Sends a request that waits, and checks that it does.
fn wait_with(server: &Endpoint, line: &str) -> Client {
    let mut client = server.client();
    let id = client.value(&["CLIENT", "ID"]).integer();
    client.send(&request(&words(line)));
    wait_until(&format!("{line} waits"), || is_waiting(server, id));
    client
}

fn is_waiting(server: &Endpoint, id: i64) -> bool {
    let line = server.client().value(&["CLIENT", "LIST", "ID", &id.to_string()]).text();
    line.split_whitespace().any(|field| field.strip_prefix("flags=").is_some_and(|flags| flags.contains('b')))
}

/// Keys that are on different shards, if there are several.
const APART: [&str; 3] = ["a", "b", "c"];

#[test]
fn every_reader_that_waits_gets_the_entry() {
    on_every_engine(|server| {
        let mut writer = server.client();
        writer.call(&["XADD", "a", "1-0", "old", "v"]);
        let mut readers: Vec<Client> = (0..4).map(|_| wait_with(server, "XREAD BLOCK 0 STREAMS a b c $ $ 0")).collect();
        let mut late = wait_with(server, "XREAD BLOCK 0 STREAMS b 5-0");
        writer.expect("XADD b 3-0 f v", "$3\r\n3-0\r\n");
        for reader in &mut readers {
            let wanted = "*1\r\n*2\r\n$1\r\nb\r\n*1\r\n*2\r\n$3\r\n3-0\r\n*2\r\n$1\r\nf\r\n$1\r\nv\r\n";
            assert_eq!(String::from_utf8(reader.reply()).unwrap(), wanted);
            reader.expect("PING", "+PONG\r\n");
        }
        // An entry that is not new for a reader leaves it waiting.
        writer.expect("XADD b 5-0 f v", "$3\r\n5-0\r\n");
        writer.expect("DEL b", ":1\r\n");
        writer.expect("RPUSH b x", ":1\r\n");
        writer.expect("DEL b", ":1\r\n");
        assert!(late.is_silent());
        writer.expect("XADD b 5-1 f v", "$3\r\n5-1\r\n");
        assert_eq!(late.values(1)[0].elements()[0].elements()[0].text(), "b");
    });
}

#[test]
fn entries_that_come_together_are_read_together() {
    on_every_engine(|server| {
        let mut writer = server.client();
        let mut reader = wait_with(server, "XREAD BLOCK 0 COUNT 2 STREAMS a b c 0 0 0");
        writer.call(&["MULTI"]);
        for (key, id) in [("a", "1-0"), ("a", "2-0"), ("a", "3-0"), ("c", "1-0"), ("b", "1-0")] {
            writer.call(&["XADD", key, id, "f", "v"]);
        }
        writer.call(&["XDEL", "b", "1-0"]);
        writer.call(&["EXEC"]);
        let got = &reader.values(1)[0];
        let streams: Vec<(String, usize)> = got
            .elements()
            .iter()
            .map(|stream| (stream.elements()[0].text(), stream.elements()[1].elements().len()))
            .collect();
        assert_eq!(streams, [("a".to_owned(), 2), ("c".to_owned(), 1)]);
    });
}

#[test]
fn consumers_that_wait_take_one_entry_each_in_order_of_arrival() {
    on_every_engine(|server| {
        let mut writer = server.client();
        for key in APART {
            writer.call(&["XGROUP", "CREATE", key, "g", "0", "MKSTREAM"]);
        }
        let mut consumers: Vec<Client> = (0..3)
            .map(|number| {
                wait_with(server, &format!("XREADGROUP GROUP g c{number} COUNT 1 BLOCK 0 STREAMS a b c > > >"))
            })
            .collect();
        for (number, (consumer, key)) in consumers.iter_mut().zip(["b", "a", "b"]).enumerate() {
            let id = format!("{}-0", number + 1);
            writer.call(&["XADD", key, &id, "f", "v"]);
            let values = consumer.values(1);
            let got = &values[0].elements()[0];
            assert_eq!(
                (got.elements()[0].text(), got.elements()[1].elements()[0].elements()[0].text()),
                (key.into(), id)
            );
        }
        let pending = writer.value(&["XPENDING", "b", "g", "-", "+", "10"]);
        let owners: Vec<String> = pending.elements().iter().map(|entry| entry.elements()[1].text()).collect();
        assert_eq!(owners, ["c0", "c2"]);
        // A reader that waits and receives nothing is a consumer too, and a timeout replies null.
        writer.expect("XREADGROUP GROUP g idle BLOCK 10 STREAMS a b > >", "*-1\r\n");
        let consumers = writer.value(&["XINFO", "CONSUMERS", "a", "g"]);
        assert_eq!(consumers.elements().len(), 4);
    });
}

#[test]
fn under_load_every_entry_goes_to_one_consumer_and_to_every_reader() {
    const WRITERS: usize = 3;
    const ENTRIES: usize = 150;
    on_every_engine(|server| {
        let mut admin = server.client();
        for key in APART {
            admin.call(&["XGROUP", "CREATE", key, "g", "$", "MKSTREAM"]);
        }
        let consume = |number: usize| {
            let mut client = server.client();
            let line = format!("XREADGROUP GROUP g c{number} COUNT 2 BLOCK 0 STREAMS a b c > > >");
            let mut got = Vec::new();
            loop {
                match client.value(&words(&line)) {
                    Value::Array(streams) => got.extend(entries_of(&streams)),
                    _ => return got,
                }
            }
        };
        let read = || {
            let mut client = server.client();
            let mut after = APART.map(|_| "0-0".to_owned());
            let mut got = Vec::new();
            while got.len() < WRITERS * ENTRIES {
                let line = format!("XREAD BLOCK 0 STREAMS a b c {}", after.join(" "));
                for (key, id) in entries_of(client.value(&words(&line)).elements()) {
                    after[APART.iter().position(|other| *other == key).unwrap()].clone_from(&id);
                    got.push((key, id));
                }
            }
            got
        };
        let write = |key: &str| {
            let mut client = server.client();
            (0..ENTRIES).for_each(|_| drop(client.call(&["XADD", key, "*", "f", "v"])));
        };
        std::thread::scope(|scope| {
            let consumers: Vec<_> = (0..3).map(|number| scope.spawn(move || consume(number))).collect();
            let readers: Vec<_> = (0..2).map(|_| scope.spawn(read)).collect();
            let writers: Vec<_> = APART.map(|key| scope.spawn(move || write(key))).into();
            writers.into_iter().for_each(|writer| writer.join().unwrap());
            let sorted = |mut entries: Vec<(String, String)>| {
                entries.sort();
                entries
            };
            let read: Vec<_> = readers.into_iter().map(|reader| sorted(reader.join().unwrap())).collect();
            wait_until("everything is given", || {
                APART.iter().all(|key| admin.value(&["XPENDING", key, "g"]).elements()[0].integer() == ENTRIES as i64)
            });
            APART.iter().for_each(|key| drop(admin.call(&["XGROUP", "DESTROY", key, "g"])));
            let consumed = sorted(consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect());
            assert_eq!(consumed.len(), WRITERS * ENTRIES, "{:?}", server.setup());
            assert!(read.iter().all(|read| *read == consumed), "{:?}", server.setup());
        });
    });
}

/// The keys and IDs in a reply of XREAD.
fn entries_of(streams: &[Value]) -> Vec<(String, String)> {
    let of_stream = |stream: &Value| {
        let key = stream.elements()[0].text();
        let ids = stream.elements()[1].elements().iter().map(|entry| entry.elements()[0].text());
        ids.map(|id| (key.clone(), id)).collect::<Vec<_>>()
    };
    streams.iter().flat_map(of_stream).collect()
}

#[test]
fn readers_wait_in_the_database_that_they_selected() {
    on_every_engine(|server| {
        let mut reader = server.client();
        reader.expect("SELECT 5", "+OK\r\n");
        let id = reader.value(&["CLIENT", "ID"]).integer();
        reader.send(&request(&words("XREAD BLOCK 0 STREAMS s $")));
        wait_until("it waits", || is_waiting(server, id));
        let mut writer = server.client();
        writer.expect("XADD s 1-1 f here", "$3\r\n1-1\r\n");
        assert!(reader.is_silent());
        writer.call(&["MULTI"]);
        writer.call(&["SELECT", "5"]);
        writer.call(&["XADD", "s", "2-2", "f", "there"]);
        writer.call(&["SELECT", "0"]);
        writer.call(&["EXEC"]);
        assert_eq!(entries_of(reader.values(1)[0].elements()), [("s".to_owned(), "2-2".to_owned())]);
    });
}

#[test]
fn who_waits_for_a_group_is_told_when_it_is_gone() {
    const NO_GROUP: &str = "-NOGROUP No such key 'b' or consumer group 'g' in XREADGROUP with GROUP option\r\n";
    const WRONG_TYPE: &str = "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n";
    on_every_engine(|server| {
        let mut admin = server.client();
        for (lines, wanted) in [
            (&["XGROUP DESTROY b g"][..], NO_GROUP),
            (&["DEL b"], NO_GROUP),
            (&["UNLINK b"], NO_GROUP),
            (&["SET b v"], WRONG_TYPE),
            (&["RENAME b d"], NO_GROUP),
            (&["FLUSHALL"], NO_GROUP),
            (&["PEXPIRE b 1"], NO_GROUP),
            (&["MULTI", "DEL b", "SET b v", "EXEC"], WRONG_TYPE),
        ] {
            admin.call(&["FLUSHALL"]);
            for key in APART {
                admin.call(&["XGROUP", "CREATE", key, "g", "0", "MKSTREAM"]);
            }
            let mut waiting = wait_with(server, "XREADGROUP GROUP g c BLOCK 0 STREAMS a b > >");
            let mut reader = wait_with(server, "XREAD BLOCK 0 STREAMS b 0");
            lines.iter().for_each(|line| drop(admin.call(&words(line))));
            let got = String::from_utf8(waiting.reply()).unwrap();
            // Of several keys that are removed, any may be the first.
            assert!(
                got == wanted || (lines == ["FLUSHALL"] && got == wanted.replace("'b'", "'a'")),
                "{lines:?}: {got}"
            );
            // A group that is created again is a different one.
            admin.call(&["DEL", "b"]);
            assert!(reader.is_silent(), "{lines:?}");
            admin.call(&["XADD", "b", "1-1", "f", "v"]);
            assert_eq!(reader.values(1)[0].elements().len(), 1, "{lines:?}");
        }
    });
}

#[test]
fn a_reader_is_served_whatever_its_other_keys_have_become() {
    on_every_engine(|server| {
        let mut admin = server.client();
        for other in APART {
            admin.call(&["FLUSHALL"]);
            let mut reader = wait_with(server, &format!("XREAD BLOCK 0 STREAMS {other} stream $ $"));
            admin.expect(&format!("RPUSH {other} x"), ":1\r\n");
            assert!(reader.is_silent());
            admin.expect("XADD stream 1-1 f v", "$3\r\n1-1\r\n");
            assert_eq!(entries_of(reader.values(1)[0].elements()), [("stream".to_owned(), "1-1".to_owned())]);
        }
    });
}

#[test]
fn nothing_waits_inside_a_transaction_nor_without_block() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.call(&["XGROUP", "CREATE", "s", "g", "0", "MKSTREAM"]);
        client.call(&["MULTI"]);
        client.call(&["XREAD", "BLOCK", "0", "STREAMS", "s", "$"]);
        client.call(&["XREADGROUP", "GROUP", "g", "c", "BLOCK", "0", "STREAMS", "s", ">"]);
        client.call(&["XGROUP", "CREATE", "s", "g", "0"]);
        client.expect("EXEC", "*3\r\n*-1\r\n*-1\r\n-BUSYGROUP Consumer Group name already exists\r\n");
        client.call(&["MULTI"]);
        client.expect("XGROUP BOGUS s", "-ERR unknown subcommand 'BOGUS'. Try XGROUP HELP.\r\n");
        client.expect("EXEC", "-EXECABORT Transaction discarded because of previous errors.\r\n");
        client.expect("XREAD STREAMS s s2 s3 $ $ $", "*-1\r\n");
        let mut resp3 = Client::connect_resp3(server.address());
        resp3.expect("XREAD BLOCK 5 STREAMS s $", "_\r\n");
        let mut waiting = wait_with(server, "XREAD BLOCK 0 STREAMS s $");
        let id = client.value(&["CLIENT", "LIST"]).text();
        let id = id.lines().find(|line| line.contains("flags=b")).and_then(|line| line.split([' ', '=']).nth(1));
        client.expect(&format!("CLIENT UNBLOCK {} ERROR", id.unwrap()), ":1\r\n");
        assert_eq!(waiting.reply(), b"-UNBLOCKED client unblocked via CLIENT UNBLOCK\r\n");
    });
}

#[test]
fn a_restart_keeps_what_waiting_and_claiming_consumers_got() {
    for setup in EVERY_ENGINE {
        let server = Server::start(setup, &[]);
        let mut client = server.client();
        for key in APART {
            client.call(&["XGROUP", "CREATE", key, "g", "$", "MKSTREAM"]);
        }
        let mut waiting = wait_with(&server, "XREADGROUP GROUP g waiting BLOCK 0 STREAMS b >");
        client.call(&["XADD", "b", "*", "f", "v"]);
        waiting.reply();
        client.call(&["XADD", "b", "*", "f", "v"]);
        client.call(&["XREADGROUP", "GROUP", "g", "noack", "NOACK", "STREAMS", "b", ">"]);
        let id = client.value(&["XPENDING", "b", "g"]).elements()[1].text();
        client.call(&["XCLAIM", "b", "g", "claims", "0", &id, "IDLE", "5000", "RETRYCOUNT", "9223372036854775807"]);
        client.call(&["XCLAIM", "b", "g", "claims", "0", &id]);
        client.call(&["XGROUP", "CREATECONSUMER", "c", "g", "only"]);
        let infos = |server: &Endpoint| {
            let mut client = server.client();
            APART.map(|key| format!("{:?}", client.value(&["XINFO", "STREAM", key, "FULL", "COUNT", "0"])))
        };
        let before = infos(&server);
        let server = server.kill().start(setup, &[]);
        assert_eq!(infos(&server), before, "{setup:?}");
    }
}
