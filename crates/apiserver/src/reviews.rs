//! Access and token reviews. Everyone may do everything, and every token is valid.

use serde_json::{Value, json};

use crate::{
    kinds::Kind,
    time::now,
    tokens,
    value::{default, text},
};

/// Returns the review with its status filled in.
pub(crate) fn verdict(kind: &Kind, mut review: Value) -> Value {
    let user =
        json!({"username": "admin", "uid": "admin", "groups": ["system:masters", "system:authenticated"]});
    let account = tokens::user(text(&review, "/spec/token"), now());
    let status = match kind.kind.as_str() {
        "TokenReview" => json!({"authenticated": true, "user": account.unwrap_or(user)}),
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
    if kind.kind == "SelfSubjectReview" {
        review["metadata"]["creationTimestamp"] = now().to_rfc3339().into();
    }
    default(&mut review, "metadata", json!({}));
    review["kind"] = kind.kind.as_str().into();
    review["apiVersion"] = kind.api_version().into();
    review["status"] = status;
    review
}
