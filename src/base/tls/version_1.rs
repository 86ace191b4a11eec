//! Certificates of X.509 version 1, which have no extensions. OpenSSL before 3.2 makes them where it is not told
//! otherwise, and so do Redis's instructions; rustls takes version 3 alone.
//!
//! A certificate of version 1 does not say what it may be used for. It counts if an authority has signed it itself:
//! there is nothing between the two.

use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{WebPkiSupportedAlgorithms, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{CertificateDer, SubjectPublicKeyInfoDer, UnixTime};
use rustls::{CertificateError, DigitallySignedStruct, Error, PeerMisbehaved};
use x509_parser::certificate::X509Certificate;
use x509_parser::oid_registry::{OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA};
use x509_parser::time::ASN1Time;
use x509_parser::x509::X509Version;

/// Checks certificates of version 1.
#[derive(Debug)]
pub struct Version1 {
    authorities: Vec<CertificateDer<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Version1 {
    /// Those that one of these authorities has signed count.
    pub fn of(authorities: Vec<CertificateDer<'static>>, algorithms: WebPkiSupportedAlgorithms) -> Self {
        Self { authorities, algorithms }
    }

    /// Whether it is one.
    pub fn is(certificate: &CertificateDer<'_>) -> bool {
        parsed(certificate).is_ok_and(|certificate| certificate.version() == X509Version::V1)
    }

    /// Whether an authority has signed it, for this time.
    pub fn check(&self, certificate: &CertificateDer<'_>, now: UnixTime) -> Result<(), Error> {
        let certificate = parsed(certificate)?;
        let is_strange = certificate.version() != X509Version::V1
            || !certificate.extensions().is_empty()
            || certificate.signature_algorithm != certificate.tbs_certificate.signature;
        if is_strange {
            return Err(CertificateError::BadEncoding.into());
        }
        // Signatures over SHA-1 can be forged.
        if [OID_PKCS1_SHA1WITHRSA, OID_SHA1_WITH_RSA].contains(&certificate.signature_algorithm.algorithm) {
            return Err(CertificateError::BadSignature.into());
        }
        let seconds = i64::try_from(now.as_secs()).map_err(|_| CertificateError::Expired)?;
        let now = ASN1Time::from_timestamp(seconds).map_err(|_| CertificateError::Expired)?;
        if now < certificate.validity().not_before {
            return Err(CertificateError::NotValidYet.into());
        }
        if now > certificate.validity().not_after {
            return Err(CertificateError::Expired.into());
        }
        let has_signed = |authority: &CertificateDer<'_>| {
            parsed(authority).is_ok_and(|authority| {
                authority.subject().as_raw() == certificate.issuer().as_raw()
                    && may_sign(&authority)
                    && authority.validity().is_valid_at(now)
                    && certificate.verify_signature(Some(authority.public_key())).is_ok()
            })
        };
        if self.authorities.iter().any(has_signed) { Ok(()) } else { Err(CertificateError::UnknownIssuer.into()) }
    }

    /// Whether the owner of its key has signed a handshake of TLS 1.2.
    pub fn check_1_2(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = parsed(certificate)?;
        let key = &certificate.public_key().subject_public_key.data;
        let algorithms = self.algorithms.mapping.iter().find(|(scheme, _)| *scheme == signed.scheme);
        let (_, algorithms) = algorithms.ok_or(PeerMisbehaved::SignedHandshakeWithUnadvertisedSigScheme)?;
        match algorithms.iter().any(|each| each.verify_signature(key, message, signed.signature()).is_ok()) {
            true => Ok(HandshakeSignatureValid::assertion()),
            false => Err(CertificateError::BadSignature.into()),
        }
    }

    /// Whether the owner of its key has signed a handshake of TLS 1.3.
    pub fn check_1_3(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let certificate = parsed(certificate)?;
        let key = SubjectPublicKeyInfoDer::from(certificate.public_key().raw);
        verify_tls13_signature_with_raw_key(message, &key, signed, &self.algorithms)
    }
}

/// Whether an authority may sign any certificate.
fn may_sign(authority: &X509Certificate<'_>) -> bool {
    let usage = authority.key_usage();
    let is_unlimited = authority.name_constraints().is_ok_and(|constraints| constraints.is_none());
    let signs = usage.is_ok_and(|usage| usage.is_none_or(|usage| usage.value.key_cert_sign()));
    let is_authority = authority.version() == X509Version::V1 || authority.is_ca();
    is_authority && signs && is_unlimited
}

/// Its parts. Nothing may follow it.
fn parsed<'a>(certificate: &'a CertificateDer<'_>) -> Result<X509Certificate<'a>, Error> {
    match x509_parser::parse_x509_certificate(certificate) {
        Ok(([], certificate)) => Ok(certificate),
        _ => Err(CertificateError::BadEncoding.into()),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustls::crypto::ring;
    use rustls::pki_types::pem::PemObject;
    use std::time::Duration;

    /// Made by OpenSSL 3.0. `other` has the name of `ca`.
    const CA: &str = include_str!("../../../tests/harness/src/version_1/ca.crt");
    const OTHER: &str = include_str!("../../../tests/harness/src/version_1/other.crt");
    const CLIENT: &str = include_str!("../../../tests/harness/src/version_1/client.crt");
    const SHA1: &str = include_str!("../../../tests/harness/src/version_1/sha1.crt");

    fn certificate(text: &str) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(text.as_bytes()).unwrap()
    }

    fn checks(authorities: &[&str]) -> Version1 {
        let algorithms = ring::default_provider().signature_verification_algorithms;
        Version1::of(authorities.iter().map(|text| certificate(text)).collect(), algorithms)
    }

    fn year(number: u64) -> UnixTime {
        UnixTime::since_unix_epoch(Duration::from_secs((number - 1970) * 31_557_600))
    }

    #[test]
    fn a_certificate_counts_that_an_authority_has_signed_while_both_are_valid() {
        let client = certificate(CLIENT);
        assert!(Version1::is(&client) && !Version1::is(&certificate(CA)));
        assert_eq!(checks(&[OTHER, CA]).check(&client, year(2030)), Ok(()));
        assert_eq!(checks(&[OTHER]).check(&client, year(2030)), Err(CertificateError::UnknownIssuer.into()));
        assert_eq!(checks(&[]).check(&client, year(2030)), Err(CertificateError::UnknownIssuer.into()));
        assert_eq!(checks(&[CA]).check(&client, year(2020)), Err(CertificateError::NotValidYet.into()));
        assert_eq!(checks(&[CA]).check(&client, year(2150)), Err(CertificateError::Expired.into()));
        assert!(checks(&[CA]).check(&certificate(CA), year(2030)).is_err());
        assert!(checks(&[CA]).check(&certificate(SHA1), year(2030)).is_err());
    }

    #[test]
    fn an_authority_may_sign_unless_its_own_certificate_limits_it() {
        use rcgen::{
            BasicConstraints, CertificateParams, GeneralSubtree, IsCa, KeyPair, KeyUsagePurpose, NameConstraints,
        };
        let may_sign = |change: fn(&mut CertificateParams)| {
            let mut params = CertificateParams::default();
            params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
            change(&mut params);
            let signed = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
            super::may_sign(&parsed(signed.der()).unwrap())
        };
        assert!(may_sign(|_| ()));
        assert!(may_sign(|params| params.key_usages = vec![KeyUsagePurpose::KeyCertSign]));
        assert!(!may_sign(|params| params.key_usages = vec![KeyUsagePurpose::DigitalSignature]));
        assert!(!may_sign(|params| params.is_ca = IsCa::ExplicitNoCa));
        assert!(!may_sign(|params| params.is_ca = IsCa::NoCa));
        assert!(!may_sign(|params| {
            let permitted_subtrees = vec![GeneralSubtree::DnsName("example.test".into())];
            params.name_constraints = Some(NameConstraints { permitted_subtrees, excluded_subtrees: vec![] });
        }));
    }

    #[test]
    fn a_certificate_with_one_bit_changed_does_not_count() {
        let (client, checks) = (certificate(CLIENT), checks(&[CA]));
        // What is signed, and the signature. What is around them may be written in several ways.
        let within = parsed(&client).unwrap();
        let parts = [within.tbs_certificate.as_ref(), &*within.signature_value.data];
        let ranges = parts.map(|part| {
            let start = part.as_ptr().addr() - client.as_ptr().addr();
            start * 8..(start + part.len()) * 8
        });
        for bit in ranges.into_iter().flatten() {
            let mut changed = client.to_vec();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert!(checks.check(&changed.into(), year(2030)).is_err(), "bit {bit}");
        }
        for len in 0..client.len() {
            assert!(checks.check(&client[..len].to_vec().into(), year(2030)).is_err(), "{len} bytes");
        }
        assert!(checks.check(&[&client, [0].as_slice()].concat().into(), year(2030)).is_err());
    }
}
