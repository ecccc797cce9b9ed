//! Measured phases of a run.

use std::collections::BTreeSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::super::flame::Profile;
use super::super::measurement::{EVENTS_PATIENCE, SETTLING, server_cpu};
use super::super::watcher::Watcher;
use super::plan::Labels;
use super::selector::selector;
use crate::components::{ApiClient, ControlPlane};
use crate::process;

/// Interval between two looks at the events that have arrived.
const POLL: Duration = Duration::from_millis(200);

/// Longest time between two bindings at the end of a phase that does not know the number of its pods.
const QUIET: Duration = Duration::from_secs(1);

/// Sums over the measured phases of a run.
#[derive(Debug, Default)]
pub(super) struct Totals {
    pub(super) pods: usize,
    pub(super) events: usize,
    /// Sum of the times from the first binding of a phase to its last; from its start if there is only one binding.
    pub(super) binding: Duration,
    /// Number of pods that were bound in this time, after the moment at which it starts.
    pub(super) bound_in_time: usize,
    /// Longest time from the last binding of a phase to its last event.
    pub(super) last_event: Duration,
    pub(super) cpu: Duration,
    pub(super) server_cpu: Duration,
    /// CPU time of the scheduler before the first phase.
    pub(super) cpu_before: Option<Duration>,
}

/// A measured phase: from its start to the end of its work, including the events about its pods.
#[derive(Debug)]
pub(super) struct Phase {
    namespaces: Vec<String>,
    bindings: Vec<Watcher>,
    begun: Instant,
    cpu: Duration,
    server_cpu: Duration,
}

/// Measures a scheduler in phases.
#[derive(Debug)]
pub(super) struct Meter<'a> {
    pub(super) cluster: &'a ControlPlane,
    /// Process ID of the scheduler.
    pub(super) scheduler: u32,
    pub(super) profile: &'a mut Option<Profile>,
    pub(super) totals: Totals,
}

impl Meter<'_> {
    /// Starts a phase about the pods in some namespaces with some labels.
    pub(super) fn begin(&mut self, namespaces: &[String], labels: &Labels) -> Result<Phase> {
        let client = self.cluster.client();
        let watch = |namespace: &String| Watcher::bindings_in(client, namespace, &selector(labels));
        let bindings = namespaces.iter().map(watch).collect::<Result<_>>()?;
        if let Some(profile) = self.profile {
            profile.start(self.scheduler)?;
        }
        let (cpu, server_cpu) = (process::cpu_time(self.scheduler)?, server_cpu(self.cluster)?);
        self.totals.cpu_before.get_or_insert(cpu);
        Ok(Phase { namespaces: namespaces.to_owned(), bindings, begun: Instant::now(), cpu, server_cpu })
    }

    /// Ends a phase when its events have arrived, and adds it to the totals. `is_complete` is true if all its pods are
    /// known to have nodes.
    pub(super) fn finish(&mut self, phase: &Phase, is_complete: bool) -> Result<()> {
        if !is_complete {
            phase.wait_until_quiet();
        }
        let bound = phase.bound();
        let (events, last_event) = phase.wait_for_events(self.cluster.client(), &bound)?;
        sleep(SETTLING);
        let totals = &mut self.totals;
        totals.cpu += process::cpu_time(self.scheduler)?.saturating_sub(phase.cpu);
        totals.server_cpu += server_cpu(self.cluster)?.saturating_sub(phase.server_cpu);
        if let Some(profile) = self.profile {
            profile.stop()?;
        }
        let times = || bound.iter().map(|(_, _, at)| *at);
        let (Some(first), Some(last)) = (times().min(), times().max()) else { return Ok(()) };
        let (start, counted) = if bound.len() > 1 { (first, bound.len() - 1) } else { (phase.begun, 1) };
        totals.pods += bound.len();
        totals.events += events;
        totals.binding += last.saturating_duration_since(start);
        totals.bound_in_time += counted;
        let after = last_event.map_or(Duration::ZERO, |at| at.saturating_duration_since(last));
        totals.last_event = totals.last_event.max(after);
        Ok(())
    }
}

impl Phase {
    /// The watch of bindings in the first namespace.
    pub(super) fn bindings(&self) -> &Watcher {
        &self.bindings[0]
    }

    /// Waits until no further binding arrives.
    fn wait_until_quiet(&self) {
        let count = || self.bindings.iter().map(Watcher::count).sum::<usize>();
        let mut before = count();
        loop {
            sleep(QUIET);
            let now = count();
            if now == before {
                return;
            }
            before = now;
        }
    }

    /// Returns the index of the namespace, the name and the time of every pod that was bound in this phase.
    fn bound(&self) -> Vec<(usize, String, Instant)> {
        let in_namespace = |(index, watcher): (usize, &Watcher)| {
            let times = watcher.times_by_name();
            times.into_iter().map(move |(name, at)| (index, name, at)).collect::<Vec<_>>()
        };
        self.bindings.iter().enumerate().flat_map(in_namespace).collect()
    }

    /// Waits until there is an event for every bound pod, or until none arrives for a while. Returns the number of pods
    /// with an event, and the time of the last event.
    ///
    /// Events are counted only now, because a watch of them takes CPU time from the scheduler.
    fn wait_for_events(
        &self,
        client: &ApiClient,
        bound: &[(usize, String, Instant)],
    ) -> Result<(usize, Option<Instant>)> {
        let watch = |namespace: &String| {
            Watcher::events_in(client, namespace).with_context(|| format!("watching events in {namespace}"))
        };
        let watchers = self.namespaces.iter().map(watch).collect::<Result<Vec<_>>>()?;
        let pods: BTreeSet<(usize, String)> =
            bound.iter().map(|(namespace, name, _)| (*namespace, name.clone())).collect();
        let (mut found, mut last, mut progress) = (BTreeSet::new(), None, Instant::now());
        loop {
            let before = found.len();
            for (namespace, watcher) in watchers.iter().enumerate() {
                for (name, at) in watcher.times_by_name() {
                    // The name of an event is the name of its pod and a suffix.
                    let Some((pod, _)) = name.rsplit_once('.') else { continue };
                    let pod = (namespace, pod.to_owned());
                    if pods.contains(&pod) {
                        found.insert(pod);
                        last = last.max(Some(at));
                    }
                }
            }
            if found.len() > before {
                progress = Instant::now();
            }
            if found.len() == pods.len() || progress.elapsed() > EVENTS_PATIENCE {
                return Ok((found.len(), last));
            }
            sleep(POLL);
        }
    }
}
