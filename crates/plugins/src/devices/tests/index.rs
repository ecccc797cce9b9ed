//! The index in clusters that change at random.

use std::collections::BTreeMap;

use harbormaster_api::Str;
use harbormaster_framework::{
    cluster::Cluster,
    index::{ClusterView, IndexKind, Indexes},
};
use harbormaster_testkit::{cluster, node, random::Dice, remove_custom, set_custom};
use serde_json::Value;

use super::{super::*, random};
use crate::devices::books::DeviceQuery;

const STEPS: u64 = 100_000;

/// A cluster that changes at random.
pub(super) struct World {
    pub(super) dice: Dice,
    pub(super) cluster: Cluster,
    pub(super) gates: DeviceGates,
    pub(super) slices: BTreeMap<String, Value>,
    rules: BTreeMap<String, Value>,
    /// All claims, with their allocations.
    pub(super) claims: BTreeMap<String, Value>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let zones = random::NODES.map(|_| dice.pick(&random::ZONES));
        let nodes = random::NODES.iter().zip(zones);
        let mut cluster = cluster(nodes.map(|(name, zone)| node(name).label("zone", zone)), []);
        set_custom::<ResourceClaim>(&mut cluster, []);
        set_custom::<ResourceSlice>(&mut cluster, []);
        set_custom::<DeviceClass>(&mut cluster, random::classes());
        set_custom::<DeviceTaintRule>(&mut cluster, []);
        cluster.add_index(IndexKind::of::<Devices>());
        let gates = random::gates(&mut dice);
        let (slices, rules, claims) = Default::default();
        Self { dice, cluster, gates, slices, rules, claims }
    }

    pub(super) fn slice_changes(&mut self) {
        let name = format!("s{}", self.dice.below(5));
        if self.slices.contains_key(&name) && self.dice.one_in(4) {
            self.slices.remove(&name);
            return remove_custom::<ResourceSlice>(&mut self.cluster, "", &name);
        }
        let slice = random::slice(&mut self.dice, &name);
        set_custom::<ResourceSlice>(&mut self.cluster, [slice.clone()]);
        self.slices.insert(name, slice);
    }

    fn rule_changes(&mut self) {
        let name = self.dice.pick(&["t0", "t1"]).to_owned();
        if self.rules.remove(&name).is_some() && self.dice.one_in(2) {
            return remove_custom::<DeviceTaintRule>(&mut self.cluster, "", &name);
        }
        let rule = random::taint_rule(&mut self.dice, &name);
        set_custom::<DeviceTaintRule>(&mut self.cluster, [rule.clone()]);
        self.rules.insert(name, rule);
    }

    pub(super) fn node_changes(&mut self) {
        let (name, zone) = (self.dice.pick(&random::NODES), self.dice.pick(&random::ZONES));
        if self.dice.one_in(4) {
            self.cluster.remove_node(name);
        } else {
            self.cluster.set_node(std::sync::Arc::new(node(name).label("zone", zone).build()));
        }
    }

    pub(super) fn class_changes(&mut self) {
        let classes = random::classes();
        let at = self.dice.below(classes.len() as u64) as usize;
        set_custom::<DeviceClass>(&mut self.cluster, [classes[at].clone()]);
    }

    /// Creates one to three claims. Returns their names.
    pub(super) fn claims_come(&mut self, number: usize) -> Vec<String> {
        let names: Vec<_> = (0..=self.dice.below(3)).map(|at| format!("c{number}-{at}")).collect();
        for name in &names {
            let claim = random::claim(&mut self.dice, name);
            set_custom::<ResourceClaim>(&mut self.cluster, [claim.clone()]);
            self.claims.insert(name.clone(), claim);
        }
        names
    }

    /// Tries to allocate the claims on every node. Compares the answers of the kept index with the answers of a new
    /// one.
    pub(super) fn answers(&self, names: &[String]) -> Vec<Answer> {
        let mut indexes = Indexes::default();
        let view = ClusterView { nodes: self.cluster.nodes(), objects: self.cluster.objects() };
        indexes.add(IndexKind::of::<Devices>(), view).unwrap();
        let (kept, new) =
            (self.cluster.indexes().get::<Devices>().unwrap(), indexes.get::<Devices>().unwrap());
        assert_eq!(kept, new, "the index (left) differs from a rebuilt one (right)");
        let all = self.cluster.watched::<ResourceClaim>();
        let claims: Vec<_> = names.iter().filter_map(|name| all.get("default", name)).collect();
        let classes = self.cluster.watched::<DeviceClass>();
        let query = DeviceQuery { claims: &claims, classes, gates: self.gates, max_steps: STEPS };
        let rows = || random::NODES.iter().filter_map(|node| self.cluster.find(node));
        // Some answers are known from earlier queries, and the others are not.
        let mut unfit = BTreeMap::new();
        let all = kept.each_unfit(&query, self.cluster.nodes(), &rows().collect(), |node, error| {
            unfit.insert(node.idx(), error);
            Ok::<_, ()>(())
        });
        all.unwrap();
        let error = |row| new.fits(&query, self.cluster.node(row)).err().map(|error| (row, error));
        assert_eq!(unfit, rows().filter_map(error).collect());
        let answer = |row| {
            let node = self.cluster.node(row);
            let fits = kept.fits(&query, node);
            assert_eq!(fits, new.fits(&query, node), "{} with {names:?}", node.name());
            assert_eq!(fits, kept.fits(&query, node), "a repeated query gets the same answer");
            let allocations = kept.allocate(&query, node);
            assert_eq!(fits.map(drop), allocations.as_ref().map(drop).map_err(Clone::clone));
            Answer { node: node.name().to_string(), allocations }
        };
        rows().map(answer).collect()
    }

    /// Gives the claims the devices that they can get on a random node, if any.
    pub(super) fn allocate(&mut self, names: &[String], answers: &[Answer]) {
        let at = self.dice.below(random::NODES.len() as u64) as usize;
        let Some(Answer { allocations: Ok(allocations), .. }) = answers.get(at) else { return };
        for (name, allocation) in names.iter().zip(allocations) {
            let claim = self.claims.get_mut(name).unwrap();
            claim["status"]["allocation"] = serde_json::to_value(allocation).unwrap();
            set_custom::<ResourceClaim>(&mut self.cluster, [claim.clone()]);
        }
    }

    pub(super) fn claim_goes(&mut self) {
        let Some(name) = self.claims.keys().next().cloned() else { return };
        self.claims.remove(&name);
        remove_custom::<ResourceClaim>(&mut self.cluster, "default", &name);
    }

    /// Fails if a device is allocated more than once, unless all its allocations are shares. Admin access does not
    /// count.
    fn audit(&self) {
        let mut users: BTreeMap<(Str, Str, Str), Vec<(&str, bool)>> = BTreeMap::new();
        for (name, claim) in &self.claims {
            let Some(allocation) = claim["status"].get("allocation") else { continue };
            let allocation: Allocation = serde_json::from_value(allocation.clone()).unwrap();
            for result in allocation.devices.results {
                if result.admin_access != Some(true) {
                    let device = (result.driver, result.pool, result.device);
                    users.entry(device).or_default().push((name, result.share_id.is_some()));
                }
            }
        }
        for (device, users) in users {
            let is_shared = users.iter().all(|(_, is_shared)| *is_shared);
            assert!(users.len() == 1 || is_shared, "{device:?} belongs to {users:?}");
        }
    }
}

/// Answer for a node.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) node: String,
    pub(super) allocations: Result<Vec<Allocation>, AllocationError>,
}

#[test]
fn the_index_follows_all_changes_and_only_shared_devices_are_allocated_twice() {
    let mut counts = [0; 4];
    for seed in 0..6_000 {
        let mut world = World::new(seed);
        (0..6).for_each(|_| world.slice_changes());
        let mut asked = Vec::new();
        for step in 0..4 {
            match world.dice.below(9) {
                0 => world.slice_changes(),
                1 => world.node_changes(),
                2 => world.claim_goes(),
                3 => world.class_changes(),
                4 => world.rule_changes(),
                _ => {
                    let names = world.claims_come(step);
                    let answers = world.answers(&names);
                    for Answer { node, allocations } in &answers {
                        counts[match allocations {
                            Ok(_) => 0,
                            Err(AllocationError::Fatal(_)) => 1,
                            Err(AllocationError::TimedOut) => panic!("seed {seed}, {node}: too many steps"),
                            Err(AllocationError::NoSolution) => 2,
                            Err(AllocationError::InvalidPools) => 3,
                        }] += 1;
                    }
                    world.allocate(&names, &answers);
                    world.audit();
                    asked = names;
                }
            }
            // Some answers are known.
            if !asked.is_empty() {
                world.answers(&asked);
            }
        }
    }
    let [allocated, failed, refused, invalid] = counts;
    assert!(
        allocated > 2_000 && failed > 2_000 && refused > 10_000 && invalid > 500,
        "the worlds vary too little: {allocated} allocated, {failed} failed, {refused} refused, {invalid} invalid"
    );
}
