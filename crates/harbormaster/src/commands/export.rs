//! Everything in a cluster that affects scheduling, read from its API server.

use std::{env, iter, path::PathBuf};

use clap::Args;
use harbormaster_api::device_versions;
use harbormaster_client::{ApiClient, ApiError, ConnectionConfig};
use harbormaster_framework::fetch::Source;
use harbormaster_setup::Setup;
use harbormaster_yaml::Source as Config;
use serde_json::{Value, json};

use super::{Program, server_version};

/// Flags that name a cluster.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct Access {
    /// The kubeconfig [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub(super) kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "NAME")]
    pub(super) context: Option<String>,
}

impl Access {
    /// Returns true if the flags are given.
    #[cfg(feature = "simulate")]
    pub(super) fn is_given(&self) -> bool {
        self.kubeconfig.is_some() || self.context.is_some()
    }

    /// Returns the cluster's address and credentials.
    pub(super) fn connection(&self) -> ConnectionConfig {
        ConnectionConfig {
            kubeconfig: self.kubeconfig.clone().or_else(default_kubeconfig),
            context: self.context.clone(),
            qps: -1.0,
            ..ConnectionConfig::default()
        }
    }
}

/// Returns the kubeconfig that kubectl uses.
fn default_kubeconfig() -> Option<PathBuf> {
    let of_home = || env::home_dir().map(|home| home.join(".kube/config")).filter(|path| path.exists());
    env::var_os("KUBECONFIG").filter(|path| !path.is_empty()).map(PathBuf::from).or_else(of_home)
}

/// A kind to list.
#[derive(Clone, Debug, PartialEq, Eq)]
struct ListedKind {
    group: String,
    version: String,
    plural: String,
    kind: String,
}

/// Kinds that affect scheduling: group, version, and each plural with its kind.
const KINDS: [(&str, &str, &[(&str, &str)]); 8] = [
    (
        "",
        "v1",
        &[
            ("namespaces", "Namespace"),
            ("nodes", "Node"),
            ("persistentvolumes", "PersistentVolume"),
            ("persistentvolumeclaims", "PersistentVolumeClaim"),
            ("services", "Service"),
            ("replicationcontrollers", "ReplicationController"),
            ("pods", "Pod"),
        ],
    ),
    ("scheduling.k8s.io", "v1", &[("priorityclasses", "PriorityClass")]),
    ("scheduling.k8s.io", "v1beta1", &[("podgroups", "PodGroup")]),
    (
        "storage.k8s.io",
        "v1",
        &[
            ("storageclasses", "StorageClass"),
            ("csidrivers", "CSIDriver"),
            ("csinodes", "CSINode"),
            ("csistoragecapacities", "CSIStorageCapacity"),
            ("volumeattachments", "VolumeAttachment"),
        ],
    ),
    (
        "resource.k8s.io",
        "v1",
        &[
            ("deviceclasses", "DeviceClass"),
            ("resourceslices", "ResourceSlice"),
            ("resourceclaimtemplates", "ResourceClaimTemplate"),
            ("resourceclaims", "ResourceClaim"),
        ],
    ),
    (
        "apps",
        "v1",
        &[
            ("deployments", "Deployment"),
            ("replicasets", "ReplicaSet"),
            ("statefulsets", "StatefulSet"),
            ("daemonsets", "DaemonSet"),
        ],
    ),
    ("batch", "v1", &[("jobs", "Job"), ("cronjobs", "CronJob")]),
    ("policy", "v1", &[("poddisruptionbudgets", "PodDisruptionBudget")]),
];

/// Number of objects per list request.
const PAGE: usize = 500;

/// Receives one object after the other.
pub(super) type Receiver<'a> = &'a mut dyn FnMut(Value) -> Result<(), String>;

/// What is read from a cluster.
pub(super) struct Export {
    /// The kinds to list: [`KINDS`], and the kinds that plugins read.
    kinds: Vec<ListedKind>,
    /// Sources of what plugins fetch.
    sources: Vec<Source>,
}

impl Export {
    /// Returns the export for the plugins of a configuration.
    ///
    /// # Errors
    /// If the configuration is wrong.
    pub(super) fn new(program: &Program, config: Option<&Config>) -> Result<Self, String> {
        let listed = |group: &str, version: &str, plural: &str, kind: &str| ListedKind {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            kind: kind.to_owned(),
        };
        let all = KINDS.iter().flat_map(|(group, version, names)| {
            names.iter().map(move |(plural, kind)| listed(group, version, plural, kind))
        });
        let mut export = Self { kinds: all.collect(), sources: Vec::new() };
        let Some(config) = config else { return Ok(export) };
        let setup = Setup::read(Some((&config.name, &config.text)), &program.choices());
        let engine = setup.map_err(|e| e.to_string())?.engine;
        export.sources = engine.sources();
        for resource in engine.resources() {
            let name = resource.name();
            let (group, plural) = (name.group, name.plural);
            if !export.kinds.iter().any(|kind| kind.group == group && kind.plural == plural) {
                export.kinds.push(listed(group, name.version, plural, resource.kind()));
            }
        }
        Ok(export)
    }

    /// Reads all objects, without what scheduling never reads and what may be secret. Returns the minor version of
    /// Kubernetes 1 that the API server serves; `None` if it does not tell.
    ///
    /// # Errors
    /// If the cluster cannot be reached, nodes or pods cannot be listed, or `receive` fails.
    pub(super) fn read(&self, access: &Access, receive: Receiver<'_>) -> Result<Option<u32>, String> {
        super::runtime()?.block_on(async {
            let client = access.connection().client(1).await.map_err(|e| e.to_string())?;
            self.list_all(&client, receive).await?;
            self.fetch_all(&client, receive).await?;
            let version = client.get("/version").await.ok();
            Ok(version.and_then(|version| server_version::parse(&version).ok()).map(|version| version.minor))
        })
    }

    async fn list_all(&self, client: &ApiClient, receive: Receiver<'_>) -> Result<(), String> {
        for kind in &self.kinds {
            if is_custom(kind) {
                definition(client, kind, receive).await?;
            }
            for version in versions(kind) {
                if list(client, kind, version, receive).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    async fn fetch_all(&self, client: &ApiClient, receive: Receiver<'_>) -> Result<(), String> {
        let mut defined = Vec::new();
        for source in &self.sources {
            match harbormaster_driver::fetch_unless_stored(client, source).await {
                // It has been listed.
                None => {}
                Some(Err(why)) => eprintln!("warning: what {} fetches is left out: {why}", source.plugin()),
                Some(Ok(object)) => {
                    if !defined.contains(&source.kind().name()) {
                        defined.push(source.kind().name());
                        receive(made_definition(source))?;
                    }
                    let text = object.json().map_or("", |json| json.as_str());
                    receive(serde_json::from_str(text).map_err(|e| format!("{}: {e}", source.plan.name))?)?;
                }
            }
        }
        Ok(())
    }
}

/// A definition for the objects that a plugin fetches, of which the cluster need not know the kind.
fn made_definition(source: &Source) -> Value {
    let (name, kind) = (source.kind().name(), source.kind().kind());
    let (group, version, plural) = (name.group, name.version, name.plural);
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
        },
    })
}

/// Returns true if the kind is a custom resource, whose definition is read too.
fn is_custom(kind: &ListedKind) -> bool {
    kind.group.contains('.') && !kind.group.ends_with(".k8s.io")
}

async fn definition(client: &ApiClient, kind: &ListedKind, receive: Receiver<'_>) -> Result<(), String> {
    let name = format!("{}.{}", kind.plural, kind.group);
    let path = format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}");
    match client.get(&path).await {
        Ok(reply) => {
            let mut object = serde_json::from_slice(&reply).map_err(|e| format!("{path}: {e}"))?;
            slim(&mut object);
            receive(object)
        }
        Err(error) => left_out(&format!("the definition of {name}"), &error),
    }
}

/// Returns the versions in which the kind can be listed, most preferred first.
fn versions(kind: &ListedKind) -> impl Iterator<Item = &str> {
    let older = if kind.group == device_versions::GROUP { &device_versions::OLDER[..] } else { &[] };
    iter::once(kind.version.as_str()).chain(older.iter().copied())
}

/// Reads all objects of a kind. Returns false if the server does not serve the kind in this version.
async fn list(
    client: &ApiClient,
    kind: &ListedKind,
    version: &str,
    receive: Receiver<'_>,
) -> Result<bool, String> {
    let ListedKind { group, plural, .. } = kind;
    let base = match group.as_str() {
        "" => format!("/api/{version}/{plural}"),
        group => format!("/apis/{group}/{version}/{plural}"),
    };
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut token = String::new();
    loop {
        let path = match token.as_str() {
            "" => format!("{base}?limit={PAGE}"),
            token => format!("{base}?limit={PAGE}&continue={token}"),
        };
        let reply = match client.get(&path).await {
            Ok(reply) => reply,
            // Without nodes and pods, there is nothing to schedule.
            Err(error) if error.code().is_none() || ["nodes", "pods"].contains(&plural.as_str()) => {
                return Err(format!("listing {plural}: {error}"));
            }
            Err(error) => {
                left_out(plural, &error)?;
                return Ok(error.code() != Some(404));
            }
        };
        let mut page: Value = serde_json::from_slice(&reply).map_err(|e| format!("{base}: {e}"))?;
        for mut object in page["items"].as_array_mut().map(std::mem::take).unwrap_or_default() {
            object["apiVersion"] = json!(api_version);
            object["kind"] = json!(kind.kind);
            slim(&mut object);
            receive(object)?;
        }
        token = page["metadata"]["continue"].as_str().unwrap_or_default().to_owned();
        if token.is_empty() {
            return Ok(true);
        }
    }
}

/// Skips objects for which the server returned an error status, and warns of it unless it is 404. Fails if the server
/// returned no status.
fn left_out(what: &str, error: &ApiError) -> Result<(), String> {
    match error.code() {
        // An older server does not serve this kind.
        Some(404) => Ok(()),
        Some(_) => {
            eprintln!("warning: {what} left out: {error}");
            Ok(())
        }
        None => Err(format!("{what}: {error}")),
    }
}

/// Removes fields that scheduling never reads or that may contain secrets: managed fields, the last configuration
/// applied by `kubectl apply`, and the commands, arguments and environment variables of containers.
fn slim(object: &mut Value) {
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        let annotations = metadata.get_mut("annotations").and_then(Value::as_object_mut);
        if let Some(annotations) = annotations {
            annotations.remove("kubectl.kubernetes.io/last-applied-configuration");
        }
    }
    for template in ["/spec", "/spec/template/spec", "/spec/jobTemplate/spec/template/spec"] {
        for containers in ["containers", "initContainers", "ephemeralContainers"] {
            let containers = object.pointer_mut(&format!("{template}/{containers}"));
            for container in containers.and_then(Value::as_array_mut).into_iter().flatten() {
                if let Some(container) = container.as_object_mut() {
                    for field in ["env", "envFrom", "command", "args"] {
                        container.remove(field);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_variables_and_commands_are_removed() {
        let container =
            json!({"name": "c", "image": "i", "env": [{"name": "P", "value": "s"}], "args": ["x"]});
        let mut pod = json!({
            "metadata": {"name": "p", "managedFields": [], "annotations": {
                "kubectl.kubernetes.io/last-applied-configuration": "{}", "a": "b",
            }},
            "spec": {"containers": [container.clone()]},
        });
        slim(&mut pod);
        assert_eq!(
            pod,
            json!({
                "metadata": {"name": "p", "annotations": {"a": "b"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            })
        );
        let mut cron_job = json!({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"initContainers": [container]}}}}}});
        slim(&mut cron_job);
        assert!(!cron_job.to_string().contains("env"), "{cron_job}");
    }
}
