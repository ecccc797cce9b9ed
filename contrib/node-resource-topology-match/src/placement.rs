//! NUMA nodes of the containers that own resources, which agents encode in topologies ("numaplacement").
//!
//! The containers are not named: the hashes of their names, in order, are numbered, and each NUMA node has a list of
//! numbers, except for the one with the most containers. So the list can be read only by who knows all containers.

use std::collections::BTreeMap;

use crate::fingerprint::xxh64;

/// Attribute of the topology: number of containers, and which NUMA node has no list.
pub(crate) const METADATA: &str = "topology.node.k8s.io/numaplacement-metadata";
/// Attribute of a zone: its list.
pub(crate) const VECTOR: &str = "topology.node.k8s.io/numaplacement-vector";
/// Start of all metadata of the known version.
const PREFIX: &str = "npv0v001::";
/// Characters that end a number; the others continue it.
const ENDING: u64 = 64;
const CONTINUING: u64 = 25;

/// NUMA nodes by container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Placement {
    containers: usize,
    /// NUMA node of all containers that no list contains.
    busiest: usize,
    /// Numbers of containers, with their NUMA nodes.
    listed: BTreeMap<usize, usize>,
}

/// Hash by which a container is known.
pub(crate) fn id(namespace: &str, pod: &str, container: &str) -> u64 {
    xxh64(format!("{namespace}\0{pod}\0{container}").as_bytes(), 0)
}

impl Placement {
    /// Reads the metadata, and the lists with their NUMA nodes. `None` if something is wrong with them.
    pub(crate) fn read<'a>(metadata: &str, lists: impl Iterator<Item = (usize, &'a str)>) -> Option<Self> {
        let (mut containers, mut numa_nodes, mut busiest, mut encoding) = (None, None, None, "");
        for field in metadata.strip_prefix(PREFIX)?.split("::") {
            let (name, value) = field.split_once('=')?;
            match name {
                "ve" => encoding = value,
                "cc" => containers = value.parse::<usize>().ok(),
                "nn" => numa_nodes = value.parse::<usize>().ok(),
                "bn" => busiest = value.parse::<usize>().ok(),
                _ => return None,
            }
        }
        let (containers, busiest) = (containers?, busiest.filter(|busiest| Some(*busiest) < numa_nodes)?);
        if encoding != "leb89" {
            return None;
        }
        let mut listed = BTreeMap::new();
        for (numa_node, list) in lists {
            if numa_node == busiest {
                return None;
            }
            for number in numbers(list)? {
                if number >= containers || listed.insert(number, numa_node).is_some() {
                    return None;
                }
            }
        }
        Some(Self { containers, busiest, listed })
    }

    /// Returns the NUMA node of every container. `None` if these are not the containers that the agent saw.
    pub(crate) fn of(&self, mut ids: Vec<u64>) -> Option<BTreeMap<u64, usize>> {
        ids.sort_unstable();
        ids.dedup();
        let numa_node =
            |(number, id): (usize, u64)| (id, self.listed.get(&number).copied().unwrap_or(self.busiest));
        (ids.len() == self.containers).then(|| ids.into_iter().enumerate().map(numa_node).collect())
    }
}

/// Value of a character: its position among the printable ones, without those that JSON escapes.
fn value(character: u8) -> Option<u64> {
    let is_used = |one: &u8| !b"\"&<>\\".contains(one);
    (0x21..=0x7e).filter(is_used).position(|one| one == character).map(|at| at as u64)
}

/// Reads a list of ascending numbers: the first one, and then differences.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let (mut numbers, mut last, mut high, mut continues) = (Vec::new(), 0_u64, 0_u64, false);
    for character in list.bytes() {
        let value = value(character)?;
        if value >= ENDING {
            high = high.checked_mul(CONTINUING)?.checked_add(value - ENDING)?;
            continues = true;
            continue;
        }
        let step = if continues { high.checked_mul(ENDING)?.checked_add(ENDING + value)? } else { value };
        last = last.checked_add(step)?;
        numbers.push(usize::try_from(last).ok()?);
        (high, continues) = (0, false);
    }
    (!continues).then_some(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placements_are_read_as_agents_write_them() {
        let known = Placement::read("npv0v001::ve=leb89::cc=5::nn=2::bn=0", [(1, "!%")].into_iter()).unwrap();
        let ids: Vec<u64> = (0..5).map(|at| id("ns", &format!("pod-{at}"), "c")).collect();
        let found = known.of(ids.clone()).unwrap();
        for (at, id) in ids.iter().enumerate() {
            assert_eq!(found[id], at % 2, "pod-{at}");
        }
        assert_eq!(known.of(ids[1..].to_vec()), None, "a container is missing");
    }

    #[test]
    fn long_numbers_take_several_characters() {
        // 64 = 0 * 64 + 0 + 64, and 1663 is the largest number of two characters.
        assert_eq!(numbers("!"), Some(vec![0]));
        assert_eq!(numbers("#$"), Some(vec![1, 3]));
        let continuing =
            |at: u64| (0x21..=0x7e_u8).find(|one| value(*one) == Some(ENDING + at)).unwrap() as char;
        let ending = |at: u64| (0x21..=0x7e_u8).find(|one| value(*one) == Some(at)).unwrap() as char;
        let text = |high: u64, low: u64| format!("{}{}", continuing(high), ending(low));
        assert_eq!(numbers(&text(0, 0)), Some(vec![64]));
        assert_eq!(numbers(&text(24, 63)), Some(vec![1663]));
        let three = format!("{}{}{}", continuing(1), continuing(0), ending(0));
        assert_eq!(numbers(&three), Some(vec![1664]));
        assert_eq!(numbers(&continuing(3).to_string()), None);
        assert_eq!(numbers("\""), None);
    }

    #[test]
    fn wrong_placements_are_refused() {
        let read = |metadata: &str, list: &str| Placement::read(metadata, [(1, list)].into_iter());
        assert!(read("npv0v001::ve=leb89::cc=2::nn=2::bn=0", "!").is_some());
        for (metadata, list) in [
            ("npv0v002::ve=leb89::cc=2::nn=2::bn=0", "!"),
            ("npv0v001::ve=other::cc=2::nn=2::bn=0", "!"),
            ("npv0v001::ve=leb89::cc=-2::nn=2::bn=0", "!"),
            ("npv0v001::ve=leb89::cc=2::nn=2::bn=2", "!"),
            ("npv0v001::ve=leb89::cc=2::nn=2::bn=1", "!"),
            ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", "%"),
            ("npv0v001::ve=leb89::cc=2::nn=2::bn=0::x=1", "!"),
            ("npv0v001::ve=leb89::cc=2::nn=2::bn=0", "!!"),
            ("", ""),
        ] {
            assert_eq!(read(metadata, list), None, "{metadata} {list}");
        }
    }
}
