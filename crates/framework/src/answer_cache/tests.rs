//! Tests of the cache's size limits and lookups.

use harbormaster_api::{Node, Pod, PodSpec, points::ExtensionPoint};

use super::*;
use crate::{cluster::Cluster, prelude::*, profile::ProfileSpec, registry::Registry};

/// Scores every node by the pod's priority, so that pods of different priorities share nothing.
#[derive(Default)]
struct ByPriority;

impl Plugin for ByPriority {
    const NAME: &'static str = "ByPriority";
    implemented_points!();
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.priority());
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

/// Opens and synchronizes the pod's slate and checks the scores in it.
fn use_for(cache: &mut AnswerCache, profile: &Profile, cluster: &Cluster, pod: &PodInfo) {
    let cx = Cycle::new(cluster, pod);
    let slate = cache.open(profile, &cx).unwrap();
    cache.sync(slate, profile, &cx, &mut StageTimer::new(None)).unwrap();
    let raw = cache.column(slate, PluginIdx(0)).unwrap().raw();
    assert_eq!(raw, vec![i64::from(pod.priority()); cluster.rows()]);
}

/// Size of one slate with its columns.
fn size_of_one(profile: &Profile, cluster: &Cluster) -> usize {
    let mut cache = AnswerCache::new(usize::MAX);
    use_for(&mut cache, profile, cluster, &pod(0));
    cache.size()
}

impl AnswerCache {
    fn slates(&self) -> usize {
        self.slates.iter().filter(|slate| slate.exists()).count()
    }

    fn finds(&self, pod: &PodInfo) -> bool {
        self.by_spec.get(pod, &self.slates).is_some()
    }
}

#[test]
fn only_the_latest_entries_are_kept_if_each_is_used_once() {
    let (profile, cluster) = (profile(), cluster(50));
    let one = size_of_one(&profile, &cluster);
    let mut cache = AnswerCache::new(160 * one);
    for priority in 0..300 {
        use_for(&mut cache, &profile, &cluster, &pod(priority));
        assert!(cache.slates() <= 182, "{} slates at {priority}", cache.slates());
        assert!(cache.slates() >= 155.min(priority as usize), "{} slates at {priority}", cache.slates());
    }
    assert!(cache.slates.len() <= 182, "positions are reused");
    assert!(cache.columns.len() <= 182, "positions are reused");
}

#[test]
fn entries_used_again_are_kept_up_to_slightly_more_than_the_bound() {
    let (profile, cluster) = (profile(), cluster(50));
    let one = size_of_one(&profile, &cluster);
    let mut cache = AnswerCache::new(32 * one);
    for priority in 0..300 {
        for _ in 0..2 {
            use_for(&mut cache, &profile, &cluster, &pod(priority));
        }
        assert!(cache.slates() <= 38, "{} slates at {priority}", cache.slates());
        assert!(cache.slates() >= 27.min(priority as usize), "{} slates at {priority}", cache.slates());
    }
}

#[test]
fn entries_used_once_may_take_the_room_that_no_other_entry_needs() {
    let (profile, cluster) = (profile(), cluster(50));
    let mut cache = AnswerCache::new(160 * size_of_one(&profile, &cluster));
    let (once, twice): (Vec<_>, Vec<_>) = ((0..100).map(pod).collect(), (100..300).map(pod).collect());
    once.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
    assert!(once.iter().all(|pod| cache.finds(pod)));
    for pod in &twice {
        (0..2).for_each(|_| use_for(&mut cache, &profile, &cluster, pod));
    }
    let kept = once.iter().filter(|pod| cache.finds(pod)).count();
    assert!(kept <= 24, "entries that are used twice take precedence, but {kept} others were kept");
    assert!(cache.slates() <= 185, "{} slates", cache.slates());
}

#[test]
fn entries_used_in_turn_are_kept_from_the_second_round_on() {
    let (profile, cluster) = (profile(), cluster(50));
    let mut cache = AnswerCache::new(160 * size_of_one(&profile, &cluster));
    let pods: Vec<_> = (0..100).map(pod).collect();
    for _ in 0..2 {
        pods.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
    }
    assert!(pods.iter().all(|pod| cache.finds(pod)));
    (1000..2000).for_each(|other| use_for(&mut cache, &profile, &cluster, &pod(other)));
    assert!(
        pods.iter().all(|pod| cache.finds(pod)),
        "entries that are used once evict no entries that are used twice"
    );
}

#[test]
fn an_entry_in_constant_use_stays_and_is_found_by_its_spec() {
    let (profile, cluster) = (profile(), cluster(50));
    let mut cache = AnswerCache::new(8 * size_of_one(&profile, &cluster));
    let often: Vec<_> = [1, 2, 3].map(pod).into();
    for _ in 0..2 {
        often.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
    }
    let others: Vec<_> = (10..100).map(pod).collect();
    for other in &others {
        // The second use moves the other pods' entries to the protected segment, too.
        for _ in 0..2 {
            use_for(&mut cache, &profile, &cluster, other);
        }
        for pod in &often {
            assert!(cache.finds(pod), "pod {} is forgotten after pod {}", pod.priority(), other.priority());
            use_for(&mut cache, &profile, &cluster, pod);
        }
    }
    assert!(!cache.finds(&others[0]), "the slate of the first other pod was evicted");
    others.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
}

#[test]
fn entries_are_evicted_when_the_cluster_grows() {
    let (profile, mut cluster) = (profile(), cluster(10));
    let mut cache = AnswerCache::new(20 * size_of_one(&profile, &cluster));
    let pods: Vec<_> = (0..16).map(pod).collect();
    for _ in 0..2 {
        pods.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
    }
    assert_eq!(cache.slates(), 16);
    for at in 10..1000 {
        cluster.set_node(Arc::new(Node { name: format!("n{at}").into(), ..Node::default() }));
    }
    cluster.refresh();
    pods.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
    use_for(&mut cache, &profile, &cluster, &pod(100));
    assert_eq!(cache.slates(), 2, "the last slate and the new one");
}

#[test]
fn a_small_table_has_a_smaller_cache_than_a_large_one() {
    let profile = profile();
    let held = |nodes: usize| {
        let (mut cache, cluster) = (AnswerCache::new(usize::MAX), cluster(nodes));
        let pods: Vec<_> = (0..3000).map(pod).collect();
        for pod in pods {
            for _ in 0..2 {
                use_for(&mut cache, &profile, &cluster, &pod);
            }
        }
        cache.size()
    };
    let (small, large) = (held(200), held(400));
    assert!((3 << 20..5 << 20).contains(&small), "{small} bytes");
    assert!((5 << 20..8 << 20).contains(&large), "{large} bytes");
}

#[test]
fn entries_unused_for_a_long_time_are_dropped() {
    let (profile, cluster) = (profile(), cluster(50));
    let mut cache = AnswerCache::new(usize::MAX);
    let pods: Vec<_> = (0..10).map(pod).collect();
    for _ in 0..2 {
        pods.iter().for_each(|pod| use_for(&mut cache, &profile, &cluster, pod));
    }
    cache.forget_unused();
    assert!(pods.iter().all(|pod| cache.finds(pod)), "the entries were used before the first call");
    use_for(&mut cache, &profile, &cluster, &pods[0]);
    cache.forget_unused();
    assert!(cache.finds(&pods[0]));
    assert!(!pods[1..].iter().any(|pod| cache.finds(pod)));
    assert_eq!((cache.slates(), cache.by_reads.len()), (1, 1));
    cache.forget_unused();
    assert_eq!((cache.slates(), cache.by_reads.len(), cache.by_columns.len()), (0, 0, 0));
}

/// Scores every node by the time, but only for pods of a positive priority.
#[derive(Default)]
struct ByTime;

impl Plugin for ByTime {
    const NAME: &'static str = "ByTime";
    implemented_points!();
    fn reads(&self, pod: RowPod<'_>, reads: &mut Reads) {
        reads.of(&pod.priority());
    }
}

impl ReadsCluster for ByTime {
    fn reads_cluster(&self, cx: &Cycle<'_>, reads: &mut Reads) -> PluginResult<()> {
        if cx.pod.priority() > 0 {
            reads.of(&cx.now);
        }
        Ok(())
    }
}

impl Score<Row> for ByTime {
    fn score(&self, cx: &RowCycle<'_>, (): &(), _: NodeRef<'_>) -> PluginResult<i64> {
        let epoch = harbormaster_api::Timestamp::from_secs(0);
        Ok(cx.cluster().map_or(-1, |cx| cx.now.since(epoch).as_secs() as i64))
    }
}

#[test]
fn answers_that_depend_on_the_cluster_are_shared_while_the_facts_are_equal() {
    let mut registry = Registry::default();
    registry.register::<ByTime>();
    let points = vec![(ExtensionPoint::Score, vec![(ByTime::NAME.to_owned(), 1)])];
    let spec = ProfileSpec { points, ..ProfileSpec::default() };
    let profile = Profile::build(&spec, &registry, &BuildCycle::default()).unwrap();
    let (mut cluster, mut cache) = (cluster(2), AnswerCache::new(usize::MAX));
    let mut raw = |now: i64, pod: &PodInfo| {
        cluster.set_now(harbormaster_api::Timestamp::from_secs(now));
        let cx = Cycle::new(&cluster, pod);
        let slate = cache.open(&profile, &cx).unwrap();
        cache.sync(slate, &profile, &cx, &mut StageTimer::new(None)).unwrap();
        (cache.column(slate, PluginIdx(0)).unwrap().raw().to_vec(), cache.slates())
    };
    let (cluster_reader, other) = (pod(1), pod(0));
    assert_eq!(raw(5, &cluster_reader), (vec![5, 5], 1));
    assert_eq!(raw(6, &cluster_reader), (vec![6, 6], 2));
    assert_eq!(raw(5, &cluster_reader), (vec![5, 5], 2));
    assert_eq!(raw(5, &other), (vec![-1, -1], 3), "the other pod does not see the cluster");
    assert_eq!(raw(6, &other), (vec![-1, -1], 3));
}
