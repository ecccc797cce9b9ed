//! Bearer tokens: whose they are is asked of the API server, and remembered for a while.

use std::time::Duration;

use http::{HeaderMap, header};
use ring::{hmac, rand::SystemRandom};

use crate::{cache::Cache, reviews::Reviews, user::User};

/// Who has which token.
#[derive(Debug)]
pub(crate) struct Tokens {
    reviews: Reviews,
    time: Duration,
    /// Tokens are not kept, only their digests under a key of this process.
    key: Option<hmac::Key>,
    known: Cache<Vec<u8>, Option<User>>,
}

impl Tokens {
    /// Answers hold for `time`.
    pub(crate) fn new(reviews: Reviews, time: Duration) -> Self {
        // Without random numbers nothing is remembered.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        Self { reviews, time, key, known: Cache::default() }
    }

    /// The user whose token a request carries; none if it carries none.
    ///
    /// # Errors
    /// When the token is nobody's, or that cannot be found out.
    pub(crate) async fn user(&self, headers: &HeaderMap) -> Result<Option<User>, String> {
        let Some(token) = bearer(headers) else { return Ok(None) };
        match self.owner(token).await? {
            Some(user) => Ok(Some(user)),
            None => Err("invalid bearer token".to_owned()),
        }
    }

    async fn owner(&self, token: &str) -> Result<Option<User>, String> {
        let key = self.key.as_ref().map(|key| hmac::sign(key, token.as_bytes()).as_ref().to_vec());
        if let Some(known) = key.as_ref().and_then(|key| self.known.get(key)) {
            return Ok(known);
        }
        let status = self.reviews.token(token).await?;
        let owner = match status.authenticated {
            true => Some(status.user()),
            // An error may pass, so it is not remembered.
            false if !status.error.is_empty() => return Err(status.error),
            false => None,
        };
        if let Some(key) = key {
            self.known.put(key, owner.clone(), self.time);
        }
        Ok(owner)
    }
}

/// The token behind `Bearer`, in any case of letters.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?.trim();
    let mut parts = value.splitn(3, ' ');
    let (scheme, token) = (parts.next()?, parts.next()?);
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use std::sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    };

    use serde_json::json;

    use super::*;
    use crate::tests::api_server;

    fn carrying(value: &str) -> HeaderMap {
        [(header::AUTHORIZATION, value.parse().unwrap())].into_iter().collect()
    }

    #[test]
    fn tokens_are_found_where_go_finds_them() {
        for (value, expected) in [
            ("Bearer abc", Some("abc")),
            ("  bearer abc  ", Some("abc")),
            ("BEARER abc def", Some("abc")),
            ("Bearer", None),
            ("Bearer  abc", None),
            ("Basic abc", None),
            ("abc", None),
        ] {
            assert_eq!(bearer(&carrying(value)), expected, "{value:?}");
        }
        assert_eq!(bearer(&HeaderMap::new()), None);
    }

    #[tokio::test(start_paused = true)]
    async fn answers_about_tokens_hold_for_a_while() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let client = api_server(move |_, body| {
            count.fetch_add(1, Ordering::Relaxed);
            match body["spec"]["token"].as_str().unwrap() {
                "good" => Ok(
                    json!({"status": {"authenticated": true, "user": {"username": "jane", "groups": ["a"]}}}),
                ),
                "broken" => Ok(json!({"status": {"error": "no signature"}})),
                "refused" => Err(403),
                _ => Ok(json!({"status": {}})),
            }
        });
        let tokens = Tokens::new(Reviews::new(client), Duration::from_secs(10));
        let who = async |token: &str| {
            let user = tokens.user(&carrying(&format!("Bearer {token}"))).await;
            user.map(|user| user.map(|user| user.name))
        };
        for _ in 0..3 {
            assert_eq!(who("good").await, Ok(Some("jane".to_owned())));
            assert_eq!(who("bad").await, Err("invalid bearer token".to_owned()));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        tokio::time::advance(Duration::from_secs(11)).await;
        assert_eq!(who("good").await, Ok(Some("jane".to_owned())));
        assert_eq!(asked.load(Ordering::Relaxed), 3);
        for _ in 0..2 {
            assert_eq!(who("broken").await, Err("no signature".to_owned()));
            assert!(who("refused").await.is_err());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 7, "errors are not remembered");
    }
}
