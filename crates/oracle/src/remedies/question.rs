//! Questions to the real plugins about one pod.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::workloads::full_name;
use crate::verdict_oracle::{Candidate, PodVerdict, Request, VerdictOracle};

/// A pod that fits nowhere, and its cluster.
pub(super) struct Question<'a> {
    pub(super) real: &'a mut VerdictOracle,
    pub(super) config: &'a Value,
    /// The cluster without other pending pods.
    pub(super) objects: &'a [Value],
    /// `namespace/name` of the pod.
    pub(super) pod: &'a str,
}

impl Question<'_> {
    /// Returns the pod as a manifest.
    pub(super) fn pod_object(&self) -> Result<&Value> {
        let pod = self.objects.iter().find(|object| object["kind"] == "Pod" && full_name(object) == self.pod);
        pod.context("the pod is among the objects")
    }

    /// Returns the cluster in which the pod has another priority and may preempt.
    pub(super) fn with_priority(&self, priority: i64) -> Vec<Value> {
        let mut objects = self.objects.to_vec();
        for pod in
            objects.iter_mut().filter(|object| object["kind"] == "Pod" && full_name(object) == self.pod)
        {
            pod["spec"]["priority"] = priority.into();
            pod["spec"]["preemptionPolicy"] = "PreemptLowerPriority".into();
        }
        objects
    }

    /// Returns true if the real plugins accept the pod on some node of a changed cluster.
    pub(super) fn fits(&mut self, objects: Vec<Value>) -> Result<bool> {
        let verdicts = self.ask(objects, false)?;
        Ok(verdicts.iter().any(|verdict| verdict.nodes.values().any(Option::is_none)))
    }

    /// Returns true if the real plugins accept the pod on the node of a changed cluster without some pods.
    pub(super) fn fits_without(
        &mut self,
        mut objects: Vec<Value>,
        gone: &[String],
        node: &str,
    ) -> Result<bool> {
        objects.retain(|object| object["kind"] != "Pod" || !gone.contains(&full_name(object)));
        let verdicts = self.ask(objects, false)?;
        Ok(verdicts.iter().any(|verdict| verdict.nodes.get(node).is_some_and(Option::is_none)))
    }

    /// Returns the nodes of a changed cluster on which evictions make room for the pod; `None` if it fits without.
    pub(super) fn candidates(&mut self, objects: Vec<Value>) -> Result<Option<BTreeMap<String, Candidate>>> {
        let preemption = self.ask(objects, true)?.into_iter().next().and_then(|verdict| verdict.preemption);
        Ok(preemption.map(|preemption| preemption.candidates))
    }

    fn ask(&mut self, objects: Vec<Value>, preempt: bool) -> Result<Vec<PodVerdict>> {
        let pods = vec![self.pod.to_owned()];
        let config = Some(self.config.clone());
        let request = Request { id: 1, config, objects, pods, preempt, ..Request::default() };
        let response = self.real.ask(&request)?;
        if let Some(error) = response.error {
            bail!("kube-scheduler's plugins rejected the cluster: {error}");
        }
        Ok(response.pods)
    }
}
