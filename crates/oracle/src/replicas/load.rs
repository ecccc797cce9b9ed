//! Pods that are created at a steady rate, and deleted when the cluster is full enough.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle, sleep};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::ledger::{Ledger, Resources};
use crate::components::{ApiClient, Error};
use crate::generate::Random;

pub(crate) const NODES: &str = "/api/v1/nodes";
pub(crate) const PODS: &str = "/api/v1/namespaces/default/pods";

/// Average number of pods that fit on a node, whichever resource is exhausted first.
const PER_NODE: usize = 40;
/// Percentage of the nodes' capacity that is used in the long run.
const FULL: usize = 80;
/// Longest delay after which overdue pods are still created. If creation falls further behind schedule, the overdue
/// pods are skipped.
const MAX_DELAY: Duration = Duration::from_secs(1);
/// Delay before a failed request is retried.
const RETRY: Duration = Duration::from_millis(200);
/// Interval between checks for pods to delete.
const POLL: Duration = Duration::from_millis(5);
const CREATORS: usize = 8;
const DELETERS: usize = 16;

/// Capacities of nodes: a third of the nodes runs out of CPU first, a third out of memory, and a third reaches its
/// maximum number of pods.
const KINDS: [Resources; 3] = [[5_000, 32_768, 110], [16_000, 5_120, 110], [16_000, 32_768, 40]];

/// Names and capacities of the nodes.
pub(crate) fn nodes(count: usize) -> impl Iterator<Item = (String, Resources)> {
    (0..count).map(|index| (format!("node-{index}"), KINDS[index % KINDS.len()]))
}

pub(crate) fn node(name: &str, [cpu, memory, pods]: Resources) -> Value {
    let resources =
        json!({"cpu": format!("{cpu}m"), "memory": format!("{memory}Mi"), "pods": pods.to_string()});
    json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": resources, "allocatable": resources},
    })
}

/// Number of pods that are on `nodes` nodes in the long run.
pub(super) fn places(nodes: usize) -> usize {
    nodes * PER_NODE * FULL / 100
}

/// Threads that create and delete pods until this value is dropped.
pub(super) struct Load {
    creates: Arc<AtomicBool>,
    created: Arc<AtomicUsize>,
    creators: Vec<JoinHandle<()>>,
    deletes: Arc<AtomicBool>,
}

/// Schedule for creating pods.
struct Pace {
    interval: Duration,
    next: Instant,
    number: u64,
}

impl Load {
    /// Creates `rate` pods per second, and deletes the longest-bound pods while more than `places` pods have a node.
    pub(super) fn start(
        client: &ApiClient,
        rate: u32,
        seed: u64,
        places: usize,
        ledger: &Arc<Mutex<Ledger>>,
    ) -> Self {
        let (creates, deletes) = (Arc::new(AtomicBool::new(true)), Arc::new(AtomicBool::new(true)));
        let interval = Duration::from_secs(1) / rate.max(1);
        let pace = Arc::new(Mutex::new(Pace { interval, next: Instant::now(), number: 0 }));
        let created = Arc::new(AtomicUsize::new(0));
        let creator = || {
            let (client, creates, pace) = (client.clone(), creates.clone(), pace.clone());
            let created = created.clone();
            thread::spawn(move || {
                while creates.load(Ordering::Relaxed) {
                    let (number, at) = lock(&pace).claim(Instant::now());
                    sleep(at.saturating_duration_since(Instant::now()));
                    if until_done(&creates, 409, || client.post(PODS, &pod(seed, number))) {
                        created.fetch_add(1, Ordering::Relaxed);
                    }
                }
            })
        };
        let creators = (0..CREATORS).map(|_| creator()).collect();
        for _ in 0..DELETERS {
            let (client, deletes, ledger) = (client.clone(), deletes.clone(), ledger.clone());
            thread::spawn(move || {
                while deletes.load(Ordering::Relaxed) {
                    let oldest = lock(&ledger).oldest_beyond(places);
                    match oldest {
                        Some(name) => {
                            let path = format!("{PODS}/{name}?gracePeriodSeconds=0");
                            until_done(&deletes, 404, || client.delete(&path));
                        }
                        None => sleep(POLL),
                    }
                }
            });
        }
        Self { creates, created, creators, deletes }
    }

    /// Number of pods that the API server has created. The ledger may not know the most recent ones yet.
    pub(super) fn created(&self) -> usize {
        self.created.load(Ordering::Relaxed)
    }

    /// Stops creating pods; deletion continues.
    pub(super) fn stop_creating(&mut self) {
        self.creates.store(false, Ordering::Relaxed);
        for creator in self.creators.drain(..) {
            // A panic of the thread has already been printed.
            let _ = creator.join();
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.creates.store(false, Ordering::Relaxed);
        self.deletes.store(false, Ordering::Relaxed);
    }
}

impl Pace {
    /// Returns the number of the next pod and the time at which to create it, and advances the schedule.
    fn claim(&mut self, now: Instant) -> (u64, Instant) {
        if now.saturating_duration_since(self.next) > MAX_DELAY {
            self.next = now;
        }
        let (number, at) = (self.number, self.next);
        self.number += 1;
        self.next += self.interval;
        (number, at)
    }
}

/// Repeats a request until it succeeds or fails with the status `done`, and then returns true. Returns false if the
/// request fails in any other way while `is_running` is false.
fn until_done(is_running: &AtomicBool, done: u16, mut act: impl FnMut() -> Result<Value, Error>) -> bool {
    loop {
        match act() {
            Ok(_) => return true,
            Err(Error::Refused { status, .. }) if status == done => return true,
            Err(_) if !is_running.load(Ordering::Relaxed) => return false,
            Err(_) => sleep(RETRY),
        }
    }
}

/// A pod with a random size. Its quantities are in the API server's canonical form.
pub(crate) fn pod(seed: u64, number: u64) -> Value {
    let mut random = Random::new(seed ^ number.rotate_left(32));
    let cpu = format!("{}m", random.pick(&[50, 100, 150, 200]));
    let memory = format!("{}Mi", random.pick(&[64, 128, 192]));
    let requests = json!({"cpu": cpu, "memory": memory});
    json!({
        "metadata": {"name": format!("pod-{number}"), "labels": {"app": format!("app-{}", number % 50)}},
        "spec": {"containers": [{"name": "c", "image": "registry.example/app:v1", "resources": {"requests": requests}}]},
    })
}

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pods_missed_in_a_long_delay_are_skipped() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut pace = Pace { interval: second / 10, next: start, number: 0 };
        assert_eq!(pace.claim(start), (0, start));
        assert_eq!(pace.claim(start + second / 2), (1, start + second / 10));
        let late = start + 20 * second;
        assert_eq!(pace.claim(late), (2, late));
        assert_eq!(pace.claim(late), (3, late + second / 10));
    }

    #[test]
    fn about_forty_pods_fill_every_kind_of_node() {
        let mut sums = [0, 0, 0];
        for number in 0..1200 {
            let requests = &pod(1, number)["spec"]["containers"][0]["resources"]["requests"];
            let amount = |field: &str, unit| {
                requests[field].as_str().unwrap().strip_suffix(unit).unwrap().parse::<u64>().unwrap()
            };
            sums = [sums[0] + amount("cpu", "m"), sums[1] + amount("memory", "Mi"), sums[2] + 1];
        }
        for (resource, kind) in KINDS.iter().enumerate() {
            let holds = kind[resource] * 1200 / sums[resource];
            assert!((38..=42).contains(&holds), "{resource}: {holds}");
        }
    }
}
