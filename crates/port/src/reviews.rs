//! TokenReview and SubjectAccessReview.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use bytes::Bytes;
use harbormaster_client::{ApiClient, ApiError, client::JSON};
use http::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::user::User;

/// Time limit of a review, including retries.
const LIMIT: Duration = Duration::from_secs(10);
/// Delays between tries.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(750),
    Duration::from_millis(1125),
    Duration::from_millis(1687),
];
/// Maximum number of concurrent reviews. Further reviews wait, so that a flood of tokens cannot exhaust the client's
/// rate limit for long.
const MAX_CONCURRENT: usize = 64;

/// The kind of a review.
#[derive(Clone, Copy, Debug)]
enum ReviewKind {
    Token,
    Access,
}

impl ReviewKind {
    fn path(self) -> &'static str {
        match self {
            Self::Token => "/apis/authentication.k8s.io/v1/tokenreviews",
            Self::Access => "/apis/authorization.k8s.io/v1/subjectaccessreviews",
        }
    }

    /// Returns the log message for a missing permission to create reviews.
    fn forbidden(self) -> &'static str {
        match self {
            Self::Token => {
                "This scheduler may not create TokenReviews, so the secure port accepts no bearer token. \
                 Bind the scheduler's user to the cluster role system:auth-delegator"
            }
            Self::Access => {
                "This scheduler may not create SubjectAccessReviews, so only members of system:masters may access more \
                 than the secure port's --authorization-always-allow-paths. Bind the scheduler's user to the cluster \
                 role system:auth-delegator"
            }
        }
    }
}

/// Sends reviews to the API server.
#[derive(Debug)]
pub(crate) struct Reviews {
    client: ApiClient,
    turns: Semaphore,
    /// For each kind of review, true if a missing permission has been logged.
    logged: [AtomicBool; 2],
}

/// `status` of a TokenReview.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct TokenStatus {
    pub(crate) authenticated: bool,
    user: UserInfo,
    pub(crate) error: String,
}

#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
struct UserInfo {
    username: String,
    uid: String,
    groups: Option<Vec<String>>,
    extra: Option<std::collections::BTreeMap<String, Vec<String>>>,
}

impl TokenStatus {
    pub(crate) fn user(&self) -> User {
        User {
            name: self.user.username.clone(),
            uid: self.user.uid.clone(),
            groups: self.user.groups.clone().unwrap_or_default(),
            extra: self.user.extra.clone().unwrap_or_default(),
        }
    }
}

/// `status` of a SubjectAccessReview.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub(crate) struct AccessStatus {
    pub(crate) allowed: bool,
    pub(crate) denied: bool,
    pub(crate) reason: String,
}

#[derive(Debug, Deserialize)]
struct Review<S> {
    status: S,
}

impl Reviews {
    pub(crate) fn new(client: ApiClient) -> Self {
        Self { client, turns: Semaphore::new(MAX_CONCURRENT), logged: Default::default() }
    }

    /// Asks the API server for the owner of a token.
    pub(crate) async fn token(&self, token: &str) -> Result<TokenStatus, String> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        self.ask(ReviewKind::Token, &review).await
    }

    /// Asks the API server whether a user may do what `spec` describes. [`access_spec`] creates `spec`.
    pub(crate) async fn access(&self, spec: &Value) -> Result<AccessStatus, String> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        });
        self.ask(ReviewKind::Access, &review).await
    }

    async fn ask<S: DeserializeOwned>(&self, kind: ReviewKind, review: &Value) -> Result<S, String> {
        let path = kind.path();
        let body = Bytes::from(review.to_string());
        let asking = async {
            // The semaphore is never closed.
            let _turn = self.turns.acquire().await;
            self.tries(path, &body).await
        };
        let reply = match timeout(LIMIT, asking).await {
            Ok(reply) => {
                self.heed(kind, &reply);
                reply.map_err(|e| e.to_string())?
            }
            Err(_) => return Err(format!("POST {path}: no reply within {LIMIT:?}")),
        };
        let reviewed: Review<S> = serde_json::from_slice(&reply).map_err(|e| format!("POST {path}: {e}"))?;
        Ok(reviewed.status)
    }

    /// Logs a missing permission once, and again if the permission is granted and later revoked.
    fn heed(&self, kind: ReviewKind, reply: &Result<Bytes, ApiError>) {
        let logged = &self.logged[kind as usize];
        match reply {
            Ok(_) => logged.store(false, Ordering::Relaxed),
            Err(error) if error.code() == Some(403) => {
                if !logged.swap(true, Ordering::Relaxed) {
                    tracing::error!(err = %error, "{}", kind.forbidden());
                }
            }
            Err(_) => {}
        }
    }

    async fn tries(&self, path: &str, body: &Bytes) -> Result<Bytes, ApiError> {
        for pause in PAUSES {
            match self.client.exchange(Method::POST, path, JSON, body.clone()).await {
                Err(error) if error.code().is_some() && error.is_passing() => {
                    sleep(error.retry_after().unwrap_or(pause)).await;
                }
                end => return end,
            }
        }
        self.client.exchange(Method::POST, path, JSON, body.clone()).await
    }
}

/// Returns the `spec` of a SubjectAccessReview about a path.
pub(crate) fn access_spec(user: &User, verb: &str, path: &str) -> Value {
    let mut spec = json!({"nonResourceAttributes": {"path": path, "verb": verb}, "user": user.name});
    if !user.groups.is_empty() {
        spec["groups"] = json!(user.groups);
    }
    if !user.uid.is_empty() {
        spec["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        spec["extra"] = json!(user.extra);
    }
    spec
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use super::*;
    use crate::tests::api_server;

    /// The lines of a log.
    #[derive(Clone, Default)]
    struct Log(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Log {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl Log {
        fn take(&self) -> String {
            String::from_utf8(std::mem::take(&mut *self.0.lock().unwrap())).unwrap()
        }
    }

    #[tokio::test]
    async fn a_missing_permission_is_logged_once_with_a_remedy() {
        let log = Log::default();
        let writer = log.clone();
        let lines =
            tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(move || writer.clone());
        let _logged = tracing::subscriber::set_default(lines.finish());
        let may_ask = Arc::new(AtomicBool::new(false));
        let allowed = may_ask.clone();
        let client = api_server(move |_, _| match allowed.load(Ordering::Relaxed) {
            true => Ok(json!({"status": {}})),
            false => Err(403),
        });
        let reviews = Reviews::new(client);
        for _ in 0..3 {
            assert!(reviews.token("t").await.is_err());
        }
        let told = log.take();
        assert!(told.starts_with("ERROR") && told.lines().count() == 1, "{told}");
        for part in ["may not create TokenReviews", "system:auth-delegator"] {
            assert!(told.contains(part), "{told}");
        }
        assert!(reviews.access(&json!({})).await.is_err());
        assert!(log.take().contains("may not create SubjectAccessReviews"));
        may_ask.store(true, Ordering::Relaxed);
        assert!(reviews.token("t").await.is_ok());
        may_ask.store(false, Ordering::Relaxed);
        assert!(reviews.token("t").await.is_err());
        assert_eq!(
            log.take().lines().count(),
            1,
            "the message is logged again when the permission is lost again"
        );
    }
}
