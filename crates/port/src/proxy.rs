//! Authenticating proxies that name the user in headers, such as kube-apiserver's aggregator.

use std::collections::BTreeMap;

use http::HeaderMap;
use percent_encoding::percent_decode_str;
use rustls::pki_types::CertificateDer;

use crate::{
    client_certificate::{Authorities, common_name},
    options::RequestHeader,
    user::User,
};

/// The allowed proxies, and their headers.
#[derive(Clone, Debug)]
pub(crate) struct Proxies {
    pub(crate) authorities: Authorities,
    pub(crate) headers: RequestHeader,
}

impl Proxies {
    /// Returns the user that a proxy names; `None` if the request has no certificate or names no user.
    ///
    /// # Errors
    /// If the request has a certificate that does not belong to a proxy. The certificate may belong to a user.
    pub(crate) fn user(
        &self,
        chain: &[CertificateDer<'_>],
        headers: &HeaderMap,
    ) -> Result<Option<User>, String> {
        let Some(own) = chain.first() else { return Ok(None) };
        self.authorities.verify(chain)?;
        let name = common_name(own)?;
        let allowed = &self.headers.allowed_names;
        if !allowed.is_empty() && !allowed.contains(&name) {
            return Err(format!("x509: subject with cn={name} is not in the allowed list"));
        }
        Ok(self.named(headers))
    }

    fn named(&self, headers: &HeaderMap) -> Option<User> {
        let first = |names: &[String]| {
            let values = names.iter().map(|name| texts(headers, name).next().unwrap_or_default());
            values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
        };
        let name = first(&self.headers.username_headers);
        if name.is_empty() {
            return None;
        }
        let groups = self.headers.group_headers.iter().flat_map(|name| texts(headers, name));
        Some(User {
            name,
            uid: first(&self.headers.uid_headers),
            groups: groups.filter(|group| !group.is_empty()).collect(),
            extra: self.extra(headers),
        })
    }

    fn extra(&self, headers: &HeaderMap) -> BTreeMap<String, Vec<String>> {
        let mut extra: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for prefix in &self.headers.extra_header_prefixes {
            let prefix = prefix.trim().to_ascii_lowercase();
            for name in headers.keys() {
                let Some(key) = name.as_str().strip_prefix(&prefix) else { continue };
                let key = percent_decode_str(key).decode_utf8_lossy().into_owned();
                extra.entry(key).or_default().extend(texts(headers, name.as_str()));
            }
        }
        extra
    }
}

fn texts<'a>(headers: &'a HeaderMap, name: &str) -> impl Iterator<Item = String> + 'a {
    let values = headers.get_all(name.trim());
    values.into_iter().map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use http::{HeaderName, HeaderValue};

    use super::*;
    use crate::tests::Authority;

    fn headers(lines: &[(&'static str, &'static str)]) -> HeaderMap {
        lines
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), HeaderValue::from_static(value)))
            .collect()
    }

    fn proxies(authority: &Authority, allowed: &[&str]) -> Proxies {
        Proxies {
            authorities: Authorities::parse(authority.pem().as_bytes()).unwrap(),
            headers: RequestHeader {
                uid_headers: vec!["X-Remote-Uid".into()],
                allowed_names: allowed.iter().map(ToString::to_string).collect(),
                ..RequestHeader::default()
            },
        }
    }

    #[test]
    fn a_proxy_names_the_user_of_a_request() {
        let authority = Authority::new("proxies");
        let chain = [authority.client("front", "").certificate()];
        let user = proxies(&authority, &["front"]).user(
            &chain,
            &headers(&[
                ("x-remote-user", "jane"),
                ("x-remote-uid", "7"),
                ("x-remote-group", "a"),
                ("x-remote-group", ""),
                ("x-remote-group", "b"),
                ("x-remote-extra-acme%2fscope", "one"),
                ("x-remote-extra-acme%2fscope", "two"),
                ("x-other", "c"),
            ]),
        );
        let user = user.unwrap().unwrap();
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("jane", "7"));
        assert_eq!(user.groups, ["a", "b"]);
        assert_eq!(user.extra, [("acme/scope".to_owned(), vec!["one".to_owned(), "two".to_owned()])].into());
    }

    #[test]
    fn headers_from_clients_that_are_not_proxies_are_not_trusted() {
        let (authority, other) = (Authority::new("proxies"), Authority::new("others"));
        let told = headers(&[("x-remote-user", "jane")]);
        let proxies = proxies(&authority, &["front"]);
        let asked = |client: rustls::pki_types::CertificateDer<'static>| proxies.user(&[client], &told);
        assert!(asked(authority.client("front", "").certificate()).unwrap().is_some());
        let error = asked(authority.client("back", "").certificate()).unwrap_err();
        assert_eq!(error, "x509: subject with cn=back is not in the allowed list");
        assert!(asked(other.client("front", "").certificate()).is_err());
        assert!(asked(authority.expired_client("front").certificate()).is_err());
        assert_eq!(proxies.user(&[], &told), Ok(None), "a header alone proves nothing");
        let silent = proxies.user(&[authority.client("front", "").certificate()], &HeaderMap::new());
        assert_eq!(silent, Ok(None));
    }
}
