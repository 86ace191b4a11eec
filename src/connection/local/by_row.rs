//! The functions of the commands that run in the connection, by the numbers of their rows.

use super::{
    LocalFn, acl, clients, cluster, configuration, following, general, observing, pubsub, replication, tracking,
    waiting,
};
use crate::commands::{COMMANDS, COUNT, CommandId};

/// The functions of each file.
const FILES: &[&[(&str, LocalFn)]] = &[
    acl::FUNCTIONS,
    clients::FUNCTIONS,
    cluster::FUNCTIONS,
    configuration::FUNCTIONS,
    following::FUNCTIONS,
    general::FUNCTIONS,
    observing::FUNCTIONS,
    pubsub::FUNCTIONS,
    replication::FUNCTIONS,
    tracking::FUNCTIONS,
    waiting::FUNCTIONS,
];

static BY_ROW: [Option<LocalFn>; COUNT] = {
    let mut functions: [Option<LocalFn>; COUNT] = [None; COUNT];
    let mut file = 0;
    while file < FILES.len() {
        let mut index = 0;
        while index < FILES[file].len() {
            let (name, function) = FILES[file][index];
            functions[row_of(name)] = Some(function);
            index += 1;
        }
        file += 1;
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
