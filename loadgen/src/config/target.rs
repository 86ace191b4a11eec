//! Where to connect to.

use crate::base::{Error, invalid};

/// A server under load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Host name or address.
    pub host: String,
    /// Its port.
    pub port: u16,
}

impl Target {
    /// `HOST[:PORT],…`; an IPv6 address with a port is in brackets.
    pub(super) fn parse_list(text: &str, port: u16) -> Result<Vec<Self>, Error> {
        let targets: Option<Vec<Self>> = text.split(',').map(|target| Self::parse(target.trim(), port)).collect();
        targets.map_or_else(|| invalid("--server", text, "expected HOST[:PORT],…, such as 10.0.0.1,10.0.0.2:6380"), Ok)
    }

    fn parse(text: &str, port: u16) -> Option<Self> {
        let (host, own_port) = match text.strip_prefix('[') {
            Some(rest) => rest.split_once(']').map(|(host, end)| (host, end.strip_prefix(':')))?,
            // More than one colon is an IPv6 address without a port.
            None if text.parse::<std::net::Ipv6Addr>().is_ok() => (text, None),
            None => text.split_once(':').map_or((text, None), |(host, port)| (host, Some(port))),
        };
        let port = own_port.map_or(Some(port), |text| text.parse().ok().filter(|&port| port > 0))?;
        (!host.is_empty()).then(|| Self { host: host.to_owned(), port })
    }

    /// host:port, for errors.
    pub(crate) fn address(&self) -> String {
        let Self { host, port } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_hosts_with_or_without_a_port() {
        let addresses = |text| {
            let targets = Target::parse_list(text, 1).expect(text);
            targets.iter().map(Target::address).collect::<Vec<_>>()
        };
        assert_eq!(addresses("a"), ["a:1"]);
        assert_eq!(addresses("a:2, b,::1,[::1]:3,[::2]"), ["a:2", "b:1", "[::1]:1", "[::1]:3", "[::2]:1"]);
        for text in ["", "a,", ":1", "a:0", "a:b", "a:70000", "[::1"] {
            assert!(Target::parse_list(text, 1).is_err(), "{text:?}");
        }
    }
}
