//! What is served besides health: pages that others make.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Method, StatusCode};
use serde_json::Value;

use crate::{
    health::{Checks, Endpoint},
    reply::{self, Reply},
    slis::Slis,
    zpages::{self, Flag},
};

/// The content type of Prometheus' text format, as kube-scheduler gives it.
pub const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// A text under a path.
#[derive(Clone)]
pub struct Page {
    /// For example `/metrics`.
    pub path: &'static str,
    /// For example [`PROMETHEUS`].
    pub content_type: &'static str,
    /// The text as it is now. Runs on the port's thread: it may wait, but not work for more than milliseconds.
    pub render: Render,
    /// What `DELETE` does, if it does something: it is answered with `metrics reset`.
    pub reset: Option<Arc<dyn Fn() + Send + Sync>>,
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Page").field(&self.path).finish()
    }
}

/// Makes a page's text.
pub type Render = Arc<dyn Fn() -> BoxFuture<'static, String> + Send + Sync>;

/// Sets the verbosity of the log, as `PUT /debug/flags/v` asks.
pub type SetVerbosity = Arc<dyn Fn(u32) + Send + Sync>;

/// A configuration that may be replaced while it is shown. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Configuration(Arc<Mutex<Value>>);

impl Configuration {
    /// Shows that one from now on.
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

/// Everything that a port serves.
#[derive(Clone, Default)]
pub struct Content {
    /// `/healthz`, `/livez`, `/readyz`.
    pub checks: Checks,
    /// Metrics.
    pub pages: Vec<Page>,
    /// `/configz`: the configuration that counts, in the form of `kubescheduler.config.k8s.io/v1`.
    pub config: Configuration,
    /// `/flagz`, sorted by name.
    pub flags: Vec<Flag>,
    /// `/statusz`: the version of this program.
    pub version: &'static str,
    /// `/debug/flags/v`; without it nothing is served under `/debug`.
    pub set_verbosity: Option<SetVerbosity>,
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Content")
            .field("checks", &self.checks)
            .field("pages", &self.pages)
            .finish_non_exhaustive()
    }
}

/// A request, as far as it matters for what is answered.
#[derive(Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    /// Without escapes.
    pub(crate) path: &'a str,
    pub(crate) query: &'a str,
    pub(crate) headers: &'a HeaderMap,
}

/// Finds what is served under which path.
pub(crate) struct Site {
    endpoints: [Endpoint; 3],
    slis: Slis,
    pages: Vec<Page>,
    config: Configuration,
    flags: Vec<Flag>,
    status: zpages::Status,
    set_verbosity: Option<SetVerbosity>,
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
            status: zpages::Status { version: content.version, started, paths },
            set_verbosity: content.set_verbosity,
        }
    }

    /// What is served there; 404 if nothing is. `body` is asked for where it is needed.
    pub(crate) async fn answer(
        &self,
        asked: &Asked<'_>,
        body: impl Future<Output = Result<Bytes, String>>,
    ) -> Reply {
        let health = self.endpoints.iter().find_map(|e| e.answer(asked.path, asked.query, &self.slis));
        if let Some(reply) = health {
            return reply;
        }
        if let Some(page) = self.pages.iter().find(|page| page.path == asked.path) {
            return self.page(page, asked.method).await;
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

    /// A page of metrics, with the header by which scrapers tell that a process is a new one.
    fn measured(&self, text: String) -> Reply {
        let mut reply = reply::typed(StatusCode::OK, PROMETHEUS, text);
        reply.headers_mut().insert("process-start-time-unix", self.status.started_unix().into());
        reply
    }
}

fn was_reset() -> Reply {
    reply::text(StatusCode::OK, "metrics reset\n".to_owned())
}
