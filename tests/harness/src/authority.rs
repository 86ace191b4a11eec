//! An authority that signs certificates, for connections with TLS.

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned, SupportedProtocolVersion};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use tempfile::TempDir;

use super::{DEADLINE, request};

/// An authority, with the files of what it has signed.
pub struct Authority {
    dir: TempDir,
    issuer: Issuer<'static, KeyPair>,
}

/// The files of a certificate and of its key.
#[derive(Debug, Clone)]
pub struct Signed {
    pub cert: String,
    pub key: String,
}

impl Default for Authority {
    fn default() -> Self {
        Self::new()
    }
}

impl Authority {
    /// A new one.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        params.distinguished_name.push(DnType::CommonName, "an authority");
        let key = KeyPair::generate().expect("there is randomness");
        let own = params.self_signed(&key).expect("the parameters are right");
        let dir = TempDir::new().expect("a temporary directory");
        std::fs::write(dir.path().join("ca.crt"), own.pem()).expect("there is room");
        Self { dir, issuer: Issuer::new(params, key) }
    }

    /// The file of its own certificate.
    pub fn ca(&self) -> String {
        self.path("ca.crt")
    }

    /// The directory of all files.
    pub fn dir(&self) -> &str {
        self.dir.path().to_str().expect("temporary directories have plain names")
    }

    fn path(&self, name: &str) -> String {
        format!("{}/{name}", self.dir())
    }

    /// Signs a new certificate, for `localhost` and this name, in files of this name; replaces those that are there.
    pub fn sign(&self, name: &str) -> Signed {
        let mut params =
            CertificateParams::new(vec!["localhost".to_owned(), format!("{name}.test")]).expect("they are names");
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("there is randomness");
        let signed = params.signed_by(&key, &self.issuer).expect("the parameters are right");
        let files = Signed { cert: self.path(&format!("{name}.crt")), key: self.path(&format!("{name}.key")) };
        std::fs::write(&files.cert, signed.pem()).expect("there is room");
        std::fs::write(&files.key, key.serialize_pem()).expect("there is room");
        files
    }

    /// The flags for a server with a new certificate, on no port yet.
    pub fn flags(&self, name: &str) -> Vec<String> {
        let Signed { cert, key } = self.sign(name);
        let ca = self.ca();
        ["--tls-cert-file", &cert, "--tls-key-file", &key, "--tls-ca-cert-file", &ca].map(str::to_owned).into()
    }

    /// How clients connect that know this authority, and show a certificate if they have one.
    pub fn client(&self, shown: Option<&Signed>, versions: &[&'static SupportedProtocolVersion]) -> Arc<ClientConfig> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.ca()).expect("it was written")).expect("it is an authority's");
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(versions)
            .expect("there are such versions")
            .with_root_certificates(roots);
        Arc::new(match shown {
            None => builder.with_no_client_auth(),
            Some(Signed { cert, key }) => {
                let chain = vec![CertificateDer::from_pem_file(cert).expect("it was written")];
                let key = PrivateKeyDer::from_pem_file(key).expect("it was written");
                builder.with_client_auth_cert(chain, key).expect("they belong together")
            }
        })
    }
}

/// A certificate of X.509 version 1, its key, and the authority of both: files, as OpenSSL 3.0 makes them.
pub fn of_version_1(authority: &Authority) -> (Signed, String) {
    let put = |name: &str, text: &str| {
        let path = authority.path(name);
        std::fs::write(&path, text).expect("there is room");
        path
    };
    let cert = put("version_1.crt", include_str!("version_1/client.crt"));
    let key = put("version_1.key", include_str!("version_1/client.key"));
    (Signed { cert, key }, put("version_1.ca.crt", include_str!("version_1/ca.crt")))
}

/// A client that speaks TLS.
pub struct TlsClient(StreamOwned<ClientConnection, TcpStream>);

impl TlsClient {
    /// Connects. With TLS 1.3 a server that refuses the certificate says so later.
    pub fn connect(address: SocketAddr, config: &Arc<ClientConfig>) -> io::Result<Self> {
        let mut socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        let name = ServerName::try_from("localhost").expect("it is a name");
        let mut connection = ClientConnection::new(Arc::clone(config), name).map_err(io::Error::other)?;
        while connection.is_handshaking() {
            connection.complete_io(&mut socket)?;
        }
        Ok(Self(StreamOwned::new(connection, socket)))
    }

    /// The session and the socket.
    pub fn parts(&mut self) -> (&mut ClientConnection, &mut TcpStream) {
        (&mut self.0.conn, &mut self.0.sock)
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.0.write_all(bytes)?;
        self.0.flush()
    }

    /// Reads exactly as many bytes as are expected, and compares them.
    pub fn expect_bytes(&mut self, expected: &[u8]) {
        let mut read = vec![0; expected.len()];
        self.0.read_exact(&mut read).expect("the server replies");
        assert!(read == expected, "{}", String::from_utf8_lossy(&read[..read.len().min(200)]));
    }

    /// Sends a request of words, and expects a reply.
    pub fn expect(&mut self, line: &str, reply: &str) {
        let words: Vec<&str> = line.split(' ').collect();
        self.send(&request(&words)).expect("the server takes it");
        self.expect_bytes(reply.as_bytes());
    }

    /// What comes until the server closes the connection.
    pub fn rest(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest).map(|_| rest)
    }

    /// The server's certificate.
    pub fn certificate(&self) -> CertificateDer<'static> {
        let shown = self.0.conn.peer_certificates().expect("a server shows one");
        shown[0].clone().into_owned()
    }
}

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there are free ports");
    listener.local_addr().expect("it listens").port()
}
