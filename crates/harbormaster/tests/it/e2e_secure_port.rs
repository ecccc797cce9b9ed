//! The secure port compared with kube-scheduler's: both get the same requests, and their responses are compared.

use std::{fs, net::TcpListener, path::Path};

use harbormaster_oracle::components::{ControlPlane, ControlPlaneOptions, free_ports};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, ExtendedKeyUsagePurpose,
    IsCa, KeyPair,
};
use rustls::pki_types::CertificateDer;
use serde_json::{Value, json};

use crate::e2e::{
    cluster::{PATIENCE, eventually},
    port::exchange,
    process::{Harbormaster, run_to_end},
};

/// A certificate authority.
struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate and its key.
struct Identity(CertificateDer<'static>, Vec<u8>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name.push(DnType::CommonName, name);
        let key = KeyPair::generate().expect("a key is made");
        Self(CertifiedIssuer::self_signed(params, key).expect("an authority is made"))
    }

    fn client(&self, name: &str, group: &str, expires: i32) -> Identity {
        let mut params = CertificateParams::default();
        params.not_before = rcgen::date_time_ymd(2001, 1, 1);
        params.not_after = rcgen::date_time_ymd(expires, 1, 1);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let key = KeyPair::generate().expect("a key is made");
        let signed = params.signed_by(&key, &self.0).expect("a certificate is made");
        Identity(signed.der().clone(), key.serialize_der())
    }
}

/// The compared parts of a response.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Answer {
    status: String,
    headers: Vec<String>,
    body: String,
}

/// Headers whose values are compared.
const COMPARED: [&str; 4] = ["cache-control", "content-type", "x-content-type-options", "warning"];

fn ask(port: u16, identity: Option<&Identity>, method: &str, path: &str, headers: &[&str]) -> Option<Answer> {
    let headers: String = headers.iter().map(|line| format!("{line}\r\n")).collect();
    let head = format!("{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n{headers}\r\n");
    let reply =
        exchange(port, identity.map(|Identity(shown, key)| (shown, key.as_slice())), head.as_bytes())?;
    let reply = String::from_utf8_lossy(&reply).into_owned();
    let (head, body) = reply.split_once("\r\n\r\n")?;
    let mut lines = head.lines();
    let status = lines.next()?.to_owned();
    let mut kept: Vec<String> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| format!("{}: {value}", name.to_ascii_lowercase()))
        .filter(|line| COMPARED.iter().any(|name| line.starts_with(name)))
        .collect();
    kept.sort_unstable();
    let is_chunked = head.to_ascii_lowercase().contains("transfer-encoding: chunked");
    let body = if is_chunked { joined(body)? } else { body.to_owned() };
    Some(Answer { status, headers: kept, body })
}

/// Joins a chunked body. Go sends larger bodies in chunks.
fn joined(mut chunks: &str) -> Option<String> {
    let mut body = String::new();
    while let Some((length, rest)) = chunks.split_once("\r\n") {
        let (chunk, rest) = rest.split_at_checked(usize::from_str_radix(length, 16).ok()?)?;
        body.push_str(chunk);
        chunks = rest.strip_prefix("\r\n")?;
    }
    Some(body)
}

/// Starts a cluster with RBAC. Its API server publishes the certificate authorities for clients and for proxies.
fn cluster(directory: &Path, clients: &Authority, proxies: &Authority) -> ControlPlane {
    let file = |name: &str, text: &str| {
        let path = directory.join(name);
        fs::write(&path, text).expect("the file is written");
        path.display().to_string()
    };
    let tokens = "harbormaster-admin,admin,admin,system:masters\nreader,reader,reader\npoor,poor,poor\n";
    let cluster = ControlPlane::start(&ControlPlaneOptions {
        apiserver_flags: vec![
            "--authorization-mode=RBAC".to_owned(),
            format!("--token-auth-file={}", file("tokens.csv", tokens)),
            format!("--client-ca-file={}", file("clients.crt", &clients.0.pem())),
            format!("--requestheader-client-ca-file={}", file("proxies.crt", &proxies.0.pem())),
            "--requestheader-allowed-names=front".to_owned(),
            "--requestheader-username-headers=X-Remote-User".to_owned(),
            "--requestheader-group-headers=X-Remote-Group".to_owned(),
            "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        ],
        ..Default::default()
    });
    let cluster = cluster.expect("the API server starts");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "reader"},
        "rules": [{"nonResourceURLs": ["/configz", "/flagz", "/statusz", "/metrics/slis", "/nope"], "verbs": ["get"]}],
    });
    let binding = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "reader"}],
    });
    for (path, object) in [("clusterroles", role), ("clusterrolebindings", binding)] {
        let path = format!("/apis/rbac.authorization.k8s.io/v1/{path}");
        cluster.client().post(&path, &object).expect("the object is created");
    }
    cluster
}

/// Removes what legitimately differs between the two schedulers: the bodies of `/metrics/slis`, `/flagz` and
/// `/statusz`, Harbormaster's own `engine` check, and the kubeconfig path in `/configz`.
fn comparable(path: &str, mut answer: Answer) -> Answer {
    let own = ["/metrics/slis", "/flagz", "/statusz"].iter().any(|own| path.starts_with(own));
    if own && answer.status.contains("200") {
        answer.body.clear();
    }
    if path.starts_with("/livez") && answer.status.contains("200") {
        answer.body = answer.body.replace("[+]engine ok\n", "");
    }
    // The response to a HEAD request has no body.
    if path == "/configz" && answer.status.contains("200") && !answer.body.is_empty() {
        let mut config: Value =
            serde_json::from_str(&answer.body).unwrap_or_else(|e| panic!("{e}: {answer:?}"));
        config["componentconfig"]["clientConnection"]["kubeconfig"] = Value::Null;
        answer.body = config.to_string();
    }
    answer
}

#[test]
fn both_schedulers_give_the_same_responses() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let [clients, proxies, strangers] = ["clients", "proxies", "strangers"].map(Authority::new);
    let cluster = cluster(directory.path(), &clients, &proxies);
    let kubeconfig = cluster.kubeconfig().display().to_string();
    let [theirs, ours] = free_ports().expect("two ports are free");
    let flags = |port: u16| -> Vec<String> {
        vec![
            "--bind-address=127.0.0.1".to_owned(),
            format!("--secure-port={port}"),
            format!("--authentication-kubeconfig={kubeconfig}"),
            format!("--authorization-kubeconfig={kubeconfig}"),
        ]
    };
    let original = cluster.start_kube_scheduler("", &flags(theirs)).expect("kube-scheduler starts");
    let config = cluster.write_scheduler_config("").expect("the configuration is written");
    let mut args = flags(ours);
    args.push(format!("--config={}", config.display()));
    let harbormaster = Harbormaster::start(&args, cluster.directory().join("harbormaster.log"));

    let reader = clients.client("reader", "dev", 2100);
    for port in [theirs, ours] {
        eventually("the port is ready and accepts certificates of the client authority", PATIENCE, || {
            let ready = ask(port, None, "GET", "/readyz", &[])?.status.contains("200");
            (ready && ask(port, Some(&reader), "GET", "/configz", &[])?.status.contains("200")).then_some(())
        });
    }

    let nobody = None;
    let poor = clients.client("poor", "dev", 2100);
    let master = clients.client("root", "system:masters", 2100);
    let stranger = strangers.client("root", "system:masters", 2100);
    let expired = clients.client("reader", "dev", 2002);
    let front = proxies.client("front", "x", 2100);
    let back = proxies.client("back", "x", 2100);
    let mut questions: Vec<(Option<&Identity>, &str, &str, Vec<&str>)> = Vec::new();
    for path in [
        "/healthz",
        "/livez",
        "/readyz",
        "/healthz?verbose",
        "/livez?verbose",
        "/readyz?verbose",
        "/readyz?verbose&exclude=shutdown",
        "/readyz?verbose&exclude=nonsense&exclude=a%20b",
        "/readyz?exclude=sched-handler-sync",
        "/healthz/ping",
        "/healthz/",
        "/metrics",
        "/metrics/slis",
        "/metrics/resources",
        "/configz",
        "/flagz",
        "/statusz",
        "/debug/flags/v",
        "/debug/pprof/",
        "/",
        "/nope",
        "/a%3Cb",
        "/api/v1/pods",
        "/configz?pretty=1",
    ] {
        questions.push((nobody, "GET", path, vec![]));
        questions.push((nobody, "GET", path, vec!["Authorization: Bearer nonsense"]));
        questions.push((nobody, "GET", path, vec!["Authorization: Bearer poor"]));
    }
    for path in [
        "/healthz",
        "/readyz/shutdown",
        "/readyz/sched-handler-sync",
        "/readyz/nonsense",
        "/livez/ping",
        "/healthz/ping",
        "/configz",
        "/debug/flags",
        "/debug/flags/",
        "/debug/flags/v",
        "/nope",
        "/",
        "/metrics/slis",
        "/flagz",
        "/statusz",
    ] {
        for method in ["GET", "HEAD", "POST", "DELETE", "OPTIONS"] {
            questions.push((Some(&master), method, path, vec![]));
            questions.push((nobody, method, path, vec![]));
        }
    }
    for path in ["/healthz", "/configz", "/nope", "/metrics"] {
        for identity in [&reader, &poor, &stranger, &expired, &front, &back] {
            questions.push((Some(identity), "GET", path, vec![]));
            questions.push((Some(identity), "GET", path, vec!["X-Remote-User: reader"]));
            questions.push((Some(identity), "GET", path, vec!["Authorization: Bearer reader"]));
            questions.push((Some(identity), "GET", path, vec!["X-Remote-User: joe", "X-Remote-Group: a"]));
        }
        questions.push((nobody, "GET", path, vec!["Authorization: Bearer reader", "User-Agent: curl/8"]));
        questions.push((nobody, "GET", path, vec!["Authorization: Bearer poor", "User-Agent: curl/8"]));
        questions.push((nobody, "GET", path, vec!["X-Remote-User: reader"]));
        questions.push((nobody, "GET", path, vec!["Authorization: Basic abc"]));
        questions.push((nobody, "GET", path, vec!["Accept: text/html"]));
    }
    let weighed = "Accept: application/json;v=v1beta1;g=config.k8s.io;as=Statusz";
    for accept in ["Accept: */*", "Accept: text/plain", weighed] {
        questions.push((Some(&master), "GET", "/statusz", vec![accept]));
    }
    let mut differences = Vec::new();
    for (identity, method, path, headers) in &questions {
        // Not compared: metrics, which differ, and pprof profiles, which Harbormaster does not serve.
        let foreign = |answer: &Answer| {
            !answer.status.contains("401")
                && !answer.status.contains("403")
                && (["/metrics", "/metrics/resources"].contains(path) || path.starts_with("/debug/pprof"))
        };
        let answer = |port| {
            let answer = ask(port, *identity, method, path, headers);
            comparable(path, answer.unwrap_or_else(|| panic!("{method} {path} {headers:?}: no answer")))
        };
        let (expected, found) = (answer(theirs), answer(ours));
        if expected != found && !foreign(&expected) {
            differences.push(format!("{method} {path} {headers:?}\n  {expected:?}\n  {found:?}"));
        }
    }
    assert!(
        differences.is_empty(),
        "{} of {}:\n{}",
        differences.len(),
        questions.len(),
        differences.join("\n")
    );
    let put = |port| ask(port, Some(&master), "PUT", "/debug/flags/v", &["Content-Length: 0"]);
    assert_eq!(put(theirs), put(ours));
    drop(original);
    harbormaster.ends_well();
}

#[test]
fn an_occupied_port_ends_the_program_with_an_explanation() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let taken = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let port = taken.local_addr().expect("the listener has an address").port();
    let port = format!("--secure-port={port}");
    let args = ["run", "--master=http://127.0.0.1:1", "--bind-address=127.0.0.1", &port];
    let (code, errors) = run_to_end(&args, directory.path(), PATIENCE);
    assert_eq!(code, Some(1), "{errors}");
    assert!(
        errors.contains("Error: failed to create listener") && errors.contains("--secure-port=0"),
        "{errors}"
    );
}
