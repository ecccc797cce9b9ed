//! Workloads from the configuration files of Kubernetes' own `scheduler_perf`.
//!
//! [`Catalog`] finds the files in the Go module cache and makes a [`Plan`] of each workload, or says why it cannot run.
//! The operations of a plan run one after the other against a real API server, as in `scheduler_perf`; unlike there,
//! the scheduler is a process of its own. The measured phases are those in which `scheduler_perf` collects metrics.

mod build;
mod catalog;
mod cluster;
mod config;
mod listing;
mod objects;
mod obstacle;
mod op;
mod params;
mod phase;
mod plan;
mod player;
mod selector;
mod template;

use anyhow::{Result, ensure};

pub use catalog::{Catalog, Entry};
pub use listing::Listing;
pub use obstacle::Obstacle;
pub use plan::Plan;

use super::Options;
use super::flame::Profile;
use super::measurement::{Measurement, milliseconds};
use crate::components::ControlPlane;
use crate::process;
use crate::scheduler::{Contender, Scheduler};
use phase::{Meter, Totals};
use player::Player;

/// Runs `contender` once on its own control plane. The scheduler starts in an empty cluster.
pub(super) fn measure(
    options: &Options,
    plan: &Plan,
    contender: &Contender,
    profile: &mut Option<Profile>,
) -> Result<Measurement> {
    let cluster = ControlPlane::start(&cluster::control_plane_options(plan, options.release))?;
    let mut scheduler = Scheduler::start(contender, &cluster, &cluster::start_options(plan))?;
    let meter = Meter { cluster: &cluster, scheduler: scheduler.pid(), profile, totals: Totals::default() };
    let mut player = Player::new(meter, options.threads);
    let churn_objects = player.play(&plan.steps).or_else(|error| scheduler.check().and(Err(error)))?;
    let totals = player.meter.totals;
    ensure!(totals.pods > 0, "no pod got a node while metrics were collected");
    let memory = process::memory(scheduler.pid())?;
    scheduler.stop()?;
    Ok(measurement(&totals, memory, churn_objects))
}

fn measurement(totals: &Totals, memory: process::Memory, churn_objects: usize) -> Measurement {
    let pods = totals.pods as f64;
    Measurement {
        pods_per_second: totals.bound_in_time as f64 / totals.binding.as_secs_f64(),
        cpu_ms_per_pod: milliseconds(totals.cpu) / pods,
        start_cpu_ms: milliseconds(totals.cpu_before.unwrap_or_default()),
        resident_mib: memory.resident as f64 / 1024.0,
        peak_mib: memory.peak as f64 / 1024.0,
        start_to_first_binding_s: None,
        server_cpu_ms_per_pod: milliseconds(totals.server_cpu) / pods,
        pods: totals.pods,
        events: totals.events,
        last_event_s: totals.last_event.as_secs_f64(),
        volume_writes: 0,
        churn_pods: churn_objects,
        latency: None,
        lists: None,
    }
}

#[cfg(test)]
mod tests;
