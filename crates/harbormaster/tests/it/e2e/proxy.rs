//! A proxy that stands in front of an API server and injects faults.
//!
//! Rules with a bounded number of uses make the proxy answer requests wrongly, late or not at all. Open watches can be
//! cut, and lines can be injected into them. The proxy records every request.

use std::{
    io::{BufRead, BufReader, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use harbormaster_oracle::components::{Endpoint, unchecked_tls};
use ureq::{
    Agent,
    http::{Request as HttpRequest, Response},
};

/// A received request.
#[derive(Clone, Debug)]
pub struct Request {
    pub method: String,
    /// Path with the query.
    pub path: String,
    content_type: String,
    pub body: Vec<u8>,
}

impl Request {
    pub fn is_bind_of(&self, pod: &str) -> bool {
        self.method == "POST" && self.path.ends_with(&format!("/pods/{pod}/binding"))
    }

    pub fn is_status_of(&self, pod: &str) -> bool {
        self.method == "PATCH" && self.path.ends_with(&format!("/pods/{pod}/status"))
    }

    pub fn is_delete_of(&self, pod: &str) -> bool {
        self.method == "DELETE" && self.path.ends_with(&format!("/pods/{pod}"))
    }

    /// Returns true if the request creates an event about the pod.
    pub fn is_event_about(&self, pod: &str) -> bool {
        self.method == "POST"
            && self.path.ends_with("/events")
            && String::from_utf8_lossy(&self.body).contains(&format!("\"name\":\"{pod}\""))
    }

    /// Returns true if the request creates or updates an event.
    pub fn is_write_of_an_event(&self) -> bool {
        self.method != "GET" && self.path.contains("/events")
    }

    /// Returns true if the request lists `resource`, whether in pages or as a stream.
    pub fn is_list_of(&self, resource: &str) -> bool {
        self.is_get_of(resource) && (!self.is_watch() || self.is_streaming_list())
    }

    /// Returns true if the request is a watch of `resource` that starts at a resource version.
    pub fn is_watch_of(&self, resource: &str) -> bool {
        self.is_get_of(resource) && self.is_watch() && !self.is_streaming_list()
    }

    pub fn is_streaming_list(&self) -> bool {
        self.path.contains("sendInitialEvents=true")
    }

    fn is_watch(&self) -> bool {
        self.path.contains("watch=true")
    }

    fn is_get_of(&self, resource: &str) -> bool {
        let path = self.path.split('?').next().unwrap_or_default();
        self.method == "GET" && path.starts_with("/api") && path.rsplit('/').next() == Some(resource)
    }
}

/// A fault to inject into a request that matches a rule.
#[derive(Clone)]
pub enum Fault {
    /// The proxy sends this response and does not forward the request.
    Answer { status: u16, headers: &'static str, body: String },
    /// The proxy breaks the connection and does not forward the request.
    Break,
    /// The API server handles the request, but the client gets this status.
    LieAfterwards { status: u16 },
    /// The API server handles the request, but the connection breaks before the response.
    BreakAfterwards,
    /// The proxy calls this function, then forwards the request.
    After(Arc<dyn Fn() + Send + Sync>),
}

impl Fault {
    /// Returns a fault that answers with a status, as an API server does.
    pub fn status(status: u16, reason: &str) -> Self {
        Self::Answer { status, headers: "", body: refusal(status, reason) }
    }

    /// Returns a fault that answers with a status and the header `Retry-After: 1`.
    pub fn retry_after_a_second(status: u16, reason: &str) -> Self {
        Self::Answer { status, headers: "Retry-After: 1\r\n", body: refusal(status, reason) }
    }

    /// Returns a fault that delays the request.
    pub fn delay(pause: Duration) -> Self {
        Self::After(Arc::new(move || thread::sleep(pause)))
    }

    /// Returns a fault that holds the request until the gate is opened.
    pub fn hold(gate: &Gate) -> Self {
        let gate = gate.clone();
        Self::After(Arc::new(move || gate.wait()))
    }
}

/// Returns the faults to inject into writes, each with the name of the pod whose write fails and the number of times to
/// inject the fault.
pub fn write_faults() -> [(&'static str, usize, Fault); 7] {
    [
        ("conflict", 1, Fault::status(409, "Conflict")),
        ("throttled", 2, Fault::retry_after_a_second(429, "TooManyRequests")),
        ("failing", 6, Fault::status(500, "InternalError")),
        ("away", 6, Fault::status(503, "ServiceUnavailable")),
        ("refused", 6, Fault::Break),
        // With the next two faults, the API server handles the request.
        ("unanswered", 1, Fault::BreakAfterwards),
        ("denied", 1, Fault::LieAfterwards { status: 500 }),
    ]
}

/// Holds requests until it is opened. Clones share the same gate.
#[derive(Clone, Default)]
pub struct Gate(Arc<(Mutex<Passage>, Condvar)>);

#[derive(Default)]
struct Passage {
    is_open: bool,
    came: usize,
}

impl Gate {
    pub fn open(&self) {
        lock(&self.0.0).is_open = true;
        self.0.1.notify_all();
    }

    pub fn is_open(&self) -> bool {
        lock(&self.0.0).is_open
    }

    /// Returns the number of requests that have reached the gate, held or not.
    pub fn came(&self) -> usize {
        lock(&self.0.0).came
    }

    fn wait(&self) {
        let mut passage = lock(&self.0.0);
        passage.came += 1;
        let passed = self.0.1.wait_while(passage, |passage| !passage.is_open);
        drop(passed.unwrap_or_else(PoisonError::into_inner));
    }
}

/// Returns a `metav1.Status`.
fn refusal(code: u16, reason: &str) -> String {
    format!(
        r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","message":"injected {reason}","reason":"{reason}","code":{code}}}"#
    )
}

/// A request and its outcome.
#[derive(Clone, Debug)]
pub struct Record {
    pub request: Request,
    pub at: Instant,
    /// HTTP status that the client got; 0 if the connection broke.
    pub status: u16,
}

type Matcher = Box<dyn Fn(&Request) -> bool + Send>;

struct Rule {
    matches: Matcher,
    fault: Fault,
    left: usize,
}

/// Way in which an open watch ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// The connection breaks.
    Broken,
    /// The response ends as if it were complete.
    Complete,
}

struct OpenWatch {
    resource: String,
    stream: TcpStream,
    cut_next: Option<Cut>,
    over: bool,
}

#[derive(Default)]
struct State {
    rules: Vec<Rule>,
    records: Vec<Record>,
    watches: Vec<Arc<Mutex<OpenWatch>>>,
}

struct Upstream {
    agent: Agent,
    server: String,
    authorization: String,
}

/// A proxy. After it starts listening, it serves until the process ends.
pub struct Proxy {
    state: Arc<Mutex<State>>,
    upstream: Arc<Upstream>,
    pub port: u16,
}

impl Proxy {
    /// Creates a proxy that does not listen yet.
    pub fn new(cluster: &Endpoint) -> Self {
        let config = Agent::config_builder()
            .tls_config(unchecked_tls())
            .proxy(None)
            .http_status_as_error(false)
            .max_idle_connections_per_host(64)
            .build();
        let upstream = Upstream {
            agent: config.into(),
            server: cluster.server_url().to_owned(),
            authorization: format!("Bearer {}", cluster.token()),
        };
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|listener| listener.local_addr())
            .expect("a free port")
            .port();
        Self { state: Arc::default(), upstream: Arc::new(upstream), port }
    }

    /// Starts listening.
    pub fn listen(&self) {
        let listener = TcpListener::bind(("127.0.0.1", self.port)).expect("the port is still free");
        let (state, upstream) = (Arc::clone(&self.state), Arc::clone(&self.upstream));
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let (state, upstream) = (Arc::clone(&state), Arc::clone(&upstream));
                // A client may disconnect at any time, which is not an error.
                thread::spawn(move || {
                    let _ = serve(client, &state, &upstream);
                });
            }
        });
    }

    /// Injects `fault` into the next `times` requests that match. Earlier rules take precedence.
    pub fn fault(&self, times: usize, fault: Fault, matches: impl Fn(&Request) -> bool + Send + 'static) {
        lock(&self.state).rules.push(Rule { matches: Box::new(matches), fault, left: times });
    }

    /// Returns the matching requests so far, in order of arrival. The responses may have been sent in another order.
    pub fn records(&self, matches: impl Fn(&Request) -> bool) -> Vec<Record> {
        let mut records: Vec<Record> =
            lock(&self.state).records.iter().filter(|record| matches(&record.request)).cloned().collect();
        records.sort_by_key(|record| record.at);
        records
    }

    /// Returns the number of matching requests so far.
    pub fn count(&self, matches: impl Fn(&Request) -> bool) -> usize {
        self.records(matches).len()
    }

    /// Cuts open watches of `resource` in the middle of their next event.
    pub fn cut_next_event(&self, resource: &str, how: Cut) {
        assert!(
            self.each_watch(resource, |watch| watch.cut_next = Some(how)) > 0,
            "no watch of {resource} is open"
        );
    }

    /// Sends a line to open watches of `resource`.
    pub fn inject(&self, resource: &str, line: &str) {
        let sent = self.each_watch(resource, |watch| {
            let _ = chunk(&mut watch.stream, format!("{line}\n").as_bytes());
        });
        assert!(sent > 0, "no watch of {resource} is open");
    }

    /// Ends all open watches now.
    pub fn close_all(&self) {
        assert!(self.each_open(|_| true, |watch| watch.end(Cut::Complete)) > 0, "no watch is open");
    }

    /// Ends open watches of `resource` now.
    pub fn close(&self, resource: &str) {
        assert!(
            self.each_watch(resource, |watch| watch.end(Cut::Complete)) > 0,
            "no watch of {resource} is open"
        );
    }

    fn each_watch(&self, resource: &str, act: impl Fn(&mut OpenWatch)) -> usize {
        self.each_open(|of| of == resource, act)
    }

    fn each_open(&self, is_meant: impl Fn(&str) -> bool, act: impl Fn(&mut OpenWatch)) -> usize {
        let watches = lock(&self.state).watches.clone();
        let mut touched = 0;
        for watch in watches {
            let mut watch = lock(&watch);
            if is_meant(&watch.resource) && !watch.over {
                act(&mut watch);
                touched += 1;
            }
        }
        touched
    }
}

impl OpenWatch {
    fn pass_on(&mut self, line: &[u8]) -> std::io::Result<()> {
        match self.cut_next.take() {
            None => chunk(&mut self.stream, line),
            Some(how) => {
                chunk(&mut self.stream, &line[..line.len() / 2])?;
                self.end(how);
                Ok(())
            }
        }
    }

    fn end(&mut self, how: Cut) {
        if how == Cut::Complete {
            let _ = self.stream.write_all(b"0\r\n\r\n");
        }
        let _ = self.stream.shutdown(Shutdown::Both);
        self.over = true;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves the requests of one connection, one after another.
fn serve(client: TcpStream, state: &Arc<Mutex<State>>, upstream: &Upstream) -> std::io::Result<()> {
    client.set_nodelay(true)?;
    let mut reader = BufReader::new(client.try_clone()?);
    let mut client = client;
    while let Some(request) = read_request(&mut reader)? {
        let fault = lock(state).fault_for(&request);
        let at = Instant::now();
        let note = |status| {
            let request = request.clone();
            lock(state).records.push(Record { request, at, status });
        };
        match fault {
            Some(Fault::Answer { status, headers, body }) => {
                note(status);
                reply(&mut client, status, headers, body.as_bytes())?;
                continue;
            }
            Some(Fault::Break) => {
                note(0);
                return client.shutdown(Shutdown::Both);
            }
            Some(Fault::LieAfterwards { status }) => {
                upstream.send(&request).into_body().read_to_vec().map_err(std::io::Error::other)?;
                note(status);
                reply(&mut client, status, "", refusal(status, "InternalError").as_bytes())?;
                continue;
            }
            Some(Fault::BreakAfterwards) => {
                upstream.send(&request).into_body().read_to_vec().map_err(std::io::Error::other)?;
                note(0);
                return client.shutdown(Shutdown::Both);
            }
            Some(Fault::After(act)) => act(),
            None => {}
        }
        let response = upstream.send(&request);
        let status = response.status().as_u16();
        if request.is_watch() && status == 200 {
            // As soon as a test sees the record of a watch, it may cut the watch, which must therefore be open by then.
            let watch = open_watch(&request, client, state)?;
            note(status);
            pump(response, &watch);
            return Ok(());
        }
        note(status);
        let body = response.into_body().into_with_config().limit(u64::MAX).read_to_vec();
        reply(&mut client, status, "", &body.map_err(std::io::Error::other)?)?;
    }
    Ok(())
}

impl State {
    fn fault_for(&mut self, request: &Request) -> Option<Fault> {
        let rule = self.rules.iter_mut().find(|rule| rule.left > 0 && (rule.matches)(request))?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }
}

impl Upstream {
    fn send(&self, request: &Request) -> Response<ureq::Body> {
        let uri = format!("{}{}", self.server, request.path);
        let mut headers =
            vec![("authorization", self.authorization.as_str()), ("accept", "application/json")];
        if !request.body.is_empty() {
            headers.push(("content-type", &request.content_type));
        }
        let answer = if request.method == "DELETE" {
            // ureq sends the body of a DELETE only if forced to.
            let out = self.agent.delete(&uri).force_send_body();
            headers
                .into_iter()
                .fold(out, |out, (name, value)| out.header(name, value))
                .send(&request.body[..])
        } else {
            let out = HttpRequest::builder().method(request.method.as_str()).uri(&uri);
            let out = headers.into_iter().fold(out, |out, (name, value)| out.header(name, value));
            match request.body.is_empty() {
                true => self.agent.run(out.body(()).expect("a request")),
                false => self.agent.run(out.body(&request.body[..]).expect("a request")),
            }
        };
        answer.expect("the API server answers")
    }
}

/// Sends the response head of a watch and registers the watch.
fn open_watch(
    request: &Request,
    mut client: TcpStream,
    state: &Mutex<State>,
) -> std::io::Result<Arc<Mutex<OpenWatch>>> {
    client.write_all(
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n",
    )?;
    let path = request.path.split('?').next().unwrap_or_default();
    let resource = path.rsplit('/').next().unwrap_or_default().to_owned();
    let watch = Arc::new(Mutex::new(OpenWatch { resource, stream: client, cut_next: None, over: false }));
    lock(state).watches.push(Arc::clone(&watch));
    Ok(watch)
}

/// Forwards the lines of a watch until either side closes the connection.
fn pump(response: Response<ureq::Body>, watch: &Mutex<OpenWatch>) {
    let mut upstream = BufReader::new(response.into_body().into_with_config().limit(u64::MAX).reader());
    let mut line = Vec::new();
    while upstream.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        let mut watch = lock(watch);
        if watch.over || watch.pass_on(&line).is_err() {
            watch.over = true;
            return;
        }
        line.clear();
    }
    let mut watch = lock(watch);
    if !watch.over {
        watch.end(Cut::Complete);
    }
}

fn read_request(reader: &mut impl BufRead) -> std::io::Result<Option<Request>> {
    let mut line = String::new();
    if reader.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace();
    let mut word = || words.next().unwrap_or_default().to_owned();
    let (method, path) = (word(), word());
    let (mut content_type, mut length) = (String::new(), 0);
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let Some((name, value)) = header.split_once(':') else { break };
        match name.to_ascii_lowercase().as_str() {
            "content-type" => content_type = value.trim().to_owned(),
            "content-length" => length = value.trim().parse().map_err(std::io::Error::other)?,
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body)?;
    Ok(Some(Request { method, path, content_type, body }))
}

fn reply(client: &mut TcpStream, status: u16, headers: &str, body: &[u8]) -> std::io::Result<()> {
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status} Status\r\nContent-Type: application/json\r\nContent-Length: {length}\r\n{headers}\r\n"
    );
    client.write_all(&[head.as_bytes(), body].concat())
}

fn chunk(client: &mut TcpStream, data: &[u8]) -> std::io::Result<()> {
    let head = format!("{:x}\r\n", data.len());
    client.write_all(&[head.as_bytes(), data, b"\r\n"].concat())
}
