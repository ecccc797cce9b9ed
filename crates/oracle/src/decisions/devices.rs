//! The devices of scripts: classes, slices, the claims of pods, and templates of claims.
//!
//! Two runs are comparable, and no known fault of kube-scheduler interferes, only under these conditions:
//!
//! - Timing decides for which of several pods a shared claim is allocated, so such pods are created when no pending pod
//!   uses claims that exist already. Two pods that share a new claim are created in one step only if no other pod is
//!   pending and pods are retried.
//! - If a claim may have devices before its pod is tried, the pod has no other such claims, because kube-scheduler chooses
//!   at random from which of several claims it takes the devices. With 1.36, the pod has no other claims at all: if some
//!   claims of a pod have devices and others have none, 1.36 fails to score the pod.
//! - Pods with claims do not ask for extended resources of classes. kube-scheduler 1.36 cannot bind such a pod to a
//!   node with a device plugin.
//! - At most one class provides an extended resource, because the choice among several depends on the second in which
//!   they were created.
//! - An attempt that ends with an error reports the first node that failed, which differs from attempt to attempt.
//!   Attempts therefore fail only in scripts in which backoffs never expire, and the player deletes failed pods at the
//!   end of each step.
//! - Drivers report that devices are ready, or have failed, when nothing else happens ([`super::device_drivers`]). While
//!   a pod waits for them, 1.37 lets no other pod use its claims, and wakes no pod when the wait is over. With 1.37,
//!   scripts with binding conditions therefore have no two new pods that share a new claim.
//! - If profiles score extended resources, devices keep their attributes, because kube-scheduler remembers by a device's
//!   name that a selector matches. Each name then belongs to one device.
//! - Only 1.37 has rules that taint devices: 1.36.1 crashes if there is one.

use serde_json::{Value, json};

use harbormaster_api::Release;

use super::paths::path;
use super::storage::Isolation;
use crate::generate::devices::admitted;
use crate::generate::{ADMIN_NAMESPACE, Random, World, push};

/// A change to devices.
pub(super) enum Change {
    Create(Value),
    Patch(String, Value),
    Delete(String),
}

/// Classes, slices and claims of one script.
#[derive(Debug)]
pub(super) struct Devices {
    random: Random,
    /// True if selectors may fail.
    may_fail: bool,
    /// True if devices may consume counters.
    is_partitioned: bool,
    /// True if requests may ask for all devices.
    asks_for_all: bool,
    /// Slices that exist.
    slices: Vec<Value>,
    /// Slices that have been deleted.
    deleted: Vec<Value>,
    /// Slices at the start, without the devices of claims in `claims`.
    free: Vec<Value>,
    /// Claims and templates at the start of the script.
    claims: Vec<Value>,
    /// Claims that several pods use: namespace and name.
    shared: Vec<(String, String)>,
    release: Release,
    /// True if a pod of a shared claim is tried again when the claim has devices.
    retries: bool,
    /// True if devices may have binding conditions.
    has_conditions: bool,
    /// True if profiles score the extended resources of classes.
    scores: bool,
    /// Rules that taint devices.
    rules: Vec<Value>,
    next_rule: usize,
    /// Claims and classes that pods use and that do not exist yet.
    late: Vec<Value>,
    /// Paths of claims that users may change.
    named: Vec<String>,
    next: usize,
}

impl Devices {
    /// Creates devices for a script. `retries` is true if backoffs expire.
    pub(super) fn new(mut random: Random, retries: bool, release: Release) -> Self {
        Self {
            may_fail: random.chance(25) && !retries,
            has_conditions: random.chance(50),
            scores: random.chance(50),
            retries,
            release,
            rules: Vec::new(),
            next_rule: 0,
            random,
            is_partitioned: false,
            asks_for_all: !retries,
            slices: Vec::new(),
            deleted: Vec::new(),
            free: Vec::new(),
            claims: Vec::new(),
            shared: Vec::new(),
            late: vec![admitted::late_class()],
            named: Vec::new(),
            next: 0,
        }
    }

    /// Generates classes and slices.
    pub(super) fn infrastructure(&mut self, world: &World) -> Vec<Value> {
        let slices = admitted::slices(&mut self.random, world);
        self.slices = self.restrict(slices);
        self.is_partitioned = self.slices.iter().any(|slice| !slice["spec"]["sharedCounters"].is_null());
        // kube-scheduler 1.36 crashes if a request for all devices reaches a device that consumes counters.
        self.asks_for_all &= !self.is_partitioned;
        self.free.clone_from(&self.slices);
        let mut objects = admitted::classes(&mut self.random, self.may_fail);
        objects.extend(self.slices.iter().cloned());
        if self.release >= Release::V1_37 && self.random.chance(60) {
            objects.push(self.new_rule(world));
        }
        objects
    }

    /// Lets a profile score the extended resources of classes.
    pub(super) fn score(&mut self, profile: &mut Value) {
        if self.scores {
            admitted::score_extended_resources(&mut self.random, profile);
        }
    }

    fn new_rule(&mut self, world: &World) -> Value {
        let rule = admitted::taint_rule(&mut self.random, world, self.next_rule);
        self.next_rule += 1;
        self.rules.push(rule.clone());
        rule
    }

    /// Removes what the script may not have from new slices.
    fn restrict(&self, mut slices: Vec<Value>) -> Vec<Value> {
        if !self.has_conditions {
            admitted::remove_binding_conditions(&mut slices);
        }
        if self.scores {
            admitted::remove_namesakes(&mut slices);
        }
        slices
    }

    /// Moves some pods to the namespace in which claims may ask for admin access.
    pub(super) fn place(&mut self, pod: &mut Value) {
        if self.random.chance(15) {
            pod["metadata"]["namespace"] = ADMIN_NAMESPACE.into();
        }
    }

    /// Adds claims or extended resources, possibly none, to `pod`. Returns the isolation that the pod then needs.
    pub(super) fn add_to(&mut self, pod: &mut Value, isolation: Isolation) -> Isolation {
        admitted::add_extended_resources(&mut self.random, pod, self.asks_for_all);
        if admitted::wants_extended_resources(pod) || self.random.chance(15) {
            return isolation;
        }
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default").to_owned();
        if isolation != Isolation::InBatch && self.random.chance(35) {
            let name =
                if self.random.chance(75) { self.shared(&namespace) } else { self.allocated(&namespace) };
            let mut entries = vec![json!({"name": "only", "resourceClaimName": name})];
            if self.release >= Release::V1_37 && self.random.chance(40) {
                let template = self.template(&namespace);
                let at = self.random.below(2);
                entries.insert(at, json!({"name": "own", "resourceClaimTemplateName": template}));
            }
            pod["spec"]["resourceClaims"] = entries.into();
            return Isolation::NoOtherClaims;
        }
        for index in 0..*self.random.pick(&[1, 1, 1, 1, 2, 2, 3]) {
            let entry = format!("entry-{index}");
            let claim = match self.random.below(20) {
                0 => json!({"name": entry, "resourceClaimName": self.late(&namespace)}),
                1..=4 => json!({"name": entry, "resourceClaimName": self.private(&namespace)}),
                _ => json!({"name": entry, "resourceClaimTemplateName": self.template(&namespace)}),
            };
            push(&mut pod["spec"]["resourceClaims"], claim);
        }
        isolation
    }

    fn new_claim(&mut self, namespace: &str, prefix: &str) -> Value {
        self.next += 1;
        let name = format!("{prefix}-{}", self.next);
        admitted::claim(&mut self.random, namespace, &name, self.may_fail, self.asks_for_all)
    }

    /// A template for claims of one pod.
    fn template(&mut self, namespace: &str) -> Value {
        let mut template = self.new_claim(namespace, "template");
        template["kind"] = "ResourceClaimTemplate".into();
        template["spec"] = json!({"spec": template["spec"]});
        let name = template["metadata"]["name"].clone();
        self.claims.push(template);
        name
    }

    /// A claim that only one pod uses.
    fn private(&mut self, namespace: &str) -> Value {
        let claim = self.new_claim(namespace, "devices");
        self.add(claim)
    }

    /// A claim that several pods use.
    fn shared(&mut self, namespace: &str) -> Value {
        let known: Vec<_> = self.shared.iter().filter(|(of, _)| of == namespace).collect();
        if !known.is_empty() && self.random.chance(85) {
            return self.random.pick(&known).1.as_str().into();
        }
        self.new_shared(namespace)
    }

    fn new_shared(&mut self, namespace: &str) -> Value {
        let claim = self.new_claim(namespace, "shared");
        let name = claim["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        self.shared.push((namespace.to_owned(), name));
        self.add(claim)
    }

    /// Returns true if the next change may be two pods that share a new claim.
    pub(super) fn shares_new_claim(&mut self) -> bool {
        let may_wait = self.has_conditions && self.release >= Release::V1_37;
        self.retries && !may_wait && self.random.chance(15)
    }

    /// An entry of `spec.resourceClaims` for a new claim that several pods use.
    pub(super) fn entry_of_new_shared(&mut self, namespace: &str) -> Value {
        json!({"name": "only", "resourceClaimName": self.new_shared(namespace)})
    }

    /// A claim that has devices from the start, usually on a node that does not suit the pod.
    fn allocated(&mut self, namespace: &str) -> Value {
        let mut claim = self.new_claim(namespace, "allocated");
        admitted::allocate(&mut self.random, &self.free, &mut claim);
        let results = claim["status"]["allocation"]["devices"]["results"].as_array().cloned();
        for slice in &mut self.free {
            let (driver, pool) = (slice["spec"]["driver"].clone(), slice["spec"]["pool"]["name"].clone());
            let is_taken = |device: &Value| {
                let is_it = |result: &Value| {
                    result["driver"] == driver && result["pool"] == pool && result["device"] == device["name"]
                };
                results.iter().flatten().any(is_it)
            };
            if let Some(devices) = slice["spec"]["devices"].as_array_mut() {
                devices.retain(|device| !is_taken(device));
            }
        }
        self.add(claim)
    }

    /// A claim that does not exist yet.
    fn late(&mut self, namespace: &str) -> Value {
        let claim = self.new_claim(namespace, "late");
        let name = claim["metadata"]["name"].clone();
        self.late.push(claim);
        name
    }

    fn add(&mut self, claim: Value) -> Value {
        let name = claim["metadata"]["name"].clone();
        self.named.push(path(&claim));
        self.claims.push(claim);
        name
    }

    /// Returns the slices to create after a node is created.
    pub(super) fn node_slices(&mut self, world: &World, node: &str) -> Vec<Value> {
        let is_here = |slice: &Value| slice["spec"]["nodeName"] == node;
        if self.slices.iter().chain(&self.deleted).any(is_here) || self.random.chance(20) {
            return Vec::new();
        }
        let slices = admitted::slices_of_node(&mut self.random, world, node, self.is_partitioned);
        let slices = self.restrict(slices);
        self.slices.extend(slices.iter().cloned());
        slices
    }

    /// Returns changes to be made one after the other.
    pub(super) fn change(&mut self, world: &World) -> Vec<Change> {
        if self.release >= Release::V1_37 && self.random.chance(20) {
            return vec![self.change_rules(world)];
        }
        match self.random.below(12) {
            0 => self.late.pop().map(Change::Create).into_iter().collect(),
            1 => self.change_claim().into_iter().collect(),
            2 => {
                let class = *self.random.pick(&["fast", "mixed"]);
                let path = format!("/apis/resource.k8s.io/v1/deviceclasses/{class}");
                let selectors = admitted::selectors(&mut self.random, self.may_fail);
                // kube-scheduler does not notice changes to the class of an extended resource.
                let patch = json!({"spec": {"selectors": selectors, "extendedResourceName": null}});
                vec![Change::Patch(path, patch)]
            }
            3 | 4 if !self.slices.is_empty() => {
                let slice = self.slices.swap_remove(self.random.below(self.slices.len()));
                let change = Change::Delete(path(&slice));
                self.deleted.push(slice);
                vec![change]
            }
            5 | 6 if !self.deleted.is_empty() => {
                let slice = self.deleted.swap_remove(self.random.below(self.deleted.len()));
                self.slices.push(slice.clone());
                vec![Change::Create(slice)]
            }
            7 => self.renew_pool(),
            _ => self.change_devices().into_iter().collect(),
        }
    }

    /// Creates, changes or deletes a rule that taints devices.
    fn change_rules(&mut self, world: &World) -> Change {
        if self.rules.is_empty() || self.random.chance(40) {
            return Change::Create(self.new_rule(world));
        }
        let index = self.random.below(self.rules.len());
        if self.random.chance(70) {
            return Change::Delete(path(&self.rules.swap_remove(index)));
        }
        let effect = *self.random.pick(&["NoSchedule", "NoExecute", "None"]);
        Change::Patch(path(&self.rules[index]), json!({"spec": {"taint": {"effect": effect}}}))
    }

    /// A user deletes a claim, or takes its devices away.
    fn change_claim(&mut self) -> Option<Change> {
        if self.named.is_empty() {
            return None;
        }
        let index = self.random.below(self.named.len());
        Some(if self.random.chance(60) {
            Change::Delete(self.named.swap_remove(index))
        } else {
            let status = json!({"allocation": null, "devices": null, "reservedFor": null});
            Change::Patch(format!("{}/status", self.named[index]), json!({"status": status}))
        })
    }

    /// The driver writes all slices of a pool again, as a new generation.
    fn renew_pool(&mut self) -> Vec<Change> {
        if self.slices.is_empty() {
            return Vec::new();
        }
        let pool = |slice: &Value| (slice["spec"]["driver"].clone(), slice["spec"]["pool"]["name"].clone());
        let renewed = pool(self.random.pick(&self.slices));
        let slices: Vec<&mut Value> = self.slices.iter_mut().filter(|slice| pool(slice) == renewed).collect();
        let generations = slices.iter().filter_map(|slice| slice["spec"]["pool"]["generation"].as_u64());
        let generation = generations.max().unwrap_or(0) + 1;
        let count = slices.len();
        let renew = |slice: &mut Value| {
            let properties = &mut slice["spec"]["pool"];
            properties["generation"] = generation.into();
            properties["resourceSliceCount"] = count.into();
            Change::Patch(path(slice), json!({"spec": {"pool": slice["spec"]["pool"]}}))
        };
        slices.into_iter().map(renew).collect()
    }

    /// Changes or removes one device of a slice.
    fn change_devices(&mut self) -> Option<Change> {
        let random = &mut self.random;
        let is_filled =
            |slice: &&mut Value| slice["spec"]["devices"].as_array().is_some_and(|all| !all.is_empty());
        let mut slices: Vec<&mut Value> = self.slices.iter_mut().filter(is_filled).collect();
        if slices.is_empty() {
            return None;
        }
        let slice = slices.swap_remove(random.below(slices.len()));
        let devices = slice["spec"]["devices"].as_array_mut()?;
        let index = random.below(devices.len());
        let device = &mut devices[index];
        match random.below(if self.scores { 5 } else { 6 }) {
            0 | 1 => device["taints"] = json!([taint(random)]),
            2 | 3 => device["taints"] = Value::Null,
            4 => drop(devices.remove(index)),
            _ => device["attributes"]["model"] = json!({"string": random.pick(&["a", "b", "c"])}),
        }
        Some(Change::Patch(path(slice), json!({"spec": {"devices": slice["spec"]["devices"]}})))
    }

    /// Returns the claims and templates that exist at the start.
    pub(super) fn finish(self) -> Vec<Value> {
        self.claims
    }
}

fn taint(random: &mut Random) -> Value {
    let key = *random.pick(&["example.com/broken", "example.com/maintenance"]);
    let effect = *random.pick(&["NoSchedule", "NoSchedule", "NoExecute", "None"]);
    json!({"key": key, "value": random.pick(&["", "yes"]), "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"})
}
