//! The comparison of verdicts finds real differences and reports no false ones.

use std::time::Duration;

use harbormaster_oracle::generate::{Cluster, Shape};
use harbormaster_oracle::verdicts::{Options, RealPlugins, Result, VerdictSource, Verdicts, run};

use crate::releases::MAIN;

fn options() -> Options {
    let shape = Shape { max_nodes: 15, max_pods: 40, admitted: false };
    Options {
        release: MAIN,
        seed: 1,
        clusters: 30,
        shape,
        shrink_for: Duration::from_secs(60),
        only: None,
        keep_going: false,
        command: String::new(),
    }
}

/// kube-scheduler's plugins, except that TaintToleration scores one point too high for pods that tolerate the key
/// `dedicated`.
struct FaultyPlugins(RealPlugins);

impl VerdictSource for FaultyPlugins {
    fn name(&self) -> &'static str {
        "faulty plugins"
    }

    fn judge(&mut self, cluster: &Cluster) -> Result<Verdicts> {
        let mut verdicts = self.0.judge(cluster)?;
        for pod in cluster.of_kind("Pod") {
            let tolerations = pod["spec"]["tolerations"].as_array();
            let is_wrong = tolerations.is_some_and(|list| list.iter().any(|item| item["key"] == "dedicated"));
            let [namespace, name] =
                ["namespace", "name"].map(|field| pod["metadata"][field].as_str().unwrap_or("default"));
            let name = format!("{namespace}/{name}");
            let Some(verdict) = verdicts.get_mut(&name).filter(|_| is_wrong) else { continue };
            for score in
                verdict.scores.values_mut().filter_map(|score| score.plugins.get_mut("TaintToleration"))
            {
                *score += 1;
            }
        }
        Ok(verdicts)
    }
}

#[test]
fn the_real_plugins_agree_with_themselves() {
    let (mut left, mut right) = (RealPlugins::start(MAIN).unwrap(), RealPlugins::start(MAIN).unwrap());
    let report = run(&options(), &mut left, &mut right, |_| {}).unwrap();
    assert!(report.finding.is_none(), "{report}");
    assert_eq!(report.counts.clusters, 30);
    assert!(report.counts.verdicts > 5_000 && report.counts.scores > 500, "{report}");
    for plugin in [
        "TaintToleration",
        "NodeAffinity",
        "NodePorts",
        "NodeResourcesFit",
        "NodeUnschedulable",
        "PodTopologySpread",
        "InterPodAffinity",
    ] {
        assert!(report.counts.rejections.contains_key(plugin), "{report}");
    }
}

#[test]
fn a_difference_is_shrunk_to_the_objects_that_matter() {
    let (mut left, mut right) =
        (RealPlugins::start(MAIN).unwrap(), FaultyPlugins(RealPlugins::start(MAIN).unwrap()));
    let report = run(&options(), &mut left, &mut right, |_| {}).unwrap();
    let finding = report.finding.as_ref().unwrap();
    assert_eq!(finding.difference.about, "score of TaintToleration", "{report}");
    assert_eq!(finding.cluster.objects.len(), 2, "{report}");
    let text = report.to_string();
    assert!(text.contains("key: dedicated") && text.contains("--clusters 1"), "{text}");
    assert!(!text.contains("image"), "{text}");
}
