//! Measurement of one run of one scheduler.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::Serialize;

use super::churn::Churn;
use super::creation::Creator;
use super::flame::Profile;
use super::latency::Latency;
use super::load_watcher;
use super::volume_controller::VolumeController;
use super::watcher::Watcher;
use super::workload::{Load, Size, Workload};
use super::{Options, configuration};
use crate::components::{ControlPlane, ControlPlaneOptions};
use crate::scheduler::{Contender, Scheduler, StartOptions};
use crate::{groups, process};

/// Longest time from the start to the first binding, and between two bindings. A slower run fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(120);

/// Longest wait for the next event after the last binding. It exceeds the backoff of a scheduler that failed to write
/// an event.
pub(super) const EVENTS_PATIENCE: Duration = Duration::from_secs(15);

/// Time allowed for memory to settle after the last event.
pub(super) const SETTLING: Duration = Duration::from_secs(2);

/// Result of one run. In a workload of status updates, each update counts as a measured pod with its event.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Measurement {
    /// Measured pods per second, from their first binding to their last.
    pub pods_per_second: f64,
    /// CPU time of the scheduler per measured pod in milliseconds, including the pod's event and excluding the CPU time
    /// before the first measured pod.
    pub cpu_ms_per_pod: f64,
    /// CPU time of the scheduler until the warm-up pods were bound, or until the first measured pod, in milliseconds.
    pub start_cpu_ms: f64,
    /// Resident memory two seconds after the last event, in MiB.
    pub resident_mib: f64,
    /// Peak resident memory, in MiB.
    pub peak_mib: f64,
    /// Time from the start of the process to the first binding, in seconds. `None` if the cluster is empty at the
    /// start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_to_first_binding_s: Option<f64>,
    /// CPU time of kube-apiserver and etcd per measured pod, in milliseconds.
    pub server_cpu_ms_per_pod: f64,
    /// Number of measured pods. A faster scheduler binds more in workloads that last for a fixed time.
    pub pods: usize,
    /// Number of `Scheduled` events for measured pods that the API server received; the maximum is one per pod.
    pub events: usize,
    /// Time from the last binding to the last of these events, in seconds.
    pub last_event_s: f64,
    /// Number of times that the scheduler wrote a volume, in workloads in which it chooses volumes; the maximum is one
    /// per pod.
    pub volume_writes: usize,
    /// Number of churn pods and other churn objects, which are created at regular intervals. A faster scheduler handles
    /// fewer of them, so its CPU time is lower.
    pub churn_pods: usize,
    /// Times from creation to binding, if the pods were created at a given rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latency: Option<Latency>,
    /// Cost of the lists that a start needs, if the start is measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lists: Option<Lists>,
}

/// Cost of listing all nodes and pods, one kind after the other, in protobuf. No scheduler can start faster than the API
/// server encodes these lists.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Lists {
    /// Time until a client that decodes nothing has the lists, in seconds.
    pub seconds: f64,
    /// CPU time of kube-apiserver and etcd, in milliseconds.
    pub server_cpu_ms: f64,
    /// Size of the lists, in MiB.
    pub mib: f64,
}

impl Lists {
    fn measure(cluster: &ControlPlane) -> Result<Self> {
        let (begun, before) = (Instant::now(), server_cpu(cluster)?);
        let mut size = 0;
        for path in ["/api/v1/nodes?resourceVersion=0", "/api/v1/pods?resourceVersion=0"] {
            size += cluster.client().get_as(path, "application/vnd.kubernetes.protobuf")?.len();
        }
        Ok(Self {
            seconds: begun.elapsed().as_secs_f64(),
            server_cpu_ms: milliseconds(server_cpu(cluster)?.saturating_sub(before)),
            mib: size as f64 / f64::from(1 << 20),
        })
    }
}

/// Runs `contender` once on its own control plane.
pub(super) fn measure(
    options: &Options,
    workload: &Workload,
    size: Size,
    contender: &Contender,
    profile: &mut Option<Profile>,
) -> Result<Measurement> {
    let cluster = ControlPlane::start(&control_plane_options(options, workload))?;
    let client = cluster.client().clone();
    let creator = Creator { client: &client, workload, size, threads: options.threads, rate: options.rate };
    creator.prepare()?;
    if options.backlog && matches!(workload.load, Load::Pods | Load::Start) {
        creator.create_measured()?;
    }
    let watcher = Watcher::bindings(&client)?;
    let creations = options.rate.map(|_| Watcher::creations(&client)).transpose()?;
    let binds_volumes = workload.has_waiting_claims();
    let volumes = binds_volumes.then(|| VolumeController::start(&client, options.threads)).transpose()?;

    let gates = [(workload.has_groups(), groups::GATE), (workload.has_racks(), groups::TOPOLOGY_GATE)];
    let gates = gates.into_iter().filter(|(is_on, _)| *is_on).map(|(_, gate)| gate.to_owned());
    let watcher_url = match workload.has_plugin() {
        true => load_watcher::serve(size.nodes)?,
        false => String::new(),
    };
    let start_options = StartOptions {
        config: configuration(workload.profile(&watcher_url)).to_string(),
        feature_gates: gates.collect(),
        ..StartOptions::default()
    };
    let lists = (workload.load == Load::Start).then(|| Lists::measure(&cluster)).transpose()?;
    let start = Instant::now();
    let mut scheduler = Scheduler::start(contender, &cluster, &start_options)?;
    let warm_up = creator.warm_up();
    let warm = watcher.wait_for(warm_up, PATIENCE);
    if let Some(profile) = profile {
        profile.start(scheduler.pid())?;
    }
    let start_cpu = process::cpu_time(scheduler.pid())?;
    let server_before = server_cpu(&cluster)?;
    let mut updating = None;
    let churn_pods = warm
        .and_then(|()| {
            let churn = workload.churn_pod.map(|pod| Churn::start(&client, pod));
            match workload.load {
                Load::Updates => updating = Some(creator.update_statuses()?),
                Load::SteadyPods => creator.replace_measured(&watcher, PATIENCE)?,
                Load::Pods | Load::Start if !options.backlog => creator.create_measured()?,
                Load::Pods | Load::Start => {}
            }
            if updating.is_none() {
                watcher.wait_for(warm_up + size.pods, PATIENCE)?;
            }
            churn.map_or(Ok(0), Churn::stop)
        })
        .or_else(|error| scheduler.check().and(Err(error)))?;

    // Event counting starts only now, because it takes CPU time too.
    let event_watcher = Watcher::events(&client)?;
    let counted = updating.map_or(size.pods, |_| 0);
    let events = event_watcher.wait_at_most(counted, EVENTS_PATIENCE);
    sleep(SETTLING);
    let cpu = process::cpu_time(scheduler.pid())?.saturating_sub(start_cpu);
    let server = server_cpu(&cluster)?.saturating_sub(server_before);
    if let Some(profile) = profile {
        profile.stop()?;
    }
    let memory = process::memory(scheduler.pid())?;
    let time = |index: usize| watcher.time(index).context("a counted binding has no time");
    let (measured, last_event_s) = match updating {
        Some(updating) => (updating, 0.0),
        None => {
            let last_binding = time(warm_up + size.pods - 1)?;
            let last_event = events.checked_sub(1).and_then(|last| event_watcher.time(last));
            let after = |event: Instant| event.saturating_duration_since(last_binding).as_secs_f64();
            (last_binding.duration_since(time(warm_up)?), last_event.map_or(0.0, after))
        }
    };
    let start_to_first_binding_s = Some(time(0)?.duration_since(start).as_secs_f64());
    scheduler.stop()?;
    let pods = size.pods as f64;
    Ok(Measurement {
        pods_per_second: (pods - 1.0) / measured.as_secs_f64(),
        cpu_ms_per_pod: milliseconds(cpu) / pods,
        start_cpu_ms: milliseconds(start_cpu),
        resident_mib: memory.resident as f64 / 1024.0,
        peak_mib: memory.peak as f64 / 1024.0,
        start_to_first_binding_s,
        server_cpu_ms_per_pod: milliseconds(server) / pods,
        pods: size.pods,
        events: if counted == 0 { size.pods } else { events },
        last_event_s,
        volume_writes: volumes.as_ref().map_or(0, VolumeController::writes),
        churn_pods,
        latency: creations.and_then(|creations| Latency::between(&creations, &watcher)),
        lists,
    })
}

/// Options of the control plane for a workload. If pods have claims for devices, kube-controller-manager runs its
/// resource claim controller and its garbage collector, which deletes the claims of deleted pods.
fn control_plane_options(options: &Options, workload: &Workload) -> ControlPlaneOptions {
    ControlPlaneOptions {
        release: options.release,
        apiserver_flags: if workload.has_groups() { groups::apiserver_flags() } else { Vec::new() },
        controller_manager: workload.has_device_claims(),
        controller_manager_flags: device_claim_controllers(),
        ..ControlPlaneOptions::default()
    }
}

/// Flags of kube-controller-manager with which it only creates and deletes claims for devices.
pub(super) fn device_claim_controllers() -> Vec<String> {
    let flags = [
        "--controllers=resourceclaim-controller,garbage-collector-controller",
        "--kube-api-qps=5000",
        "--kube-api-burst=5000",
    ];
    flags.map(str::to_owned).to_vec()
}

pub(super) fn server_cpu(cluster: &ControlPlane) -> Result<Duration> {
    Ok(process::cpu_time(cluster.apiserver().pid())? + process::cpu_time(cluster.etcd().pid())?)
}

pub(super) fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
