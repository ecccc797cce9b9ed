//! After any sequence of steps, plugins see exactly these devices in use: those that claims have, and those that were
//! chosen for pods with a node. No device belongs to two claims. In the end, pods get their devices and give all of
//! them back.

mod model;

use std::time::Duration;

use harbormaster_core::EngineConfig;
use harbormaster_framework::{
    index::{ClusterView, IndexKind, Indexes},
    prelude::*,
    registry::Registry,
};
use harbormaster_plugins::devices::Devices;
use harbormaster_testkit::profile;
use proptest::prelude::*;

use crate::world::{faults::Fault, permit_by_name};
use model::{Model, NETWORK, NODES, PATIENT, UNWELCOME};

/// Rejects one pod and delays another one.
#[derive(Default)]
struct Doorkeeper;

impl Plugin for Doorkeeper {
    const NAME: &'static str = "Doorkeeper";
    implemented_points!();
}

impl Permit for Doorkeeper {
    fn permit(
        &self,
        cx: &Cycle<'_>,
        _: &harbormaster_api::Str,
        _: &mut Waiting<'_>,
    ) -> Result<Permitted, Stop> {
        permit_by_name(&cx.pod.name, UNWELCOME, PATIENT)
    }
}

fn config() -> EngineConfig {
    let mut registry = Registry::default();
    harbormaster_plugins::in_tree(&mut registry);
    registry.register::<Doorkeeper>();
    let devices = &["DynamicResources"][..];
    let filters = &["NodeResourcesFit", "DynamicResources"][..];
    EngineConfig::new(vec![profile(
        &registry,
        &[
            ("PreEnqueue", devices),
            ("QueueSort", &["PrioritySort"]),
            ("PreFilter", filters),
            ("Filter", filters),
            ("PostFilter", devices),
            ("Reserve", devices),
            ("Permit", &["Doorkeeper"]),
            ("PreBind", devices),
            ("Bind", &["DefaultBinder"]),
        ],
    )])
}

#[derive(Clone, Debug)]
enum Step {
    Pod { name: u8, claims: Vec<u8>, extended: u8 },
    PodGone(u8),
    Claim { name: u8, count: u8 },
    ClaimDeleted(u8),
    ClaimLabeled(u8),
    Controller,
    Slice { pool: u8, devices: u8, is_complete: bool },
    SliceGone(u8),
    Node(u8),
    NodeGone(u8),
    Attempt,
    PreBind { which: u8, fault: Fault, after: usize },
    Bind { which: u8, is_seen: bool },
    BindingEnds { which: u8, is_patient: bool },
    Calls,
    See(usize),
    SeeLatest,
    Wait(u16),
    Restart { after: usize, under_way: usize },
    LateWrite,
}

fn fault() -> impl Strategy<Value = Fault> {
    prop_oneof![
        4 => Just(Fault::None),
        1 => Just(Fault::Fails),
        1 => Just(Fault::AnswerLost),
        1 => Just(Fault::Labeled),
        1 => Just(Fault::Deleted),
        1 => Just(Fault::Unprotected),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let claims =
        prop_oneof![4 => prop::collection::vec(0..CLAIMS, 1), 1 => prop::collection::vec(0..CLAIMS, 2)];
    prop_oneof![
        6 => (0u8..5, claims).prop_map(|(name, claims)| Step::Pod { name, claims, extended: 0 }),
        2 => (0u8..5, 1u8..3).prop_map(|(name, extended)| Step::Pod { name, claims: Vec::new(), extended }),
        2 => (0u8..5).prop_map(Step::PodGone),
        6 => (0..CLAIMS, 1u8..3).prop_map(|(name, count)| Step::Claim { name, count }),
        2 => (0..CLAIMS).prop_map(Step::ClaimDeleted),
        1 => (0..CLAIMS).prop_map(Step::ClaimLabeled),
        2 => Just(Step::Controller),
        2 => (0u8..3, 0u8..4, prop::bool::weighted(0.8))
            .prop_map(|(pool, devices, is_complete)| Step::Slice { pool, devices, is_complete }),
        1 => (0u8..3).prop_map(Step::SliceGone),
        1 => (0u8..2).prop_map(Step::Node),
        1 => (0u8..2).prop_map(Step::NodeGone),
        10 => Just(Step::Attempt),
        6 => (any::<u8>(), fault(), 0usize..5).prop_map(|(which, fault, after)| Step::PreBind { which, fault, after }),
        4 => (any::<u8>(), any::<bool>()).prop_map(|(which, is_seen)| Step::Bind { which, is_seen }),
        5 => (any::<u8>(), prop::bool::weighted(0.95))
            .prop_map(|(which, is_patient)| Step::BindingEnds { which, is_patient }),
        2 => Just(Step::Calls),
        4 => (1usize..4).prop_map(Step::See),
        2 => Just(Step::SeeLatest),
        2 => (0u16..20_000).prop_map(Step::Wait),
        1 => (0usize..6, 0usize..3).prop_map(|(after, under_way)| Step::Restart { after, under_way }),
        1 => Just(Step::LateWrite),
    ]
}

const CLAIMS: u8 = 4;

fn claim_name(number: u8) -> String {
    format!("c{number}")
}

fn play(model: &mut Model, step: Step) {
    const POOLS: [&str; 3] = [NODES[0], NODES[1], NETWORK];
    let (claim, pod) = (claim_name, |name: u8| format!("p{name}"));
    match step {
        Step::Pod { name, claims, extended } => {
            let mut claims: Vec<String> = claims.into_iter().map(claim).collect();
            claims.dedup();
            model.pod_comes(&pod(name), &claims, extended.into());
        }
        Step::PodGone(name) => model.pod_goes(&pod(name)),
        Step::Claim { name, count } => model.claim_comes(&claim(name), count),
        Step::ClaimDeleted(name) => model.claim_is_deleted(&claim(name)),
        Step::ClaimLabeled(name) => model.claim_is_labeled(&claim(name)),
        Step::Controller => model.controller_runs(),
        Step::Slice { pool, devices, is_complete } => {
            model.slice_comes(POOLS[usize::from(pool)], devices, is_complete);
        }
        Step::SliceGone(pool) => model.slice_goes(POOLS[usize::from(pool)]),
        Step::Node(name) => model.node_comes(NODES[usize::from(name)]),
        Step::NodeGone(name) => model.node_goes(NODES[usize::from(name)]),
        Step::Attempt => drop(model.attempt()),
        Step::PreBind { which, fault, after } => model.pre_bind(which, fault, after),
        Step::Bind { which, is_seen } => model.bind(which, is_seen),
        Step::BindingEnds { which, is_patient } => model.binding_ends(which, is_patient),
        Step::Calls => model.calls_are_sent(),
        Step::See(at_most) => model.see(at_most),
        Step::SeeLatest => model.see_latest(),
        Step::Wait(millis) => model.wait(Duration::from_millis(millis.into())),
        Step::Restart { after, under_way } => model.restart(after, under_way),
        Step::LateWrite => model.late_write(),
    }
    model.news();
}

/// Checks that the devices that plugins see in use are those of the naive account, and that exactly the devices that
/// several claims have are reported. There are none as long as everything is in order.
fn check(model: &Model) -> Result<(), TestCaseError> {
    prop_assert_eq!(model.visible(), model.expected(), "devices in use, as seen and as expected");
    let accounts = [model.allocated(), model.expected().into_iter().collect()];
    for all in accounts.into_iter().filter(|_| model.is_orderly) {
        let devices: Vec<&String> = all.iter().flat_map(|(_, devices)| devices).collect();
        let different: std::collections::BTreeSet<_> = devices.iter().collect();
        prop_assert_eq!(devices.len(), different.len(), "a device belongs to two claims: {:?}", all);
    }
    let cluster = &model.world.engine.cache().cluster;
    let reported = cluster.indexes().contradictions();
    let reported: Vec<_> = reported.map(|found| (found.subject.clone(), found.objects.clone())).collect();
    prop_assert_eq!(reported, model.conflicts(), "devices of several claims");
    let mut indexes = Indexes::default();
    let view = ClusterView { nodes: cluster.nodes(), objects: cluster.objects() };
    indexes.add(IndexKind::of::<Devices>(), view).unwrap();
    let (kept, rebuilt) = (cluster.indexes().get::<Devices>().unwrap(), indexes.get::<Devices>().unwrap());
    prop_assert!(kept == rebuilt, "the index is {kept:?}, not {rebuilt:?}");
    Ok(())
}

/// Checks that everything comes to rest: no pod is left waiting although it could run, and once all pods and claims are
/// gone, no device is in use.
fn check_end(mut model: Model) -> Result<(), TestCaseError> {
    model.settle();
    check(&model)?;
    for (name, pod) in model.pods.iter().filter(|(_, pod)| pod.node_name.is_none()) {
        let place = model.place_for(pod).filter(|_| name != UNWELCOME && name != PATIENT);
        prop_assert_eq!(place, None, "{} waits, with devices in use: {:?}", name, model.expected());
    }
    let pods: Vec<String> = model.pods.keys().cloned().collect();
    pods.iter().for_each(|name| model.pod_goes(name));
    // A claim that no pod uses may keep its devices until it is used again or deleted.
    (0..CLAIMS).for_each(|name| model.claim_is_deleted(&claim_name(name)));
    model.settle();
    prop_assert_eq!(model.allocated(), Vec::new(), "devices are allocated although no pod uses them");
    check(&model)
}

/// Number of sequences: 1,000, or `PROPTEST_CASES` if that is more.
fn sequences() -> ProptestConfig {
    let default = ProptestConfig::default();
    ProptestConfig { cases: default.cases.max(1_000), ..default }
}

proptest! {
    #![proptest_config(sequences())]

    #[test]
    fn every_device_in_use_is_accounted_for(steps in prop::collection::vec(step(), 1..60)) {
        let mut model = Model::new(config);
        for step in steps {
            play(&mut model, step);
            check(&model)?;
        }
        check_end(model)?;
    }
}
