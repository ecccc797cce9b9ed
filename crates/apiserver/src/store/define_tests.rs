use serde_json::{Value, json};

use crate::{ApiServer, Options, Store, kinds::Kind};

const DEFINITIONS: &str = "customresourcedefinitions.apiextensions.k8s.io";
const THINGS: &str = "things.example.com";

fn store() -> Store {
    ApiServer::new(Options::default()).store()
}

fn definition(names: &Value, versions: &Value) -> Value {
    let name = format!("{}.example.com", names["plural"].as_str().unwrap());
    let spec = json!({"group": "example.com", "scope": "Namespaced", "names": names, "versions": versions});
    json!({"metadata": {"name": name}, "spec": spec})
}

fn version(name: &str, stored: bool, properties: &Value) -> Value {
    json!({"name": name, "served": true, "storage": stored, "subresources": {"status": {}},
           "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}})
}

/// Creates a store that serves `things`, which have a numeric size.
fn with_things() -> Store {
    let store = store();
    let spec = json!({"type": "object", "properties": {"size": {"type": "integer", "default": 1}}});
    let status = json!({"type": "object", "properties": {"phase": {"type": "string"}}});
    let properties = json!({"spec": spec, "status": status});
    let versions = json!([version("v1", true, &properties), version("v2", false, &properties)]);
    let names = json!({"plural": "things", "kind": "Thing"});
    store.create(DEFINITIONS, definition(&names, &versions)).unwrap();
    store
}

fn value(store: &Store, resource: &str, namespace: &str, name: &str) -> Value {
    store.get(resource, namespace, name).unwrap().value()
}

fn conditions(definition: &Value) -> Vec<(&str, &str)> {
    let all = definition["status"]["conditions"].as_array().unwrap().iter();
    all.map(|one| (one["type"].as_str().unwrap(), one["reason"].as_str().unwrap())).collect()
}

#[test]
fn a_definition_is_established_immediately_and_its_schema_applies_to_its_objects() {
    let store = with_things();
    let made = value(&store, DEFINITIONS, "", THINGS);
    let expected = [("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted")];
    assert_eq!(conditions(&made), expected);
    assert_eq!(made["status"]["acceptedNames"]["listKind"], json!("ThingList"));
    assert_eq!(made["status"]["storedVersions"], json!(["v1"]));
    store
        .create(THINGS, json!({"metadata": {"name": "t"}, "spec": {"odd": 1}, "status": {"phase": "x"}}))
        .unwrap();
    let thing = value(&store, THINGS, "default", "t");
    assert_eq!((&thing["spec"], &thing["status"]), (&json!({"size": 1}), &Value::Null));
    let wrong =
        store.create(THINGS, json!({"metadata": {"name": "u"}, "spec": {"size": "big"}})).unwrap_err();
    assert!(wrong.message.contains("spec.size in body must be of type integer"), "{wrong}");
    let shown = |kind: &Kind| crate::forms::shown(kind, &store.get(THINGS, "default", "t").unwrap());
    let newer = store.kinds().find("example.com", "v2", "things").unwrap();
    assert_eq!(shown(&newer)["apiVersion"], json!("example.com/v2"));
}

#[test]
fn the_status_is_changed_separately_and_only_spec_changes_increment_the_generation() {
    let store = with_things();
    store.create(THINGS, json!({"metadata": {"name": "t"}, "spec": {"size": 1}})).unwrap();
    let generation = |thing: &Value| thing["metadata"]["generation"].as_i64().unwrap();
    let patch = json!({"spec": {"size": 5}, "status": {"phase": "ready"}});
    let thing = store.merge(THINGS, "default", "t", true, &patch).unwrap().value();
    assert_eq!((&thing["spec"]["size"], &thing["status"]["phase"]), (&json!(1), &json!("ready")));
    assert_eq!(generation(&thing), 1);
    let patch = json!({"spec": {"size": 5}, "status": {"phase": "lost"}});
    let thing = store.merge(THINGS, "default", "t", false, &patch).unwrap().value();
    assert_eq!((&thing["spec"]["size"], &thing["status"]["phase"]), (&json!(5), &json!("ready")));
    assert_eq!(generation(&thing), 2);
}

#[test]
fn a_definition_waits_for_names_that_are_taken() {
    let store = with_things();
    let names = json!({"plural": "others", "kind": "Other", "shortNames": ["things"]});
    let versions = json!([version("v1", true, &json!({}))]);
    store.create(DEFINITIONS, definition(&names, &versions)).unwrap();
    let other = value(&store, DEFINITIONS, "", "others.example.com");
    assert_eq!(conditions(&other), [("NamesAccepted", "ShortNamesConflict"), ("Established", "NotAccepted")]);
    assert_eq!(other["status"]["conditions"][0]["message"], json!("\"things\" is already in use"));
    assert_eq!(store.list("others.example.com", "", "", "").unwrap_err().code, 404);
    store.delete(DEFINITIONS, "", THINGS, None).unwrap();
    let other = value(&store, DEFINITIONS, "", "others.example.com");
    assert_eq!(
        conditions(&other),
        [("NamesAccepted", "NoConflicts"), ("Established", "InitialNamesAccepted")]
    );
    assert!(store.list("others.example.com", "", "", "").unwrap().0.is_empty());
}

#[test]
fn a_definition_is_removed_once_its_objects_are_gone() {
    let store = with_things();
    store.create(THINGS, json!({"metadata": {"name": "a"}})).unwrap();
    let held = json!({"metadata": {"name": "b", "finalizers": ["example.com/hold"]}});
    store.create(THINGS, held).unwrap();
    store.delete(DEFINITIONS, "", THINGS, None).unwrap();
    let ending = value(&store, DEFINITIONS, "", THINGS);
    assert_eq!(ending["metadata"]["finalizers"], json!(["customresourcecleanup.apiextensions.k8s.io"]));
    assert_eq!(conditions(&ending)[2], ("Terminating", "InstanceDeletionPending"));
    assert_eq!(store.list(THINGS, "", "", "").unwrap().0.len(), 1);
    let refused = store.create(THINGS, json!({"metadata": {"name": "c"}})).unwrap_err();
    assert!(refused.message.contains("create not allowed while custom resource definition is terminating"));
    store.merge(THINGS, "default", "b", false, &json!({"metadata": {"finalizers": null}})).unwrap();
    assert_eq!(store.get(DEFINITIONS, "", THINGS).unwrap_err().code, 404);
    assert_eq!(store.list(THINGS, "", "", "").unwrap_err().code, 404);
}

#[test]
fn a_changed_definition_applies_immediately_and_keeps_its_objects() {
    let store = with_things();
    store.create(THINGS, json!({"metadata": {"name": "t"}, "spec": {"size": 3}})).unwrap();
    let spec = json!({"type": "object", "properties": {
        "size": {"type": "integer", "maximum": 2}, "colour": {"type": "string", "default": "red"}}});
    let properties = json!({"spec": spec});
    let change = |versions: Value| {
        store.update(DEFINITIONS, "", THINGS, |definition| definition["spec"]["versions"] = versions.clone())
    };
    change(json!([version("v1", false, &properties), version("v2", true, &properties)])).unwrap();
    let thing = value(&store, THINGS, "default", "t");
    assert_eq!(thing["spec"], json!({"size": 3, "colour": "red"}));
    assert_eq!(thing["apiVersion"], json!("example.com/v2"));
    let made = value(&store, DEFINITIONS, "", THINGS);
    assert_eq!(made["status"]["storedVersions"], json!(["v1", "v2"]));
    store.merge(THINGS, "default", "t", false, &json!({"spec": {"colour": "blue"}})).unwrap();
    let wrong = store.merge(THINGS, "default", "t", false, &json!({"spec": {"size": 4}})).unwrap_err();
    assert!(wrong.message.contains("should be less than or equal to 2"), "{wrong}");
    let gone = change(json!([version("v2", true, &properties)])).unwrap_err();
    assert!(gone.message.contains("v1 was previously a storage version"), "{gone}");
    let unserved = |name: &str, stored| {
        let mut version = version(name, stored, &properties);
        version["served"] = json!(false);
        version
    };
    change(json!([unserved("v1", false), unserved("v2", true)])).unwrap();
    assert_eq!(store.list(THINGS, "", "", "").unwrap_err().code, 404);
    change(json!([version("v1", false, &properties), version("v2", true, &properties)])).unwrap();
    assert_eq!(store.list(THINGS, "", "", "").unwrap().0.len(), 1);
}

#[test]
fn custom_objects_are_removed_with_their_namespace() {
    let store = with_things();
    store.create("namespaces", json!({"metadata": {"name": "n"}})).unwrap();
    store.create(THINGS, json!({"metadata": {"name": "t", "namespace": "n"}})).unwrap();
    store.delete("namespaces", "", "n", None).unwrap();
    assert!(store.list(THINGS, "", "", "").unwrap().0.is_empty());
}
