//! Answers cached across attempts must equal those that the plugins would give now, after any sequence of changes.

use std::sync::Arc;

use harbormaster_api::{Labels, Node, Pod, PodSpec, Resources, points::ExtensionPoint};
use harbormaster_framework::{
    attempt::{Attempt, Decision, Runner, Search},
    cluster::Cluster,
    normalize::{Extremes, Formula},
    plugin::PreFilter,
    pod::SpecTable,
    prelude::*,
    profile::{Profile, ProfileSpec},
    registry::Registry,
    window::{Rotation, Tie, Window},
};
use proptest::prelude::*;

/// Rejects nodes without enough CPU and, in PreFilter, all nodes for pods of priority 13.
struct Cpu;

impl Plugin for Cpu {
    const NAME: &'static str = "Cpu";
    implemented_points!();
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.priority());
    }
}

impl PreFilter<Row, i64> for Cpu {
    fn pre_filter(&self, cx: &RowCycle<'_>) -> Result<PreFiltered<i64>, Stop> {
        if cx.pod.priority() == 13 {
            return Err(Reject::unresolvable("unlucky").into());
        }
        Ok(PreFiltered::state(i64::from(cx.pod.priority())))
    }
}

impl Filter<Row, i64> for Cpu {
    fn filter(&self, _: &RowCycle<'_>, want: &i64, node: NodeRef<'_>) -> Verdict {
        let free = node.allocatable().milli_cpu - node.requested().pods * 10;
        if *want > free {
            return Err(Reject::evictable(format!("short of {}", (want - free) / 10)).into());
        }
        Ok(())
    }
}

impl Score<Row> for Cpu {
    fn score(&self, _: &RowCycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(100 - node.requested().pods.min(100))
    }
}

/// Scores by a label, proportionally.
struct Label<const REVERSE: bool>;

impl<const REVERSE: bool> Plugin for Label<REVERSE> {
    const NAME: &'static str = if REVERSE { "LabelDown" } else { "LabelUp" };
    implemented_points!();
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&(pod.priority() % 3 == 0));
    }
}

/// Skips pods whose priority is divisible by three.
impl<const REVERSE: bool> PreScore<Row> for Label<REVERSE> {
    fn pre_score(&self, cx: &RowCycle<'_>, _: &(), _: &NodeSet) -> PluginResult<PreScored<()>> {
        Ok(if cx.pod.priority() % 3 == 0 { PreScored::Skip } else { PreScored::Continue(()) })
    }
}

impl<const REVERSE: bool> Score<Row> for Label<REVERSE> {
    const NORMALIZE: Normalize = Normalize::Proportional { reverse: REVERSE };
    fn score(&self, _: &RowCycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let rank = node.labels().and_then(|l| l.get("rank")).and_then(|v| v.parse().ok());
        Ok(rank.unwrap_or(0))
    }
}

/// Scores by a label, between the smallest and the largest.
struct Span;

impl Plugin for Span {
    const NAME: &'static str = "Span";
    implemented_points!();
    fn reads(&self, _: RowPod<'_>, _: &mut Reads) {}
}

impl Score<Row> for Span {
    const NORMALIZE: Normalize = Normalize::MinMax;
    fn score(&self, _: &RowCycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let rank = node.labels().and_then(|l| l.get("rank")).and_then(|v| v.parse().ok());
        Ok(rank.map_or(0, |rank: i64| 5 - rank))
    }
}

/// Scores by a label and a formula. Nodes with the highest labels cannot be rated.
struct Rated;

impl Plugin for Rated {
    const NAME: &'static str = "Rated";
    implemented_points!();
    fn reads(&self, _: RowPod<'_>, _: &mut Reads) {}
}

impl Score<Row> for Rated {
    const NORMALIZE: Normalize = Normalize::Formula(Formula(|raw, extremes| {
        let Extremes { min, max, are_all_rated } = extremes;
        10 * (max - raw) + (max - min) + i64::from(are_all_rated)
    }));
    fn score(&self, _: &RowCycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let rank = node.labels().and_then(|l| l.get("rank")).and_then(|v| v.parse().ok()).unwrap_or(0);
        Ok(if rank > 7 { Formula::UNRATED } else { rank })
    }
}

/// Cluster-scoped: rejects nodes with several pods if the pod's name ends in "odd".
struct Fickle;

impl Plugin for Fickle {
    const NAME: &'static str = "Fickle";
    implemented_points!();
}

impl Filter for Fickle {
    fn filter(&self, cx: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> Verdict {
        if cx.pod.name.ends_with("odd") && node.pods().len() > 1 {
            return Err(Reject::evictable("odd pods want quiet nodes").into());
        }
        Ok(())
    }
}

impl Score for Fickle {
    fn score(&self, cx: &Cycle<'_>, _: &(), node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(if cx.pod.name.ends_with("odd") { node.pods().len().min(100) as i64 } else { 0 })
    }
}

macro_rules! without_args {
    ($($plugin:ty => $make:expr;)*) => {
        $(impl Build for $plugin {
            type Args = NoArgs;
            fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
                Ok($make)
            }
        })*
    };
}
without_args! {
    Cpu => Cpu;
    Label<true> => Label;
    Label<false> => Label;
    Span => Span;
    Rated => Rated;
    Fickle => Fickle;
}

fn profile(fickle: bool) -> Arc<Profile> {
    let mut registry = Registry::default();
    registry.register::<Cpu>().register::<Label<true>>().register::<Label<false>>().register::<Span>();
    registry.register::<Rated>().register::<Fickle>();
    let mut filters = vec![("Cpu".to_owned(), 0)];
    let weights = [("Cpu", 1), ("LabelDown", 3), ("LabelUp", 2), ("Span", 4), ("Rated", 2)];
    let mut scores: Vec<_> = weights.map(|(name, weight)| (name.to_owned(), weight)).into();
    if fickle {
        filters.insert(0, ("Fickle".to_owned(), 0));
        scores.push(("Fickle".to_owned(), 5));
    }
    let spec = ProfileSpec {
        name: "default-scheduler".into(),
        points: vec![
            (ExtensionPoint::PreFilter, vec![("Cpu".to_owned(), 0)]),
            (ExtensionPoint::Filter, filters),
            (ExtensionPoint::PreScore, vec![("LabelDown".to_owned(), 0), ("LabelUp".to_owned(), 0)]),
            (ExtensionPoint::Score, scores),
        ],
        ..ProfileSpec::default()
    };
    Arc::new(Profile::build(&spec, &registry, &BuildCycle::default()).unwrap())
}

fn node(name: u8, rank: u8, cpu: u8) -> Arc<Node> {
    Arc::new(Node {
        name: format!("n{name}").into(),
        labels: [("rank", rank.to_string())].into_iter().collect::<Labels>(),
        allocatable: Resources { milli_cpu: i64::from(cpu), pods: 110, ..Resources::default() },
        ..Node::default()
    })
}

fn pod(specs: &mut SpecTable, id: u16, class: u8) -> Arc<PodInfo> {
    let spec = PodSpec { priority: i32::from(class), ..PodSpec::default() };
    let name = if id.is_multiple_of(2) { format!("p{id}-even") } else { format!("p{id}-odd") };
    Arc::new(PodInfo::new(
        Pod { uid: name.as_str().into(), name: name.into(), spec: Arc::new(spec), ..Pod::default() },
        specs,
    ))
}

#[derive(Clone, Debug)]
enum Step {
    SetNode(u8, u8, u8),
    RemoveNode(u8),
    Schedule(u8),
    Remove(u16),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u8..12, 0u8..10, 0u8..60).prop_map(|(n, rank, cpu)| Step::SetNode(n, rank, cpu)),
        1 => (0u8..12).prop_map(Step::RemoveNode),
        8 => prop_oneof![Just(0u8), Just(5), Just(13), 0u8..12].prop_map(Step::Schedule),
        2 => (0u16..60).prop_map(Step::Remove),
    ]
}

/// The chosen node or, if there is none, the message.
fn answer(found: &Decision, nodes: &Cluster) -> String {
    match found {
        Decision::Node { row, .. } => nodes.node(*row).name().to_string(),
        Decision::Unschedulable(diagnosis) => diagnosis.message(),
    }
}

/// A cache that is so small that entries are replaced.
const SMALL_CACHE: usize = 6000;

fn run(steps: Vec<Step>, fickle: bool, window: Window, tie: Tie, cache: usize) -> Result<(), TestCaseError> {
    let profile = profile(fickle);
    let mut cached = Runner::with_cache_size(profile.clone(), cache);
    let (mut nodes, mut specs) = (Cluster::default(), SpecTable::default());
    let mut placed: Vec<(Arc<PodInfo>, harbormaster_api::Str)> = Vec::new();
    let mut rotation = Rotation::default();
    for (id, step) in steps.into_iter().enumerate() {
        match step {
            Step::SetNode(name, rank, cpu) => {
                nodes.set_node(node(name, rank, cpu));
            }
            Step::RemoveNode(name) => {
                nodes.remove_node(&format!("n{name}"));
            }
            Step::Remove(which) => {
                if !placed.is_empty() {
                    let (pod, node) = placed.remove(which as usize % placed.len());
                    prop_assert!(nodes.remove_pod(&node, &pod.uid));
                }
            }
            Step::Schedule(class) => {
                nodes.refresh();
                let pod = pod(&mut specs, id as u16, class);
                let mut fresh_rotation = rotation;
                let search = Search { window, tie, ..Search::all(&mut fresh_rotation) };
                let fresh = Runner::new(profile.clone()).find(&mut nodes, &pod, search);
                let search = Search { window, tie, ..Search::all(&mut rotation) };
                let found = cached.find(&mut nodes, &pod, search);
                let (found, fresh) = (found.map(Attempt::into_decision), fresh.map(Attempt::into_decision));
                let (Ok(found), Ok(fresh)) = (found, fresh) else {
                    prop_assert_eq!(nodes.node_count(), 0);
                    continue;
                };
                prop_assert_eq!(answer(&found, &nodes), answer(&fresh, &nodes));
                prop_assert_eq!(rotation, fresh_rotation);
                if let Decision::Node { row, .. } = found {
                    let name = nodes.node(row).name().clone();
                    nodes.add_pod(&name, pod.clone());
                    placed.push((pod, name));
                }
            }
        }
    }
    for row in 0..nodes.rows() {
        let node = nodes.node(row.into());
        prop_assert_eq!(node.requested().pods, node.pods().len() as i64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn cached_answers_equal_fresh_ones_when_every_node_is_scored(
        steps in prop::collection::vec(step(), 1..120),
        fickle: bool,
    ) {
        run(steps, fickle, Window::All, Tie::Rotate, SMALL_CACHE)?;
    }

    #[test]
    fn cached_answers_equal_fresh_ones_when_nodes_are_chosen_as_in_kube_scheduler(
        steps in prop::collection::vec(step(), 1..120),
        fickle: bool,
    ) {
        run(steps, fickle, Window::Sampled { percentage: 0 }, Tie::FirstOnHeap, SMALL_CACHE)?;
    }

    #[test]
    fn cached_answers_equal_fresh_ones_if_many_nodes_change_between_two_attempts(
        nodes in prop::collection::vec((0u8..10, 0u8..60), 30..80),
        rounds in prop::collection::vec(
            (prop::collection::vec((any::<prop::sample::Index>(), 0u8..10, 0u8..60), 0..30), 0u8..5),
            1..20,
        ),
    ) {
        let set = |(name, (rank, cpu)): (usize, &(u8, u8))| Step::SetNode(name as u8, *rank, *cpu);
        let mut steps: Vec<Step> = nodes.iter().enumerate().map(set).collect();
        for (changes, class) in rounds {
            steps.extend(changes.iter().map(|(at, rank, cpu)| set((at.index(nodes.len()), &(*rank, *cpu)))));
            steps.push(Step::Schedule(class));
        }
        run(steps, false, Window::All, Tie::Rotate, 1 << 20)?;
    }
}
