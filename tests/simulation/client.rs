//! A client in the simulated world: sends requests over its network, and waits by its clock.

use super::network::{Host, PORT, address_of};
use harness::Value;
use shardrace::internals::base::{Network, Stream};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// How long a client waits for a reply.
const PATIENCE: Duration = Duration::from_secs(5);

/// The connection is lost, or none was made: the last request may or may not have taken effect.
#[derive(Debug)]
pub struct Lost;

/// A connection to a server.
pub struct Client {
    stream: Stream,
    unread: Vec<u8>,
}

impl Client {
    pub async fn connect(network: &Arc<dyn Network>, host: Host) -> Result<Self, Lost> {
        let address = address_of(host);
        let connecting = timeout(PATIENCE, network.connect(&address, PORT, "")).await;
        let stream = connecting.map_err(|_| Lost)?.map_err(|_| Lost)?;
        Ok(Self { stream, unread: Vec::new() })
    }

    /// Sends a request; returns its reply.
    pub async fn call(&mut self, words: &[&str]) -> Result<Value, Lost> {
        Ok(self.pipeline(&[words.iter().map(|&word| word.to_owned()).collect()]).await?.remove(0))
    }

    /// Sends several requests together; returns their replies.
    pub async fn pipeline(&mut self, requests: &[Vec<String>]) -> Result<Vec<Value>, Lost> {
        let bytes: Vec<u8> = requests.iter().flat_map(|words| encoded(words)).collect();
        timeout(PATIENCE, async {
            self.stream.write_all(&bytes).await.map_err(|_| Lost)?;
            let mut replies = Vec::new();
            while replies.len() < requests.len() {
                replies.push(self.reply().await?);
            }
            Ok(replies)
        })
        .await
        .map_err(|_| Lost)?
    }

    async fn reply(&mut self) -> Result<Value, Lost> {
        loop {
            if let Some((value, len)) = Value::parse(&self.unread) {
                self.unread.drain(..len);
                return Ok(value);
            }
            match self.stream.read_buf(&mut self.unread).await {
                Ok(1..) => {}
                _ => return Err(Lost),
            }
        }
    }
}

fn encoded(words: &[String]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n{word}\r\n", word.len()).as_bytes());
    }
    bytes
}
