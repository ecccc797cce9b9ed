//! Extension points of the scheduling framework, and sets of them.

use std::fmt;

/// Defines the points in one table.
macro_rules! extension_points {
    ($($(#[$doc:meta])* $point:ident = $field:literal;)*) => {
        /// A point at which plugins take part in scheduling a pod. The points are in the order in which a pod passes
        /// through them; the points of pod groups come last.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum ExtensionPoint {
            $($(#[$doc])* $point,)*
        }

        impl ExtensionPoint {
            /// All points, in order.
            pub const ALL: [Self; [$($field),*].len()] = [$(Self::$point),*];

            /// Kubernetes' name, as in metrics and messages, for example `PreFilter`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$point => stringify!($point),)*
                }
            }

            /// Field of `plugins` in a scheduler configuration, for example `preFilter`.
            pub const fn field(self) -> &'static str {
                match self {
                    $(Self::$point => $field,)*
                }
            }
        }
    };
}

extension_points! {
    /// Runs before a pod enters the active queue.
    PreEnqueue = "preEnqueue";
    /// Orders the active queue; one plugin for all profiles.
    QueueSort = "queueSort";
    /// Runs once per pod, before nodes are filtered.
    PreFilter = "preFilter";
    /// Decides whether a pod may run on a node.
    Filter = "filter";
    /// Runs when no node fits.
    PostFilter = "postFilter";
    /// Runs once per pod, before nodes are scored.
    PreScore = "preScore";
    /// Rates how well a node suits a pod. Includes normalization.
    Score = "score";
    /// Runs after the node is chosen.
    Reserve = "reserve";
    /// Allows, rejects or delays the binding.
    Permit = "permit";
    /// Runs before the binding call.
    PreBind = "preBind";
    /// Makes the binding call.
    Bind = "bind";
    /// Runs after the binding call.
    PostBind = "postBind";
    /// Runs when a pod group was rejected.
    PodGroupPostFilter = "podGroupPostFilter";
    /// Generates candidate placements of a pod group.
    PlacementGenerate = "placementGenerate";
    /// Scores a placement of a pod group.
    PlacementScore = "placementScore";
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
    fn a_set_contains_its_points_and_lists_them_in_order() {
        let mut set = PointSet::of(&[ExtensionPoint::Score, ExtensionPoint::Filter]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [ExtensionPoint::Filter, ExtensionPoint::Score]);
        set.remove(ExtensionPoint::Filter);
        assert!(!set.contains(ExtensionPoint::Filter) && set.contains(ExtensionPoint::Score));
        assert_eq!(ExtensionPoint::ALL.into_iter().collect::<PointSet>().iter().count(), 15);
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
