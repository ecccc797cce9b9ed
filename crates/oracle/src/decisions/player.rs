//! Runs a script with a scheduler.

use std::collections::BTreeSet;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use harbormaster_api::Release;
use serde_json::{Value, json};

use super::POLL;
use super::claim_controller::{Cleanup, claim_for, claim_of_group, without_finalizer};
use super::cluster_view::{ClusterView, has_failed};
use super::device_drivers::DeviceDrivers;
use super::kubelet::running_status;
use super::outcome::Outcomes;
use super::paths::{NODES, POD_GROUP, TAINT_RULE, collection, everywhere, kinds, path};
use super::script::{Script, Step, waits_for_others};
use super::settle::settle;
use super::shadow::{AuditLog, Shadow};
use crate::components::{ApiClient, ControlPlane, ControlPlaneOptions, Error};
use crate::extenders::{self, ExtenderCall, Extenders};
use crate::generate::{namespaces, priority_class_name};
use crate::groups;
use crate::provisioner::Provisioner;
use crate::scheduler::{Contender, Scheduler, StartOptions};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NAMESPACES: &str = "/api/v1/namespaces";
const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";

const PROBE: &str = "zz-probe";

/// Priority classes of generated pods.
const PRIORITIES: &[i32] = &[10, -5, 2_000_000];

/// Controllers that affect schedulers.
const CONTROLLERS: &[&str] = &[
    "disruption-controller",
    "persistentvolume-binder-controller",
    "persistentvolume-protection-controller",
    "persistentvolumeclaim-protection-controller",
    "ephemeral-volume-controller",
];

/// Time without any change after which a step is over if its result is visible.
const QUIET: Duration = Duration::from_millis(60);

/// Time without any change after which a step is over if it may cause pods to be retried.
const QUIET_AFTER_WAKING: Duration = Duration::from_millis(300);

/// Time after which a backoff of one second has expired. The expiry time is rounded up to the next whole second.
const BACKOFF_OVER: Duration = Duration::from_millis(2100);

/// Time within which kube-scheduler notices that a pod was deleted while kube-scheduler was waiting for the pod's
/// volumes. kube-scheduler checks once a second.
const DELETION_NOTICED: Duration = Duration::from_millis(2100);

/// Time limit for a change to arrive at a watch.
const ARRIVAL: Duration = Duration::from_secs(60);

/// Result of running a script with one scheduler.
#[derive(Debug)]
pub struct Run {
    /// Outcomes of all pods after each step.
    pub outcomes: Vec<Outcomes>,
    /// Distinct extender calls in each step. Repetitions are not recorded, because whether a pod is tried once or twice
    /// depends on when it is woken.
    pub extender_calls: Vec<BTreeSet<ExtenderCall>>,
    /// Number of requests that the API server rejected.
    pub refused: usize,
    /// Duration of all steps.
    pub elapsed: Duration,
}

/// A real API server on which scripts are run.
#[derive(Debug)]
pub struct Stage {
    cluster: ControlPlane,
    groups: bool,
    taint_rules: bool,
    extenders: Extenders,
    audit: Option<AuditLog>,
}

impl Stage {
    /// Starts the API server and the controllers for budgets and volumes, and creates priority classes and namespaces.
    /// All schedulers on this stage belong to the release. If `groups`, the API server serves groups of pods, which
    /// exist from 1.37 on, and schedulers handle them.
    pub fn start(release: Release, groups: bool) -> Result<Self> {
        Self::start_with(release, groups, None)
    }

    /// Like [`Self::start`], without groups, with an API server that logs all requests.
    pub fn audited(release: Release) -> Result<Self> {
        Self::start_with(release, false, Some(AuditLog::new()?))
    }

    fn start_with(release: Release, groups: bool, audit: Option<AuditLog>) -> Result<Self> {
        let mut apiserver_flags = if groups { groups::apiserver_flags() } else { Vec::new() };
        apiserver_flags.extend(audit.iter().flat_map(AuditLog::flags));
        let options = ControlPlaneOptions {
            release,
            controller_manager: true,
            controller_manager_flags: vec![format!("--controllers={}", CONTROLLERS.join(","))],
            apiserver_flags,
            ..ControlPlaneOptions::default()
        };
        let cluster = ControlPlane::start(&options)?;
        for priority in PRIORITIES {
            for (policy, suffix) in [("PreemptLowerPriority", ""), ("Never", "-never")] {
                let name = priority_class_name(*priority) + suffix;
                let class =
                    json!({"metadata": {"name": name}, "value": priority, "preemptionPolicy": policy});
                cluster.client().post(CLASSES, &class)?;
                wait_for_class(cluster.client(), &name)?;
            }
        }
        for namespace in namespaces() {
            if namespace["metadata"]["name"] != "default" {
                cluster.client().post(NAMESPACES, &namespace)?;
            }
        }
        let extenders = Extenders::start(cluster.client())?;
        Ok(Self { cluster, groups, taint_rules: release >= Release::V1_37, extenders, audit })
    }

    /// Runs `script` with `contender` on an empty cluster.
    pub fn play(&mut self, script: &Script, contender: &Contender) -> Result<Run> {
        self.play_beside(script, contender, None)
    }

    /// Runs `script` with kube-scheduler on an empty cluster, beside a shadow. Also returns what the shadow has told.
    pub(super) fn shadow(&mut self, script: &Script, binary: &Path) -> Result<(Run, Vec<Value>)> {
        let mut shadow = Shadow::new(binary);
        let run = self.play_beside(script, &Contender::KubeScheduler, Some(&mut shadow))?;
        Ok((run, shadow.into_told()))
    }

    /// Returns the number of requests of Harbormaster that read since the last call, and its other requests.
    pub(super) fn audit(&mut self) -> Result<(usize, Vec<String>)> {
        self.audit.as_mut().context("the API server does not log requests")?.requests()
    }

    fn play_beside<'a>(
        &'a mut self,
        script: &Script,
        contender: &'a Contender,
        shadow: Option<&'a mut Shadow>,
    ) -> Result<Run> {
        self.clear()?;
        let provisioners = script.drivers.iter().map(|driver| driver.name.clone()).collect();
        let view = ClusterView::new(self.cluster.client(), provisioners, self.groups, self.taint_rules)?;
        let _provisioner = Provisioner::start(self.cluster.client(), script.drivers.clone());
        self.extenders.set_characters(&script.extenders);
        let options = StartOptions {
            config: script.config.to_string().replace(extenders::PLACEHOLDER, &self.extenders.url()),
            feature_gates: self.feature_gates(script),
            parity: true,
            leader_election: false,
            metrics: true,
        };
        let start = Instant::now();
        let mut player = Player {
            cluster: &mut self.cluster,
            view,
            contender,
            options,
            scheduler: None,
            shadow,
            preempts: script.preempts,
            devices: script.devices,
            drivers: DeviceDrivers::default(),
            awaits_backoff: script.awaits_backoff,
            refused: 0,
            settled: Instant::now(),
            claiming_pod_deleted: None,
        };
        let mut outcomes = Vec::with_capacity(script.steps.len());
        let mut extender_calls = Vec::with_capacity(script.steps.len());
        for (index, step) in script.steps.iter().enumerate() {
            let creates = matches!(step, Step::Create { .. });
            if script.awaits_backoff && (step.wakes() || creates && player.has_waiting()) {
                player.await_backoff();
            }
            let context = || format!("{}, step {index}: {}", contender.name(), step.summary());
            player.perform(step).with_context(context)?;
            outcomes.push(player.view.outcomes());
            player.remove_failed().with_context(context)?;
            let names = player.view.names();
            let calls = self.extenders.take_calls(&names);
            extender_calls.push(if step.objects().len() > 1 {
                first_calls(calls)
            } else {
                calls.into_iter().collect()
            });
        }
        let refused = player.refused;
        player.stop()?;
        Ok(Run { outcomes, extender_calls, refused, elapsed: start.elapsed() })
    }

    fn feature_gates(&self, script: &Script) -> Vec<String> {
        let mut gates = vec![format!("OpportunisticBatching={}", script.batching)];
        if self.groups {
            gates.push(groups::GATE.to_owned());
        }
        if script.topology {
            gates.push(groups::TOPOLOGY_GATE.to_owned());
        }
        if script.group_policies {
            gates.push(groups::POLICY_GATE.to_owned());
        }
        if script.group_claims {
            gates.push(groups::CLAIMS_GATE.to_owned());
        }
        gates
    }

    fn clear(&self) -> Result<()> {
        let client = self.cluster.client();
        let is_served = |kind: &&str| match *kind {
            POD_GROUP => self.groups,
            TAINT_RULE => self.taint_rules,
            _ => true,
        };
        for kind in kinds().filter(is_served) {
            // Controllers add events at any time, so the loop does not wait until there are none.
            while !remove_all(client, kind)? && kind != "Event" {
                sleep(POLL);
            }
        }
        Ok(())
    }
}

struct Player<'a> {
    cluster: &'a mut ControlPlane,
    view: ClusterView,
    contender: &'a Contender,
    options: StartOptions,
    scheduler: Option<Scheduler>,
    /// Shadow of the scheduler, which decides beside it.
    shadow: Option<&'a mut Shadow>,
    /// True if pods preempt others. Bound pods then get the status that a kubelet would write.
    preempts: bool,
    /// True if pods have resource claims.
    devices: bool,
    drivers: DeviceDrivers,
    awaits_backoff: bool,
    refused: usize,
    /// End of the last step.
    settled: Instant,
    /// Time at which a pod was deleted while the scheduler may have been waiting for the pod's volumes.
    claiming_pod_deleted: Option<Instant>,
}

impl Player<'_> {
    fn perform(&mut self, step: &Step) -> Result<()> {
        self.act(step)?;
        self.clean_up()
    }

    fn act(&mut self, step: &Step) -> Result<()> {
        match step {
            Step::Restart { objects } => {
                self.stop()?;
                self.create(objects)?;
                while report_devices(self.cluster.client(), &self.view, &mut self.drivers)? {}
                if let Some(shadow) = &mut self.shadow {
                    shadow.start(self.cluster, &self.options)?;
                }
                self.scheduler = Some(Scheduler::start(self.contender, self.cluster, &self.options)?);
                self.settle(QUIET_AFTER_WAKING)?;
                // The probe shows that the scheduler works even if there are no new pods.
                self.probe()
            }
            Step::Create { objects } => {
                self.create(objects)?;
                self.settle(if step.wakes() { QUIET_AFTER_WAKING } else { QUIET })
            }
            Step::Patch { path, patch } => {
                self.attempt(false, |client| client.merge_patch(path, patch))?;
                self.settle(QUIET_AFTER_WAKING)
            }
            Step::Delete { path } => {
                self.attempt(true, |client| client.delete(path))?;
                self.settle(QUIET_AFTER_WAKING)
            }
            Step::Drain { node } => self.drain(node),
            Step::Probe => self.probe(),
            Step::Sweep { all } => {
                let is_deleted =
                    |pod: &Value| pod["spec"]["nodeName"].is_null() && (*all || waits_for_others(pod));
                for pod in self.view.pods(is_deleted) {
                    self.remove(&pod)?;
                }
                self.settle(QUIET)
            }
            Step::Reap => {
                // Pending pods without a nominated node are deleted first. If they were woken, they would take
                // resources, and the times at which their bindings are confirmed would decide whether a nominated pod
                // with hard spread or affinity constraints is retried.
                let is_other = |pod: &Value| {
                    pod["spec"]["nodeName"].is_null() && pod["status"]["nominatedNodeName"].is_null()
                };
                for pod in self.view.pods(is_other) {
                    self.remove(&pod)?;
                }
                self.settle(QUIET)?;
                for pod in self.view.pods(|pod| !pod["metadata"]["deletionTimestamp"].is_null()) {
                    self.await_backoff();
                    self.remove(&pod)?;
                    self.settle(QUIET_AFTER_WAKING)?;
                }
                Ok(())
            }
        }
    }

    /// Stops the scheduler and its shadow, if they are running.
    fn stop(&mut self) -> Result<()> {
        if let Some(scheduler) = self.scheduler.take() {
            scheduler.stop()?;
        }
        self.shadow.as_mut().map_or(Ok(()), |shadow| shadow.stop())
    }

    /// Makes a node unschedulable, so that no pod takes the place of one that is deleted, and deletes its pods and the
    /// node.
    fn drain(&mut self, node: &str) -> Result<()> {
        let path = format!("{NODES}/{node}");
        let cordon = json!({"spec": {"unschedulable": true}});
        self.attempt(false, |client| client.merge_patch(&path, &cordon))?;
        self.settle(QUIET_AFTER_WAKING)?;
        for pod in self.view.pods(|pod| pod["spec"]["nodeName"] == node) {
            self.remove(&pod)?;
        }
        self.settle(QUIET_AFTER_WAKING)?;
        self.attempt(true, |client| client.delete(&path))?;
        self.settle(QUIET_AFTER_WAKING)
    }

    fn has_waiting(&self) -> bool {
        !self.view.pods(|pod| pod["spec"]["nodeName"].is_null() && waits_for_others(pod)).is_empty()
    }

    fn await_backoff(&self) {
        sleep(BACKOFF_OVER.saturating_sub(self.settled.elapsed()));
    }

    fn remove(&mut self, pod: &str) -> Result<()> {
        self.attempt(true, |client| client.delete(&format!("{pod}?gracePeriodSeconds=0"))).map(drop)
    }

    /// In scripts with devices, deletes pods whose attempt ended with an error. They would stay queued, and a later
    /// attempt could end with a different error.
    fn remove_failed(&mut self) -> Result<()> {
        let pods = if self.devices { self.view.pods(has_failed) } else { Vec::new() };
        if pods.is_empty() {
            return Ok(());
        }
        for pod in pods {
            self.remove(&pod)?;
        }
        self.settle(QUIET)?;
        self.clean_up()
    }

    /// Frees the devices of pods that are gone, and deletes the claims that were created for these pods.
    fn clean_up(&mut self) -> Result<()> {
        let mut has_deleted = false;
        while let Some(work) = self.view.cleanup() {
            match work {
                Cleanup::Release { path, patch } => {
                    if self.awaits_backoff {
                        self.await_backoff();
                    }
                    let status = format!("{path}/status");
                    let Some(claim) = self.attempt(false, |client| client.merge_patch(&status, &patch))?
                    else {
                        bail!("the API server rejects {patch} for {path}")
                    };
                    self.remove_finalizer(&path, &claim)?;
                    self.settle(QUIET_AFTER_WAKING)?;
                }
                Cleanup::Delete { path } => {
                    let claim = self.cluster.client().get(&path)?;
                    self.remove_finalizer(&path, &claim)?;
                    if claim["metadata"]["deletionTimestamp"].is_null() {
                        self.attempt(true, |client| client.delete(&path))?;
                    }
                    has_deleted = true;
                }
            }
        }
        if has_deleted { self.settle(QUIET) } else { Ok(()) }
    }

    fn remove_finalizer(&mut self, path: &str, claim: &Value) -> Result<()> {
        let is_deleted = !claim["metadata"]["deletionTimestamp"].is_null();
        if let Some(patch) = without_finalizer(claim) {
            self.attempt(is_deleted, |client| client.merge_patch(path, &patch))?;
        }
        Ok(())
    }

    fn create(&mut self, objects: &[Value]) -> Result<()> {
        let mut last = &Value::Null;
        for object in objects {
            // The volume controller's choice of a volume for a claim depends on the volumes that the controller has
            // received. The controller must make that choice before a pod uses the claim.
            let kind = &object["kind"];
            if kind != last && (kind == "PersistentVolumeClaim" || last == "PersistentVolumeClaim") {
                self.await_claims()?;
            }
            last = kind;
            let created = self.attempt(false, |client| client.post(&collection(object), object))?;
            if created.is_none() {
                continue;
            }
            if kind == "ResourceClaim" && !object["status"].is_null() {
                let (path, patch) = (path(object) + "/status", json!({"status": object["status"]}));
                self.attempt(false, |client| client.merge_patch(&path, &patch))?;
            }
            if let Some(user) = created.filter(|_| kind == "Pod" || kind == POD_GROUP) {
                self.create_claims(&user)?;
            }
        }
        Ok(())
    }

    /// Creates the claims for which a pod or a group names templates, and writes their names into its status. A pod gets
    /// the claims that it shares with its group from the group.
    fn create_claims(&mut self, user: &Value) -> Result<()> {
        let mut statuses = Vec::new();
        let group = match &user["spec"]["schedulingGroup"]["podGroupName"] {
            Value::Null => None,
            name => {
                let namespace = &user["metadata"]["namespace"];
                let reference =
                    json!({"kind": POD_GROUP, "metadata": {"name": name, "namespace": namespace}});
                self.attempt(false, |client| client.get(&path(&reference)))?
            }
        };
        for entry in user["spec"]["resourceClaims"].as_array().into_iter().flatten() {
            let reference = json!({
                "kind": "ResourceClaimTemplate",
                "metadata": {
                    "name": entry["resourceClaimTemplateName"], "namespace": user["metadata"]["namespace"],
                },
            });
            if entry["resourceClaimTemplateName"].is_null() {
                continue;
            }
            if let Some(status) = group.as_ref().and_then(|group| claim_of_group(group, entry)) {
                statuses.push(status);
                continue;
            }
            // The API server may have rejected the template.
            let Some(template) = self.attempt(false, |client| client.get(&path(&reference)))? else {
                continue;
            };
            let claim = claim_for(user, entry, &template);
            if self.attempt(false, |client| client.post(&collection(&claim), &claim))?.is_some() {
                statuses.push(json!({"name": entry["name"], "resourceClaimName": claim["metadata"]["name"]}));
            }
        }
        if !statuses.is_empty() {
            let (path, patch) =
                (path(user) + "/status", json!({"status": {"resourceClaimStatuses": statuses}}));
            self.attempt(false, |client| client.merge_patch(&path, &patch))?;
        }
        Ok(())
    }

    /// Waits until the volume controller and the provisioner have finished.
    fn await_claims(&self) -> Result<()> {
        let deadline = Instant::now() + ARRIVAL;
        loop {
            let is_quiet = || self.view.quiet_for() >= QUIET_AFTER_WAKING;
            if is_quiet() && self.view.unfinished_claims().is_none() && is_quiet() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let why = self.view.unfinished_claims().unwrap_or_else(|| "they keep changing".to_owned());
                bail!("claims and volumes are not ready after {ARRIVAL:?}: {why}");
            }
            sleep(POLL);
        }
    }

    /// Makes a change and waits until it has arrived at the watches. A rejected request is not an error, because the
    /// API server rejects it regardless of which scheduler is running. Returns the answer unless the request was
    /// rejected.
    fn attempt(
        &mut self,
        deletes: bool,
        call: impl Fn(&ApiClient) -> Result<Value, Error>,
    ) -> Result<Option<Value>> {
        let answer = match call(self.cluster.client()) {
            Err(Error::Refused { status: 400..500, .. }) => {
                self.refused += 1;
                return Ok(None);
            }
            answer => answer?,
        };
        // A bound pod that is deleted with a grace period continues to exist, because there is no kubelet. A claim with
        // devices also continues to exist.
        let metadata = &answer["metadata"];
        let is_removed = deletes
            && metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) == 0
            && (answer["kind"] != "ResourceClaim" || metadata["finalizers"].is_null());
        await_arrival(&self.view, &answer, is_removed)?;
        if deletes && may_wait_for_volumes(&answer) {
            self.claiming_pod_deleted = Some(Instant::now());
        }
        Ok(Some(answer))
    }

    fn probe(&mut self) -> Result<()> {
        // The default scheduler name selects the first profile.
        let pod = json!({
            "metadata": {"name": PROBE},
            "spec": {
                // The probe has the lowest priority, so it does not preempt.
                "priorityClassName": priority_class_name(-5),
                "containers": [{"name": "c", "image": "x"}],
                "nodeSelector": {"example.com/probe": "fits-nowhere"},
            },
        });
        self.attempt(false, |client| client.post(PODS, &pod))?;
        self.settle(QUIET)?;
        self.remove(&format!("{PODS}/{PROBE}"))?;
        self.settle(QUIET)
    }

    /// Waits until the scheduler has settled and, in scripts with preemption, starts the pods that it has bound;
    /// repeats both until nothing changes.
    fn settle(&mut self, quiet: Duration) -> Result<()> {
        if let Some(at) = self.claiming_pod_deleted.take() {
            sleep(DELETION_NOTICED.saturating_sub(at.elapsed()));
        }
        loop {
            let Some(scheduler) = &mut self.scheduler else {
                bail!("the first step must start the scheduler")
            };
            let failed = || if self.devices { self.view.pods(has_failed).len() } else { 0 };
            let drivers = || report_devices(self.cluster.client(), &self.view, &mut self.drivers);
            settle(&self.view, scheduler, quiet, failed, drivers)?;
            let is_new = |pod: &Value| {
                pod["spec"]["nodeName"].is_string()
                    && pod["status"]["startTime"].is_null()
                    && pod["metadata"]["deletionTimestamp"].is_null()
            };
            let pods = if self.preempts { self.view.pods(is_new) } else { Vec::new() };
            if pods.is_empty() {
                break;
            }
            for pod in pods {
                let status = running_status(pod.rsplit('/').next().unwrap_or_default());
                let patch = json!({"status": status});
                self.attempt(false, |client| client.strategic_patch(&format!("{pod}/status"), &patch))?;
            }
        }
        self.settled = Instant::now();
        Ok(())
    }
}

/// Writes the report of a driver, if one is due, and waits until it has arrived at the watches. Returns false if none
/// is due.
fn report_devices(client: &ApiClient, view: &ClusterView, drivers: &mut DeviceDrivers) -> Result<bool> {
    let Some((path, patch)) = view.device_report(drivers) else { return Ok(false) };
    await_arrival(view, &client.merge_patch(&path, &patch)?, false)?;
    Ok(true)
}

/// Waits until a change has arrived at the watches.
fn await_arrival(view: &ClusterView, answer: &Value, is_removed: bool) -> Result<()> {
    let deadline = Instant::now() + ARRIVAL;
    while !view.has_seen(answer, is_removed) {
        if Instant::now() >= deadline {
            bail!("the change did not arrive at the watch within {ARRIVAL:?}: {answer}");
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Returns the first call to each extender for each pod and verb. Whether a pod of a batch is retried, and with which
/// result, depends on when the bindings of other pods are confirmed.
fn first_calls(calls: Vec<ExtenderCall>) -> BTreeSet<ExtenderCall> {
    let mut seen = BTreeSet::new();
    let key = |call: &ExtenderCall| [&call.extender, &call.verb, &call.pod].map(String::clone);
    calls.into_iter().filter(|call| seen.insert(key(call))).collect()
}

/// Returns true if the pod is not bound but the scheduler may already have chosen its node, and may be waiting for the
/// volumes of the pod's claims.
fn may_wait_for_volumes(pod: &Value) -> bool {
    let has_claim =
        |volume: &Value| volume["persistentVolumeClaim"].is_object() || volume["ephemeral"].is_object();
    pod["kind"] == "Pod"
        && pod["spec"]["nodeName"].is_null()
        && pod["spec"]["volumes"].as_array().is_some_and(|volumes| volumes.iter().any(has_claim))
}

/// Deletes all objects of `kind`. Returns true if there were none.
fn remove_all(client: &ApiClient, kind: &str) -> Result<bool> {
    let list = client.get(&everywhere(kind))?;
    let mut collections = BTreeSet::new();
    for item in list["items"].as_array().into_iter().flatten() {
        let mut object = item.clone();
        object["kind"] = kind.into();
        if !object["metadata"]["finalizers"].is_null() && kind == "ResourceClaim" {
            client.merge_patch(&path(&object), &json!({"metadata": {"finalizers": null}}))?;
        }
        // The API server would recreate its own service.
        if object["metadata"]["name"] != "kubernetes" {
            collections.insert(collection(&object));
        }
    }
    for collection in &collections {
        // Without a garbage collector, a ReplicationController can be deleted only in this way.
        client.delete(&format!("{collection}?gracePeriodSeconds=0&propagationPolicy=Background"))?;
    }
    Ok(collections.is_empty())
}

/// Waits until the admission plugin accepts a new priority class, which takes a moment.
fn wait_for_class(client: &ApiClient, name: &str) -> Result<()> {
    let pod = json!({
        "metadata": {"name": "class"},
        "spec": {"priorityClassName": name, "containers": [{"name": "c", "image": "x"}]},
    });
    for _ in 0..1000 {
        match client.post(&format!("{PODS}?dryRun=All"), &pod) {
            Err(Error::Refused { status: 403, .. }) => sleep(POLL),
            result => return Ok(result.map(drop)?),
        }
    }
    bail!("the Priority admission plugin did not accept the priority class {name} in time")
}
