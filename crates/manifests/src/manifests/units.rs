//! Reads texts unit by unit: on all processors, and pods and nodes of a known shape without applying the rules again.

use std::{borrow::Cow, hash::BuildHasher, sync::Arc};

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use super::{Content, Manifest, Prepared, Reader, label};
use crate::{
    documents::{self, Unit},
    parallel,
    shape::{self, Identity, Shape},
};

/// Number of units that are decoded at a time.
const BATCH: usize = 4096;

/// Maximum total size of the known shapes in bytes.
const MAX_SHAPES: usize = 64 << 20;

/// Shapes of pods and nodes that have occurred.
#[derive(Debug, Default)]
pub(super) struct Shapes {
    /// Objects that stand for their shapes, by the shape.
    known: FxHashMap<Box<str>, Arc<Shape>>,
    bytes: usize,
    /// Hashes of the shapes that have occurred once.
    seen: FxHashSet<u64>,
}

/// A unit as JSON, if it need not be read by the YAML reader, and the shape of a pod or a node.
struct UnitText<'t> {
    json: Option<Cow<'t, str>>,
    /// Empty for a unit that must be read as a whole.
    shape: String,
}

impl Reader {
    /// Reads a text. Returns `None` if it must be read as one piece.
    pub(super) fn units(&mut self, file: &Arc<str>, text: &str) -> Option<()> {
        let units = documents::units(text)?;
        self.positions.reserve(units.len());
        self.manifests.objects.reserve(units.len());
        units.chunks(BATCH).try_for_each(|batch| self.batch(file, batch))
    }

    fn batch(&mut self, file: &Arc<str>, units: &[Unit<'_>]) -> Option<()> {
        let texts = parallel::map(units.iter().collect(), |unit| {
            let json = unit.json();
            let shaped = json.as_ref().and_then(|json| shape::shaped(json));
            let (shape, identity) = shaped.unwrap_or_default();
            (UnitText { json, shape }, identity)
        });
        let (texts, identities): (Vec<_>, Vec<_>) = texts.into_iter().unzip();
        let mut counts: FxHashMap<&str, usize> = FxHashMap::default();
        let mut whole = Vec::new();
        for (i, text) in texts.iter().enumerate() {
            let count = counts.entry(&text.shape).or_default();
            *count += 1;
            if text.shape.is_empty() || *count == 1 && !self.shapes.known.contains_key(&*text.shape) {
                whole.push(i);
            }
        }
        let reader = &*self;
        let prepared = parallel::map(whole.clone(), |i| reader.prepare_unit(file, &units[i], &texts[i]));
        let mut whole = whole.into_iter().zip(prepared).peekable();
        for ((i, text), identity) in texts.iter().enumerate().zip(identities) {
            let prepared = match whole.next_if(|(whole, _)| *whole == i) {
                Some((_, prepared)) => prepared?,
                None if self.like(file, &units[i], &text.shape, identity) => continue,
                None => self.prepare_unit(file, &units[i], text)?,
            };
            let before = (self.manifests.objects.len(), self.doubts);
            let count = prepared.len();
            prepared.into_iter().for_each(|prepared| self.take(prepared));
            let is_whole =
                self.manifests.objects.len() == before.0 + 1 && count == 1 && self.doubts == before.1;
            if is_whole && !text.shape.is_empty() {
                let recurs = counts.get(&*text.shape).is_some_and(|count| *count > 1);
                self.note_shape(&text.shape, recurs);
            }
        }
        Some(())
    }

    fn prepare_unit(&self, file: &Arc<str>, unit: &Unit<'_>, text: &UnitText<'_>) -> Option<Vec<Prepared>> {
        let objects = unit.objects(file, text.json.as_deref())?;
        Some(objects.into_iter().map(|object| self.prepare(object)).collect())
    }

    /// Lets the object that was added last stand for its shape, if another of the shape follows or is likely to.
    fn note_shape(&mut self, shape: &str, recurs: bool) {
        let Some(object) = self.manifests.objects.last() else { return };
        let is_new = self.shapes.seen.insert(FxBuildHasher.hash_one(shape));
        if (is_new && !recurs) || self.shapes.bytes > MAX_SHAPES {
            return;
        }
        let known = Shape::of(object, shape);
        self.shapes.bytes += 2 * shape.len();
        self.shapes.known.insert(shape.into(), Arc::new(known));
    }

    /// Adds an object of a known shape. Returns false if the shape is not known, or if there is such an object already.
    fn like(&mut self, file: &Arc<str>, unit: &Unit<'_>, shape: &str, identity: Identity) -> bool {
        let Some(shape) = self.shapes.known.get(shape).cloned() else { return false };
        let label = label(&shape.kind, &shape.namespace, &identity.name);
        if self.positions.contains_key(&label) {
            return false;
        }
        let order = self.manifests.objects.len();
        self.dump.note_like(&shape, &identity.uid);
        self.positions.insert(label, order);
        self.manifests.objects.push(Manifest {
            kind: shape.kind.clone(),
            namespace: shape.namespace.clone(),
            name: identity.name.clone(),
            location: unit.location(file, ""),
            order,
            node: (!identity.node.is_empty()).then(|| identity.node.clone()),
            content: Content::Like { shape, identity: Box::new(identity) },
        });
        true
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_yaml::Source;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use crate::{Manifests, ReadOptions, Validate};

    /// Everything that reading gives: objects as written and as stored, with their locations, notices, and errors.
    type Outcome = Result<(Vec<(String, String, usize, Value)>, Vec<Value>, Vec<String>), String>;

    fn read(texts: &[String], as_one_piece: bool, validate: Validate) -> Outcome {
        let source = |(i, text): (usize, &String)| Source { name: format!("f{i}"), text: text.clone() };
        let sources: Vec<Source> = texts.iter().enumerate().map(source).collect();
        let options = ReadOptions { validate, reschedule_missing: true, ..ReadOptions::default() };
        let mut stored = Vec::new();
        let read =
            Manifests::read_from(&sources, vec![as_one_piece; sources.len()], options, &mut |_, admitted| {
                stored.push(admitted.into_value());
                Ok(())
            });
        let manifests = read.map_err(|errors| errors.to_string())?;
        let object = |object: &super::Manifest| {
            let place = format!("{:?} {:?}", object.location, object.node);
            (object.label(), place, object.order, object.value())
        };
        Ok((manifests.objects.iter().map(object).collect(), stored, manifests.notices()))
    }

    fn pod() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(&["a", "b", "c-1", "Bad_Name", "", "d", "e", "f"][..]);
        let uid = prop::sample::select(&["", "u1", "u2", "u\"3"][..]);
        let node = prop::sample::select(&["", "n1", "n2", "gone", "N!"][..]);
        let created =
            prop::sample::select(&["", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00+01:00", "now"][..]);
        (name, uid, node, created, 0..5_u8, 0..12_u8).prop_map(|(name, uid, node, created, template, quirk)| {
            let mut pod = json!({
                "apiVersion": "v1", "kind": "Pod", "metadata": {"labels": {"app": format!("t{template}")}},
                "spec": {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": format!("{template}00m")}}}]},
            });
            let named = [("metadata", "name", name), ("metadata", "uid", uid), ("metadata", "creationTimestamp", created), ("spec", "nodeName", node)];
            for (part, field, value) in named.into_iter().filter(|(.., value)| !value.is_empty()) {
                pod[part][field] = value.into();
            }
            if template == 1 {
                pod["metadata"]["ownerReferences"] =
                    json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "s", "controller": true}]);
            }
            match quirk {
                0 => pod["spec"]["priorityClassName"] = "none".into(),
                1 => pod["spec"]["typo"] = 1.into(),
                2 => pod["status"] = json!({"phase": "Succeeded"}),
                3 => pod["metadata"]["resourceVersion"] = "7".into(),
                4 => pod["spec"]["nodeName"] = Value::Null,
                5 => pod["metadata"]["generateName"] = "x-".into(),
                6 => pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "lots".into(),
                8 => {
                    let volume = |random: &str| json!({"name": format!("kube-api-access-{random}"), "projected": {"sources": []}});
                    pod["spec"]["volumes"] = json!([volume(if uid == "u1" { "ab1cd" } else { "x2y3z" })]);
                    pod["spec"]["containers"][0]["volumeMounts"] = json!([{"name": pod["spec"]["volumes"][0]["name"], "mountPath": "/x"}]);
                }
                9 => {
                    let time = if created.is_empty() { "2026-01-03T00:00:00Z" } else { created };
                    pod["status"] = json!({
                        "phase": "Running", "startTime": time, "podIP": if uid.is_empty() { "10.0.0.1" } else { uid },
                        "conditions": [{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": time}],
                        "containerStatuses": [{"name": "c", "allocatedResources": {"ip": if node.is_empty() { "5" } else { node }}}],
                    });
                }
                7 => drop(pod.as_object_mut().map(|pod| pod.remove("kind"))),
                _ => {}
            }
            pod
        })
    }

    fn node() -> impl Strategy<Value = Value> {
        let name = prop::sample::select(&["n1", "n2", "n3", "n4", "N!", ""][..]);
        let host = prop::sample::select(&["", "n1", "n2", "n3", "n4"][..]);
        let range = prop::sample::select(&["", "10.0.1.0/24", "10.0.2.0/24", "5"][..]);
        (name, host, range, 0..3_u8, 0..14_u8).prop_map(|(name, host, range, pool, quirk)| {
            let host = if quirk > 4 { name } else { host };
            let mut node = json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "uid": format!("u-{name}"), "creationTimestamp": format!("2026-01-0{}T00:00:00Z", quirk % 3 + 1),
                    "labels": {"pool": format!("p{pool}"), "kubernetes.io/hostname": host}},
                "spec": {"podCIDR": range, "podCIDRs": [range], "providerID": format!("cloud://{name}")},
                "status": {"allocatable": {"cpu": format!("{}", pool + 1)}, "addresses": [{"type": "Hostname", "address": name}],
                    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:00:0{}Z", quirk % 10)}]},
            });
            match quirk {
                0 => node["spec"]["typo"] = name.into(),
                1 => node["spec"]["podCIDRs"] = json!([range, 1]),
                2 => node["status"]["allocatable"]["address"] = "5".into(),
                3 => node["spec"]["taints"] = json!([{"key": "k", "effect": "NoSchedule", "timeAdded": if pool == 0 { "now" } else { "2026-01-01T00:00:00Z" }}]),
                4 => node["spec"] = Value::Null,
                5 => node["metadata"]["annotations"] = json!({"kubernetes.io/hostname": host, "note": "{\"kubernetes.io/hostname\":\"n1\"}"}),
                6 => drop(node["metadata"].as_object_mut().map(|metadata| metadata.remove("labels"))),
                _ => {}
            }
            node
        })
    }

    fn other() -> impl Strategy<Value = Value> {
        prop::sample::select(vec![
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}, "status": {"allocatable": {"cpu": 1.5}}}),
            json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n2", "labels": {"a": "yes", "b": "1"}}}),
            json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "uid": "d"}, "spec": {
                "replicas": 3, "selector": {"matchLabels": {"app": "t1"}},
                "template": {"metadata": {"labels": {"app": "t1"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}}),
            json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "none"}, "value": 5}),
            json!({"apiVersion": "v1", "kind": "PodList", "items": [{"metadata": {"name": "inner"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}]}),
            json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "t"}}),
            Value::Null,
            json!("text"),
        ])
    }

    /// A file in one of the forms in which dumps are written.
    fn file() -> impl Strategy<Value = String> {
        let objects = prop::collection::vec(prop_oneof![5 => pod(), 2 => node(), 1 => other()], 0..14);
        (objects, 0..5_u8, prop::sample::select(&["List", "PodList", "Pod"][..])).prop_map(
            |(objects, form, kind)| {
                let list = json!({"apiVersion": "v1", "kind": kind, "items": objects});
                match form {
                    0 => list.to_string(),
                    1 => format!("\n{list:#}\n"),
                    2 => harbormaster_yaml::write(&list),
                    3 => objects
                        .iter()
                        .map(|object| format!("---\n{}", harbormaster_yaml::write(object)))
                        .collect(),
                    _ => objects.iter().map(|object| format!("# note\n{object}\n---\n")).collect(),
                }
            },
        )
    }

    proptest! {
        #[test]
        fn units_are_read_as_the_whole_text_is_read(
            mut texts in prop::collection::vec(file(), 1..3),
            damage in prop::option::weighted(0.5, (any::<prop::sample::Index>(), "[-{}\\[\\]\":, \na0#&*|\u{1}]{0,3}")),
            validate in prop::sample::select(&[Validate::Strict, Validate::Warn, Validate::Ignore][..]),
        ) {
            if let Some((at, piece)) = damage {
                let text = &mut texts[0];
                let at = at.index(text.len() + 1);
                text.replace_range(at..(at + piece.len() / 2).min(text.len()), &piece);
            }
            prop_assert_eq!(read(&texts, false, validate), read(&texts, true, validate));
        }
    }

    #[test]
    fn replicas_in_a_dump_share_a_shape() {
        let pod = |i: u8| {
            let (time, access) = (format!("2026-01-01T00:00:0{i}Z"), format!("kube-api-access-abcd{i}"));
            json!({
                "apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": format!("p-{i}"), "uid": format!("u-{i}"), "resourceVersion": i.to_string(), "creationTimestamp": time},
                "spec": {
                    "nodeName": format!("n-{i}"), "volumes": [{"name": access, "projected": {"sources": []}}],
                    "containers": [{"name": "c", "image": "i", "volumeMounts": [{"name": access, "mountPath": "/x"}]}],
                },
                "status": {
                    "startTime": time, "podIP": format!("10.0.0.{i}"), "podIPs": [{"ip": format!("10.0.0.{i}")}], "phase": "Running",
                    "conditions": [{"type": "Ready", "status": "True", "lastProbeTime": null, "lastTransitionTime": time}],
                    "containerStatuses": [{"name": "c", "containerID": format!("containerd://{i}"), "imageID": "sha256:1", "lastState": {},
                        "image": "i", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": time}}}],
                },
            })
        };
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [pod(1), pod(2), pod(3)]});
        for text in [list.to_string(), format!("{list:#}"), harbormaster_yaml::write(&list)] {
            let source = Source { name: "f".into(), text };
            let read = Manifests::read(&[source], ReadOptions::default(), |_, _| Ok(())).unwrap();
            let likes =
                read.objects.iter().map(|object| matches!(object.content, super::Content::Like { .. }));
            assert_eq!(likes.collect::<Vec<_>>(), [false, true, true]);
        }
    }

    #[test]
    fn nodes_of_a_pool_in_a_dump_share_a_shape() {
        let node = |i: u8| {
            let name = format!("pool-{i}");
            json!({
                "apiVersion": "v1", "kind": "Node",
                "metadata": {"name": name, "uid": format!("u-{i}"), "labels": {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux"}},
                "spec": {"podCIDR": format!("10.0.{i}.0/24"), "podCIDRs": [format!("10.0.{i}.0/24")], "providerID": format!("cloud://{i}")},
                "status": {
                    "allocatable": {"cpu": "4"}, "addresses": [{"type": "InternalIP", "address": format!("10.1.0.{i}")}],
                    "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": format!("2026-01-01T00:00:0{i}Z")}],
                    "nodeInfo": {"machineID": format!("m-{i}"), "osImage": "linux"},
                },
            })
        };
        let list = json!({"apiVersion": "v1", "kind": "List", "items": [node(1), node(2), node(3)]});
        let source = Source { name: "f".into(), text: list.to_string() };
        let read = Manifests::read(&[source], ReadOptions::default(), |_, _| Ok(())).unwrap();
        let likes = read.objects.iter().map(|object| matches!(object.content, super::Content::Like { .. }));
        assert_eq!(likes.collect::<Vec<_>>(), [false, true, true]);
    }

    #[test]
    fn pods_that_differ_in_their_identity_share_a_shape() {
        let pod = |name: &str| {
            format!(
                "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"{name}\"}},\"spec\":{{\"containers\":[{{\"name\":\"c\",\"image\":\"i\"}}]}}}}"
            )
        };
        let (shape, identity) = crate::shape::shaped(&pod("a")).unwrap();
        assert_eq!(
            (&*identity.name, Some(shape)),
            ("a", crate::shape::shaped(&pod("b")).map(|(shape, _)| shape))
        );
        assert_eq!(crate::shape::shaped(&pod("A_")), None);
    }
}
