//! The subject of `lint`, and its findings.

use std::collections::BTreeSet;

use harbormaster_api::{Pod, Str, features::Features, points::ExtensionPoint};
use harbormaster_config::{KubeSchedulerConfiguration, PluginSet, Position, Profile, ProfilePlan};
use harbormaster_setup::Choices;
use serde::Serialize;

/// Name that stands for every plugin in a `disabled` list.
pub(super) const ALL: &str = "*";

/// Importance of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Severity {
    /// Surely not meant.
    Warning,
    /// Possibly meant, but easily overlooked.
    Note,
}

impl Severity {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Note => "note",
        }
    }
}

/// A setting that is valid, but probably not meant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Finding {
    /// Stable identifier of the kind of finding.
    pub(super) id: &'static str,
    pub(super) severity: Severity,
    /// Path of the field, for example `profiles[0].plugins.score`.
    pub(super) field: String,
    /// Line of the field, or of its closest ancestor, in the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) line: Option<u32>,
    /// Consequence of the setting.
    pub(super) message: String,
    /// Advice.
    pub(super) help: String,
}

/// A configuration, and everything that is known about its use.
pub(super) struct Subject<'a> {
    /// A valid configuration.
    pub(super) config: &'a KubeSchedulerConfiguration,
    /// The plugins of each profile by extension point, as the configuration asks for them.
    pub(super) plans: &'a [ProfilePlan],
    /// Available plugins, release and feature gates.
    pub(super) choices: &'a Choices,
    /// Pods of the given manifests; `None` if no manifests are given.
    pub(super) pods: Option<&'a Demand>,
}

impl<'a> Subject<'a> {
    /// Iterates over the profiles with their index and plan.
    pub(super) fn profiles(&self) -> impl Iterator<Item = (usize, &'a Profile, &'a ProfilePlan)> {
        let pairs = self.config.profiles.iter().zip(self.plans);
        pairs.enumerate().map(|(at, (profile, plan))| (at, profile, plan))
    }

    pub(super) fn features(&self) -> &'a Features {
        &self.choices.features
    }

    /// Returns true if the file sets the field.
    pub(super) fn sets(&self, field: &str) -> bool {
        self.config.is_set_in_file(field)
    }

    /// Creates a finding that is surely not meant.
    pub(super) fn warning(
        &self,
        id: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Finding {
        self.finding(Severity::Warning, id, field.into(), message.into(), help.into())
    }

    /// Creates a finding that may be meant.
    pub(super) fn note(
        &self,
        id: &'static str,
        field: impl Into<String>,
        message: impl Into<String>,
        help: impl Into<String>,
    ) -> Finding {
        self.finding(Severity::Note, id, field.into(), message.into(), help.into())
    }

    pub(super) fn finding(
        &self,
        severity: Severity,
        id: &'static str,
        field: String,
        message: String,
        help: String,
    ) -> Finding {
        let line = self.config.error(&field, "").position.map(|Position { line, .. }| line);
        Finding { id, severity, field, line, message, help }
    }
}

/// Schedulers and resources that the pods of the given manifests ask for.
#[derive(Clone, Debug, Default)]
pub(super) struct Demand {
    /// Scheduler names of the pods.
    pub(super) schedulers: BTreeSet<Str>,
    /// Resources that decide whether an extender is asked: requests and limits of containers, not those at pod level.
    pub(super) resources: BTreeSet<Str>,
}

impl Demand {
    pub(super) fn of<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> Self {
        let mut demand = Self::default();
        for pod in pods {
            demand.schedulers.insert(pod.spec.scheduler_name.clone());
            for container in pod.spec.containers.iter().chain(&pod.spec.init_containers) {
                let amounts = container.requests.iter().chain(&container.limits);
                demand.resources.extend(amounts.map(|(name, _)| name.clone()));
            }
        }
        demand
    }
}

/// Returns true if the plugin runs at the point.
pub(super) fn runs(plan: &ProfilePlan, point: ExtensionPoint, plugin: &str) -> bool {
    plan.at(point).iter().any(|(name, _)| name == plugin)
}

/// The entry of a `disabled` list that keeps a plugin from a point.
pub(super) struct SwitchedOff {
    /// Path of the entry.
    pub(super) field: String,
    /// True if the entry is `*`.
    pub(super) by_star: bool,
}

/// Returns the entry that keeps a plugin from a point; `None` if no entry does.
pub(super) fn switched_off(
    at: usize,
    profile: &Profile,
    point: ExtensionPoint,
    plugin: &str,
) -> Option<SwitchedOff> {
    let lists = [(point.field(), profile.plugins.at(point)), ("multiPoint", &profile.plugins.multi_point)];
    let entry = |(list, set): &(&str, &PluginSet), wanted: &str| {
        let entry = set.disabled.iter().position(|disabled| disabled.name == wanted)?;
        let field = format!("profiles[{at}].plugins.{list}.disabled[{entry}]");
        Some(SwitchedOff { field, by_star: wanted == ALL })
    };
    // The plugin's own name is the clearer reason.
    let named = lists.iter().find_map(|list| entry(list, plugin));
    named.or_else(|| lists.iter().find_map(|list| entry(list, ALL)))
}
