//! The current certificates and authorities. Changes apply to new connections.

use std::{
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_serve::{Latest, TlsSource};
use rustls::ServerConfig;

use crate::{certificates::Certificates, tls::Policy, trust::Trust};

/// Certificates, authorities, and the TLS configuration built from them.
#[derive(Debug)]
pub(crate) struct TlsState {
    policy: Policy,
    /// True if clients are asked for certificates, which is the case if client certificates may be valid now or later.
    asks: bool,
    certificates: Latest<Certificates>,
    trust: Arc<Latest<Trust>>,
    config: Latest<ServerConfig>,
    /// Held during changes.
    changing: Mutex<()>,
}

impl TlsState {
    pub(crate) fn new(
        policy: Policy,
        certificates: Certificates,
        trust: Trust,
        asks: bool,
    ) -> Result<Self, rustls::Error> {
        let hints = asks.then(|| trust.names());
        let config = policy.server_config(Arc::new(certificates.clone()), hints)?;
        Ok(Self {
            policy,
            asks,
            certificates: Latest::new(certificates),
            trust: Arc::new(Latest::new(trust)),
            config: Latest::new(config),
            changing: Mutex::new(()),
        })
    }

    pub(crate) fn trust(&self) -> Arc<Latest<Trust>> {
        self.trust.clone()
    }

    pub(crate) fn set_certificates(&self, certificates: Certificates) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        self.certificates.set(certificates);
        self.renew();
    }

    pub(crate) fn change_trust(&self, change: impl FnOnce(&mut Trust)) {
        let _changing = self.changing.lock().unwrap_or_else(PoisonError::into_inner);
        let mut trust = Trust::clone(&self.trust.get());
        change(&mut trust);
        self.trust.set(trust);
        self.renew();
    }

    fn renew(&self) {
        let certificates = Arc::new(Certificates::clone(&self.certificates.get()));
        let hints = self.asks.then(|| self.trust.get().names());
        match self.policy.server_config(certificates, hints) {
            Ok(config) => self.config.set(config),
            Err(error) => {
                tracing::error!(err = %error, "The new TLS configuration cannot be used; the old one stays in use");
            }
        }
    }
}

impl TlsSource for TlsState {
    /// Returns the configuration for a connection to `address`. Clients that do not name a server may get a certificate
    /// for the address.
    fn config(&self, address: Option<IpAddr>) -> Arc<ServerConfig> {
        let config = self.config.get();
        let certificates = self.certificates.get();
        if !certificates.has_addresses() {
            return config;
        }
        // For an IPv4 connection to a dual-stack socket, the address may have either form.
        let own = address.and_then(|address| certificates.choose(&address.to_canonical().to_string()));
        let Some(own) = own else { return config };
        let mut certificates = Certificates::clone(&certificates);
        certificates.default = own.clone();
        let mut config = ServerConfig::clone(&config);
        config.cert_resolver = Arc::new(certificates);
        Arc::new(config)
    }
}
