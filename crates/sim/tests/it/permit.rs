//! Pods that lose the node reserved for them.

use std::time::Duration;

use harbormaster_api::Str;
use harbormaster_framework::prelude::*;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, simulate};
use harbormaster_testkit::{node, pod};

/// Holds every pod back at Permit, without ever allowing it.
#[derive(Default)]
struct Waits;

impl Plugin for Waits {
    const NAME: &'static str = "Waits";
    implemented_points!();
}

impl Permit for Waits {
    fn permit(&self, _: &Cycle<'_>, _: &Str, _: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        Ok(Permitted::Wait(Duration::from_secs(90)))
    }
}

#[test]
fn a_pod_that_times_out_on_permit_reports_the_timeout() {
    let mut choices = Choices::default();
    choices.plugins.register::<Waits>();
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  profiles: [{plugins: {permit: {enabled: [{name: Waits}]}}}]\n";
    let setup = Setup::read(Some(("s.yaml", config)), &choices).unwrap();
    let inventory =
        Inventory { nodes: vec![node("n").build()], pending: vec![pod("p").build()], ..Inventory::default() };
    let report = simulate(setup.engine, inventory, &mut |_, _| {});
    let [pod] = report.pods.as_slice() else { panic!("{report:?}") };
    assert_eq!((pod.node.as_deref(), pod.looked_at), (None, None));
    let why = "0/1 nodes are available: 1 rejected due to timeout after waiting 1m30s at plugin Waits.";
    assert_eq!(pod.message.as_deref(), Some(why));
}
