//! Discovery of the served API, in both formats, and the version of the server.

use serde_json::{Value, json};

use crate::{
    Options,
    kinds::{Kind, Kinds, REVIEW, Rules, api_version},
    request::Request,
    status::{Failure, Result},
};

const VERBS: [&str; 8] = ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// Verbs of namespaces, which cannot be deleted as a collection.
const OF_NAMESPACES: [&str; 7] = ["create", "delete", "get", "list", "patch", "update", "watch"];
/// Verbs of custom resources, in kube-apiserver's order.
const CUSTOM: [&str; 8] = ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];
/// Verbs of a custom resource whose definition is being deleted.
const ENDING: [&str; 5] = ["delete", "deletecollection", "get", "list", "watch"];
const CREATE: [&str; 1] = ["create"];
const WRITE: [&str; 3] = ["get", "patch", "update"];

/// Handles `/version`.
pub(crate) fn version(options: &Options) -> Value {
    let minor = options.minor_version;
    json!({
        "major": "1",
        "minor": minor.to_string(),
        "emulationMajor": "1",
        "emulationMinor": minor.to_string(),
        "minCompatibilityMajor": "1",
        "minCompatibilityMinor": minor.saturating_sub(1).to_string(),
        "gitVersion": options.kubernetes_version(),
        "gitCommit": "harbormaster",
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn verbs(kind: &Kind) -> &'static [&'static str] {
    if let Some(custom) = &kind.custom {
        return if custom.ending { &ENDING } else { &CUSTOM };
    }
    match kind.rules {
        _ if kind.has(REVIEW) => &CREATE,
        Rules::Namespace => &OF_NAMESPACES,
        _ => &VERBS,
    }
}

fn verbs_of_subresource(name: &str) -> &'static [&'static str] {
    if matches!(name, "binding" | "eviction" | "token") { &CREATE } else { &WRITE }
}

/// Returns the kinds in a version of a group, sorted by name.
fn resources<'a>(kinds: &'a Kinds, group: &str, version: &str) -> Vec<&'a Kind> {
    let mut all: Vec<&Kind> = kinds.of_version(group, version).map(AsRef::as_ref).collect();
    all.sort_by_key(|kind| &kind.plural);
    all
}

/// Handles `/api`, `/apis` and the paths of one group or version.
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
            let named = kinds.groups().into_iter().filter(|group| !group.is_empty());
            let groups: Vec<Value> = named.map(|name| group(kinds, name)).collect();
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

/// Returns the version of aggregated discovery that the client accepts, and the content type of the response.
fn aggregated(request: &Request) -> Option<(&'static str, &'static str)> {
    request.accepted().find_map(|accepted| {
        let wanted = |name: &str, value: &str| accepted.parameter(name) == Some(value);
        if !wanted("as", "APIGroupDiscoveryList") || !wanted("g", "apidiscovery.k8s.io") {
            return None;
        }
        let content_types = [
            ("v2", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"),
            ("v2beta1", "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"),
        ];
        content_types.into_iter().find(|(version, _)| wanted("v", version))
    })
}

fn group(kinds: &Kinds, name: &str) -> Value {
    let version = |version| json!({"groupVersion": api_version(name, version), "version": version});
    let versions: Vec<Value> = kinds.versions_of(name).map(version).collect();
    json!({"name": name, "versions": versions, "preferredVersion": versions.first()})
}

fn resource_list(kinds: &Kinds, group: &str, version: &str) -> Result<Value> {
    if !kinds.versions().contains(&(group, version)) {
        return Err(kinds.nothing_there(group));
    }
    let mut entries = Vec::new();
    for kind in resources(kinds, group, version) {
        let mut entry = json!({
            "name": kind.plural,
            "singularName": kind.singular,
            "namespaced": kind.is_namespaced(),
            "kind": kind.kind,
            "verbs": verbs(kind),
        });
        for (name, texts) in [("shortNames", &kind.short_names), ("categories", &kind.categories)] {
            if !texts.is_empty() {
                entry[name] = json!(texts);
            }
        }
        entries.push(entry);
        for (name, (sub_group, sub_version, sub_kind)) in kind.subresources() {
            let mut entry = json!({
                "name": format!("{}/{name}", kind.plural),
                "singularName": "",
                "namespaced": kind.is_namespaced(),
                "kind": sub_kind,
                "verbs": verbs_of_subresource(name),
            });
            if (sub_group, sub_version) != (group, version) {
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
    // The resource list of the core group has no `apiVersion`.
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    Ok(list)
}

fn aggregate(kinds: &Kinds, core: bool, api: &str) -> Value {
    let of_group = |group| {
        let version = |version| {
            let resources = resources(kinds, group, version).into_iter().map(aggregated_resource);
            json!({"version": version, "freshness": "Current", "resources": resources.collect::<Vec<_>>()})
        };
        let versions: Vec<Value> = kinds.versions_of(group).map(version).collect();
        let metadata = if core { json!({}) } else { json!({"name": group}) };
        json!({"metadata": metadata, "versions": versions})
    };
    let groups = kinds.groups().into_iter().filter(|group| group.is_empty() == core);
    let items: Vec<Value> = groups.map(of_group).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": format!("apidiscovery.k8s.io/{api}"),
        "metadata": {},
        "items": items,
    })
}

fn aggregated_resource(kind: &Kind) -> Value {
    let sent = |(group, version, kind): (&str, &str, &str)| json!({"group": group, "version": version, "kind": kind});
    let subresource = |(name, what)| json!({"subresource": name, "responseKind": sent(what), "verbs": verbs_of_subresource(name)});
    json!({
        "resource": kind.plural,
        "responseKind": sent((&kind.group, &kind.version, &kind.kind)),
        "scope": if kind.is_namespaced() { "Namespaced" } else { "Cluster" },
        "singularResource": kind.singular,
        "verbs": verbs(kind),
        "shortNames": kind.short_names,
        "categories": kind.categories,
        "subresources": kind.subresources().into_iter().map(subresource).collect::<Vec<_>>(),
    })
}

/// Returns true for subresources that only a kubelet could serve.
pub(crate) fn needs_kubelet(kind: &Kind, subresource: &str) -> bool {
    let of_pods = ["log", "exec", "attach", "portforward", "proxy"];
    (kind.rules == Rules::Pod && of_pods.contains(&subresource))
        || (kind.rules == Rules::Node && subresource == "proxy")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_the_server_is_that_of_its_options() {
        for (minor, git, oldest) in [(36, "v1.36.1", "35"), (37, "v1.37.2", "36"), (99, "v1.99.0", "98")] {
            let version = version(&Options { minor_version: minor, ..Options::default() });
            assert_eq!(
                (&version["gitVersion"], &version["minCompatibilityMinor"]),
                (&json!(git), &json!(oldest))
            );
            assert_eq!(version["minor"], minor.to_string());
            assert_eq!(version["emulationMinor"], version["minor"]);
        }
    }
}
