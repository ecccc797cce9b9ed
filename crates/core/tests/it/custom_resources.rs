//! Custom resources in the engine: plugins read custom objects, and changes to these objects wake pods.

use std::time::Duration;

use harbormaster_core::{BindOutcome, EngineConfig, Input, Note, Outcome};
use harbormaster_framework::{prelude::*, registry::Registry, resource::RawObject};
use harbormaster_testkit::{self as testkit, Trial, cluster, custom::raw, set_custom};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::world::{World, node, pod};

/// Limits the number of pods on the node that has the quota's name.
#[derive(Clone, Debug, Deserialize)]
struct Quota {
    spec: QuotaSpec,
}

#[derive(Clone, Debug, Deserialize)]
struct QuotaSpec {
    pods: usize,
}

impl Resource for Quota {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Quota";
    const PLURAL: &'static str = "quotas";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// The same objects, decoded into another type.
#[derive(Clone, Debug, Deserialize)]
struct Named {}

impl Resource for Named {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Quota";
    const PLURAL: &'static str = "quotas";
    const SCOPE: ResourceScope = ResourceScope::Cluster;
}

/// Sum of all quotas.
#[derive(Default)]
struct Sum(usize);

impl Watches for Sum {
    type Resources = Quota;
}

impl Index for Sum {
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        if key.is_of::<Quota>() {
            self.0 = self.watched(view.objects).all().map(|quota| quota.spec.pods).sum();
        }
    }
}

/// Lets a node run as many pods as its quota allows, and none without a quota.
#[derive(Default)]
struct Quotas;

impl Plugin for Quotas {
    const NAME: &'static str = "Quotas";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::on::<Quota>(Action::ADD | Action::UPDATE, Self::after_quota)])
    }
}

impl Watches for Quotas {
    type Resources = (Quota, Named);
}

impl Quotas {
    /// Wakes pods if the quota has increased.
    fn after_quota(&self, _: &PodInfo, quota: Changed<'_, Quota>) -> PluginResult<Hint> {
        let pods = |quota: Option<&Custom<Quota>>| quota.map_or(0, |quota| quota.spec.pods);
        Ok(if pods(quota.new) > pods(quota.old) { Hint::Queue } else { Hint::Skip })
    }
}

impl Indexed for Quotas {
    type Index = Sum;
}

/// Name of a pod that is gated until there is a quota.
const SHY: &str = "shy";

impl PreEnqueue for Quotas {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        match cx.pod.name == SHY && self.watched(cx.objects).0.all().next().is_none() {
            true => Err(Reject::unresolvable("there is no quota yet").into()),
            false => Ok(()),
        }
    }
}

impl Filter for Quotas {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        let (quotas, _) = self.watched(cx.objects);
        let all: usize = quotas.all().map(|quota| quota.spec.pods).sum();
        let quota = quotas.get("", node.name()).map_or(0, |quota| quota.spec.pods);
        assert_eq!(self.index(cx)?.0, all);
        if node.pods().len() >= quota {
            return Err(Reject::unresolvable("no quota left").into());
        }
        Ok(())
    }
}

impl Reserve for Quotas {
    type Reserved = ();
    fn reserve(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>, _: &mut Assume) -> Verdict {
        assert!(self.watched(cx.objects).1.get("", node.name()).is_some());
        Ok(())
    }
    fn unreserve(&self, _: &Placement, _: &mut Vec<ApiCall>) {}
}

/// Name of a pod that waits on Permit until a timeout, and the timeout.
const PATIENT: &str = "patient";
const PATIENCE: Duration = Duration::from_secs(5);

impl Permit for Quotas {
    fn permit(
        &self,
        cx: &Cycle<'_>,
        _: &harbormaster_api::Str,
        _: &mut Waiting<'_>,
    ) -> Result<Permitted, Stop> {
        Ok(if cx.pod.name == PATIENT { Permitted::Wait(PATIENCE) } else { Permitted::Allow })
    }
}

fn world() -> World {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Quotas>();
    let profile = testkit::profile(
        &registry,
        &[
            ("QueueSort", &["PrioritySort"]),
            ("PreEnqueue", &["Quotas"]),
            ("Filter", &["Quotas"]),
            ("Reserve", &["Quotas"]),
            ("Permit", &["Quotas"]),
            ("Bind", &["DefaultBinder"]),
        ],
    );
    let mut world = World::with(EngineConfig::new(vec![profile]));
    world.set_node(node("n", 4000));
    world
}

fn quota(pods: &Value) -> RawObject {
    raw::<Quota>(&json!({"metadata": {"name": "n"}, "spec": {"pods": pods}}))
}

impl World {
    fn set_quota(&mut self, pods: impl Into<Value>) {
        self.input(Input::Custom(quota(&pods.into())));
    }

    fn remove_quota(&mut self) {
        self.input(Input::CustomGone(quota(&json!(0)).key));
    }

    fn waits(&self) -> bool {
        self.engine.queue_lengths().unschedulable == 1
    }

    fn undecodable(&mut self) -> Vec<String> {
        let notes = self.engine.take_notes().into_iter().filter_map(|note| match note {
            Note::Undecodable(why) => Some(why.to_string()),
            _ => None,
        });
        notes.collect()
    }
}

#[test]
fn a_custom_object_is_read_and_wakes_the_pods_that_the_hint_selects() {
    let mut world = world();
    world.add_pod(pod("p", 1));
    let rejected = world.attempt().unwrap().outcome.message().unwrap();
    assert_eq!(rejected, "0/1 nodes are available: 1 no quota left.");
    world.set_quota(0);
    assert!(world.waits(), "the quota has not increased");
    world.set_quota(1);
    assert!(!world.waits());
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
    world.bind_finished("p", BindOutcome::Bound);
    world.add_pod(pod("q", 1));
    world.attempt().unwrap();
    world.set_quota(1);
    world.remove_quota();
    assert!(world.waits(), "no plugin listens to the deletion of quotas");
    world.set_quota(2);
    assert!(!world.waits());
}

#[test]
fn a_pod_is_gated_until_a_custom_object_exists() {
    let mut world = world();
    world.add_pod(pod(SHY, 1));
    assert_eq!((world.engine.queue_lengths().gated, world.attempt().is_none()), (1, true));
    world.set_quota(1);
    assert_eq!(world.engine.queue_lengths().gated, 0);
    assert!(matches!(world.attempt().unwrap().outcome, Outcome::Assumed { .. }));
}

#[test]
fn a_change_wakes_a_pod_that_was_in_flight_at_the_time() {
    for (meanwhile, waits) in [(None, true), (Some(2), false)] {
        let mut world = world();
        world.set_quota(1);
        world.add_pod(pod(PATIENT, 1));
        world.attempt().unwrap();
        meanwhile.into_iter().for_each(|pods| world.set_quota(pods));
        world.wait(PATIENCE * 2);
        assert_eq!(world.waits(), waits, "{meanwhile:?}");
    }
}

#[test]
fn an_object_that_cannot_be_decoded_is_reported_once_and_treated_as_absent() {
    let mut world = world();
    world.set_quota(1);
    world.all_effects();
    world.set_quota("many");
    let why = "Quota \"n\" counts as absent: spec.pods: invalid type: string \"many\", expected usize";
    let errors = world.undecodable();
    assert_eq!(errors, [why]);
    let longer = json!({"metadata": {"name": "n", "labels": {"more": "text"}}, "spec": {"pods": "many"}});
    world.input(Input::Custom(raw::<Quota>(&longer)));
    assert_eq!(world.undecodable(), [""; 0]);
    world.add_pod(pod("p", 1));
    world.attempt().unwrap();
    assert!(world.waits());
    world.set_quota(1);
    assert!(!world.waits(), "the quota counts again");
    world.set_quota("many");
    assert_eq!(world.undecodable().len(), 1);
}

#[test]
fn an_object_in_a_namespace_is_rejected_for_a_cluster_scoped_kind() {
    let mut world = world();
    let object = json!({"metadata": {"name": "n", "namespace": "a"}, "spec": {"pods": 1}});
    world.input(Input::Custom(raw::<Quota>(&object)));
    let errors = world.undecodable();
    let expected = "Quota \"a/n\" counts as absent: metadata.namespace: the object has a namespace, but the \
                    plugin declares the kind as cluster-scoped";
    assert_eq!(errors, [expected, expected], "each type reports the error");
}

#[test]
fn a_rebuilt_index_contains_the_existing_objects() {
    let (trial, mut nodes) = (Trial::of(Quotas), cluster([testkit::node("n")], []));
    let pod = testkit::pod("p").info();
    for (quotas, fits) in [(vec![], false), (vec![("n", 1), ("m", 2)], true), (vec![("n", 0)], false)] {
        let object = |(name, pods)| json!({"metadata": {"name": name}, "spec": {"pods": pods}});
        set_custom::<Quota>(&mut nodes, quotas.into_iter().map(object));
        // The plugin compares its index with the objects.
        assert_eq!(trial.verdict(&nodes, &pod, "n").is_ok(), fits);
    }
}

#[test]
fn objects_of_kinds_that_no_plugin_reads_are_ignored() {
    let mut world = world();
    let mut object = quota(&json!("many"));
    object.key.resource = "quotas.v2.example.com".into();
    world.input(Input::Custom(object.clone()));
    world.input(Input::CustomGone(object.key));
    assert_eq!(world.undecodable(), [""; 0]);
}

#[test]
fn each_watched_kind_is_reported_to_the_host_once() {
    let mut registry = Registry::default();
    registry.register::<Quotas>();
    let profile = testkit::profile(&registry, &[("Filter", &["Quotas"])]);
    let config = EngineConfig::new(vec![profile.clone(), profile]);
    let names: Vec<String> = config.resources().iter().map(|kind| kind.name().to_string()).collect();
    assert_eq!(names, ["quotas.v1.example.com"]);
}
