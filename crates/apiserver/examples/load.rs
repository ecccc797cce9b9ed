//! How fast pods are created while ten clients watch all of them, and what a large cluster costs in memory:
//! `cargo run --release -p harbormaster-apiserver --example load`.
//!
//! Clients and server share this process and its cores; everything goes over HTTP on loopback.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
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

type Outcome<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let server = ApiServer::new(Options::default());
    let running = server.serve(TcpListener::bind("127.0.0.1:0").await?, None)?;
    let address = running.address().to_string();
    let before = resident_mib();

    let start = Instant::now();
    create(&address, "/api/v1/nodes", NODES, node).await?;
    println!("{NODES} nodes: {:.0} creations per second", NODES as f64 / start.elapsed().as_secs_f64());

    let seen = Arc::new(AtomicU64::new(0));
    for _ in 0..WATCHERS {
        tokio::spawn(watch(address.clone(), seen.clone()));
    }
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    let start = Instant::now();
    create(&address, "/api/v1/namespaces/default/pods", PODS, pod).await?;
    let created = start.elapsed().as_secs_f64();
    while seen.load(Ordering::Relaxed) < PODS * WATCHERS as u64 {
        if start.elapsed().as_secs() > 120 {
            println!(
                "watchers were cut: {} events of {}",
                seen.load(Ordering::Relaxed),
                PODS * WATCHERS as u64
            );
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let told = start.elapsed().as_secs_f64();
    println!("{PODS} pods with {WATCHERS} watchers: {:.0} creations per second", PODS as f64 / created);
    println!("the last watcher saw the last pod {:.0} ms after its creation", (told - created) * 1000.0);

    let start = Instant::now();
    let length = get(&address, "/api/v1/pods").await?;
    println!("list of all pods: {} MiB in {:.0} ms", length >> 20, start.elapsed().as_secs_f64() * 1000.0);
    println!("resident memory: {} MiB, {before} MiB before", resident_mib());
    running.stop().await;
    Ok(())
}

fn node(i: u64) -> Value {
    json!({
        "metadata": {"name": format!("node-{i}"), "labels": {"topology.kubernetes.io/zone": format!("zone-{}", i % 10),
                     "kubernetes.io/hostname": format!("node-{i}")}},
        "status": {"capacity": {"cpu": "32", "memory": "256Gi", "pods": "110", "ephemeral-storage": "500Gi"},
                   "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}]},
    })
}

fn pod(i: u64) -> Value {
    json!({
        "metadata": {"name": format!("pod-{i}"), "labels": {"app": format!("app-{}", i % 500), "tier": "web"},
                     "annotations": {"example.com/note": "made by the load example"}},
        "spec": {"containers": [{
            "name": "main", "image": "registry.example.com/team/app:1.27",
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}],
            "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        }]},
    })
}

/// Creates objects from several connections at once.
async fn create(address: &str, path: &'static str, count: u64, make: fn(u64) -> Value) -> Outcome<()> {
    let mut tasks = Vec::new();
    for creator in 0..CREATORS {
        let address = address.to_owned();
        tasks.push(tokio::spawn(async move {
            let mut stream = TcpStream::connect(&address).await?;
            stream.set_nodelay(true)?;
            let mut buffer = vec![0; 64 << 10];
            for i in (creator..count).step_by(CREATORS as usize) {
                let body = make(i).to_string();
                let request = format!(
                    "POST {path} HTTP/1.1\r\nhost: {address}\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
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

/// Reads an answer with a known length.
async fn answer(stream: &mut TcpStream, buffer: &mut [u8]) -> Outcome<()> {
    let mut read = 0;
    loop {
        read += stream.read(&mut buffer[read..]).await?;
        let text = &buffer[..read];
        let Some(end) = text.windows(4).position(|w| w == b"\r\n\r\n") else { continue };
        let head = std::str::from_utf8(&text[..end])?;
        if !head.starts_with("HTTP/1.1 201") {
            return Err(head.to_owned().into());
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        if read >= end + 4 + length.unwrap_or("0").parse::<usize>()? {
            return Ok(());
        }
    }
}

/// Counts the events of a watch.
async fn watch(address: String, seen: Arc<AtomicU64>) -> Outcome<()> {
    let mut stream = TcpStream::connect(&address).await?;
    let request = format!("GET /api/v1/pods?watch=true HTTP/1.1\r\nhost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut buffer = vec![0; 256 << 10];
    let mut last = 0;
    loop {
        let read = stream.read(&mut buffer).await?;
        if read == 0 {
            return Ok(());
        }
        let mut events = 0;
        for byte in &buffer[..read] {
            // Every event ends so, and nothing else does: lines of the framing end with \r\n.
            events += u64::from(*byte == b'\n' && last == b'}');
            last = *byte;
        }
        seen.fetch_add(events, Ordering::Relaxed);
    }
}

/// Reads an answer to its end; returns its length.
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

fn resident_mib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or("0");
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) >> 10
}
