//! Reviews of who may do what. Everybody may do everything.

use serde_json::{Value, json};

use crate::{rules::default, time::now};

/// Group, plural, kind, and whether it lives in a namespace.
pub(crate) const REVIEWS: [(&str, &str, &str, bool); 6] = [
    ("authentication.k8s.io", "tokenreviews", "TokenReview", false),
    ("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview", false),
    ("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview", false),
    ("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview", false),
    ("authorization.k8s.io", "localsubjectaccessreviews", "LocalSubjectAccessReview", true),
    ("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview", false),
];

/// The kind of a review, if it is one.
pub(crate) fn kind(group: &str, version: &str, plural: &str) -> Option<&'static str> {
    let found = REVIEWS.iter().find(|(g, p, _, _)| *g == group && *p == plural && version == "v1");
    found.map(|(_, _, kind, _)| *kind)
}

/// The review with its verdict.
pub(crate) fn verdict(group: &str, kind: &str, mut review: Value) -> Value {
    let user =
        json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]});
    let status = match kind {
        "TokenReview" => json!({"authenticated": true, "user": user}),
        "SelfSubjectReview" => json!({"userInfo": user}),
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }),
        _ => json!({"allowed": true}),
    };
    if !review.is_object() {
        review = json!({});
    }
    if kind == "SelfSubjectReview" {
        review["metadata"]["creationTimestamp"] = now().to_rfc3339().into();
    }
    default(&mut review, "metadata", json!({}));
    review["kind"] = kind.into();
    review["apiVersion"] = format!("{group}/v1").into();
    review["status"] = status;
    review
}
