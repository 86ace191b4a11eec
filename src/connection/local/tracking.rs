//! CLIENT TRACKING, CACHING, TRACKINGINFO and GETREDIR: what the server remembers for a client that keeps what it has
//! read.

use super::{LocalCall, LocalFn};
use crate::commands::Outcome;
use crate::keyspace::{Instance, Tracking};
use crate::pubsub::{PubSub, Redirection, Tracker, Wishes};
use crate::resp::{Args, CommandError, Reply, parse_i64, quoted};
use crate::state::client_list::Client;
use std::sync::Arc;

/// The functions of the commands here, by the names of their rows.
pub(super) const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("client|tracking", tracking),
    ("client|caching", caching),
    ("client|getredir", getredir),
    ("client|trackinginfo", trackinginfo),
];

/// Which reads of a connection are remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reads {
    /// None: it learns of all changes of some prefixes instead. BCAST
    None,
    /// All.
    All,
    /// Those after CLIENT CACHING YES. OPTIN
    IfAsked,
    /// All but those after CLIENT CACHING NO. OPTOUT
    UnlessAsked,
}

/// The tracking of one connection. Dropping it ends that.
#[derive(Debug)]
pub struct ClientTracking {
    pubsub: Arc<PubSub>,
    instance: Arc<Instance>,
    tracker: Arc<Tracker>,
    reads: Reads,
    /// Whether CLIENT CACHING has been called for the next request, or transaction.
    is_asked: bool,
}

impl ClientTracking {
    /// What the next request tells the keyspace.
    pub fn of_next_request(&self) -> Tracking {
        self.tracker.tracking(match self.reads {
            Reads::None => false,
            Reads::All => true,
            Reads::IfAsked => self.is_asked,
            Reads::UnlessAsked => !self.is_asked,
        })
    }

    /// The request that CLIENT CACHING was called for is accepted.
    pub fn end_asking(&mut self) {
        self.is_asked = false;
    }
}

impl Drop for ClientTracking {
    fn drop(&mut self) {
        self.pubsub.tracking().untrack(&self.tracker, &self.instance.settings.is_tracked);
    }
}

/// CLIENT TRACKING <ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT]
/// [NOLOOP]: O(P * Q), P = prefixes that are given, Q = those that it has
fn tracking(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let options = Options::parse(args, call)?;
    if args.is(2, "ON") {
        options.must_agree(call.state.tracking.as_deref())?;
        begin(call, options);
    } else if args.is(2, "OFF") {
        end(call);
    } else {
        return Err(CommandError::Syntax);
    }
    reply.ok();
    Ok(())
}

/// Ends the tracking of a connection.
pub fn end(call: &mut LocalCall<'_>) {
    call.state.tracking = None;
    call.client.set_tracker(None);
}

fn begin(call: &mut LocalCall<'_>, mut options: Options) {
    if options.wishes.is_by_prefix && options.wishes.prefixes.is_empty() {
        options.wishes.prefixes.push(Box::default());
    }
    let subscriber = Arc::clone(call.subscription().subscriber());
    let (pubsub, instance) = (Arc::clone(&call.server.pubsub), Arc::clone(&call.server.instance));
    let former = call.state.tracking.as_ref();
    let (reads, is_asked) = (options.reads(), former.is_some_and(|former| former.is_asked));
    let tracker = pubsub.tracking().track(
        former.map(|former| &*former.tracker),
        &subscriber,
        options.wishes,
        &instance.settings.is_tracked,
    );
    call.client.set_tracker(Some(Arc::clone(&tracker)));
    match &mut call.state.tracking {
        // The number stays the same.
        Some(former) => (former.tracker, former.reads) = (tracker, reads),
        none => *none = Some(Box::new(ClientTracking { pubsub, instance, tracker, reads, is_asked })),
    }
}

/// The options of CLIENT TRACKING.
#[derive(Default)]
struct Options {
    wishes: Wishes,
    if_asked: bool,
    unless_asked: bool,
}

impl Options {
    fn parse(args: Args<'_>, call: &LocalCall<'_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut position = 3;
        while position < args.len() {
            let value = args.get(position + 1);
            match value {
                Some(client) if args.is(position, "REDIRECT") => {
                    options.redirect(client, call)?;
                    position += 1;
                }
                Some(prefix) if args.is(position, "PREFIX") => {
                    options.wishes.prefixes.push(prefix.into());
                    position += 1;
                }
                _ if args.is(position, "BCAST") => options.wishes.is_by_prefix = true,
                _ if args.is(position, "OPTIN") => options.if_asked = true,
                _ if args.is(position, "OPTOUT") => options.unless_asked = true,
                _ if args.is(position, "NOLOOP") => options.wishes.spares_own = true,
                _ => return Err(CommandError::Syntax),
            }
            position += 1;
        }
        Ok(options)
    }

    fn redirect(&mut self, client: &[u8], call: &LocalCall<'_>) -> Outcome {
        if self.wishes.redirection.is_some() {
            return Err(CommandError::Text("ERR A client can only redirect to a single other client"));
        }
        let id = parse_i64(client).ok_or(CommandError::NotInteger)?;
        let client = u64::try_from(id).ok().and_then(|id| call.server.clients.get(id));
        let client = client.ok_or(CommandError::Text("ERR The client ID you want redirect to does not exist"))?;
        let queue = client.subscriber(&call.server.pubsub);
        self.wishes.redirection = Some(Redirection { client: client.id, queue });
        Ok(())
    }

    fn reads(&self) -> Reads {
        match (self.wishes.is_by_prefix, self.if_asked, self.unless_asked) {
            (true, ..) => Reads::None,
            (_, true, _) => Reads::IfAsked,
            (_, _, true) => Reads::UnlessAsked,
            (false, false, false) => Reads::All,
        }
    }

    /// Checks them against each other, and against what the connection tracks. Without a prefix, BCAST is about all
    /// keys.
    fn must_agree(&self, former: Option<&ClientTracking>) -> Outcome {
        let Wishes { is_by_prefix, prefixes, .. } = &self.wishes;
        let refusal = match former.map(|former| former.reads) {
            _ if !is_by_prefix && !prefixes.is_empty() => "ERR PREFIX option requires BCAST mode to be enabled",
            Some(reads) if (reads == Reads::None) != *is_by_prefix => {
                "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
                 re-enabling it with a different mode."
            }
            _ if *is_by_prefix && (self.if_asked || self.unless_asked) => {
                "ERR OPTIN and OPTOUT are not compatible with BCAST"
            }
            _ if self.if_asked && self.unless_asked => "ERR You can't specify both OPTIN mode and OPTOUT mode",
            Some(Reads::UnlessAsked) if self.if_asked => SWITCH,
            Some(Reads::IfAsked) if self.unless_asked => SWITCH,
            _ => return must_not_overlap(prefixes, former.map_or(&[], |former| former.tracker.prefixes())),
        };
        Err(CommandError::Text(refusal))
    }
}

const SWITCH: &str = "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
                      re-enabling it with a different mode.";

/// Refuses prefixes of which one begins like another: the client would be told twice.
fn must_not_overlap(added: &[Box<[u8]>], former: &[Box<[u8]>]) -> Outcome {
    let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    for (number, prefix) in added.iter().enumerate() {
        let kinds = [(former, "an existing prefix"), (&added[number + 1..], "another provided prefix")];
        for (others, which) in kinds {
            if let Some(other) = others.iter().find(|other| overlaps(prefix, other)) {
                return Err(CommandError::Owned(format!(
                    "ERR Prefix '{}' overlaps with {which} '{}'. Prefixes for a single client must not overlap.",
                    quoted(prefix, usize::MAX),
                    quoted(other, usize::MAX)
                )));
            }
        }
    }
    Ok(())
}

/// CLIENT CACHING <YES | NO>: O(1)
fn caching(call: &mut LocalCall<'_>, args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let is_in_exec = call.is_in_exec;
    let tracking = call.state.tracking.as_mut().ok_or(CommandError::Text(
        "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or OPTOUT mode enabled",
    ))?;
    match (args.is(2, "YES"), args.is(2, "NO"), tracking.reads) {
        (true, _, Reads::IfAsked) | (_, true, Reads::UnlessAsked) => {
            // What follows in a transaction has run; and the transaction ends what was asked for.
            tracking.is_asked = !is_in_exec;
            reply.ok();
            Ok(())
        }
        (true, ..) => {
            Err(CommandError::Text("ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode."))
        }
        (_, true, _) => {
            Err(CommandError::Text("ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode."))
        }
        (false, false, _) => Err(CommandError::Syntax),
    }
}

/// CLIENT GETREDIR: O(1)
fn getredir(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    reply.integer(redirects_to(call.client));
    Ok(())
}

/// The number of the client that gets the messages of a client: 0 for itself, -1 if there are none.
pub fn redirects_to(client: &Client) -> i64 {
    client.tracker().map_or(-1, |tracker| tracker.redirects_to() as i64)
}

/// CLIENT TRACKINGINFO: O(N), N = prefixes of the connection
fn trackinginfo(call: &mut LocalCall<'_>, _args: Args<'_>, reply: &mut Reply<'_>) -> Outcome {
    let words = call.state.tracking.as_ref().map_or_else(|| vec!["off"], |tracking| words_of(tracking));
    reply.map(3);
    reply.bulk(b"flags");
    reply.set(words.len());
    words.iter().for_each(|word| reply.bulk(word.as_bytes()));
    reply.bulk(b"redirect");
    reply.integer(redirects_to(call.client));
    reply.bulk(b"prefixes");
    let mut prefixes = call.state.tracking.as_ref().map_or(&[][..], |tracking| tracking.tracker.prefixes()).to_vec();
    prefixes.sort_unstable();
    reply.array(prefixes.len());
    prefixes.iter().for_each(|prefix| reply.bulk(prefix));
    Ok(())
}

fn words_of(ClientTracking { tracker, reads, is_asked, .. }: &ClientTracking) -> Vec<&'static str> {
    let words = [
        (true, "on"),
        (*reads == Reads::None, "bcast"),
        (*reads == Reads::IfAsked, "optin"),
        (*reads == Reads::IfAsked && *is_asked, "caching-yes"),
        (*reads == Reads::UnlessAsked, "optout"),
        (*reads == Reads::UnlessAsked && *is_asked, "caching-no"),
        (tracker.spares_own(), "noloop"),
        (tracker.is_redirection_lost(), "broken_redirect"),
    ];
    words.into_iter().filter_map(|(is_so, word)| is_so.then_some(word)).collect()
}
