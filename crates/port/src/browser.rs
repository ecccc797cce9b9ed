//! `/debug/page`: a page for a browser, its data, and the question whether a pod would fit.

use std::{fmt, sync::Arc};

use futures_util::future::BoxFuture;
use http::{HeaderName, HeaderValue, Method, StatusCode, header};

use crate::{
    pages::RequestInfo,
    query,
    reply::{self, Reply},
};

/// Path of the page. The page finds everything else relative to it.
pub const PAGE: &str = "/debug/page";
/// Path of the page's data.
pub const DATA: &str = "/debug/page/data";
/// Path of the answers of the page's form.
pub const FIT: &str = "/debug/page/fit";

/// Answer to a request for data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// JSON.
    Json(Arc<str>),
    /// The question is wrong, and why. The reply is JSON with this `error`: for any other status than 200, a browser would
    /// show an error in its console, although the page shows the mistake where it was made.
    Refused(String),
    /// There is no answer now, and why.
    Unavailable(String),
}

/// Returns the current data.
pub type Data = Arc<dyn Fn() -> BoxFuture<'static, Answer> + Send + Sync>;
/// Answers the question whether a pod would fit, which is given by names and values.
pub type Fit = Arc<dyn Fn(Vec<(String, String)>) -> BoxFuture<'static, Answer> + Send + Sync>;

/// A page for a browser.
#[derive(Clone)]
pub struct BrowserPage {
    /// The HTML.
    pub html: &'static str,
    /// The content security policy of the HTML.
    pub policy: &'static str,
    /// The data that the page shows.
    pub data: Data,
    /// Answers of the page's form.
    pub fit: Fit,
}

impl fmt::Debug for BrowserPage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BrowserPage").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl BrowserPage {
    /// Answers a request, if the path is one of the page's.
    pub(crate) async fn answer(&self, asked: &RequestInfo<'_>) -> Option<Reply> {
        if ![PAGE, DATA, FIT].contains(&asked.path) {
            return None;
        }
        if asked.method != Method::GET {
            return Some(reply::text(StatusCode::METHOD_NOT_ALLOWED, "only GET is supported\n".to_owned()));
        }
        Some(match asked.path {
            PAGE => self.html(),
            DATA => data((self.data)().await),
            _ => data((self.fit)(query::pairs(asked.query)).await),
        })
    }

    fn html(&self) -> Reply {
        let page = reply::typed(StatusCode::OK, "text/html; charset=utf-8", self.html.to_owned());
        let mut page = reply::nosniff(page);
        let headers: [(HeaderName, &'static str); 3] = [
            (header::CONTENT_SECURITY_POLICY, self.policy),
            (header::REFERRER_POLICY, "no-referrer"),
            (header::X_FRAME_OPTIONS, "DENY"),
        ];
        for (name, value) in headers {
            page.headers_mut().insert(name, HeaderValue::from_static(value));
        }
        page
    }
}

fn json_reply(json: String) -> Reply {
    reply::nosniff(reply::typed(StatusCode::OK, "application/json", json))
}

fn data(answer: Answer) -> Reply {
    match answer {
        Answer::Json(json) => json_reply(json.as_ref().to_owned()),
        Answer::Refused(why) => json_reply(serde_json::json!({"error": why}).to_string()),
        Answer::Unavailable(why) => reply::text(StatusCode::SERVICE_UNAVAILABLE, why + "\n"),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use http::HeaderMap;

    use super::*;

    /// Returns a page whose form repeats what it was given.
    pub(crate) fn page() -> BrowserPage {
        BrowserPage {
            html: "<!doctype html>",
            policy: "default-src 'none'",
            data: Arc::new(|| Box::pin(async { Answer::Json("{}".into()) })),
            fit: Arc::new(|given| {
                let answer = match given.is_empty() {
                    true => Answer::Refused("nothing is given".to_owned()),
                    false => Answer::Unavailable(format!("{given:?}")),
                };
                Box::pin(async move { answer })
            }),
        }
    }

    #[tokio::test]
    async fn the_page_has_a_policy_and_its_data_have_statuses() {
        for (method, path, query, expected) in [
            (Method::GET, "/debug/page", "", Some(200)),
            (Method::GET, "/debug/page/data", "", Some(200)),
            (Method::GET, "/debug/page/fit", "cpu=1", Some(503)),
            (Method::GET, "/debug/page/fit", "", Some(200)),
            (Method::POST, "/debug/page/data", "", Some(405)),
            (Method::GET, "/debug/page/other", "", None),
            (Method::GET, "/debug/pages", "", None),
        ] {
            let headers = HeaderMap::new();
            let asked = RequestInfo { method: &method, path, query, headers: &headers };
            let reply = page().answer(&asked).await;
            assert_eq!(
                reply.as_ref().map(|reply| reply.status().as_u16()),
                expected,
                "{method} {path}?{query}"
            );
            let policy = reply.and_then(|reply| reply.headers().get("content-security-policy").cloned());
            assert_eq!(policy.is_some(), path == "/debug/page", "{path}");
        }
    }
}
