//! Servers that answer from memory, for plugins that fetch objects.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use harbormaster_api::Timestamp;
use harbormaster_framework::{
    api_call::ApiFailure,
    fetch::{Web, WebAccess, WebFailure, WebRequest},
    plugin::BoxFuture,
};

/// The API server and other servers. Unknown URLs are answered with 404. Clones share everything.
#[derive(Clone, Debug, Default)]
pub struct FakeWeb(Arc<Mutex<Servers>>);

#[derive(Debug, Default)]
struct Servers {
    now: Timestamp,
    /// Statuses and bodies by URL or, for the API server, by path.
    pages: BTreeMap<String, (u16, String)>,
    requests: Vec<WebRequest>,
}

impl FakeWeb {
    /// Answers requests for a URL, or for a path of the API server, with a status and a body.
    pub fn answer(&self, url: &str, status: u16, body: &str) {
        self.with(|servers| servers.pages.insert(url.to_owned(), (status, body.to_owned())));
    }

    /// Sets the clock.
    pub fn set_now(&self, now: Timestamp) {
        self.with(|servers| servers.now = now);
    }

    /// Returns the requests to other servers than the API server.
    pub fn requests(&self) -> Vec<WebRequest> {
        self.with(|servers| servers.requests.clone())
    }

    /// Returns the plugin's view.
    pub fn web(&self) -> Web {
        Web::new(Arc::new(self.clone()))
    }

    fn with<T>(&self, run: impl FnOnce(&mut Servers) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn page(&self, url: &str) -> Result<String, u16> {
        match self.with(|servers| servers.pages.get(url).cloned()) {
            Some((200, body)) => Ok(body),
            Some((status, _)) => Err(status),
            None => Err(404),
        }
    }
}

impl WebAccess for FakeWeb {
    fn now(&self) -> Timestamp {
        self.with(|servers| servers.now)
    }

    fn get_from_api<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<String, ApiFailure>> {
        let failure = |status| ApiFailure {
            code: Some(status),
            reason: String::new(),
            message: format!("{path}: the status is {status}"),
        };
        Box::pin(std::future::ready(self.page(path).map_err(failure)))
    }

    fn get<'a>(&'a self, request: &'a WebRequest) -> BoxFuture<'a, Result<String, WebFailure>> {
        self.with(|servers| servers.requests.push(request.clone()));
        let failure = |status| WebFailure {
            url: request.url.clone(),
            code: Some(status),
            why: format!("the status is {status}"),
        };
        Box::pin(std::future::ready(self.page(&request.url).map_err(failure)))
    }
}
