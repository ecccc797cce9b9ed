//! Checks that any change that makes a rejected pod fit wakes the pod.

use std::sync::Arc;

use harbormaster_api::{Release, Str};
use harbormaster_framework::{
    cluster::Cluster,
    events::{ErasedRegistration, Hint, HintCycle},
    pod::PodInfo,
    profile::registrations,
};

use crate::{
    happenings::{Happening, Told},
    random::Dice,
    trial::Trial,
};

/// Checks that the pod is woken whenever a change makes it fit on a node that the plugin rejected before: one of the
/// plugin's registrations must match the event, and its hint, if any, must not return
/// [`Hint::Skip`](harbormaster_framework::events::Hint::Skip). Applies the happenings in sequence. After each, checks
/// whether the plugin now accepts a node that it rejected before, or a new node. Returns the number of happenings that
/// helped.
///
/// # Panics
/// If a happening helped but did not wake the pod, or if the plugin fails.
pub fn what_helps_wakes(
    trial: &Trial,
    nodes: &mut Cluster,
    pod: &Arc<PodInfo>,
    happenings: impl IntoIterator<Item = Happening>,
) -> usize {
    let mut sleeper = Sleeper::new(trial, nodes, pod.clone());
    let helped = happenings.into_iter().map(|happening| usize::from(sleeper.see(nodes, happening)));
    helped.sum()
}

/// Runs [`what_helps_wakes`] on random clusters of a few nodes, with `happenings` changes in each cluster. The pod is
/// also random, and if possible one that the plugin rejects on at least one node. Returns the number of happenings that
/// helped.
///
/// # Panics
/// Like [`what_helps_wakes`].
pub fn what_helps_wakes_anywhere(
    trial: &Trial,
    dice: &mut Dice,
    clusters: usize,
    happenings: usize,
) -> usize {
    let mut helped = 0;
    for _ in 0..clusters {
        let size = 1 + dice.below(4) as usize;
        let mut nodes = dice.cluster(size);
        let mut sleeper = Sleeper::new(trial, &nodes, dice.pod("sleeping").info());
        for _ in 0..20 {
            if sleeper.fitted.is_some() {
                break;
            }
            sleeper = Sleeper::new(trial, &nodes, dice.pod("sleeping").info());
        }
        for _ in 0..happenings {
            let happening = dice.happening(&nodes, &sleeper.pod);
            helped += usize::from(sleeper.see(&mut nodes, happening));
        }
    }
    helped
}

/// A pod that the plugin may have rejected, and a log of the happenings since the last attempt.
struct Sleeper<'a> {
    trial: &'a Trial,
    registrations: Vec<ErasedRegistration>,
    pod: Arc<PodInfo>,
    /// Names of the nodes that passed in the last attempt; `None` if the plugin rejected no node.
    fitted: Option<Vec<Str>>,
    since: Vec<String>,
}

impl<'a> Sleeper<'a> {
    fn new(trial: &'a Trial, nodes: &Cluster, pod: Arc<PodInfo>) -> Self {
        let registrations = registrations(trial.plugin(), true, Release::NEWEST).unwrap_or_default();
        let mut sleeper = Self { trial, registrations, pod, fitted: None, since: Vec::new() };
        sleeper.attempt(nodes);
        sleeper
    }

    /// Returns the names of the nodes that the plugin accepts for the pod.
    fn fitting(&self, nodes: &Cluster) -> Vec<Str> {
        let fits = |name: &Str| self.trial.verdict(nodes, &self.pod, name).is_ok();
        nodes.nodes().nodes().map(|node| node.name().clone()).filter(fits).collect()
    }

    /// Tries the pod and clears the log.
    fn attempt(&mut self, nodes: &Cluster) {
        let fitting = self.fitting(nodes);
        self.fitted = (fitting.len() < nodes.node_count()).then_some(fitting);
        self.since.clear();
    }

    /// Applies a happening and returns true if it helped.
    fn see(&mut self, nodes: &mut Cluster, happening: Happening) -> bool {
        let what = format!("{happening:?}");
        let all = happening.take_place(nodes, &mut self.pod);
        let told: Vec<String> = all.iter().map(Told::to_string).collect();
        self.since.push(format!(
            "{what}: {}",
            if told.is_empty() { "no event".to_owned() } else { told.join("; ") }
        ));
        let woken = all.iter().any(|told| self.is_woken_by(told, nodes));
        let Some(fitted) = &self.fitted else {
            self.attempt(nodes);
            return false;
        };
        let fitting = self.fitting(nodes);
        let helped = fitting.into_iter().find(|name| !fitted.contains(name));
        if let (Some(node), false) = (&helped, woken) {
            panic!(
                "{}: does not wake {:?}, which now fits {node}. Changes since the last attempt: {:#?}",
                self.trial.plugin().name(),
                self.pod,
                self.since
            );
        }
        if woken {
            self.attempt(nodes);
        }
        helped.is_some()
    }

    fn is_woken_by(&self, told: &Told, nodes: &Cluster) -> bool {
        let cx = HintCycle { pod: &self.pod, objects: nodes.objects() };
        let heard = self.registrations.iter().filter(|registration| registration.event.matches(told.event));
        heard.into_iter().any(|registration| match &registration.hint {
            None => true,
            Some(hint) => {
                let said = self.trial.plugin().hint(hint, cx, &told.change.view());
                !matches!(said, Ok(Hint::Skip))
            }
        })
    }
}
