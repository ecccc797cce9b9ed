//! Invalid input on real sockets. The server refuses it with errors in kube-apiserver's form or closes the
//! connection, and continues to serve all other clients.

use std::{net::SocketAddr, time::Duration};

use harbormaster_apiserver::{Certificate, Options};
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::{Instant, pause, resume},
};

use crate::wire::{self, Answer, Client, JSON, PODS, exchange};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// Resource whose objects may have any fields.
const SHIPS: &str = "/apis/example.com/v1/ships";

const PAGE_NOT_FOUND: &[u8] = b"404 page not found\n";

/// Checks that a refusal is a complete `Status`.
fn check_shape(what: &str, answer: &Answer) {
    let body = answer.json();
    // Paths outside the API have no kinds, so their failures are not a `Status`.
    if answer.code < 400 || answer.body == PAGE_NOT_FOUND {
        return;
    }
    assert_eq!(
        (&body["kind"], &body["apiVersion"], &body["status"], &body["code"]),
        (&json!("Status"), &json!("v1"), &json!("Failure"), &json!(answer.code)),
        "{what}: {body}"
    );
    let message = body["message"].as_str().unwrap_or_default();
    assert!(!message.is_empty() && !message.contains("panic"), "{what}: {body}");
    assert!(body["reason"].is_string() || answer.code == 500, "{what}: {body}");
}

async fn check_alive(address: SocketAddr) {
    let answer = exchange(address, b"GET /readyz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await;
    assert!(answer.ends_with("ok"), "{answer}");
}

async fn define_ships(client: &mut Client) {
    let names = json!({"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"});
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    let version = json!({"name": "v1", "served": true, "storage": true, "schema": schema});
    let spec = json!({"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]});
    let definition = json!({"metadata": {"name": "ships.example.com"}, "spec": spec});
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.post(path, &definition).await.code, 201);
}

/// Returns a ConfigMap whose data has the given length.
fn map_of(length: usize) -> String {
    json!({"metadata": {"generateName": "m"}, "data": {"x": "x".repeat(length)}}).to_string()
}

#[tokio::test]
async fn odd_requests_are_served_or_refused_with_a_status() {
    let (_server, running) = wire::serve(Options::default()).await;
    let mut client = Client::connect(running.address()).await;
    define_ships(&mut client).await;
    let nested = |open: &str, close: &str, depth| open.repeat(depth) + "1" + &close.repeat(depth);
    let bomb = (1..30).fold("a0: &a0 [x, x]\n".to_owned(), |text, i| {
        text + &format!("a{i}: &a{i} [*a{0}, *a{0}, *a{0}, *a{0}]\n", i - 1)
    });
    let yaml = "application/yaml";
    let protobuf = "application/vnd.kubernetes.protobuf";
    let pods = |query: &str| format!("/api/v1/pods?{query}");
    let long = "a".repeat(60_000);
    for (method, path, content_type, body, code) in [
        ("POST", MAPS, JSON, "{\"metadata\":{\"name\":".to_owned(), 400),
        ("POST", MAPS, JSON, "{\"metadata\":{\"name\":\"a\"}} x".to_owned(), 400),
        ("POST", MAPS, JSON, "{}{}".to_owned(), 400),
        ("POST", MAPS, JSON, "[]".to_owned(), 400),
        ("POST", MAPS, JSON, String::new(), 400),
        ("POST", MAPS, JSON, nested("[", "]", 200_000), 400),
        ("POST", MAPS, JSON, nested("{\"a\":", "}", 200_000), 400),
        (
            "POST",
            SHIPS,
            JSON,
            format!(
                "{{\"apiVersion\":\"example.com/v1\",\"kind\":\"Ship\",\"metadata\":{{\"name\":\"a\"}},\"x\":{}}}",
                nested("[", "]", 120)
            ),
            400,
        ),
        ("POST", MAPS, yaml, nested("[", "]", 100_000), 400),
        ("POST", MAPS, yaml, nested("{a: ", "}", 100_000), 400),
        ("POST", MAPS, yaml, bomb, 400),
        ("POST", MAPS, yaml, "a: [".to_owned(), 400),
        ("POST", MAPS, protobuf, "k8s\0".to_owned(), 415),
        ("POST", MAPS, protobuf, format!("k8s\0{}", "\x0a".repeat(100_000)), 415),
        ("POST", MAPS, "text/html", "{}".to_owned(), 415),
        ("POST", MAPS, JSON, "{\"kind\":\"Pod\",\"apiVersion\":\"v1\"}".to_owned(), 400),
        ("POST", MAPS, JSON, "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v2\"}".to_owned(), 400),
        ("POST", PODS, JSON, "{\"metadata\":{\"name\":\"u\"},\"spec\":{\"priority\":1e999}}".to_owned(), 400),
        ("POST", MAPS, JSON, map_of(4 << 20), 413),
        ("POST", MAPS, JSON, map_of(2 << 20), 500),
        ("POST", MAPS, JSON, map_of(1 << 19), 201),
        ("DELETE", &format!("{MAPS}/a"), JSON, "garbage".to_owned(), 400),
        ("FOO", MAPS, JSON, String::new(), 405),
        ("OPTIONS", MAPS, JSON, String::new(), 405),
        ("HEAD", MAPS, JSON, String::new(), 405),
        ("GET", "/nowhere", JSON, String::new(), 404),
        ("GET", "/api/v2/pods", JSON, String::new(), 404),
        ("GET", "/api/v1/pods/%zz", JSON, String::new(), 404),
        ("GET", "/api/v1/namespaces/%ff%fe/pods/a", JSON, String::new(), 404),
        ("GET", "/api/v1/namespaces/%00/pods/a%2fb", JSON, String::new(), 404),
        ("GET", &format!("{PODS}/{long}"), JSON, String::new(), 404),
        ("GET", &pods(&format!("x={long}")), JSON, String::new(), 200),
        ("GET", &pods(&format!("continue={long}")), JSON, String::new(), 400),
        ("GET", &pods("continue=%00%ff"), JSON, String::new(), 400),
        ("GET", &pods(&format!("labelSelector={}", "a,".repeat(20_000))), JSON, String::new(), 400),
        ("GET", &pods(&format!("labelSelector={}", "(".repeat(20_000))), JSON, String::new(), 400),
        ("GET", &pods("limit=-1"), JSON, String::new(), 200),
        ("GET", &pods("limit=9223372036854775807"), JSON, String::new(), 200),
        ("GET", &pods("limit=99999999999999999999"), JSON, String::new(), 400),
        ("GET", &pods("limit=x"), JSON, String::new(), 400),
        ("GET", &pods("resourceVersion=-1"), JSON, String::new(), 400),
        ("GET", &pods("resourceVersion=abc"), JSON, String::new(), 400),
        ("GET", &pods("resourceVersion=18446744073709551615"), JSON, String::new(), 504),
        ("GET", &pods("resourceVersion=18446744073709551616"), JSON, String::new(), 400),
        ("GET", &pods("watch=1&timeoutSeconds=abc"), JSON, String::new(), 400),
        ("GET", &pods("watch=1&timeoutSeconds=-1"), JSON, String::new(), 200),
        ("GET", &pods("watch=1&timeoutSeconds=-9223372036854775808"), JSON, String::new(), 200),
    ] {
        let answer = client.send(method, path, content_type, &body).await;
        let short: String = format!("{method} {path} {body}").chars().take(120).collect();
        assert_eq!(answer.code, code, "{short}: {}", answer.json());
        if method != "HEAD" {
            check_shape(&short, &answer);
        }
    }
    check_alive(running.address()).await;
}

#[tokio::test]
async fn input_that_is_not_http_is_refused_or_cut_off() {
    let (_server, running) = wire::serve(Options::default()).await;
    let body = |framing: &str, body: &str| {
        format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n{framing}\r\n\r\n{body}")
            .into_bytes()
    };
    let chunked = "transfer-encoding: chunked";
    let many = (0..5000).map(|i| format!("x-{i}: y\r\n")).collect::<String>();
    for (bytes, code) in [
        (b"\0\x01\x02garbage\r\n\r\n".to_vec(), "400"),
        (b"\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03 a TLS greeting".to_vec(), "400"),
        (b"GET /version HTTP/9.9\r\nhost: x\r\n\r\n".to_vec(), "400"),
        (b"GET /api/\xff\xfe HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(), "400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), ""),
        (
            format!("GET /version HTTP/1.1\r\nhost: x\r\nx: {}\r\n\r\n", "y".repeat(2 << 20)).into_bytes(),
            "431",
        ),
        (format!("GET /version HTTP/1.1\r\nhost: x\r\n{many}\r\n").into_bytes(), "431"),
        (format!("GET /version?{} HTTP/1.1\r\nhost: x\r\n\r\n", "y".repeat(100_000)).into_bytes(), "414"),
        (body("content-length: abc", "{}"), "400"),
        (body("content-length: -5", "{}"), "400"),
        (body("content-length: 2\r\ncontent-length: 3", "{}"), "400"),
        (body(chunked, "zz\r\n{}\r\n0\r\n\r\n"), "400"),
        (body(chunked, "ffffffffffffffffff\r\n{}"), "400"),
    ] {
        let answer = exchange(running.address(), &bytes).await;
        let given = answer.split(' ').nth(1).unwrap_or_default();
        let short = String::from_utf8_lossy(&bytes[..bytes.len().min(60)]).into_owned();
        // A client that is still writing when the server closes the connection may not see the response.
        assert!(given == code || answer.is_empty(), "{short}: {answer}");
        check_alive(running.address()).await;
    }
}

/// A request whose body is not needed leaves the connection usable, even if the body arrives late.
#[tokio::test]
async fn an_unused_body_leaves_the_connection_usable() {
    let (_server, running) = wire::serve(Options::default()).await;
    let mut client = Client::connect(running.address()).await;
    for _ in 0..3 {
        let head = "PUT /api/v1/nodes HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n\r\n";
        client.write(head.as_bytes()).await.unwrap();
        // A server that does not wait for the body would respond during this pause.
        tokio::time::sleep(Duration::from_millis(50)).await;
        client.write(b"{}").await.unwrap();
        assert_eq!(client.answer(false).await.unwrap().code, 405);
    }
}

#[tokio::test]
async fn an_endless_body_is_cut_off() {
    let (_server, running) = wire::serve(Options::default()).await;
    for framing in ["content-length: 9000000000000", "transfer-encoding: chunked"] {
        let mut stream = TcpStream::connect(running.address()).await.unwrap();
        let head = format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\n{framing}\r\n\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        let chunk = format!("10000\r\n{}\r\n", "x".repeat(1 << 16));
        let mut written = 0;
        while stream.write_all(chunk.as_bytes()).await.is_ok() {
            written += 1;
            assert!(written < 2000, "{framing}: the server read more than 120 MiB");
        }
    }
    check_alive(running.address()).await;
}

/// Between `pause` and `resume`, time advances whenever no task can run.
#[tokio::test]
async fn slow_clients_are_cut_off_and_do_not_hinder_others() {
    let (server, running) = wire::serve(Options::default()).await;
    let address = running.address();
    let certificate = Certificate::self_signed(&[]).unwrap();
    let secure = server.serve(TcpListener::bind("127.0.0.1:0").await.unwrap(), Some(&certificate)).unwrap();
    let mut slow = Vec::new();
    for (address, bytes) in [
        (address, ""),
        (address, "G"),
        (address, "GET /version HTTP/1.1\r\nhost: x\r\nx-"),
        (address, "GET /version HTTP/1.1\r\nhost: x\r\n\r\n"),
        (secure.address(), ""),
        (secure.address(), "\x16\x03\x01\x02"),
    ] {
        for _ in 0..20 {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(bytes.as_bytes()).await.unwrap();
            slow.push(stream);
        }
    }
    let mut quiet = Client::connect(address).await.watch(&format!("{MAPS}?watch=true")).await;
    // Once the server is ready to read the body, it tells the client to send the body.
    let mut client = Client::connect(address).await;
    let head =
        format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\nexpect: 100-continue\r\n\r\n");
    client.write(head.as_bytes()).await.unwrap();
    assert_eq!(client.answer(false).await.unwrap().code, 100);
    check_alive(address).await;
    pause();
    let start = Instant::now();
    let answer = client.answer(false).await.unwrap();
    assert_eq!((answer.code, &answer.json()["reason"]), (504, &json!("Timeout")));
    for mut stream in slow {
        let _ = stream.read_to_end(&mut Vec::new()).await;
    }
    assert!(start.elapsed() < Duration::from_secs(150), "{:?}", start.elapsed());
    resume();
    // An idle watch continues, however long there is nothing to send.
    let told = quiet.next();
    server.store().create("configmaps", json!({"metadata": {"name": "late"}})).unwrap();
    assert_eq!(told.await.unwrap()["type"], json!("ADDED"));
}

#[tokio::test]
async fn a_client_that_does_not_read_is_cut_off() {
    let (server, running) = wire::serve(Options::default()).await;
    for _ in 0..60 {
        server.store().create("configmaps", serde_json::from_str(&map_of(500_000)).unwrap()).unwrap();
    }
    let mut lazy = Vec::new();
    for path in ["/api/v1/configmaps", "/api/v1/configmaps?watch=true"] {
        let mut client = Client::connect(running.address()).await;
        client.write(format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n").as_bytes()).await.unwrap();
        lazy.push(client);
    }
    check_alive(running.address()).await;
    pause();
    tokio::time::sleep(Duration::from_secs(600)).await;
    for mut client in lazy {
        client.answer(false).await.expect_err("the rest is not sent");
    }
}

#[tokio::test]
async fn garbage_on_the_secure_port_is_cut_off() {
    let (server, _running) = wire::serve(Options::default()).await;
    let certificate = Certificate::self_signed(&[]).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let secure = server.serve(listener, Some(&certificate)).unwrap();
    for bytes in [
        b"GET /version HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        vec![0; 100_000],
        vec![0xff; 100_000],
        [b"\x16\x03\x01\x3f\xff".as_slice(), &[7; 50_000]].concat(),
    ] {
        let answer = exchange(secure.address(), &bytes).await;
        assert!(!answer.contains("HTTP"), "{answer}");
    }
}

/// Each patch is small, but together the patches would create an object that is too deep or too large to be read.
#[tokio::test]
async fn an_object_cannot_be_patched_beyond_its_limits() {
    let (server, running) = wire::serve(Options::default()).await;
    let mut client = Client::connect(running.address()).await;
    define_ships(&mut client).await;
    let ship = json!({"apiVersion": "example.com/v1", "kind": "Ship", "metadata": {"name": "a"}, "x": {}, "data": {}});
    client.post(SHIPS, &ship).await;
    let path = format!("{SHIPS}/a");
    let skeleton = (0..40).fold(json!({}), |value, _| json!({"a": value}));
    let mut way = "/x".to_owned();
    let mut codes = Vec::new();
    for _ in 0..5 {
        let patch = json!([{"op": "add", "path": format!("{way}/a"), "value": skeleton}]);
        codes.push(client.patch(&path, "json-patch", &patch).await.code);
        way += &"/a".repeat(40);
    }
    assert_eq!(codes[..2], [200, 200]);
    assert!(codes[2..].iter().all(|code| matches!(code, 400 | 422)), "{codes:?}");
    let mut codes = Vec::new();
    for i in 0..6 {
        let patch = json!({"data": {format!("k{i}"): "x".repeat(400_000)}});
        codes.push(client.patch(&path, "merge-patch", &patch).await.code);
    }
    assert_eq!(codes, [200, 200, 200, 500, 500, 500]);
    let ship = client.get(&path).await.json();
    assert_eq!(ship["metadata"]["name"], json!("a"));
    assert_eq!(server.store().get("ships.example.com", "", "a").unwrap().value(), ship);
}

/// Generates mostly segments of valid paths, so that many requests pass the first checks.
fn segment() -> impl Strategy<Value = String> {
    let words = vec![
        "api",
        "apis",
        "v1",
        "apps",
        "namespaces",
        "default",
        "pods",
        "nodes",
        "deployments",
        "events",
        "status",
        "scale",
        "binding",
        "eviction",
        "openapi",
        "v3",
        "version",
        "o",
        "",
        ".",
        "..",
        "%00",
        "%ff",
        "%2F",
        "%",
    ];
    prop_oneof![8 => select(words).prop_map(str::to_owned), 1 => "[a-zA-Z0-9%!$'()*+,;:@._~-]{0,20}"]
}

fn path() -> impl Strategy<Value = String> {
    let known = vec![
        "/api/v1/pods",
        "/api/v1/namespaces/default/pods",
        "/api/v1/namespaces/default/pods/o",
        "/api/v1/namespaces/default/pods/o/status",
        "/api/v1/namespaces/default/pods/o/binding",
        "/api/v1/namespaces/default/pods/o/eviction",
        "/api/v1/nodes",
        "/api/v1/nodes/o",
        "/api/v1/namespaces",
        "/api/v1/namespaces/o",
        "/apis/apps/v1/namespaces/default/deployments/o/scale",
        "/apis/apps/v1/namespaces/default/deployments",
        "/apis/events.k8s.io/v1/events",
        "/apis",
        "/api/v1",
        "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
        "/openapi/v3/api/v1",
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews",
    ];
    let any = vec(segment(), 0..8).prop_map(|parts| format!("/{}", parts.join("/")));
    prop_oneof![3 => select(known).prop_map(str::to_owned), 1 => any]
}

fn query() -> impl Strategy<Value = String> {
    let names = vec![
        "limit",
        "continue",
        "resourceVersion",
        "resourceVersionMatch",
        "labelSelector",
        "fieldSelector",
        "dryRun",
        "timeoutSeconds",
        "sendInitialEvents",
        "allowWatchBookmarks",
        "fieldValidation",
        "pretty",
        "watch",
        "gracePeriodSeconds",
        "propagationPolicy",
        "includeObject",
        "force",
        "fieldManager",
    ];
    let values = vec![
        "",
        "0",
        "1",
        "-1",
        "true",
        "false",
        "All",
        "Exact",
        "NotOlderThan",
        "a=b",
        "a in (b,c)",
        "!a",
        "x,,y",
        "metadata.name=o",
        "spec.nodeName!=n",
        "18446744073709551615",
        "9223372036854775808",
        "%ff",
        "%zz",
        "e30",
    ];
    let value =
        prop_oneof![4 => select(values).prop_map(str::to_owned), 1 => "[a-zA-Z0-9%!$'()*+,;:@._~-]{0,20}"];
    let pair =
        (select(names), value).prop_map(|(name, value)| format!("{name}={}", value.replace(' ', "%20")));
    vec(pair, 0..4).prop_map(|pairs| pairs.join("&"))
}

fn content() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        select(vec![
            "",
            "o",
            "Pod",
            "v1",
            "Node",
            "add",
            "/spec",
            "All",
            "1",
            "999999999999999999E",
            "2006-01-02T15:04:05Z"
        ])
        .prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    let keys = vec![
        "metadata",
        "name",
        "namespace",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
        "spec",
        "status",
        "containers",
        "image",
        "resources",
        "requests",
        "cpu",
        "nodeName",
        "tolerations",
        "taints",
        "key",
        "effect",
        "kind",
        "apiVersion",
        "target",
        "deleteOptions",
        "preconditions",
        "uid",
        "resourceVersion",
        "replicas",
        "selector",
        "template",
        "op",
        "path",
        "value",
        "from",
        "$patch",
        "$retainKeys",
        "gracePeriodSeconds",
        "deletionTimestamp",
        "generateName",
        "group",
        "names",
        "plural",
        "versions",
        "conditions",
        "type",
        "capacity",
    ];
    leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((select(keys.clone()), inner), 0..6)
                .prop_map(|pairs| pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
        ]
    })
}

fn body() -> impl Strategy<Value = Vec<u8>> {
    let cut = (content(), 0..200usize).prop_map(|(value, at)| {
        let bytes = value.to_string().into_bytes();
        bytes[..at.min(bytes.len())].to_vec()
    });
    prop_oneof![
        6 => content().prop_map(|value| value.to_string().into_bytes()),
        1 => cut,
        1 => vec(any::<u8>(), 0..200),
        1 => vec(any::<u8>(), 0..200).prop_map(|bytes| [b"k8s\0\x0a\x09\x0a\x02v1\x12\x03Pod\x12".as_slice(), &bytes].concat()),
    ]
}

/// Runs one case of a property on a new connection to the server that all cases share.
fn with_client<T>(run: impl AsyncFnOnce(&mut Client, SocketAddr) -> T) -> T {
    use std::sync::LazyLock;
    type Served = (tokio::runtime::Runtime, harbormaster_apiserver::Running);
    static SERVED: LazyLock<Served> = LazyLock::new(|| {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let (_server, running) = runtime.block_on(wire::serve(Options::default()));
        (runtime, running)
    });
    let (runtime, running) = &*SERVED;
    runtime.block_on(async {
        let mut client = Client::connect(running.address()).await;
        run(&mut client, running.address()).await
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, max_shrink_iters: 200, ..ProptestConfig::default() })]

    #[test]
    fn any_request_is_answered(requests in vec((
        select(vec!["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD"]), path(), query(),
        select(vec![JSON, "application/yaml", "application/merge-patch+json", "application/json-patch+json",
            "application/strategic-merge-patch+json", "application/vnd.kubernetes.protobuf", "x"]),
        body()), 1..24))
    {
        with_client(async |client, address| {
            for (method, path, query, content_type, body) in requests {
                let what = format!("{method} {path}?{query} {content_type} {}", String::from_utf8_lossy(&body));
                if query.contains("watch") {
                    // The response may take long, so only its head is read.
                    let head = format!("{method} {path}?{query} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n");
                    client.write(head.as_bytes()).await.unwrap();
                    assert!((200..600).contains(&client.code().await.expect(&what)), "{what}");
                    *client = Client::connect(address).await;
                    continue;
                }
                let answer = client.try_send(method, &format!("{path}?{query}"), content_type, &body).await;
                let answer = answer.unwrap_or_else(|error| panic!("{what}: {error}"));
                if method == "HEAD" {
                    continue;
                }
                check_shape(&what, &answer);
                let is_json = !answer.json().is_null();
                assert!(is_json || answer.body == b"ok" || answer.body == PAGE_NOT_FOUND, "{what}: {}", String::from_utf8_lossy(&answer.body));
            }
            check_alive(address).await;
        });
    }

    #[test]
    fn any_bytes_are_refused_or_cut_off(bytes in vec(any::<u8>(), 1..400), begins in any::<bool>()) {
        with_client(async |_, address| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let start: &[u8] = if begins { b"POST /api/v1/nodes HTTP/1.1\r\n" } else { b"" };
            stream.write_all(&[start, &bytes].concat()).await.unwrap();
            stream.shutdown().await.unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer).await;
            assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", String::from_utf8_lossy(&answer));
            check_alive(address).await;
        });
    }
}
