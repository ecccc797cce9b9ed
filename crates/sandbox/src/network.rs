//! Addresses: a range for every node, as kube-controller-manager assigns it, and an address in that range for every
//! running pod.

use std::{
    collections::{HashMap, HashSet},
    net::Ipv4Addr,
};

use serde_json::Value;

use crate::fields::{list, name, text, uid};

/// Range for pods of nodes whose range is missing or full.
const OVERFLOW: Range = Range { first: 100 << 24 | 64 << 16, size: 1 << 22 };
/// Number of addresses per node.
const SIZE: u32 = 1 << 8;
/// Number of ranges available to nodes.
const BLOCK_COUNT: u32 = 128 << 8;

/// Returns the number of the range with the given index: its first address divided by `SIZE`. The first ranges are
/// those from 10.244 (the usual choice with kubeadm) to 10.255, followed by those from 10.128 to 10.243. Neither
/// services nor nodes have addresses there.
fn block(index: u32) -> u32 {
    const FIRST: u32 = 244;
    const LAST: u32 = 255;
    let second = FIRST + (index >> 8);
    let second = if second > LAST { second - 128 } else { second };
    (10 << 24 | second << 16) / SIZE + (index & 0xff)
}

/// An IPv4 range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    first: u32,
    /// Number of addresses in the range.
    size: u32,
}

impl Range {
    /// Parses a range such as `10.244.3.0/24`.
    fn parse(text: &str) -> Option<Self> {
        let (address, bits) = text.split_once('/')?;
        let bits: u32 = bits.parse().ok().filter(|bits| (8..=30).contains(bits))?;
        let size = 1 << (32 - bits);
        let first = u32::from(address.parse::<Ipv4Addr>().ok()?);
        Some(Self { first: first / size * size, size })
    }

    /// Returns the numbers of the usual-size ranges that this range overlaps.
    fn blocks(self) -> impl Iterator<Item = u32> {
        self.first / SIZE..=(self.first + (self.size - 1)) / SIZE
    }
}

/// Pool of a range's addresses, and the addresses in use by pods.
#[derive(Debug)]
struct Pool {
    range: Range,
    /// Offset at which the search for the next address starts, so that a released address is not reused immediately.
    next: u32,
    used: HashSet<u32>,
}

impl Pool {
    fn new(range: Range) -> Self {
        Self { range, next: 0, used: HashSet::new() }
    }

    /// Takes the next free address. The first two addresses and the last are reserved.
    fn take(&mut self) -> Option<Ipv4Addr> {
        let Range { first, size } = self.range;
        let usable = size.saturating_sub(3);
        for _ in 0..usable {
            let address = first + 2 + self.next;
            self.next = (self.next + 1) % usable;
            if self.used.insert(address) {
                return Some(Ipv4Addr::from(address));
            }
        }
        None
    }
}

/// Addresses of all nodes and pods.
#[derive(Debug)]
pub(crate) struct Network {
    nodes: HashMap<String, Pool>,
    /// Numbers of the ranges in use by nodes.
    taken: HashSet<u32>,
    /// Index at which the search for a free range starts, so that a released range is not reused immediately.
    next: u32,
    overflow: Pool,
    /// Node and address of each pod. Keyed by pod UID.
    pods: HashMap<String, (String, u32)>,
}

impl Network {
    pub(crate) fn new() -> Self {
        let (nodes, taken, pods) = (HashMap::new(), HashSet::new(), HashMap::new());
        Self { nodes, taken, next: 0, overflow: Pool::new(OVERFLOW), pods }
    }

    /// Records the range of a node, if the node has one.
    pub(crate) fn add_node(&mut self, node: &Value) {
        let Some(range) = Range::parse(text(node, "/spec/podCIDR")) else { return };
        if self.nodes.get(name(node)).is_none_or(|pool| pool.range != range) {
            self.remove_node(name(node));
            self.taken.extend(range.blocks());
            self.nodes.insert(name(node).to_owned(), Pool::new(range));
        }
    }

    pub(crate) fn remove_node(&mut self, node: &str) {
        if let Some(pool) = self.nodes.remove(node) {
            pool.range.blocks().for_each(|block| {
                self.taken.remove(&block);
            });
        }
    }

    /// Returns a range for `spec.podCIDR` that no node has, or `None` if no range is left.
    pub(crate) fn free_range(&mut self) -> Option<String> {
        for _ in 0..BLOCK_COUNT {
            let block = block(self.next);
            self.next = (self.next + 1) % BLOCK_COUNT;
            if !self.taken.contains(&block) {
                return Some(format!("{}/24", Ipv4Addr::from(block * SIZE)));
            }
        }
        None
    }

    /// Records the address of a running pod.
    pub(crate) fn add_pod(&mut self, pod: &Value) {
        if pod["spec"]["hostNetwork"] == true || self.pods.contains_key(uid(pod)) {
            return;
        }
        if let Ok(address) = text(pod, "/status/podIP").parse::<Ipv4Addr>() {
            let node = text(pod, "/spec/nodeName");
            let address = u32::from(address);
            self.pool(node).used.insert(address);
            self.pods.insert(uid(pod).to_owned(), (node.to_owned(), address));
        }
    }

    /// Returns the address for a starting pod: the address that the pod already has, or a new one.
    pub(crate) fn address(&mut self, pod: &Value) -> String {
        if let Some((_, address)) = self.pods.get(uid(pod)) {
            return Ipv4Addr::from(*address).to_string();
        }
        let node = text(pod, "/spec/nodeName");
        let taken = self.nodes.get_mut(node).and_then(Pool::take).or_else(|| self.overflow.take());
        // The overflow range is never full: no machine runs a sandbox with four million pods.
        let Some(address) = taken else { return String::new() };
        self.pods.insert(uid(pod).to_owned(), (node.to_owned(), u32::from(address)));
        address.to_string()
    }

    /// Releases the address of a pod that no longer runs.
    pub(crate) fn remove_pod(&mut self, uid: &str) {
        if let Some((node, address)) = self.pods.remove(uid) {
            self.pool(&node).used.remove(&address);
            self.overflow.used.remove(&address);
        }
    }

    fn pool(&mut self, node: &str) -> &mut Pool {
        self.nodes.get_mut(node).unwrap_or(&mut self.overflow)
    }
}

/// Returns the node's own address.
pub(crate) fn host_address(node: &Value) -> &str {
    let mut addresses = list(node, "/status/addresses").iter();
    addresses.find(|a| text(a, "/type") == "InternalIP").map_or("", |address| text(address, "/address"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn node(name: &str, range: &str) -> Value {
        json!({"metadata": {"name": name}, "spec": {"podCIDR": range}})
    }

    fn pod(uid: usize, node: &str) -> Value {
        json!({"metadata": {"uid": uid.to_string()}, "spec": {"nodeName": node}})
    }

    #[test]
    fn nodes_get_distinct_ranges() {
        let mut network = Network::new();
        network.add_node(&node("given", "10.244.0.0/23"));
        network.add_node(&node("small", "10.244.2.128/26"));
        network.add_node(&node("odd", "fd00::/64"));
        for expected in ["10.244.3.0/24", "10.244.4.0/24"] {
            assert_eq!(network.free_range().as_deref(), Some(expected));
            network.add_node(&node(expected, expected));
        }
        network.remove_node("given");
        let mut last = String::new();
        while let Some(range) = network.free_range() {
            network.add_node(&node(&range, &range));
            last = range;
        }
        assert_eq!(last, "10.244.1.0/24", "the released range comes last");
        assert_eq!(network.taken.len(), 128 << 8);
    }

    #[test]
    fn pods_get_distinct_addresses_from_the_range_of_their_node() {
        let mut network = Network::new();
        network.add_node(&node("a", "10.244.7.0/24"));
        let mut running = pod(0, "a");
        running["status"]["podIP"] = "10.244.7.3".into();
        network.add_pod(&running);
        let mut addresses: Vec<String> = (1..=3).map(|uid| network.address(&pod(uid, "a"))).collect();
        assert_eq!(addresses, ["10.244.7.2", "10.244.7.4", "10.244.7.5"]);
        assert_eq!(network.address(&pod(1, "a")), "10.244.7.2", "a pod keeps its address");
        network.remove_pod("1");
        assert_eq!(
            network.address(&pod(4, "a")),
            "10.244.7.6",
            "a released address is not reused immediately"
        );
        addresses = (5..=300).map(|uid| network.address(&pod(uid, "a"))).collect();
        assert!(addresses.contains(&"10.244.7.2".to_owned()));
        assert_eq!(addresses.last().map(String::as_str), Some("100.64.0.48"), "a full range overflows");
        assert_eq!(network.address(&pod(301, "unknown")), "100.64.0.49");
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), 296);
    }
}
