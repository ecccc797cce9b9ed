//! Watches all claims.

use std::io::BufRead;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;

use crate::components::{ApiClient, Error};

const CLAIMS: &str = "/api/v1/persistentvolumeclaims";

/// Delay before a failed request is retried.
const RETRY: Duration = Duration::from_millis(100);

/// Sends the states of all claims until `ended` is set. A claim that is deleted during a watch is sent with its last
/// state and a deletion timestamp. After a failure, changes may be missed until the claims are listed again.
pub(super) fn watch(client: &ApiClient, ended: &AtomicBool, sender: &Sender<Value>) {
    while !ended.load(Ordering::Relaxed) {
        if follow(client, ended, sender).is_err() {
            sleep(RETRY);
        }
    }
}

/// Lists all claims, then watches them until the server reports that the resource version is too old, or until `ended`
/// is set.
fn follow(client: &ApiClient, ended: &AtomicBool, sender: &Sender<Value>) -> Result<(), Error> {
    let mut list = client.get(CLAIMS)?;
    let mut version = list["metadata"]["resourceVersion"].take();
    for claim in list["items"].as_array_mut().into_iter().flatten() {
        // The receiver is dropped only when the provisioner stops.
        let _ = sender.send(claim.take());
    }
    while !ended.load(Ordering::Relaxed) {
        let from = version.as_str().unwrap_or_default();
        // The watch is short, so that `ended` is noticed soon.
        let query = format!("{CLAIMS}?watch=1&timeoutSeconds=1&resourceVersion={from}");
        for line in client.stream(&query)?.lines() {
            // A broken connection is treated as a closed one.
            let Some(mut event) = line.ok().and_then(|line| serde_json::from_str::<Value>(&line).ok()) else {
                break;
            };
            let mut claim = event["object"].take();
            if event["type"] == "ERROR" {
                return Ok(());
            }
            version = claim["metadata"]["resourceVersion"].clone();
            if event["type"] == "DELETED" {
                claim["metadata"]["deletionTimestamp"] = "now".into();
            }
            let _ = sender.send(claim);
        }
    }
    Ok(())
}
