//! A naive ledger of pods, quotas and groups of quotas. It adds up all pods for every question, and shares no code with
//! the plugin.

use std::collections::BTreeMap;

pub(crate) const NODES: [[i64; 3]; 3] = [[6, 8, 4], [6, 6, 2], [8, 6, 4]];

pub(crate) type Amounts = [i64; 3];
pub(crate) type Limits = [Option<i64>; 3];
type Name = &'static str;

#[derive(Clone, Debug)]
pub(crate) struct Quota {
    pub(crate) min: Limits,
    pub(crate) max: Limits,
}

#[derive(Clone, Debug)]
pub(crate) struct Group {
    pub(crate) parent: Option<Name>,
    pub(crate) min: Limits,
    pub(crate) max: Limits,
    pub(crate) weight: Option<i64>,
    pub(crate) namespaces: Vec<(Name, Option<i64>)>,
}

#[derive(Clone, Debug)]
pub(crate) struct Known {
    pub(crate) namespace: Name,
    pub(crate) priority: i32,
    pub(crate) asks: Amounts,
    pub(crate) app: Name,
    /// The gang that the pod is a member of.
    pub(crate) gang: Option<Name>,
    pub(crate) node: usize,
}

/// A place in the tree of quotas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Whole,
    Group(Name),
    /// The ElasticQuota of a namespace.
    Quota(Name),
    /// The share of those of a group's namespaces that have no ElasticQuota.
    Rest(Name),
}

/// Right of a pod to take from a place beside one above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Right {
    /// It takes back what is guaranteed to it.
    Guaranteed,
    /// It takes from those that have borrowed more for their weights.
    Fair,
}

/// The naive ledger.
#[derive(Clone, Debug, Default)]
pub(crate) struct Books {
    pub(crate) quotas: BTreeMap<Name, Quota>,
    pub(crate) groups: BTreeMap<Name, Group>,
    pub(crate) pods: BTreeMap<String, Known>,
    /// Evictions that budgets allow, by namespace and app.
    pub(crate) budgets: BTreeMap<(Name, Name), i64>,
}

/// The tree.
impl Books {
    /// The first group by name that lists the namespace, and the weight that it gives to the namespace's quota.
    fn group_of(&self, namespace: Name) -> Option<(Name, Option<i64>)> {
        let listed = |(name, group): (&Name, &Group)| {
            let (_, weight) = group.namespaces.iter().find(|(listed, _)| *listed == namespace)?;
            Some((*name, *weight))
        };
        self.groups.iter().find_map(listed)
    }

    /// True if the group is above itself.
    fn is_in_cycle(&self, name: Name) -> bool {
        let mut at = name;
        for _ in 0..self.groups.len() {
            match self.groups.get(at).and_then(|group| group.parent) {
                Some(parent) if parent == name => return true,
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    }

    fn above(&self, place: Place) -> Option<Place> {
        match place {
            Place::Whole => None,
            Place::Rest(group) => Some(Place::Group(group)),
            Place::Quota(namespace) => {
                Some(self.group_of(namespace).map_or(Place::Whole, |(group, _)| Place::Group(group)))
            }
            Place::Group(name) => {
                let parent = self.groups[name].parent.filter(|parent| self.groups.contains_key(parent));
                let is_top = parent.is_none() || self.is_in_cycle(name);
                Some(if is_top { Place::Whole } else { Place::Group(parent.unwrap()) })
            }
        }
    }

    pub(crate) fn leaf(&self, namespace: Name) -> Option<Place> {
        match self.quotas.contains_key(namespace) {
            true => Some(Place::Quota(namespace)),
            false => self.group_of(namespace).map(|(group, _)| Place::Rest(group)),
        }
    }

    /// A pod's place and those above it.
    pub(crate) fn path(&self, pod: &Known) -> Vec<Place> {
        std::iter::successors(self.leaf(pod.namespace), |place| self.above(*place)).collect()
    }

    /// Quotas and groups right below a place.
    fn below(&self, place: Place) -> Vec<Place> {
        let quotas = self.quotas.keys().map(|namespace| Place::Quota(namespace));
        let groups = self.groups.keys().map(|name| Place::Group(name));
        quotas.chain(groups).filter(|other| self.above(*other) == Some(place)).collect()
    }

    /// Sum of the guarantees of the quotas right below a place.
    fn min_below(&self, place: Place, at: usize) -> Option<i64> {
        self.below(place).into_iter().filter_map(|below| self.min(below, at)).reduce(|a, b| a + b)
    }

    pub(crate) fn min(&self, place: Place, at: usize) -> Option<i64> {
        match place {
            Place::Whole => self.min_below(place, at),
            Place::Quota(namespace) => self.quotas[namespace].min[at],
            // An Option of an amount is larger than None.
            Place::Group(name) => self.groups[name].min[at].max(self.min_below(place, at)),
            Place::Rest(name) => {
                let own = self.groups[name].min[at]?;
                Some((own - self.min_below(Place::Group(name), at).unwrap_or_default()).max(0))
            }
        }
    }

    fn max(&self, place: Place, at: usize) -> Option<i64> {
        match place {
            Place::Whole => self.min(place, at),
            Place::Quota(namespace) => self.quotas[namespace].max[at],
            Place::Group(name) => self.groups[name].max[at],
            Place::Rest(_) => None,
        }
    }

    fn weight(&self, place: Place) -> Option<i64> {
        match place {
            Place::Quota(namespace) => self.group_of(namespace)?.1,
            Place::Group(name) => self.groups[name].weight,
            Place::Whole | Place::Rest(_) => None,
        }
    }

    fn is_guaranteed(&self, at: usize) -> bool {
        self.min(Place::Whole, at).is_some()
    }
}

/// Usage.
impl Books {
    fn used_by(&self, counts: impl Fn(&Known) -> bool, at: usize) -> i64 {
        self.pods.values().filter(|pod| counts(pod)).map(|pod| pod.asks[at]).sum()
    }

    fn used(&self, place: Place, at: usize) -> i64 {
        self.used_by(|pod| self.path(pod).contains(&place), at)
    }

    fn has_borrowed(&self, place: Place, at: usize) -> bool {
        self.is_guaranteed(at) && self.used(place, at) > self.min(place, at).unwrap_or_default()
    }

    /// Returns true if the place has room for the pod.
    fn is_below_max(&self, place: Place, pod: &Known) -> bool {
        let fits =
            |at: usize| self.max(place, at).is_none_or(|max| self.used(place, at) + pod.asks[at] <= max);
        (0..3).filter(|at| pod.asks[*at] > 0).all(fits)
    }

    /// Returns true if the quotas admit the pod.
    pub(crate) fn admits(&self, pod: &Known) -> bool {
        self.path(pod).into_iter().all(|place| self.is_below_max(place, pod))
    }

    pub(crate) fn has_room(&self, pod: &Known, node: usize) -> bool {
        (0..3).all(|at| self.used_by(|pod| pod.node == node, at) + pod.asks[at] <= NODES[node][at])
    }

    /// Returns true if all these pods have room on their nodes.
    pub(crate) fn have_room(&self, pods: &[Known]) -> bool {
        let asks = |node: usize, at: usize| -> i64 {
            pods.iter().filter(|pod| pod.node == node).map(|pod| pod.asks[at]).sum()
        };
        (0..NODES.len()).all(|node| {
            (0..3).all(|at| {
                let asked = asks(node, at);
                asked == 0 || self.used_by(|pod| pod.node == node, at) + asked <= NODES[node][at]
            })
        })
    }

    /// Names of the members of a gang that are on nodes.
    pub(crate) fn members(&self, gang: Name) -> Vec<String> {
        self.pods.iter().filter(|(_, pod)| pod.gang == Some(gang)).map(|(name, _)| name.clone()).collect()
    }

    /// Returns true if the place would use no more with the pod than is guaranteed to it.
    pub(crate) fn is_within(&self, place: Place, pod: &Known) -> bool {
        (0..3)
            .filter(|at| pod.asks[*at] > 0 && self.is_guaranteed(*at))
            .all(|at| self.used(place, at) + pod.asks[at] <= self.min(place, at).unwrap_or_default())
    }

    /// Amount that a place has borrowed for its weight, with a further pod if there is one.
    fn share(&self, place: Place, further: Option<&Known>) -> f64 {
        let share = |at: usize| {
            let used = self.used(place, at) + further.map_or(0, |pod| pod.asks[at]);
            let borrowed = used - self.min(place, at).unwrap_or_default();
            let whole =
                self.min(Place::Whole, at).unwrap_or_default().max(1) * self.weight(place).unwrap_or(1);
            borrowed.max(0) as f64 / whole as f64
        };
        (0..3).filter(|at| self.is_guaranteed(*at)).map(share).fold(0.0, f64::max)
    }

    pub(crate) fn without(&self, names: &[String]) -> Self {
        let mut rest = self.clone();
        rest.pods.retain(|name, _| !names.contains(name));
        rest
    }
}

/// Evictions.
impl Books {
    /// Returns true if the pod must get a place if some node has room for it: on some level it is within what is
    /// guaranteed, and below this level it is admitted. Where a max is below what is guaranteed, nothing is owed.
    pub(crate) fn is_owed(&self, pod: &Known) -> bool {
        let path = self.path(pod);
        let allows = |place: &Place| {
            (0..3).filter(|at| pod.asks[*at] > 0).all(|at| {
                let max = self.max(*place, at);
                let yields = self.is_guaranteed(at) && max >= self.min(*place, at);
                max.is_none_or(|max| yields || self.used(*place, at) + pod.asks[at] <= max)
            })
        };
        (0..path.len()).any(|level| {
            self.is_within(path[level], pod)
                && path[..level].iter().all(|place| self.is_below_max(*place, pod))
                && path[level..].iter().all(allows)
        })
    }

    /// The right of the pod on a level of its path.
    fn right(&self, pod: &Known, level: usize) -> Right {
        match self.path(pod)[..=level].iter().any(|place| self.is_within(*place, pod)) {
            true => Right::Guaranteed,
            false => Right::Fair,
        }
    }

    /// The level of the pod's path whose neighbour the other pod is in, and that branch, from the bottom.
    pub(crate) fn meeting(&self, pod: &Known, other: &Known) -> Option<(usize, Vec<Place>)> {
        let path = self.path(pod);
        let branch: Vec<Place> =
            self.path(other).into_iter().take_while(|place| !path.contains(place)).collect();
        let common = self.above(*branch.last()?)?;
        let level = path.iter().position(|place| *place == common)?;
        Some((level.checked_sub(1)?, branch))
    }

    /// Returns true if one of these pods uses a resource that the pod requests, and of which these places have borrowed.
    fn gives_back(&self, pod: &Known, others: &[String], places: &[Place]) -> bool {
        let is_lent = |at: usize| places.iter().all(|place| self.has_borrowed(*place, at));
        (0..3).any(|at| {
            let use_it = || others.iter().any(|other| self.pods[other].asks[at] > 0);
            pod.asks[at] > 0 && use_it() && is_lent(at)
        })
    }

    /// Pods that leave together: a gang, or a pod on its own.
    fn units(&self, victims: &[String]) -> Vec<Vec<String>> {
        let mut units: Vec<Vec<String>> = Vec::new();
        for victim in victims {
            let gang = self.pods[victim].gang;
            let is_same = |unit: &&mut Vec<String>| gang.is_some() && self.pods[&unit[0]].gang == gang;
            match units.iter_mut().find(is_same) {
                Some(unit) => unit.push(victim.clone()),
                None => units.push(vec![victim.clone()]),
            }
        }
        units
    }

    /// Returns why these pods may not be evicted for the pod.
    fn objection(&self, pod: &Known, victims: &[String]) -> Option<String> {
        let after = self.without(victims);
        let leaf = self.leaf(pod.namespace);
        let units = self.units(victims);
        for unit in &units {
            let (name, victim) = (&unit[0], &self.pods[&unit[0]]);
            if victim.gang.is_some_and(|gang| self.members(gang).len() != unit.len()) {
                return Some(format!("only a part of the gang of {name} is evicted"));
            }
            let its = self.leaf(victim.namespace);
            if its.is_some() != leaf.is_some() {
                return Some(format!("{name} has a quota and the pod has none, or the other way round"));
            }
            if its == leaf {
                let borrows = leaf.is_none_or(|leaf| !self.is_within(leaf, pod));
                match borrows && victim.priority < pod.priority {
                    true => continue,
                    false => return Some(format!("{name} of the same quota is not to give way")),
                }
            }
            let (level, branch) = self.meeting(pod, victim).unwrap();
            let own = self.path(pod)[level];
            if !self.gives_back(pod, unit, &branch) {
                return Some(format!("{name} uses nothing that was borrowed and that the pod requests"));
            }
            for place in &branch {
                // The last unit that has left.
                let below = |unit: &&Vec<String>| self.path(&self.pods[&unit[0]]).contains(place);
                let had_borrowed = units.iter().filter(below).any(|last| {
                    let others: Vec<String> =
                        victims.iter().filter(|other| !last.contains(other)).cloned().collect();
                    self.without(&others).gives_back(pod, last, &[*place])
                });
                if !had_borrowed {
                    return Some(format!("{name}: {place:?} loses what is guaranteed to it"));
                }
            }
            match self.right(pod, level) {
                Right::Guaranteed if !after.is_within(own, pod) => {
                    return Some(format!("{name}: {own:?} is not within what is guaranteed to it"));
                }
                Right::Fair => {
                    let beside = branch[branch.len() - 1];
                    if self.weight(own).is_none() || self.weight(beside).is_none() {
                        return Some(format!("{name}: {own:?} or {beside:?} has no weight"));
                    }
                    if after.share(own, Some(pod)) > after.share(beside, None) {
                        return Some(format!("{name}: {beside:?} had not borrowed more than {own:?}"));
                    }
                }
                Right::Guaranteed => {}
            }
        }
        None
    }

    /// Checks that the pod may evict these pods, and needs to. For members of a gang, the pod requests what all of them
    /// do. `places` are the pod, or the members, with their nodes.
    pub(crate) fn check(&self, pod: &Known, places: &[Known], victims: &[String]) {
        let helps = |victims: &[String]| {
            let after = self.without(victims);
            after.admits(pod) && after.have_room(places)
        };
        // Members that differ may fit in another order without any eviction.
        let are_alike = places.iter().all(|one| one.asks == places[0].asks);
        let is_needed = !victims.is_empty() || !are_alike;
        assert!(is_needed && helps(victims), "in vain: {victims:?} for {places:?} in {self:#?}");
        if let Some(why) = self.objection(pod, victims) {
            panic!("{why}: {victims:?} for {places:?} in {self:#?}");
        }
        for unit in self.units(victims) {
            let others: Vec<String> = victims.iter().filter(|name| !unit.contains(name)).cloned().collect();
            let is_spare = helps(&others) && self.objection(pod, &others).is_none();
            assert!(!is_spare, "{unit:?} of {victims:?} are evicted in vain for {places:?} in {self:#?}");
        }
    }

    /// True if the pod takes from a quota that has borrowed more for its weight.
    pub(crate) fn is_fair(&self, pod: &Known, victim: &Known) -> bool {
        self.meeting(pod, victim).is_some_and(|(level, _)| self.right(pod, level) == Right::Fair)
    }

    /// Number of pods among these whose eviction violates a budget.
    pub(crate) fn violations(&self, victims: &[String]) -> usize {
        let over = |((namespace, app), allowed): (&(Name, Name), &i64)| {
            let is_covered = |pod: &&Known| (pod.namespace, pod.app) == (*namespace, *app);
            let covered = victims.iter().map(|name| &self.pods[name]).filter(is_covered).count();
            covered.saturating_sub(usize::try_from(*allowed).unwrap_or_default())
        };
        self.budgets.iter().map(over).sum()
    }

    /// Number of pods among these that are covered by budgets.
    pub(crate) fn covered(&self, victims: &[String]) -> usize {
        let pods = victims.iter().map(|name| &self.pods[name]);
        pods.filter(|pod| self.budgets.contains_key(&(pod.namespace, pod.app))).count()
    }
}
