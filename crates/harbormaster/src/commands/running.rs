//! Access to the secure port of a running scheduler.

use std::{fmt::Write as _, path::PathBuf};

use clap::Args;
use harbormaster_client::{ConnectionConfig, Overrides};

use super::export::Access;

/// Flags that replace the credentials of a kubeconfig for the secure port that `--from` names.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Credentials {
    /// With --from: a file that contains a bearer token
    #[arg(long, value_name = "FILE", requires = "from")]
    token_file: Option<PathBuf>,
    /// With --from: the certificate of the authority that signed the scheduler's certificate, or that certificate itself
    #[arg(long, value_name = "FILE", requires = "from")]
    certificate_authority: Option<PathBuf>,
    /// With --from: accept every certificate
    #[arg(long, requires = "from", conflicts_with = "certificate_authority")]
    insecure_skip_tls_verify: bool,
}

impl Credentials {
    /// Returns the connection to the port at `from`.
    pub(super) fn connection(&self, from: &str, access: &Access) -> ConnectionConfig {
        let overrides = Overrides {
            token_file: self.token_file.clone(),
            authority: self.certificate_authority.clone(),
            insecure: self.insecure_skip_tls_verify,
        };
        ConnectionConfig { master: Some(from.to_owned()), overrides, ..access.connection() }
    }
}

/// Returns a path with a query.
pub(super) fn with_query<'a>(path: &str, pairs: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let mut all = path.to_owned();
    let mut separator = '?';
    for (name, value) in pairs {
        // Writing to a string cannot fail.
        let _ = write!(all, "{separator}{}={}", escaped(name), escaped(value));
        separator = '&';
    }
    all
}

/// Returns a text with everything escaped that has a meaning in a query.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => safe.push(byte.into()),
            // Writing to a string cannot fail.
            byte => drop(write!(safe, "%{byte:02X}")),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_cannot_add_to_a_query() {
        let path = with_query("/fit", [("cpu", "500m"), ("selector", "disk=ssd,zone=a&x=1 é")]);
        assert_eq!(path, "/fit?cpu=500m&selector=disk%3Dssd%2Czone%3Da%26x%3D1%20%C3%A9");
        assert_eq!(with_query("/fit", []), "/fit");
    }
}
