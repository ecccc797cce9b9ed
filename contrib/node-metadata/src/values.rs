//! Values of all nodes, read once per change of a node.

use harbormaster::prelude::*;

use crate::args::Settings;

/// Most settings whose values are kept. A program has few; more are left over from earlier configurations.
const MOST: usize = 8;

/// Values by what is read of the nodes.
#[derive(Debug, Default)]
pub struct Values(Vec<(Settings, Vec<Option<f64>>)>);

impl Values {
    /// Values by row; empty unless [`Self::read`] was called.
    pub(crate) fn of(&self, settings: &Settings) -> &[Option<f64>] {
        let found = self.0.iter().find(|(known, _)| known == settings);
        found.map_or(&[], |(_, values)| values.as_slice())
    }

    /// Reads the values of all nodes, unless this has been done.
    pub(crate) fn read(&mut self, settings: &Settings, view: ClusterView<'_>) {
        if self.0.iter().any(|(known, _)| known == settings) {
            return;
        }
        if self.0.len() == MOST {
            self.0.remove(0);
        }
        let rows = (0..view.nodes.rows()).map(NodeIdx::from);
        let values = rows.map(|row| settings.value(view.nodes.node(row))).collect();
        self.0.push((settings.clone(), values));
    }
}

impl Index for Values {
    fn node_changed(&mut self, view: ClusterView<'_>, row: NodeIdx) {
        for (settings, values) in &mut self.0 {
            if values.len() <= row.at() {
                values.resize(row.at() + 1, None);
            }
            values[row.at()] = settings.value(view.nodes.node(row));
        }
    }
}

impl Settings {
    /// Returns the node's value, of which the highest is the best. `None` if it is missing or malformed.
    fn value(&self, node: NodeRef<'_>) -> Option<f64> {
        let Self { key, is_label, layout, prefers_low } = self;
        let text = if *is_label { node.labels()?.get(key)? } else { node.object()?.annotations.get(key)? };
        let value = match layout {
            // The age of a node is not needed: only differences between times count, and these need no clock.
            Some(layout) => layout.parse(text)? as f64,
            None => text.parse().ok().filter(|number: &f64| number.is_finite())?,
        };
        Some(if *prefers_low { -value } else { value })
    }
}
