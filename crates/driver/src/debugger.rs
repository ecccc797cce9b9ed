//! Compares the engine's state with that of the API server and logs the engine's state, like kube-scheduler's cache
//! debugger.
//!
//! kube-scheduler compares its cache with its own informers. This module lists nodes and pods again, so it also
//! detects a watch that has lost an event. Since the cluster may change during the comparison, differences are logged
//! only if they still exist after a pause.

use std::{
    collections::BTreeSet,
    fmt::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use harbormaster_api::{Release, Resources};
use harbormaster_client::ApiClient;
use harbormaster_core::{Dump, DumpedGroup, DumpedNode};
use harbormaster_framework::{group::GroupId, pod::PodInfo};
use tokio::{sync::oneshot, task::yield_now, time::sleep};

use crate::{
    message::{EngineMessage, ToEngine},
    watch::{Nodes, Pods, census::census},
};

/// Time allowed for watch events to arrive.
const PAUSE: Duration = Duration::from_secs(2);
/// Maximum number of queued pods in one log line; log collectors truncate longer lines.
const PODS_PER_LINE: usize = 50;

pub(crate) struct Debugger {
    client: ApiClient,
    engine: ToEngine,
}

impl Debugger {
    pub(crate) fn new(client: ApiClient, engine: ToEngine) -> Self {
        Self { client, engine }
    }

    /// Compares the engine with the API server, and logs the differences and a dump of the engine.
    pub(crate) async fn run(&self) {
        tracing::trace!(v = 3, "Cache comparer started");
        match self.compare().await {
            Ok(Some(compared)) => compared.log(),
            Ok(None) => return,
            Err(why) => {
                tracing::error!(err = why, "Cache and queue cannot be compared with the API server");
            }
        }
        tracing::trace!(v = 3, "Cache comparer finished");
        if let Some(dump) = self.dump().await {
            log_dump(&dump).await;
        }
    }

    /// Returns a dump of the engine; `None` if the engine is shutting down.
    async fn dump(&self) -> Option<Dump> {
        let (answer, dump) = oneshot::channel();
        self.engine.send(EngineMessage::Dump(answer)).ok()?;
        dump.await.ok()
    }

    /// Returns the differences that exist both now and after a pause; `None` if the engine is shutting down.
    async fn compare(&self) -> Result<Option<Comparison>, String> {
        let Some(first) = self.compare_once().await? else { return Ok(None) };
        if first.differences() == 0 {
            return Ok(Some(first));
        }
        sleep(PAUSE).await;
        let second = self.compare_once().await?;
        Ok(second.map(|second| second.also_in(&first)))
    }

    async fn compare_once(&self) -> Result<Option<Comparison>, String> {
        let nodes = census(&self.client, &Nodes, |name, _| name.to_owned()).await?;
        let pods = census(&self.client, &Pods, |name, uid| format!("{uid}({name})")).await?;
        Ok(self.dump().await.map(|held| Comparison::of(nodes, pods, &held)))
    }
}

/// Difference between the API server's objects and the engine's.
#[derive(Debug, Default, PartialEq, Eq)]
struct Difference {
    /// Number of objects in the API server.
    actual: usize,
    /// Objects in the API server that the engine does not have.
    missed: BTreeSet<String>,
    /// Objects that only the engine has.
    redundant: BTreeSet<String>,
}

impl Difference {
    fn between(actual: &BTreeSet<String>, held: &BTreeSet<String>) -> Self {
        Self { actual: actual.len(), missed: actual - held, redundant: held - actual }
    }

    fn len(&self) -> usize {
        self.missed.len() + self.redundant.len()
    }

    fn lists(&self) -> [Vec<&String>; 2] {
        [&self.missed, &self.redundant].map(|set| set.iter().collect())
    }

    fn also_in(self, earlier: &Self) -> Self {
        Self {
            missed: &self.missed & &earlier.missed,
            redundant: &self.redundant & &earlier.redundant,
            ..self
        }
    }
}

/// Differences between the API server and the engine.
#[derive(Debug, Default, PartialEq, Eq)]
struct Comparison {
    nodes: Difference,
    pods: Difference,
}

impl Comparison {
    fn of(nodes: BTreeSet<String>, pods: BTreeSet<String>, held: &Dump) -> Self {
        let there = held.nodes.iter().filter(|node| !node.deleted);
        let held_nodes = there.map(|node| node.name.to_string()).collect();
        let on_nodes = held.nodes.iter().flat_map(|node| &node.pods);
        let queued = [&held.active, &held.backoff, &held.unschedulable, &held.gated, &held.incomplete];
        let without = queued.into_iter().chain([&held.left_alone]);
        let all = on_nodes.chain(without.into_iter().flatten());
        let held_pods = all.map(|pod| format!("{}({})", pod.uid, pod.full_name())).collect();
        Self { nodes: Difference::between(&nodes, &held_nodes), pods: Difference::between(&pods, &held_pods) }
    }

    fn differences(&self) -> usize {
        self.nodes.len() + self.pods.len()
    }

    fn also_in(self, earlier: &Self) -> Self {
        Self { nodes: self.nodes.also_in(&earlier.nodes), pods: self.pods.also_in(&earlier.pods) }
    }

    fn log(&self) {
        let Self { nodes, pods } = self;
        if nodes.len() > 0 {
            let [missed, redundant] = nodes.lists();
            tracing::info!(v = 0, missedNodes = ?missed, redundantNodes = ?redundant, "Cache mismatch");
        }
        if pods.len() > 0 {
            let [missed, redundant] = pods.lists();
            tracing::info!(v = 0, missedPods = ?missed, redundantPods = ?redundant, "Cache mismatch");
        }
        tracing::info!(
            v = 0,
            nodes = nodes.actual,
            pods = pods.actual,
            differences = self.differences(),
            "Compared cache and queue with the API server"
        );
    }
}

/// Writes a log line for each node, and lines for the queue. Other tasks can run between the lines.
async fn log_dump(dump: &Dump) {
    let mut nodes: Vec<&DumpedNode> = dump.nodes.iter().collect();
    nodes.sort_unstable_by_key(|node| &node.name);
    for node in nodes {
        tracing::info!(v = 0, nodes = node_text(node), "Dump of cached NodeInfo");
        yield_now().await;
    }
    let mut groups: Vec<&DumpedGroup> = dump.groups.iter().flatten().collect();
    groups.sort_unstable_by_key(|group| &group.id);
    for group in groups {
        tracing::info!(v = 0, podGroups = group_text(group), "Dump of cached PodGroup");
        yield_now().await;
    }
    let summary = summary(dump);
    let pending: Vec<&Arc<PodInfo>> =
        [&dump.active, &dump.backoff, &dump.unschedulable, &dump.gated, &dump.incomplete]
            .into_iter()
            .flatten()
            .collect();
    // An empty queue also gets a line.
    let mut parts = pending.chunks(PODS_PER_LINE);
    let mut part = parts.next().unwrap_or_default();
    loop {
        let pods: String = part.iter().map(|pod| pod_text(pod)).collect();
        tracing::info!(v = 0, summary, pods, "Dump of scheduling queue");
        yield_now().await;
        match parts.next() {
            Some(next) => part = next,
            None => return,
        }
    }
}

/// Returns the numbers of queued pods and groups in kube-scheduler's words.
fn summary(dump: &Dump) -> String {
    let elements = |parts: &[&[Arc<PodInfo>]]| {
        let pods = || parts.iter().copied().flatten();
        let groups: BTreeSet<&GroupId> = pods().filter_map(|pod| pod.group()).collect();
        pods().filter(|pod| pod.group().is_none()).count() + groups.len()
    };
    let unschedulable =
        if dump.release < Release::V1_37 { "unschedulablePods" } else { "unschedulableEntities" };
    let mut text = format!(
        "activeQ:{}; backoffQ:{}; {unschedulable}:{}",
        elements(&[&dump.active]),
        elements(&[&dump.backoff]),
        elements(&[&dump.unschedulable, &dump.gated])
    );
    if dump.groups.is_some() {
        // No member waits for the end of its group's cycle, because a cycle is one step.
        let incomplete = dump.incomplete.len();
        text += &format!("; pendingPodGroupMemberPods:0; incompletePodGroupPods:{incomplete}");
    }
    text
}

fn group_text(group: &DumpedGroup) -> String {
    let DumpedGroup { id, group, pods, scheduled } = group;
    let wanted = match group {
        None => "no object".to_owned(),
        Some(group) if group.is_gang() => format!("gang, minCount: {}", group.min_count()),
        Some(_) => "basic".to_owned(),
    };
    format!("name: {}, namespace: {}, {wanted}, pods: {pods}, scheduled: {scheduled}", id.name, id.namespace)
}

fn node_text(node: &DumpedNode) -> String {
    let DumpedNode { name, zone: _, deleted, requested, allocatable, pods, nominated } = node;
    let mut text = format!(
        "Node name: {name}\nDeleted: {deleted}\nRequested Resources: {}\nAllocatable Resources:{}\n\
         Scheduled Pods(number: {}):\n",
        InGo(requested),
        InGo(allocatable),
        pods.len()
    );
    text.extend(pods.iter().map(|pod| pod_text(pod)));
    if !nominated.is_empty() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "Nominated Pods(number: {}):", nominated.len());
        text.extend(nominated.iter().map(|pod| pod_text(pod)));
    }
    text
}

fn pod_text(pod: &PodInfo) -> String {
    let nominated = pod.status.nominated_node_name.as_deref().unwrap_or_default();
    format!(
        "name: {}, namespace: {}, uid: {}, phase: {:?}, nominated node: {nominated}\n",
        pod.name, pod.namespace, pod.uid, pod.status.phase
    )
}

/// Resource amounts as Go prints them.
struct InGo<'a>(&'a Resources);

impl fmt::Display for InGo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Resources { milli_cpu, memory, ephemeral_storage, pods, scalars } = self.0;
        write!(
            f,
            "&{{MilliCPU:{milli_cpu} Memory:{memory} EphemeralStorage:{ephemeral_storage} AllowedPodNumber:{pods} \
             ScalarResources:map["
        )?;
        for (at, (name, amount)) in scalars.iter().enumerate() {
            let space = if at == 0 { "" } else { " " };
            write!(f, "{space}{name}:{amount}")?;
        }
        f.write_str("]}")
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::{Pod, Str};
    use serde_json::json;

    use super::*;
    use harbormaster_client::fake_server::{FakeServer, json as answer};

    fn pod(name: &str) -> Arc<PodInfo> {
        let (namespace, uid) = ("ns".into(), format!("{name}-uid").as_str().into());
        PodInfo::standalone(Pod { name: name.into(), namespace, uid, ..Pod::default() })
    }

    fn node(name: &str, pods: &[&str]) -> DumpedNode {
        let pods = pods.iter().map(|name| pod(name)).collect();
        DumpedNode { name: name.into(), pods, ..DumpedNode::default() }
    }

    fn set(texts: &[&str]) -> BTreeSet<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn pods_on_nodes_and_in_all_queues_are_compared_but_deleted_nodes_are_not() {
        let held = Dump {
            nodes: vec![node("a", &["bound"]), DumpedNode { deleted: true, ..node("gone", &["ghost"]) }],
            active: vec![pod("new")],
            backoff: vec![pod("again")],
            unschedulable: vec![pod("large")],
            incomplete: vec![pod("early")],
            left_alone: vec![pod("theirs")],
            ..Dump::default()
        };
        let pods = ["bound", "ghost", "new", "again", "large", "early", "theirs"]
            .map(|p| format!("{p}-uid(ns/{p})"));
        let same = Comparison::of(set(&["a"]), BTreeSet::from(pods.clone()), &held);
        assert_eq!((same.differences(), same.nodes.actual, same.pods.actual), (0, 1, 7));

        let fewer = BTreeSet::from_iter(pods.into_iter().skip(1).chain(["x-uid(ns/x)".to_owned()]));
        let other = Comparison::of(set(&["a", "b"]), fewer, &held);
        assert_eq!((other.nodes.missed, other.nodes.redundant), (set(&["b"]), set(&[])));
        assert_eq!(
            (other.pods.missed, other.pods.redundant),
            (set(&["x-uid(ns/x)"]), set(&["bound-uid(ns/bound)"]))
        );
    }

    #[test]
    fn only_differences_in_both_comparisons_are_reported() {
        let difference = |missed: &[&str], redundant: &[&str]| Difference {
            actual: 1,
            missed: set(missed),
            redundant: set(redundant),
        };
        let lasting = difference(&["a", "b"], &["x"]).also_in(&difference(&["b", "c"], &["y"]));
        assert_eq!(lasting, difference(&["b"], &[]));
    }

    #[tokio::test(start_paused = true)]
    async fn an_object_that_the_engine_has_missed_is_found_on_any_page() {
        let page = |kind: &str, name: &str, next: &str| {
            let object =
                json!({"metadata": {"name": format!("{kind}-{name}"), "namespace": "ns", "uid": name}});
            answer(200, &json!({"metadata": {"continue": next}, "items": [object]}))
        };
        let server = FakeServer::always(move |seen| match seen.path.as_str() {
            path if path.starts_with("/api/v1/nodes?limit=500") => page("node", "1", ""),
            path if path.contains("continue=more") => page("pod", "2", ""),
            path if path.starts_with("/api/v1/pods?limit=500&fieldSelector=") => page("pod", "1", "more"),
            _ => answer(404, &json!({})),
        });
        let (engine, mut inbox) = tokio::sync::mpsc::unbounded_channel();
        let engine_thread = std::thread::spawn(move || {
            let mut times = 0;
            while let Some(EngineMessage::Dump(answer)) = inbox.blocking_recv() {
                times += 1;
                let _ = answer.send(Dump { nodes: vec![node("gone", &[])], ..Dump::default() });
            }
            times
        });
        let debugger = Debugger::new(server.client(), engine);
        let compared = debugger.compare().await.unwrap().unwrap();
        assert_eq!((compared.nodes.missed, compared.nodes.redundant), (set(&["ns/node-1"]), set(&["gone"])));
        assert_eq!(compared.pods.missed, set(&["1(ns/pod-1)", "2(ns/pod-2)"]));
        drop(debugger);
        assert_eq!(engine_thread.join().unwrap(), 2, "the comparison was repeated once");
    }

    #[test]
    fn the_summary_counts_each_group_once() {
        let member = |name: &str| {
            let group = GroupId { namespace: "ns".into(), name: "g".into() };
            let pod = Pod { name: name.into(), uid: name.into(), ..Pod::default() };
            Arc::new(PodInfo::new(pod, &mut Default::default()).in_group(Some(group)))
        };
        let unschedulable = vec![member("a"), member("b"), pod("single")];
        let dump = Dump { unschedulable, active: vec![pod("new")], ..Dump::default() };
        let old = Dump { release: Release::V1_36, ..dump.clone() };
        assert_eq!(summary(&old), "activeQ:1; backoffQ:0; unschedulablePods:2");
        let groups = Some(Vec::new());
        let new = Dump { release: Release::V1_37, groups, incomplete: vec![member("c")], ..dump };
        let expected = "activeQ:1; backoffQ:0; unschedulableEntities:2; pendingPodGroupMemberPods:0; \
                        incompletePodGroupPods:1";
        assert_eq!(summary(&new), expected);
    }

    #[test]
    fn a_group_is_described_with_the_numbers_of_its_members() {
        let id = GroupId { namespace: "ns".into(), name: "g".into() };
        let group = DumpedGroup { id, group: None, pods: 3, scheduled: 1 };
        assert_eq!(group_text(&group), "name: g, namespace: ns, no object, pods: 3, scheduled: 1");
    }

    #[test]
    fn a_node_is_described_in_kube_schedulers_words() {
        let scalars: Vec<(Str, i64)> = vec![("example.com/a".into(), 1), ("example.com/b".into(), 2)];
        let requested = Resources { milli_cpu: 100, memory: 7, scalars, ..Resources::default() };
        let nominated = vec![pod("next")];
        let text = node_text(&DumpedNode { requested, nominated, ..node("a", &["p"]) });
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines,
            [
                "Node name: a",
                "Deleted: false",
                "Requested Resources: &{MilliCPU:100 Memory:7 EphemeralStorage:0 AllowedPodNumber:0 \
                 ScalarResources:map[example.com/a:1 example.com/b:2]}",
                "Allocatable Resources:&{MilliCPU:0 Memory:0 EphemeralStorage:0 AllowedPodNumber:0 ScalarResources:map[]}",
                "Scheduled Pods(number: 1):",
                "name: p, namespace: ns, uid: p-uid, phase: Pending, nominated node: ",
                "Nominated Pods(number: 1):",
                "name: next, namespace: ns, uid: next-uid, phase: Pending, nominated node: ",
            ]
        );
    }
}
