//! The functions of the commands that run in the connection, by the names of their rows.

use super::{
    LocalFn, acl, clients, cluster, configuration, following, general, observing, pubsub, replication, tracking,
    waiting,
};
use crate::commands::{COMMANDS, COUNT, CommandId};

const FUNCTIONS: &[(&str, LocalFn)] = &[
    ("ping", general::ping),
    ("echo", general::echo),
    ("select", general::select),
    ("quit", general::quit),
    ("reset", general::reset),
    ("hello", general::hello),
    ("auth", general::auth),
    ("info", general::info),
    ("stats", general::stats),
    ("monitor", clients::monitor),
    ("shutdown", clients::shutdown),
    ("lolwut", general::lolwut),
    ("time", general::time),
    ("bgrewriteaof", general::bgrewriteaof),
    ("wait", waiting::wait),
    ("role", replication::role),
    ("sync", replication::sync),
    ("psync", replication::psync),
    ("replconf", replication::replconf),
    ("failover", following::failover),
    ("replicaof", following::replicaof),
    ("slaveof", following::replicaof),
    ("waitaof", waiting::waitaof),
    ("multi", general::multi),
    ("discard", general::discard),
    ("unwatch", general::unwatch),
    ("publish", pubsub::publish),
    ("subscribe", pubsub::subscribe),
    ("unsubscribe", pubsub::unsubscribe),
    ("psubscribe", pubsub::psubscribe),
    ("punsubscribe", pubsub::punsubscribe),
    ("readonly", cluster::readonly),
    ("readwrite", cluster::readwrite),
    ("asking", cluster::asking),
    ("spublish", pubsub::spublish),
    ("ssubscribe", pubsub::ssubscribe),
    ("sunsubscribe", pubsub::sunsubscribe),
    ("cluster|slots", cluster::slots),
    ("cluster|shards", cluster::shards),
    ("cluster|nodes", cluster::nodes),
    ("cluster|info", cluster::info),
    ("cluster|myid", cluster::myid),
    ("cluster|myshardid", cluster::myshardid),
    ("cluster|keyslot", cluster::keyslot),
    ("cluster|links", cluster::links),
    ("cluster|replicas", cluster::replicas),
    ("cluster|slaves", cluster::replicas),
    ("cluster|meet", cluster::meet),
    ("cluster|addslots", cluster::addslots),
    ("cluster|addslotsrange", cluster::addslotsrange),
    ("cluster|delslots", cluster::delslots),
    ("cluster|delslotsrange", cluster::delslotsrange),
    ("cluster|flushslots", cluster::flushslots),
    ("cluster|forget", cluster::forget),
    ("cluster|replicate", cluster::replicate),
    ("cluster|count-failure-reports", cluster::count_failure_reports),
    ("cluster|failover", cluster::failover),
    ("cluster|setslot", cluster::setslot),
    ("cluster|bumpepoch", cluster::bumpepoch),
    ("cluster|set-config-epoch", cluster::set_config_epoch),
    ("cluster|saveconfig", cluster::saveconfig),
    ("cluster|reset", cluster::reset),
    ("cluster|help", cluster::help),
    ("acl|cat", acl::cat),
    ("acl|deluser", acl::deluser),
    ("acl|dryrun", acl::dryrun),
    ("acl|genpass", acl::genpass),
    ("acl|getuser", acl::getuser),
    ("acl|help", acl::help),
    ("acl|list", acl::list),
    ("acl|load", acl::load),
    ("acl|log", acl::log),
    ("acl|save", acl::save),
    ("acl|setuser", acl::setuser),
    ("acl|users", acl::users),
    ("acl|whoami", acl::whoami),
    ("client|id", general::client_id),
    ("client|getname", general::client_getname),
    ("client|setname", general::client_setname),
    ("client|setinfo", general::client_setinfo),
    ("client|unblock", general::client_unblock),
    ("client|kill", clients::kill),
    ("client|reply", clients::reply),
    ("client|pause", clients::pause),
    ("client|unpause", clients::unpause),
    ("client|info", general::client_info),
    ("client|list", general::client_list),
    ("client|no-evict", general::client_no_evict),
    ("client|no-touch", general::client_no_touch),
    ("client|tracking", tracking::tracking),
    ("client|caching", tracking::caching),
    ("client|getredir", tracking::getredir),
    ("client|trackinginfo", tracking::trackinginfo),
    ("pubsub|channels", pubsub::channels),
    ("pubsub|numpat", pubsub::numpat),
    ("pubsub|numsub", pubsub::numsub),
    ("pubsub|shardchannels", pubsub::shardchannels),
    ("pubsub|shardnumsub", pubsub::shardnumsub),
    ("pubsub|help", pubsub::help),
    ("config|get", configuration::config_get),
    ("config|set", configuration::config_set),
    ("slowlog|get", observing::slowlog_get),
    ("slowlog|len", observing::slowlog_len),
    ("slowlog|reset", observing::slowlog_reset),
    ("slowlog|help", observing::slowlog_help),
    ("latency|latest", observing::latency_latest),
    ("latency|history", observing::latency_history),
    ("latency|reset", observing::latency_reset),
    ("latency|doctor", observing::latency_doctor),
    ("latency|graph", observing::latency_graph),
    ("latency|histogram", observing::latency_histogram),
    ("latency|help", observing::latency_help),
    ("memory|stats", general::memory_stats),
    ("config|rewrite", configuration::config_rewrite),
    ("config|resetstat", configuration::config_resetstat),
];

/// By the numbers of the rows.
static BY_ROW: [Option<LocalFn>; COUNT] = {
    let mut functions: [Option<LocalFn>; COUNT] = [None; COUNT];
    let mut index = 0;
    while index < FUNCTIONS.len() {
        let (name, function) = FUNCTIONS[index];
        functions[row_of(name)] = Some(function);
        index += 1;
    }
    functions
};

/// The function of a command that needs its connection.
pub fn of(id: CommandId) -> LocalFn {
    BY_ROW[usize::from(id.0)].expect("a row whose command runs in the connection is in the table of its functions")
}

const fn row_of(name: &str) -> usize {
    let mut row = 0;
    while !is_same(COMMANDS[row].name, name) {
        row += 1;
    }
    row
}

const fn is_same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    if one.len() != other.len() {
        return false;
    }
    let mut index = 0;
    while index < one.len() {
        if one[index] != other[index] {
            return false;
        }
        index += 1;
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Request, plain_function};

    #[test]
    fn every_command_that_runs_in_the_connection_has_a_function() {
        for (index, row) in COMMANDS.iter().enumerate() {
            let id = CommandId::of_index(index);
            let is_here = row.request == Request::Local && plain_function(id).is_none();
            assert_eq!(BY_ROW[index].is_some(), is_here, "{}", row.name);
        }
    }
}
