//! Plugin arguments, `profiles[].pluginConfig[].args`.

use harbormaster::{api::Str, serde::Deserialize};

/// `NetworkOverheadArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Namespaces in which AppGroups and the NetworkTopology are looked for, in order; `default` by default.
    pub namespaces: Option<Vec<Str>>,
    /// Name of the weights in the NetworkTopology; `UserDefined` by default.
    pub weights_name: Option<Str>,
    /// Name of the NetworkTopology; `nt-default` by default.
    pub network_topology_name: Option<Str>,
}

impl Args {
    /// Returns the namespaces.
    pub(crate) fn namespaces(&self) -> Vec<Str> {
        let given = self.namespaces.clone().filter(|list| !list.is_empty());
        given.unwrap_or_else(|| vec!["default".into()])
    }
}
