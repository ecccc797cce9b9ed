//! Failures, in the shape and words of `metav1.Status`.

use std::collections::HashSet;

pub(crate) use harbormaster_validation::{FieldError, kinds::qualified};
use serde_json::{Map, Value, json};

/// A refused request. It becomes a `Status` with `status: Failure`.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// HTTP status code.
    pub code: u16,
    /// Machine-readable reason, for example `NotFound`; empty for failures without a reason.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
    /// `details` of the status, which may be empty.
    pub details: Map<String, Value>,
    /// Token with which an expired list can continue; usually empty.
    pub(crate) continue_token: String,
}

/// Outcome of a request that may be refused.
pub(crate) type Result<T> = std::result::Result<T, Failure>;

/// Object that a failure refers to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct About<'a> {
    pub(crate) group: &'a str,
    pub(crate) plural: &'a str,
    pub(crate) kind: &'a str,
    pub(crate) name: &'a str,
}

impl About<'_> {
    /// Formats the object as in `deployments.apps "web"`.
    fn resource(&self) -> String {
        format!("{} \"{}\"", qualified(self.plural, self.group), self.name)
    }

    fn details(&self, kind: &str) -> Map<String, Value> {
        let parts = [("name", self.name), ("group", self.group), ("kind", kind)];
        let given = parts.into_iter().filter(|(_, value)| !value.is_empty());
        given.map(|(key, value)| (key.to_owned(), value.into())).collect()
    }
}

impl Failure {
    /// Creates a failure without details.
    pub(crate) fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self { code, reason, message: message.into(), details: Map::new(), continue_token: String::new() }
    }

    pub(crate) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// Failure for an object whose namespace is not that of the request.
    pub(crate) fn other_namespace() -> Self {
        let why = "the namespace of the provided object does not match the namespace sent on the request";
        Self::bad_request(why)
    }

    /// Failure for an unknown path.
    pub(crate) fn no_such_path() -> Self {
        Self::new(404, "NotFound", "the server could not find the requested resource")
    }

    /// Failure for a path outside the served groups and versions. The response is plain text, not a `Status`.
    pub(crate) fn no_such_page() -> Self {
        Self::new(404, "", "404 page not found")
    }

    /// Failure for invalid request parameters; `kind` is the kind of the options.
    pub(crate) fn invalid_options(kind: &str, error: FieldError) -> Self {
        Self::invalid(About { group: "meta.k8s.io", plural: "", kind, name: "" }, &[error])
    }

    /// Failure for a bad request that kube-apiserver reports as an internal error.
    pub(crate) fn internal(message: impl Into<String>) -> Self {
        Self::new(500, "", message)
    }

    pub(crate) fn wrong_method() -> Self {
        Self::new(405, "MethodNotAllowed", "the server does not allow this method on the requested resource")
    }

    /// Failure that refers to an object.
    fn of(about: About<'_>, code: u16, reason: &'static str, message: String) -> Self {
        Self { details: about.details(about.plural), ..Self::new(code, reason, message) }
    }

    pub(crate) fn not_found(about: About<'_>) -> Self {
        Self::of(about, 404, "NotFound", format!("{} not found", about.resource()))
    }

    pub(crate) fn already_exists(about: About<'_>) -> Self {
        Self::of(about, 409, "AlreadyExists", format!("{} already exists", about.resource()))
    }

    pub(crate) fn conflict(about: About<'_>, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on {}: {why}", about.resource());
        Self::of(about, 409, "Conflict", message)
    }

    pub(crate) fn forbidden(about: About<'_>, why: &str) -> Self {
        Self::of(about, 403, "Forbidden", format!("{} is forbidden: {why}", about.resource()))
    }

    pub(crate) fn invalid(about: About<'_>, errors: &[FieldError]) -> Self {
        let mut all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        // The message tells equal errors only once.
        let mut told = HashSet::new();
        all.retain(|error| told.insert(error.clone()));
        let what = match all.as_slice() {
            [only] => only.clone(),
            all => format!("[{}]", all.join(", ")),
        };
        let kind = qualified(about.kind, about.group);
        let causes =
            errors.iter().map(|e| json!({"reason": e.reason, "message": e.problem, "field": e.field}));
        let mut details = about.details(about.kind);
        details.insert("causes".into(), causes.collect());
        Self { details, ..Self::new(422, "Invalid", format!("{kind} \"{}\" is invalid: {what}", about.name)) }
    }

    pub(crate) fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// Failure for a panic, which is a defect of this server.
    pub(crate) fn panicked() -> Self {
        let message = "This request caused apiserver to panic. Look in the logs for details.";
        Self::new(500, "InternalError", message)
    }

    /// Failure for a body of an unsupported media type.
    pub(crate) fn unsupported_media(message: impl Into<String>) -> Self {
        Self::new(415, "UnsupportedMediaType", message)
    }

    /// Adds a cause to the details.
    pub(crate) fn with_cause(mut self, reason: &str, message: &str) -> Self {
        self.details.insert("causes".into(), json!([{"reason": reason, "message": message}]));
        self
    }

    /// Tells the client to retry after `seconds`.
    pub(crate) fn with_retry_after(mut self, seconds: u64) -> Self {
        self.details.insert("retryAfterSeconds".into(), seconds.into());
        self
    }

    /// Returns the `metav1.Status`.
    pub fn to_value(&self) -> Value {
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
            "code": self.code,
        });
        if !self.reason.is_empty() {
            status["reason"] = self.reason.into();
        }
        // In kube-apiserver, failures with these reasons always have details.
        if !self.details.is_empty() || matches!(self.reason, "NotFound" | "MethodNotAllowed" | "Invalid") {
            status["details"] = Value::Object(self.details.clone());
        }
        if !self.continue_token.is_empty() {
            status["metadata"]["continue"] = self.continue_token.as_str().into();
        }
        status
    }
}

/// Returns the `metav1.Status` of an operation that succeeded and returns no object.
pub(crate) fn done() -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201})
}

/// Returns the `metav1.Status` of a successful deletion.
pub(crate) fn success(details: Value) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

#[cfg(test)]
mod tests {
    use super::*;

    const POD: About<'_> = About { group: "", plural: "pods", kind: "Pod", name: "a" };
    const WEB: About<'_> = About { group: "apps", plural: "deployments", kind: "Deployment", name: "web" };

    #[test]
    fn messages_match_those_of_kube_apiserver() {
        let required = FieldError::required("spec.containers", "");
        let wrong = FieldError::invalid("spec.replicas", -1, "must be greater than or equal to 0");
        let policy = FieldError::unsupported("spec.restartPolicy", "x", &["Always", "Never"]);
        let cases = [
            (Failure::not_found(WEB), 404, "deployments.apps \"web\" not found"),
            (Failure::already_exists(POD), 409, "pods \"a\" already exists"),
            (Failure::conflict(POD, "why"), 409, "Operation cannot be fulfilled on pods \"a\": why"),
            (Failure::forbidden(POD, "why"), 403, "pods \"a\" is forbidden: why"),
            (
                Failure::invalid(WEB, &[wrong]),
                422,
                "Deployment.apps \"web\" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            ),
            (
                Failure::invalid(POD, &[required, policy]),
                422,
                "Pod \"a\" is invalid: [spec.containers: Required value, spec.restartPolicy: Unsupported value: \"x\": \
                 supported values: \"Always\", \"Never\"]",
            ),
        ];
        for (failure, code, message) in cases {
            assert_eq!((failure.code, failure.message.as_str()), (code, message));
        }
    }

    #[test]
    fn the_failure_for_an_invalid_object_lists_the_causes() {
        let status = Failure::invalid(POD, &[FieldError::required("spec.containers", "")]).to_value();
        assert_eq!(
            status["details"],
            json!({"name": "a", "kind": "Pod", "causes": [
                {"reason": "FieldValueRequired", "message": "Required value", "field": "spec.containers"}]})
        );
        assert_eq!((&status["code"], &status["reason"]), (&json!(422), &json!("Invalid")));
    }
}
