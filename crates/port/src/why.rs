//! `/debug/why`: the state of a pod that has no node.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    pages::RequestInfo,
    query,
    reply::{self, Reply},
};

/// Path of the questions.
pub const PATH: &str = "/debug/why";

/// Value of `state` in the answer about a pod that does not wait for the scheduler.
pub const NOT_WAITING: &str = "notWaiting";

/// Answer to a question about a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Told {
    /// The state of the pod, in JSON.
    State(String),
    /// The scheduler does not wait with such a pod.
    Unknown,
    /// There is no answer now, and why.
    Unavailable(String),
}

/// Answers questions about pods, which are given by namespace and name.
pub type Why = Arc<dyn Fn(String, String) -> BoxFuture<'static, Told> + Send + Sync>;

/// Answers a request such as `/debug/why?namespace=shop&pod=web-7`.
pub(crate) async fn answer(why: &Why, asked: &RequestInfo<'_>) -> Reply {
    if asked.method != Method::GET {
        return reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n".to_owned());
    }
    let pairs = query::pairs(asked.query);
    let value = |name: &str| {
        let given = pairs.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone());
        given.filter(|value| !value.is_empty())
    };
    let (Some(namespace), Some(pod)) = (value("namespace"), value("pod")) else {
        let usage = "name the pod, as in /debug/why?namespace=default&pod=web\n";
        return reply::text(StatusCode::BAD_REQUEST, usage.to_owned());
    };
    match why(namespace.clone(), pod.clone()).await {
        Told::State(state) => told(&state),
        Told::Unknown => told(&not_waiting(&namespace, &pod).to_string()),
        Told::Unavailable(reason) => reply::text(StatusCode::SERVICE_UNAVAILABLE, reason + "\n"),
    }
}

fn told(text: &str) -> Reply {
    reply::nosniff(reply::typed(StatusCode::OK, "application/json", text.to_owned()))
}

/// Returns the answer about a pod that the scheduler does not know or no longer waits with. It is no error: a pod may get
/// its node just before the question.
fn not_waiting(namespace: &str, pod: &str) -> Value {
    json!({
        "pod": format!("{namespace}/{pod}"),
        "state": NOT_WAITING,
        "message": "does not wait for this scheduler: it does not exist, has a node, is being deleted, or names another \
                    scheduler",
    })
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn a_question_names_a_pod_and_the_answer_has_a_status() {
        let why: Why = Arc::new(|namespace, pod| {
            let told = match (namespace.as_str(), pod.as_str()) {
                ("shop", "web 7") => Told::State("{}".to_owned()),
                ("shop", _) => Told::Unknown,
                _ => Told::Unavailable("later".to_owned()),
            };
            Box::pin(async move { told })
        });
        for (method, query, expected) in [
            (Method::GET, "namespace=shop&pod=web+7", 200),
            (Method::GET, "namespace=shop&pod=other", 200),
            (Method::GET, "namespace=x&pod=y", 503),
            (Method::GET, "pod=y", 400),
            (Method::GET, "namespace=&pod=y", 400),
            (Method::DELETE, "namespace=shop&pod=web+7", 405),
        ] {
            let headers = HeaderMap::new();
            let asked = RequestInfo { method: &method, path: "/debug/why", query, headers: &headers };
            assert_eq!(answer(&why, &asked).await.status().as_u16(), expected, "{method} {query}");
        }
    }

    #[test]
    fn a_pod_that_does_not_wait_is_named_whatever_its_name_contains() {
        let told = not_waiting("shop", "a\"b");
        assert_eq!((&told["pod"], &told["state"]), (&json!("shop/a\"b"), &json!("notWaiting")));
    }
}
