//! The `plugins` field of a profile, and its merging into the defaults.

use harbormaster_api::{features::Features, points::ExtensionPoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::in_tree::in_tree;

/// Name in a `disabled` list that stands for all plugins.
pub(crate) const ALL: &str = "*";

/// An entry of a plugin list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginRef {
    /// Name; `*` in a `disabled` list means all plugins.
    pub name: String,
    /// Factor by which the plugin's scores are multiplied; 0 means not given.
    pub weight: i32,
}

impl PluginRef {
    /// Creates an entry without a weight.
    pub fn named(name: &str) -> Self {
        Self { name: name.to_owned(), weight: 0 }
    }
}

/// `PluginSet`: the plugins that are enabled and disabled at one extension point.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PluginSet {
    /// Plugins to enable, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled: Vec<PluginRef>,
    /// Default plugins to disable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disabled: Vec<PluginRef>,
}

impl PluginSet {
    /// Returns true if no plugin is enabled or disabled.
    pub(crate) fn is_empty(&self) -> bool {
        self.enabled.is_empty() && self.disabled.is_empty()
    }

    /// Returns true if the name (which may be `*`) is in the `disabled` list.
    pub(crate) fn disables(&self, name: &str) -> bool {
        self.disabled.iter().any(|p| p.name == name)
    }

    pub(crate) fn enables(&self, name: &str) -> bool {
        self.enabled.iter().any(|p| p.name == name)
    }

    /// Applies the user's changes to this list of defaults.
    ///
    /// A default plugin that the user enables without disabling it keeps its position and gets the user's weight; all
    /// other plugins that the user enables follow. If the user enables a default plugin twice, the last entry takes the
    /// plugin's position and the first entry is appended, so that the duplicate is detected later.
    fn merged(self, user: PluginSet) -> PluginSet {
        let mut disabled: Vec<_> = user.disabled.iter().map(|p| PluginRef::named(&p.name)).collect();
        disabled.extend(self.disabled.iter().map(|p| PluginRef::named(&p.name)));
        let mut merged = PluginSet { enabled: Vec::new(), disabled };
        let mut placed = vec![false; user.enabled.len()];
        if !merged.disables(ALL) {
            for default in self.enabled {
                if merged.disables(&default.name) {
                    continue;
                }
                let given = user.enabled.iter().rposition(|p| p.name == default.name);
                merged.enabled.push(match given {
                    Some(i) => {
                        placed[i] = true;
                        user.enabled[i].clone()
                    }
                    None => default,
                });
            }
        }
        let rest = user.enabled.into_iter().zip(placed).filter(|(_, placed)| !placed);
        merged.enabled.extend(rest.map(|(plugin, _)| plugin));
        merged
    }
}

/// Defines the plugin lists of a profile from a table of lists and their extension points.
macro_rules! plugin_lists {
    (pods: { $($list:ident: $point:ident,)* } groups: { $($group_list:ident: $group_point:ident,)* }) => {
        /// `Plugins`: the plugins of a profile by extension point.
        #[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "camelCase", default)]
        #[expect(missing_docs, reason = "one list per extension point, named after it")]
        pub struct Plugins {
            $(pub $list: PluginSet,)*
            /// Plugins to enable or disable at every extension point that they implement.
            pub multi_point: PluginSet,
            $(pub $group_list: PluginSet,)*
        }

        impl Plugins {
            /// Returns the plugin list of an extension point.
            pub fn at(&self, point: ExtensionPoint) -> &PluginSet {
                match point {
                    $(ExtensionPoint::$point => &self.$list,)*
                    $(ExtensionPoint::$group_point => &self.$group_list,)*
                }
            }

            fn at_mut(&mut self, point: ExtensionPoint) -> &mut PluginSet {
                match point {
                    $(ExtensionPoint::$point => &mut self.$list,)*
                    $(ExtensionPoint::$group_point => &mut self.$group_list,)*
                }
            }
        }
    };
}

plugin_lists! {
    pods: {
        pre_enqueue: PreEnqueue,
        queue_sort: QueueSort,
        pre_filter: PreFilter,
        filter: Filter,
        post_filter: PostFilter,
        pre_score: PreScore,
        score: Score,
        reserve: Reserve,
        permit: Permit,
        pre_bind: PreBind,
        bind: Bind,
        post_bind: PostBind,
    }
    groups: {
        pod_group_post_filter: PodGroupPostFilter,
        placement_generate: PlacementGenerate,
        placement_score: PlacementScore,
    }
}

impl Plugins {
    /// The default plugins, all in `multiPoint`.
    pub fn default_plugins(features: &Features) -> Self {
        let active = in_tree(features.release()).filter(|p| p.active(features));
        let enabled =
            active.map(|p| PluginRef { name: p.name.to_owned(), weight: p.default_weight }).collect();
        Self { multi_point: PluginSet { enabled, disabled: Vec::new() }, ..Self::default() }
    }

    /// Applies the user's lists to the defaults.
    pub fn merged(features: &Features, user: Plugins) -> Self {
        let mut user = user;
        let mut plugins = Self::default_plugins(features);
        plugins.multi_point = plugins.multi_point.merged(user.multi_point.clone());
        for point in ExtensionPoint::ALL {
            let default = std::mem::take(plugins.at_mut(point));
            *plugins.at_mut(point) = default.merged(std::mem::take(user.at_mut(point)));
        }
        plugins
    }

    /// Returns the sorted names of the plugins that are enabled at one or more points.
    pub fn names(&self) -> Vec<&str> {
        let sets = ExtensionPoint::ALL.into_iter().map(|p| self.at(p)).chain([&self.multi_point]);
        let mut names: Vec<_> = sets.flat_map(|s| &s.enabled).map(|p| p.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(enabled: &str, disabled: &str) -> PluginSet {
        let list = |names: &str| {
            let parse = |word: &str| match word.split_once('=') {
                Some((name, weight)) => PluginRef { name: name.to_owned(), weight: weight.parse().unwrap() },
                None => PluginRef::named(word),
            };
            names.split_whitespace().map(parse).collect()
        };
        PluginSet { enabled: list(enabled), disabled: list(disabled) }
    }

    #[test]
    fn user_lists_are_merged_into_the_defaults() {
        for (what, enabled, disabled, expected) in [
            ("empty lists change nothing", "", "", "A B=2 C"),
            ("a new plugin goes to the end", "X", "", "A B=2 C X"),
            ("a default is replaced in place", "B=5 X", "", "A B=5 C X"),
            ("a default listed without a weight loses its weight", "B", "", "A B C"),
            ("a disabled default is omitted", "", "B", "A C"),
            ("a default that is disabled and enabled moves to the end", "B=7", "B", "A C B=7"),
            ("all defaults can be disabled", "X B", "*", "X B"),
            ("an unknown name in the disabled list is ignored", "", "Y", "A B=2 C"),
            ("the last of two equal names takes the position", "B=1 B=2", "", "A B=2 C B=1"),
        ] {
            let merged = set("A B=2 C", "").merged(set(enabled, disabled));
            assert_eq!(merged.enabled, set(expected, "").enabled, "{what}");
            assert_eq!(merged.disabled, set("", disabled).disabled, "{what}");
        }
    }

    #[test]
    fn default_plugins_follow_the_gates() {
        use harbormaster_api::features::Feature;
        let last =
            |features: &Features| Plugins::default_plugins(features).multi_point.enabled.pop().unwrap().name;
        assert_eq!(last(&Features::default()), "NodeDeclaredFeatures");
        assert_eq!(last(&Features::default().with(Feature::NodeDeclaredFeatures, false)), "DefaultBinder");
        let grouped = Features::default()
            .with(Feature::GangScheduling, true)
            .with(Feature::TopologyAwareWorkloadScheduling, true);
        assert_eq!(last(&grouped), "PodGroupPodsCount");
        let defaults = Plugins::default_plugins(&Features::default());
        let position = |name: &str| defaults.multi_point.enabled.iter().position(|p| p.name == name);
        assert!(position("DynamicResources") < position("DefaultPreemption"));
    }
}
