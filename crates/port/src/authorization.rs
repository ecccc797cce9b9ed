//! Authorization of requests. `system:masters` may do everything, anyone may access some paths, and the API server
//! decides about all other requests.

use std::time::Duration;

use crate::{
    cache::Cache,
    options,
    reviews::{AccessStatus, Reviews, access_spec},
    user::User,
};

const MASTERS: &str = "system:masters";
/// The answer to a review is cached only if the review's verb and path together are shorter than this, in bytes.
const MAX_CACHED_REVIEW: usize = 10_000;

/// Decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    Allowed,
    /// The request is forbidden; contains the authorizer's reason, which may be empty.
    Forbidden(String),
}

/// Authorizes requests.
#[derive(Debug)]
pub(crate) struct Authorizer {
    always: Paths,
    /// `None` without an API server; requests that need its decision are then forbidden.
    reviews: Option<Reviews>,
    authorized: Duration,
    unauthorized: Duration,
    known: Cache<String, AccessStatus>,
}

impl Authorizer {
    /// Returns an authorizer that asks `reviews`.
    ///
    /// # Errors
    /// If a path has a `*` that is not at its end.
    pub(crate) fn new(options: &options::Authorization, reviews: Option<Reviews>) -> Result<Self, String> {
        Ok(Self {
            always: Paths::new(&options.always_allow_paths)?,
            reviews,
            authorized: options.authorized_ttl,
            unauthorized: options.unauthorized_ttl,
            known: Cache::default(),
        })
    }

    /// Decides whether the user may perform the verb on the path.
    ///
    /// # Errors
    /// If the API server does not answer.
    pub(crate) async fn decide(&self, user: &User, verb: &str, path: &str) -> Result<Decision, String> {
        if user.groups.iter().any(|group| group == MASTERS) || self.always.contain(path) {
            return Ok(Decision::Allowed);
        }
        let Some(reviews) = &self.reviews else { return Ok(Decision::Forbidden(String::new())) };
        let status = self.access(reviews, user, verb, path).await?;
        Ok(match status.allowed && !status.denied {
            true => Decision::Allowed,
            false => Decision::Forbidden(status.reason),
        })
    }

    async fn access(
        &self,
        reviews: &Reviews,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<AccessStatus, String> {
        let spec = access_spec(user, verb, path);
        let key = spec.to_string();
        if let Some(known) = self.known.get(&key) {
            return Ok(known);
        }
        let status = reviews.access(&spec).await?;
        if verb.len() + path.len() < MAX_CACHED_REVIEW {
            let time = if status.allowed { self.authorized } else { self.unauthorized };
            self.known.put(key, status.clone(), time);
        }
        Ok(status)
    }
}

/// Paths that anyone may access. A leading slash is ignored.
#[derive(Debug)]
struct Paths {
    exact: Vec<String>,
    beginnings: Vec<String>,
}

impl Paths {
    fn new(patterns: &[String]) -> Result<Self, String> {
        let mut paths = Self { exact: Vec::new(), beginnings: Vec::new() };
        for pattern in patterns {
            let pattern = pattern.strip_prefix('/').unwrap_or(pattern);
            match pattern.strip_suffix('*') {
                Some(beginning) if !beginning.contains('*') => paths.beginnings.push(beginning.to_owned()),
                None if !pattern.contains('*') => paths.exact.push(pattern.to_owned()),
                _ => {
                    let pattern = crate::reply::quoted(pattern);
                    return Err(format!(
                        "--authorization-always-allow-paths: only trailing * allowed in {pattern}"
                    ));
                }
            }
        }
        Ok(paths)
    }

    fn contain(&self, path: &str) -> bool {
        let path = path.strip_prefix('/').unwrap_or(path);
        self.exact.iter().any(|exact| exact == path)
            || self.beginnings.iter().any(|beginning| path.starts_with(beginning.as_str()))
    }
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

    fn user(name: &str, groups: &[&str]) -> User {
        let groups = groups.iter().map(ToString::to_string).collect();
        User { name: name.to_owned(), groups, ..User::default() }
    }

    fn paths(patterns: &[&str]) -> Result<Paths, String> {
        Paths::new(&patterns.iter().map(ToString::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn a_star_is_allowed_only_at_the_end() {
        let some = paths(&["/healthz", "metrics/*", "/a*", "/"]).unwrap();
        for (path, expected) in [
            ("/healthz", true),
            ("/healthz/", false),
            ("/healthz/ping", false),
            ("/metrics", false),
            ("/metrics/slis", true),
            ("/abc", true),
            ("/", true),
            ("/b", false),
        ] {
            assert_eq!(some.contain(path), expected, "{path}");
        }
        assert!(paths(&["*"]).unwrap().contain("/anything"));
        for wrong in ["/a*b", "/*/a", "/a**"] {
            assert!(paths(&[wrong]).unwrap_err().contains("only trailing * allowed"), "{wrong}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_api_server_decides_about_paths_that_are_not_always_allowed_and_its_answers_are_cached() {
        let asked = Arc::new(AtomicUsize::new(0));
        let count = asked.clone();
        let client = api_server(move |path, body| {
            count.fetch_add(1, Ordering::Relaxed);
            assert_eq!(path, "/apis/authorization.k8s.io/v1/subjectaccessreviews");
            assert_eq!(body["spec"]["nonResourceAttributes"], json!({"path": "/metrics", "verb": "get"}));
            match body["spec"]["user"].as_str().unwrap() {
                "jane" => Ok(json!({"status": {"allowed": true}})),
                "both" => Ok(json!({"status": {"allowed": true, "denied": true, "reason": "odd"}})),
                "lost" => Err(403),
                _ => Ok(json!({"status": {"allowed": false, "reason": "no role"}})),
            }
        });
        let options = options::Authorization {
            unauthorized_ttl: Duration::from_secs(1),
            ..options::Authorization::default()
        };
        let authorizer = Authorizer::new(&options, Some(Reviews::new(client))).unwrap();
        let decide = async |name: &str, groups: &[&str], path: &str| {
            authorizer.decide(&user(name, groups), "get", path).await
        };
        let forbidden = |why: &str| Ok(Decision::Forbidden(why.to_owned()));
        assert_eq!(decide("joe", &[MASTERS], "/metrics").await, Ok(Decision::Allowed));
        assert_eq!(decide("joe", &[], "/healthz").await, Ok(Decision::Allowed));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        for _ in 0..2 {
            assert_eq!(decide("jane", &[], "/metrics").await, Ok(Decision::Allowed));
            assert_eq!(decide("joe", &[], "/metrics").await, forbidden("no role"));
        }
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(decide("jane", &[], "/metrics").await, Ok(Decision::Allowed));
        assert_eq!(decide("joe", &[], "/metrics").await, forbidden("no role"));
        assert_eq!(asked.load(Ordering::Relaxed), 3, "refusals are cached for a shorter time here");
        assert_eq!(decide("both", &[], "/metrics").await, forbidden("odd"));
        assert!(decide("lost", &[], "/metrics").await.is_err());
    }

    #[tokio::test]
    async fn without_an_api_server_paths_that_are_not_always_allowed_are_forbidden() {
        let authorizer = Authorizer::new(&options::Authorization::default(), None).unwrap();
        let decision = authorizer.decide(&user("jane", &[]), "get", "/metrics").await;
        assert_eq!(decision, Ok(Decision::Forbidden(String::new())));
    }
}
