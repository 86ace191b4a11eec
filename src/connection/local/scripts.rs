//! What scripts need of the server that runs them: commands that need a connection run for one without a socket.

use super::{ConnectionState, LocalCall, dispatch};
use crate::base::network::{Address, Stream};
use crate::base::{affinity, worker};
use crate::commands::scripting::{Host, Local};
use crate::commands::{CommandId, Context};
use crate::connection::monitor;
use crate::resp::{Args, CommandError, Reply};
use crate::scripting::Libraries;
use crate::state::Server;
use crate::state::client_list::Client;
use crate::state::listening::{Accepted, Carries};
use std::sync::{Arc, Weak};

/// Makes the server available to scripts.
pub fn serve(server: &Arc<Server>) {
    let host: Weak<Server> = Arc::downgrade(server);
    server.services.serve(host);
}

impl Host for Server {
    fn now_us(&self) -> u64 {
        self.clock.now_us()
    }

    fn refuses_writes(&self) -> Option<CommandError> {
        self.refuses_writes()
    }

    fn refuses_scripts(&self) -> Option<CommandError> {
        self.refuses_scripts()
    }

    fn refuses_as_stale(&self) -> Option<CommandError> {
        self.refuses_as_stale()
    }

    fn note_busy(&self, is_busy: bool) {
        self.log_control.look_at_all_while(is_busy);
    }

    fn has_monitors(&self) -> bool {
        self.pubsub.has_monitors()
    }

    fn show(&self, who: &str, database: usize, id: CommandId, args: Args<'_>) {
        monitor::show(self, &who, database, id, args);
    }

    fn receivers(&self, channel: &[u8], is_shard: bool) -> usize {
        self.pubsub.receivers(channel, is_shard)
    }

    fn passes_messages_on(&self) -> bool {
        self.feeds_replicas()
    }

    fn connection(self: Arc<Self>) -> Option<Box<dyn Local>> {
        let client = unconnected(&self)?;
        let state = ConnectionState::new(&self.users);
        Some(Box::new(ScriptConnection { server: self, client, state }))
    }

    fn may_have_later_functions(&self) -> bool {
        self.replication.applies_what_functions_have()
    }

    fn keep_functions(&self, libraries: &Libraries) -> Result<(), String> {
        let Some(rewriter) = self.rewriting.rewriter() else { return Ok(()) };
        // The caller's keys wait for the disk, other connections do not.
        let keep = || rewriter.keep_functions(libraries, self.replication.functions_place());
        worker::wait(|| affinity::on_own_thread(&keep)).map_err(|error| {
            let dir = rewriter.dir().display();
            tracing::error!("Can't write the libraries of functions in {dir}: {error}");
            format!("MISCONF Errors writing the libraries of functions: {error}")
        })
    }
}

/// The connection for commands about the server: a script has none of its own.
struct ScriptConnection {
    server: Arc<Server>,
    client: Arc<Client>,
    /// Changes that such a command makes to its connection last for this script.
    state: ConnectionState,
}

impl Local for ScriptConnection {
    fn run(&mut self, named: CommandId, context: Context, args: Args<'_>, reply: &mut Reply<'_>) {
        let Self { server, client, state } = self;
        state.context = context;
        let mut call = LocalCall {
            server,
            client,
            state,
            is_in_exec: true,
            is_in_script: true,
            receivers: None,
            request_bytes: 0,
        };
        dispatch(named, &mut call, args, reply);
    }
}

/// The client of all scripts.
fn unconnected(server: &Server) -> Option<Arc<Client>> {
    if let Some(client) = server.script_client.get() {
        return Some(Arc::clone(client));
    }
    let (stream, _) = tokio::net::UnixStream::pair().ok()?;
    // As Redis shows a client without a socket.
    let address = Address::Unix("?".into());
    let stream = Stream::Unix(stream);
    let accepted = Accepted { stream, carries: Carries::Plain, address: address.clone(), local_address: address };
    Some(Arc::clone(
        server
            .script_client
            .get_or_init(|| Arc::new(Client::of(accepted, 0, Arc::clone(server.users.default_account())))),
    ))
}
