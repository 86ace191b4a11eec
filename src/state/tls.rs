//! TLS as the configuration wants it. CONFIG SET replaces certificates and keys; connections with the old ones last.

use crate::base::tls::{ClientAuth, Contexts, Identity, Settings};
use crate::config::{Config, Directive};
use parking_lot::Mutex;

/// What encrypted connections are made with; nothing where there are none.
#[derive(Debug, Default)]
pub struct Tls {
    contexts: Mutex<Option<Contexts>>,
}

impl Tls {
    /// As the configuration says at the start.
    pub fn begin(config: &Config) -> Result<Self, String> {
        let tls = Self::default();
        tls.renew(config).map_err(|reason| format!("can't configure TLS: {reason}"))?;
        Ok(tls)
    }

    /// Reads the files again; if that fails, everything stays as it was. Connections that are open keep what they have.
    pub fn renew(&self, config: &Config) -> Result<(), String> {
        let is_used = config.number(Directive::TlsPort) > 0 || connects(config);
        let contexts = is_used.then(|| settings(config).load()).transpose()?;
        *self.contexts.lock() = contexts;
        Ok(())
    }

    /// What encrypted connections are made with.
    pub fn contexts(&self) -> Option<Contexts> {
        self.contexts.lock().clone()
    }
}

/// Whether TLS depends on a directive, by its position in the table.
pub fn depends_on(directive: usize) -> bool {
    const ALL: [Directive; 16] = [
        Directive::TlsPort,
        Directive::TlsReplication,
        Directive::TlsCluster,
        Directive::TlsCertFile,
        Directive::TlsKeyFile,
        Directive::TlsClientCertFile,
        Directive::TlsClientKeyFile,
        Directive::TlsCaCertFile,
        Directive::TlsCaCertDir,
        Directive::TlsAuthClients,
        Directive::TlsProtocols,
        Directive::TlsCiphers,
        Directive::TlsCiphersuites,
        Directive::TlsPreferServerCiphers,
        Directive::TlsSessionCaching,
        Directive::TlsSessionCacheSize,
    ];
    ALL.iter().any(|&each| each as usize == directive)
}

/// Whether the server connects to others by TLS.
fn connects(config: &Config) -> bool {
    config.is_on(Directive::TlsReplication) || config.is_on(Directive::TlsCluster)
}

fn settings(config: &Config) -> Settings {
    let sessions_max = config.size(Directive::TlsSessionCacheSize);
    Settings {
        identity: Identity { cert: config.path(Directive::TlsCertFile), key: config.path(Directive::TlsKeyFile) },
        client_identity: Identity {
            cert: config.path(Directive::TlsClientCertFile),
            key: config.path(Directive::TlsClientKeyFile),
        },
        ca_file: config.path(Directive::TlsCaCertFile),
        ca_dir: config.path(Directive::TlsCaCertDir),
        clients: match &*config.text(Directive::TlsAuthClients) {
            "no" => ClientAuth::No,
            "optional" => ClientAuth::Optional,
            _ => ClientAuth::Yes,
        },
        connects: connects(config),
        protocols: config.text(Directive::TlsProtocols),
        ciphers: config.text(Directive::TlsCiphers),
        ciphersuites: config.text(Directive::TlsCiphersuites),
        prefers_own_ciphers: config.is_on(Directive::TlsPreferServerCiphers),
        sessions_max: if config.is_on(Directive::TlsSessionCaching) { sessions_max } else { 0 },
    }
}
