//! Services: endpoints for their pods, and addresses for load balancers.

use std::collections::{BTreeMap, HashMap, HashSet};

use serde_json::{Value, json};

use super::{ControllerContext, hash};
use crate::{
    fields::{entries, is_ending, is_finished, is_ready, list, name, namespace, number, owned_by, text, uid},
    mirror::Mirror,
    sandbox::carry_on,
};

const WHO: &str = "The endpoint slice controller";
const SLICES: &str = "endpointslices.discovery.k8s.io";
const ENDPOINTS: &str = "endpoints";
/// Maximum number of endpoints in a slice.
const MOST_PER_SLICE: usize = 100;
/// First two bytes of load balancer addresses, from a range reserved for tests (RFC 2544).
const BALANCERS: [u8; 2] = [198, 18];

/// Stand-in for the endpoint controllers, and for a cloud controller that creates load balancers.
#[derive(Debug, Default)]
pub(super) struct Services {
    /// Revisions of services and pods at the last reconciliation.
    seen: [u64; 2],
    /// Keyed by service UID.
    written: HashMap<String, ServiceEndpoints>,
    /// Number of load balancers created so far.
    balancers: u16,
}

/// Endpoints that were written for a service.
#[derive(Debug)]
struct ServiceEndpoints {
    namespace: String,
    service: String,
    /// Keyed by name.
    slices: BTreeMap<String, Value>,
    subsets: Value,
}

/// Pods, by namespace and by each of their labels.
struct ByLabel<'a>(HashMap<(&'a str, &'a str, &'a str), Vec<&'a Value>>);

impl Services {
    pub(super) fn reconcile(&mut self, tools: &ControllerContext, services: &Mirror, pods: &Mirror) {
        let revisions = [services.revision(), pods.revision()];
        if revisions == self.seen {
            return;
        }
        self.seen = revisions;
        let known: HashSet<&str> = services.all().map(uid).collect();
        self.written.retain(|uid, written| {
            let stays = known.contains(uid.as_str());
            if !stays {
                written.delete(tools);
            }
            stays
        });
        let selecting = |service: &&Value| {
            text(service, "/spec/type") != "ExternalName"
                && entries(service, "/spec/selector").next().is_some()
        };
        let mut by_label = None;
        for service in services.all().filter(|service| !is_ending(service)) {
            self.balance(tools, service);
            if selecting(&service) {
                let pods = by_label.get_or_insert_with(|| ByLabel::new(pods)).chosen_by(service);
                self.write(tools, service, &pods);
            }
        }
    }

    /// Assigns an address to a service of type LoadBalancer, unless it has one.
    fn balance(&mut self, tools: &ControllerContext, service: &Value) {
        let has_one = !list(service, "/status/loadBalancer/ingress").is_empty();
        if text(service, "/spec/type") != "LoadBalancer" || has_one {
            return;
        }
        self.balancers = self.balancers.wrapping_add(1);
        let [high, low] = self.balancers.to_be_bytes();
        let address = format!("{}.{}.{high}.{low}", BALANCERS[0], BALANCERS[1]);
        let given = tools.store.update_status("services", namespace(service), name(service), |service| {
            service["status"]["loadBalancer"]["ingress"] = json!([{"ip": address, "ipMode": "VIP"}]);
        });
        carry_on("The load balancer controller", given.map(|_| ()));
    }

    /// Writes the endpoints of a service that have changed.
    fn write(&mut self, tools: &ControllerContext, service: &Value, pods: &[&Value]) {
        let written = self.written.entry(uid(service).to_owned()).or_insert_with(|| ServiceEndpoints {
            namespace: namespace(service).to_owned(),
            service: name(service).to_owned(),
            slices: BTreeMap::new(),
            subsets: Value::Null,
        });
        let slices = slices(service, pods);
        for (slice, value) in &slices {
            match written.slices.get(slice) {
                Some(before) if before == value => {}
                Some(_) => {
                    let changed = tools.store.update(SLICES, namespace(service), slice, |slice| {
                        for field in ["endpoints", "ports"] {
                            slice[field] = value[field].clone();
                        }
                    });
                    carry_on(WHO, changed.map(|_| ()));
                }
                None => carry_on(WHO, tools.store.create(SLICES, value.clone()).map(|_| ())),
            }
        }
        for old in written.slices.keys().filter(|old| !slices.contains_key(*old)) {
            carry_on(WHO, tools.store.delete(SLICES, namespace(service), old, None));
        }
        written.slices = slices;
        let subsets = subsets(service, pods);
        if written.subsets != subsets {
            let known = tools.store.get(ENDPOINTS, namespace(service), name(service)).is_ok();
            let done = if known {
                let change = |endpoints: &mut Value| endpoints["subsets"] = subsets.clone();
                tools.store.update(ENDPOINTS, namespace(service), name(service), change)
            } else {
                let metadata = json!({
                    "name": name(service), "namespace": namespace(service), "labels": service["metadata"]["labels"],
                });
                tools.store.create(ENDPOINTS, json!({"metadata": metadata, "subsets": subsets}))
            };
            carry_on(WHO, done.map(|_| ()));
            written.subsets = subsets;
        }
    }
}

impl ServiceEndpoints {
    /// Deletes the endpoints of a deleted service.
    fn delete(&self, tools: &ControllerContext) {
        for slice in self.slices.keys() {
            carry_on(WHO, tools.store.delete(SLICES, &self.namespace, slice, None));
        }
        carry_on(WHO, tools.store.delete(ENDPOINTS, &self.namespace, &self.service, None));
    }
}

impl<'a> ByLabel<'a> {
    /// Indexes the pods that have an address and have not finished.
    fn new(pods: &'a Mirror) -> Self {
        let mut by_label: HashMap<_, Vec<&Value>> = HashMap::new();
        for pod in pods.all().filter(|pod| !text(pod, "/status/podIP").is_empty() && !is_finished(pod)) {
            for (key, value) in entries(pod, "/metadata/labels") {
                by_label.entry((namespace(pod), key.as_str(), text(value, ""))).or_default().push(pod);
            }
        }
        Self(by_label)
    }

    /// Returns the pods with a label.
    fn with<'b>(&'b self, namespace: &'b str, key: &'b str, value: &'b Value) -> &'b [&'b Value] {
        self.0.get(&(namespace, key, text(value, ""))).map_or(&[], Vec::as_slice)
    }

    /// Returns the pods that a service selects, in name order.
    fn chosen_by<'b>(&'b self, service: &'b Value) -> Vec<&'b Value> {
        let selector = || entries(service, "/spec/selector");
        let candidates = selector().map(|(key, value)| self.with(namespace(service), key, value));
        let rarest = candidates.min_by_key(|pods| pods.len()).unwrap_or_default();
        let fits = |pod: &&&Value| {
            let labels = &pod["metadata"]["labels"];
            selector().all(|(key, value)| labels.get(key) == Some(value))
        };
        rarest.iter().filter(fits).copied().collect()
    }
}

/// Returns the slices of a service, keyed by name. If there are no pods, the result is one empty slice.
fn slices(service: &Value, pods: &[&Value]) -> BTreeMap<String, Value> {
    let ports = ports(service, pods);
    let mut labels = json!({
        "kubernetes.io/service-name": name(service),
        "endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io",
    });
    if text(service, "/spec/clusterIP") == "None" {
        labels["service.kubernetes.io/headless"] = "".into();
    }
    let chunks = pods.chunks(MOST_PER_SLICE).collect::<Vec<_>>();
    let chunks = if chunks.is_empty() { vec![&[] as &[&Value]] } else { chunks };
    let slice = |(number, pods): (usize, &[&Value])| {
        let suffix: String = hash(&json!([uid(service), number])).chars().take(5).collect();
        let slice_name = format!("{}-{suffix}", name(service));
        let endpoints: Vec<Value> = pods.iter().map(|pod| endpoint(service, pod)).collect();
        let metadata = json!({
            "name": slice_name, "namespace": namespace(service), "labels": labels,
            "ownerReferences": owned_by(service),
        });
        (
            slice_name,
            json!({"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": ports}),
        )
    };
    chunks.into_iter().enumerate().map(slice).collect()
}

fn endpoint(service: &Value, pod: &Value) -> Value {
    let (serving, ending) = (is_ready(pod), is_ending(pod));
    let ready = (serving && !ending) || service["spec"]["publishNotReadyAddresses"] == true;
    let mut endpoint = json!({
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": ready, "serving": serving, "terminating": ending},
        "nodeName": pod["spec"]["nodeName"],
        "targetRef": target(pod),
    });
    if !text(pod, "/spec/hostname").is_empty() && text(pod, "/spec/subdomain") == name(service) {
        endpoint["hostname"] = pod["spec"]["hostname"].clone();
    }
    endpoint
}

fn target(pod: &Value) -> Value {
    json!({"kind": "Pod", "namespace": namespace(pod), "name": name(pod), "uid": uid(pod)})
}

/// Returns the ports of a service, with the port numbers of its pods.
fn ports(service: &Value, pods: &[&Value]) -> Vec<Value> {
    let port = |port: &Value| {
        let target = match port.get("targetPort") {
            Some(Value::String(named)) => named_port(pods.first()?, named)?,
            Some(Value::Number(number)) => number.as_i64()?,
            _ => number(port, "/port")?,
        };
        let protocol = text(port, "/protocol");
        Some(json!({"name": text(port, "/name"), "port": target, "protocol": protocol}))
    };
    list(service, "/spec/ports").iter().filter_map(port).collect()
}

fn named_port(pod: &Value, wanted: &str) -> Option<i64> {
    let mut ports = list(pod, "/spec/containers").iter().flat_map(|container| list(container, "/ports"));
    number(ports.find(|port| text(port, "/name") == wanted)?, "/containerPort")
}

/// Returns the subsets for the older kind Endpoints.
fn subsets(service: &Value, pods: &[&Value]) -> Value {
    let all = service["spec"]["publishNotReadyAddresses"] == true;
    let (ready, unready): (Vec<&Value>, Vec<&Value>) =
        pods.iter().copied().filter(|pod| all || !is_ending(pod)).partition(|pod| all || is_ready(pod));
    let address = |pod: &&Value| json!({"ip": pod["status"]["podIP"], "nodeName": pod["spec"]["nodeName"], "targetRef": target(pod)});
    let mut subset = json!({});
    for (field, pods) in [("addresses", ready), ("notReadyAddresses", unready)] {
        if !pods.is_empty() {
            subset[field] = pods.iter().map(address).collect();
        }
    }
    if subset.as_object().is_none_or(serde_json::Map::is_empty) {
        return json!([]);
    }
    subset["ports"] = ports(service, pods).into();
    json!([subset])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_have_at_most_a_hundred_endpoints_and_numeric_ports() {
        let service = json!({
            "metadata": {"name": "web", "namespace": "default", "uid": "s"}, "kind": "Service",
            "spec": {"ports": [{"name": "http", "port": 80, "targetPort": "web", "protocol": "TCP"}]},
        });
        let pod = |number: usize| {
            json!({
                "metadata": {"name": format!("web-{number}"), "namespace": "default", "uid": number.to_string()},
                "spec": {"nodeName": "n", "containers": [{"ports": [{"name": "web", "containerPort": 8080}]}]},
                "status": {"podIP": format!("10.244.0.{number}"), "conditions": [{"type": "Ready", "status": "True"}]},
            })
        };
        let pods: Vec<Value> = (0..150).map(pod).collect();
        let all = slices(&service, &pods.iter().collect::<Vec<_>>());
        let mut sizes: Vec<usize> = all.values().map(|slice| list(slice, "/endpoints").len()).collect();
        sizes.sort_unstable();
        assert_eq!(sizes, [50, 100]);
        let ports = json!([{"name": "http", "port": 8080, "protocol": "TCP"}]);
        assert!(all.values().all(|slice| slice["ports"] == ports));
        assert_eq!(slices(&service, &[]).len(), 1);
        assert_eq!(subsets(&service, &[]), json!([]));
    }
}
