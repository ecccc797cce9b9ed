//! Which nodes PreFilter plugins left to look at.

use std::borrow::Cow;

use crate::{nodeset::NodeSet, outcome::Reject};

/// What PreFilter left to look at.
#[derive(Debug, Default)]
pub(super) struct Narrowed {
    /// The only rows that count, if some plugin narrowed them.
    pub(super) only: Option<NodeSet>,
    /// The plugins that did.
    pub(super) by: Vec<&'static str>,
}

impl Narrowed {
    pub(super) fn add(&mut self, plugin: &'static str, only: NodeSet) {
        self.by.push(plugin);
        self.by.sort_unstable();
        match &mut self.only {
            Some(all) => all.intersect(&only),
            None => self.only = Some(only),
        }
    }

    /// Two plugins that exclude each other leave no node. (One plugin that names only unknown nodes is not that case:
    /// every node is then outside of its set.)
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
