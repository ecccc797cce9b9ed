//! Restrictions that PreFilter plugins place on the nodes.

use std::borrow::Cow;

use crate::{nodeset::NodeSet, outcome::Reject};

/// The nodes that PreFilter allows.
#[derive(Debug, Default)]
pub(super) struct Restriction {
    /// The only allowed rows, if some plugin restricted them.
    pub(super) only: Option<NodeSet>,
    /// The plugins that restricted the rows, sorted.
    pub(super) by: Vec<&'static str>,
}

impl Restriction {
    pub(super) fn add(&mut self, plugin: &'static str, only: NodeSet) {
        self.by.push(plugin);
        self.by.sort_unstable();
        match &mut self.only {
            Some(all) => all.intersect(&only),
            None => self.only = Some(only),
        }
    }

    /// Leaves out all rows outside `within`, as if they were not there.
    pub(super) fn confine(&mut self, within: Option<&NodeSet>) {
        match (&mut self.only, within) {
            (_, None) => {}
            (Some(only), Some(within)) => only.intersect(within),
            (None, Some(within)) => self.only = Some(within.clone()),
        }
    }

    /// Returns the rejection if the restrictions of several plugins leave no node in common. A single plugin that names
    /// only unknown nodes is a different case: every node is then outside its set.
    pub(super) fn nothing_left(&self) -> Option<Reject> {
        let empty = self.only.as_ref().is_some_and(NodeSet::is_empty);
        (empty && self.by.len() > 1).then(|| {
            Reject::unresolvable(format!(
                "node(s) didn't satisfy plugin(s) [{}] simultaneously",
                self.by.join(" ")
            ))
        })
    }

    pub(super) fn outside(&self) -> Reject {
        Reject::unresolvable(Cow::Owned(format!("node(s) didn't satisfy plugin(s) [{}]", self.by.join(" "))))
    }
}
