//! TLS: versions, cipher suites, key exchange and optional client certificates.

use std::sync::Arc;

use harbormaster_serve::{HTTP1, HTTP2};
use rustls::{
    CipherSuite, DigitallySignedStruct, DistinguishedName, NamedGroup, ServerConfig, SignatureScheme,
    SupportedProtocolVersion,
    client::danger::HandshakeSignatureValid,
    crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime},
    server::{
        ResolvesServerCert,
        danger::{ClientCertVerified, ClientCertVerifier},
    },
    version::{TLS12, TLS13},
};

use crate::options::Serving;

/// Go's cipher suites for TLS 1.2 that are supported here.
const SUITES: [(&str, CipherSuite); 8] = [
    ("TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        CipherSuite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    ("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256),
    ("TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384", CipherSuite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
    ("TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256", CipherSuite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256),
];
/// The cipher suites of TLS 1.3, which are always enabled.
const ALWAYS_ON: [&str; 3] =
    ["TLS_AES_128_GCM_SHA256", "TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256"];
/// Cipher suites that only Go supports: RSA key exchange, CBC, RC4 and 3DES.
const OLD_SUITES: [&str; 16] = [
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_ECDSA_WITH_RC4_128_SHA",
    "TLS_ECDHE_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
    "TLS_ECDHE_RSA_WITH_RC4_128_SHA",
    "TLS_RSA_WITH_3DES_EDE_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA",
    "TLS_RSA_WITH_AES_128_CBC_SHA256",
    "TLS_RSA_WITH_AES_128_GCM_SHA256",
    "TLS_RSA_WITH_AES_256_CBC_SHA",
    "TLS_RSA_WITH_AES_256_GCM_SHA384",
    "TLS_RSA_WITH_RC4_128_SHA",
];
/// Go's key exchanges that are supported here, with their numbers.
const GROUPS: [(i32, NamedGroup); 3] =
    [(23, NamedGroup::secp256r1), (24, NamedGroup::secp384r1), (29, NamedGroup::X25519)];
/// Key exchanges that only Go supports.
const OTHER_GROUPS: [(i32, &str); 4] =
    [(25, "CurveP521"), (4587, "SecP256r1MLKEM768"), (4588, "X25519MLKEM768"), (4589, "SecP384r1MLKEM1024")];

/// The TLS settings from the flags.
#[derive(Clone, Debug)]
pub(crate) struct Policy {
    provider: Arc<CryptoProvider>,
    versions: Vec<&'static SupportedProtocolVersion>,
    protocols: Vec<Vec<u8>>,
}

impl Policy {
    /// Reads the flags. An error contains the unsupported value.
    pub(crate) fn new(serving: &Serving) -> Result<Self, String> {
        let mut provider = ring::default_provider();
        if !serving.cipher_suites.is_empty() {
            let wanted = suites(&serving.cipher_suites)?;
            provider.cipher_suites.retain(|suite| suite.tls13().is_some() || wanted.contains(&suite.suite()));
        }
        if !serving.curves.is_empty() {
            let wanted = groups(&serving.curves)?;
            provider.kx_groups.retain(|group| wanted.contains(&group.name()));
        }
        let protocols = match serving.disable_http2 {
            true => vec![HTTP1.to_vec()],
            false => vec![HTTP2.to_vec(), HTTP1.to_vec()],
        };
        Ok(Self { provider: Arc::new(provider), versions: versions(&serving.min_version)?, protocols })
    }

    pub(crate) fn provider(&self) -> &Arc<CryptoProvider> {
        &self.provider
    }

    /// Returns the configuration for connections. If `hints` is present, clients are asked for a certificate; `hints`
    /// contains the names of the authorities and may be empty.
    pub(crate) fn server_config(
        &self,
        certificates: Arc<dyn ResolvesServerCert>,
        hints: Option<Vec<DistinguishedName>>,
    ) -> Result<ServerConfig, rustls::Error> {
        let builder = ServerConfig::builder_with_provider(self.provider.clone())
            .with_protocol_versions(&self.versions)?;
        let builder = match hints {
            Some(hints) => builder.with_client_cert_verifier(Arc::new(AnyClientCertificate {
                hints,
                provider: self.provider.clone(),
            })),
            None => builder.with_no_client_auth(),
        };
        let mut config = builder.with_cert_resolver(certificates);
        config.alpn_protocols.clone_from(&self.protocols);
        Ok(config)
    }
}

fn versions(min: &str) -> Result<Vec<&'static SupportedProtocolVersion>, String> {
    match min {
        "" | "VersionTLS12" => Ok(vec![&TLS12, &TLS13]),
        "VersionTLS13" => Ok(vec![&TLS13]),
        "VersionTLS10" | "VersionTLS11" => Err(format!(
            "--tls-min-version: {min} is insecure and not supported: set VersionTLS12 or VersionTLS13"
        )),
        other => Err(format!("unknown tls version {other:?}")),
    }
}

fn suites(names: &[String]) -> Result<Vec<CipherSuite>, String> {
    let mut wanted = Vec::new();
    for name in names.iter().map(String::as_str) {
        match SUITES.iter().find(|(known, _)| *known == name) {
            Some((_, suite)) => wanted.push(*suite),
            None if ALWAYS_ON.contains(&name) => {}
            None if OLD_SUITES.contains(&name) => {
                let all: Vec<&str> = SUITES.iter().map(|(name, _)| *name).collect();
                return Err(format!(
                    "--tls-cipher-suites: {name} is insecure and not supported: choose from {}",
                    all.join(", ")
                ));
            }
            None => return Err(format!("Cipher suite {name} not supported or doesn't exist")),
        }
    }
    Ok(wanted)
}

fn groups(numbers: &[i32]) -> Result<Vec<NamedGroup>, String> {
    let mut wanted = Vec::new();
    for (at, number) in numbers.iter().enumerate() {
        if !(1..=i32::from(u16::MAX)).contains(number) {
            return Err(format!("curve preference {number} is out of range (must be 1-65535)"));
        }
        if numbers[..at].contains(number) {
            return Err(format!("duplicate curve preference {number}"));
        }
        if let Some((_, name)) = OTHER_GROUPS.iter().find(|(other, _)| other == number) {
            return Err(format!(
                "--tls-curve-preferences: {number} ({name}) is not supported: choose from 23 (CurveP256), \
                 24 (CurveP384) and 29 (X25519)"
            ));
        }
        match GROUPS.iter().find(|(known, _)| known == number) {
            Some((_, group)) => wanted.push(*group),
            None => {
                return Err(format!("curve preference {number} is not supported by the current Go version"));
            }
        }
    }
    Ok(wanted)
}

/// Accepts any certificate whose private key the client holds. Each request is authenticated later.
#[derive(Debug)]
struct AnyClientCertificate {
    hints: Vec<DistinguishedName>,
    provider: Arc<CryptoProvider>,
}

impl ClientCertVerifier for AnyClientCertificate {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &self.hints
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(change: impl FnOnce(&mut Serving)) -> Result<Policy, String> {
        let mut serving = Serving::default();
        change(&mut serving);
        Policy::new(&serving)
    }

    #[test]
    fn the_flags_determine_the_tls_settings() {
        let names = ["TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256"].map(str::to_owned);
        let chosen = policy(|s| s.cipher_suites = names.to_vec()).unwrap();
        let old: Vec<_> = chosen.provider.cipher_suites.iter().filter(|s| s.tls13().is_none()).collect();
        assert_eq!(old.len(), 1);
        assert_eq!(chosen.provider.cipher_suites.len(), 4, "the suites of TLS 1.3 stay enabled");
        let chosen = policy(|s| s.curves = vec![29, 23]).unwrap();
        assert_eq!(chosen.provider.kx_groups.len(), 2);
        assert_eq!(policy(|s| s.min_version = "VersionTLS13".into()).unwrap().versions.len(), 1);
        assert_eq!(policy(|s| s.disable_http2 = true).unwrap().protocols, [HTTP1]);
    }

    #[test]
    fn every_suite_in_the_table_is_available() {
        for (name, suite) in SUITES {
            let known = ring::default_provider().cipher_suites.iter().any(|s| s.suite() == suite);
            assert!(known, "{name}");
        }
    }

    #[test]
    fn unsupported_values_are_rejected() {
        for (serving, expected) in [
            (policy(|s| s.min_version = "TLS12".into()), "unknown tls version \"TLS12\""),
            (policy(|s| s.min_version = "VersionTLS11".into()), "set VersionTLS12 or VersionTLS13"),
            (policy(|s| s.cipher_suites = vec!["X".into()]), "Cipher suite X not supported or doesn't exist"),
            (
                policy(|s| s.cipher_suites = vec!["TLS_RSA_WITH_AES_128_CBC_SHA".into()]),
                "TLS_RSA_WITH_AES_128_CBC_SHA is insecure and not supported",
            ),
            (policy(|s| s.curves = vec![0]), "curve preference 0 is out of range (must be 1-65535)"),
            (policy(|s| s.curves = vec![23, 23]), "duplicate curve preference 23"),
            (policy(|s| s.curves = vec![9]), "curve preference 9 is not supported by the current Go version"),
            (policy(|s| s.curves = vec![4588]), "4588 (X25519MLKEM768) is not supported"),
        ] {
            let error = serving.unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }
}
