//! Responses, byte for byte the same as kube-scheduler's.

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use http_body_util::Full;
use serde::Serialize;

/// A response.
pub(crate) type Reply = Response<Full<Bytes>>;

const TEXT: &str = "text/plain; charset=utf-8";
const NOSNIFF: &str = "nosniff";
const JSON: &str = "application/json";

/// The `metav1.Status` of a rejected request, with fields in the same order as in Kubernetes.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Empty,
    status: &'static str,
    message: String,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Empty>,
    code: u16,
}

#[derive(Debug, Serialize)]
struct Empty {}

impl Status {
    fn new(code: StatusCode, reason: &'static str, message: String) -> Self {
        Self {
            kind: "Status",
            api_version: "v1",
            metadata: Empty {},
            status: "Failure",
            message,
            reason,
            details: None,
            code: code.as_u16(),
        }
    }

    /// Returns the status for a request whose authentication failed.
    pub(crate) fn unauthorized() -> Self {
        Self::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized".to_owned())
    }

    /// Returns the status for a request that the user is not allowed to make. `why` is the authorizer's reason, or
    /// empty.
    pub(crate) fn forbidden(user: &str, verb: &str, path: &str, why: &str) -> Self {
        let what = no_html(&format!("User {} cannot {verb} path {}", quoted(user), quoted(path)));
        let why = if why.is_empty() { String::new() } else { format!(": {why}") };
        let status = Self::new(StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {what}{why}"));
        Self { details: Some(Empty {}), ..status }
    }

    /// Returns the status for a client that accepts no available content type.
    pub(crate) fn not_acceptable(forms: &str) -> Self {
        let message = format!("only the following media types are accepted: {forms}");
        Self::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    /// Returns the status as JSON, indented if `pretty`.
    pub(crate) fn reply(&self, pretty: bool) -> Reply {
        // A struct of strings and numbers can always be encoded.
        let text = match pretty {
            true => serde_json::to_string_pretty(self),
            false => serde_json::to_string(self).map(|text| text + "\n"),
        };
        // Go's encoder escapes these characters, too; they occur only in strings.
        let text = text.unwrap_or_default();
        let text = text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
        let code = StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        typed(code, JSON, text)
    }
}

/// Returns a text response with the given content type.
pub(crate) fn typed(code: StatusCode, content_type: &str, text: String) -> Reply {
    let mut reply = bare(code, text);
    if let Ok(value) = HeaderValue::from_str(content_type) {
        reply.headers_mut().insert(header::CONTENT_TYPE, value);
    }
    reply
}

/// Returns a text response without a content type.
pub(crate) fn bare(code: StatusCode, text: String) -> Reply {
    let mut reply = Response::new(Full::new(Bytes::from(text)));
    *reply.status_mut() = code;
    reply
}

/// Returns a plain-text response.
pub(crate) fn text(code: StatusCode, text: String) -> Reply {
    typed(code, TEXT, text)
}

/// Prevents browsers from guessing the content type.
pub(crate) fn nosniff(mut reply: Reply) -> Reply {
    reply.headers_mut().insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static(NOSNIFF));
    reply
}

/// Returns an error as plain text; adds a line feed.
pub(crate) fn error(code: StatusCode, message: &str) -> Reply {
    nosniff(text(code, format!("{message}\n")))
}

/// Returns 404 for an unknown path.
pub(crate) fn not_found() -> Reply {
    error(StatusCode::NOT_FOUND, "404 page not found")
}

/// Returns 500 for an internal error.
pub(crate) fn internal_error(uri: &str, why: &str) -> Reply {
    let message = no_html(&format!("Internal Server Error: {}: {why}", quoted(uri)));
    error(StatusCode::INTERNAL_SERVER_ERROR, &message)
}

/// Escapes characters that a browser would interpret.
fn no_html(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Quotes a string as Go does.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if (c as u32) < 0x20 || c as u32 == 0x7f => out.push_str(&format!("\\x{:02x}", c as u32)),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt;

    use super::*;

    async fn body(reply: Reply) -> String {
        String::from_utf8(reply.into_body().collect().await.unwrap().to_bytes().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn refusals_have_the_same_text_as_in_kube_scheduler() {
        let cases = [
            (
                Status::unauthorized(),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}"#,
            ),
            (
                Status::forbidden("system:anonymous", "get", "/a<b", ""),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"system:anonymous\" cannot get path \"/a\u0026lt;b\"","reason":"Forbidden","details":{},"code":403}"#,
            ),
            (
                Status::forbidden("jane", "post", "/metrics", "no role"),
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"forbidden: User \"jane\" cannot post path \"/metrics\": no role","reason":"Forbidden","details":{},"code":403}"#,
            ),
        ];
        for (status, expected) in cases {
            let reply = status.reply(false);
            assert_eq!(reply.headers()[header::CONTENT_TYPE], JSON);
            assert_eq!(body(reply).await, format!("{expected}\n"));
        }
    }

    #[tokio::test]
    async fn errors_contain_no_html() {
        let reply = internal_error("/a<b", "down & out");
        assert_eq!(reply.headers()[header::X_CONTENT_TYPE_OPTIONS], NOSNIFF);
        assert_eq!(body(reply).await, "Internal Server Error: \"/a&lt;b\": down &amp; out\n");
        assert_eq!(body(not_found()).await, "404 page not found\n");
    }
}
