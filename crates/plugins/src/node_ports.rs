//! NodePorts: keeps pods with conflicting host ports off the same node.
//!
//! # What it does
//! Extension points: PreFilter, Filter. Compares the host ports of the pod's containers and sidecars with the host
//! ports in use on the node.
//!
//! # Rejects when
//! A port is in use: `node(s) didn't have free ports for the requested pod ports`. Two ports conflict if their
//! protocols and numbers are equal, and their addresses are equal or one of them is `0.0.0.0`. Evicting the pod that
//! uses the port helps. Pods without host ports are skipped; ports of init containers that are not sidecars do not
//! count.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! A new node; the deletion or termination of a bound or nominated pod that has a port that conflicts with a port of
//! the waiting pod.
//!
//! # Differs from kube-scheduler
//! If its PreFilter is disabled, the plugin still filters instead of failing.

use harbormaster_api::requests;
use harbormaster_framework::{prelude::*, table::UsedPorts};

use crate::{rows::both, sign};

const REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// Rejects nodes whose host ports are in use. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct NodePorts;

impl Plugin for NodePorts {
    const NAME: &'static str = "NodePorts";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        use EventResource::{AssignedPod, Node};
        Some(vec![
            Registration::hinted(AssignedPod, Action::DELETE, Self::after_pod),
            Registration::always(Node, Action::ADD),
        ])
    }

    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.derived.host_ports);
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![sign::host_ports(pod)])
    }
}

impl PreFilter<Row> for NodePorts {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<()>, Stop> {
        Ok(if cx.pod.derived.host_ports.is_empty() { PreFiltered::Skip } else { PreFiltered::state(()) })
    }
}

impl Filter<Row> for NodePorts {
    fn filter(&self, cx: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let taken = collides(cx.pod, node.used_ports());
        if taken { Err(Reject::evictable(REASON).into()) } else { Ok(()) }
    }

    fn filter_batch(&self, cx: &RowCycle<'_>, (): &(), sweep: &mut Sweep<'_>) -> PluginResult<()> {
        let with_ports = both(sweep.rows(), &cx.nodes.columns().with_ports);
        let taken = with_ports.filter(|row| collides(cx.pod, cx.nodes.node(*row).used_ports()));
        sweep.reject_each(taken, &Reject::evictable(REASON));
        Ok(())
    }
}

fn collides(pod: RowPod<'_>, used: &UsedPorts) -> bool {
    pod.derived.host_ports.iter().any(|port| used.conflicts(port))
}

impl NodePorts {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        if gone.node_name.is_none() && gone.status.nominated_node_name.is_none() {
            return Ok(Hint::Skip);
        }
        let mut freed = UsedPorts::default();
        requests::host_ports(&gone.spec).iter().for_each(|port| freed.add(port));
        Ok(if collides(pod.for_rows(), &freed) { Hint::Queue } else { Hint::Skip })
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::pod::HostPort;
    use harbormaster_framework::events::ClusterEvent;
    use harbormaster_testkit::{PodBuilder, Trial, cluster, node, pod};

    use super::*;

    fn with_ports(name: &str, ports: &[&str]) -> PodBuilder {
        ports.iter().fold(pod(name), |pod, port| {
            let mut parts = port.split('/');
            let mut next = || parts.next().unwrap();
            let (protocol, ip, number) = (next(), next(), next());
            pod.host_port_on(protocol, ip, number.parse().unwrap())
        })
    }

    #[test]
    fn ports_collide_if_protocols_and_numbers_are_equal_and_addresses_overlap() {
        let refused = Err(Reject::evictable("node(s) didn't have free ports for the requested pod ports"));
        for (wanted, used, fits) in [
            (vec!["TCP/0.0.0.0/8080"], vec![], true),
            (vec!["UDP/127.0.0.1/8080"], vec!["UDP/127.0.0.1/9090"], true),
            (vec!["UDP/127.0.0.1/8080"], vec!["UDP/127.0.0.1/8080"], false),
            (vec!["UDP/127.0.0.1/8080"], vec!["UDP/127.0.0.2/8080"], true),
            (vec!["TCP/127.0.0.1/8080"], vec!["UDP/127.0.0.1/8080"], true),
            (vec!["TCP/0.0.0.0/8001"], vec!["TCP/127.0.0.1/8001"], false),
            (vec!["TCP/127.0.0.1/8001"], vec!["TCP/0.0.0.0/8001"], false),
            (vec!["TCP/::/8001"], vec!["TCP/127.0.0.1/8001"], true),
            (vec!["TCP/0.0.0.0/1", "UDP/127.0.0.1/2"], vec!["UDP/127.0.0.1/2"], false),
        ] {
            let nodes = cluster([node("n")], [with_ports("bound", &used).on("n")]);
            let verdict = Trial::of(NodePorts).verdict(&nodes, &with_ports("p", &wanted).info(), "n");
            assert_eq!(verdict, if fits { Ok(()) } else { refused.clone() }, "{wanted:?} {used:?}");
        }
    }

    #[test]
    fn sidecars_count_but_other_init_containers_do_not() {
        let nodes = cluster([node("n")], []);
        let port = HostPort { ip: "0.0.0.0".into(), protocol: "TCP".into(), port: 80 };
        let skips = |pod: PodBuilder| {
            let pod = pod.spec(|s| s.init_containers[0].host_ports.push(port.clone())).info();
            matches!(Trial::of(NodePorts).pre_filter(&nodes, &pod).unwrap(), PreFiltered::Skip)
        };
        assert!(skips(pod("init").init_container(&[])));
        assert!(!skips(pod("sidecar").sidecar(&[])));
    }

    #[test]
    fn the_removal_of_a_bound_or_nominated_pod_with_a_conflicting_port_wakes_the_pod() {
        let waiting = with_ports("p", &["TCP/0.0.0.0/80"]).info();
        let event = ClusterEvent::new(EventResource::AssignedPod, Action::DELETE);
        for (gone, expected) in [
            (with_ports("placed", &["TCP/10.0.0.1/80"]).on("n"), Hint::Queue),
            (with_ports("nominated", &["TCP/0.0.0.0/80"]).nominated_to("n"), Hint::Queue),
            (with_ports("nowhere", &["TCP/0.0.0.0/80"]), Hint::Skip),
            (with_ports("other port", &["TCP/0.0.0.0/81"]).on("n"), Hint::Skip),
            (with_ports("other protocol", &["UDP/0.0.0.0/80"]).on("n"), Hint::Skip),
            (pod("no ports").on("n"), Hint::Skip),
        ] {
            let gone = gone.build();
            let change = Change::Pod { old: Some(&gone), new: None };
            assert_eq!(Trial::of(NodePorts).hint(event, &waiting, &change), Some(expected), "{}", gone.name);
        }
        let added = ClusterEvent::new(EventResource::Node, Action::ADD);
        assert_eq!(Trial::of(NodePorts).hint(added, &waiting, &Change::Other), Some(Hint::Queue));
    }
}
