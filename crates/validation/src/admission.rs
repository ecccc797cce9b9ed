//! Admission of objects: defaults, admission plugins and validation, as in kube-apiserver.

pub(crate) mod autoscaler;
mod checks;
mod conditions;
pub(crate) mod defaults;
mod definition;
mod definition_schema;
mod definition_status;
mod devices;
mod errors;
mod job_scheduling;
mod meta;
mod node;
mod others;
mod pod;
mod pod_checks;
mod pod_groups;
mod pod_update;
mod priority;
mod runtime_class;
mod service;
mod workloads;

use harbormaster_api::{Timestamp, features::Features};
use serde_json::Value;

pub use defaults::pod_spec as default_pod_spec;
pub use definition::{kinds_of_definition, restore, stored_kind_of_definition};
pub use definition_status::{is_established, let_go, settle, terminate};
pub(crate) use meta::label_1035_errors;
pub use meta::stamp;
pub use pod::default_requests;
pub use pod_groups::PROTECTION;
pub use priority::SYSTEM_CLASSES;

use self::errors::Errors;
use crate::{
    FieldError,
    kinds::{Kind, Rules, STATUS, STATUS_AT_ONCE},
    schema,
    value::remove,
};

/// Reason for refusing an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The object does not conform to its type. The message has Go's wording.
    Unfit(String),
    /// An admission plugin refuses the object.
    Forbidden {
        /// The field that caused the refusal.
        field: &'static str,
        /// Reason for the refusal.
        why: String,
    },
    /// Fields are invalid.
    Invalid(Vec<FieldError>),
}

type Result<T> = std::result::Result<T, Refusal>;

fn forbidden(field: &'static str, why: impl Into<String>) -> Refusal {
    Refusal::Forbidden { field, why: why.into() }
}

/// Access to other objects that admission depends on. Resource names have the form `priorityclasses.scheduling.k8s.io`.
pub trait Others {
    /// Returns all objects of a resource.
    fn all(&self, resource: &str) -> Vec<Value>;
    /// Returns an object of a cluster-scoped resource.
    fn get(&self, resource: &str, name: &str) -> Option<Value>;
}

/// Inputs of admission in addition to the object.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// Access to other objects.
    pub others: &'a dyn Others,
    /// Time of the request.
    pub now: Timestamp,
    /// Release and feature gates that apply.
    pub features: Features,
    /// True if pods by default tolerate unready and unreachable nodes for a while.
    pub default_tolerations: bool,
    /// True if new nodes are tainted as not ready.
    pub taint_new_nodes: bool,
    /// True if only the status can be changed.
    pub status_only: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("kind", &self.kind.qualified()).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Prepares a new object for storage. The name and namespace must already be set.
    ///
    /// # Errors
    /// When the object is refused.
    pub fn create(&self, object: &mut Value) -> Result<()> {
        self.create_noting(object, |_| {})
    }

    /// Like [`Self::create`], but calls `note` after all defaults are set and before admission plugins change the
    /// object.
    ///
    /// # Errors
    /// When the object is refused.
    pub fn create_noting(&self, object: &mut Value, note: impl FnOnce(&mut Value)) -> Result<()> {
        if self.kind.has(STATUS) && !self.kind.has(STATUS_AT_ONCE) {
            remove(object, "status");
        }
        self.fit(object)?;
        self.defaults(object);
        note(object);
        match self.kind.rules {
            Rules::Pod => pod::admit(self, object)?,
            Rules::PriorityClass => priority::admit_class(self, object)?,
            Rules::Service => service::admit(self, None, object).map_err(Refusal::Invalid)?,
            Rules::PodGroup => pod_groups::admit(self, object)?,
            Rules::GroupTemplates => pod_groups::drop_gated(self, None, object),
            rules if rules.are_of_devices() => devices::admit(self.kind, object),
            _ => others::admit(self, object),
        }
        pod_groups::drop_membership(self, None, object);
        job_scheduling::drop_gated(self, None, object);
        let mut errors = Errors::new(self.features.release());
        meta::check(self.kind, object, &mut errors);
        self.check(object, None, &mut errors);
        refuse(errors)
    }

    /// Prepares a changed object for storage.
    ///
    /// # Errors
    /// When the object is refused.
    pub fn update(&self, old: &Value, object: &mut Value) -> Result<()> {
        self.update_noting(old, object, |_| {})
    }

    /// Like [`Self::update`], but calls `note` after all defaults are set and before admission plugins change the
    /// object.
    ///
    /// # Errors
    /// When the object is refused.
    pub fn update_noting(
        &self,
        old: &Value,
        object: &mut Value,
        note: impl FnOnce(&mut Value),
    ) -> Result<()> {
        self.fit(object)?;
        self.defaults(object);
        note(object);
        match self.kind.rules {
            Rules::Pod => pod::admit_update(self, old, object),
            Rules::Service => service::admit(self, Some(old), object).map_err(Refusal::Invalid)?,
            Rules::PriorityClass => priority::admit_class(self, object)?,
            Rules::Definition => definition::admit_update(object),
            Rules::PodGroup | Rules::GroupTemplates => pod_groups::drop_gated(self, Some(old), object),
            rules if rules.are_of_devices() => devices::admit_update(self, old, object),
            _ => others::admit_update(self.kind, old, object),
        }
        pod_groups::drop_membership(self, Some(old), object);
        job_scheduling::drop_gated(self, Some(old), object);
        let mut errors = Errors::new(self.features.release());
        meta::check_update(self.kind, old, object, &mut errors);
        self.check(object, Some(old), &mut errors);
        refuse(errors)
    }

    /// Makes the object conform to its type.
    fn fit(&self, object: &mut Value) -> Result<()> {
        schema::fit(self.kind, object).map_err(Refusal::Unfit)
    }

    fn defaults(&self, object: &mut Value) {
        match &self.kind.custom {
            Some(custom) => custom.schema.fill(object),
            None => self.kind.defaults.into_iter().for_each(|defaults| defaults::apply(defaults, object)),
        }
        match self.kind.rules {
            Rules::Pod => pod::defaults(object, self.features.release(), self.now),
            Rules::Node => node::defaults(self.taint_new_nodes, object),
            Rules::Definition => definition::defaults(object),
            Rules::Autoscaler => autoscaler::defaults(object),
            Rules::PodGroup | Rules::GroupTemplates => pod_groups::defaults(self, object),
            rules if rules.are_of_devices() => devices::defaults(self, object),
            _ => others::defaults(self.kind, object),
        }
    }

    fn check(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        match (self.kind.rules, old) {
            (Rules::Pod, None) => pod_checks::check_new(object, errors),
            (Rules::Pod, Some(old)) => pod_update::check(old, object, errors),
            (Rules::Node, _) => node::check(object, errors),
            (Rules::PriorityClass, _) => priority::check(object, old, errors),
            (Rules::Definition, old) => definition::check(object, old, errors),
            (Rules::Autoscaler, old) => autoscaler::check(object, old, errors),
            (Rules::PodGroup | Rules::GroupTemplates, old) => pod_groups::check(self, object, old, errors),
            (Rules::RuntimeClass, old) => runtime_class::check(object, old, errors),
            (Rules::Workload | Rules::Job | Rules::CronJob, old) => {
                workloads::check(self.kind, object, old, errors);
                job_scheduling::check(self.kind, object, old, errors);
            }
            (rules, old) if rules.are_of_devices() => devices::check(self, object, old, errors),
            _ => others::check(self.kind, object, errors),
        }
        if let Some(custom) = &self.kind.custom {
            let mut found = Vec::new();
            custom.check(self.status_only, object, old, &mut found);
            errors.extend(found);
        }
    }
}

/// Returns true if writing objects of a kind may cause warnings.
pub fn may_warn(kind: &Kind) -> bool {
    kind.is_custom() || matches!(kind.rules, Rules::Definition | Rules::ResourceSlice)
}

/// Returns warnings about an object being written; `old` is its previous version.
pub fn warnings(kind: &Kind, old: Option<&Value>, object: &Value) -> Vec<String> {
    match kind.rules {
        Rules::Definition => {
            let before = old.map(definition_schema::unknown_formats).unwrap_or_default();
            let mut new = definition_schema::unknown_formats(object);
            new.retain(|format| !before.contains(format));
            new.iter().map(|format| format!("unrecognized format {format:?}")).collect()
        }
        Rules::ResourceSlice => devices::warnings(kind, object),
        _ if kind.is_custom() => meta::finalizer_warnings(old, object),
        _ => Vec::new(),
    }
}

fn refuse(errors: Errors) -> Result<()> {
    let errors = errors.into_vec();
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Invalid(errors)) }
}

/// Refuses to delete protected namespaces and system priority classes.
///
/// # Errors
/// The reason why the object may not be deleted.
pub fn check_deletion(kind: &Kind, name: &str) -> std::result::Result<(), &'static str> {
    match kind.rules {
        Rules::Namespace if matches!(name, "default" | "kube-system" | "kube-public") => {
            Err("this namespace may not be deleted")
        }
        Rules::PriorityClass if SYSTEM_CLASSES.iter().any(|(system, ..)| *system == name) => {
            Err("this is a system priority class and cannot be deleted")
        }
        _ => Ok(()),
    }
}
