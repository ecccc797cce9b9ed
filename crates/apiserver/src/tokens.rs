//! Service account tokens (`TokenRequest`). A token has the form of a JSON Web Token and names its account, but is not
//! signed.

use std::time::Duration;

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use harbormaster_api::Timestamp;
use serde_json::{Value, json};

use crate::{
    status::{About, Failure, FieldError, Result},
    value::{default, list, text},
};

/// Issuer and default audience of tokens: the API server.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";
const PREFIX: &str = "system:serviceaccount:";
const LEAST_SECONDS: i64 = 600;
const MOST_SECONDS: i64 = 1 << 32;
/// Third part of a token, in place of the signature.
const UNSIGNED: &str = "not-signed";

/// Issues a token for a service account.
pub(crate) fn issue(account: &Value, mut request: Value, id: &str, now: Timestamp) -> Result<Value> {
    let of_request = |name| About { group: "authentication.k8s.io", plural: "", kind: "TokenRequest", name };
    let (namespace, name) = (text(account, "/metadata/namespace"), text(account, "/metadata/name"));
    for (field, wanted) in [("name", name), ("namespace", namespace)] {
        let given = text(&request, &format!("/metadata/{field}"));
        if !given.is_empty() && given != wanted {
            let why = format!("must match the service account {field} if specified");
            let error = FieldError::invalid(format!("metadata.{field}"), given, why);
            return Err(Failure::invalid(of_request(name), &[error]));
        }
    }
    default(&mut request, "spec", json!({}));
    default(&mut request["spec"], "expirationSeconds", 3600);
    let seconds = request["spec"]["expirationSeconds"].as_i64().unwrap_or_default();
    let wrong = match seconds {
        ..LEAST_SECONDS => Some("may not specify a duration less than 10 minutes"),
        LEAST_SECONDS..=MOST_SECONDS => None,
        _ => Some("may not specify a duration larger than 2^32 seconds"),
    };
    if let Some(why) = wrong {
        let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
        return Err(Failure::invalid(of_request(""), &[error]));
    }
    if list(&request, "/spec/audiences").is_empty() {
        request["spec"]["audiences"] = json!([ISSUER]);
    }
    let end = now + Duration::from_secs(seconds.unsigned_abs());
    let unix = |at: Timestamp| at.0 / 1_000_000_000;
    let uid = text(account, "/metadata/uid");
    let claims = json!({
        "aud": request["spec"]["audiences"], "exp": unix(end), "iat": unix(now), "iss": ISSUER, "jti": id,
        "kubernetes.io": {"namespace": namespace, "serviceaccount": {"name": name, "uid": uid}},
        "nbf": unix(now), "sub": format!("{PREFIX}{namespace}:{name}"),
    });
    let part = |value: &Value| URL_SAFE_NO_PAD.encode(value.to_string());
    let header = json!({"alg": "none", "kid": ""});
    let token = format!("{}.{}.{}", part(&header), part(&claims), URL_SAFE_NO_PAD.encode(UNSIGNED));
    request["kind"] = "TokenRequest".into();
    request["apiVersion"] = "authentication.k8s.io/v1".into();
    request["metadata"] = json!({
        "name": name, "namespace": namespace, "uid": uid, "creationTimestamp": now.to_rfc3339(),
    });
    request["status"] = json!({"token": token, "expirationTimestamp": end.to_rfc3339()});
    Ok(request)
}

/// Returns the user that a service account's token stands for, or `None` if the token is of another kind or has
/// expired.
pub(crate) fn user(token: &str, now: Timestamp) -> Option<Value> {
    let claims = URL_SAFE_NO_PAD.decode(token.split('.').nth(1)?).ok()?;
    let claims: Value = serde_json::from_slice(&claims).ok()?;
    let subject = text(&claims, "/sub");
    let (namespace, _) = subject.strip_prefix(PREFIX)?.split_once(':')?;
    if claims["exp"].as_i64()? <= now.0 / 1_000_000_000 {
        return None;
    }
    Some(json!({
        "username": subject, "uid": claims["kubernetes.io"]["serviceaccount"]["uid"],
        "groups": ["system:serviceaccounts", format!("system:serviceaccounts:{namespace}"), "system:authenticated"],
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_identifies_its_account_until_it_expires() {
        let account = json!({"metadata": {"name": "bob", "namespace": "team", "uid": "u"}});
        let now = Timestamp::from_secs(1_000_000);
        let answer = issue(&account, json!({"spec": {"expirationSeconds": 600}}), "id", now).unwrap();
        let token = text(&answer, "/status/token");
        assert_eq!(token.split('.').count(), 3);
        assert_eq!(text(&answer, "/status/expirationTimestamp"), "1970-01-12T13:56:40Z");
        let found = user(token, now).unwrap();
        assert_eq!(found["username"], "system:serviceaccount:team:bob");
        assert_eq!(found["groups"][1], "system:serviceaccounts:team");
        assert_eq!(user(token, now + Duration::from_secs(600)), None);
        assert_eq!(user("some.other.token", now), None);
        let short = issue(&account, json!({"spec": {"expirationSeconds": 60}}), "id", now).unwrap_err();
        assert_eq!(short.code, 422);
    }
}
