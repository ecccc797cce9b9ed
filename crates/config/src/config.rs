//! The configuration after defaulting.

use harbormaster_api::{args::GoDuration, features::Features, points::ExtensionPoint};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::{ConfigError, Source},
    plugin_args::PluginArgs,
    plugins::Plugins,
};

/// The only version of the API that is read.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// Its kind.
pub const KIND: &str = "KubeSchedulerConfiguration";
/// The name of a single profile that has none.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, with all defaults filled in.
///
/// Comes from [`crate::load`] or [`KubeSchedulerConfiguration::default_config`]; not validated yet: flags may still
/// change it, then [`crate::validate`] has its say.
#[derive(Clone, Debug)]
pub struct KubeSchedulerConfiguration {
    /// How many workers filter and score nodes.
    pub parallelism: i32,
    /// Leader election.
    pub leader_election: LeaderElection,
    /// How the API server is talked to.
    pub client_connection: ClientConnection,
    /// Serve profiles over HTTP.
    pub enable_profiling: bool,
    /// Profile lock contention too.
    pub enable_contention_profiling: bool,
    /// Percent of nodes to find feasible before scoring, 0 for the adaptive number. `None` if not given, which
    /// kube-scheduler takes for 0.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// First backoff of an unschedulable pod, seconds.
    pub pod_initial_backoff_seconds: i64,
    /// Longest backoff, seconds.
    pub pod_max_backoff_seconds: i64,
    /// At least one.
    pub profiles: Vec<Profile>,
    /// HTTP extenders.
    pub extenders: Vec<Extender>,
    /// Fill the cache only when leading.
    pub delay_cache_until_active: bool,
    /// Where it came from, for error messages.
    pub source: Source,
}

/// `LeaderElectionConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    /// Whether replicas elect a leader.
    pub leader_elect: bool,
    /// How long a lease that is not renewed is respected.
    pub lease_duration: GoDuration,
    /// How long the leader tries to renew before it gives up.
    pub renew_deadline: GoDuration,
    /// Time between tries.
    pub retry_period: GoDuration,
    /// Kind of the lock object; only `leases`.
    pub resource_lock: String,
    /// Name of the lock object.
    pub resource_name: String,
    /// Namespace of the lock object.
    pub resource_namespace: String,
}

impl Default for LeaderElection {
    fn default() -> Self {
        Self {
            leader_elect: true,
            lease_duration: GoDuration::from_secs(15),
            renew_deadline: GoDuration::from_secs(10),
            retry_period: GoDuration::from_secs(2),
            resource_lock: "leases".to_owned(),
            resource_name: "kube-scheduler".to_owned(),
            resource_namespace: "kube-system".to_owned(),
        }
    }
}

/// `ClientConnectionConfiguration`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClientConnection {
    /// Path of a kubeconfig file.
    pub kubeconfig: String,
    /// `Accept` header.
    pub accept_content_types: String,
    /// `Content-Type` header.
    pub content_type: String,
    /// Requests per second.
    pub qps: f32,
    /// Requests that may exceed [`Self::qps`] for a moment.
    pub burst: i32,
}

impl Default for ClientConnection {
    fn default() -> Self {
        Self {
            kubeconfig: String::new(),
            accept_content_types: String::new(),
            content_type: "application/vnd.kubernetes.protobuf".to_owned(),
            qps: 50.0,
            burst: 100,
        }
    }
}

/// `KubeSchedulerProfile`: how the pods that name one scheduler are scheduled.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// `spec.schedulerName` of its pods; empty (and refused) if absent among several profiles.
    pub scheduler_name: String,
    /// Overrides the global value.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Default plugins with the user's changes, not yet expanded.
    pub plugins: Plugins,
    /// The user's entries in order, then the defaults of the enabled in-tree plugins that have none.
    pub plugin_config: Vec<PluginConfig>,
    /// Names of the user's own `multiPoint.enabled`, to point at them in errors.
    pub(crate) multi_point_as_written: Vec<String>,
}

impl Profile {
    /// The arguments of a plugin.
    pub fn args(&self, plugin: &str) -> Option<&PluginArgs> {
        self.plugin_config.iter().find(|c| c.name == plugin).map(|c| &c.args)
    }

    /// Whether the user enables that plugin by its name, as opposed to getting it by default.
    pub fn asks_for(&self, plugin: &str) -> bool {
        let at_a_point = || ExtensionPoint::ALL.iter().any(|point| self.plugins.at(*point).enables(plugin));
        self.multi_point_as_written.iter().any(|name| name == plugin) || at_a_point()
    }
}

/// Arguments of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// Which plugin.
    pub name: String,
    /// Its arguments.
    pub args: PluginArgs,
}

/// `Extender`: a web hook that takes part in scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Extender {
    /// Where it listens.
    pub url_prefix: String,
    /// Empty if it does not filter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// Empty if it has no say in preemption.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// Empty if it does not score.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// Factor of its scores.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// Empty if it does not bind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// Use TLS.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "std::ops::Not::not")]
    pub enable_https: bool,
    /// How to use TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTls>,
    /// Longest wait for an answer; zero means 5 s.
    #[serde(rename = "httpTimeout")]
    pub http_timeout: GoDuration,
    /// It knows nodes by name and needs no node objects.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_cache_capable: bool,
    /// Only pods that ask for one of these resources concern it; empty means all pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// Scheduling goes on when it fails.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignorable: bool,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// `ExtenderTLSConfig`; the `*Data` fields are base64 and win over the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "the usual files and data of a TLS client")]
pub struct ExtenderTls {
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub insecure: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_file: String,
    #[serde(rename = "caFile", skip_serializing_if = "String::is_empty")]
    pub ca_file: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cert_data: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key_data: String,
    #[serde(rename = "caData", skip_serializing_if = "String::is_empty")]
    pub ca_data: String,
}

/// `ExtenderManagedResource`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ManagedResource {
    /// An extended resource.
    pub name: String,
    /// The scheduler itself leaves it out of its account.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignored_by_scheduler: bool,
}

impl KubeSchedulerConfiguration {
    /// The configuration of a scheduler that is given none, with default feature gates.
    pub fn default_config() -> Self {
        Self::default_for(&Features::default())
    }

    /// The configuration of a scheduler that is given none.
    pub fn default_for(features: &Features) -> Self {
        crate::load::defaults(features)
    }

    /// The extenders in the order in which they are asked: those that may be ignored come last.
    pub fn extenders_in_order(&self) -> Vec<&Extender> {
        let mut extenders: Vec<&Extender> = self.extenders.iter().collect();
        extenders.sort_by_key(|extender| extender.ignorable);
        extenders
    }

    /// Leaves out of NodeResourcesFit's account what extenders say they manage and want ignored: in every profile that replaces
    /// the plugin's `ignoredResources`.
    ///
    /// # Errors
    /// When a profile has no arguments of that plugin, as kube-scheduler says it.
    pub fn ignore_managed_resources(&mut self) -> Result<(), ConfigError> {
        let managed = self.extenders.iter().flat_map(|extender| &extender.managed_resources);
        let ignored: Vec<String> = managed
            .filter(|resource| resource.ignored_by_scheduler)
            .map(|resource| resource.name.clone())
            .collect();
        if ignored.is_empty() {
            return Ok(());
        }
        for (i, profile) in self.profiles.iter_mut().enumerate() {
            let args = profile.plugin_config.iter_mut().find_map(|config| match &mut config.args {
                PluginArgs::NodeResourcesFit(args) => Some(args),
                _ => None,
            });
            match args {
                Some(args) => args.ignored_resources = ignored.clone(),
                None => {
                    let message =
                        "couldn't build extenders: can't find NodeResourcesFitArgs in plugin config";
                    return Err(self.source.error(format!("profiles[{i}].pluginConfig"), message));
                }
            }
        }
        Ok(())
    }

    /// Whether the field (`leaderElection.leaderElect`) is written in the file, as opposed to having its default.
    pub fn is_written(&self, field: &str) -> bool {
        self.source.is_written(field)
    }

    /// An error about a field (`profiles[0].pluginConfig[1].args.weight`), with its place in the file.
    pub fn error(&self, field: &str, message: impl Into<String>) -> ConfigError {
        self.source.error(field, message)
    }
}
