//! Replication: what a server tells of it, and what its replicas hold.

use crate::harness::on_every_engine;

#[test]
fn a_server_that_follows_nobody_is_a_master_with_a_stream_of_its_own() {
    on_every_engine(|server| {
        let mut client = server.client();
        client.expect("ROLE", "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n");
        let info = client.value(&["INFO", "replication"]).text();
        let field =
            |name: &str| info.lines().find_map(|line| line.strip_prefix(&format!("{name}:")).map(str::to_owned));
        assert_eq!(field("role").as_deref(), Some("master"));
        assert_eq!(field("second_repl_offset").as_deref(), Some("-1"));
        let id = field("master_replid").expect("the stream has a name");
        assert_eq!(id.len(), 40, "{id}");
        let run_id = client.value(&["INFO", "server"]).text();
        assert!(!run_id.contains(&id), "the name of the stream is not that of the run: it stays when a run ends");
    });
}
