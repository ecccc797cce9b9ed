//! SeccompProfile (`security-profiles-operator.x-k8s.io/v1beta1`), and the profiles that a pod names.

use std::collections::BTreeSet;

use harbormaster::{
    api::{Pod, Str},
    prelude::*,
    serde::{Deserialize, Deserializer},
};

/// Part of the keys of annotations that name a profile.
const ANNOTATION: &str = "seccomp.security.alpha.kubernetes.io";

/// System calls that the containers of a pod may make.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct SeccompProfile {
    /// `spec`
    pub spec: SeccompProfileSpec,
}

/// `spec` of a [`SeccompProfile`].
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct SeccompProfileSpec {
    /// `syscalls`
    #[serde(deserialize_with = "list")]
    pub syscalls: Vec<Syscalls>,
}

/// System calls with the same action.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", default)]
pub struct Syscalls {
    /// `action`, such as `SCMP_ACT_ALLOW`.
    pub action: Str,
    /// `names`
    #[serde(deserialize_with = "list")]
    pub names: Vec<Str>,
}

/// Reads a list, of which null is an empty one.
fn list<'de, D: Deserializer<'de>, T: Deserialize<'de>>(from: D) -> Result<Vec<T>, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Resource for SeccompProfile {
    const GROUP: &'static str = "security-profiles-operator.x-k8s.io";
    const VERSION: &'static str = "v1beta1";
    const KIND: &'static str = "SeccompProfile";
    const PLURAL: &'static str = "seccompprofiles";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

impl SeccompProfile {
    /// Names of the system calls that are allowed, with or without a log line.
    pub fn allowed(&self) -> impl Iterator<Item = &Str> {
        let allowed = |calls: &&Syscalls| ["SCMP_ACT_ALLOW", "SCMP_ACT_LOG"].contains(&calls.action.as_str());
        self.spec.syscalls.iter().filter(allowed).flat_map(|calls| &calls.names)
    }
}

/// Namespace and name of a profile.
pub type Name = (Str, Str);

/// Profiles that a pod names in security contexts and annotations. Pods with equal sets may make the same system calls.
pub fn named_by(pod: &Pod) -> BTreeSet<Name> {
    let annotations =
        pod.annotations.iter().filter(|(key, _)| key.contains(ANNOTATION)).map(|(_, path)| path);
    pod.spec.seccomp_profiles.iter().chain(annotations).filter_map(|path| name_of(path)).collect()
}

/// Returns the namespace and name in a path such as `operator/NAMESPACE/NAME.json`.
fn name_of(path: &str) -> Option<Name> {
    let (directory, file) = path.rsplit_once('/')?;
    let namespace = directory.rsplit('/').next()?;
    let name = file.rfind('.').map_or(file, |at| &file[..at]);
    (!namespace.is_empty() && !name.is_empty()).then(|| (namespace.into(), name.into()))
}
