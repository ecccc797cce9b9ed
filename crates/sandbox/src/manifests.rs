//! Loading of manifests into the store.

use std::{collections::HashMap, sync::Arc};

use harbormaster_apiserver::{Failure, Store, StoredObject};
use harbormaster_manifests::{Manifest, Manifests, ReadOptions};
use harbormaster_validation::{
    kinds::Rules,
    value::{list_mut, name},
};
use serde_json::{Value, json};

use crate::{
    Options,
    fields::{annotation, is_ending, uid},
    nodes,
    sandbox::SandboxError,
};

/// Puts generated nodes and the objects of manifests into the store. Returns notices for the user.
pub(crate) fn load(store: &Store, options: &Options) -> Result<Vec<String>, SandboxError> {
    let made_nodes = options.nodes;
    let made: Vec<Value> = nodes::made(made_nodes).collect();
    let names: Vec<String> = made.iter().map(|node| name(node).to_owned()).collect();
    let read_options = ReadOptions {
        validate: options.validate,
        reschedule_missing: options.reschedule_missing,
        edits: &[],
        extra_nodes: &names,
        features: options.features,
    };
    let manifests = Manifests::read(&options.manifests, read_options, |_, _| Ok(()))?;
    let mut wrong = Vec::new();
    if made_nodes > 0 && !has_class(&manifests) {
        let created = store.create("storageclasses.storage.k8s.io", nodes::standard_class());
        wrong.extend(created.err().map(|failure| format!("--nodes: {failure}")));
    }
    let (mut nodes, version) = (0, store.kubernetes_version());
    for mut node in made {
        nodes += 1;
        nodes::complete(&mut node, nodes, &version);
        if let Err(failure) = store.create("nodes", node) {
            wrong.push(format!("--nodes: {failure}"));
        }
    }
    // Owners get new UIDs, so references to them must be updated.
    let mut identities: HashMap<String, Value> = HashMap::new();
    // Resource claims refer to the pods that own and use them, so the claims come last.
    let is_claim = |manifest: &&Manifest| manifest.kind.rules == Rules::ResourceClaim;
    let objects = manifests.objects.iter();
    for manifest in objects.clone().filter(|manifest| !is_claim(manifest)).chain(objects.filter(is_claim)) {
        let mut value = manifest.value();
        if is_ending(&value) {
            continue;
        }
        if manifest.kind.rules == Rules::Node {
            nodes += 1;
            nodes::complete(&mut value, nodes, &version);
        }
        let old = uid(&value).to_owned();
        if let Some(metadata) = value.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.remove("uid");
        }
        for references in ["/metadata/ownerReferences", "/status/reservedFor"] {
            for reference in list_mut(&mut value, references) {
                if let Some(new) = reference["uid"].as_str().and_then(|uid| identities.get(uid)) {
                    reference["uid"] = new.clone();
                }
            }
        }
        let resource = manifest.kind.qualified();
        // Objects common to all clusters exist already. They get only the labels and annotations of the manifest.
        let created = match store.get(&resource, &manifest.namespace, &manifest.name) {
            Ok(_) if made_nodes > 0 && manifest.kind.rules == Rules::Node => store.create(&resource, value),
            Ok(_) => {
                let metadata = &value["metadata"];
                let patch = json!({"metadata": {
                    "labels": given(&metadata["labels"]), "annotations": given(&metadata["annotations"]),
                }});
                store.merge(&resource, &manifest.namespace, &manifest.name, false, &patch)
            }
            Err(_) if manifest.kind.is_custom() || is_claim(&manifest) => {
                create_with_status(store, &resource, &manifest.namespace, value)
            }
            Err(_) => store.create(&resource, value),
        };
        match created {
            Ok(object) if !old.is_empty() => {
                identities.insert(old, object.value()["metadata"]["uid"].clone());
            }
            Ok(_) => {}
            Err(failure) => {
                wrong.push(format!(
                    "{}:{}: {}: {failure}",
                    manifest.location.file,
                    manifest.location.line,
                    manifest.label()
                ));
            }
        }
    }
    if wrong.is_empty() { Ok(manifests.notices()) } else { Err(SandboxError::Manifest(wrong.join("\n"))) }
}

/// Returns true if manifests contain a default class, or a class with the name of the generated one.
fn has_class(manifests: &Manifests) -> bool {
    let classes = manifests.objects.iter().filter(|manifest| manifest.kind.kind == "StorageClass");
    let is_default = |class: &Value| annotation(class, nodes::DEFAULT_CLASS) == Some("true");
    classes.clone().any(|class| class.name == nodes::STANDARD || is_default(&class.value()))
}

/// Creates a custom object or a resource claim with the status from the manifest. No controller in the sandbox would
/// set the status, and the API server ignores the status on creation if it is a subresource.
fn create_with_status(
    store: &Store,
    resource: &str,
    namespace: &str,
    value: Value,
) -> Result<Arc<StoredObject>, Failure> {
    let status = value.get("status").cloned();
    let created = store.create(resource, value)?;
    let Some(status) = status.filter(|status| created.value().get("status") != Some(status)) else {
        return Ok(created);
    };
    store.merge(resource, namespace, created.name(), true, &json!({"status": status}))
}

/// Returns a map to merge. If `map` is not a map, returns an empty one, which changes nothing.
fn given(map: &Value) -> Value {
    if map.is_object() { map.clone() } else { json!({}) }
}
