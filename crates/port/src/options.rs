//! Flags of the secure port, with kube-scheduler's names and defaults.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::Duration,
};

/// All flags of the secure port.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Flags in the group "Secure serving".
    pub serving: Serving,
    /// Flags in the group "Authentication".
    pub authentication: Authentication,
    /// Flags in the group "Authorization".
    pub authorization: Authorization,
}

/// Address, certificates and TLS settings.
#[derive(Clone, Debug)]
pub struct Serving {
    /// `--bind-address`; an unspecified address means all addresses of both IP families.
    pub bind_address: IpAddr,
    /// `--secure-port`; 0 disables the port.
    pub port: u16,
    /// `--cert-dir`: the directory in which `kube-scheduler.crt` and `kube-scheduler.key` are read or created.
    pub cert_dir: Option<PathBuf>,
    /// `--tls-cert-file`.
    pub cert_file: Option<PathBuf>,
    /// `--tls-private-key-file`.
    pub key_file: Option<PathBuf>,
    /// `--tls-sni-cert-key`.
    pub sni: Vec<SniPair>,
    /// `--tls-min-version`: `VersionTLS12` or `VersionTLS13`; empty means `VersionTLS12`.
    pub min_version: String,
    /// `--tls-cipher-suites`: Go's names of cipher suites for TLS 1.2. The cipher suites of TLS 1.3 are always enabled.
    pub cipher_suites: Vec<String>,
    /// `--tls-curve-preferences`: Go's curve numbers, in any order.
    pub curves: Vec<i32>,
    /// `--http2-max-streams-per-connection`; 0 means the default of 100.
    pub max_streams: u32,
    /// `--disable-http2-serving`.
    pub disable_http2: bool,
    /// `--permit-port-sharing`: SO_REUSEPORT.
    pub share_port: bool,
}

impl Default for Serving {
    fn default() -> Self {
        Self {
            bind_address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            port: 10259,
            cert_dir: None,
            cert_file: None,
            key_file: None,
            sni: Vec::new(),
            min_version: String::new(),
            cipher_suites: Vec::new(),
            curves: Vec::new(),
            max_streams: 0,
            disable_http2: false,
            share_port: false,
        }
    }
}

/// A certificate for certain names: the value of one `--tls-sni-cert-key`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SniPair {
    /// Certificates in PEM, the server's own first.
    pub cert_file: PathBuf,
    /// Private key in PEM.
    pub key_file: PathBuf,
    /// Names and addresses, in which `*.` stands for one label. If empty, the names in the certificate apply.
    pub names: Vec<String>,
}

impl std::str::FromStr for SniPair {
    type Err = String;

    /// Parses `cert,key` or `cert,key:name,name`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (files, names) = match text.split_once(':') {
            Some((files, names)) => (files, Some(names.trim())),
            None => (text, None),
        };
        if names == Some("") {
            return Err("empty names list is not allowed".to_owned());
        }
        let files: Vec<&str> = files.split(',').map(str::trim).collect();
        let [cert, key] = files[..] else {
            return Err("expected comma separated certificate and key file paths".to_owned());
        };
        let names = names.into_iter().flat_map(|names| names.split(','));
        Ok(Self {
            cert_file: cert.into(),
            key_file: key.into(),
            names: names.map(|name| name.trim().to_owned()).collect(),
        })
    }
}

/// Authentication of requests.
#[derive(Clone, Debug)]
pub struct Authentication {
    /// `--authentication-kubeconfig`; without it, the pod's service account is tried.
    pub kubeconfig: Option<PathBuf>,
    /// `--authentication-skip-lookup`: if true, the configmap is not read.
    pub skip_lookup: bool,
    /// `--authentication-tolerate-lookup-failure`: if true, the port opens even if the configmap cannot be read.
    pub tolerate_lookup_failure: bool,
    /// `--authentication-token-webhook-cache-ttl`.
    pub cache_ttl: Duration,
    /// `--client-ca-file`; overrides the configmap.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-*`; these flags override the configmap if they name a file of authorities.
    pub request_header: RequestHeader,
}

impl Default for Authentication {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            skip_lookup: false,
            tolerate_lookup_failure: true,
            cache_ttl: Duration::from_secs(10),
            client_ca_file: None,
            request_header: RequestHeader::default(),
        }
    }
}

/// Authenticating proxies, and their headers.
#[derive(Clone, Debug)]
pub struct RequestHeader {
    /// `--requestheader-client-ca-file`.
    pub client_ca_file: Option<PathBuf>,
    /// `--requestheader-allowed-names`: allowed common names; if empty, all names are allowed.
    pub allowed_names: Vec<String>,
    /// `--requestheader-username-headers`.
    pub username_headers: Vec<String>,
    /// `--requestheader-uid-headers`.
    pub uid_headers: Vec<String>,
    /// `--requestheader-group-headers`.
    pub group_headers: Vec<String>,
    /// `--requestheader-extra-headers-prefix`.
    pub extra_header_prefixes: Vec<String>,
}

impl Default for RequestHeader {
    fn default() -> Self {
        Self {
            client_ca_file: None,
            allowed_names: Vec::new(),
            username_headers: vec!["x-remote-user".to_owned()],
            uid_headers: Vec::new(),
            group_headers: vec!["x-remote-group".to_owned()],
            extra_header_prefixes: vec!["x-remote-extra-".to_owned()],
        }
    }
}

/// Authorization of requests.
#[derive(Clone, Debug)]
pub struct Authorization {
    /// `--authorization-kubeconfig`; without it, the pod's service account is tried.
    pub kubeconfig: Option<PathBuf>,
    /// `--authorization-always-allow-paths`: a `*` at the end matches any suffix.
    pub always_allow_paths: Vec<String>,
    /// `--authorization-webhook-cache-authorized-ttl`.
    pub authorized_ttl: Duration,
    /// `--authorization-webhook-cache-unauthorized-ttl`.
    pub unauthorized_ttl: Duration,
}

impl Default for Authorization {
    fn default() -> Self {
        Self {
            kubeconfig: None,
            always_allow_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).to_vec(),
            authorized_ttl: Duration::from_secs(10),
            unauthorized_ttl: Duration::from_secs(10),
        }
    }
}

impl RequestHeader {
    /// Returns kube-scheduler's message about the names of headers; `None` if the names are valid.
    pub fn problem(&self) -> Option<String> {
        let lists = [
            ("requestheader-username-headers", &self.username_headers),
            ("requestheader-group-headers", &self.group_headers),
            ("requestheader-extra-headers-prefix", &self.extra_header_prefixes),
            ("requestheader-allowed-names", &self.allowed_names),
            ("requestheader-uid-headers", &self.uid_headers),
        ];
        for (flag, names) in lists {
            if names.iter().any(|name| name.trim().is_empty()) {
                return Some(format!("empty value in {flag:?}"));
            }
        }
        let standard = |name: &String| name.eq_ignore_ascii_case("X-Remote-Uid");
        if !self.uid_headers.is_empty() && !self.uid_headers.iter().any(standard) {
            return Some(
                "--requestheader-uid-headers is set without specifying the standard X-Remote-Uid header - API \
                 aggregation will not work"
                    .to_owned(),
            );
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificate_pairs_are_parsed_as_in_kube_scheduler() {
        let read = |text: &str| text.parse::<SniPair>().map(|p| (p.cert_file, p.key_file, p.names));
        assert_eq!(read("a.crt,a.key"), Ok(("a.crt".into(), "a.key".into(), vec![])));
        assert_eq!(
            read("a.crt, a.key:*.foo.com, foo.com"),
            Ok(("a.crt".into(), "a.key".into(), vec!["*.foo.com".into(), "foo.com".into()]))
        );
        assert_eq!(read("a.crt,a.key:").unwrap_err(), "empty names list is not allowed");
        for wrong in ["", "a.crt", "a,b,c"] {
            assert_eq!(
                read(wrong).unwrap_err(),
                "expected comma separated certificate and key file paths",
                "{wrong}"
            );
        }
    }

    #[test]
    fn header_names_must_not_be_empty() {
        assert_eq!(RequestHeader::default().problem(), None);
        let blank = RequestHeader { group_headers: vec![" ".into()], ..RequestHeader::default() };
        assert_eq!(blank.problem().as_deref(), Some("empty value in \"requestheader-group-headers\""));
        let odd = RequestHeader { uid_headers: vec!["X-Uid".into()], ..RequestHeader::default() };
        assert!(odd.problem().unwrap().contains("X-Remote-Uid"));
    }
}
