//! The tree of quotas: ElasticQuotas and QuotaGroups, what each of them guarantees, and which namespaces count for it.
//!
//! At the top is the whole of all quotas, whose max is the sum of what the quotas guarantee. Namespaces that a group lists,
//! but that have no ElasticQuota, share a quota of their own below the group: it is guaranteed what the group's min
//! has beyond those of the quotas beside it.
//!
//! A tree is built from any objects. What contradicts itself is left out and reported.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet, HashMap},
    fmt,
    sync::Arc,
};

use harbormaster::{api::Str, framework::Contradiction, prelude::Resource};

use crate::{
    amounts::{Amounts, text},
    elastic_quota::ElasticQuota,
    quota_group::QuotaGroup,
};

/// A position in [`Tree::quotas`].
pub type QuotaIdx = usize;

/// The whole of all quotas.
pub const WHOLE: QuotaIdx = 0;

/// The objects from which a tree is built.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Objects {
    /// The ElasticQuota of each namespace, with its namespace and name.
    pub quotas: BTreeMap<Str, (Str, Arc<ElasticQuota>)>,
    /// The groups by name.
    pub groups: BTreeMap<Str, Arc<QuotaGroup>>,
}

/// All quotas. Empty without objects.
#[derive(Debug, Default, PartialEq)]
pub struct Tree {
    quotas: Vec<Quota>,
    /// The quota for which each namespace counts.
    leaves: HashMap<Str, QuotaIdx>,
    problems: Vec<Contradiction>,
}

/// A quota of the tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quota {
    /// Kind of its object; empty for the whole.
    pub kind: &'static str,
    /// Name of its object, with the namespace if it is in one.
    pub name: Str,
    /// The quota above; `None` for the whole.
    pub parent: Option<QuotaIdx>,
    /// Guaranteed amounts.
    pub min: Amounts,
    /// Maximum amounts. A resource that is not listed is unlimited.
    pub max: Amounts,
    /// Share of what is lent, relative to the quotas beside this one.
    pub weight: Option<u32>,
    /// The namespaces that count for it, in order; none if there are quotas below it.
    pub namespaces: Vec<Str>,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind, self.name)
    }
}

impl Tree {
    /// Builds the tree.
    pub fn of(objects: &Objects) -> Self {
        if objects.quotas.is_empty() && objects.groups.is_empty() {
            return Self::default();
        }
        let mut builder = Builder::new(objects);
        builder.place_groups();
        builder.place_leaves();
        builder.sum_up();
        let Builder { tree, .. } = builder;
        tree
    }

    /// All quotas, the whole first.
    pub fn quotas(&self) -> &[Quota] {
        &self.quotas
    }

    /// Returns the quota for which the pods of a namespace count; `None` if there is none.
    pub fn leaf(&self, namespace: &str) -> Option<QuotaIdx> {
        self.leaves.get(namespace).copied()
    }

    /// The namespaces of quotas, and the quota of each.
    pub fn leaves(&self) -> impl Iterator<Item = (&Str, QuotaIdx)> {
        self.leaves.iter().map(|(namespace, at)| (namespace, *at))
    }

    /// A quota and those above it, up to the whole.
    pub fn path(&self, from: QuotaIdx) -> impl Iterator<Item = QuotaIdx> {
        std::iter::successors(Some(from), |at| self.quotas.get(*at)?.parent)
    }

    /// Returns true if some quota guarantees the resource.
    pub fn is_guaranteed(&self, resource: &str) -> bool {
        self.guaranteed(resource).is_some()
    }

    /// Returns how much of a resource all quotas together guarantee; `None` if none guarantees any.
    pub fn guaranteed(&self, resource: &str) -> Option<i128> {
        self.quotas.first()?.min.listed(resource)
    }

    /// Returns true if the quota guarantees less than these amounts. A resource that no quota guarantees does not matter.
    pub fn is_exceeded(&self, at: QuotaIdx, used: &Amounts) -> bool {
        let min = &self.quotas[at].min;
        used.iter().any(|(resource, amount)| amount > min.get(resource) && self.is_guaranteed(resource))
    }

    /// Contradictions between the objects.
    pub fn problems(&self) -> &[Contradiction] {
        &self.problems
    }
}

/// A tree that is being built.
struct Builder<'a> {
    objects: &'a Objects,
    tree: Tree,
    group_at: BTreeMap<&'a Str, QuotaIdx>,
    /// The first group that lists each namespace, and the weight that it gives to the ElasticQuota there.
    listed: BTreeMap<&'a Str, (&'a Str, Option<u32>)>,
}

impl<'a> Builder<'a> {
    fn new(objects: &'a Objects) -> Self {
        let tree = Tree { quotas: vec![Quota::default()], ..Tree::default() };
        Self { objects, tree, group_at: BTreeMap::new(), listed: BTreeMap::new() }
    }

    fn place_groups(&mut self) {
        for (at, name) in self.objects.groups.keys().enumerate() {
            self.group_at.insert(name, at + 1);
        }
        let in_cycles = self.in_cycles();
        for (name, group) in &self.objects.groups {
            let parent = group.parent.as_ref().filter(|_| !in_cycles.contains(name));
            let known = parent.and_then(|parent| self.group_at.get(parent)).copied();
            if let (Some(parent), None) = (parent, known) {
                self.report(
                    "The parent of a QuotaGroup does not exist, so that it counts as being at the top",
                    format!("{name}: parent {parent}"),
                    vec![name.to_string()],
                );
            }
            self.tree.quotas.push(Quota {
                kind: QuotaGroup::KIND,
                name: name.clone(),
                parent: Some(known.unwrap_or(WHOLE)),
                min: group.min.clone(),
                max: group.max.clone(),
                weight: group.weight,
                namespaces: Vec::new(),
            });
            for (namespace, weight) in &group.namespaces {
                match self.listed.get(namespace).copied() {
                    None => drop(self.listed.insert(namespace, (name, *weight))),
                    Some((first, _)) => self.report(
                        "A namespace is in two QuotaGroups, of which the first by name counts",
                        format!("{namespace}: {name}"),
                        vec![first.to_string(), name.to_string()],
                    ),
                }
            }
        }
    }

    /// Returns the groups that are above themselves, and reports them.
    fn in_cycles(&mut self) -> BTreeSet<&'a Str> {
        let groups = &self.objects.groups;
        let (mut settled, mut cyclic) = (BTreeSet::new(), BTreeSet::new());
        for name in groups.keys() {
            let mut path: Vec<&Str> = Vec::new();
            let mut next = Some(name);
            while let Some((at, group)) = next.and_then(|name| groups.get_key_value(name)) {
                if settled.contains(at) {
                    break;
                }
                if let Some(first) = path.iter().position(|known| *known == at) {
                    let cycle: BTreeSet<&Str> = path[first..].iter().copied().collect();
                    let names: Vec<String> = cycle.iter().map(|name| name.to_string()).collect();
                    self.report(
                        "QuotaGroups are above themselves, so that they count as being at the top",
                        names.join(", "),
                        names,
                    );
                    cyclic.extend(cycle);
                    break;
                }
                path.push(at);
                next = group.parent.as_ref();
            }
            settled.extend(path);
        }
        cyclic
    }

    fn place_leaves(&mut self) {
        for (namespace, (name, quota)) in &self.objects.quotas {
            let (group, weight) = self.listed.get(namespace).map_or((None, None), |(g, w)| (Some(*g), *w));
            let parent = group.and_then(|group| self.group_at.get(group)).copied().unwrap_or(WHOLE);
            self.tree.leaves.insert(namespace.clone(), self.tree.quotas.len());
            self.tree.quotas.push(Quota {
                kind: ElasticQuota::KIND,
                name: name.clone(),
                parent: Some(parent),
                min: quota.min.clone(),
                max: quota.max.clone(),
                weight,
                namespaces: vec![namespace.clone()],
            });
        }
        for (name, group) in &self.objects.groups {
            let is_own = |namespace: &&Str| {
                let counts = self.listed.get(*namespace).is_some_and(|(first, _)| *first == name);
                counts && !self.objects.quotas.contains_key(*namespace)
            };
            let namespaces: Vec<Str> = group.namespaces.keys().filter(is_own).cloned().collect();
            if namespaces.is_empty() {
                continue;
            }
            let at = self.tree.quotas.len();
            self.tree.leaves.extend(namespaces.iter().map(|namespace| (namespace.clone(), at)));
            let parent = self.group_at.get(name).copied();
            let (kind, name) = (QuotaGroup::KIND, name.clone());
            self.tree.quotas.push(Quota { kind, name, parent, namespaces, ..Quota::default() });
        }
    }

    /// Computes what groups guarantee, those at the bottom first.
    fn sum_up(&mut self) {
        let mut order: Vec<(usize, QuotaIdx)> =
            (0..self.tree.quotas.len()).map(|at| (self.tree.path(at).count(), at)).collect();
        order.sort_by_key(|(depth, at)| (Reverse(*depth), *at));
        let mut below: Vec<Amounts> = vec![Amounts::default(); self.tree.quotas.len()];
        let mut rest: BTreeMap<QuotaIdx, QuotaIdx> = BTreeMap::new();
        for (_, at) in order {
            // A quota without an object of its own is guaranteed what is left of its group's min.
            if self.is_rest(at) {
                rest.extend(self.tree.quotas[at].parent.map(|parent| (parent, at)));
                continue;
            }
            let sum = std::mem::take(&mut below[at]);
            if let Some(own) = rest.get(&at) {
                self.tree.quotas[*own].min = self.tree.quotas[at].min.beyond(&sum);
            }
            self.guarantee(at, &sum);
            if let Some(parent) = self.tree.quotas[at].parent {
                below[parent].list(self.tree.quotas[at].min.iter());
            }
        }
        let whole = &mut self.tree.quotas[WHOLE];
        whole.max = whole.min.clone();
    }

    fn is_rest(&self, at: QuotaIdx) -> bool {
        at > self.objects.groups.len() + self.objects.quotas.len()
    }

    /// Makes a quota guarantee at least what those below it do.
    fn guarantee(&mut self, at: QuotaIdx, below: &Amounts) {
        let quota = &self.tree.quotas[at];
        let (title, name) = (quota.to_string(), quota.name.to_string());
        let is_less =
            |(resource, sum): &(&Str, i128)| quota.min.listed(resource).is_some_and(|min| min < *sum);
        let less = below.iter().find(is_less).map(|(resource, sum)| {
            let (min, sum) = (text(resource, quota.min.get(resource)), text(resource, sum));
            format!("{title}: {resource}: min {min}, below {sum}")
        });
        if let Some(subject) = less {
            self.report(
                "The quotas below a QuotaGroup guarantee more than its min, so that their sum counts",
                subject,
                vec![name.clone()],
            );
        }
        self.tree.quotas[at].min.raise(below.iter());
        let quota = &self.tree.quotas[at];
        let limited = quota.min.iter().filter_map(|(name, min)| Some((name, min, quota.max.listed(name)?)));
        let above = limited.into_iter().find(|(_, min, max)| min > max).map(|(resource, min, max)| {
            format!("{title}: {resource}: min {}, max {}", text(resource, min), text(resource, max))
        });
        if let Some(subject) = above {
            self.report("The min of a quota is above its max, which is the limit", subject, vec![name]);
        }
    }

    fn report(&mut self, problem: &'static str, subject: String, objects: Vec<String>) {
        self.tree.problems.push(Contradiction { problem, subject, objects });
    }
}
