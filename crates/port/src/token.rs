//! Bearer tokens. The API server authenticates them; its answers are cached.

use std::time::Duration;

use http::{HeaderMap, header};
use ring::{hmac, rand::SystemRandom};

use crate::{cache::Cache, reviews::Reviews, single_flight::SingleFlight, user::User};

/// The user of a token, or the reason why the token is invalid.
type Owner = Result<User, String>;
/// A keyed digest of a token.
type Digest = Vec<u8>;

/// Message for an invalid token if the API server provides no message.
const INVALID: &str = "invalid bearer token";

/// Authenticates tokens.
#[derive(Debug)]
pub(crate) struct Tokens {
    reviews: Reviews,
    time: Duration,
    /// Key of the token digests; every process has its own key. Only digests are stored, never tokens. If this is
    /// `None`, nothing is cached.
    key: Option<hmac::Key>,
    known: Cache<Digest, Owner>,
    in_flight: SingleFlight<Digest, Result<Owner, String>>,
}

impl Tokens {
    /// Returns an authenticator that caches all answers for `time`.
    pub(crate) fn new(reviews: Reviews, time: Duration) -> Self {
        // Without random numbers, nothing is cached.
        let key = hmac::Key::generate(hmac::HMAC_SHA256, &SystemRandom::new()).ok();
        Self { reviews, time, key, known: Cache::default(), in_flight: SingleFlight::default() }
    }

    /// Returns the user of a request's token; `None` without a token.
    ///
    /// # Errors
    /// If the token is invalid, or the API server does not answer.
    pub(crate) async fn user(&self, headers: &HeaderMap) -> Result<Option<User>, String> {
        match bearer(headers) {
            Some(token) => self.owner(token).await.map(Some),
            None => Ok(None),
        }
    }

    async fn owner(&self, token: &str) -> Owner {
        let Some(key) = &self.key else { return self.ask(token).await? };
        let digest = hmac::sign(key, token.as_bytes()).as_ref().to_vec();
        if let Some(known) = self.known.get(&digest) {
            return known;
        }
        let ask = async {
            let answer = self.ask(token).await;
            if let Ok(owner) = &answer {
                self.known.put(digest.clone(), owner.clone(), self.time);
            }
            answer
        };
        self.in_flight.answer(digest.clone(), ask).await?
    }

    /// Asks the API server about a token and returns its answer.
    async fn ask(&self, token: &str) -> Result<Owner, String> {
        let status = self.reviews.token(token).await?;
        Ok(match status.authenticated {
            true => Ok(status.user()),
            false if status.error.is_empty() => Err(INVALID.to_owned()),
            false => Err(status.error),
        })
    }
}

/// Returns the token after `Bearer`, which matches regardless of case.
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
    async fn answers_about_tokens_are_cached_for_a_while() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let client = api_server(move |_, body| {
            count.fetch_add(1, Ordering::Relaxed);
            match body["spec"]["token"].as_str().unwrap() {
                "good" => Ok(
                    json!({"status": {"authenticated": true, "user": {"username": "jane", "groups": ["a"]}}}),
                ),
                "broken" => Ok(json!({"status": {"error": "[invalid bearer token, no signature]"}})),
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
            assert_eq!(who("broken").await, Err("[invalid bearer token, no signature]".to_owned()));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 4, "the API server's answers about tokens are cached");
        for _ in 0..2 {
            assert!(who("refused").await.is_err());
        }
        assert_eq!(asked.load(Ordering::Relaxed), 6, "the lack of an answer is not cached");
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_in_many_concurrent_requests_is_reviewed_once() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let client = api_server(move |_, _| {
            count.fetch_add(1, Ordering::Relaxed);
            Err(500)
        });
        let tokens = Tokens::new(Reviews::new(client), Duration::from_secs(10));
        let headers = carrying("Bearer wrong");
        let answers = futures_util::future::join_all((0..150).map(|_| tokens.user(&headers))).await;
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(asked.load(Ordering::Relaxed), 5, "attempts to review one token");
    }
}
