//! Planning of a workload.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use harbormaster_api::Release;
use harbormaster_api::features::Feature;
use serde_json::{Map, Value};

use super::super::cluster;
use super::super::config::{TestCase, WorkloadEntry};
use super::super::objects::{ObjectTemplate, ObjectType, read_object};
use super::super::obstacle::Obstacle;
use super::super::op::{self, Count, Op};
use super::super::params::Params;
use super::{
    ChurnSet, Deletion, Gates, NodeSet, ObjectSet, Plan, PlannedStep, PodMode, PodSet, Preparation, Size,
    Step, allocation,
};

/// Interval of churn unless the operation sets another.
const CHURN_INTERVAL: u64 = 500;

/// Plans the workload `name`, whose files are in `folder`.
pub(super) fn plan(
    folder: &Path,
    case: &TestCase,
    workload: &WorkloadEntry,
    release: Release,
    name: String,
) -> Result<Plan, Obstacle> {
    let (gates, notes) = Gates::of(&case.feature_gates, &workload.feature_gates, release)?;
    let scheduler_config = case.scheduler_config_path.as_ref().map(|path| read_object(&folder.join(path)));
    let scheduler_config =
        scheduler_config.transpose().map_err(|obstacle| obstacle.in_field("schedulerConfigPath"))?;
    let mut planner = Planner {
        folder,
        default_pod: case.default_pod_template_path.as_deref(),
        params: Params::new(&workload.params),
        release,
        gates: &gates,
        steps: Vec::new(),
        is_measuring: false,
    };
    for (index, op) in case.workload_template.iter().enumerate() {
        let opcode = op["opcode"].as_str().unwrap_or("no opcode");
        planner.plan_op(op, opcode).map_err(|obstacle| obstacle.in_op(index, opcode))?;
    }
    if let Some(name) = planner.params.unused() {
        let problem =
            "no operation uses the parameter, so it is for Go code of the test, which does not run here";
        return Err(Obstacle::new(problem).in_field(&format!("params.{name}")));
    }
    if planner.is_measuring {
        return Err(Obstacle::new("the last startCollectingMetrics has no stopCollectingMetrics"));
    }
    let steps = planner.steps;
    let size = size(&steps).ok_or_else(|| Obstacle::new("no operation collects metrics"))?;
    Ok(Plan { name, size, notes, gates, scheduler_config, steps })
}

struct Planner<'a> {
    folder: &'a Path,
    default_pod: Option<&'a str>,
    params: Params<'a>,
    release: Release,
    gates: &'a Gates,
    steps: Vec<PlannedStep>,
    /// True between the starts and the stops of the collection of metrics.
    is_measuring: bool,
}

impl Planner<'_> {
    fn plan_op(&mut self, op: &Value, opcode: &str) -> Result<(), Obstacle> {
        let op: Op = serde_json::from_value(op.clone()).map_err(|error| Obstacle::new(error.to_string()))?;
        if let Op::CreatePodSets(sets) = &op {
            return self.plan_pod_sets(sets);
        }
        let step = self.step(&op)?;
        self.push(opcode, step);
        Ok(())
    }

    fn push(&mut self, opcode: &str, step: Step) {
        self.steps.push(PlannedStep { index: self.steps.len(), opcode: opcode.to_owned(), step });
    }

    fn step(&mut self, op: &Op) -> Result<Step, Obstacle> {
        match op {
            Op::CreateNodes(op) => self.nodes(op).map(Step::CreateNodes),
            Op::CreateNamespaces(op) => self.namespaces(op),
            Op::CreatePods(op) => self.pods(op).map(Step::CreatePods),
            Op::CreatePodSets(_) => Err(Obstacle::new("createPodSets must not contain createPodSets")),
            Op::CreateAny(op) => self.objects(op, None).map(Step::CreateObjects),
            Op::CreatePodGroups(op) => self.objects(op, Some(cluster::GROUPS)).map(Step::CreateObjects),
            Op::CreateResourceClaims(op) => self.objects(op, Some(cluster::CLAIMS)).map(Step::CreateObjects),
            Op::CreateResourceDriver(op) => self.devices(op),
            Op::AllocResourceClaims(op) => self.allocation(op),
            Op::UpdateAny(op) => self.updates(op),
            Op::DeletePods(op) => Ok(Step::DeletePods(deletion(op))),
            Op::Churn(op) => self.churn(op).map(Step::Churn),
            Op::Barrier(op) => Ok(Step::Barrier {
                namespaces: op.namespaces.clone(),
                labels: op.label_selector.clone(),
                stage: op.stage_requirement,
            }),
            Op::Sleep(op) => {
                Ok(Step::Sleep(self.params.duration(op.duration.as_deref(), op.duration_param.as_deref())?))
            }
            Op::StartCollectingMetrics(op) => self.start_measuring(op),
            Op::StopCollectingMetrics(_) => self.stop_measuring(),
        }
    }

    fn count(&self, count: &Count, default: usize) -> Result<usize, Obstacle> {
        self.params.count(count, "count", default)
    }

    fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path)
    }

    fn template(
        &self,
        path: &str,
        field: &str,
        params: &Map<String, Value>,
    ) -> Result<ObjectTemplate, Obstacle> {
        let params = self.params.resolve(params)?;
        ObjectTemplate::read(self.path(path), params).map_err(|obstacle| obstacle.in_field(field))
    }

    fn object(&self, path: &str, field: &str) -> Result<Value, Obstacle> {
        read_object(&self.path(path)).map_err(|obstacle| obstacle.in_field(field))
    }

    fn nodes(&self, op: &op::CreateNodes) -> Result<NodeSet, Obstacle> {
        let template = op.node_template_path.as_ref();
        let template = template.map(|path| self.template(path, "nodeTemplatePath", &op.template_params));
        let preparation = match (
            &op.node_allocatable_strategy,
            &op.label_node_prepare_strategy,
            &op.unique_node_label_strategy,
        ) {
            (Some(strategy), _, _) => Preparation::Allocatable(strategy.clone()),
            (None, Some(strategy), _) if strategy.label_values.is_empty() => {
                let problem = Obstacle::new("the strategy has no values");
                return Err(problem.in_field("labelNodePrepareStrategy.labelValues"));
            }
            (None, Some(strategy), _) => Preparation::Labels(strategy.clone()),
            (None, None, Some(strategy)) => Preparation::UniqueLabel(strategy.label_key.clone()),
            (None, None, None) => Preparation::None,
        };
        Ok(NodeSet { count: self.count(&op.count(), 0)?, template: template.transpose()?, preparation })
    }

    fn namespaces(&self, op: &op::CreateNamespaces) -> Result<Step, Obstacle> {
        let template = op.namespace_template_path.as_ref();
        let template = template.map(|path| self.object(path, "namespaceTemplatePath")).transpose()?;
        Ok(Step::CreateNamespaces { prefix: op.prefix.clone(), count: self.count(&op.count(), 0)?, template })
    }

    fn plan_pod_sets(&mut self, sets: &op::CreatePodSets) -> Result<(), Obstacle> {
        let Op::CreatePods(op) = &*sets.create_pods_op else {
            return Err(Obstacle::new("the operation is not createPods").in_field("createPodsOp"));
        };
        let mut op = op.clone();
        for index in 0..self.count(&sets.count(), 0)? {
            op.namespace = Some(format!("{}-{index}", sets.namespace_prefix));
            let pods = self.pods(&op).map_err(|obstacle| obstacle.in_field("createPodsOp"))?;
            self.push("createPods", Step::CreatePods(pods));
        }
        Ok(())
    }

    fn pods(&self, op: &op::CreatePods) -> Result<PodSet, Obstacle> {
        let params = &self.params;
        let mut count = self.count(&op.count(), 0)?;
        if let Some(multiplier) = &op.count_multiplier_param {
            let multiplier = Count { value: None, parameter: Some(multiplier.clone()) };
            count *= params.count(&multiplier, "countMultiplier", 1)?;
        }
        let signature_batch = params.count(&op.signature_batch(), "signatureBatchSize", 1)?.max(1);
        let is_steady = params.flag(op.steady_state, op.steady_state_param.as_deref(), "steadyStateParam")?;
        let duration = params.duration(op.duration.as_deref(), op.duration_param.as_deref())?;
        let mode = match (op.skip_wait_to_completion, is_steady) {
            (true, _) if op.collect_metrics => {
                return Err(Obstacle::new("the operation collects metrics, so it must wait for its pods")
                    .in_field("skipWaitToCompletion"));
            }
            (true, true) => {
                return Err(
                    Obstacle::new("a steady state must be waited for").in_field("skipWaitToCompletion")
                );
            }
            (true, false) => PodMode::UntilCreated,
            (false, true) if duration.is_zero() => {
                return Err(Obstacle::new("a steady state needs a duration").in_field("duration"));
            }
            (false, true) => PodMode::Steady(duration),
            (false, false) => PodMode::UntilBound,
        };
        if op.collect_metrics && self.is_measuring {
            return Err(Obstacle::new("metrics are collected already").in_field("collectMetrics"));
        }
        let (path, field) = match &op.pod_template_path {
            Some(path) => (Some(path.as_str()), "podTemplatePath"),
            None => (self.default_pod, "defaultPodTemplatePath"),
        };
        let template = path.map(|path| self.template(path, field, &op.template_params)).transpose()?;
        let default = || format!("namespace-{}", self.steps.len());
        Ok(PodSet {
            namespace: op.namespace.clone().unwrap_or_else(default),
            count,
            // Kubernetes 1.36 does not add the label, and no version adds it to the default pod.
            signature_batch: (self.release >= Release::V1_37 && template.is_some())
                .then_some(signature_batch),
            template,
            storage: self.storage(op)?,
            mode,
            is_measured: op.collect_metrics,
        })
    }

    fn storage(&self, op: &op::CreatePods) -> Result<Option<(Value, Value)>, Obstacle> {
        const VOLUME: &str = "persistentVolumeTemplatePath";
        let Some(claim) = &op.persistent_volume_claim_template_path else { return Ok(None) };
        let claim = self.object(claim, "persistentVolumeClaimTemplatePath")?;
        let volume = op.persistent_volume_template_path.as_ref();
        let volume = volume.ok_or_else(|| Obstacle::new("claims need volumes").in_field(VOLUME))?;
        Ok(Some((self.object(volume, VOLUME)?, claim)))
    }

    /// Plans the creation of objects, whose version is that of the operation or else that of the template.
    fn objects(&self, op: &op::CreateObjects, version: Option<&str>) -> Result<ObjectSet, Obstacle> {
        let count = self.count(&op.count(), 1)?;
        let template = self.template(&op.template_path, "templatePath", &op.template_params)?;
        self.object_set(op.namespace.as_ref(), count, template, version)
    }

    fn object_set(
        &self,
        namespace: Option<&String>,
        count: usize,
        template: ObjectTemplate,
        version: Option<&str>,
    ) -> Result<ObjectSet, Obstacle> {
        let mut object_type = template.object_type().map_err(|obstacle| obstacle.in_field("templatePath"))?;
        if let Some(version) = version {
            version.clone_into(&mut object_type.api_version);
        }
        self.check_served(&object_type)?;
        if object_type.is_namespaced != namespace.is_some() {
            let needs = if object_type.is_namespaced { "need a" } else { "have no" };
            return Err(Obstacle::new(format!("objects of kind {} {needs} namespace", object_type.kind))
                .in_field("namespace"));
        }
        Ok(ObjectSet { namespace: namespace.cloned(), count, template, object_type })
    }

    /// Fails if the API server would not serve the version of an object's group.
    fn check_served(&self, object_type: &ObjectType) -> Result<(), Obstacle> {
        let version = object_type.api_version.as_str();
        let is_served = match version.split_once('/') {
            Some(("scheduling.k8s.io", "v1")) | None => true,
            Some(("scheduling.k8s.io", _)) => {
                version == cluster::GROUPS && self.gates.is_on(Feature::GenericWorkload)
            }
            Some(("resource.k8s.io", "v1")) => true,
            Some(("resource.k8s.io", _)) => {
                cluster::DEVICES.contains(&version) && self.gates.is_on(Feature::DynamicResourceAllocation)
            }
            Some(_) => true,
        };
        let problem = || {
            let problem =
                format!("Kubernetes {} does not serve {version} with these feature gates", self.release);
            Obstacle::new(problem).in_field("templatePath")
        };
        is_served.then_some(()).ok_or_else(problem)
    }

    fn devices(&self, op: &op::CreateResourceDriver) -> Result<Step, Obstacle> {
        let per_node = self.params.count(&op.devices_per_node(), "maxClaimsPerNode", 0)?;
        Ok(Step::CreateDevices { driver: op.driver_name.clone(), nodes: op.nodes.clone(), per_node })
    }

    fn allocation(&self, op: &op::AllocResourceClaims) -> Result<Step, Obstacle> {
        let namespace = op.namespace.clone();
        let driver = allocation::driver(&self.steps, &namespace)?;
        Ok(driver.map_or(Step::Nothing, |driver| Step::AllocateClaims { namespace, driver }))
    }

    fn updates(&self, op: &op::UpdateAny) -> Result<Step, Obstacle> {
        let template = self.template(&op.template_path, "templatePath", &Map::new())?;
        let objects = self.object_set(op.namespace.as_ref(), self.count(&op.count(), 1)?, template, None)?;
        Ok(Step::UpdateObjects {
            objects,
            per_second: op.update_per_second,
            subresources: op.subresources.clone(),
        })
    }

    fn churn(&self, op: &op::Churn) -> Result<ChurnSet, Obstacle> {
        if op.number == 0 && op.mode == op::ChurnMode::Recreate {
            return Err(Obstacle::new("the mode recreate needs a number of objects").in_field("number"));
        }
        let read = |path: &String| {
            let object = self.object(path, "templatePaths")?;
            let object_type =
                ObjectType::of(&object).map_err(|obstacle| obstacle.in_field("templatePaths"))?;
            Ok((object_type, object))
        };
        let default = || format!("namespace-{}", self.steps.len());
        let interval = if op.interval_milliseconds == 0 { CHURN_INTERVAL } else { op.interval_milliseconds };
        Ok(ChurnSet {
            mode: op.mode,
            number: op.number,
            interval: Duration::from_millis(interval),
            namespace: op.namespace.clone().unwrap_or_else(default),
            objects: op.template_paths.iter().map(read).collect::<Result<_, _>>()?,
        })
    }

    fn start_measuring(&mut self, op: &op::StartCollectingMetrics) -> Result<Step, Obstacle> {
        if self.is_measuring {
            return Err(Obstacle::new("metrics are collected already"));
        }
        if op.namespaces.is_empty() {
            return Err(Obstacle::new("there are no namespaces").in_field("namespaces"));
        }
        self.is_measuring = true;
        Ok(Step::StartMeasuring { namespaces: op.namespaces.clone(), labels: op.label_selector.clone() })
    }

    fn stop_measuring(&mut self) -> Result<Step, Obstacle> {
        if !self.is_measuring {
            return Err(Obstacle::new("there is no startCollectingMetrics before"));
        }
        self.is_measuring = false;
        Ok(Step::StopMeasuring)
    }
}

fn deletion(op: &op::DeletePods) -> Deletion {
    Deletion {
        namespace: op.namespace.clone(),
        labels: op.label_selector.clone(),
        is_in_background: op.skip_wait_to_completion,
        per_second: op.delete_pods_per_second,
    }
}

/// Returns the size of a run; `None` if nothing is measured. The measured pods are those that are created while metrics
/// are collected. In a steady state, there are more.
fn size(steps: &[PlannedStep]) -> Option<Size> {
    let mut size = Size { nodes: 0, init_pods: 0, pods: 0 };
    let mut measured_namespaces: Option<BTreeSet<&String>> = None;
    let mut is_measured = false;
    for planned in steps {
        match &planned.step {
            Step::CreateNodes(nodes) => size.nodes += nodes.count,
            Step::StartMeasuring { namespaces, .. } => {
                is_measured = true;
                measured_namespaces = Some(namespaces.iter().collect());
            }
            Step::StopMeasuring => measured_namespaces = None,
            Step::CreatePods(pods) => {
                let in_phase = |names: &BTreeSet<&String>| names.contains(&pods.namespace);
                is_measured |= pods.is_measured;
                match pods.is_measured || measured_namespaces.as_ref().is_some_and(in_phase) {
                    true => size.pods += pods.count,
                    false => size.init_pods += pods.count,
                }
            }
            _ => {}
        }
    }
    is_measured.then_some(size)
}
