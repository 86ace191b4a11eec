//! Connections: accepted or turned away, and what each is as long as it lives.

use super::housekeeping::HOUSEKEEPING;
use crate::base::narrowing::size;
use crate::base::network::{Address, Stream};
use crate::base::tls;
use crate::config::Directive;
use crate::config::logging::Seldom;
use crate::connection;
use crate::engine::{Engine, Session};
use crate::state::Server;
use crate::state::client_list::Client;
use crate::state::listening::{Accepted, Carries};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::watch;

/// How often a line says that connections cannot be accepted: that can last, and is tried again ten times a second.
const WARN_EVERY: Duration = Duration::from_secs(5);

/// Accepts connections until it is dropped.
pub(super) async fn accept(server: &Server, begin: impl Fn(Arc<Client>)) -> Infallible {
    let failures = Seldom::default();
    loop {
        match server.listening.accept().await {
            Ok(accepted) => admit(accepted, server).into_iter().for_each(&begin),
            Err(error) => {
                // Out of files, for example: connections wait in the backlog until some are closed.
                failures.come(WARN_EVERY, || tracing::warn!("Accepting client connection: {error}"));
                tokio::time::sleep(HOUSEKEEPING).await;
            }
        }
    }
}

/// Accepts a connection, or refuses it.
fn admit(mut accepted: Accepted, server: &Server) -> Option<Arc<Client>> {
    let is_denied = is_protected_from(&accepted.address, server);
    if is_denied && accepted.carries == Carries::Plain {
        return turn_away(&accepted.stream, DENIED, server);
    }
    // A socket that fails here is closed already; its task will notice.
    let _ = accepted.stream.prepare(server.config.number(Directive::TcpKeepalive));
    let id = server.clients.next_id();
    accepted.stream = match server.tasks.take_to(place_of(id, server), accepted.stream) {
        Ok(stream) => stream,
        Err(error) => {
            tracing::warn!("Accepting client connection: {error}");
            return None;
        }
    };
    if accepted.carries == Carries::Tls {
        accepted.stream = encrypted(accepted.stream, server)?;
    }
    let mut client = Client::of(accepted, id, Arc::clone(server.users.default_account()));
    // Within TLS nothing can be said before the handshake, which is up to the connection's task.
    client.denial = is_denied.then_some(DENIED);
    let client = Arc::new(client);
    if !server.clients.add(&client, server.config.number(Directive::Maxclients)) {
        return turn_away(&client.stream, "-ERR max number of clients reached\r\n", server);
    }
    let counted = if is_denied { &server.stats.rejected } else { &server.stats.connections };
    counted.fetch_add(1, Ordering::Relaxed);
    Some(client)
}

/// Where a connection runs: connections take the places in turn.
pub(super) fn place_of(id: u64, server: &Server) -> usize {
    size(id % server.tasks.places() as u64)
}

fn is_protected_from(address: &Address, server: &Server) -> bool {
    !address.is_local()
        && server.config.is_on(Directive::ProtectedMode)
        && server.users.default_account().user().needs_no_password()
}

/// Begins TLS on a connection, whose task does the handshake.
fn encrypted(carrier: Stream, server: &Server) -> Option<Stream> {
    // It was accepted a moment before there was no TLS any more.
    let contexts = server.tls.contexts()?;
    let begun = tls::accept(carrier, &contexts.server);
    begun.inspect_err(|error| tracing::warn!("Accepting client connection: {error}")).ok()
}

fn turn_away(stream: &Stream, reason: &str, server: &Server) -> Option<Arc<Client>> {
    server.stats.rejected.fetch_add(1, Ordering::Relaxed);
    // The client may be gone; it would have been refused anyway.
    let _ = stream.write_at_once(reason.as_bytes());
    None
}

/// The error of protected mode for remote connections; the text is Redis's, which clients and users know.
const DENIED: &str = "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set \
    for the default user. In this mode connections are only accepted from the loopback interface. If you want to connect \
    from external computers to Redis you may adopt one of the following solutions: 1) Just disable protected mode \
    sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same \
    host the server is running, however MAKE SURE Redis is not publicly accessible from internet if you do so. Use \
    CONFIG REWRITE to make this change permanent. 2) Alternatively you can just disable the protected mode by editing \
    the Redis configuration file, and setting the protected mode option to 'no', and then restarting the server. 3) If \
    you started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Set up an \
    authentication password for the default user. NOTE: You only need to do one of the above things in order for the \
    server to start accepting connections from the outside.\r\n";

/// A connection's life.
pub(super) async fn serve<S: Session>(server: Arc<Server>, client: Arc<Client>, session: S) {
    connection::serve(Arc::clone(&server), Arc::clone(&client), session).await;
    server.depart(&client);
}

/// The life of a connection that comes before the data is loaded.
pub(super) async fn serve_early<E: Engine>(
    server: Arc<Server>,
    client: Arc<Client>,
    place: usize,
    mut engine: watch::Receiver<Option<Arc<E>>>,
) {
    let session = async {
        let ready = engine.wait_for(Option::is_some).await.ok().and_then(|engine| engine.clone());
        match ready {
            Some(engine) => engine.session(place),
            // The server stops before it has begun, and its connections with it.
            None => std::future::pending().await,
        }
    };
    connection::serve_early(Arc::clone(&server), Arc::clone(&client), session).await;
    server.depart(&client);
}
