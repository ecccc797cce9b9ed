//! The store's interface for code in the same process, such as stand-ins for controllers: no HTTP, but the same
//! rules.

use std::sync::Arc;

use serde_json::Value;

use super::{Deletion, Manner, Part, Store, Tracking};
use crate::{
    apply::Writer,
    kinds::{Kind, Rules},
    object::{StoredObject, key},
    shelf::Range,
    status::{Failure, Result},
    value::text,
    watch::Watch,
};

impl Store {
    /// Looks up a kind by a name such as `pods` or `deployments.apps`.
    pub(crate) fn kind(&self, resource: &str) -> Result<Arc<Kind>> {
        self.kinds().named(resource).ok_or_else(Failure::no_such_path)
    }

    /// Returns true if a resource such as `pods` or `deployments.apps` is served.
    pub fn serves(&self, resource: &str) -> bool {
        self.kinds().named(resource).is_some()
    }

    /// Looks up a kind by its resource, in the version that the object specifies, if any.
    fn kind_of(&self, resource: &str, object: &Value) -> Result<Arc<Kind>> {
        let (kind, version) = (self.kind(resource)?, text(object, "/apiVersion"));
        let other = version.split_once('/').filter(|(group, _)| *group == kind.group);
        let other = other.and_then(|(group, version)| self.kinds().find(group, version, &kind.plural));
        Ok(other.unwrap_or(kind))
    }

    /// Returns the object with the given name; `namespace` is empty for cluster-scoped kinds. Here and below,
    /// `resource` has the form `pods` or `deployments.apps`.
    ///
    /// # Errors
    /// When there is no such object.
    pub fn get(&self, resource: &str, namespace: &str, name: &str) -> Result<Arc<StoredObject>> {
        let kind = self.kind(resource)?;
        kind.shelf.get(&key(namespace, name)).ok_or_else(|| Failure::not_found(kind.about(name)))
    }

    /// Returns all objects that match both selectors, sorted by namespace and name, and the resource version of the
    /// list. Empty selectors match everything; an empty namespace means all namespaces.
    ///
    /// # Errors
    /// When a selector is invalid.
    pub fn list(
        &self,
        resource: &str,
        namespace: &str,
        labels: &str,
        fields: &str,
    ) -> Result<(Vec<Arc<StoredObject>>, u64)> {
        let kind = self.kind(resource)?;
        let selector = kind.selector(namespace, labels, fields)?;
        let range = Range { namespace, ..Range::ALL };
        let page = kind.shelf.list(&range, |object| selector.matches(object)).unwrap_or_default();
        Ok((page.objects, page.version))
    }

    /// Creates an object. Defaults and checks apply as they do to requests.
    ///
    /// # Errors
    /// When the object is refused.
    pub fn create(&self, resource: &str, object: Value) -> Result<Arc<StoredObject>> {
        let kind = self.kind_of(resource, &object)?;
        let namespace = match text(&object, "/metadata/namespace") {
            "" if kind.is_namespaced() => "default".to_owned(),
            namespace => namespace.to_owned(),
        };
        self.create_in(&kind, &namespace, object, false, Tracking::Nothing)
    }

    /// Changes an object except for its status. `change` is called again if another writer is faster.
    ///
    /// # Errors
    /// When there is no such object, or the change is refused.
    pub fn update(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnMut(&mut Value),
    ) -> Result<Arc<StoredObject>> {
        self.change(resource, namespace, name, Part::Main, change)
    }

    /// Changes the status of an object.
    ///
    /// # Errors
    /// When there is no such object, or the change is refused.
    pub fn update_status(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        change: impl FnMut(&mut Value),
    ) -> Result<Arc<StoredObject>> {
        self.change(resource, namespace, name, Part::Status, change)
    }

    fn change(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        part: Part,
        mut change: impl FnMut(&mut Value),
    ) -> Result<Arc<StoredObject>> {
        let kind = self.kind(resource)?;
        // The components of a real cluster write under these names.
        let manager = if kind.rules == Rules::Pod { "kubelet" } else { "kube-controller-manager" };
        let writer = Writer { manager, subresource: if part == Part::Status { "status" } else { "" } };
        let manner = Manner { part, dry_run: false, tracking: Tracking::Update(writer) };
        self.modify(&kind, namespace, name, manner, |old| {
            let mut new = old.clone();
            change(&mut new);
            Ok(new)
        })
    }

    /// Merges a patch (RFC 7396) into an object, or into its status.
    ///
    /// # Errors
    /// When there is no such object, or the change is refused.
    pub fn merge(
        &self,
        resource: &str,
        namespace: &str,
        name: &str,
        status: bool,
        patch: &Value,
    ) -> Result<Arc<StoredObject>> {
        let part = if status { Part::Status } else { Part::Main };
        self.change(resource, namespace, name, part, |object| json_patch::merge(object, patch))
    }

    /// Deletes an object. Without `grace` (in seconds), the object's own grace period applies; a `grace` of 0 removes
    /// a pod immediately.
    ///
    /// # Errors
    /// When there is no such object.
    pub fn delete(&self, resource: &str, namespace: &str, name: &str, grace: Option<i64>) -> Result<()> {
        let kind = self.kind(resource)?;
        self.delete_in(&kind, namespace, name, &Deletion { grace, ..Deletion::default() }).map(|_| ())
    }

    /// Watches objects that match both selectors: first all existing objects, then all changes.
    ///
    /// # Errors
    /// When a selector is invalid.
    pub fn watch(&self, resource: &str, namespace: &str, labels: &str, fields: &str) -> Result<Watch> {
        let kind = self.kind(resource)?;
        let selector = kind.selector(namespace, labels, fields)?;
        Ok(Watch::from_now(kind.shelf.clone(), namespace, selector))
    }

    /// Binds a pod to a node, as the `binding` subresource does.
    ///
    /// # Errors
    /// When there is no such pod, or the pod is already bound, is being deleted or has scheduling gates.
    pub fn bind(&self, namespace: &str, name: &str, node: &str) -> Result<()> {
        let binding =
            serde_json::json!({"metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
        crate::pods::bind(self, namespace, name, &binding, false)
    }
}
