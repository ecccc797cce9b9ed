//! PostFilter plugins asked directly, with a real attempt to answer their questions.

use std::sync::Arc;

use harbormaster_framework::{
    attempt::{Attempt, Found, NominatedRow, Search},
    cluster::Cluster,
    cycle::{DryRun, PostFilterCycle, WhatIf},
    nodeset::NodeIdx,
    objects::Objects,
    outcome::{Fix, PluginResult, PostFiltered, Reject},
    plugin::PostFilter,
    pod::PodInfo,
    profile::Profile,
    table::NodeTable,
    window::{Tie, Window},
};

/// A cluster in which a pod finds no node.
pub struct WhatIfTrial {
    attempt: Attempt,
    cluster: Cluster,
    nominated: Vec<Arc<PodInfo>>,
    offset: usize,
    dry_runs: Vec<String>,
    pre_filter: Option<Reject>,
}

impl WhatIfTrial {
    /// Tries pods of that profile on the cluster.
    pub fn new(profile: Arc<Profile>, cluster: Cluster) -> Self {
        let attempt = Attempt::new(profile);
        Self { attempt, cluster, nominated: Vec::new(), offset: 0, dry_runs: Vec::new(), pre_filter: None }
    }

    /// One more pod that counts on the node in its `status.nominatedNodeName`.
    #[must_use]
    pub fn nominate(mut self, pod: Arc<PodInfo>) -> Self {
        self.nominated.push(pod);
        self
    }

    /// What [`WhatIf::offset`] is from now on.
    pub fn set_offset(&mut self, offset: usize) {
        self.offset = offset;
    }

    /// The cluster.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// The nodes that were dry-run for the latest pod, in order.
    pub fn dry_runs(&self) -> &[String] {
        &self.dry_runs
    }

    /// Whether the pod finds a node. Nominated pods count as for [`Self::ask`].
    ///
    /// # Panics
    /// When a plugin of the profile fails.
    pub fn fits(&mut self, pod: &PodInfo) -> bool {
        self.cluster.refresh();
        let search = Search { window: Window::All, tie: Tie::Rotate };
        let rows = self.cluster.order().to_vec();
        let nominated = rows.into_iter().map(|row| NominatedRow { row, pods: self.counting_on(row, pod) });
        let nominated: Vec<_> = nominated.filter(|n| !n.pods.is_empty()).collect();
        match self.attempt.find(&mut self.cluster, pod, search, &mut 0, &nominated, &[]) {
            Ok(Found::Node { .. }) => true,
            Ok(Found::Nowhere(diagnosis)) => {
                self.pre_filter = diagnosis.pre_filter.map(|(_, reject)| reject);
                false
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// What the plugin says when the pod finds no node.
    ///
    /// # Errors
    /// As the plugin fails.
    ///
    /// # Panics
    /// When the pod does find one.
    pub fn ask<P: PostFilter>(&mut self, plugin: &P, pod: &PodInfo) -> PluginResult<PostFiltered> {
        assert!(!self.fits(pod), "{pod:?} finds a node");
        self.dry_runs.clear();
        let pre_filter = self.pre_filter.take();
        let what_if = &mut Questions { trial: self, pod };
        plugin.post_filter(&mut PostFilterCycle { pod, pre_filter, what_if })
    }

    /// Pods of equal or higher priority that are nominated to the row.
    fn counting_on(&self, row: NodeIdx, pod: &PodInfo) -> Vec<Arc<PodInfo>> {
        let name = self.cluster.node(row).name();
        let here = self.nominated.iter().filter(|p| p.status.nominated_node_name.as_ref() == Some(name));
        here.filter(|p| p.priority() >= pod.priority() && p.uid != pod.uid).cloned().collect()
    }
}

struct Questions<'a> {
    trial: &'a mut WhatIfTrial,
    pod: &'a PodInfo,
}

impl WhatIf for Questions<'_> {
    fn nodes(&self) -> &NodeTable {
        self.trial.cluster.nodes()
    }

    fn objects(&self) -> &Objects {
        self.trial.cluster.objects()
    }

    fn rejection(&self, row: NodeIdx) -> Option<Reject> {
        self.trial.attempt.rejection_of(self.pod, row)
    }

    fn evictable_rows(&self) -> Vec<NodeIdx> {
        let rows = self.trial.cluster.order();
        self.trial.attempt.rows_rejected_with(self.pod, rows, Fix::EvictionMayHelp)
    }

    fn offset(&self) -> usize {
        self.trial.offset
    }

    fn dry_run(
        &mut self,
        row: NodeIdx,
        ask: &mut dyn FnMut(&mut dyn DryRun) -> PluginResult<()>,
    ) -> PluginResult<()> {
        let nominated = self.trial.counting_on(row, self.pod);
        let name = self.trial.cluster.node(row).name().to_string();
        self.trial.dry_runs.push(name);
        let (attempt, cluster) = (&self.trial.attempt, &mut self.trial.cluster);
        match attempt.dry_run(cluster, self.pod, row, &nominated) {
            Some(mut dry_run) => ask(&mut dry_run),
            None => Ok(()),
        }
    }
}
