//! `GET` requests of plugins that fetch objects.

use std::{sync::OnceLock, time::Duration};

use harbormaster_api::Timestamp;
use harbormaster_client::{
    ApiClient, TlsOptions,
    body::{RequestBody, whole},
    error_chain,
    network::{Pool, connector},
};
use harbormaster_framework::{
    api_call::ApiFailure,
    fetch::{WebAccess, WebFailure, WebRequest},
    plugin::BoxFuture,
};
use http::{Request, StatusCode, Uri, header};
use tokio::time::timeout;

use crate::{clock::system_time, live_api::failure};

/// Time limit for a request.
const LIMIT: Duration = Duration::from_secs(15);
/// Maximum length of a reply in bytes.
const LARGEST_REPLY: usize = 64 << 20;

/// Connections to the API server and to other servers.
#[derive(Debug)]
pub(crate) struct LiveWeb {
    api: ApiClient,
    /// Connections to servers whose certificates are checked.
    secure: OnceLock<Result<Pool, String>>,
    /// Connections without TLS, or to servers whose certificates are not checked.
    open: OnceLock<Result<Pool, String>>,
}

impl LiveWeb {
    pub(crate) fn new(api: ApiClient) -> Self {
        Self { api, secure: OnceLock::new(), open: OnceLock::new() }
    }

    /// Returns the connections for a server. The system's certificate authorities are read only if they are needed.
    fn pool(&self, insecure: bool) -> Result<&Pool, String> {
        let pool = if insecure { &self.open } else { &self.secure };
        let made = pool.get_or_init(|| {
            let tls = TlsOptions { insecure, ..TlsOptions::default() }.client_config();
            tls.map(|tls| Pool::new(connector(tls, None, false))).map_err(|error| error_chain(&error))
        });
        made.as_ref().map_err(Clone::clone)
    }

    /// Sends a request. Redirects are not followed: the configuration alone decides where the token is sent.
    async fn send(&self, request: &WebRequest) -> Result<String, (Option<u16>, String)> {
        let no_answer = |why: String| (None, why);
        let address: Uri =
            request.url.parse().map_err(|error: http::uri::InvalidUri| no_answer(error.to_string()))?;
        if address.scheme().is_none() || address.host().is_none() {
            return Err(no_answer("the URL must have the form http://HOST/PATH or https://HOST/PATH".into()));
        }
        let pool = self.pool(request.insecure || address.scheme_str() == Some("http")).map_err(no_answer)?;
        let mut get = Request::get(address).header(header::ACCEPT, "application/json");
        if let Some(token) = &request.bearer_token {
            get = get.header(header::AUTHORIZATION, format!("Bearer {token}"));
        }
        let get = get.body(RequestBody::default()).map_err(|error| no_answer(error.to_string()))?;
        let reply = pool.request(get).await.map_err(|error| no_answer(error_chain(&*error)))?;
        if reply.status() != StatusCode::OK {
            return Err((Some(reply.status().as_u16()), format!("the status is {}", reply.status())));
        }
        let body = whole(reply.into_body(), LARGEST_REPLY).await.map_err(no_answer)?;
        String::from_utf8(body.into()).map_err(|_| no_answer("the reply is not UTF-8".into()))
    }
}

impl WebAccess for LiveWeb {
    fn now(&self) -> Timestamp {
        system_time()
    }

    fn get_from_api<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<String, ApiFailure>> {
        Box::pin(async move {
            let body = self.api.get_within(path, LIMIT).await.map_err(failure)?;
            String::from_utf8(body.into()).map_err(|_| ApiFailure {
                code: None,
                reason: String::new(),
                message: format!("{path}: the reply is not UTF-8"),
            })
        })
    }

    fn get<'a>(&'a self, request: &'a WebRequest) -> BoxFuture<'a, Result<String, WebFailure>> {
        Box::pin(async move {
            let sent = timeout(LIMIT, self.send(request)).await;
            let sent = sent.unwrap_or_else(|_| Err((None, format!("no answer within {LIMIT:?}"))));
            sent.map_err(|(code, why)| WebFailure { url: request.url.clone(), code, why })
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use harbormaster_client::fake_server::{FakeServer, reply};
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt},
        net::TcpListener,
    };

    use super::*;

    /// Starts a server that gives one answer, and returns its address and the requests that it receives.
    async fn serve(answer: &'static str) -> (String, Arc<Mutex<String>>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let seen = Arc::<Mutex<String>>::default();
        let heard = seen.clone();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut request = vec![0; 4096];
                let read = stream.read(&mut request).await.unwrap_or_default();
                heard.lock().unwrap().push_str(&String::from_utf8_lossy(&request[..read]));
                // The client may have gone.
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        (url, seen)
    }

    fn web() -> LiveWeb {
        LiveWeb::new(FakeServer::always(|seen| reply(200, seen.path.clone())).client())
    }

    #[tokio::test]
    async fn a_body_is_returned_if_the_status_is_200() {
        let (url, seen) = serve("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nhi").await;
        let request =
            WebRequest { url: format!("{url}/a?b=c"), bearer_token: Some("t".into()), insecure: true };
        assert_eq!(web().get(&request).await.unwrap(), "hi");
        let seen = seen.lock().unwrap().to_lowercase();
        assert!(
            seen.starts_with("get /a?b=c http/1.1") && seen.contains("authorization: bearer t"),
            "{seen}"
        );
    }

    #[tokio::test]
    async fn failures_name_the_url_and_the_reason() {
        let (moved, _) = serve("HTTP/1.1 302 Found\r\nlocation: /b\r\ncontent-length: 0\r\n\r\n").await;
        let (binary, _) = serve("HTTP/1.1 200 OK\r\ncontent-length: 1\r\n\r\n\u{0}").await;
        let (garbage, _) = serve("nonsense\r\n\r\n").await;
        for (url, why) in [
            (moved.as_str(), "the status is 302"),
            (garbage.as_str(), ": "),
            ("http://127.0.0.1:1/x", ": "),
            ("watcher:2020", "the URL must have the form"),
            ("/path", "the URL must have the form"),
            ("http://a b", "invalid uri"),
        ] {
            let request = WebRequest { url: url.to_owned(), ..WebRequest::default() };
            let failure = web().get(&request).await.unwrap_err().to_string();
            assert!(failure.starts_with(url) && failure.contains(why), "{failure}");
        }
        let request = WebRequest { url: binary, ..WebRequest::default() };
        assert_eq!(web().get(&request).await.unwrap(), "\0");
    }

    #[tokio::test]
    async fn the_api_server_is_asked_through_the_schedulers_client() {
        assert_eq!(web().get_from_api("/apis/x").await.unwrap(), "/apis/x");
        let refusing = LiveWeb::new(FakeServer::always(|_| reply(403, "{}")).client());
        assert_eq!(refusing.get_from_api("/apis/x").await.unwrap_err().code, Some(403));
    }
}
