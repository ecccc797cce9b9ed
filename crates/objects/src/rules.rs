//! What the API server makes of objects before they are stored: defaults, admission and checks.

pub(crate) mod autoscaler;
mod checks;
pub(crate) mod defaults;
mod definition;
mod definition_schema;
mod definition_status;
mod meta;
mod node;
mod others;
mod pod;
mod pod_checks;
mod pod_update;
mod priority;
mod runtime_class;
mod service;
mod workloads;

use harbormaster_api::Timestamp;
use serde_json::Value;

pub use defaults::pod_spec as default_pod_spec;
pub use definition::{kinds_of_definition, restore, stored_kind_of_definition};
pub use definition_status::{is_established, let_go, settle, terminate};
pub(crate) use meta::label_1035_errors;
pub use meta::stamp;
pub use priority::SYSTEM_CLASSES;

use crate::{
    FieldError,
    kinds::{Kind, Rules, STATUS, STATUS_AT_ONCE},
    schema,
    value::remove,
};

/// What is wrong with an object.
type Errors = Vec<FieldError>;

/// Why an object is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// It is not what its type says; with what that is, in the words of Go.
    Unfit(String),
    /// Admission refuses it.
    Forbidden {
        /// The field on which that depends.
        field: &'static str,
        /// Why.
        why: String,
    },
    /// Fields are wrong.
    Invalid(Vec<FieldError>),
}

type Result<T> = std::result::Result<T, Refusal>;

fn forbidden(field: &'static str, why: impl Into<String>) -> Refusal {
    Refusal::Forbidden { field, why: why.into() }
}

/// The other objects, as far as rules look at them. Resources are named as in `priorityclasses.scheduling.k8s.io`.
pub trait Others {
    /// All objects of a resource.
    fn all(&self, resource: &str) -> Vec<Value>;
    /// One object of a resource without namespaces.
    fn get(&self, resource: &str, name: &str) -> Option<Value>;
}

/// What the rules look at besides the object.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    /// The kind of the object.
    pub kind: &'a Kind,
    /// The other objects.
    pub others: &'a dyn Others,
    /// What objects remember as the time of the request.
    pub now: Timestamp,
    /// Whether pods tolerate nodes that are not ready or unreachable for a while.
    pub default_tolerations: bool,
    /// Whether new nodes are tainted as not ready.
    pub taint_new_nodes: bool,
    /// Whether nothing but the status can be changed.
    pub status_only: bool,
}

impl std::fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Context").field("kind", &self.kind.qualified()).finish_non_exhaustive()
    }
}

impl Context<'_> {
    /// Makes a new object ready to be stored, which has its name and namespace already.
    ///
    /// # Errors
    /// Mistakes in it.
    pub fn create(&self, object: &mut Value) -> Result<()> {
        self.create_noting(object, |_| {})
    }

    /// As [`Self::create`]; `note` is called when the object is complete, before admission changes it.
    ///
    /// # Errors
    /// Mistakes in it.
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
            _ => others::admit(self, object),
        }
        let mut errors = meta::check(self.kind, object);
        self.check(object, None, &mut errors);
        refuse(errors)
    }

    /// Makes a changed object ready to be stored.
    ///
    /// # Errors
    /// Mistakes in it.
    pub fn update(&self, old: &Value, object: &mut Value) -> Result<()> {
        self.update_noting(old, object, |_| {})
    }

    /// As [`Self::update`]; `note` is called when the object is complete, before admission changes it.
    ///
    /// # Errors
    /// Mistakes in it.
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
            _ => others::admit_update(self.kind, old, object),
        }
        let mut errors = meta::check_update(self.kind, old, object);
        self.check(object, Some(old), &mut errors);
        refuse(errors)
    }

    /// Makes the object what its type says.
    fn fit(&self, object: &mut Value) -> Result<()> {
        schema::fit(self.kind, object).map_err(Refusal::Unfit)
    }

    fn defaults(&self, object: &mut Value) {
        match &self.kind.custom {
            Some(custom) => custom.schema.fill(object),
            None => defaults::apply(self.kind.defaults, object),
        }
        match self.kind.rules {
            Rules::Pod => pod::defaults(object, self.now),
            Rules::Node => node::defaults(self.taint_new_nodes, object),
            Rules::Definition => definition::defaults(object),
            Rules::Autoscaler => autoscaler::defaults(object),
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
            (Rules::RuntimeClass, old) => runtime_class::check(object, old, errors),
            (Rules::Workload | Rules::Job | Rules::CronJob, old) => {
                workloads::check(self.kind, object, old, errors);
            }
            _ => others::check(self.kind, object, errors),
        }
        if let Some(custom) = &self.kind.custom {
            custom.check(self.status_only, object, old, errors);
        }
    }
}

/// Whether there may be anything to warn of when objects of a kind are written.
pub fn may_warn(kind: &Kind) -> bool {
    kind.is_custom() || kind.rules == Rules::Definition
}

/// What whoever writes an object is warned of; `old` is what it was.
pub fn warnings(kind: &Kind, old: Option<&Value>, object: &Value) -> Vec<String> {
    match kind.rules {
        Rules::Definition => {
            let before = old.map(definition_schema::unknown_formats).unwrap_or_default();
            let mut new = definition_schema::unknown_formats(object);
            new.retain(|format| !before.contains(format));
            new.iter().map(|format| format!("unrecognized format {format:?}")).collect()
        }
        _ if kind.is_custom() => meta::finalizer_warnings(old, object),
        _ => Vec::new(),
    }
}

fn refuse(errors: Errors) -> Result<()> {
    if errors.is_empty() { Ok(()) } else { Err(Refusal::Invalid(errors)) }
}

/// Refuses to delete what every cluster has.
///
/// # Errors
/// Why.
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
