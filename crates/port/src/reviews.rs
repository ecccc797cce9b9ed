//! Questions to the API server: whose token is this, and may this user do that?

use std::time::Duration;

use bytes::Bytes;
use harbormaster_driver::{ApiClient, ApiError, http::JSON};
use http::Method;
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, json};
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use crate::user::User;

/// How long an answer may take, tries and waiting included.
const LIMIT: Duration = Duration::from_secs(10);
/// Waits between tries.
const PAUSES: [Duration; 4] = [
    Duration::from_millis(500),
    Duration::from_millis(750),
    Duration::from_millis(1125),
    Duration::from_millis(1687),
];
/// Questions at a time. More wait for their turn, so that a flood of tokens cannot use up what the client may send for
/// long.
const AT_ONCE: usize = 64;

/// Asks the API server.
#[derive(Debug)]
pub(crate) struct Reviews {
    client: ApiClient,
    turns: Semaphore,
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
struct Reviewed<S> {
    status: S,
}

impl Reviews {
    pub(crate) fn new(client: ApiClient) -> Self {
        Self { client, turns: Semaphore::new(AT_ONCE) }
    }

    /// Whose token is this?
    pub(crate) async fn token(&self, token: &str) -> Result<TokenStatus, String> {
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": {"token": token},
        });
        self.ask("/apis/authentication.k8s.io/v1/tokenreviews", &review).await
    }

    /// May this user do that? `spec` is from [`access_spec`].
    pub(crate) async fn access(&self, spec: &Value) -> Result<AccessStatus, String> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": spec,
        });
        self.ask("/apis/authorization.k8s.io/v1/subjectaccessreviews", &review).await
    }

    async fn ask<S: DeserializeOwned>(&self, path: &str, review: &Value) -> Result<S, String> {
        let body = Bytes::from(review.to_string());
        let asking = async {
            // The semaphore is never closed.
            let _turn = self.turns.acquire().await;
            self.tries(path, &body).await
        };
        let reply = match timeout(LIMIT, asking).await {
            Ok(reply) => reply.map_err(|e| e.to_string())?,
            Err(_) => return Err(format!("POST {path}: no reply within {LIMIT:?}")),
        };
        let reviewed: Reviewed<S> =
            serde_json::from_slice(&reply).map_err(|e| format!("POST {path}: {e}"))?;
        Ok(reviewed.status)
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

/// `spec` of a SubjectAccessReview about a path.
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
