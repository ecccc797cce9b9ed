//! What is served: discovery in both forms, and the version.

use serde_json::{Value, json};

use crate::{
    kinds::{Kind, Kinds, Rules, api_version},
    request::Request,
    reviews::REVIEWS,
    status::{Failure, Result},
};

/// The version of Kubernetes whose API this is.
pub const VERSION: &str = "v1.36.3";

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Namespaces are not deleted as a collection.
const OF_NAMESPACES: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
const WRITE: [&str; 3] = ["get", "patch", "update"];

/// `/version`.
pub(crate) fn version() -> Value {
    json!({
        "major": "1",
        "minor": "36",
        "emulationMajor": "1",
        "emulationMinor": "36",
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": "35",
        "gitVersion": VERSION,
        "gitCommit": "harbormaster",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

/// A resource as discovery tells of it.
struct Listed<'a> {
    plural: &'a str,
    singular: String,
    kind: (&'a str, &'a str, &'a str),
    namespaced: bool,
    short_names: &'a [String],
    categories: &'a [String],
    verbs: &'a [&'a str],
    subresources: Vec<(&'static str, (&'a str, &'a str, &'a str), &'static [&'static str])>,
}

fn listed(kind: &Kind) -> Listed<'_> {
    let verbs = |name: &str| -> &'static [&'static str] {
        if matches!(name, "binding" | "eviction") { &VERBS[..1] } else { &WRITE }
    };
    Listed {
        plural: &kind.plural,
        singular: kind.singular.clone(),
        kind: (&kind.group, &kind.version, &kind.kind),
        namespaced: kind.is_namespaced(),
        short_names: &kind.short_names,
        categories: &kind.categories,
        verbs: if kind.rules == Rules::Namespace { &OF_NAMESPACES } else { &VERBS },
        subresources: kind.subresources().into_iter().map(|(name, sent)| (name, sent, verbs(name))).collect(),
    }
}

/// The order in which kube-apiserver lists its groups; those of custom resources come last.
const ORDER: [&str; 14] = [
    "",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "batch",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "resource.k8s.io",
];

/// Groups and versions with all that is in them, the core group first.
fn groups(kinds: &Kinds) -> Vec<(&str, &str)> {
    let mut all = kinds.versions();
    for (group, ..) in REVIEWS {
        if !all.contains(&(group, "v1")) {
            all.push((group, "v1"));
        }
    }
    all.sort_by_key(|(group, _)| ORDER.iter().position(|known| known == group).unwrap_or(ORDER.len()));
    all
}

fn resources<'a>(kinds: &'a Kinds, group: &'a str, version: &'a str) -> Vec<Listed<'a>> {
    let stored = kinds.all().iter().filter(|kind| kind.group == group && kind.version == version);
    let reviews = REVIEWS.iter().filter(|(g, ..)| *g == group && version == "v1");
    let mut all: Vec<Listed<'_>> = stored.map(|kind| listed(kind)).collect();
    all.extend(reviews.map(|(group, plural, kind, namespaced)| Listed {
        plural,
        singular: kind.to_lowercase(),
        kind: (group, "v1", kind),
        namespaced: *namespaced,
        short_names: &[],
        categories: &[],
        verbs: &VERBS[..1],
        subresources: Vec::new(),
    }));
    all.sort_by_key(|listed| listed.plural);
    all
}

/// `/api` and `/apis`, and the lists of one group or version.
pub(crate) fn discover(kinds: &Kinds, request: &Request) -> Result<(Value, &'static str)> {
    const PLAIN: &str = "application/json";
    let path: Vec<&str> = request.path.iter().map(String::as_str).collect();
    if let (["api"] | ["apis"], Some((version, content_type))) = (path.as_slice(), aggregated(request)) {
        return Ok((aggregate(kinds, path == ["api"], version), content_type));
    }
    let value = match path.as_slice() {
        ["api"] => json!({
            "kind": "APIVersions",
            "versions": ["v1"],
            "serverAddressByClientCIDRs": [],
        }),
        ["apis"] => {
            let mut names: Vec<&str> =
                groups(kinds).into_iter().map(|(group, _)| group).filter(|g| !g.is_empty()).collect();
            names.dedup();
            let groups: Vec<Value> = names.into_iter().map(|name| group(kinds, name)).collect();
            json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
        }
        ["api", version] => resource_list(kinds, "", version)?,
        ["apis", name] => {
            let mut group = group(kinds, name);
            if group["versions"].as_array().is_none_or(Vec::is_empty) {
                return Err(Failure::no_such_page());
            }
            group["kind"] = "APIGroup".into();
            group["apiVersion"] = "v1".into();
            group
        }
        ["apis", group, version] => resource_list(kinds, group, version)?,
        _ => return Err(Failure::no_such_path()),
    };
    Ok((value, PLAIN))
}

/// The version of aggregated discovery that the client takes, with the content type of the answer.
fn aggregated(request: &Request) -> Option<(&'static str, &'static str)> {
    request.accepted().find_map(|accepted| {
        let wanted = |name: &str, value: &str| accepted.parameter(name) == Some(value);
        if !wanted("as", "APIGroupDiscoveryList") || !wanted("g", "apidiscovery.k8s.io") {
            return None;
        }
        match accepted.parameter("v") {
            Some("v2") => {
                Some(("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"))
            }
            Some("v2beta1") => {
                Some(("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"))
            }
            _ => None,
        }
    })
}

fn group(kinds: &Kinds, name: &str) -> Value {
    let of_group = groups(kinds).into_iter().filter(|(group, _)| *group == name);
    let versions: Vec<Value> = of_group
        .map(|(group, version)| json!({"groupVersion": api_version(group, version), "version": version}))
        .collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn resource_list(kinds: &Kinds, group: &str, version: &str) -> Result<Value> {
    if !groups(kinds).contains(&(group, version)) {
        return Err(Failure::no_such_path());
    }
    let mut entries = Vec::new();
    for listed in resources(kinds, group, version) {
        let mut entry = json!({
            "name": listed.plural,
            "singularName": listed.singular,
            "namespaced": listed.namespaced,
            "kind": listed.kind.2,
            "verbs": listed.verbs,
        });
        if !listed.short_names.is_empty() {
            entry["shortNames"] = json!(listed.short_names);
        }
        if !listed.categories.is_empty() {
            entry["categories"] = json!(listed.categories);
        }
        entries.push(entry);
        for (name, (sub_group, sub_version, sub_kind), verbs) in &listed.subresources {
            let mut entry = json!({
                "name": format!("{}/{name}", listed.plural),
                "singularName": "",
                "namespaced": listed.namespaced,
                "kind": sub_kind,
                "verbs": verbs,
            });
            if (*sub_group, *sub_version) != (group, version) {
                entry["group"] = json!(sub_group);
                entry["version"] = json!(sub_version);
            }
            entries.push(entry);
        }
    }
    let mut list = json!({
        "kind": "APIResourceList",
        "groupVersion": api_version(group, version),
        "resources": entries,
    });
    // That of the core group does not say what it is a version of.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(list)
}

fn aggregate(kinds: &Kinds, core: bool, api: &str) -> Value {
    let mut items: Vec<(&str, Vec<Value>)> = Vec::new();
    for (group, version) in groups(kinds).into_iter().filter(|(group, _)| group.is_empty() == core) {
        let resources: Vec<Value> =
            resources(kinds, group, version).iter().map(aggregated_resource).collect();
        let version = json!({"version": version, "freshness": "Current", "resources": resources});
        match items.iter_mut().find(|(name, _)| *name == group) {
            Some((_, versions)) => versions.push(version),
            None => items.push((group, vec![version])),
        }
    }
    let items: Vec<Value> = items
        .into_iter()
        .map(|(name, versions)| {
            let metadata = if name.is_empty() { json!({}) } else { json!({"name": name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(listed: &Listed<'_>) -> Value {
    let kind = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let subresources: Vec<Value> = listed
        .subresources
        .iter()
        .map(|(name, sent, verbs)| json!({"subresource": name, "responseKind": kind(*sent), "verbs": verbs}))
        .collect();
    json!({
        "resource": listed.plural,
        "responseKind": kind(listed.kind),
        "scope": if listed.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": listed.singular,
        "verbs": listed.verbs,
        "shortNames": listed.short_names,
        "categories": listed.categories,
        "subresources": subresources,
    })
}

/// Subresources that only a kubelet could answer.
pub(crate) fn needs_kubelet(kind: &Kind, subresource: &str) -> bool {
    let of_pods = ["log", "exec", "attach", "portforward", "proxy"];
    (kind.rules == Rules::Pod && of_pods.contains(&subresource))
        || (kind.rules == Rules::Node && subresource == "proxy")
}
