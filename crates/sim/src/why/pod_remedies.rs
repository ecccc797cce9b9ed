//! Finds the smallest changes to the pod itself.

use harbormaster_api::Str;
use harbormaster_framework::attempt::AttemptError;

use super::{Change, Remedy, trials::Trials};

impl Trials {
    /// Returns the changes that suffice alone. If there are none, returns the pairs that suffice, and if there are none
    /// either, a set of changes none of which can be left out.
    pub(super) fn pod_remedies(&mut self) -> Result<Vec<Remedy>, AttemptError> {
        let ideas = self.ideas();
        if self.fits(&ideas)?.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for idea in &ideas {
            found.extend(self.settled(vec![idea.clone()])?);
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let essential = self.essential(&ideas)?;
        for (at, one) in ideas.iter().enumerate() {
            for other in &ideas[at + 1..] {
                if essential.iter().all(|change| change == one || change == other) {
                    found.extend(self.settled(vec![one.clone(), other.clone()])?);
                }
            }
        }
        if found.is_empty() {
            let needed = self.needed(ideas)?;
            found.extend(self.settled(needed)?);
        }
        Ok(found)
    }

    /// Returns the changes without which the pod does not fit even after all others.
    fn essential(&mut self, changes: &[Change]) -> Result<Vec<Change>, AttemptError> {
        let mut essential = Vec::new();
        for at in 0..changes.len() {
            let mut others = changes.to_vec();
            let left_out = others.remove(at);
            if self.fits(&others)?.is_empty() {
                essential.push(left_out);
            }
        }
        Ok(essential)
    }

    /// Leaves out, one after another, the changes without which the pod still fits, the largest first.
    fn needed(&mut self, mut changes: Vec<Change>) -> Result<Vec<Change>, AttemptError> {
        changes.sort_by_key(Change::size);
        for at in (0..changes.len()).rev() {
            let mut fewer = changes.clone();
            fewer.remove(at);
            if !self.fits(&fewer)?.is_empty() {
                changes = fewer;
            }
        }
        Ok(changes)
    }

    /// Makes each change as small as it may be. Returns `None` if the pod does not fit after the changes, or if one of
    /// them turns out to be unnecessary.
    fn settled(&mut self, mut changes: Vec<Change>) -> Result<Option<Remedy>, AttemptError> {
        if self.fits(&changes)?.is_empty() {
            return Ok(None);
        }
        for at in 0..changes.len() {
            self.narrow_skew(&mut changes, at)?;
            self.narrow_devices(&mut changes, at)?;
        }
        match self.narrow_requests(&changes)? {
            Some(changes) => self.remedy(changes),
            None => Ok(None),
        }
    }

    /// Replaces a softened spread constraint by the smallest sufficient `maxSkew`, if that is the smaller change.
    fn narrow_skew(&mut self, changes: &mut [Change], at: usize) -> Result<(), AttemptError> {
        let Change::SoftenSpread { constraint, topology_key } = &changes[at] else { return Ok(()) };
        let (constraint, topology_key, softened) = (*constraint, topology_key.clone(), changes[at].clone());
        let from = self.pod.spec.topology_spread.get(constraint).map_or(1, |constraint| constraint.max_skew);
        let mut tried = from;
        loop {
            tried = tried.saturating_add(1);
            let topology_key = topology_key.clone();
            let wider = Change::WidenSkew { constraint, topology_key, from, to: tried };
            if wider.size() >= softened.size() {
                changes[at] = softened;
                return Ok(());
            }
            changes[at] = wider;
            if !self.fits(changes)?.is_empty() {
                return Ok(());
            }
        }
    }

    /// Raises lowered requests again as far as the most suitable node allows. Returns `None` if one of them need not be
    /// lowered there, or would become zero.
    fn narrow_requests(&mut self, changes: &[Change]) -> Result<Option<Vec<Change>>, AttemptError> {
        if !changes.iter().any(|change| matches!(change, Change::LowerRequest { .. })) {
            return Ok(Some(changes.to_vec()));
        }
        let nodes = self.fits(changes)?;
        let raised = nodes.iter().filter_map(|node| self.raised(changes, node));
        Ok(raised.min_by_key(|changes| changes.iter().map(Change::size).sum::<u64>()))
    }

    /// Returns the changes with the largest requests that the node has room for.
    fn raised(&self, changes: &[Change], node: &Str) -> Option<Vec<Change>> {
        let cluster = &self.judge.cache.cluster;
        let node = cluster.node(cluster.find(node)?);
        let (allocatable, requested) = (node.allocatable(), node.requested());
        let raised = changes.iter().map(|change| match change {
            Change::LowerRequest { resource, from, .. } => {
                let to = allocatable.named(resource).saturating_sub(requested.named(resource));
                let useful = to > 0 && to < *from;
                useful.then(|| Change::LowerRequest { resource: resource.clone(), from: *from, to })
            }
            other => Some(other.clone()),
        });
        raised.collect()
    }
}
