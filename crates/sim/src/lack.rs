//! Resources, labels and other things that rejected nodes lack and that kube-scheduler's reasons do not mention.

use std::borrow::Cow;

use harbormaster_api::{
    Labels,
    resources::{CPU, EPHEMERAL_STORAGE, MEMORY, is_hugepages},
    selector::{NodeSelectorTerm, RequiredNodeAffinity, Requirement},
    taint::find_untolerated,
};
use harbormaster_framework::{
    plugin::Plugin,
    pod::PodInfo,
    table::{NodeRef, UsedPorts},
};
use harbormaster_plugins::{
    InterPodAffinity, NodeAffinity, NodePorts, NodeResourcesFit, NodeUnschedulable, PodTopologySpread,
    TaintToleration,
    inter_pod_affinity::{REASON_AFFINITY, REASON_ANTI},
    node_resources::INSUFFICIENT,
};

/// Maximum number of things that are listed; the others are only counted.
const NAMED: usize = 3;

/// Things that a group of nodes lacks. The nodes were rejected for the same reasons.
#[derive(Debug, Default)]
pub(crate) struct Shortages {
    nodes: usize,
    amounts: Vec<Amount>,
    /// Things that nodes lack, each with the number of nodes that lack it.
    things: Vec<(String, usize)>,
}

/// A resource that the nodes have too little of.
#[derive(Debug)]
struct Amount {
    resource: String,
    wants: i64,
    /// The largest free amount on any of the nodes.
    free: i64,
    /// The largest amount on any of the nodes, ignoring what its pods use.
    all: i64,
}

impl Shortages {
    /// Adds a node that `plugin` rejected for `reasons`; `own` is the plugin's own description of what the node lacks.
    pub(crate) fn add(
        &mut self,
        plugin: &str,
        reasons: &[Cow<'static, str>],
        pod: &PodInfo,
        node: NodeRef<'_>,
        own: Option<String>,
    ) {
        self.nodes += 1;
        match plugin {
            NodeResourcesFit::NAME => reasons.iter().for_each(|reason| self.add_amount(reason, pod, node)),
            TaintToleration::NAME => self.add_thing(untolerated(pod, node)),
            NodeUnschedulable::NAME => self.add_thing(Some("cordoned".to_owned())),
            NodePorts::NAME => self.add_thing(ports(pod, node.used_ports())),
            NodeAffinity::NAME => self.add_thing(label(pod, node)),
            PodTopologySpread::NAME => self.add_thing(spread(pod, node)),
            InterPodAffinity::NAME => self.add_thing(affinity(reasons, pod)),
            _ => self.add_thing(own),
        }
    }

    fn add_thing(&mut self, thing: Option<String>) {
        let Some(thing) = thing else { return };
        match self.things.iter_mut().find(|(known, _)| *known == thing) {
            Some((_, nodes)) => *nodes += 1,
            None => self.things.push((thing, 1)),
        }
    }

    fn add_amount(&mut self, reason: &str, pod: &PodInfo, node: NodeRef<'_>) {
        let (has, used) = (node.allocatable(), node.requested());
        let Some(resource) = reason.strip_prefix(INSUFFICIENT) else {
            return self.add_thing(Some(format!("{} of {} pods", used.pods, has.pods)));
        };
        let (all, wants) = (has.named(resource), pod.request().named(resource));
        let free = all.saturating_sub(used.named(resource)).max(0);
        match self.amounts.iter_mut().find(|known| known.resource == resource) {
            Some(known) => (known.free, known.all) = (known.free.max(free), known.all.max(all)),
            None => self.amounts.push(Amount { resource: resource.to_owned(), wants, free, all }),
        }
    }

    /// Returns a description for each resource and for the most frequent other things, and the number of the rest.
    pub(crate) fn words(mut self) -> Vec<String> {
        self.things.sort_by_key(|(_, nodes)| std::cmp::Reverse(*nodes));
        let others = self.things.len().saturating_sub(NAMED);
        let amounts = self.amounts.iter().map(|amount| amount.words(self.nodes));
        let things = self.things.iter().take(NAMED).map(|(thing, nodes)| match *nodes == self.nodes {
            true => thing.clone(),
            false => format!("{thing} ({nodes} {})", if *nodes == 1 { "node" } else { "nodes" }),
        });
        amounts.chain(things).chain((others > 0).then(|| format!("and {others} more"))).collect()
    }
}

impl Amount {
    /// Returns a description such as `wants 9 CPUs, 6.9 free on the roomiest node`.
    fn words(&self, nodes: usize) -> String {
        let Self { resource, wants, free, all } = self;
        let (mut wanted, mut room, mut most) =
            (short(resource, *wants), short(resource, *free), short(resource, *all));
        if wanted == room || (wanted == most && wants > all) {
            // The short forms would hide the difference.
            (wanted, room, most) = (wants.to_string(), free.to_string(), all.to_string());
        }
        let what = match resource.as_str() {
            CPU if *wants == 1000 => "CPU".to_owned(),
            CPU => "CPUs".to_owned(),
            MEMORY | EPHEMERAL_STORAGE => format!("of {resource}"),
            other => other.to_owned(),
        };
        let mut text = format!("wants {wanted} {what}, {room} free");
        if nodes > 1 {
            text += " on the roomiest node";
        }
        if wants > all {
            text += &match nodes {
                1 => format!(" and {most} in all"),
                _ => format!(" and {most} in all on the largest"),
            };
        }
        text
    }
}

/// Returns an amount as people write it: CPUs with up to three decimals; bytes in `Ki` to `Ti`, truncated to two
/// decimals.
pub(crate) fn short(resource: &str, amount: i64) -> String {
    match resource {
        CPU => trimmed(format!("{}.{:03}", amount / 1000, amount % 1000)),
        MEMORY | EPHEMERAL_STORAGE => bytes(amount),
        other if is_hugepages(other) => bytes(amount),
        _ => amount.to_string(),
    }
}

fn bytes(amount: i64) -> String {
    let units = [("Ti", 40), ("Gi", 30), ("Mi", 20), ("Ki", 10)];
    let Some((unit, shift)) = units.into_iter().find(|(_, shift)| amount >> shift > 0) else {
        return amount.to_string();
    };
    let hundredths = (i128::from(amount) * 100) >> shift;
    trimmed(format!("{}.{:02}", hundredths / 100, hundredths % 100)) + unit
}

/// Removes trailing zeros after the decimal point.
fn trimmed(number: String) -> String {
    number.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// Returns the taint that keeps the pod away. A feature gate, which is not known here, determines whether numbers are
/// compared. A taint that is not tolerated with this comparison is not tolerated without it either.
fn untolerated(pod: &PodInfo, node: NodeRef<'_>) -> Option<String> {
    let tolerations = &pod.spec.tolerations;
    let find = |numbers| find_untolerated(node.taints(), tolerations, numbers, |t| t.effect.forbids());
    let taint = find(true).or_else(|| find(false))?;
    let value = if taint.value.is_empty() { String::new() } else { format!("={}", taint.value) };
    Some(format!("taint {}{value}:{}", taint.key, taint.effect.as_str()))
}

fn ports(pod: &PodInfo, used: &UsedPorts) -> Option<String> {
    let taken = pod.derived.host_ports.iter().filter(|port| used.conflicts(port));
    let taken: Vec<String> = taken.map(|port| format!("{}/{}", port.port, port.protocol)).collect();
    (!taken.is_empty()).then(|| format!("host port {} is taken", taken.join(", ")))
}

/// Returns the label that the pod requires and the node lacks. If there are several terms, naming a single one of them
/// would not help.
fn label(pod: &PodInfo, node: NodeRef<'_>) -> Option<String> {
    let nothing = Labels::default();
    let (labels, spec) = (node.labels().unwrap_or(&nothing), &pod.spec);
    let selector = spec.node_selector.as_ref();
    let wanted =
        selector.and_then(|wanted| wanted.iter().find(|(key, value)| labels.get(key) != Some(value)));
    if let Some((key, value)) = wanted {
        return Some(format!("wants label {key}={value}"));
    }
    if RequiredNodeAffinity::new(None, spec.node_affinity.as_ref()).matches(labels, node.name()) {
        return None;
    }
    match spec.node_affinity.as_ref()?.required.as_ref()?.terms.as_slice() {
        [term] => unmet(term, labels).map(|requirement| format!("wants {}", words(requirement))),
        terms => Some(format!("none of {} node selector terms matches", terms.len())),
    }
}

fn unmet<'a>(term: &'a NodeSelectorTerm, labels: &Labels) -> Option<&'a Requirement> {
    term.match_expressions.iter().find(|r| !r.matches(labels)).or(term.match_fields.first())
}

/// Returns a requirement such as `zone In [a, b]`.
pub(crate) fn words(requirement: &Requirement) -> String {
    let Requirement { key, operator, values } = requirement;
    let values: Vec<&str> = values.iter().map(|value| value.as_str()).collect();
    match values.is_empty() {
        true => format!("{key} {}", operator.as_str()),
        false => format!("{key} {} [{}]", operator.as_str(), values.join(", ")),
    }
}

fn spread(pod: &PodInfo, node: NodeRef<'_>) -> Option<String> {
    let hard = || pod.spec.topology_spread.iter().filter(|constraint| constraint.hard);
    let has = |key: &str| node.labels().is_some_and(|labels| labels.get(key).is_some());
    if let Some(constraint) = hard().find(|constraint| !has(&constraint.topology_key)) {
        return Some(format!("no label {}", constraint.topology_key));
    }
    let limits = hard().map(|c| format!("max skew {} by {}", c.max_skew, c.topology_key));
    Some(limits.collect::<Vec<_>>().join(", ")).filter(|text| !text.is_empty())
}

/// Returns the topology keys of the pod's own affinity terms. The terms of other pods are not known here.
fn affinity(reasons: &[Cow<'static, str>], pod: &PodInfo) -> Option<String> {
    let (affinity, anti) = (&pod.spec.pod_affinity, &pod.spec.pod_anti_affinity);
    let own = match reasons.first()?.as_ref() {
        REASON_AFFINITY => affinity,
        REASON_ANTI => anti,
        _ => return None,
    };
    let keys: Vec<&str> = own.as_ref()?.required.iter().map(|term| term.topology_key.as_str()).collect();
    Some(format!("by {}", keys.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn amount(resource: &str, wants: i64, free: i64, all: i64) -> Amount {
        Amount { resource: resource.to_owned(), wants, free, all }
    }

    #[test]
    fn amounts_are_printed_as_people_write_them() {
        const GIB: i64 = 1 << 30;
        for (amount, nodes, expected) in [
            (amount("cpu", 9000, 6900, 16000), 2, "wants 9 CPUs, 6.9 free on the roomiest node"),
            (amount("cpu", 1000, 250, 4000), 1, "wants 1 CPU, 0.25 free"),
            (
                amount("cpu", 9000, 6900, 8000),
                2,
                "wants 9 CPUs, 6.9 free on the roomiest node and 8 in all on the largest",
            ),
            (amount("memory", 64 * GIB, 3 * GIB / 2, 99 * GIB), 1, "wants 64Gi of memory, 1.5Gi free"),
            (amount("memory", GIB + 1, GIB, 2 * GIB), 1, "wants 1073741825 of memory, 1073741824 free"),
            (amount("ephemeral-storage", 512, 0, GIB), 1, "wants 512 of ephemeral-storage, 0 free"),
            (amount("nvidia.com/gpu", 2, 0, 1), 1, "wants 2 nvidia.com/gpu, 0 free and 1 in all"),
            (amount("hugepages-2Mi", 4 << 20, 0, 8 << 20), 1, "wants 4Mi hugepages-2Mi, 0 free"),
        ] {
            assert_eq!(amount.words(nodes), expected);
        }
    }

    #[test]
    fn only_the_most_frequent_of_many_things_are_listed() {
        let mut lacks = Shortages { nodes: 6, ..Shortages::default() };
        for thing in ["a", "b", "b", "c", "d", "e"] {
            lacks.add_thing(Some(thing.to_owned()));
        }
        assert_eq!(lacks.words(), ["b (2 nodes)", "a (1 node)", "c (1 node)", "and 2 more"]);
    }
}
