//! Assumed objects, with the seats of a license as the example: a seat that Reserve takes is visible to the next pod,
//! written by PreBind, and returned when the pod loses its node.

use std::time::Duration;

use harbormaster_core::{BindOutcome, BindTask, Effect, EngineConfig, Input, Outcome, recording::replay};
use harbormaster_framework::{
    prelude::*,
    registry::Registry,
    resource::{RawObject, ResourceName},
};
use harbormaster_testkit::{FakeApi, profile, trial::finished};
use serde_json::{Value, json};

use crate::world::{World, node, permit_by_name, pod};

#[derive(Clone, Debug, serde::Deserialize)]
struct License {
    seats: usize,
    #[serde(default)]
    holders: Vec<String>,
}

impl Resource for License {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "License";
    const PLURAL: &'static str = "licenses";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

const FULL: &str = "no seat is free";
/// Name of a pod that is rejected after it has taken a seat.
const UNWELCOME: &str = "unwelcome";
/// Name of a pod that waits on Permit.
const PATIENT: &str = "patient";

#[derive(Default)]
struct Seats;

impl Plugin for Seats {
    const NAME: &'static str = "Seats";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::always(EventResource::AssignedPod, Action::DELETE),
            Registration::always(EventResource::of::<License>(), Action::UPDATE),
        ])
    }
}

impl Watches for Seats {
    type Resources = License;
}

fn license(licenses: Watched<'_, License>) -> PluginResult<&Custom<License>> {
    Ok(licenses.get("default", "pro").ok_or("no license")?)
}

impl PreFilter<WholeCluster, PerNode<usize>> for Seats {
    fn pre_filter(&self, _: &Cycle<'_>) -> Result<PreFiltered<PerNode<usize>>, Stop> {
        Ok(PreFiltered::state(PerNode::default()))
    }
}

impl Filter<WholeCluster, PerNode<usize>> for Seats {
    fn filter(&self, cx: &Cycle<'_>, state: &PerNode<usize>, node: NodeRef<'_>) -> Verdict {
        let license = license(self.watched(cx.objects))?;
        if license.holders.len() >= license.seats {
            return Err(Reject::unresolvable(FULL).into());
        }
        state.set(node, license.holders.len());
        Ok(())
    }
}

impl Reserve<PerNode<usize>> for Seats {
    /// Number of the seat.
    type Reserved = usize;

    fn reserve(
        &self,
        cx: &Cycle<'_>,
        state: &PerNode<usize>,
        node: NodeRef<'_>,
        assume: &mut Assume,
    ) -> Result<usize, Stop> {
        let holder = cx.pod.name.to_string();
        assume.custom::<License>("default", "pro", move |license| {
            let sits = license.holders.contains(&holder);
            if !sits {
                license.holders.push(holder.clone());
            }
            !sits
        });
        Ok(state.get(node).ok_or("Filter has not seen that node")?)
    }

    fn unreserve(&self, placement: &Placement, calls: &mut Vec<ApiCall>) {
        if let Some(seat) = self.reserved(placement) {
            let path = ObjectPath::of::<License>("default", "pro");
            calls.push(ApiCall::patch(path, json!({ "given_back": seat })));
        }
    }
}

impl Permit for Seats {
    fn permit(
        &self,
        cx: &Cycle<'_>,
        _: &harbormaster_api::Str,
        _: &mut Waiting<'_>,
    ) -> Result<Permitted, Stop> {
        permit_by_name(&cx.pod.name, UNWELCOME, PATIENT)
    }
}

impl PreBind for Seats {
    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let now = cx.api.get::<License>("default", "pro").await?.ok_or("no license")?;
        let holders = [now.object.holders, vec![cx.pod.name.to_string()]].concat();
        cx.api.patch::<License>("default", "pro", json!({ "holders": holders })).await?;
        Ok(())
    }
}

fn config() -> EngineConfig {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Seats>();
    let seats = &["Seats"][..];
    EngineConfig::new(vec![profile(
        &registry,
        &[
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", seats),
            ("Filter", seats),
            ("Reserve", seats),
            ("Permit", seats),
            ("PreBind", seats),
            ("Bind", &["DefaultBinder"]),
        ],
    )])
}

fn seats(seats: usize, holders: &[&str]) -> Value {
    json!({"metadata": {"name": "pro", "namespace": "default"}, "seats": seats, "holders": holders})
}

fn world() -> World {
    let mut world = World::with(config());
    world.set_node(node("n", 4000));
    world.set_license(&seats(1, &[]));
    world
}

impl World {
    fn set_license(&mut self, license: &Value) {
        let resource = ResourceName::of::<License>().to_string().into();
        let key = CustomKey { resource, namespace: "default".into(), name: "pro".into() };
        self.input(Input::Custom(RawObject::from_json(key, license.to_string())));
    }

    /// Schedules a new pod.
    fn schedule_new(&mut self, name: &str) -> Outcome {
        self.add_pod(pod(name, 1));
        self.attempt().unwrap().outcome
    }

    fn holders(&self) -> String {
        license(self.engine.cache().cluster.watched()).unwrap().holders.join(" ")
    }

    /// Returns the requested bindings and the API calls.
    fn asked_for(&mut self) -> (Vec<BindTask>, Vec<String>) {
        let (mut tasks, mut calls) = (Vec::new(), Vec::new());
        for effect in self.all_effects() {
            match effect {
                Effect::Bind(task) => tasks.push(task),
                Effect::Call(task) => {
                    calls.extend(task.calls.iter().map(|call| format!("{} {}", task.pod.name, call.body)));
                }
                _ => {}
            }
        }
        (tasks, calls)
    }
}

fn is_full(outcome: &Outcome) -> bool {
    outcome.message().is_some_and(|message| message.contains(FULL))
}

#[test]
fn a_taken_seat_counts_before_and_after_prebind_writes_it() {
    let mut world = world();
    assert!(matches!(world.schedule_new("one"), Outcome::Assumed { .. }));
    assert_eq!(world.holders(), "one");
    assert!(is_full(&world.schedule_new("two")));
    let (tasks, calls) = world.asked_for();
    assert_eq!((tasks.len(), calls.len(), tasks[0].pre_bind.len()), (1, 0, 1));

    let server = FakeApi::default();
    server.set::<License>(seats(1, &[]));
    let plugin = tasks[0].pre_bind[0][0];
    let cx = BindCycle { placement: tasks[0].reservation.of(plugin), api: server.api() };
    assert_eq!(cx.reservation::<usize>(), Some(&0));
    finished(tasks[0].profile.plugin(plugin).pre_bind(&cx)).unwrap();
    let written = server.object(&ObjectPath::of::<License>("default", "pro"));
    assert_eq!(written["holders"], json!(["one"]));

    world.set_license(&written);
    world.bind_finished("one", BindOutcome::Bound);
    assert_eq!(world.holders(), "one", "the pod does not take two seats");
    world.set_license(&seats(1, &[]));
    assert_eq!(world.holders(), "", "a written seat is no longer assumed");
}

#[test]
fn a_seat_is_given_back_when_the_binding_fails_and_wakes_pods_that_wait_for_it() {
    let mut world = world();
    world.schedule_new("one");
    world.schedule_new("two");
    world.asked_for();
    assert_eq!(world.engine.queue_lengths().unschedulable, 1);
    world.bind_finished("one", BindOutcome::Failed("no".to_owned()));
    assert_eq!(world.holders(), "");
    assert_eq!(world.asked_for().1, ["one {\"given_back\":0}"]);
    assert_eq!(world.engine.queue_lengths().unschedulable, 0);
}

#[test]
fn a_seat_is_given_back_when_a_later_point_rejects_the_pod() {
    let mut world = world();
    assert!(matches!(world.schedule_new(UNWELCOME), Outcome::Unschedulable(_)));
    assert_eq!(world.holders(), "");
    assert_eq!(world.asked_for().1, ["unwelcome {\"given_back\":0}"]);
}

#[test]
fn a_deleted_pod_keeps_no_seat() {
    let mut waiting = world();
    waiting.schedule_new(PATIENT);
    assert_eq!(waiting.holders(), PATIENT);
    waiting.remove_pod(PATIENT);
    assert_eq!(waiting.holders(), "");

    let mut binding = world();
    binding.schedule_new("one");
    binding.remove_pod("one");
    let effects = binding.all_effects();
    let called_off = |effect: &Effect| matches!(effect, Effect::CallOff(task) if task.pod == "one");
    assert!(effects.iter().any(called_off), "{effects:?}");
    assert_eq!(binding.holders(), "one", "a seat that PreBind is writing counts until PreBind has ended");
    binding.bind_finished("one", BindOutcome::Bound);
    assert_eq!(binding.holders(), "");

    let mut bound = world();
    bound.schedule_new("one");
    bound.bind_finished("one", BindOutcome::Bound);
    bound.add_bound_pod(pod("one", 1), "n");
    assert_eq!(bound.holders(), "one");
    bound.remove_pod("one");
    assert_eq!(bound.holders(), "");
}

#[test]
fn the_same_objects_are_assumed_when_a_recording_is_replayed() {
    let mut world = world();
    world.schedule_new("one");
    world.schedule_new("two");
    world.bind_finished("one", BindOutcome::Failed("no".to_owned()));
    world.wait(Duration::from_secs(20));
    while world.attempt().is_some() {}
    let recording = world.engine.finish().unwrap();
    let played = replay(config(), &*recording).unwrap();
    assert!(played.effects > 3, "{played:?}");
}
