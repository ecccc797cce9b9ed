//! What is kept is bounded, and what stays is still found.

use harbormaster_api::{Node, Pod, PodSpec, points::ExtensionPoint};

use super::*;
use crate::{cluster::Cluster, prelude::*, profile::ProfileSpec, registry::Registry};

/// Scores every node by the pod's priority, so that pods of different priorities share nothing.
struct ByPriority;

impl Plugin for ByPriority {
    const NAME: &'static str = "ByPriority";
    type FilterState = ();
    type ScoreState = ();
    fn points(points: &mut Points<Self>) {
        points.score();
    }
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.priority());
    }
}

impl Build for ByPriority {
    type Args = NoArgs;
    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Score<Row> for ByPriority {
    fn score(&self, cx: &RowCycle<'_>, (): &(), _: NodeRef<'_>) -> PluginResult<i64> {
        Ok(i64::from(cx.pod.priority()))
    }
}

fn profile() -> Profile {
    let mut registry = Registry::default();
    registry.register::<ByPriority>();
    let points = vec![(ExtensionPoint::Score, vec![(ByPriority::NAME.to_owned(), 1)])];
    let spec = ProfileSpec { points, ..ProfileSpec::default() };
    Profile::build(&spec, &registry, &BuildCycle::default()).unwrap()
}

fn cluster(nodes: usize) -> Cluster {
    let mut cluster = Cluster::default();
    for at in 0..nodes {
        cluster.set_node(Arc::new(Node { name: format!("n{at}").into(), ..Node::default() }));
    }
    cluster.refresh();
    cluster
}

fn pod(priority: i32) -> Arc<PodInfo> {
    let spec = Arc::new(PodSpec { priority, ..PodSpec::default() });
    PodInfo::standalone(Pod { spec, ..Pod::default() })
}

/// What is kept for such a pod is made or brought up to date, and is what it should be.
fn use_for(kept: &mut Kept, profile: &Profile, cluster: &Cluster, pod: &PodInfo) {
    let cx = Cycle::new(cluster, pod);
    let slate = kept.open(profile, &cx).unwrap();
    kept.sync(slate, profile, &cx, &mut Laps::of(None)).unwrap();
    let raw = kept.column(slate, PluginIdx(0)).unwrap().raw();
    assert_eq!(raw, vec![i64::from(pod.priority()); cluster.rows()]);
}

/// How much one slate with its columns takes.
fn size_of_one(profile: &Profile, cluster: &Cluster) -> usize {
    let mut kept = Kept::new(usize::MAX);
    use_for(&mut kept, profile, cluster, &pod(0));
    kept.size()
}

#[test]
fn pods_that_all_differ_are_kept_up_to_the_bound_and_little_more() {
    let (profile, cluster) = (profile(), cluster(50));
    let one = size_of_one(&profile, &cluster);
    let mut kept = Kept::new(20 * one);
    for priority in 0..300 {
        use_for(&mut kept, &profile, &cluster, &pod(priority));
        assert!(kept.size() <= 24 * one, "{} slates at {priority}", kept.slates.len());
        assert!(kept.slates.len() >= 18.min(priority as usize), "{} slates", kept.slates.len());
    }
}

#[test]
fn what_is_used_all_the_time_stays_and_is_found_by_its_spec() {
    let (profile, cluster) = (profile(), cluster(50));
    let mut kept = Kept::new(8 * size_of_one(&profile, &cluster));
    let often: Vec<_> = [1, 2, 3].map(pod).into();
    often.iter().for_each(|pod| use_for(&mut kept, &profile, &cluster, pod));
    let others: Vec<_> = (10..100).map(pod).collect();
    for other in &others {
        use_for(&mut kept, &profile, &cluster, other);
        for pod in &often {
            assert!(
                kept.by_spec.get(pod).is_some(),
                "{} is forgotten for {}",
                pod.priority(),
                other.priority()
            );
            use_for(&mut kept, &profile, &cluster, pod);
        }
    }
    assert!(kept.by_spec.get(&others[0]).is_none(), "the slate of this one is gone");
    others.iter().for_each(|pod| use_for(&mut kept, &profile, &cluster, pod));
}

#[test]
fn a_cluster_that_grows_makes_room_as_well() {
    let (profile, mut cluster) = (profile(), cluster(10));
    let mut kept = Kept::new(20 * size_of_one(&profile, &cluster));
    let pods: Vec<_> = (0..16).map(pod).collect();
    pods.iter().for_each(|pod| use_for(&mut kept, &profile, &cluster, pod));
    for at in 10..1000 {
        cluster.set_node(Arc::new(Node { name: format!("n{at}").into(), ..Node::default() }));
    }
    cluster.refresh();
    pods.iter().for_each(|pod| use_for(&mut kept, &profile, &cluster, pod));
    use_for(&mut kept, &profile, &cluster, &pod(100));
    assert_eq!(kept.slates.len(), 2, "the last one and the new one");
}
