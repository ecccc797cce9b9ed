//! Wrong, missing and hostile custom resources: no plugin panics, and a pod that has nothing to do with them is placed.
//!
//! Each value in the custom resources of the examples is replaced by others that make no sense, one at a time. The
//! definitions accept everything, as an older definition may. `EVERY=1` tries all of these values, and by default a sixth
//! of them is tried in each place.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    time::Instant,
};

use harbormaster::{
    Scheduler,
    serde_json::{Value, json},
    simulation::Source,
};

/// Length of the lists in objects that are far too large.
const VERY_LONG: usize = 2000;
const PATIENCE: u64 = 20;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scheduler-plugins")
}

/// The configuration and the objects of an example.
struct Example {
    name: String,
    scheduler: Scheduler,
    /// Scheduler name of the first profile.
    profile: String,
    objects: Vec<Value>,
}

fn examples() -> Vec<Example> {
    let mut folders: Vec<PathBuf> =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.iter().map(|folder| Example::read(folder)).collect()
}

fn parse(text: &str) -> Value {
    serde_saphyr::from_str(text).unwrap()
}

fn is_custom(object: &Value) -> bool {
    let group = object["apiVersion"].as_str().and_then(|version| version.split_once('/'));
    group.is_some_and(|(group, _)| {
        group.contains('.') && (!group.ends_with(".k8s.io") || group == "topology.node.k8s.io")
    })
}

/// A definition of the object's kind that accepts everything.
fn definition(object: &Value) -> Value {
    let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
    let kind = object["kind"].as_str().unwrap();
    let lower = kind.to_lowercase();
    let plural = match kind {
        "NodeResourceTopology" | "NetworkTopology" => lower.replace("topology", "topologies"),
        "NodeLoads" => lower.clone(),
        _ => format!("{lower}s"),
    };
    let is_cluster = object["metadata"]["namespace"].is_null();
    let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}"), "annotations": {"api-approved.kubernetes.io": "https://x/1"}},
        "spec": {
            "group": group, "scope": if is_cluster { "Cluster" } else { "Namespaced" },
            "names": {"kind": kind, "listKind": format!("{kind}List"), "plural": plural, "singular": lower},
            "versions": [{"name": version, "served": true, "storage": true, "schema": schema}],
        },
    })
}

impl Example {
    fn read(folder: &Path) -> Self {
        let config = fs::read_to_string(folder.join("scheduler.yaml")).unwrap();
        let objects = fs::read_to_string(folder.join("cluster.yaml")).unwrap();
        let objects: Vec<Value> = objects.split("\n---\n").map(parse).collect();
        let name = parse(&config)["profiles"][0]["schedulerName"].as_str().map(str::to_owned);
        let builder = Scheduler::builder().plugins(scheduler_plugins::register);
        Self {
            name: folder.file_name().unwrap().to_str().unwrap().to_owned(),
            scheduler: builder.config("scheduler.yaml", config).build().unwrap(),
            profile: name.unwrap_or_else(|| "default-scheduler".to_owned()),
            objects,
        }
    }

    /// Simulates the objects and a bystander, on a node of its own.
    fn check(&self, objects: &[Value], what: &str) {
        let mut all: Vec<Value> = Vec::new();
        let mut defined = BTreeSet::new();
        for object in self.objects.iter().filter(|object| is_custom(object)) {
            if defined.insert(object["kind"].as_str().unwrap()) {
                all.push(definition(object));
            }
        }
        all.extend(objects.iter().cloned());
        let room = json!({"cpu": "1", "memory": "1Gi", "pods": "9"});
        all.push(json!({
            "apiVersion": "v1", "kind": "Node",
            "metadata": {"name": "spare", "labels": {"for": "bystander"}},
            "spec": {"taints": [{"key": "spare", "effect": "NoSchedule"}]},
            "status": {"allocatable": room, "capacity": room},
        }));
        all.push(json!({
            "apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "elsewhere"},
        }));
        all.push(json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bystander", "namespace": "elsewhere"},
            "spec": {
                "schedulerName": self.profile, "nodeSelector": {"for": "bystander"},
                "tolerations": [{"operator": "Exists"}], "containers": [{"name": "c", "image": "i"}],
            },
        }));
        let text: Vec<String> = all.iter().map(Value::to_string).collect();
        let sources = [Source { name: "all.yaml".to_owned(), text: text.join("\n---\n") }];
        let begun = Instant::now();
        let report = match self.scheduler.simulate(&sources) {
            Ok(simulation) => simulation.report,
            // What is not even read has a reason.
            Err(errors) => return assert!(!errors.to_string().is_empty(), "{what}"),
        };
        assert!(begun.elapsed().as_secs() < PATIENCE, "{what}: {:?}", begun.elapsed());
        for pod in &report.pods {
            let said = format!("{pod:?}");
            assert!(!said.contains("panic"), "{what}: {said}");
        }
        let bystander = report.pods.iter().find(|pod| pod.pod == "elsewhere/bystander").unwrap();
        assert_eq!(bystander.node.as_deref(), Some("spare"), "{what}: {bystander:?}");
    }

    /// The objects, one of which has another value at the pointer; without a value, it is left out.
    fn with(&self, at: usize, pointer: &str, value: Option<&Value>) -> Vec<Value> {
        let mut objects = self.objects.clone();
        match value {
            Some(value) => *objects[at].pointer_mut(pointer).unwrap() = value.clone(),
            None => {
                let (parent, key) = pointer.rsplit_once('/').unwrap();
                match objects[at].pointer_mut(parent).unwrap() {
                    Value::Object(fields) => drop(fields.remove(&unescaped(key))),
                    Value::Array(list) => drop(list.remove(key.parse().unwrap())),
                    _ => unreachable!("{pointer}"),
                }
            }
        }
        objects
    }
}

fn unescaped(key: &str) -> String {
    key.replace("~1", "/").replace("~0", "~")
}

/// Pointers to everything in a value.
fn pointers(value: &Value, prefix: &str, into: &mut Vec<String>) {
    let mut visit = |key: &str, below: &Value| {
        let pointer = format!("{prefix}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers(below, &pointer, into);
        into.push(pointer);
    };
    match value {
        Value::Object(fields) => fields.iter().for_each(|(key, below)| visit(key, below)),
        Value::Array(list) => list.iter().enumerate().for_each(|(at, below)| visit(&at.to_string(), below)),
        _ => {}
    }
}

/// Pointers to everything in the object that is its own: neither its identity nor its kind.
fn own_pointers(object: &Value) -> Vec<String> {
    let mut all = Vec::new();
    for (field, value) in object.as_object().unwrap() {
        if !["apiVersion", "kind", "metadata"].contains(&field.as_str()) {
            pointers(value, &format!("/{field}"), &mut all);
            all.push(format!("/{field}"));
        }
    }
    all
}

/// Values that make no sense in most places.
fn nonsense() -> Vec<Value> {
    let numbers = [json!(-1), json!(0), json!(i64::MAX), json!(i64::MIN), json!(1e30), json!(-1e30)];
    let texts = ["", "NaN", "-5", "1e30", "1e400", "9223372036854775807", "node-64", "node--1", "\u{0}"];
    let others =
        [Value::Null, json!(true), json!([]), json!({}), json!([null]), json!([{}]), json!({"a": {}})];
    numbers.into_iter().chain(texts.map(Value::from)).chain(others).collect()
}

#[test]
fn nonsense_in_custom_resources_harms_no_one_else() {
    let every: usize = std::env::var("EVERY").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut count = 0;
    for example in examples() {
        for (at, object) in example.objects.iter().enumerate().filter(|(_, object)| is_custom(object)) {
            for pointer in own_pointers(object) {
                let values = nonsense();
                for value in values.iter().map(Some).chain([None]).skip(count % every).step_by(every) {
                    let what = format!("{}: {} {pointer} = {value:?}", example.name, object["kind"]);
                    example.check(&example.with(at, &pointer, value), &what);
                    count += 1;
                }
            }
        }
    }
    println!("{count} objects");
    assert!(count * every > 1000, "{count}");
}

#[test]
fn very_long_lists_and_missing_objects_do_not_hold_up_other_pods() {
    for example in examples() {
        for (at, object) in example.objects.iter().enumerate().filter(|(_, object)| is_custom(object)) {
            let mut without = example.objects.clone();
            without.remove(at);
            example.check(&without, &format!("{} without {}", example.name, object["kind"]));
            for pointer in own_pointers(object) {
                let long = match object.pointer(&pointer).unwrap() {
                    Value::Array(list) if !list.is_empty() => {
                        Value::Array(list.iter().cycle().take(VERY_LONG).cloned().collect())
                    }
                    Value::Object(fields) if !fields.is_empty() => {
                        let (_, first) = fields.iter().next().unwrap();
                        let more = (0..VERY_LONG).map(|at| (format!("more-{at}"), first.clone()));
                        Value::Object(fields.clone().into_iter().chain(more).collect())
                    }
                    _ => continue,
                };
                let what = format!("{}: long {} {pointer}", example.name, object["kind"]);
                example.check(&example.with(at, &pointer, Some(&long)), &what);
            }
        }
    }
}
