//! The connections of a run.

use crate::base::Error;
use crate::config::{Config, Target};
use crate::resp::Client;

/// A connection, past its handshake.
pub(super) fn connect(config: &Config, target: &Target) -> Result<Client, Error> {
    let mut client = Client::connect(&target.address(), config.reply_timeout)?;
    let credentials = config.credentials.as_ref();
    client.handshake(
        config.protocol,
        credentials.and_then(|credentials| credentials.user.as_deref()),
        credentials.map(|credentials| credentials.password.as_str()),
    )?;
    Ok(client)
}
