//! A port on the loopback interface without TLS and authentication, for the page of a sandbox, or of a scheduler to which
//! the process passes the questions on.
//!
//! Other web sites that the browser shows must not read the answers: requests that name another host are refused, since
//! such a site could let its name lead to this address.

use std::{
    convert::Infallible,
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Arc,
};

use harbormaster_serve::{Admission, Client, Limits, Server, listen};
use http::{HeaderValue, Request, StatusCode, header};
use hyper::{body::Incoming, service::service_fn};
use tokio::{sync::oneshot, task::JoinHandle};

use crate::{
    browser::{BrowserPage, PAGE},
    pages::RequestInfo,
    query,
    reply::{self, Reply},
    why::{self, Why},
};

const MAX_CONNECTIONS: usize = 64;

/// An open port. Dropping the value closes the port.
#[derive(Debug)]
pub struct LoopbackPort {
    address: SocketAddr,
    _stop: oneshot::Sender<()>,
    _task: JoinHandle<usize>,
}

/// The content of the port.
struct Open {
    page: BrowserPage,
    why: Why,
}

impl LoopbackPort {
    /// Opens a free port on 127.0.0.1 and serves the page with a task of the current runtime.
    ///
    /// # Errors
    /// If no port can be opened.
    pub fn start(page: BrowserPage, why: Why) -> io::Result<Self> {
        let listener = listen(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0), false)?;
        let address = listener.local_addr()?;
        let open = Arc::new(Open { page, why });
        let service = move |_: Client| {
            let open = open.clone();
            service_fn(move |request| {
                let open = open.clone();
                async move { Ok::<_, Infallible>(open.answer(&request).await) }
            })
        };
        let server = Server {
            name: "page",
            limits: Limits::default(),
            admission: Admission::CloseIdle(MAX_CONNECTIONS),
            tls: None,
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let stopped = async {
            // Dropping the sender is the signal.
            let _ = stopped.await;
        };
        let task = tokio::spawn(server.run(listener, service, stopped));
        Ok(Self { address, _stop: stop, _task: task })
    }

    /// Returns the URL of the page.
    pub fn url(&self) -> String {
        format!("http://{}{PAGE}", self.address)
    }
}

impl Open {
    async fn answer(&self, request: &Request<Incoming>) -> Reply {
        let uri = request.uri();
        let host = request.headers().get(header::HOST);
        let host = host.and_then(|host| host.to_str().ok()).or(uri.authority().map(|host| host.as_str()));
        let mut reply = match (host.is_some_and(is_local), query::path(uri.path())) {
            (false, _) => reply::text(StatusCode::FORBIDDEN, "only localhost is served here\n".to_owned()),
            (true, None) => reply::text(StatusCode::BAD_REQUEST, "400 Bad Request".to_owned()),
            (true, Some(path)) => {
                let (method, headers) = (request.method(), request.headers());
                let asked =
                    RequestInfo { method, path: &path, query: uri.query().unwrap_or_default(), headers };
                self.page(&asked).await
            }
        };
        reply.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        reply
    }

    async fn page(&self, asked: &RequestInfo<'_>) -> Reply {
        match self.page.answer(asked).await {
            Some(reply) => reply,
            None if asked.path == why::PATH => why::answer(&self.why, asked).await,
            None => reply::not_found(),
        }
    }
}

/// Returns true if the host of a request is this machine, with or without a port.
fn is_local(host: &str) -> bool {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name);
    name == "localhost" || name == "127.0.0.1"
}

#[cfg(test)]
mod tests {
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };

    use super::*;
    use crate::{browser::tests::page, why::Told};

    #[tokio::test]
    async fn the_page_is_served_to_this_machine_only() {
        let why: Why = Arc::new(|_, _| Box::pin(async { Told::Unknown }));
        let port = LoopbackPort::start(page(), why).unwrap();
        assert_eq!(port.url(), format!("http://{}/debug/page", port.address));
        for (path, host, expected) in [
            ("/debug/page", "127.0.0.1:80", "200"),
            ("/debug/page/data", "localhost", "200"),
            ("/debug/why?namespace=a&pod=b", "localhost:1", "200"),
            ("/metrics", "localhost", "404"),
            ("/debug/page", "evil.example", "403"),
            ("/debug/page/data", "localhost.evil.example:80", "403"),
            ("/%zz", "localhost", "400"),
        ] {
            let mut stream = TcpStream::connect(port.address).await.unwrap();
            let head = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
            stream.write_all(head.as_bytes()).await.unwrap();
            let mut reply = String::new();
            stream.read_to_string(&mut reply).await.unwrap();
            assert_eq!(reply.split(' ').nth(1), Some(expected), "{host}{path}");
        }
    }
}
