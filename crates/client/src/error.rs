//! Errors of requests.

use std::{error::Error, time::Duration};

use harbormaster_api::protobuf::{self, messages::STATUS};
use http::{HeaderValue, Method, Response, StatusCode, header};
use http_body_util::BodyExt;
use serde::Deserialize;
use thiserror::Error;

use crate::client::ResponseBody;

/// Number of bytes after which the client stops reading the body of an error response.
const ERROR_BODY: usize = 64 << 10;

/// Failure of a request.
#[derive(Clone, Debug, Error)]
pub enum ApiError {
    /// There was no complete response, for example because of a broken connection, a TLS error, or a name that cannot
    /// be resolved.
    #[error("{0}")]
    Unreachable(String),
    /// There was no complete response in time.
    #[error("{what}: no reply within {limit:?}")]
    TimedOut {
        /// Method and path.
        what: String,
        /// The time limit.
        limit: Duration,
    },
    /// The API server refused the request.
    #[error("{}", .0.message)]
    Refused(Refusal),
    /// The [`WriteGate`](crate::WriteGate) is closed, so the request was not sent or was canceled.
    #[error("{0}")]
    GateClosed(String),
}

/// An error response: a `metav1.Status`, or other content.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusal {
    /// HTTP status code.
    pub code: u16,
    /// `reason`, for example `Conflict`; empty if the body is not a `metav1.Status`.
    pub reason: String,
    /// Human-readable message.
    pub message: String,
    /// Time that the server asks the client to wait before the next request.
    pub retry_after: Option<Duration>,
}

impl ApiError {
    /// Returns the HTTP status code if there was a response.
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused(refusal) => Some(refusal.code),
            Self::Unreachable(_) | Self::TimedOut { .. } | Self::GateClosed(_) => None,
        }
    }

    /// Returns the time that the server asks the client to wait before the next request.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused(refusal) => refusal.retry_after,
            Self::Unreachable(_) | Self::TimedOut { .. } | Self::GateClosed(_) => None,
        }
    }

    /// Returns true if the same request may succeed a little later: either there was no response, or its status was 429
    /// (too many requests) or 5xx.
    pub fn is_passing(&self) -> bool {
        match self {
            Self::Unreachable(_) | Self::TimedOut { .. } => true,
            Self::Refused(Refusal { code, .. }) => *code == 429 || *code >= 500,
            Self::GateClosed(_) => false,
        }
    }

    /// Returns true if the client itself logs this error or will log it if it persists, so callers need not log it.
    /// Outages, refused credentials and missing permissions are such errors.
    pub fn is_logged_by_client(&self) -> bool {
        crate::reachability::is_logged(self)
    }

    pub(crate) fn broken(method: &Method, path: &str, error: &(dyn Error + 'static)) -> Self {
        Self::Unreachable(format!("{method} {path}: {}", error_chain(error)))
    }
}

/// Returns the messages of an error and all its causes.
pub fn error_chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let inner_text = inner.to_string();
        if !text.ends_with(&inner_text) {
            text.push_str(": ");
            text.push_str(&inner_text);
        }
        cause = inner.source();
    }
    text
}

/// The fields of `metav1.Status` that are used.
#[derive(Debug, Default, Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
    #[serde(default)]
    reason: String,
    #[serde(default)]
    message: String,
    #[serde(default)]
    details: Option<StatusDetails>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct StatusDetails {
    #[serde(default)]
    retry_after_seconds: u64,
}

impl Refusal {
    /// Reads a `metav1.Status` in JSON or protobuf, for example from an `ERROR` event of a watch.
    ///
    /// # Errors
    /// If the encoding is invalid, or a field has the wrong type.
    pub fn from_status(status: &[u8]) -> serde_json::Result<Self> {
        let Status { code, reason, message, details } = match protobuf::is_meant(status) {
            true => protobuf::decode(&STATUS, protobuf::open(status)?)?,
            false => serde_json::from_slice(status)?,
        };
        let wait = details.map_or(0, |d| d.retry_after_seconds);
        let retry_after = (wait > 0).then(|| Duration::from_secs(wait));
        Ok(Self { code, reason, message, retry_after })
    }

    pub(crate) async fn read(response: Response<ResponseBody>) -> Self {
        let code = response.status();
        let header = retry_after(response.headers().get(header::RETRY_AFTER));
        let body = beginning(response.into_body()).await;
        let mut refusal = Self::from_status(&body).unwrap_or_default();
        refusal.code = code.as_u16();
        refusal.retry_after = header.or(refusal.retry_after);
        if refusal.message.is_empty() {
            refusal.message = plain_message(code, &body);
        }
        refusal
    }
}

/// Reads a `Retry-After` header in seconds; API servers do not use the form with a date.
fn retry_after(value: Option<&HeaderValue>) -> Option<Duration> {
    let seconds = value?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds))
}

async fn beginning(mut body: ResponseBody) -> Vec<u8> {
    let mut read = Vec::new();
    while read.len() < ERROR_BODY
        && let Some(Ok(frame)) = body.frame().await
    {
        if let Ok(data) = frame.into_data() {
            read.extend_from_slice(&data);
        }
    }
    read
}

fn plain_message(code: StatusCode, body: &[u8]) -> String {
    let text = String::from_utf8_lossy(body);
    match text.trim() {
        "" => format!("the server answered {code}"),
        text => format!("the server answered {code}: {}", text.chars().take(200).collect::<String>()),
    }
}
