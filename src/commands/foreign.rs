//! Commands of newer servers that have no row here, but may come from a master or be in a log.

use crate::resp::{Args, OwnedArgs};

/// A command with a row that does the same; `None` if there is none.
pub fn translated(args: Args<'_>) -> Result<Option<OwnedArgs>, &'static str> {
    match args.is(0, "HSETEX") && args.len() >= 6 {
        true => plain_of_fields(args).map(Some),
        false => Ok(None),
    }
}

/// HSETEX is also logged when a field is set whose deadline stays: without deadlines that is HSET. A command that sets
/// a deadline is refused, since fields have none here.
fn plain_of_fields(args: Args<'_>) -> Result<OwnedArgs, &'static str> {
    let mut at = 2;
    while at < args.len() && !args.is(at, "FIELDS") {
        // They were checked where the command ran first.
        if !["KEEPTTL", "FNX", "FXX"].iter().any(|option| args.is(at, option)) {
            return Err("a field of a hash expires, and fields that expire are not supported here");
        }
        at += 1;
    }
    Ok([b"HSET".as_slice(), &args[1]].into_iter().chain(args.from(at + 2).iter()).collect())
}
