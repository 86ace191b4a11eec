//! What the ends of a connection agree on, and who they are: certificates, keys, authorities, versions, ciphers.

use super::version_1::Version1;
use rustls::client::ResolvesClientCert;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{
    ClientHello, NoClientAuth, NoServerSessionStorage, ResolvesServerCert, ServerSessionMemoryCache,
    WebPkiClientVerifier,
};
use rustls::sign::CertifiedKey;
use rustls::{
    CertificateError, CipherSuite, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, InconsistentKeys,
    RootCertStore, ServerConfig, SignatureScheme, SupportedCipherSuite, SupportedProtocolVersion, version,
};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Where the files are, and what is permitted. Paths that are empty name nothing.
#[derive(Debug, Clone, Default)]
pub struct Settings {
    /// The certificate, with those that lead to the authority's, and its key.
    pub identity: Identity,
    /// Those for connections that this server makes; without them it shows the others.
    pub client_identity: Identity,
    /// A file with certificates of authorities.
    pub ca_file: String,
    /// A directory of such files.
    pub ca_dir: String,
    /// Who needs a certificate of one of these authorities.
    pub clients: ClientAuth,
    /// Whether this server connects to others.
    pub connects: bool,
    /// The versions of the protocol, between spaces; empty for all.
    pub protocols: String,
    /// The ciphers of TLS 1.2, by OpenSSL's names; empty for all.
    pub ciphers: String,
    /// The cipher suites of TLS 1.3; empty for all.
    pub ciphersuites: String,
    /// Whether the server chooses among the ciphers that both have, not the client.
    pub prefers_own_ciphers: bool,
    /// How many sessions are kept for clients that come again.
    pub sessions_max: usize,
}

/// A certificate and its key: two files.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// The certificate.
    pub cert: String,
    /// Its key.
    pub key: String,
}

/// Whether clients show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// They are not asked.
    No,
    /// One that they show has to be right.
    Optional,
    /// They have to.
    #[default]
    Yes,
}

/// What connections are made with.
#[derive(Debug, Clone)]
pub struct Contexts {
    /// For those that are accepted.
    pub server: Arc<ServerConfig>,
    /// For those to other servers.
    pub client: Arc<ClientConfig>,
}

impl Settings {
    /// Reads the files. The error says what is wrong, with the path.
    pub fn load(&self) -> Result<Contexts, String> {
        let provider = Arc::new(self.provider()?);
        let versions = self.versions()?;
        if self.identity.cert.is_empty() {
            return Err("no tls-cert-file is configured".into());
        }
        if self.identity.key.is_empty() {
            return Err("no tls-key-file is configured".into());
        }
        let needs_authority = self.connects || self.clients != ClientAuth::No;
        if needs_authority && self.ca_file.is_empty() && self.ca_dir.is_empty() {
            return Err(
                "tls-ca-cert-file or tls-ca-cert-dir is needed where tls-replication, tls-cluster or tls-auth-clients is \
                 on"
                    .into(),
            );
        }
        let (authorities, certificates) = self.authorities()?;
        let authorities = Arc::new(authorities);
        let old = Arc::new(Version1::of(certificates, provider.signature_verification_algorithms));
        let own = self.identity.load(&provider)?;
        let shown = match self.client_identity.cert.is_empty() {
            true => Arc::clone(&own),
            false => self.client_identity.load(&provider)?,
        };
        let server = self.server_config(&provider, &versions, (&authorities, &old), own)?;
        let client = client_config(&provider, &versions, (authorities, old), shown)?;
        Ok(Contexts { server: Arc::new(server), client: Arc::new(client) })
    }

    /// The cryptography, with the ciphers that are permitted.
    fn provider(&self) -> Result<CryptoProvider, String> {
        let mut provider = ring::default_provider();
        let (of_1_3, of_1_2): (Vec<_>, Vec<_>) =
            provider.cipher_suites.iter().copied().partition(|suite| matches!(suite, SupportedCipherSuite::Tls13(_)));
        let of_1_3 = chosen(&self.ciphersuites, of_1_3).ok_or("tls-ciphersuites has none that there is")?;
        let of_1_2 = chosen(&self.ciphers, of_1_2).ok_or("tls-ciphers has none that there is")?;
        provider.cipher_suites = [of_1_3, of_1_2].concat();
        Ok(provider)
    }

    fn versions(&self) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
        let mut versions = Vec::new();
        for word in self.protocols.split_whitespace() {
            match &*word.to_lowercase() {
                "tlsv1.3" => versions.push(&version::TLS13),
                "tlsv1.2" => versions.push(&version::TLS12),
                // They are known to be broken; where they are permitted among others, the others remain.
                "tlsv1" | "tlsv1.1" => {}
                _ => return Err(format!("tls-protocols has '{word}': there are TLSv1.2 and TLSv1.3")),
            }
        }
        match (versions.is_empty(), self.protocols.trim().is_empty()) {
            (true, true) => Ok(rustls::ALL_VERSIONS.to_vec()),
            (true, false) => {
                Err("tls-protocols has neither TLSv1.2 nor TLSv1.3, and older ones are not supported".into())
            }
            _ => Ok(versions),
        }
    }

    /// The authorities, and their certificates.
    fn authorities(&self) -> Result<(RootCertStore, Vec<CertificateDer<'static>>), String> {
        let (mut authorities, mut all) = (RootCertStore::empty(), Vec::new());
        if !self.ca_file.is_empty() {
            for certificate in certificates(Path::new(&self.ca_file))? {
                all.push(certificate.clone());
                authorities.add(certificate).map_err(|error| format!("{}: {error}", self.ca_file))?;
            }
        }
        if !self.ca_dir.is_empty() {
            // There may be other files. One that is no authority's certificate is passed over, as by OpenSSL.
            for certificate in files(&self.ca_dir)?.iter().flat_map(|path| certificates(path).unwrap_or_default()) {
                if authorities.add(certificate.clone()).is_ok() {
                    all.push(certificate);
                }
            }
        }
        Ok((authorities, all))
    }

    fn server_config(
        &self,
        provider: &Arc<CryptoProvider>,
        versions: &[&'static SupportedProtocolVersion],
        (authorities, old): (&Arc<RootCertStore>, &Arc<Version1>),
        own: Arc<Shown>,
    ) -> Result<ServerConfig, String> {
        let builder = ServerConfig::builder_with_provider(Arc::clone(provider))
            .with_protocol_versions(versions)
            .map_err(text)?
            .with_client_cert_verifier(self.client_verifier(provider, authorities, old)?);
        let mut config = builder.with_cert_resolver(own);
        config.ignore_client_order = self.prefers_own_ciphers;
        if self.sessions_max == 0 {
            config.session_storage = Arc::new(NoServerSessionStorage {});
            config.send_tls13_tickets = 0;
        } else {
            config.session_storage = ServerSessionMemoryCache::new(self.sessions_max);
        }
        Ok(config)
    }

    fn client_verifier(
        &self,
        provider: &Arc<CryptoProvider>,
        authorities: &Arc<RootCertStore>,
        old: &Arc<Version1>,
    ) -> Result<Arc<dyn ClientCertVerifier>, String> {
        let builder = || WebPkiClientVerifier::builder_with_provider(Arc::clone(authorities), Arc::clone(provider));
        let verifier = match self.clients {
            ClientAuth::No => return Ok(Arc::new(NoClientAuth)),
            ClientAuth::Optional => builder().allow_unauthenticated().build(),
            ClientAuth::Yes => builder().build(),
        };
        Ok(Arc::new(AnyVersion { new: verifier.map_err(text)?, old: Arc::clone(old) }))
    }
}

fn client_config(
    provider: &Arc<CryptoProvider>,
    versions: &[&'static SupportedProtocolVersion],
    (authorities, old): (Arc<RootCertStore>, Arc<Version1>),
    shown: Arc<Shown>,
) -> Result<ClientConfig, String> {
    let builder =
        ClientConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(versions).map_err(text)?;
    // Without authorities there is nobody to connect to: see `Settings::connects`.
    if authorities.is_empty() {
        return Ok(builder.with_root_certificates(authorities).with_client_cert_resolver(shown));
    }
    let verifier =
        WebPkiServerVerifier::builder_with_provider(authorities, Arc::clone(provider)).build().map_err(text)?;
    let mut config = builder
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(AnyName { new: verifier, old }))
        .with_client_cert_resolver(shown);
    config.enable_sni = false;
    Ok(config)
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

impl Identity {
    fn load(&self, provider: &CryptoProvider) -> Result<Arc<Shown>, String> {
        let chain = certificates(Path::new(&self.cert))?;
        let key = PrivateKeyDer::from_pem_file(&self.key)
            .map_err(|error| format!("can't read the key {}: {error}", self.key))?;
        let key =
            provider.key_provider.load_private_key(key).map_err(|error| format!("the key {}: {error}", self.key))?;
        let identity = CertifiedKey::new(chain, key);
        match identity.keys_match() {
            Err(Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => {
                Err(format!("the key {} is not that of the certificate {}", self.key, self.cert))
            }
            // Certificates of X.509 version 1 cannot be looked into, but clients may take them.
            _ => Ok(Arc::new(Shown(Arc::new(identity)))),
        }
    }
}

/// The certificates of a file, at least one.
fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let describe = |error| format!("can't read the certificate {}: {error}", path.display());
    let certificates: Vec<_> =
        CertificateDer::pem_file_iter(path).map_err(describe)?.collect::<Result<_, _>>().map_err(describe)?;
    if certificates.is_empty() {
        return Err(format!("there is no certificate in {}", path.display()));
    }
    Ok(certificates)
}

fn files(dir: &str) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(dir).map_err(|error| format!("can't read the directory {dir}: {error}"))?;
    Ok(entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect())
}

/// Those of the suites that a list of OpenSSL's names permits, in its order; all of them for an empty list. Names that
/// are not known are passed over, as by OpenSSL; `None` if nothing remains.
fn chosen(list: &str, suites: Vec<SupportedCipherSuite>) -> Option<Vec<SupportedCipherSuite>> {
    let mut chosen: Vec<SupportedCipherSuite> = Vec::new();
    let names = || list.split([':', ',', ' ']).filter(|name| !name.is_empty());
    if names().next().is_none() {
        return Some(suites);
    }
    for name in names() {
        if let Some(name) = name.strip_prefix(['!', '-']) {
            chosen.retain(|suite| openssl_name(suite) != name);
        } else if ["DEFAULT", "ALL", "HIGH"].contains(&name) {
            chosen.extend(suites.iter().filter(|suite| !chosen.contains(suite)).collect::<Vec<_>>());
        } else {
            chosen.extend(
                suites
                    .iter()
                    .filter(|suite| openssl_name(suite) == name && !chosen.contains(suite))
                    .collect::<Vec<_>>(),
            );
        }
    }
    Some(chosen).filter(|chosen| !chosen.is_empty())
}

/// OpenSSL's name of a suite; empty for one that it does not have.
fn openssl_name(suite: &SupportedCipherSuite) -> &'static str {
    match suite.suite() {
        CipherSuite::TLS13_AES_128_GCM_SHA256 => "TLS_AES_128_GCM_SHA256",
        CipherSuite::TLS13_AES_256_GCM_SHA384 => "TLS_AES_256_GCM_SHA384",
        CipherSuite::TLS13_CHACHA20_POLY1305_SHA256 => "TLS_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256 => "ECDHE-ECDSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384 => "ECDHE-ECDSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-ECDSA-CHACHA20-POLY1305",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 => "ECDHE-RSA-AES128-GCM-SHA256",
        CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384 => "ECDHE-RSA-AES256-GCM-SHA384",
        CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256 => "ECDHE-RSA-CHACHA20-POLY1305",
        _ => "",
    }
}

/// One certificate for everyone.
#[derive(Debug)]
struct Shown(Arc<CertifiedKey>);

impl ResolvesServerCert for Shown {
    fn resolve(&self, _client_hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }
}

impl ResolvesClientCert for Shown {
    fn resolve(&self, _authorities: &[&[u8]], _schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Checks the signatures of handshakes, which are alike for both ends.
macro_rules! by_version {
    () => {
        fn verify_tls12_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            match Version1::is(certificate) {
                true => self.old.check_1_2(message, certificate, signed),
                false => self.new.verify_tls12_signature(message, certificate, signed),
            }
        }

        fn verify_tls13_signature(
            &self,
            message: &[u8],
            certificate: &CertificateDer<'_>,
            signed: &DigitallySignedStruct,
        ) -> Result<HandshakeSignatureValid, Error> {
            match Version1::is(certificate) {
                true => self.old.check_1_3(message, certificate, signed),
                false => self.new.verify_tls13_signature(message, certificate, signed),
            }
        }

        fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
            self.new.supported_verify_schemes()
        }
    };
}

/// Takes every server with a certificate of the authorities, whatever its name, as Redis does: a replica knows its
/// master by an address, which changes at a failover.
#[derive(Debug)]
struct AnyName {
    new: Arc<WebPkiServerVerifier>,
    old: Arc<Version1>,
}

/// Takes clients with a certificate of the authorities, of any version of X.509.
#[derive(Debug)]
struct AnyVersion {
    new: Arc<dyn ClientCertVerifier>,
    old: Arc<Version1>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        if Version1::is(end_entity) {
            return self.old.check(end_entity, now).map(|()| ServerCertVerified::assertion());
        }
        // The name is looked at last.
        match self.new.verify_server_cert(end_entity, intermediates, name, ocsp_response, now) {
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            result => result,
        }
    }

    by_version!();
}

impl ClientCertVerifier for AnyVersion {
    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match Version1::is(end_entity) {
            true => self.old.check(end_entity, now).map(|()| ClientCertVerified::assertion()),
            false => self.new.verify_client_cert(end_entity, intermediates, now),
        }
    }

    fn client_auth_mandatory(&self) -> bool {
        self.new.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.new.root_hint_subjects()
    }

    by_version!();
}
