//! Pages other than health checks. Callers provide the content.

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::SystemTime,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use crate::{
    browser::BrowserPage,
    health::{Checks, Endpoint},
    reply::{self, Reply},
    slis::Slis,
    why::{self, Why},
    zpages::{self, Flag},
};

/// Content type of the Prometheus text format, exactly as kube-scheduler sends it.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// A page with a path.
#[derive(Clone)]
pub struct Page {
    /// Path, for example `/metrics`.
    pub path: &'static str,
    /// Content type, for example [`PROMETHEUS`].
    pub content_type: &'static str,
    /// Returns the current text. Runs on the port's thread, so it may wait, but must not compute for more than a few
    /// milliseconds.
    pub render: Render,
    /// Action for `DELETE` requests, if the page supports them; the response is `metrics reset`.
    pub reset: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Page").field(&self.path).finish()
    }
}

/// Renders the text of a page.
pub type Render = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// Sets the verbosity of the log, for `PUT /debug/flags/v`.
pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// The configuration that `/configz` shows. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Configuration(Arc<Mutex<Value>>);

impl Configuration {
    /// Replaces the configuration.
    pub fn set(&self, config: Value) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = config;
    }

    fn page(&self) -> String {
        let config = &*self.0.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::json!({ "componentconfig": config }).to_string()
    }
}

impl From<Value> for Configuration {
    fn from(config: Value) -> Self {
        Self(Arc::new(Mutex::new(config)))
    }
}

/// Content that a port serves.
#[derive(Clone, Default)]
pub struct Content {
    /// The checks of `/healthz`, `/livez` and `/readyz`.
    pub checks: Checks,
    /// Pages of metrics.
    pub pages: Vec<Page>,
    /// `/configz`: the current configuration, in the `kubescheduler.config.k8s.io/v1` format.
    pub config: Configuration,
    /// `/flagz`: the flags, sorted by name.
    pub flags: Vec<Flag>,
    /// `/statusz`: the version of this program.
    pub version: &'static str,
    /// `/statusz`: the version of Kubernetes that is emulated, for example `1.36`, once it is known.
    pub emulates: Arc<OnceLock<String>>,
    /// `/debug/flags/v`; if absent, nothing is served under `/debug/flags` and `/debug/pprof`.
    pub set_verbosity: Option<SetVerbosity>,
    /// `/debug/why`, if there is somebody to ask.
    pub why: Option<Why>,
    /// `/debug/page`, if there is somebody to ask.
    pub browser: Option<BrowserPage>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("checks", &self.checks)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// The parts of a request that pages use.
#[derive(Debug)]
pub(crate) struct RequestInfo<'a> {
    pub(crate) method: &'a Method,
    /// Path with percent-encoding decoded.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

/// Finds the page for a path.
pub(crate) struct Site {
    endpoints: [Endpoint; 3],
    slis: Slis,
    pages: Vec<Page>,
    config: Configuration,
    flags: Vec<Flag>,
    status: zpages::Status,
    set_verbosity: Option<SetVerbosity>,
    why: Option<Why>,
    browser: Option<BrowserPage>,
}

impl Site {
    pub(crate) fn new(content: Content, started: SystemTime) -> Self {
        let endpoints = content.checks.endpoints();
        let mut paths: Vec<String> = endpoints.iter().map(Endpoint::path).collect();
        paths.extend(["/configz", "/metrics", "/flagz"].map(str::to_owned));
        paths.sort_unstable();
        Self {
            endpoints,
            slis: Slis::new(started),
            pages: content.pages,
            config: content.config,
            flags: content.flags,
            status: zpages::Status { version: content.version, emulates: content.emulates, started, paths },
            set_verbosity: content.set_verbosity,
            why: content.why,
            browser: content.browser,
        }
    }

    /// Answers a request, with 404 if there is no such page. Reads `body` only if it is needed.
    pub(crate) async fn answer(
        &self,
        asked: &RequestInfo<'_>,
        body: impl Future<Output = Result<Bytes, String>>,
    ) -> Reply {
        let health = self.endpoints.iter().find_map(|e| e.answer(asked.path, asked.query, &self.slis));
        if let Some(reply) = health {
            return reply;
        }
        if let Some(page) = self.pages.iter().find(|page| page.path == asked.path) {
            return self.page(page, asked.method).await;
        }
        if let Some(browser) = &self.browser
            && let Some(reply) = browser.answer(asked).await
        {
            return reply;
        }
        match asked.path {
            "/metrics/slis" if asked.method == Method::DELETE => {
                self.slis.reset();
                was_reset()
            }
            "/metrics/slis" => self.measured(self.slis.render()),
            "/configz" => {
                reply::nosniff(reply::typed(StatusCode::OK, "application/json", self.config.page()))
            }
            "/flagz" => zpages::flagz(&self.flags, asked),
            "/statusz" => zpages::statusz(&self.status, asked),
            why::PATH => match &self.why {
                Some(why) => why::answer(why, asked).await,
                None => reply::not_found(),
            },
            path => match &self.set_verbosity {
                Some(set) if path == "/debug/flags/v" => {
                    let body = if asked.method == Method::PUT { Some(body.await) } else { None };
                    zpages::verbosity(set, body)
                }
                Some(_) if path == "/debug/flags" || path.starts_with("/debug/flags/") => {
                    zpages::flag_index()
                }
                Some(_) if path == "/debug/pprof" || path.starts_with("/debug/pprof/") => {
                    zpages::no_profile(path.trim_end_matches('/') == "/debug/pprof")
                }
                _ => reply::not_found(),
            },
        }
    }

    async fn page(&self, page: &Page, method: &Method) -> Reply {
        match &page.reset {
            Some(reset) if method == Method::DELETE => {
                reset();
                was_reset()
            }
            _ if page.content_type == PROMETHEUS => self.measured((page.render)().await),
            _ => reply::typed(StatusCode::OK, page.content_type, (page.render)().await),
        }
    }

    /// Returns a page of metrics, with the header by which scrapers detect that the process has restarted.
    fn measured(&self, text: String) -> Reply {
        let mut reply = reply::typed(StatusCode::OK, PROMETHEUS, text);
        reply.headers_mut().insert("process-start-time-unix", self.status.started_unix().into());
        reply
    }
}

fn was_reset() -> Reply {
    reply::text(StatusCode::OK, "metrics reset\n".to_owned())
}
