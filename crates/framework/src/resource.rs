//! Resources: kinds of objects that plugins define as Rust types. Most of them are custom resources, hence names such
//! as [`Custom`]. Kubernetes' own kinds are defined the same way, with their group (empty for the core group).
//!
//! ```
//! use harbormaster_framework::prelude::*;
//!
//! /// A team, and the namespaces whose pods may use its nodes.
//! #[derive(serde::Deserialize)]
//! struct Team {
//!     spec: TeamSpec,
//! }
//!
//! #[derive(serde::Deserialize)]
//! struct TeamSpec {
//!     namespaces: Vec<String>,
//! }
//!
//! impl Resource for Team {
//!     const GROUP: &'static str = "example.com";
//!     const VERSION: &'static str = "v1";
//!     const KIND: &'static str = "Team";
//!     const PLURAL: &'static str = "teams";
//!     const SCOPE: ResourceScope = ResourceScope::Cluster;
//! }
//! ```
//!
//! A plugin or an index declares such a kind with [`Watches`] and reads it with [`Watches::watched`]. The host then
//! supplies the objects, decoded once and without their managed fields. An object that cannot be decoded is reported and
//! treated as absent until a version arrives that can be decoded.
//!
//! The engine itself decodes the objects, so that a recording can be replayed.

mod metadata;
mod raw;
mod watches;

use std::{
    any::{Any, TypeId},
    fmt,
    ops::{Deref, DerefMut},
    sync::Arc,
};

use harbormaster_api::{
    Labels, Str, Timestamp,
    features::{Feature, Features},
    pod::OwnerReference,
    protobuf::Message,
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::Value;
use thiserror::Error;

use raw::Field;

pub use raw::{RawContent, RawObject};
pub use watches::{ResourceSet, Watched, Watches};

/// A kind of API object and its Rust type, into which serde decodes whole objects. Fields that the type lacks are
/// ignored; fields that the API server may omit need a default.
pub trait Resource: DeserializeOwned + Send + Sync + 'static {
    /// API group, for example `example.com`.
    const GROUP: &'static str;
    /// API version in which objects are read, for example `v1`.
    const VERSION: &'static str;
    /// Kind, for example `Team`.
    const KIND: &'static str;
    /// Plural name, for example `teams`.
    const PLURAL: &'static str;
    /// Scope of the objects.
    const SCOPE: ResourceScope;
    /// Versions that are used if the API server does not serve [`Self::VERSION`], most preferred first.
    const OLDER_VERSIONS: &'static [OlderVersion] = &[];
    /// Feature gate without which the kind is not watched, so that it has no objects.
    const GATE: Option<Feature> = None;
    /// Layout of the objects in protobuf, which API servers send only for Kubernetes' own kinds. If all types of a kind
    /// have it, the host requests protobuf instead of JSON. The fields that are decoded must be among those of the layout.
    const PROTOBUF: Option<&'static Message> = None;

    /// Value by which [`Watched::with_key`] finds the object, for example a field of its spec that others refer to.
    /// Several objects may have the same key. By default, objects have none.
    fn key(&self) -> Option<&Str> {
        None
    }
}

/// An older version of a kind. The host converts the objects that it receives and sends, so plugins see only
/// [`Resource::VERSION`].
#[derive(Clone, Copy, Debug)]
pub struct OlderVersion {
    /// Name, for example `v1beta1`.
    pub name: &'static str,
    /// Converts an object or a part of it from this version. Must not fail: it leaves unknown fields alone.
    pub upgrade: fn(&mut Value),
    /// Converts an object or a part of it, such as a patch, to this version. Must not fail either.
    pub downgrade: fn(&mut Value),
}

/// Scope of the objects of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResourceScope {
    /// Every object is in a namespace.
    Namespaced,
    /// No object is in a namespace; the namespace is empty.
    Cluster,
}

/// Name of a kind in the API server. Prints as `<plural>.<version>.<group>`, kube-scheduler's form.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ResourceName {
    /// See [`Resource::PLURAL`].
    pub plural: &'static str,
    /// See [`Resource::VERSION`].
    pub version: &'static str,
    /// See [`Resource::GROUP`].
    pub group: &'static str,
}

impl ResourceName {
    /// The name of kind `R`.
    pub const fn of<R: Resource>() -> Self {
        Self { plural: R::PLURAL, version: R::VERSION, group: R::GROUP }
    }
}

impl fmt::Display for ResourceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.plural, self.version, self.group)
    }
}

/// An object of a custom resource: its metadata and a value of the author's type, to which it dereferences.
#[derive(Clone, Debug)]
pub struct Custom<R> {
    /// `metadata`.
    pub metadata: Metadata,
    /// The whole object, decoded into the author's type.
    pub object: R,
}

impl<R> Deref for Custom<R> {
    type Target = R;
    fn deref(&self) -> &R {
        &self.object
    }
}

impl<R> DerefMut for Custom<R> {
    fn deref_mut(&mut self) -> &mut R {
        &mut self.object
    }
}

/// `metadata` of a custom object, reduced to what schedulers read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata {
    /// `name`
    pub name: Str,
    /// `namespace`; empty for [`ResourceScope::Cluster`].
    pub namespace: Str,
    /// `uid`
    pub uid: Str,
    /// `resourceVersion`: equal versions mean that the object is unchanged; nothing else may be inferred from them.
    pub resource_version: Str,
    /// `generation`: increases with every change of the desired state.
    pub generation: i64,
    /// `labels`
    pub labels: Labels,
    /// `annotations`
    pub annotations: Labels,
    /// `ownerReferences`
    pub owners: Vec<OwnerReference>,
    /// The entry of [`Self::owners`] that manages the object (`controller: true`).
    pub controller: Option<OwnerReference>,
    /// `deletionTimestamp`: set once the object is being deleted.
    pub deletion_timestamp: Option<Timestamp>,
}

/// Key of a custom object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CustomKey {
    /// A [`ResourceName`], printed.
    pub resource: Str,
    /// `metadata.namespace`; empty if the object has none.
    pub namespace: Str,
    /// `metadata.name`.
    pub name: Str,
}

impl CustomKey {
    /// Returns true if the key names an object of kind `R`.
    pub fn is_of<R: Resource>(&self) -> bool {
        let rest = self.resource.strip_prefix(R::PLURAL).and_then(|rest| rest.strip_prefix('.'));
        let rest =
            rest.and_then(|rest| rest.strip_prefix(R::VERSION)).and_then(|rest| rest.strip_prefix('.'));
        rest == Some(R::GROUP)
    }
}

/// Error for a custom object that cannot be decoded and is therefore treated as absent.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kind} {name:?} counts as absent: {}{}{message}", field, if field.is_empty() { "" } else { ": " })]
pub struct Undecodable {
    /// See [`Resource::KIND`].
    pub kind: &'static str,
    /// `namespace/name`, or the name alone if there is no namespace.
    pub name: String,
    /// Path of the field, for example `spec.namespaces[0]`; empty for the object itself.
    pub field: String,
    /// The decoding error.
    pub message: String,
}

/// A decoded object, a [`Custom`] with its type erased.
pub type AnyCustom = Arc<dyn Any + Send + Sync>;

/// Returns [`Resource::key`] of an object whose type is erased.
type Key = fn(&AnyCustom) -> Option<&Str>;

type Decode = fn(&RawObject) -> Result<AnyCustom, Undecodable>;

/// A [`Resource`] with its type erased.
#[derive(Clone, Copy)]
pub struct ResourceKind {
    type_id: TypeId,
    name: ResourceName,
    kind: &'static str,
    older_versions: &'static [OlderVersion],
    gate: Option<Feature>,
    has_protobuf: bool,
    decode: Decode,
    key: Key,
}

impl ResourceKind {
    /// Returns the kind for type `R`.
    pub fn of<R: Resource>() -> Self {
        let decode: Decode = |raw| Ok(Arc::new(decode::<R>(&raw.key, &raw.content)?));
        Self {
            type_id: TypeId::of::<R>(),
            name: ResourceName::of::<R>(),
            kind: R::KIND,
            older_versions: R::OLDER_VERSIONS,
            gate: R::GATE,
            has_protobuf: R::PROTOBUF.is_some(),
            decode,
            key: |object| object.downcast_ref::<Custom<R>>()?.object.key(),
        }
    }

    /// Name in the API server.
    pub fn name(&self) -> ResourceName {
        self.name
    }

    /// See [`Resource::KIND`].
    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// See [`Resource::OLDER_VERSIONS`].
    pub fn older_versions(&self) -> &'static [OlderVersion] {
        self.older_versions
    }

    /// Returns true if objects can be decoded from protobuf; see [`Resource::PROTOBUF`].
    pub fn has_protobuf(&self) -> bool {
        self.has_protobuf
    }

    /// Notes that another type decodes the same objects.
    pub fn share_objects_with(&mut self, other: &Self) {
        self.has_protobuf &= other.has_protobuf;
    }

    /// Returns true if the kind is watched when these feature gates apply; see [`Resource::GATE`].
    pub(crate) fn is_watched(&self, features: Features) -> bool {
        self.gate.is_none_or(|gate| features.enabled(gate))
    }

    /// Returns [`Resource::key`] of an object of this kind.
    pub(crate) fn key<'a>(&self, object: &'a AnyCustom) -> Option<&'a Str> {
        (self.key)(object)
    }

    /// Returns true if both kinds have the same Rust type.
    pub fn is_same(&self, other: &Self) -> bool {
        self.type_id == other.type_id
    }

    /// Returns true if this is the kind for type `R`.
    pub(crate) fn is<R: Resource>(&self) -> bool {
        self.type_id == TypeId::of::<R>()
    }

    /// Decodes an object into the plugin's type.
    ///
    /// # Errors
    /// If a field cannot be decoded. The error names the field.
    pub fn decode(&self, raw: &RawObject) -> Result<AnyCustom, Undecodable> {
        (self.decode)(raw)
    }
}

impl fmt::Debug for ResourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ResourceKind({})", self.name)
    }
}

/// An object of some kind before and after a change.
#[derive(Clone, Debug)]
pub struct CustomChange {
    /// The kind.
    pub resource: ResourceName,
    /// `None` if the object is new or its old version could not be decoded.
    pub old: Option<AnyCustom>,
    /// `None` if the object was deleted or its new version cannot be decoded.
    pub new: Option<AnyCustom>,
}

/// An object of a kind before and after a change; at least one version is present.
#[derive(Debug)]
pub struct Changed<'a, R> {
    /// `None` if the object is new or its old version could not be decoded.
    pub old: Option<&'a Custom<R>>,
    /// `None` if the object was deleted or its new version cannot be decoded.
    pub new: Option<&'a Custom<R>>,
}

impl<R> Clone for Changed<'_, R> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<R> Copy for Changed<'_, R> {}

/// Decodes an object.
pub(crate) fn decode<R: Resource>(key: &CustomKey, content: &RawContent) -> Result<Custom<R>, Undecodable> {
    let wrong = |Field { path: field, problem: message }| {
        let name = match key.namespace.is_empty() {
            true => key.name.to_string(),
            false => format!("{}/{}", key.namespace, key.name),
        };
        Undecodable { kind: R::KIND, name, field, message }
    };
    let misplaced = |problem: &str| wrong(Field::new("metadata.namespace", problem));
    match (R::SCOPE, key.namespace.is_empty()) {
        (ResourceScope::Cluster, false) => {
            Err(misplaced("the object has a namespace, but the plugin declares the kind as cluster-scoped"))
        }
        (ResourceScope::Namespaced, true) => {
            Err(misplaced("the object has no namespace, but the plugin declares the kind as namespaced"))
        }
        (ResourceScope::Cluster, true) | (ResourceScope::Namespaced, false) => {
            let metadata = metadata::read(key, content).map_err(wrong)?;
            Ok(Custom { metadata, object: content.read(R::PROTOBUF).map_err(wrong)? })
        }
    }
}

/// Decodes an object that has already been parsed. The object is converted back to text, so that there is only one
/// decoder for each type.
pub(crate) fn decode_value<R: Resource>(key: &CustomKey, json: &Value) -> Result<Custom<R>, Undecodable> {
    decode(key, &RawContent::Json(json.to_string().into()))
}

#[cfg(test)]
mod tests {
    use harbormaster_api::protobuf::messages;
    use serde_json::json;

    use super::*;
    use crate::{
        events::{Action, Registration},
        implemented_points,
        plugin::Plugin,
        profile::{Profile, ProfileSpec},
        registry::{Build, BuildCycle, Registry},
    };

    #[derive(Debug, Deserialize)]
    struct Team {
        spec: TeamSpec,
    }

    #[derive(Debug, Deserialize)]
    struct TeamSpec {
        namespaces: Vec<String>,
    }

    impl Resource for Team {
        const GROUP: &'static str = "example.com";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "Team";
        const PLURAL: &'static str = "teams";
        const SCOPE: ResourceScope = ResourceScope::Namespaced;
    }

    fn key(resource: &str) -> CustomKey {
        CustomKey { resource: resource.into(), namespace: "a".into(), name: "red".into() }
    }

    fn decoded(json: &serde_json::Value) -> Result<Custom<Team>, Undecodable> {
        decode(&key("teams.v1.example.com"), &RawContent::Json(json.to_string().into()))
    }

    #[test]
    fn a_key_names_one_kind() {
        assert!(key("teams.v1.example.com").is_of::<Team>());
        for other in ["teams.v2.example.com", "team.v1.example.com", "teams.v1.example.co", "teams.v1", ""] {
            assert!(!key(other).is_of::<Team>(), "{other}");
        }
    }

    #[test]
    fn an_object_is_decoded_into_metadata_and_the_authors_type() {
        let red = decoded(&json!({
            "apiVersion": "example.com/v1",
            "kind": "Team",
            "metadata": {
                "name": "red", "namespace": "a", "uid": "u", "resourceVersion": "7", "generation": 2,
                "labels": {"b": "c"}, "annotations": null, "deletionTimestamp": "2026-01-01T00:00:00Z",
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "o"},
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "c", "controller": true},
                    {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "d", "controller": null},
                ],
                "managedFields": [{"manager": "x"}],
            },
            "spec": {"namespaces": ["paint"]},
        }));
        let red = red.unwrap();
        assert_eq!(red.spec.namespaces, ["paint"]);
        let owner = |kind: &str, name: &str, uid: &str| OwnerReference {
            api_version: "v1".into(),
            kind: kind.into(),
            name: name.into(),
            uid: uid.into(),
        };
        let metadata = Metadata {
            name: "red".into(),
            namespace: "a".into(),
            uid: "u".into(),
            resource_version: "7".into(),
            generation: 2,
            labels: [("b", "c")].into_iter().collect(),
            annotations: Labels::default(),
            owners: vec![owner("Node", "n", "o"), owner("Pod", "p", "c"), owner("Pod", "p", "d")],
            controller: Some(owner("Pod", "p", "c")),
            deletion_timestamp: Some(Timestamp::from_secs(1_767_225_600)),
        };
        assert_eq!(red.metadata, metadata);
    }

    #[test]
    fn a_decoding_error_names_the_object_and_the_field() {
        for (json, expected) in [
            (
                json!({"metadata": {}, "spec": {"namespaces": [1]}}),
                "Team \"a/red\" counts as absent: spec.namespaces[0]: invalid type: integer `1`, expected a string",
            ),
            (json!({"metadata": {}}), "Team \"a/red\" counts as absent: missing field `spec`"),
            (json!({"spec": {}}), "Team \"a/red\" counts as absent: missing field `metadata`"),
            (
                json!({"metadata": {"deletionTimestamp": "soon"}}),
                "Team \"a/red\" counts as absent: metadata.deletionTimestamp: ",
            ),
        ] {
            let why = decoded(&json).unwrap_err().to_string();
            assert!(why.starts_with(expected), "{why}");
        }
    }

    #[derive(Debug, Deserialize)]
    struct Slice {
        spec: SliceSpec,
    }

    #[derive(Debug, Deserialize)]
    struct SliceSpec {
        pool: Option<Box<str>>,
        driver: Str,
    }

    impl Resource for Slice {
        const GROUP: &'static str = "resource.k8s.io";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "ResourceSlice";
        const PLURAL: &'static str = "resourceslices";
        const SCOPE: ResourceScope = ResourceScope::Cluster;
        const PROTOBUF: Option<&'static Message> = Some(&messages::devices::RESOURCE_SLICE);
    }

    #[test]
    fn an_object_in_protobuf_is_decoded_by_the_layout_of_its_kind() {
        let key = CustomKey { resource: "".into(), namespace: "".into(), name: "s".into() };
        let decoded = |bytes: &[u8]| decode::<Slice>(&key, &RawContent::Protobuf(bytes.into()));
        // Metadata with a UID, then a spec with a driver.
        let slice = decoded(b"\x0a\x03\x2a\x01u\x12\x03\x0a\x01d").unwrap();
        assert_eq!((slice.spec.driver.as_str(), slice.metadata.uid.as_str()), ("d", "u"));
        assert!(slice.spec.pool.is_none());
        for (bytes, expected) in [
            (&b"\x0a\x00\x12\x02\x12\x00"[..], "spec.pool: invalid type: map, expected a string"),
            (b"\x0a\x00\x12\x00", "spec: missing field `driver`"),
            (b"\x0a\x00\x12\x05\x0a", "the message ends too early"),
        ] {
            let why = decoded(bytes).unwrap_err().to_string();
            assert_eq!(why, format!("ResourceSlice \"s\" counts as absent: {expected}"));
        }
        let without_layout = decode::<Team>(&self::key(""), &RawContent::Protobuf([].into())).unwrap_err();
        assert_eq!(without_layout.message, "the type has no layout in protobuf");
    }

    macro_rules! listener {
        ($name:ident) => {
            #[derive(Default)]
            struct $name;

            impl Plugin for $name {
                const NAME: &'static str = "Listener";
                implemented_points!();
                fn events(&self) -> Option<Vec<Registration<Self>>> {
                    Some(vec![Registration::on::<Team>(Action::ADD, |_, _, _| {
                        Ok(crate::events::Hint::Queue)
                    })])
                }
            }
        };
    }

    listener!(Watching);
    listener!(NotWatching);

    /// A kind that is watched only if a gate is on.
    #[derive(serde::Deserialize)]
    struct Gated {}

    impl Resource for Gated {
        const GROUP: &'static str = "example.com";
        const VERSION: &'static str = "v1";
        const KIND: &'static str = "Gated";
        const PLURAL: &'static str = "gated";
        const SCOPE: ResourceScope = ResourceScope::Cluster;
        const GATE: Option<Feature> = Some(Feature::DRADeviceTaintRules);
    }

    #[derive(Default)]
    struct Careful;

    impl Plugin for Careful {
        const NAME: &'static str = "Listener";
        implemented_points!();
    }

    impl Watches for Careful {
        type Resources = (Team, Gated);
    }

    impl crate::plugin::Filter for Careful {
        fn filter(
            &self,
            _: &crate::cycle::Cycle<'_>,
            (): &(),
            _: crate::table::NodeRef<'_>,
        ) -> crate::outcome::Verdict {
            Ok(())
        }
    }

    #[test]
    fn a_kind_whose_gate_is_off_is_not_watched() {
        for (on, expected) in [(false, vec!["Team"]), (true, vec!["Team", "Gated"])] {
            let mut registry = Registry::default();
            registry.register::<Careful>();
            let features = Features::default().with(Feature::DRADeviceTaintRules, on);
            let plugin = registry.build("Listener", None, &BuildCycle { features }).unwrap();
            let kinds: Vec<_> = plugin.resources().iter().map(ResourceKind::kind).collect();
            assert_eq!(kinds, expected);
        }
    }

    impl Watches for Watching {
        type Resources = Team;
    }

    fn built<P: Build>() -> Result<Profile, String> {
        let mut registry = Registry::default();
        registry.register::<P>();
        let filter = harbormaster_api::points::ExtensionPoint::Filter;
        let points = vec![(filter, vec![("Listener".to_owned(), 1)])];
        let spec = ProfileSpec { name: "p".into(), points, ..ProfileSpec::default() };
        Profile::build(&spec, &registry, &BuildCycle::default()).map_err(|error| error.source.to_string())
    }

    #[test]
    fn a_plugin_must_watch_the_kinds_that_it_listens_to() {
        assert_eq!(built::<Watching>().unwrap().resources().len(), 1);
        let unnamed = built::<NotWatching>().unwrap_err();
        assert!(
            unnamed.starts_with("plugin \"Listener\" listens for changes to teams.v1.example.com"),
            "{unnamed}"
        );
    }
}
