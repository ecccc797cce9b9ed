//! Kinds of objects: one table, extended by custom resource definitions.

mod rows;

use std::sync::Arc;

use harbormaster_api::{
    Release,
    features::{Feature, Features},
};

use crate::{admission::defaults::Defaults, custom::Custom};

/// A row of the table of kinds. Singular names and list names are derived from the kind.
#[derive(Clone, Copy)]
struct Row {
    group: &'static str,
    version: &'static str,
    plural: &'static str,
    kind: &'static str,
    short_names: &'static [&'static str],
    flags: Flags,
    fields: &'static [&'static str],
    defaults: Defaults,
    /// Additions of a release.
    added: Option<(Release, Added)>,
    rules: Rules,
    /// The first release that serves the kind, and the feature gate that must be on; `None` for a kind that is always
    /// served.
    gate: Option<(Release, Feature)>,
}

/// Additions of a release to a kind that is already served.
#[derive(Clone, Copy)]
struct Added {
    flags: Flags,
    fields: &'static [&'static str],
    defaults: Defaults,
}

impl Added {
    const NOTHING: Self = Self { flags: 0, fields: &[], defaults: &[] };
}

impl Row {
    /// Returns what the release and earlier ones add.
    fn added_in(&self, release: Release) -> Added {
        match self.added {
            Some((since, added)) if release >= since => added,
            _ => Added::NOTHING,
        }
    }

    fn is_served(&self, features: Features) -> bool {
        self.gate.is_none_or(|(since, gate)| features.release() >= since && features.enabled(gate))
    }
}

/// Boolean properties of a kind.
pub type Flags = u16;

/// Objects of the kind are namespaced.
pub const NAMESPACED: Flags = 1;
/// The kind has the `status` subresource.
pub const STATUS: Flags = 1 << 1;
/// The kind has the `scale` subresource.
pub const SCALE: Flags = 1 << 2;
/// `metadata.generation` counts changes of the spec.
pub const GENERATION: Flags = 1 << 3;
/// The kind is in the category `all`.
pub const ALL: Flags = 1 << 4;
/// A status given on creation is kept.
pub const STATUS_AT_ONCE: Flags = 1 << 5;
/// Updates must name the resource version that they change.
pub const VERSIONED: Flags = 1 << 6;
/// Names are DNS labels rather than subdomains.
pub const LABEL_NAME: Flags = 1 << 7;
/// Names may be anything that fits into a path.
pub const PATH_NAME: Flags = 1 << 8;
/// Deletion responds with the object.
pub const DELETED_OBJECT: Flags = 1 << 9;
/// Creation only returns a result; nothing is stored.
pub const REVIEW: Flags = 1 << 10;
/// With [`GENERATION`]: objects have no generation before their first change.
pub const UNCHANGED_IS_0: Flags = 1 << 11;

/// Set of defaults and checks that apply in addition to those for all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "most are named after the kind that they apply to")]
pub enum Rules {
    /// No additional defaults or checks.
    None,
    Pod,
    Node,
    Namespace,
    PriorityClass,
    /// Workloads, which have replicas, or a template and a selector.
    Workload,
    Job,
    CronJob,
    Budget,
    Service,
    Secret,
    Claim,
    Volume,
    Event,
    Definition,
    Lease,
    Autoscaler,
    RuntimeClass,
    ResourceClaim,
    ResourceClaimTemplate,
    DeviceClass,
    DeviceTaintRule,
    ResourceSlice,
    PodGroup,
    /// `Workload` of `scheduling.k8s.io`, which has templates of pod groups.
    GroupTemplates,
}

impl Rules {
    /// Returns true for the kinds of dynamic resource allocation.
    pub(crate) fn are_of_devices(self) -> bool {
        use Rules::{DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice};
        matches!(self, ResourceClaim | ResourceClaimTemplate | DeviceClass | DeviceTaintRule | ResourceSlice)
    }
}

/// Relation between an object as clients see it and its stored form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Form {
    /// Clients see the stored form.
    Stored,
    /// `events.k8s.io/v1` events, stored as `v1` events.
    NewEvents,
    /// `autoscaling/v1` autoscalers, stored as `autoscaling/v2` autoscalers.
    OldAutoscalers,
    /// Clients see the stored form under another version: it is stored under the given `apiVersion`.
    Version(String),
}

/// A kind of object.
#[derive(Clone, Debug)]
pub struct Kind {
    /// API group; empty for the core group.
    pub group: String,
    /// Version in the group.
    pub version: String,
    /// Resource: `deployments`.
    pub plural: String,
    /// `deployment`.
    pub singular: String,
    /// `Deployment`.
    pub kind: String,
    /// `DeploymentList`.
    pub list_kind: String,
    /// Short names for kubectl.
    pub short_names: Vec<String>,
    /// Categories by which kubectl selects the kind together with other kinds.
    pub categories: Vec<String>,
    /// Flags; see [`NAMESPACED`] and the constants after it.
    pub flags: Flags,
    /// Fields that field selectors may name in addition to `metadata.name` and `metadata.namespace`.
    pub fields: Vec<String>,
    /// Defaults for fields that are not set.
    pub(crate) defaults: [Defaults; 2],
    /// Defaults and checks of the kind's objects.
    pub rules: Rules,
    /// Stored form of the kind's objects.
    pub form: Form,
    /// Version of the custom resource, if the kind is one.
    pub custom: Option<Arc<Custom>>,
    /// Release of Kubernetes, which decides what fields exist.
    pub release: Release,
}

impl Kind {
    /// Returns true if a flag is set.
    pub fn has(&self, flag: Flags) -> bool {
        self.flags & flag != 0
    }

    /// Returns true for a custom resource.
    pub fn is_custom(&self) -> bool {
        self.custom.is_some()
    }

    /// Returns true if objects of the kind are namespaced.
    pub fn is_namespaced(&self) -> bool {
        self.has(NAMESPACED)
    }

    /// Returns the API version: `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// Returns the error message for an object that does not conform to the kind.
    pub fn cannot_be_handled(&self, why: &str) -> String {
        let Self { kind, version, .. } = self;
        format!("{kind} in version \"{version}\" cannot be handled as a {kind}: {why}")
    }

    /// Returns the qualified name: `deployments.apps`.
    pub fn qualified(&self) -> String {
        qualified(&self.plural, &self.group)
    }
}

/// Returns an API version: `apps/v1`, or `v1` for the core group.
pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Returns a qualified name: `deployments.apps`, or `pods` for the core group.
pub fn qualified(plural: &str, group: &str) -> String {
    if group.is_empty() { plural.to_owned() } else { format!("{plural}.{group}") }
}

/// Returns the kinds that a server with the given release and feature gates serves, in table order.
pub fn table(features: Features) -> Vec<Kind> {
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect();
    let kind = |row: &Row| Kind {
        group: row.group.to_owned(),
        version: row.version.to_owned(),
        plural: row.plural.to_owned(),
        singular: row.kind.to_lowercase(),
        kind: row.kind.to_owned(),
        list_kind: format!("{}List", row.kind),
        short_names: texts(row.short_names),
        categories: match row.group {
            _ if row.flags & ALL != 0 => vec!["all".to_owned()],
            "apiextensions.k8s.io" | "apiregistration.k8s.io" | "admissionregistration.k8s.io" => {
                vec!["api-extensions".to_owned()]
            }
            _ => Vec::new(),
        },
        flags: row.flags | row.added_in(features.release()).flags,
        fields: texts(&[row.fields, row.added_in(features.release()).fields].concat()),
        defaults: [row.defaults, row.added_in(features.release()).defaults],
        rules: row.rules,
        form: match (row.group, row.version) {
            ("events.k8s.io", _) => Form::NewEvents,
            ("autoscaling", "v1") => Form::OldAutoscalers,
            ("scheduling.k8s.io", "v1alpha3") => Form::Version("scheduling.k8s.io/v1beta1".to_owned()),
            _ => Form::Stored,
        },
        custom: None,
        release: features.release(),
    };
    rows::ROWS.iter().filter(|row| row.is_served(features)).map(kind).collect()
}

/// Kubernetes kinds that are not in the table or not always served, although other kinds in their groups are.
const LEFT_OUT: &[(&str, &[&str])] = &[
    ("v1", &["Binding", "ComponentStatus"]),
    ("autoscaling/v1", &["Scale"]),
    ("networking.k8s.io/v1", &["IPAddress", "ServiceCIDR"]),
    ("resource.k8s.io/v1beta2", &["DeviceTaintRule"]),
    ("resource.k8s.io/v1alpha3", &["DeviceTaintRule", "ResourcePoolStatusRequest"]),
    ("scheduling.k8s.io/v1beta1", &["PodGroup", "Workload"]),
    ("scheduling.k8s.io/v1alpha2", &["PodGroup", "Workload"]),
    ("scheduling.k8s.io/v1alpha3", &["CompositePodGroup", "PodGroup", "Workload"]),
];

/// Returns true for a Kubernetes kind that is listed as missing from the table or as not always served.
pub fn is_left_out(api_version: &str, kind: &str) -> bool {
    LEFT_OUT.iter().any(|(of, kinds)| *of == api_version && kinds.contains(&kind))
}

/// Returns true for a named group in which only Kubernetes itself can define kinds: a group without a dot. Groups of
/// custom resource definitions contain dots.
pub fn is_own_group(group: &str) -> bool {
    !group.contains('.') && !group.is_empty()
}
