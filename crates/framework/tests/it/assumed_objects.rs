//! Assumptions about custom objects are visible everywhere until the API server confirms or contradicts them, or until
//! they are reverted.

use std::collections::BTreeSet;

use harbormaster_api::Str;
use harbormaster_framework::{
    index::IndexKind,
    prelude::*,
    resource::{RawObject, ResourceKind, ResourceName},
};
use proptest::prelude::*;
use serde_json::json;

/// A custom resource with a crew of pods.
#[derive(Clone, Debug, serde::Deserialize)]
struct Boat {
    crew: Vec<String>,
    #[serde(default)]
    is_full: bool,
    #[serde(default)]
    port: Option<Str>,
}

impl Resource for Boat {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Boat";
    const PLURAL: &'static str = "boats";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;

    fn key(&self) -> Option<&Str> {
        self.port.as_ref()
    }
}

/// Records the objects that have changed.
#[derive(Default)]
struct Log(Vec<String>);

impl Watches for Log {
    type Resources = Boat;
}

impl Index for Log {
    fn object_changed(&mut self, view: ClusterView<'_>, id: &ObjectId) {
        let ObjectId::Custom(key) = id else { return };
        let boat = self.watched(view.objects).get(&key.namespace, &key.name);
        self.0.push(boat.map(|boat| boat.crew.join(" ")).unwrap_or_default());
    }
}

fn sea() -> Cluster {
    let mut cluster = Cluster::default();
    cluster.add_resource(ResourceKind::of::<Boat>());
    cluster.add_index(IndexKind::of::<Log>());
    cluster
}

fn key(name: &str) -> CustomKey {
    let resource = ResourceName::of::<Boat>().to_string().into();
    CustomKey { resource, namespace: "sea".into(), name: name.into() }
}

fn tell(cluster: &mut Cluster, name: &str, crew: &[&str], is_full: bool) {
    let json = json!({"metadata": {"name": name, "namespace": "sea"}, "crew": crew, "is_full": is_full});
    cluster.set_custom(&RawObject::from_json(key(name), json.to_string()));
}

/// Adds the pod to the crew, unless the pod is already a member or the boat is full.
fn board(cluster: &mut Cluster, name: &str, pod: &'static str) {
    let mut assume = Assume::by("Boats");
    assume.custom::<Boat>("sea", name, move |boat| {
        let boat = &mut boat.object;
        let comes = !boat.is_full && !boat.crew.iter().any(|known| known == pod);
        if comes {
            boat.crew.push(pod.to_owned());
        }
        comes
    });
    cluster.assume(&pod.into(), assume).unwrap();
}

fn crew(cluster: &Cluster, name: &str) -> Option<String> {
    Some(cluster.watched::<Boat>().get("sea", name)?.crew.join(" "))
}

#[test]
fn an_assumption_is_visible_until_it_is_reverted() {
    let mut sea = sea();
    tell(&mut sea, "ark", &["noah"], false);
    board(&mut sea, "ark", "dove");
    board(&mut sea, "ark", "raven");
    assert_eq!(crew(&sea, "ark").unwrap(), "noah dove raven");
    sea.revert_assumptions("dove");
    assert_eq!(crew(&sea, "ark").unwrap(), "noah raven");
    sea.revert_assumptions("dove");
    sea.revert_assumptions("raven");
    assert_eq!(crew(&sea, "ark").unwrap(), "noah");
    let log = &sea.indexes().get::<Log>().unwrap().0;
    assert_eq!(
        log[..],
        ["noah", "noah dove", "noah dove raven", "noah raven", "noah"],
        "indexes are notified"
    );
}

#[test]
fn an_assumption_is_applied_to_a_newer_version() {
    let mut sea = sea();
    tell(&mut sea, "ark", &["noah"], false);
    board(&mut sea, "ark", "dove");
    tell(&mut sea, "ark", &["noah", "ham"], false);
    assert_eq!(crew(&sea, "ark").unwrap(), "noah ham dove");
    sea.revert_assumptions("dove");
    assert_eq!(crew(&sea, "ark").unwrap(), "noah ham");
}

#[test]
fn a_change_that_the_api_server_confirms_is_no_longer_assumed() {
    let mut sea = sea();
    tell(&mut sea, "ark", &[], false);
    board(&mut sea, "ark", "dove");
    tell(&mut sea, "ark", &["dove"], false);
    assert_eq!(crew(&sea, "ark").unwrap(), "dove");
    tell(&mut sea, "ark", &[], false);
    assert_eq!(
        crew(&sea, "ark").unwrap(),
        "",
        "the API server's version first had the dove and then lost it"
    );
}

#[test]
fn a_change_that_the_api_server_contradicts_is_no_longer_assumed() {
    let mut sea = sea();
    tell(&mut sea, "ark", &[], false);
    board(&mut sea, "ark", "dove");
    tell(&mut sea, "ark", &["ham"], true);
    tell(&mut sea, "ark", &["ham"], false);
    assert_eq!(crew(&sea, "ark").unwrap(), "ham");
}

#[test]
fn a_missing_object_has_no_assumptions_and_a_removed_one_loses_them() {
    let mut sea = sea();
    board(&mut sea, "ark", "dove");
    assert_eq!(crew(&sea, "ark"), None);
    tell(&mut sea, "ark", &[], false);
    assert_eq!(crew(&sea, "ark").unwrap(), "");
    board(&mut sea, "ark", "dove");
    sea.remove_custom(&key("ark"));
    assert_eq!(crew(&sea, "ark"), None);
    tell(&mut sea, "ark", &[], false);
    assert_eq!(crew(&sea, "ark").unwrap(), "");
}

#[test]
fn an_assumption_that_panics_is_dropped_and_the_error_names_its_plugin() {
    let mut sea = sea();
    tell(&mut sea, "ark", &[], false);
    let mut assume = Assume::by("Boats");
    assume.custom::<Boat>("sea", "ark", |boat| {
        assert!(boat.crew.is_empty(), "mutiny");
        boat.crew.push("dove".to_owned());
        true
    });
    sea.assume(&"dove".into(), assume).unwrap();
    tell(&mut sea, "ark", &["ham"], false);
    assert_eq!(crew(&sea, "ark").unwrap(), "ham");
    let errors: Vec<String> = sea.take_errors().iter().map(ToString::to_string).collect();
    assert_eq!(errors, ["running Assume plugin \"Boats\": plugin \"Boats\" panicked at Assume: mutiny"]);
}

const PODS: [&str; 4] = ["p0", "p1", "p2", "p3"];

/// Naive model of the boat: a list that is rebuilt each time it is read.
#[derive(Default)]
struct Naive {
    told: Option<Vec<&'static str>>,
    assumed: Vec<&'static str>,
}

impl Naive {
    fn seen(&self) -> Option<String> {
        let told = self.told.as_ref()?;
        Some([told.as_slice(), &self.assumed].concat().join(" "))
    }

    fn tell(&mut self, told: Option<Vec<&'static str>>) {
        self.assumed.retain(|pod| told.as_ref().is_some_and(|told| !told.contains(pod)));
        self.told = told;
    }

    fn board(&mut self, pod: &'static str) {
        let aboard = self.told.as_ref().is_none_or(|told| told.contains(&pod)) || self.assumed.contains(&pod);
        if !aboard {
            self.assumed.push(pod);
        }
    }
}

const BOATS: [&str; 3] = ["ark", "boot", "cog"];
const PORTS: [&str; 3] = ["", "genoa", "riga"];

/// Names of the boats in a port, found by their key and by visiting all boats.
fn in_port(cluster: &Cluster, port: &str) -> [Vec<String>; 2] {
    let name = |boat: &Custom<Boat>| boat.metadata.name.to_string();
    let boats = cluster.watched::<Boat>();
    let visited = boats.all().filter(|boat| boat.port.as_deref() == Some(port));
    [boats.with_key(port).map(name).collect(), visited.map(name).collect()]
}

proptest! {
    #[test]
    fn objects_are_found_by_their_key_as_if_all_were_visited(
        steps in prop::collection::vec((0u8..6, 0usize..3, 0usize..3, 0usize..4), 1..60)
    ) {
        let mut sea = sea();
        for (what, boat, port, pod) in steps {
            let (boat, port, pod) = (BOATS[boat], PORTS[port], PODS[pod]);
            match what {
                0..=2 => {
                    let port = (!port.is_empty()).then_some(port);
                    let json = json!({
                        "metadata": {"name": boat, "namespace": "sea"}, "crew": [], "port": port,
                    });
                    sea.set_custom(&RawObject::from_json(key(boat), json.to_string()));
                }
                3 => {
                    let mut assume = Assume::by("Boats");
                    assume.custom::<Boat>("sea", boat, move |boat| {
                        boat.object.port = Some(port.into());
                        true
                    });
                    sea.assume(&pod.into(), assume).unwrap();
                }
                4 => sea.revert_assumptions(pod),
                _ => drop(sea.remove_custom(&key(boat))),
            }
            for port in PORTS {
                let [found, visited] = in_port(&sea, port);
                prop_assert_eq!(found, visited, "{}", port);
            }
        }
    }
}

proptest! {
    #[test]
    fn any_sequence_of_changes_matches_a_list_that_is_rebuilt_each_time(
        steps in prop::collection::vec((0u8..4, 0usize..4, prop::collection::btree_set(0usize..4, 0..4)), 1..60)
    ) {
        let (mut sea, mut naive) = (sea(), Naive::default());
        for (what, pod, crew_told) in steps {
            let pod = PODS[pod];
            match what {
                0 => {
                    let told: Vec<&'static str> = crew_told.iter().map(|at| PODS[*at]).collect::<BTreeSet<_>>().into_iter().collect();
                    tell(&mut sea, "ark", &told, false);
                    naive.tell(Some(told));
                }
                1 => {
                    board(&mut sea, "ark", pod);
                    naive.board(pod);
                }
                2 => {
                    sea.revert_assumptions(pod);
                    naive.assumed.retain(|known| *known != pod);
                }
                _ => {
                    sea.remove_custom(&key("ark"));
                    naive.tell(None);
                }
            }
            prop_assert_eq!(crew(&sea, "ark"), naive.seen());
            let told = sea.indexes().get::<Log>().unwrap().0.last().cloned().unwrap_or_default();
            prop_assert_eq!(told, naive.seen().unwrap_or_default(), "indexes are notified");
        }
    }
}

/// Expects a boat with this crew, whatever its name will be.
fn expect(cluster: &mut Cluster, pod: &'static str) {
    let boat = Boat { crew: vec![pod.to_owned()], is_full: false, port: None };
    let metadata =
        Metadata { name: format!("<of {pod}>").into(), namespace: "sea".into(), ..Metadata::default() };
    let mut assume = Assume::by("Boats");
    assume.creation(Custom { metadata, object: boat }, move |boat: &Custom<Boat>| boat.crew == [pod]);
    cluster.assume(&pod.into(), assume).unwrap();
}

#[test]
fn an_expected_object_is_visible_until_the_api_server_reports_it() {
    let mut sea = sea();
    expect(&mut sea, "dove");
    assert_eq!(crew(&sea, "<of dove>").unwrap(), "dove");
    tell(&mut sea, "ark", &["noah"], false);
    assert_eq!(crew(&sea, "<of dove>").unwrap(), "dove", "another object was reported");
    tell(&mut sea, "raft", &["dove"], false);
    assert_eq!(crew(&sea, "<of dove>"), None);
    assert_eq!(crew(&sea, "raft").unwrap(), "dove");
    let log = &sea.indexes().get::<Log>().unwrap().0;
    assert_eq!(log[..], ["dove", "noah", "dove", ""], "indexes are notified");
}

#[test]
fn an_expected_object_is_gone_once_its_assumption_is_reverted() {
    let mut sea = sea();
    expect(&mut sea, "dove");
    expect(&mut sea, "raven");
    sea.revert_assumptions("dove");
    assert_eq!((crew(&sea, "<of dove>"), crew(&sea, "<of raven>").unwrap()), (None, "raven".to_owned()));
    tell(&mut sea, "raft", &["dove"], false);
    assert_eq!(crew(&sea, "raft").unwrap(), "dove");
    let log = &sea.indexes().get::<Log>().unwrap().0;
    assert_eq!(log[..], ["dove", "raven", "", "dove"], "indexes are notified");
}
