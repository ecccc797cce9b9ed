//! The configuration after defaulting.

use harbormaster_api::{args::GoDuration, features::Features};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{
    error::{ConfigError, Source},
    plugin_args::PluginArgs,
    plugins::Plugins,
};

/// The only API version that is supported.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// Kind of the configuration.
pub const KIND: &str = "KubeSchedulerConfiguration";
/// Default name of a configuration's only profile.
pub const DEFAULT_SCHEDULER_NAME: &str = "default-scheduler";

/// `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1`, with all defaults filled in.
///
/// [`crate::load`] and [`KubeSchedulerConfiguration::default_config`] do not validate it: apply the flags, then call
/// [`crate::validate`].
#[derive(Clone, Debug)]
pub struct KubeSchedulerConfiguration {
    /// Number of workers that filter and score nodes in kube-scheduler; no effect in Harbormaster.
    pub parallelism: i32,
    /// Leader election.
    pub leader_election: LeaderElection,
    /// Connection to the API server.
    pub client_connection: ClientConnection,
    /// True if the secure port serves `/debug/flags/v`.
    pub enable_profiling: bool,
    /// True if kube-scheduler profiles lock contention; no effect in Harbormaster.
    pub enable_contention_profiling: bool,
    /// Percentage of nodes that must be found feasible before scoring starts. If it is 0 or `None`, Harbormaster scores
    /// all feasible nodes; with `--parity`, it derives the percentage from the size of the cluster, as kube-scheduler
    /// does.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// First backoff of an unschedulable pod, in seconds.
    pub pod_initial_backoff_seconds: i64,
    /// Longest backoff, in seconds.
    pub pod_max_backoff_seconds: i64,
    /// Profiles; at least one.
    pub profiles: Vec<Profile>,
    /// HTTP extenders.
    pub extenders: Vec<Extender>,
    /// True if the cache is filled only while this replica is the leader.
    pub delay_cache_until_active: bool,
    /// The file that the configuration was read from, for error messages.
    pub source: Source,
}

/// `LeaderElectionConfiguration`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LeaderElection {
    /// True if replicas elect a leader.
    pub leader_elect: bool,
    /// Time for which standbys respect a lease that is not renewed.
    pub lease_duration: GoDuration,
    /// Time for which the leader tries to renew the lease before it gives up.
    pub renew_deadline: GoDuration,
    /// Interval between attempts to acquire or renew the lease.
    pub retry_period: GoDuration,
    /// Resource of the lock object; must be `leases`.
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
    /// Maximum number of requests per second.
    pub qps: f32,
    /// Number of requests that may exceed [`Self::qps`] in a burst.
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

/// `KubeSchedulerProfile`: plugins and settings for the pods with one scheduler name.
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    /// `spec.schedulerName` of the profile's pods. Empty, and therefore invalid, if the file omits it and has several
    /// profiles.
    pub scheduler_name: String,
    /// Overrides the global value.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// Default plugins with the user's changes applied. `multiPoint` is not yet expanded.
    pub plugins: Plugins,
    /// The user's entries in order, then the defaults of the enabled in-tree plugins that have no entry.
    pub plugin_config: Vec<PluginConfig>,
    /// Names in the file's `multiPoint.enabled`, for positions in errors.
    pub multi_point_in_file: Vec<String>,
}

impl Profile {
    /// Returns the arguments of a plugin.
    pub fn args(&self, plugin: &str) -> Option<&PluginArgs> {
        self.plugin_config.iter().find(|c| c.name == plugin).map(|c| &c.args)
    }
}

/// Arguments of one plugin.
#[derive(Clone, Debug, PartialEq)]
pub struct PluginConfig {
    /// Name of the plugin.
    pub name: String,
    /// Arguments.
    pub args: PluginArgs,
}

/// `Extender`: a webhook that takes part in scheduling.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Extender {
    /// URL that the verbs are appended to.
    pub url_prefix: String,
    /// Verb for filtering; empty if the extender does not filter.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub filter_verb: String,
    /// Verb for preemption; empty if the extender takes no part in preemption.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub preempt_verb: String,
    /// Verb for scoring; empty if the extender does not score.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub prioritize_verb: String,
    /// Factor by which the extender's scores are multiplied.
    #[serde(skip_serializing_if = "is_zero")]
    pub weight: i64,
    /// Verb for binding; empty if the extender does not bind.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bind_verb: String,
    /// True if requests use TLS.
    #[serde(rename = "enableHTTPS", skip_serializing_if = "std::ops::Not::not")]
    pub enable_https: bool,
    /// TLS settings.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_config: Option<ExtenderTls>,
    /// Timeout of each request; zero means 5 s.
    #[serde(rename = "httpTimeout")]
    pub http_timeout: GoDuration,
    /// True if the extender caches nodes and receives only their names.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub node_cache_capable: bool,
    /// Resources that the extender manages. Only pods that request one of these resources are sent to the extender; an
    /// empty list means all pods.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub managed_resources: Vec<ManagedResource>,
    /// True if scheduling continues when the extender fails.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignorable: bool,
}

fn is_zero(value: &i64) -> bool {
    *value == 0
}

/// `ExtenderTLSConfig`. The `*Data` fields are base64-encoded and take precedence over the files.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[expect(missing_docs, reason = "common files and data of a TLS client")]
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
    /// Name of an extended resource.
    pub name: String,
    /// True if the scheduler itself ignores the resource.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub ignored_by_scheduler: bool,
}

impl KubeSchedulerConfiguration {
    /// Returns the configuration that applies if there is no file and the feature gates have their defaults.
    pub fn default_config() -> Self {
        Self::default_for(&Features::default())
    }

    /// Returns the configuration that applies if there is no file.
    pub fn default_for(features: &Features) -> Self {
        crate::load::defaults(features)
    }

    /// Returns the extenders in the order in which they are called: ignorable extenders come last.
    pub fn extenders_in_order(&self) -> Vec<&Extender> {
        let mut extenders: Vec<&Extender> = self.extenders.iter().collect();
        extenders.sort_by_key(|extender| extender.ignorable);
        extenders
    }

    /// Makes NodeResourcesFit ignore the extenders' managed resources that are marked `ignoredByScheduler`. In every
    /// profile, these resources replace the plugin's `ignoredResources`.
    ///
    /// # Errors
    /// kube-scheduler's message if a profile has no arguments for NodeResourcesFit.
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

    /// Returns true if the file sets the field (for example `leaderElection.leaderElect`).
    pub fn is_set_in_file(&self, field: &str) -> bool {
        self.source.has_field(field)
    }

    /// Creates an error about a field (for example `profiles[0].pluginConfig[1].args.weight`), with its position in the
    /// file.
    pub fn error(&self, field: &str, message: impl Into<String>) -> ConfigError {
        self.source.error(field, message)
    }
}
