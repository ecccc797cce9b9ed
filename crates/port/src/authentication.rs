//! Authentication of requests by a proxy's headers, a client certificate or a token. Requests without credentials are
//! anonymous.

use std::sync::Arc;

use harbormaster_serve::Latest;
use http::HeaderMap;
use rustls::pki_types::CertificateDer;

use crate::{client_certificate, token::Tokens, trust::Trust, user::User};

/// Authenticates requests.
#[derive(Debug)]
pub(crate) struct Authenticator {
    trust: Arc<Latest<Trust>>,
    /// `None` without an API server; tokens are then ignored.
    tokens: Option<Tokens>,
}

impl Authenticator {
    pub(crate) fn new(trust: Arc<Latest<Trust>>, tokens: Option<Tokens>) -> Self {
        Self { trust, tokens }
    }

    /// Returns the user of a request that arrived with the given certificate chain, which may be empty.
    ///
    /// # Errors
    /// If a credential is invalid and no other credential is valid.
    pub(crate) async fn user(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Result<User, String> {
        let mut wrong = Vec::new();
        match self.by_certificate(chain, headers, &mut wrong) {
            Some(user) => return Ok(user.authenticated()),
            None => {
                if let Some(tokens) = &self.tokens {
                    match tokens.user(headers).await {
                        Ok(Some(user)) => return Ok(user.authenticated()),
                        Ok(None) => {}
                        Err(why) => wrong.push(why),
                    }
                }
            }
        }
        if wrong.is_empty() { Ok(User::anonymous()) } else { Err(wrong.join(", ")) }
    }

    fn by_certificate(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
        wrong: &mut Vec<String>,
    ) -> Option<User> {
        let own = chain.first()?;
        let trust = self.trust.get();
        if let Some(proxies) = &trust.proxies {
            match proxies.user(chain, headers) {
                Ok(Some(user)) => return Some(user),
                Ok(None) => {}
                Err(why) => wrong.push(why),
            }
        }
        if let Some(clients) = &trust.clients {
            match clients.verify(chain).and_then(|()| client_certificate::user(own)) {
                Ok(Some(user)) => return Some(user),
                Ok(None) => {}
                Err(why) => wrong.push(format!("verifying certificate failed: {why}")),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::header;
    use serde_json::json;

    use super::*;
    use crate::{
        client_certificate::Authorities,
        options::RequestHeader,
        proxy::Proxies,
        reviews::Reviews,
        tests::{Authority, api_server},
    };

    #[tokio::test]
    async fn any_valid_credential_authenticates_and_invalid_ones_are_rejected() {
        let (clients, proxies, strangers) =
            (Authority::new("clients"), Authority::new("proxies"), Authority::new("strangers"));
        let trust = Trust {
            clients: Some(Authorities::parse(clients.pem().as_bytes()).unwrap()),
            proxies: Some(Proxies {
                authorities: Authorities::parse(proxies.pem().as_bytes()).unwrap(),
                headers: RequestHeader::default(),
            }),
        };
        let client = api_server(|_, body| match body["spec"]["token"] == "good" {
            true => Ok(json!({"status": {"authenticated": true, "user": {"username": "robot"}}})),
            false => Ok(json!({"status": {}})),
        });
        let tokens = Tokens::new(Reviews::new(client), Duration::from_secs(10));
        let authenticator = Authenticator::new(Arc::new(Latest::new(trust)), Some(tokens));
        let nothing = || Vec::new();
        let jane = || vec![clients.client("jane", "dev").certificate()];
        let wrong = || vec![strangers.client("jane", "").certificate()];
        let expired = || vec![clients.expired_client("jane").certificate()];
        let proxy = || vec![proxies.client("front", "").certificate()];
        let nameless = || vec![clients.client("", "dev").certificate()];
        for (what, chain, token, remote, expected) in [
            ("nobody", nothing(), None, None, Some("system:anonymous system:unauthenticated")),
            (
                "a header without a certificate",
                nothing(),
                None,
                Some("joe"),
                Some("system:anonymous system:unauthenticated"),
            ),
            ("a user", jane(), None, None, Some("jane dev system:authenticated")),
            (
                "a user who claims to be someone else",
                jane(),
                None,
                Some("joe"),
                Some("jane dev system:authenticated"),
            ),
            ("a stranger", wrong(), None, None, None),
            ("an expired certificate", expired(), None, None, None),
            ("a stranger with a token", wrong(), Some("good"), None, Some("robot system:authenticated")),
            ("a user with a bad token", jane(), Some("bad"), None, Some("jane dev system:authenticated")),
            ("a token", nothing(), Some("good"), None, Some("robot system:authenticated")),
            ("a bad token", nothing(), Some("bad"), None, None),
            ("a proxy for somebody", proxy(), None, Some("joe"), Some("joe system:authenticated")),
            ("a proxy for itself", proxy(), None, None, None),
            ("a certificate without a name", nameless(), None, None, None),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(token) = token {
                headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
            }
            if let Some(remote) = remote {
                headers.insert("x-remote-user", remote.parse().unwrap());
            }
            let user = authenticator.user(&chain, &headers).await;
            let user = user.map(|user| format!("{} {}", user.name, user.groups.join(" ")));
            assert_eq!(user.as_deref().ok(), expected, "{what}: {user:?}");
        }
    }
}
