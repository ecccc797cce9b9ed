//! Measures the rate at which pods are created while ten clients watch all of them, and the memory that a large cluster
//! uses: `cargo run --release -p harbormaster-apiserver --example load [-- -o json]`. Fails if a target is missed.
//!
//! This process runs only the server. It starts another process on the same machine for the clients. All requests go
//! over HTTP on loopback.

use std::{
    error::Error,
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use harbormaster_apiserver::{ApiServer, Options};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

const CREATORS: u64 = 16;
const WATCHERS: usize = 10;
const PODS: u64 = 100_000;
const NODES: u64 = 10_000;
/// Targets for a machine with two cores: the lowest acceptable rate and the highest acceptable memory use.
const LEAST_PER_SECOND: f64 = 5000.0;
const MOST_MIB: f64 = 1536.0;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// One line of the report.
struct Measure {
    name: &'static str,
    value: f64,
    unit: &'static str,
    /// True if the target is met; `None` if there is no target.
    kept: Option<bool>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let ended = match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["client", phase, address] => runtime().block_on(client(phase, address)).map(|answer| {
            println!("{answer}");
            true
        }),
        [] => measure().map(|measures| table(&measures)),
        ["-o", "json"] => measure().map(|measures| as_json(&measures)),
        _ => Err("usage: load [-o json]".into()),
    };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("threads can be started")
}

fn table(measures: &[Measure]) -> bool {
    for Measure { name, value, unit, kept } in measures {
        let verdict = kept.map_or("", |kept| if kept { "ok" } else { "MISSED" });
        println!("{name:<58} {value:>10.0} {unit:<8} {verdict}");
    }
    all_kept(measures)
}

fn as_json(measures: &[Measure]) -> bool {
    let line = |m: &Measure| json!({"name": m.name, "value": m.value, "unit": m.unit, "kept": m.kept});
    println!("{}", measures.iter().map(line).collect::<Value>());
    all_kept(measures)
}

fn all_kept(measures: &[Measure]) -> bool {
    measures.iter().all(|measure| measure.kept != Some(false))
}

fn measure() -> Outcome<Vec<Measure>> {
    let runtime = runtime();
    let server = ApiServer::new(Options::default());
    let running = runtime.block_on(async { server.serve(TcpListener::bind("127.0.0.1:0").await?, None) })?;
    let address = running.address().to_string();
    let phase = |name: &str| -> Outcome<Value> {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.args(["client", name, &address]).stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("the clients failed in phase {name}").into());
        }
        Ok(serde_json::from_slice(&output.stdout)?)
    };
    let number = |value: &Value, name: &str| value[name].as_f64().unwrap_or_default();
    let per_second = |name, value| Measure { name, value, unit: "/s", kept: Some(value >= LEAST_PER_SECOND) };
    let memory = |name, value| Measure { name, value, unit: "MiB", kept: Some(value <= MOST_MIB) };
    let plain = |name, value, unit| Measure { name, value, unit, kept: None };

    let nodes = phase("nodes")?;
    let pods = phase("pods")?;
    let (resident, peak) = (mib("VmRSS:"), mib("VmHWM:"));
    let list = phase("list")?;
    let after_list = mib("VmHWM:");
    let lagging = phase("lagging")?;
    Ok(vec![
        plain("nodes created", number(&nodes, "perSecond"), "/s"),
        per_second("pods created, 10 watchers of all pods", number(&pods, "perSecond")),
        plain("delay until the last watcher sees the last pod", number(&pods, "lagMillis"), "ms"),
        plain("size of a pod", number(&list, "bytes") / PODS as f64, "bytes"),
        plain("list of all pods", number(&list, "millis"), "ms"),
        memory("10,000 nodes and 100,000 pods, resident", resident),
        memory("… peak so far", peak),
        memory("… while lists are sent", after_list),
        plain("pods changed while 10 watchers do not read", number(&lagging, "perSecond"), "/s"),
        memory("… at most", mib("VmHWM:")),
    ])
}

/// Returns a field of `/proc/self/status` in MiB, or 0 if there is no such field.
fn mib(field: &str) -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap_or(0.0) / 1024.0
}

/// Runs the clients of a phase and returns their measurements. Called in the client process.
async fn client(phase: &str, address: &str) -> Outcome<Value> {
    const PATH: &str = "/api/v1/namespaces/default/pods";
    let start = Instant::now();
    match phase {
        "nodes" => {
            write(address, NODES, |i| ("POST", "/api/v1/nodes".to_owned(), node(i))).await?;
            Ok(json!({"perSecond": NODES as f64 / start.elapsed().as_secs_f64()}))
        }
        "pods" => {
            let mut watchers = Vec::new();
            for _ in 0..WATCHERS {
                let stream = watch(address, "/api/v1/pods?watch=true").await?;
                watchers
                    .push(tokio::spawn(async move { check_events(stream).await.map(|()| Instant::now()) }));
            }
            let start = Instant::now();
            write(address, PODS, |i| ("POST", PATH.to_owned(), pod(i))).await?;
            let created = Instant::now();
            let mut last = created;
            for watcher in watchers {
                last = last.max(tokio::time::timeout(Duration::from_secs(60), watcher).await???);
            }
            let per_second = PODS as f64 / (created - start).as_secs_f64();
            Ok(json!({"perSecond": per_second, "lagMillis": (last - created).as_millis() as u64}))
        }
        "list" => {
            let mut lists = Vec::new();
            for _ in 0..WATCHERS {
                let address = address.to_owned();
                lists.push(tokio::spawn(async move { get(&address, "/api/v1/pods").await }));
            }
            for list in lists {
                list.await??;
            }
            let start = Instant::now();
            let bytes = get(address, "/api/v1/pods").await?;
            Ok(json!({"bytes": bytes, "millis": start.elapsed().as_millis() as u64}))
        }
        "lagging" => {
            let mut lagging = Vec::new();
            for _ in 0..WATCHERS {
                lagging.push(watch(address, "/api/v1/pods?watch=true").await?);
            }
            let patch = |i: u64| {
                let patch = json!({"metadata": {"annotations": {"example.com/round": i.to_string()}}});
                ("PATCH", format!("{PATH}/pod-{i}"), patch)
            };
            write(address, PODS, patch).await?;
            Ok(json!({"perSecond": PODS as f64 / start.elapsed().as_secs_f64()}))
        }
        other => Err(format!("{other} is not a phase").into()),
    }
}

fn node(i: u64) -> Value {
    let name = format!("node-{i}");
    let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"});
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": format!("Kubelet{kind}"), "message": "kubelet has reported this",
               "lastHeartbeatTime": "2026-01-01T00:00:00Z", "lastTransitionTime": "2026-01-01T00:00:00Z"})
    };
    let images: Vec<Value> = (0..8)
        .map(|image| json!({"names": [format!("registry.example.com/team/image-{image}:1.27")], "sizeBytes": 123_456_789}))
        .collect();
    json!({
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": format!("zone-{}", i % 10),
                     "topology.kubernetes.io/region": "region-1", "kubernetes.io/hostname": name,
                     "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"}},
        "spec": {"podCIDR": "10.1.0.0/24", "providerID": format!("example://{name}")},
        "status": {"capacity": resources, "allocatable": resources, "images": images,
                   "conditions": [condition("Ready", "True"), condition("MemoryPressure", "False"),
                                  condition("DiskPressure", "False"), condition("PIDPressure", "False")],
                   "addresses": [{"type": "InternalIP", "address": "192.0.2.1"}, {"type": "Hostname", "address": name}]},
    })
}

fn pod(i: u64) -> Value {
    let app = format!("app-{}", i % 500);
    let environment: Vec<Value> = (0..6)
        .map(|at| json!({"name": format!("SETTING_{at}"), "value": format!("value of setting {at}")}))
        .collect();
    json!({
        "metadata": {"name": format!("pod-{i}"), "labels": {"app": app, "tier": "web", "pod-template-hash": "5d4f8c7b9"},
                     "annotations": {"example.com/note": "made by the load example"},
                     "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": format!("{app}-5d4f8c7b9"),
                                          "uid": "0e3f5f8a-1111-4222-8333-444455556666", "controller": true}]},
        "spec": {
            "containers": [{
                "name": "main", "image": "registry.example.com/team/app:1.27", "env": environment,
                "ports": [{"name": "http", "containerPort": 8080}],
                "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
                "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 10},
                "volumeMounts": [{"name": "settings", "mountPath": "/etc/settings", "readOnly": true}],
            }],
            "volumes": [{"name": "settings", "configMap": {"name": "settings"}}],
            "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {"matchLabels": {"app": app}}}],
        },
    })
}

/// Sends requests over several concurrent connections.
async fn write(
    address: &str,
    count: u64,
    request: impl Fn(u64) -> (&'static str, String, Value) + Copy + Send + 'static,
) -> Outcome<()> {
    let mut tasks = Vec::new();
    for creator in 0..CREATORS {
        let address = address.to_owned();
        tasks.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let mut buffer = vec![0; 64 << 10];
            for i in (creator..count).step_by(CREATORS as usize) {
                let (method, path, body) = request(i);
                let (body, kind) =
                    (body.to_string(), if method == "PATCH" { "merge-patch+json" } else { "json" });
                let request = format!(
                    "{method} {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/{kind}\r\n\
                     content-length: {}\r\n\r\n{body}",
                    body.len()
                );
                stream.write_all(request.as_bytes()).await?;
                answer(&mut stream, &mut buffer).await?;
            }
            Outcome::Ok(())
        }));
    }
    for task in tasks {
        task.await??;
    }
    Ok(())
}

/// Reads a response that has a `content-length`. Fails if the response does not report success.
async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Outcome<()> {
    let mut read = 0;
    loop {
        let more = stream.read(&mut buffer[read..]).await?;
        if more == 0 {
            return Err("the server closed a connection".into());
        }
        read += more;
        let text = &buffer[..read];
        let Some(end) = text.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&text[..end])?;
        if !head.starts_with("HTTP/1.1 20") {
            return Err(String::from_utf8_lossy(text).into_owned().into());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if read >= end + 4 + length.unwrap_or("0").parse::<usize>()? {
            return Ok(());
        }
    }
}

/// Starts a watch and reads the head of the response.
async fn watch(address: &str, path: &str) -> Outcome<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        head.push(stream.read_u8().await?);
    }
    if head.starts_with(b"HTTP/1.1 200") { Ok(stream) } else { Err("a watch was refused".into()) }
}

/// Reads until every pod has arrived. Checks that each pod arrives exactly once and in version order.
async fn check_events(mut stream: TcpStream) -> Outcome<()> {
    let mut seen = vec![false; PODS as usize];
    let (mut count, mut last) = (0, 0);
    let mut buffer = Vec::with_capacity(1 << 20);
    while count < PODS {
        if stream.read_buf(&mut buffer).await? == 0 {
            return Err(format!("a watch ended after {count} events").into());
        }
        let mut read = 0;
        // Framing lines end with \r\n; an event is a line that begins and ends with a brace.
        while let Some(end) = buffer[read..].iter().position(|byte| *byte == b'\n') {
            let line = &buffer[read..read + end];
            read += end + 1;
            if !line.starts_with(b"{") {
                continue;
            }
            let text = std::str::from_utf8(line)?;
            let (name, version) = (number(text, "\"name\":\"pod-")?, number(text, "\"resourceVersion\":\"")?);
            let seen =
                seen.get_mut(usize::try_from(name)?).ok_or("an event of a pod that was not created")?;
            if !text.starts_with("{\"type\":\"ADDED\"") || std::mem::replace(seen, true) || version <= last {
                return Err(format!("version {last} is followed by {}", &text[..text.len().min(300)]).into());
            }
            (count, last) = (count + 1, version);
        }
        buffer.drain(..read);
    }
    Ok(())
}

/// Returns the number that follows the first occurrence of `behind`.
fn number(text: &str, behind: &str) -> Outcome<u64> {
    let start = text.find(behind).ok_or_else(|| format!("no {behind} in {text}"))? + behind.len();
    let digits = text[start..].split('"').next().unwrap_or_default();
    Ok(digits.parse()?)
}

/// Reads a response to its end and returns its length.
async fn get(address: &str, path: &str) -> Outcome<u64> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 256 << 10];
    let mut length = 0;
    loop {
        match stream.read(&mut buffer).await? {
            0 => return Ok(length),
            read => length += read as u64,
        }
    }
}
