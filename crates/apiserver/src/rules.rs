//! What the API server makes of objects before they are stored: defaults, admission and checks.

mod checks;
pub(crate) mod defaults;
mod definition;
mod meta;
mod node;
mod others;
mod pod;
mod pod_checks;
mod pod_update;
mod priority;
mod service;

#[cfg(test)]
mod tests;

use serde_json::Value;

pub(crate) use definition::{establish, kinds_of_definition};
pub(crate) use meta::stamp;
pub(crate) use priority::SYSTEM_CLASSES;

use crate::{
    Options,
    kinds::{Kind, Kinds, Rules, STATUS, STATUS_AT_ONCE},
    schema,
    shelf::Range,
    status::{Failure, FieldError, Result},
    value::{remove, text},
};

/// What is wrong with an object.
type Errors = Vec<FieldError>;

/// What the rules look at besides the object.
pub(crate) struct Context<'a> {
    pub(crate) options: &'a Options,
    pub(crate) kinds: &'a Kinds,
    pub(crate) kind: &'a Kind,
}

impl Context<'_> {
    /// All objects of a resource.
    fn all(&self, resource: &str) -> Vec<Value> {
        let page = self.kinds.named(resource).and_then(|kind| kind.shelf.list(&Range::ALL, |_| true).ok());
        page.unwrap_or_default().objects.iter().map(|object| object.value()).collect()
    }

    /// Makes a new object ready to be stored, which has its name and namespace already.
    pub(crate) fn create(&self, object: &mut Value) -> Result<()> {
        if self.kind.has(STATUS) && !self.kind.has(STATUS_AT_ONCE) {
            remove(object, "status");
        }
        self.fit(object)?;
        let name = text(object, "/metadata/name").to_owned();
        let about = self.kind.about(&name);
        self.defaults(object);
        match self.kind.rules {
            Rules::Pod => pod::admit(self, object).map_err(|why| Failure::forbidden(about, &why))?,
            Rules::PriorityClass => {
                priority::admit_class(self, object).map_err(|why| Failure::forbidden(about, &why))?;
            }
            Rules::Definition => definition::defaults(object),
            Rules::Service => {
                service::admit(self, None, object).map_err(|errors| Failure::invalid(about, &errors))?;
            }
            _ => others::admit(self, object),
        }
        let mut errors = meta::check(self.kind, object);
        self.check(object, None, &mut errors);
        self.refuse(&name, &errors)
    }

    /// Makes a changed object ready to be stored.
    pub(crate) fn update(&self, old: &Value, object: &mut Value) -> Result<()> {
        self.fit(object)?;
        let name = text(old, "/metadata/name").to_owned();
        let about = self.kind.about(&name);
        self.defaults(object);
        match self.kind.rules {
            Rules::Pod => pod::admit_update(self, old, object),
            Rules::Service => {
                service::admit(self, Some(old), object).map_err(|errors| Failure::invalid(about, &errors))?;
            }
            Rules::PriorityClass => {
                priority::admit_class(self, object).map_err(|why| Failure::forbidden(about, &why))?;
            }
            _ => others::admit_update(self.kind, old, object),
        }
        let mut errors = meta::check_update(self.kind, old, object);
        self.check(object, Some(old), &mut errors);
        self.refuse(&name, &errors)
    }

    /// Makes the object what its type says.
    fn fit(&self, object: &mut Value) -> Result<()> {
        schema::fit(self.kind, object).map_err(|why| Failure::bad_request(self.kind.cannot_be_handled(&why)))
    }

    fn defaults(&self, object: &mut Value) {
        defaults::apply(self.kind.defaults, object);
        match self.kind.rules {
            Rules::Pod => pod::defaults(object),
            Rules::Node => node::defaults(self.options, object),
            _ => others::defaults(self.kind, object),
        }
    }

    fn check(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        match (self.kind.rules, old) {
            (Rules::Pod, None) => pod_checks::check_new(object, errors),
            (Rules::Pod, Some(old)) => pod_update::check(old, object, errors),
            (Rules::Node, _) => node::check(object, errors),
            (Rules::PriorityClass, _) => priority::check(object, old, errors),
            (Rules::Definition, _) => definition::check(object, errors),
            _ => others::check(self.kind, object, old, errors),
        }
    }

    fn refuse(&self, name: &str, errors: &Errors) -> Result<()> {
        if errors.is_empty() { Ok(()) } else { Err(Failure::invalid(self.kind.about(name), errors)) }
    }
}

/// Refuses to delete what every cluster has.
pub(crate) fn check_deletion(kind: &Kind, name: &str) -> std::result::Result<(), &'static str> {
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
