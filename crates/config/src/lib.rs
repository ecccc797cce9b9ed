//! Configuration of the scheduler: `KubeSchedulerConfiguration` of `kubescheduler.config.k8s.io/v1` and feature
//! gates.
//!
//! Steps: parse [`FeatureGates`]; [`load`] decodes the configuration strictly and fills in defaults; the caller may
//! apply flags; [`validate`] checks the result; [`plan_profiles`] expands each profile into one ordered list of plugins
//! per extension point.
//!
//! Messages are kube-scheduler's, with file, line and column added. The crate reads no files: callers pass the text of
//! files.
//!
//! Reading order: `config` (the types), `load`, `validate` and `args_rules` (the rules), `plugins` (merging), `plan`
//! (expanding), `in_tree` (kube-scheduler's table), `gates` and `emulation`; then `decode` (tree to structs), `error`
//! and `fields` (messages). `schema` generates a JSON schema for editors from the decoded types.
//! `setting` changes single fields.

mod args_rules;
mod config;
mod decode;
mod emulation;
mod error;
mod fields;
mod gate_table;
mod gates;
mod in_tree;
mod load;
mod old_versions;
mod plan;
mod plugin_args;
mod plugins;
mod schema;
mod setting;
mod validate;
mod write;

pub use config::{
    API_VERSION, ClientConnection, DEFAULT_SCHEDULER_NAME, Extender, ExtenderTls, KIND,
    KubeSchedulerConfiguration, LeaderElection, ManagedResource, PluginConfig, Profile,
};
pub use emulation::{Emulation, EmulationError};
pub use error::{ConfigError, ConfigErrors, Source};
pub use gates::{FeatureGates, GateError};
pub use harbormaster_yaml::Position;
pub use in_tree::{InTreePlugin, in_tree};
pub use load::load;
pub use plan::{PluginCatalog, ProfilePlan, plan_profiles};
pub use plugin_args::PluginArgs;
pub use plugins::{PluginRef, PluginSet, Plugins};
pub use schema::json_schema;
pub use setting::{Setting, with_settings};
pub use validate::validate;
