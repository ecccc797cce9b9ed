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

/// `TopologicalSortArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct SortArgs {
    /// Namespaces in which AppGroups are looked for, in order; `default` by default.
    pub namespaces: Option<Vec<Str>>,
}

/// Returns the namespaces that were given, or the default.
pub(crate) fn namespaces(given: Option<Vec<Str>>) -> Vec<Str> {
    given.filter(|list| !list.is_empty()).unwrap_or_else(|| vec!["default".into()])
}
