//! The current authorities, from files and the cluster.

use crate::{client_certificate::Authorities, proxy::Proxies};

/// Certificate authorities for clients and proxies. Without them, no certificate is valid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trust {
    pub(crate) clients: Option<Authorities>,
    pub(crate) proxies: Option<Proxies>,
}

impl Trust {
    /// Returns the names of all authorities, which clients use to choose a certificate.
    pub(crate) fn names(&self) -> Vec<rustls::DistinguishedName> {
        let proxies = self.proxies.as_ref().map(|proxies| &proxies.authorities);
        let mut names = Vec::new();
        for authority in self.clients.iter().chain(proxies).flat_map(Authorities::names) {
            if !names.iter().any(|known: &rustls::DistinguishedName| known.as_ref() == authority.as_ref()) {
                names.push(authority.clone());
            }
        }
        names
    }
}
