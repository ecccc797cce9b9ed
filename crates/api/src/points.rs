//! Extension points of the scheduling framework, and sets of them.

use std::fmt;

/// A point at which plugins take part in scheduling a pod, in the order in which a pod passes them. The points of pod
/// groups come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ExtensionPoint {
    /// Before a pod enters the active queue.
    PreEnqueue,
    /// Order of the active queue; one plugin for all profiles.
    QueueSort,
    /// Once per pod, before nodes are filtered.
    PreFilter,
    /// Per pod and node: may the pod run there?
    Filter,
    /// When no node fits.
    PostFilter,
    /// Once per pod, before nodes are scored.
    PreScore,
    /// Per pod and node: how good is it? Includes normalization.
    Score,
    /// After the node is chosen.
    Reserve,
    /// Before the binding: allow, reject or wait.
    Permit,
    /// Before the binding call.
    PreBind,
    /// The binding call.
    Bind,
    /// After the binding call.
    PostBind,
    /// Candidate placements of a pod group.
    PlacementGenerate,
    /// Score of a placement of a pod group.
    PlacementScore,
}

impl ExtensionPoint {
    /// All points, in order.
    pub const ALL: [Self; 14] = [
        Self::PreEnqueue,
        Self::QueueSort,
        Self::PreFilter,
        Self::Filter,
        Self::PostFilter,
        Self::PreScore,
        Self::Score,
        Self::Reserve,
        Self::Permit,
        Self::PreBind,
        Self::Bind,
        Self::PostBind,
        Self::PlacementGenerate,
        Self::PlacementScore,
    ];

    /// Kubernetes' name, as in metrics and messages: `PreFilter`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::PreEnqueue => "PreEnqueue",
            Self::QueueSort => "QueueSort",
            Self::PreFilter => "PreFilter",
            Self::Filter => "Filter",
            Self::PostFilter => "PostFilter",
            Self::PreScore => "PreScore",
            Self::Score => "Score",
            Self::Reserve => "Reserve",
            Self::Permit => "Permit",
            Self::PreBind => "PreBind",
            Self::Bind => "Bind",
            Self::PostBind => "PostBind",
            Self::PlacementGenerate => "PlacementGenerate",
            Self::PlacementScore => "PlacementScore",
        }
    }

    /// Field of `plugins` in a scheduler configuration: `preFilter`.
    pub const fn field(self) -> &'static str {
        match self {
            Self::PreEnqueue => "preEnqueue",
            Self::QueueSort => "queueSort",
            Self::PreFilter => "preFilter",
            Self::Filter => "filter",
            Self::PostFilter => "postFilter",
            Self::PreScore => "preScore",
            Self::Score => "score",
            Self::Reserve => "reserve",
            Self::Permit => "permit",
            Self::PreBind => "preBind",
            Self::Bind => "bind",
            Self::PostBind => "postBind",
            Self::PlacementGenerate => "placementGenerate",
            Self::PlacementScore => "placementScore",
        }
    }
}

impl fmt::Display for ExtensionPoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A set of extension points.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PointSet(u16);

impl PointSet {
    /// The empty set.
    pub const EMPTY: Self = Self(0);

    /// Creates a set of these points.
    pub const fn of(points: &[ExtensionPoint]) -> Self {
        let mut bits = 0;
        let mut i = 0;
        while i < points.len() {
            bits |= 1 << points[i] as u16;
            i += 1;
        }
        Self(bits)
    }

    /// Adds a point.
    pub fn insert(&mut self, point: ExtensionPoint) {
        self.0 |= 1 << point as u16;
    }

    /// Removes a point.
    pub fn remove(&mut self, point: ExtensionPoint) {
        self.0 &= !(1 << point as u16);
    }

    /// Returns true if the point is in the set.
    pub const fn contains(self, point: ExtensionPoint) -> bool {
        self.0 & (1 << point as u16) != 0
    }

    /// Returns true if the set is empty.
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// The points, in order.
    pub fn iter(self) -> impl Iterator<Item = ExtensionPoint> {
        ExtensionPoint::ALL.into_iter().filter(move |&p| self.contains(p))
    }
}

impl FromIterator<ExtensionPoint> for PointSet {
    fn from_iter<I: IntoIterator<Item = ExtensionPoint>>(points: I) -> Self {
        let mut set = Self::EMPTY;
        points.into_iter().for_each(|p| set.insert(p));
        set
    }
}

impl fmt::Debug for PointSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_holds_what_was_put_in_and_lists_it_in_order() {
        let mut set = PointSet::of(&[ExtensionPoint::Score, ExtensionPoint::Filter]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [ExtensionPoint::Filter, ExtensionPoint::Score]);
        set.remove(ExtensionPoint::Filter);
        assert!(!set.contains(ExtensionPoint::Filter) && set.contains(ExtensionPoint::Score));
        assert_eq!(ExtensionPoint::ALL.into_iter().collect::<PointSet>().iter().count(), 14);
        assert_eq!(format!("{set:?}"), "{Score}");
    }

    #[test]
    fn the_configuration_field_is_the_name_in_lower_camel_case() {
        for point in ExtensionPoint::ALL {
            let mut expected = point.name().to_owned();
            expected[..1].make_ascii_lowercase();
            assert_eq!(point.field(), expected);
        }
    }
}
