//! Custom resources in manifests: plugins get the kinds that they name, and the user gets a notice about the others.

use harbormaster_framework::prelude::*;
use harbormaster_manifests::Source;
use harbormaster_setup::{Choices, Setup};
use harbormaster_sim::{Inventory, Reading, independent, simulate};
use serde::Deserialize;

/// A custom resource whose `open` field decides whether a node takes pods.
#[derive(Deserialize)]
struct Gate {
    spec: GateSpec,
}

#[derive(Deserialize)]
struct GateSpec {
    open: bool,
}

impl Resource for Gate {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Gate";
    const PLURAL: &'static str = "gates";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Lets a node take pods of the namespaces in which the gate with the node's name is open.
#[derive(Default)]
struct Gates;

impl Plugin for Gates {
    const NAME: &'static str = "Gates";
    implemented_points!();
}

impl Watches for Gates {
    type Resources = Gate;
}

impl Filter for Gates {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let (mut here, name) = (self.watched(cx.objects).all_in(&cx.pod.namespace), node.name());
        match here.any(|gate| gate.metadata.name == *name && gate.spec.open) {
            true => Ok(()),
            false => Err(Reject::unresolvable("node(s) have their gates closed").into()),
        }
    }
}

fn setup(plugin: &str) -> Setup {
    let mut choices = Choices::default();
    choices.plugins.register::<Gates>();
    let config = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
         profiles: [{{plugins: {{filter: {{enabled: [{plugin}]}}}}}}]\n"
    );
    Setup::read(Some(("s.yaml", &config)), &choices).unwrap()
}

fn cluster(gates: &str) -> Inventory {
    serving("v1", gates)
}

/// A cluster whose custom resource definition serves only the given version.
fn serving(version: &str, gates: &str) -> Inventory {
    let definition = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\n\
        metadata: {name: gates.example.com}\n\
        spec: {group: example.com, scope: Namespaced, names: {plural: gates, kind: Gate}, versions: [{name: v1, \
        served: true, storage: true, schema: {openAPIV3Schema: {type: object, \
        x-kubernetes-preserve-unknown-fields: true}}}]}\n";
    let node = |name| {
        format!(
            "---\n{{apiVersion: v1, kind: Node, metadata: {{name: {name}}}, status: {{allocatable: {{pods: 9}}}}}}\n"
        )
    };
    let pod =
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [{name: c, image: i}]}}\n";
    let definition = definition.replace("name: v1,", &format!("name: {version},"));
    let text = [&definition, &node("a"), &node("b"), pod, gates].concat();
    Inventory::from_sources(&[Source { name: "f.yaml".into(), text }], Reading::default()).unwrap()
}

fn gate(name: &str, namespace: &str, open: &str) -> String {
    format!(
        "---\n{{apiVersion: example.com/v1, kind: Gate, metadata: {{name: {name}, namespace: {namespace}}}, spec: {{open: {open}}}}}\n"
    )
}

#[test]
fn plugins_read_custom_resources_in_both_kinds_of_simulation() {
    let engine = setup("{name: Gates}").engine;
    let closed = "0/2 nodes are available: 2 node(s) have their gates closed.";
    for (gates, node) in [
        (gate("a", "default", "false") + &gate("b", "default", "true"), Some("b")),
        (gate("a", "elsewhere", "true"), None),
        (String::new(), None),
    ] {
        let simulated = simulate(engine.clone(), cluster(&gates), &mut |_, _| {});
        for report in [simulated, independent(&engine, cluster(&gates))] {
            let pod = &report.pods[0];
            assert_eq!(pod.node.as_deref(), node, "{gates}");
            assert_eq!(
                pod.message.as_deref().is_some_and(|why| why.starts_with(closed)),
                node.is_none(),
                "{pod:?}"
            );
        }
    }
}

#[test]
fn the_user_is_notified_of_ignored_and_undecodable_objects() {
    let cluster = cluster(&(gate("a", "default", "ajar") + &gate("b", "default", "true")));
    assert!(cluster.notices.is_empty(), "{:?}", cluster.notices);
    assert_eq!(cluster.custom_notices(&setup("").engine), ["ignored: 2 Gate"]);
    let other = serving("v2", &gate("a", "default", "true").replace("/v1", "/v2"));
    assert_eq!(other.custom_notices(&setup("{name: Gates}").engine), ["ignored: 1 Gate"], "not served in v1");
    let pure = Source { name: "f.yaml".into(), text: gate("a", "default", "true") };
    let undefined = Inventory::from_sources(&[pure], Reading::default()).unwrap();
    assert_eq!(undefined.custom_notices(&setup("").engine), ["ignored: 1 Gate"]);
    assert_eq!(
        undefined.custom_notices(&setup("{name: Gates}").engine),
        [
            "plugins of this configuration read Gate of example.com/v1, but 1 of them are left out: the input lacks the \
          CustomResourceDefinition gates.example.com"
        ]
    );
    assert_eq!(
        cluster.custom_notices(&setup("{name: Gates}").engine),
        ["Gate \"default/a\" counts as absent: spec.open: invalid type: string \"ajar\", expected a boolean"]
    );
}
