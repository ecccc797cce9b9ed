//! Replaces the names in the objects of a cluster, so that a dump can be shown to others.
//!
//! Names are replaced word by word: a word is a run of letters and digits, and the same word always gets the same
//! substitute. So a pod still names its node, a selector still matches its labels, and the claim `data-web-0` still
//! belongs to the pod `web-0`. Everything that is not known to be harmless is a name: only fields and label keys that
//! this file lists keep their values.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

/// Words that stay: they have a meaning for Kubernetes or tell nothing.
const WORDS: [&str; 18] = [
    "amd64", "arm64", "ca", "cluster", "crt", "critical", "default", "false", "kube", "latest", "lease",
    "linux", "node", "public", "root", "system", "true", "windows",
];

/// Fields whose text, or list of texts, stays: enumerations of Kubernetes, numbers, times, and names of products.
#[rustfmt::skip]
const KEPT: [&str; 85] = [
    "accessModes", "action", "adminAccess", "allocationMode", "apiVersion", "architecture", "attacher",
    "bindingConditions", "bindingFailureConditions", "cachingMode", "completionMode", "concurrencyPolicy",
    "containerRuntimeVersion", "declaredFeatures", "default", "distinctAttribute", "divisor", "dnsPolicy",
    "driver", "effect", "expression", "extendedResourceName", "externalTrafficPolicy", "fieldPath",
    "finishedAt", "fsGroupPolicy", "fsType", "group", "imagePullPolicy", "internalTrafficPolicy",
    "ipFamilies", "ipFamilyPolicy", "kernelVersion", "kind", "kubeletVersion", "matchAttribute", "max",
    "maxSurge", "maxUnavailable", "medium", "min", "minAvailable", "mode", "mountPropagation",
    "nodeAffinityPolicy", "nodeTaintsPolicy", "operatingSystem", "operator", "osImage",
    "persistentVolumeReclaimPolicy", "phase", "podManagementPolicy", "podReplacementPolicy", "policy",
    "preemptionPolicy", "protocol", "provisioner", "qosClass", "reason", "reclaimPolicy", "resize",
    "resource", "resourceName", "resourceVersion", "restartPolicy", "schedule", "schedulerName", "scope",
    "sessionAffinity", "sizeLimit", "startedAt", "status", "step", "terminationMessagePolicy", "timeAdded",
    "timeZone", "type", "unhealthyPodEvictionPolicy", "validValues", "volumeBindingMode",
    "volumeLifecycleModes", "volumeMode", "whenDeleted", "whenScaled", "whenUnsatisfiable",
];

/// Fields that stay if they are maps: their keys are names of resources and of attributes of devices.
#[rustfmt::skip]
const KEPT_MAPS: [&str; 11] = [
    "allocatable", "allocatedResources", "attributes", "capacity", "consumedCapacity", "counters", "hard",
    "limits", "overhead", "podFixed", "requests",
];

/// Fields that are dropped: scheduling does not read them, and they may tell something.
#[rustfmt::skip]
const DROPPED: [&str; 38] = [
    "addresses", "bootID", "clusterIP", "clusterIPs", "config", "containerID", "daemonEndpoints",
    "dnsConfig", "externalIPs", "externalName", "finalizers", "generateName", "hostAliases", "hostIP",
    "hostIPs", "imageID", "lastState", "lifecycle", "livenessProbe", "loadBalancer", "loadBalancerIP",
    "loadBalancerSourceRanges", "machineID", "managedFields", "message", "mountOptions", "parameters",
    "podCIDR", "podCIDRs", "podIP", "podIPs", "providerID", "readinessProbe", "securityContext",
    "startupProbe", "systemUUID", "terminationMessagePath", "volumeAttributes",
];

/// Fields whose value is a label key, or a list of label keys.
const LABEL_KEYS: [&str; 5] = ["key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys", "topologyKeys"];

/// Fields whose value maps label keys to values.
const LABEL_MAPS: [&str; 6] =
    ["annotations", "labels", "matchLabels", "nodeSelector", "segments", "selector"];

/// Labels and annotations of Kubernetes whose values stay.
const PLAIN_LABELS: [&str; 8] = [
    "beta.kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "kubernetes.io/arch",
    "kubernetes.io/os",
    "pv.kubernetes.io/provisioned-by",
    "storage.alpha.kubernetes.io/migrated-plugins",
    "volume.beta.kubernetes.io/storage-provisioner",
    "volume.kubernetes.io/storage-provisioner",
];

/// Replaces names. Keep one for all objects of a cluster.
#[derive(Debug)]
pub(super) struct Anonymiser {
    substitutes: HashMap<String, String>,
    kept_words: HashSet<&'static str>,
    kept_fields: HashSet<&'static str>,
    dropped: HashSet<&'static str>,
    made: usize,
}

impl Anonymiser {
    pub(super) fn new() -> Self {
        Self {
            substitutes: HashMap::new(),
            kept_words: WORDS.into(),
            kept_fields: KEPT.into(),
            dropped: DROPPED.into(),
            made: 0,
        }
    }

    /// Replaces the names in an object.
    pub(super) fn object(&mut self, object: &mut Value) {
        // The names of CSI drivers are those of products, and definitions have to fit the custom resources' fields.
        let driver = match object["kind"].as_str() {
            Some("CustomResourceDefinition") => return,
            Some("CSIDriver") => Some(object["metadata"]["name"].clone()),
            _ => None,
        };
        self.value(object);
        if let Some(driver) = driver {
            object["metadata"]["name"] = driver;
        }
    }

    fn fields(&mut self, fields: &mut Map<String, Value>) {
        fields.retain(|name, _| !self.dropped.contains(name.as_str()));
        let key = fields.get("key").and_then(Value::as_str).map(str::to_owned);
        for (name, value) in fields.iter_mut() {
            self.field(name, value, key.as_deref());
        }
    }

    /// Replaces the names in a field. `key` is the field `key` beside it.
    fn field(&mut self, name: &str, value: &mut Value, key: Option<&str>) {
        match (name, value, key) {
            (_, Value::Object(map), _) if KEPT_MAPS.contains(&name) || map.is_empty() => {}
            (_, Value::Object(labels), _) if LABEL_MAPS.contains(&name) && is_flat(labels) => {
                self.labels(labels, name == "annotations");
            }
            ("drivers", Value::Array(drivers), _) => drivers.iter_mut().for_each(|driver| {
                let product = driver["name"].clone();
                self.value(driver);
                driver["name"] = product;
            }),
            (_, value, _) if self.keeps(name, value) => {}
            (_, value, _) if LABEL_KEYS.contains(&name) => self.each_text(value, Self::label_key),
            ("value" | "values", value, Some(key)) => {
                self.each_text(value, |this, text| this.label_value(key, text));
            }
            (_, value, _) => self.value(value),
        }
    }

    /// Returns true if the field's text, or list of texts, stays.
    fn keeps(&self, name: &str, value: &Value) -> bool {
        let is_text = match value {
            Value::Array(values) => values.iter().all(Value::is_string),
            value => value.is_string(),
        };
        let is_time = || name.ends_with("Time") || name.ends_with("Timestamp");
        is_text && (self.kept_fields.contains(name) || is_time())
    }

    fn value(&mut self, value: &mut Value) {
        match value {
            Value::Object(fields) => self.fields(fields),
            Value::Array(values) => values.iter_mut().for_each(|value| self.value(value)),
            Value::String(text) => *text = self.name(text),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Replaces a text, or each text of a list.
    fn each_text(&mut self, value: &mut Value, replace: impl Fn(&mut Self, &str) -> String) {
        let texts = match value {
            Value::Array(texts) => texts.as_mut_slice(),
            text => std::slice::from_mut(text),
        };
        for value in texts {
            if let Value::String(text) = value {
                *text = replace(self, text);
            }
        }
    }

    fn labels(&mut self, labels: &mut Map<String, Value>, are_annotations: bool) {
        for (key, mut value) in std::mem::take(labels) {
            if are_annotations && !is_of_kubernetes(&key) {
                continue;
            }
            if let Value::String(text) = &mut value {
                *text = self.label_value(&key, text);
            }
            labels.insert(self.label_key(&key), value);
        }
    }

    fn label_key(&mut self, key: &str) -> String {
        if is_of_kubernetes(key) || key == "metadata.name" { key.to_owned() } else { self.name(key) }
    }

    fn label_value(&mut self, key: &str, value: &str) -> String {
        if PLAIN_LABELS.contains(&key) { value.to_owned() } else { self.name(value) }
    }

    /// Replaces a name word by word.
    fn name(&mut self, name: &str) -> String {
        if name.parse::<std::net::IpAddr>().is_ok() {
            return self.word(name);
        }
        let mut replaced = String::with_capacity(name.len());
        let mut rest = name;
        while !rest.is_empty() {
            let is_inside = |c: char| c.is_alphanumeric();
            let word = rest.find(|c| !is_inside(c)).unwrap_or(rest.len());
            if word > 0 {
                replaced += &self.word(&rest[..word]);
            }
            let gap = rest[word..].find(is_inside).unwrap_or(rest.len() - word);
            replaced += &rest[word..word + gap];
            rest = &rest[word + gap..];
        }
        replaced
    }

    /// Returns the substitute of a word. Numbers stay: they count replicas, or are compared.
    fn word(&mut self, word: &str) -> String {
        if self.kept_words.contains(word) || word.bytes().all(|byte| byte.is_ascii_digit()) {
            return word.to_owned();
        }
        if let Some(known) = self.substitutes.get(word) {
            return known.clone();
        }
        let substitute = loop {
            let candidate = letters(self.made);
            self.made += 1;
            if !self.kept_words.contains(candidate.as_str()) {
                break candidate;
            }
        };
        self.substitutes.insert(word.to_owned(), substitute.clone());
        substitute
    }
}

/// Returns true if the map's values are texts.
fn is_flat(map: &Map<String, Value>) -> bool {
    map.values().all(Value::is_string)
}

/// Returns true if Kubernetes or one of its projects defines the label or annotation.
fn is_of_kubernetes(key: &str) -> bool {
    let Some((domain, _)) = key.split_once('/') else { return false };
    ["kubernetes.io", "k8s.io"].iter().any(|known| {
        domain.strip_suffix(known).is_some_and(|sub| sub.is_empty() || sub.ends_with(['.', '-']))
    })
}

/// Returns the words `a` to `z`, `aa`, `ab` and so on.
fn letters(mut number: usize) -> String {
    let mut letters = Vec::new();
    loop {
        letters.push(b'a' + (number % 26) as u8);
        match (number / 26).checked_sub(1) {
            Some(rest) => number = rest,
            None => break,
        }
    }
    letters.iter().rev().map(|letter| char::from(*letter)).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_still_lead_to_the_objects_that_they_name() {
        let mut names = Anonymiser::new();
        let mut set = json!({"kind": "StatefulSet", "metadata": {"name": "ledger", "namespace": "bank"}});
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "ledger-0", "namespace": "bank", "labels": {"team": "gold"}},
            "spec": {
                "nodeName": "mars-17", "schedulerName": "bank-scheduler",
                "volumes": [{"persistentVolumeClaim": {"claimName": "data-ledger-0"}}],
                "containers": [{"name": "main", "image": "registry.bank.example/ledger:v3",
                    "resources": {"requests": {"cpu": "1", "bank.example/vault": "2"}}}],
            },
        });
        let mut node = json!({"kind": "Node", "metadata": {"name": "mars-17", "labels": {
            "kubernetes.io/hostname": "mars-17", "kubernetes.io/arch": "amd64", "bank.example/rank": "10",
        }}});
        for object in [&mut set, &mut pod, &mut node] {
            names.object(object);
        }
        let text = |object: &Value, path: &str| object.pointer(path).unwrap().as_str().unwrap().to_owned();
        let set_name = text(&set, "/metadata/name");
        assert_eq!(text(&pod, "/metadata/name"), format!("{set_name}-0"));
        let claim = text(&pod, "/spec/volumes/0/persistentVolumeClaim/claimName");
        assert!(claim.ends_with(&format!("-{set_name}-0")), "{claim}");
        assert_eq!(text(&pod, "/spec/nodeName"), text(&node, "/metadata/name"));
        assert_eq!(text(&node, "/metadata/labels/kubernetes.io~1hostname"), text(&node, "/metadata/name"));
        assert_eq!(text(&node, "/metadata/labels/kubernetes.io~1arch"), "amd64");
        assert_eq!(text(&pod, "/spec/schedulerName"), "bank-scheduler");
        let requests = json!({"cpu": "1", "bank.example/vault": "2"});
        assert_eq!(pod["spec"]["containers"][0]["resources"]["requests"], requests);
        let all = format!("{set}{pod}{node}");
        for secret in ["ledger", "mars", "gold", "team", "registry", "rank"] {
            assert!(!all.contains(secret), "{secret} in {all}");
        }
    }

    #[test]
    fn selectors_still_match_labels() {
        let mut names = Anonymiser::new();
        let mut pod = json!({"metadata": {"labels": {"app": "shop", "size": "7"}}, "spec": {
            "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{
                "topologyKey": "topology.kubernetes.io/zone",
                "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["shop"]}]},
            }]}, "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{
                "matchExpressions": [{"key": "rank", "operator": "Gt", "values": ["5"]}],
                "matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}],
            }]}}},
            "tolerations": [{"key": "team", "operator": "Equal", "value": "shop", "effect": "NoSchedule"}],
        }});
        names.object(&mut pod);
        let labels = pod["metadata"]["labels"].as_object().unwrap();
        let (app, shop) = labels.iter().find(|(_, value)| **value != "7").unwrap();
        let affinity = &pod["spec"]["affinity"];
        let term = &affinity["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0];
        assert_eq!(term["topologyKey"], "topology.kubernetes.io/zone");
        let expression = &term["labelSelector"]["matchExpressions"][0];
        assert_eq!(*expression, json!({"key": app, "operator": "In", "values": [shop]}));
        let nodes = &affinity["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
            [0];
        assert_eq!(nodes["matchExpressions"][0]["values"], json!(["5"]));
        assert_eq!(nodes["matchFields"][0]["key"], "metadata.name");
        let toleration = &pod["spec"]["tolerations"][0];
        assert_eq!((&toleration["value"], &toleration["effect"]), (shop, &json!("NoSchedule")));
    }

    #[test]
    fn addresses_messages_and_foreign_annotations_are_dropped() {
        let mut names = Anonymiser::new();
        let mut object = json!({
            "metadata": {"annotations": {"corp.example/owner": "ann", "volume.kubernetes.io/selected-node": "n1"}},
            "spec": {"podCIDR": "10.1.0.0/24", "nfs": {"server": "10.1.2.3", "path": "/exports/secret"}},
            "status": {"phase": "Running", "hostIP": "10.1.2.3", "conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "up since Monday"},
            ]},
        });
        names.object(&mut object);
        let node = object["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].as_str().unwrap();
        assert_ne!(node, "n1");
        assert_eq!(object["metadata"]["annotations"].as_object().unwrap().len(), 1);
        let condition = json!({"type": "Ready", "status": "True", "reason": "KubeletReady"});
        assert_eq!(object["status"], json!({"phase": "Running", "conditions": [condition]}));
        assert!(!object.to_string().contains("10.1") && !object.to_string().contains("secret"), "{object}");
    }

    #[test]
    fn substitutes_differ_from_each_other_and_from_words_that_stay() {
        let mut names = Anonymiser::new();
        let made: HashSet<String> = (0..20_000).map(|i| names.word(&format!("w{i}"))).collect();
        assert_eq!(made.len(), 20_000);
        assert!(WORDS.iter().all(|word| !made.contains(*word)));
        assert_eq!([0, 25, 26, 27, 701, 702].map(letters), ["a", "z", "aa", "ab", "zz", "aaa"]);
    }
}
