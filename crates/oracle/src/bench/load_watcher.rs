//! load-watcher's service, from which some plugins of scheduler-plugins get the load of nodes.

use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::thread;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::workload::node_name;

/// Serves the load of `nodes` nodes until this process ends. Returns the service's URL.
pub(super) fn serve(nodes: usize) -> Result<String> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("listening for load requests")?;
    let address = listener.local_addr().context("listening for load requests")?;
    let loads: Map<String, Value> = (0..nodes).map(|index| (node_name(index), load(index))).collect();
    thread::spawn(move || {
        // A client that fails asks again.
        listener.incoming().flatten().for_each(|stream| drop(answer(stream, &loads)));
    });
    Ok(format!("http://{address}"))
}

/// Answers any request with a report that ends now.
fn answer(mut stream: TcpStream, loads: &Map<String, Value>) -> Result<()> {
    let lines = BufReader::new(stream.try_clone()?).lines();
    lines.map_while(Result::ok).take_while(|line| !line.is_empty()).for_each(drop);
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let report = json!({
        "timestamp": now,
        "window": {"duration": "15m", "start": now - 900, "end": now},
        "source": "benchmark",
        "data": {"NodeMetricsMap": loads},
    });
    let body = report.to_string();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )?;
    Ok(())
}

fn load(index: usize) -> Value {
    let metric = |kind: &str, operator: &str, value: usize| json!({"type": kind, "operator": operator, "value": value});
    json!({"metrics": [
        metric("CPU", "AVG", index % 60),
        metric("CPU", "STD", index % 7),
        metric("Memory", "AVG", index % 50),
        metric("Memory", "STD", index % 5),
    ]})
}
