//! A plugin as an author outside this repository would write it, with an index and every extension point except those
//! of pod groups. Nodes offer tickets (a label), pods request tickets (an annotation), and the pods of a pair wait
//! for each other.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use harbormaster_api::{Pod, Str};
use harbormaster_framework::prelude::*;
use serde::Deserialize;

const LABEL: &str = "example.com/tickets";
const WANTED: &str = "example.com/tickets";
const PAIR: &str = "example.com/pair";

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct TicketsArgs {
    /// Maximum number of tickets per pod; pods that request more do not enter the queue.
    most_per_pod: Option<i64>,
}

#[derive(Debug)]
struct Tickets {
    most_per_pod: Option<i64>,
    /// Numbers of tickets reserved for pods that are not bound yet, keyed by pod UID.
    reserved: Mutex<BTreeMap<Str, i64>>,
    /// Printed tickets.
    printed: Mutex<Vec<String>>,
}

/// Tickets taken per node, and the number that the pod requests.
#[derive(Clone, Debug, Default)]
struct Taken {
    by_row: BTreeMap<NodeIdx, i64>,
    wanted: i64,
}

/// The largest number of tickets left on any candidate.
#[derive(Debug, Default)]
struct MostLeft(i64);

fn wanted(pod: &Pod) -> i64 {
    pod.annotations.get(WANTED).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn offered(node: NodeRef<'_>) -> i64 {
    node.labels().and_then(|labels| labels.get(LABEL)).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn taken(node: NodeRef<'_>) -> i64 {
    node.pods().iter().map(|pod| wanted(pod)).sum()
}

/// Tickets per row. Rows without tickets are absent.
#[derive(Debug, Default, PartialEq)]
struct BoxOffice {
    offered: BTreeMap<NodeIdx, i64>,
    taken: BTreeMap<NodeIdx, i64>,
}

impl BoxOffice {
    fn sell(&mut self, row: NodeIdx, tickets: i64) {
        let taken = self.taken.entry(row).or_default();
        *taken += tickets;
        if *taken == 0 {
            self.taken.remove(&row);
        }
    }
}

impl Index for BoxOffice {
    fn pod_joined(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.sell(row, wanted(pod));
    }

    fn pod_left(&mut self, _: ClusterView<'_>, row: NodeIdx, pod: &PodInfo) {
        self.sell(row, -wanted(pod));
    }

    fn node_changed(&mut self, known: ClusterView<'_>, row: NodeIdx) {
        match offered(known.nodes.node(row)) {
            0 => self.offered.remove(&row),
            tickets => self.offered.insert(row, tickets),
        };
    }
}

impl Plugin for Tickets {
    const NAME: &'static str = "Tickets";
    implemented_points!();

    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![
            Registration::hinted(EventResource::Pod, Action::DELETE, Self::after_pod),
            Registration::always(EventResource::Node, Action::ADD | Action::UPDATE_NODE_LABEL),
        ])
    }

    fn sign(&self, pod: &PodInfo) -> Result<Vec<SignFragment>, Unsignable> {
        Ok(vec![SignFragment { key: WANTED, value: wanted(pod).to_string() }])
    }
}

impl Build for Tickets {
    type Args = TicketsArgs;

    fn build(args: TicketsArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        if args.most_per_pod.is_some_and(|most| most < 1) {
            return Err("mostPerPod must be at least 1".into());
        }
        Ok(Self { most_per_pod: args.most_per_pod, reserved: Mutex::default(), printed: Mutex::default() })
    }
}

impl Tickets {
    fn after_pod(&self, pod: &PodInfo, change: &Change<'_>) -> PluginResult<Hint> {
        let Change::Pod { old: Some(gone), .. } = change else { return Ok(Hint::Queue) };
        let helps = wanted(gone) > 0 && gone.node_name.is_some() && gone.uid != pod.uid;
        Ok(if helps { Hint::Queue } else { Hint::Skip })
    }
}

impl Indexed for Tickets {
    type Index = BoxOffice;
}

impl PreEnqueue for Tickets {
    fn pre_enqueue(&self, cx: EnqueueCycle<'_>) -> Verdict {
        if self.most_per_pod.is_some_and(|most| wanted(cx.pod) > most) {
            return Err(Reject::unresolvable("pod wants too many tickets").into());
        }
        if cx.awaits_eviction {
            return Err(Reject::unresolvable("ticket holders are making way").into());
        }
        Ok(())
    }
}

impl QueueSort for Tickets {
    fn less(&self, a: Queued<'_>, b: Queued<'_>) -> bool {
        (wanted(b.pod), a.since) < (wanted(a.pod), b.since)
    }
}

impl PreFilter<WholeCluster, Taken> for Tickets {
    fn pre_filter(&self, cx: &Cycle<'_>) -> Result<PreFiltered<Taken>, Stop> {
        let wanted = wanted(cx.pod);
        if wanted == 0 {
            return Ok(PreFiltered::Skip);
        }
        if wanted < 0 {
            return Err(Reject::unresolvable("pod wants less than no ticket").into());
        }
        let office: &BoxOffice = self.index(cx)?;
        Ok(PreFiltered::Continue {
            state: Taken { by_row: office.taken.clone(), wanted },
            only: Some(office.offered.keys().copied().collect()),
        })
    }

    fn add_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut Taken,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        *state.by_row.entry(node.idx()).or_default() += wanted(pod);
        Ok(())
    }

    fn remove_pod(
        &self,
        _: &Cycle<'_>,
        state: &mut Taken,
        pod: &PodInfo,
        node: NodeRef<'_>,
    ) -> PluginResult<()> {
        *state.by_row.entry(node.idx()).or_default() -= wanted(pod);
        Ok(())
    }
}

impl Filter<WholeCluster, Taken> for Tickets {
    fn filter(&self, _: &Cycle<'_>, state: &Taken, node: NodeRef<'_>) -> Verdict {
        let taken = state.by_row.get(&node.idx()).copied().unwrap_or(0);
        if taken + state.wanted > offered(node) {
            return Err(Reject::evictable("Insufficient tickets").into());
        }
        Ok(())
    }
}

impl PostFilter<Taken> for Tickets {
    fn post_filter(&self, cx: &mut PostFilterCycle<'_>, _: &Taken) -> PluginResult<PostFiltered> {
        for row in cx.what_if.evictable_rows() {
            let node = cx.what_if.nodes().node(row);
            let (name, priority) = (node.name().clone(), cx.pod.priority());
            let mut holders: Vec<_> =
                node.pods().iter().filter(|p| p.priority() < priority).cloned().collect();
            holders.sort_by_key(|pod| std::cmp::Reverse(pod.priority()));
            if let Some(victims) = choose_victims(cx.what_if.dry_run(row), &holders)? {
                return Ok(PostFiltered::Nominate {
                    node: name,
                    victims,
                    violations: 0,
                    reasons: Vec::new(),
                });
            }
        }
        Ok(PostFiltered::NoHelp {
            reasons: vec!["no ticket holder to make way".into()],
            nomination: Nomination::Keep,
        })
    }
}

/// Returns the pods among `holders` (most important first) that must be evicted so that the pod fits, or `None` if it
/// would not fit even after the eviction of all of them.
fn choose_victims(mut node: DryRun<'_>, holders: &[Arc<PodInfo>]) -> PluginResult<Option<Vec<Arc<PodInfo>>>> {
    for holder in holders {
        node.remove_pod(holder)?;
    }
    if holders.is_empty() || node.rejection()?.is_some() {
        return Ok(None);
    }
    let mut victims = Vec::new();
    for holder in holders {
        node.add_pod(holder)?;
        if node.rejection()?.is_some() {
            node.remove_pod(holder)?;
            victims.push(holder.clone());
        }
    }
    Ok(Some(victims))
}

impl PreScore<WholeCluster, Taken, MostLeft> for Tickets {
    fn pre_score(
        &self,
        cx: &Cycle<'_>,
        _: &Taken,
        candidates: &NodeSet,
    ) -> PluginResult<PreScored<MostLeft>> {
        let left = candidates.iter().map(|row| cx.nodes.node(row)).map(|node| offered(node) - taken(node));
        Ok(match left.max() {
            Some(most) if wanted(cx.pod) > 0 => PreScored::Continue(MostLeft(most)),
            _ => PreScored::Skip,
        })
    }
}

impl Score<WholeCluster, MostLeft> for Tickets {
    const NORMALIZE: Normalize = Normalize::Custom;

    fn score(&self, _: &Cycle<'_>, _: &MostLeft, node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(offered(node) - taken(node))
    }

    fn normalize(
        &self,
        _: &Cycle<'_>,
        state: &MostLeft,
        candidates: &NodeSet,
        scores: &mut [i64],
    ) -> PluginResult<()> {
        for row in candidates {
            scores[row.at()] = 100 * scores[row.at()] / state.0.max(1);
        }
        Ok(())
    }
}

impl Reserve<Taken> for Tickets {
    /// Number of reserved tickets.
    type Reserved = i64;

    fn reserve(&self, cx: &Cycle<'_>, state: &Taken, node: NodeRef<'_>, _: &mut Assume) -> Result<i64, Stop> {
        if node.unschedulable() {
            return Err(Reject::evictable("tickets are not sold here any more").into());
        }
        self.reserved.lock().map_err(|e| e.to_string())?.insert(cx.pod.uid.clone(), state.wanted);
        Ok(state.wanted)
    }

    fn unreserve(&self, placement: &Placement, _: &mut Vec<ApiCall>) {
        if let Ok(mut reserved) = self.reserved.lock() {
            reserved.remove(&placement.pod.uid);
        }
    }
}

impl Permit for Tickets {
    fn permit(&self, cx: &Cycle<'_>, _: &Str, waiting: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        let Some(pair) = cx.pod.annotations.get(PAIR) else { return Ok(Permitted::Allow) };
        if pair.is_empty() {
            return Err(Reject::evictable("a pair needs a name").into());
        }
        let listed = waiting.list();
        let partner = listed.iter().find(|(other, _)| other.annotations.get(PAIR) == Some(pair));
        match partner {
            Some((partner, _)) => {
                waiting.allow(&partner.uid);
                Ok(Permitted::Allow)
            }
            None => {
                waiting.activate(&cx.pod.namespace, pair);
                Ok(Permitted::Wait(Duration::from_secs(30)))
            }
        }
    }
}

impl PreBind for Tickets {
    fn pre_flight(&self, placement: &Placement) -> PluginResult<PreFlight> {
        let wanted = self.reserved(placement).copied().unwrap_or_default();
        Ok(if wanted > 0 { PreFlight::Work { parallel: true } } else { PreFlight::NothingToDo })
    }

    async fn pre_bind(&self, cx: &BindCycle) -> Verdict {
        let mut printed = self.printed.lock().map_err(|e| e.to_string())?;
        let tickets = self.reserved(cx).ok_or("nothing was reserved")?;
        printed.push(format!("{tickets} tickets for {} on {}", cx.pod.name, cx.node));
        Ok(())
    }
}

impl Bind for Tickets {
    async fn bind(&self, cx: &BindCycle) -> Result<Bound, Stop> {
        if wanted(&cx.pod) == 0 {
            return Ok(Bound::NotMine);
        }
        cx.api.bind(&cx.pod, &cx.node).await?;
        Ok(Bound::Done)
    }
}

impl PostBind for Tickets {
    async fn post_bind(&self, cx: &BindCycle) {
        if let Ok(mut reserved) = self.reserved.lock() {
            reserved.remove(&cx.pod.uid);
        }
    }
}

mod tests;
