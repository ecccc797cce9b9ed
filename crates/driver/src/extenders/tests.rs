//! Tests that a call ends in time with an answer or with an error that names the extender, whatever the extender
//! answers.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, channel},
    thread,
    time::Instant,
};

use harbormaster_api::wire::Decoder;
use harbormaster_core::Input;
use harbormaster_testkit::pod;
use serde_json::{Value, json};

use super::*;

mod tls;

/// A server's reaction to a request.
#[derive(Clone)]
enum Reply {
    /// Status 200 and this body.
    Body(String),
    /// Exactly these bytes; then the connection is closed.
    Raw(Vec<u8>),
    /// A byte every 50 ms, forever.
    Drip,
    /// Nothing, forever.
    Hang,
    /// More than any client would read, with a `Content-Length` that announces it.
    Flood,
    /// More than any client would read, in chunks.
    ChunkedFlood,
}

/// A request as the server received it. `head` contains the first line and the headers.
struct Seen {
    head: Vec<String>,
    body: String,
}

impl Seen {
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap()
    }
}

fn body(text: impl Into<String>) -> Reply {
    Reply::Body(text.into())
}

fn status(line: &str, headers: &str, text: &str) -> Reply {
    let length = text.len();
    Reply::Raw(format!("HTTP/1.1 {line}\r\n{headers}Content-Length: {length}\r\n\r\n{text}").into_bytes())
}

/// Starts a server that reacts to every request in the same way. Returns its address and the requests that it receives.
fn server(reply: Reply) -> (String, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}/x/", listener.local_addr().unwrap());
    let (tell, seen) = channel();
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (tell, reply) = (tell.clone(), reply.clone());
            thread::spawn(move || {
                let mut reader = BufReader::new(stream.try_clone().unwrap());
                while let Some(request) = read_request(&mut reader) {
                    // The test may ignore the requests.
                    let _ = tell.send(request);
                    if answer(&stream, &reply).is_none() {
                        return;
                    }
                }
            });
        }
    });
    (address, seen)
}

fn read_request(reader: &mut impl BufRead) -> Option<Seen> {
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        match line.trim_end() {
            "" => break,
            line => head.push(line.to_owned()),
        }
    }
    let length =
        head.iter().find_map(|line| line.to_lowercase().strip_prefix("content-length:")?.trim().parse().ok());
    let mut body = vec![0; length.unwrap_or(0)];
    reader.read_exact(&mut body).ok()?;
    Some(Seen { head, body: String::from_utf8(body).unwrap() })
}

/// Answers a request. Returns `None` when the connection has ended.
fn answer(mut stream: &TcpStream, reply: &Reply) -> Option<()> {
    match reply {
        Reply::Body(text) => {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", text.len());
            stream.write_all(head.as_bytes()).ok()?;
            stream.write_all(text.as_bytes()).ok()
        }
        Reply::Raw(bytes) => {
            stream.write_all(bytes).ok()?;
            stream.shutdown(std::net::Shutdown::Both).ok()?;
            None
        }
        Reply::Drip => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n").ok()?;
            while stream.write_all(b" ").is_ok() {
                thread::sleep(Duration::from_millis(50));
            }
            None
        }
        Reply::Hang => {
            thread::sleep(Duration::from_secs(60));
            None
        }
        Reply::Flood => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000000\r\n\r\n").ok()?;
            let much = vec![b' '; 1 << 20];
            while stream.write_all(&much).is_ok() {}
            None
        }
        Reply::ChunkedFlood => {
            stream.write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n").ok()?;
            let chunk = [b"100000\r\n".as_slice(), &[b' '; 1 << 20], b"\r\n"].concat();
            while stream.write_all(&chunk).is_ok() {}
            None
        }
    }
}

fn config(url: &str) -> ExtenderConfig {
    ExtenderConfig {
        extender: Extender {
            name: url.into(),
            filters: true,
            prioritizes: true,
            preempts: true,
            weight: 1,
            ..Extender::default()
        },
        filter_verb: "filter".into(),
        prioritize_verb: "prioritize".into(),
        preempt_verb: "preempt".into(),
        bind_verb: "bind".into(),
        timeout: Duration::from_secs(20),
        node_cache_capable: true,
        ..ExtenderConfig::default()
    }
}

fn asking(config: ExtenderConfig) -> Arc<HttpExtenders> {
    HttpExtenders::new(&[config], Health::default()).unwrap().unwrap()
}

fn names(names: &[&str]) -> Vec<Str> {
    names.iter().map(|name| (*name).into()).collect()
}

fn filtered_by(config: ExtenderConfig) -> Result<Filtered, String> {
    asking(config).filter(0, &pod("p").info(), &names(&["a", "b"]))
}

fn filtered(reply: Reply) -> Result<Filtered, String> {
    filtered_by(config(&server(reply).0))
}

#[test]
fn an_invalid_reply_to_filter_is_an_error_that_names_the_problem() {
    let ok = "200 OK";
    for (what, reply, expected) in [
        ("nothing", body(""), "EOF while parsing"),
        ("blanks", body(" \n"), "EOF while parsing"),
        (
            "HTML",
            body("<html><body>Sign in</body></html>"),
            "expected value at line 1 column 1; it begins with \"<html>",
        ),
        ("a text", body("\"ok\""), "expected an object"),
        ("a number", body("7"), "expected an object"),
        ("a list", body("[]"), "expected an object"),
        ("half an object", body("{\"NodeNames\":[\"a\""), "EOF while parsing"),
        ("names that are one name", body("{\"NodeNames\":\"a\"}"), "expected a sequence"),
        ("names that are numbers", body("{\"NodeNames\":[1]}"), "invalid type: integer"),
        ("names that are an object", body("{\"NodeNames\":{\"a\":true}}"), "expected a sequence"),
        ("reasons that are a list", body("{\"FailedNodes\":[\"a\"]}"), "expected a map"),
        ("reasons that are numbers", body("{\"FailedNodes\":{\"a\":5}}"), "invalid type: integer"),
        ("nodes that are names", body("{\"Nodes\":{\"items\":[\"a\"]}}"), "expected an object"),
        ("nodes that are a list", body("{\"Nodes\":[]}"), "expected an object"),
        ("an error that is an object", body("{\"Error\":{\"why\":\"no\"}}"), "expected a string"),
        (
            "bytes that are not text",
            Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{\"\xff\xfe\":1}".to_vec()),
            "extender",
        ),
        ("lists in lists", body("[".repeat(100_000)), "extender"),
        (
            "an error that it reports",
            body("{\"Error\":\"no GPU to be had\",\"NodeNames\":[\"a\"]}"),
            "no GPU to be had",
        ),
        ("status 500", status("500 Internal Server Error", "", "{}"), "code 500"),
        ("status 404", status("404 Not Found", "", "<html>"), "code 404"),
        ("status 204", Reply::Raw(b"HTTP/1.1 204 No Content\r\n\r\n".to_vec()), "code 204"),
        ("status 202", status("202 Accepted", "", "{\"NodeNames\":[\"a\"]}"), "code 202"),
        ("a redirect", status("302 Found", "Location: http://127.0.0.1:1/\r\n", ""), "code 302"),
        (
            "a redirect that keeps the method",
            status("307 Temporary Redirect", "Location: /y\r\n", ""),
            "code 307",
        ),
        (
            "compression",
            status(ok, "Content-Encoding: gzip\r\n", "\u{1f}\u{8b}"),
            "encoded as \"gzip\", which was not requested",
        ),
        (
            "a body that ends early",
            Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{\"NodeNames\":".to_vec()),
            "end of file",
        ),
        (
            "chunks that end early",
            Reply::Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"Nod".to_vec()),
            "Post \"http://127",
        ),
        (
            "chunks that are invalid",
            Reply::Raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzzz\r\n".to_vec()),
            "Post \"http://127",
        ),
        ("not HTTP", Reply::Raw(b"SSH-2.0-OpenSSH_9.6\r\n".to_vec()), "Post \"http://127"),
        ("another version of HTTP", Reply::Raw(b"HTTP/9.9 200 OK\r\n\r\n".to_vec()), "Post \"http://127"),
        ("no answer at all", Reply::Raw(Vec::new()), "Post \"http://127"),
        (
            "an endless head",
            Reply::Raw([b"HTTP/1.1 200 OK\r\nX: ".as_slice(), &[b'x'; 1 << 20]].concat()),
            "Post \"http://127",
        ),
        (
            "a length that is not a number",
            Reply::Raw(b"HTTP/1.1 200 OK\r\nContent-Length: many\r\n\r\n{}".to_vec()),
            "Post \"http://127",
        ),
        ("a flood", Reply::Flood, "the reply has more than"),
        ("a flood in chunks", Reply::ChunkedFlood, "the reply has more than"),
    ] {
        let error = filtered(reply).unwrap_err();
        assert!(error.contains(expected), "{what}: {error}");
        let names_it = error.contains("127.0.0.1") || what == "an error that it reports";
        assert!(names_it, "{what} does not name the extender: {error}");
    }
}

#[test]
fn an_unusual_reply_to_filter_is_read_as_kube_scheduler_reads_it() {
    let passes = |nodes: &[&str]| Filtered { nodes: names(nodes), ..Filtered::default() };
    for (what, reply, expected) in [
        ("names", "{\"NodeNames\":[\"a\"]}", passes(&["a"])),
        ("keys in another case", "{\"nodenames\":[\"a\"],\"nodes\":null}", passes(&["a"])),
        ("the last of equal keys wins", "{\"NodeNames\":[\"a\"],\"nodeNames\":[\"b\"]}", passes(&["b"])),
        ("null", "null", passes(&[])),
        ("an empty object", "{}", passes(&[])),
        ("nulls", "{\"Nodes\":null,\"NodeNames\":null,\"FailedNodes\":null,\"Error\":null}", passes(&[])),
        ("no names", "{\"NodeNames\":[]}", passes(&[])),
        ("a name that is null", "{\"NodeNames\":[null]}", passes(&[""])),
        ("unknown keys", "{\"NodeNames\":[\"a\"],\"More\":{\"of\":[\"it\"]}}", passes(&["a"])),
        ("something after it", "{\"NodeNames\":[\"a\"]} and more", passes(&["a"])),
        (
            "objects from an extender that receives names",
            "{\"Nodes\":{\"Items\":[{\"metadata\":{\"name\":\"b\"}}]}}",
            passes(&["b"]),
        ),
        ("a node without a name", "{\"Nodes\":{\"items\":[{}]}}", passes(&[""])),
        (
            "reasons",
            "{\"NodeNames\":[\"a\"],\"FailedNodes\":{\"b\":\"full\"},\"FailedAndUnresolvableNodes\":{\"c\":null}}",
            Filtered {
                nodes: names(&["a"]),
                failed: vec![("b".into(), "full".into())],
                unresolvable: vec![("c".into(), String::new())],
            },
        ),
    ] {
        assert_eq!(filtered(body(reply)), Ok(expected), "{what}");
    }
    let plain = status("200 OK", "Content-Type: text/plain\r\n", "{\"NodeNames\":[\"a\"]}");
    assert_eq!(filtered(plain), Ok(passes(&["a"])), "another content type");
    // If the extender has no node cache, it answers with objects, and names are ignored.
    let (url, _) = server(body(
        "{\"NodeNames\":[\"a\"],\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"b\"},\"spec\":{}}]}}",
    ));
    let objects = filtered_by(ExtenderConfig { node_cache_capable: false, ..config(&url) });
    assert_eq!(objects, Ok(passes(&["b"])));
}

#[test]
fn the_time_limit_covers_the_whole_call() {
    for (reply, expected) in [
        (Reply::Hang, "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"),
        (
            Reply::Drip,
            "context deadline exceeded (Client.Timeout or context cancellation while reading body)",
        ),
    ] {
        let (url, _) = server(reply);
        let begun = Instant::now();
        let error =
            filtered_by(ExtenderConfig { timeout: Duration::from_millis(400), ..config(&url) }).unwrap_err();
        assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
        assert_eq!(error, format!("Post \"{url}filter\": {expected}"));
    }
}

#[test]
fn an_engine_that_waits_for_an_extender_is_not_considered_dead() {
    let (url, seen) = server(Reply::Hang);
    let (health, config) =
        (Health::default(), ExtenderConfig { timeout: Duration::from_secs(2), ..config(&url) });
    let extenders = HttpExtenders::new(&[config], health.clone()).unwrap().unwrap();
    health.works();
    let engine = thread::spawn(move || extenders.filter(0, &pod("p").info(), &names(&["a"])));
    seen.recv().unwrap();
    assert_eq!(health.busy_for(), Duration::ZERO);
    engine.join().unwrap().unwrap_err();
    thread::sleep(Duration::from_millis(5));
    assert!(health.busy_for() > Duration::ZERO, "the engine continues with the attempt");
}

#[test]
fn an_unreachable_extender_causes_an_error() {
    let refused = filtered_by(config("http://127.0.0.1:1/x")).unwrap_err();
    assert!(
        refused.starts_with("Post \"http://127.0.0.1:1/x/filter\": ") && refused.contains("refused"),
        "{refused}"
    );
    for url in ["", "127.0.0.1:80/x", "/x", "http://", "http://a b/", "ftp://127.0.0.1/"] {
        let error = filtered_by(config(url)).unwrap_err();
        assert!(error.starts_with("Post \""), "{url}: {error}");
    }
}

#[test]
fn scores_are_read_unchanged() {
    let scored = |reply: &str| {
        let (url, _) = server(body(reply));
        asking(config(&url)).prioritize(&[0], &pod("p").info(), &names(&["a", "b"])).remove(0)
    };
    let (a, b) = (Str::from("a"), Str::from("b"));
    for (reply, expected) in [
        ("[]", vec![]),
        ("null", vec![]),
        ("[{\"Host\":\"a\",\"Score\":7}]", vec![(a.clone(), 7)]),
        (
            "[{\"host\":\"a\",\"score\":-7},{\"Host\":\"b\",\"Score\":9223372036854775807}]",
            vec![(a.clone(), -7), (b, i64::MAX)],
        ),
        ("[{\"Host\":\"a\"},{}]", vec![(a, 0), (Str::default(), 0)]),
    ] {
        assert_eq!(scored(reply), Ok(expected), "{reply}");
    }
    for reply in [
        "{}",
        "[1]",
        "[{\"Host\":\"a\",\"Score\":7.5}]",
        "[{\"Host\":\"a\",\"Score\":\"7\"}]",
        "[{\"Host\":\"a\",\"Score\":9223372036854775808}]",
    ] {
        let error = scored(reply).unwrap_err();
        assert!(error.contains("sent an invalid reply to \"prioritize\""), "{reply}: {error}");
    }
}

#[test]
fn victims_are_read_by_uid() {
    let agreed = |reply: &str| {
        let (url, _) = server(body(reply));
        asking(config(&url)).preempt(0, &pod("p").info(), &[])
    };
    let victims =
        |victims: &[&str], violations| NodeVictims { node: "n".into(), victims: names(victims), violations };
    for (reply, expected) in [
        (
            "{\"NodeNameToMetaVictims\":{\"n\":{\"Pods\":[{\"UID\":\"u\"}],\"NumPDBViolations\":2}}}",
            vec![victims(&["u"], 2)],
        ),
        ("{\"nodenametometavictims\":{\"n\":null}}", vec![victims(&[], 0)]),
        ("{\"NodeNameToMetaVictims\":{\"n\":{\"Pods\":[null]}}}", vec![victims(&[""], 0)]),
        ("{\"NodeNameToVictims\":{\"n\":{}}}", vec![]),
        ("null", vec![]),
    ] {
        assert_eq!(agreed(reply), Ok(expected), "{reply}");
    }
    for reply in ["[]", "{\"NodeNameToMetaVictims\":[]}", "{\"NodeNameToMetaVictims\":{\"n\":{\"Pods\":{}}}}"]
    {
        assert!(agreed(reply).is_err(), "{reply}");
    }
}

/// Stores objects in the API server's JSON form, including fields that no decision depends on.
fn with_objects(extenders: &HttpExtenders) {
    let node = r#"{"kind":"Node","apiVersion":"v1","metadata":{"name":"a","managedFields":[{"manager":"kubelet"}]},"status":{"nodeInfo":{"osImage":"x"}}}"#;
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p","namespace":"default","uid":"p","managedFields":[]},"spec":{"containers":[{"name":"c","env":[{"name":"E"}]}]}}"#;
    let mut decoder = Decoder::new();
    extenders.raw().take(&Input::Node(decoder.node(node.as_bytes()).unwrap()), node.as_bytes());
    extenders.raw().take(&Input::Pod(decoder.pod(pod.as_bytes()).unwrap()), pod.as_bytes());
}

#[test]
fn objects_are_sent_as_kube_scheduler_sends_them() {
    let pod_object = json!({ "metadata": { "name": "p", "namespace": "default", "uid": "p" }, "spec": { "containers": [{ "name": "c", "env": [{ "name": "E" }] }] } });
    let node_object = json!({ "metadata": { "name": "a", "managedFields": [{ "manager": "kubelet" }] }, "status": { "nodeInfo": { "osImage": "x" } } });
    for node_cache_capable in [true, false] {
        let (url, seen) = server(body("{}"));
        let extenders = asking(ExtenderConfig { node_cache_capable, ..config(&url) });
        with_objects(&extenders);
        let p = pod("p").uid("p").info();
        let plan = NodeVictims { node: "a".into(), victims: names(&["p"]), violations: 1 };
        extenders.filter(0, &p, &names(&["a"])).unwrap();
        let _ = extenders.prioritize(&[0], &p, &names(&["a"]));
        extenders.preempt(0, &p, &[plan]).unwrap();
        let expected_nodes = match node_cache_capable {
            true => json!({ "Pod": pod_object, "Nodes": null, "NodeNames": ["a"] }),
            false => {
                json!({ "Pod": pod_object, "Nodes": { "metadata": {}, "items": [node_object] }, "NodeNames": null })
            }
        };
        let expected_victims = match node_cache_capable {
            true => {
                json!({ "Pod": pod_object, "NodeNameToVictims": null, "NodeNameToMetaVictims": { "a": { "Pods": [{ "UID": "p" }], "NumPDBViolations": 1 } } })
            }
            false => {
                json!({ "Pod": pod_object, "NodeNameToVictims": { "a": { "Pods": [pod_object], "NumPDBViolations": 1 } }, "NodeNameToMetaVictims": null })
            }
        };
        for (verb, expected) in
            [("filter", &expected_nodes), ("prioritize", &expected_nodes), ("preempt", &expected_victims)]
        {
            let request = seen.recv().unwrap();
            assert_eq!(request.head[0], format!("POST /x/{verb} HTTP/1.1"));
            assert!(
                request.head.contains(&"content-type: application/json".to_owned()),
                "{:?}",
                request.head
            );
            assert_eq!(request.json(), *expected, "{verb}");
        }
    }
}

#[tokio::test]
async fn an_extender_binds_only_pods_that_concern_it_and_only_for_the_leader() {
    let (url, seen) = server(body("{\"Error\":\"\"}"));
    let mut concerned = config(&url);
    concerned.extender.managed_resources = vec!["example.com/gpu".into()];
    let extenders = asking(concerned);
    let (plain, gpu) = (pod("p").info(), pod("g").request("example.com/gpu", "1").info());
    let leads = Leadership::always();
    assert_eq!(extenders.bind(&plain, "n", &leads).await, None);
    assert_eq!(extenders.bind(&gpu, "n", &leads).await, Some(Ok(())));
    let expected = json!({ "PodName": "g", "PodNamespace": "default", "PodUID": gpu.uid, "Node": "n" });
    assert_eq!(seen.recv().unwrap().json(), expected);
    let standby = Leadership::default();
    assert_eq!(
        extenders.bind(&gpu, "n", &standby).await,
        Some(Err("this instance is not the leader".to_owned()))
    );
}

#[tokio::test]
async fn a_binding_that_fails_is_left_to_plugins_only_if_the_extender_may_be_ignored() {
    for ignorable in [false, true] {
        let (url, _) = server(body("{\"error\":\"no room\"}"));
        let mut binder = config(&url);
        binder.extender.ignorable = ignorable;
        let bound = asking(binder).bind(&pod("p").info(), "n", &Leadership::always()).await;
        assert_eq!(bound, (!ignorable).then(|| Err("no room".to_owned())));
    }
}

#[test]
fn an_invalid_tls_configuration_is_refused_with_the_reason() {
    for (what, tls, expected) in [
        ("not base64", ExtenderTls { ca_data: "%".into(), ..ExtenderTls::default() }, "tlsConfig.caData: "),
        (
            "no certificate",
            ExtenderTls { ca_data: "YQ==".into(), ..ExtenderTls::default() },
            "tlsConfig.caData: the certificate authorities contain no certificate",
        ),
        (
            "no file",
            ExtenderTls { ca_file: "/nowhere".into(), ..ExtenderTls::default() },
            "tlsConfig.caFile /nowhere: ",
        ),
    ] {
        let config = ExtenderConfig { tls: Some(tls), ..config("https://127.0.0.1:1") };
        let error = HttpExtenders::new(&[config], Health::default()).unwrap_err().to_string();
        assert!(
            error.starts_with("couldn't build extenders: extender \"https://127.0.0.1:1\": "),
            "{what}: {error}"
        );
        assert!(error.contains(expected), "{what}: {error}");
    }
}
