//! Workloads that are ready to run: all parameters are resolved, and all files are read.

mod allocation;
mod gates;
mod planner;

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Map, Value};

use super::super::workload::Size;
use super::config::{ConfigFile, TestCase, WorkloadEntry};
use super::objects::{ObjectTemplate, ObjectType};
use super::obstacle::Obstacle;
use super::op::{ChurnMode, NodeAllocatable, NodeLabels, Stage};
use harbormaster_api::Release;

pub(super) use gates::Gates;

/// Labels that pods must have.
pub(super) type Labels = BTreeMap<String, String>;

/// A workload of `scheduler_perf` with everything that it needs.
#[derive(Debug, Clone)]
pub struct Plan {
    /// `TEST CASE/WORKLOAD`.
    pub name: String,
    /// Numbers of nodes and pods.
    pub size: Size,
    /// Remarks about what differs from `scheduler_perf`.
    pub notes: Vec<String>,
    pub(super) gates: Gates,
    /// Configuration of the scheduler; `None` for the default.
    pub(super) scheduler_config: Option<Value>,
    pub(super) steps: Vec<PlannedStep>,
}

/// A step and its place in the configuration file.
#[derive(Debug, Clone)]
pub(super) struct PlannedStep {
    /// Number of the operation from 0, counting those of `createPodSets` one by one.
    pub(super) index: usize,
    pub(super) opcode: String,
    pub(super) step: Step,
}

#[derive(Debug, Clone)]
pub(super) enum Step {
    CreateNodes(NodeSet),
    CreateNamespaces {
        prefix: String,
        count: usize,
        template: Option<Value>,
    },
    CreatePods(PodSet),
    CreateObjects(ObjectSet),
    CreateDevices {
        driver: String,
        nodes: String,
        per_node: usize,
    },
    UpdateObjects {
        objects: ObjectSet,
        per_second: u32,
        subresources: Vec<String>,
    },
    /// Gives the claims in a namespace, or in all if it is empty, devices of a driver.
    AllocateClaims {
        namespace: String,
        driver: String,
    },
    DeletePods(Deletion),
    Churn(ChurnSet),
    Barrier {
        namespaces: Vec<String>,
        labels: Labels,
        stage: Stage,
    },
    Sleep(Duration),
    StartMeasuring {
        namespaces: Vec<String>,
        labels: Labels,
    },
    StopMeasuring,
    /// An operation that has nothing to do.
    Nothing,
}

#[derive(Debug, Clone)]
pub(super) struct NodeSet {
    pub(super) count: usize,
    /// `None` for the node that `scheduler_perf` creates by default.
    pub(super) template: Option<ObjectTemplate>,
    pub(super) preparation: Preparation,
}

/// Change of nodes before they are created.
#[derive(Debug, Clone)]
pub(super) enum Preparation {
    None,
    Allocatable(NodeAllocatable),
    Labels(NodeLabels),
    UniqueLabel(String),
}

#[derive(Debug, Clone)]
pub(super) struct PodSet {
    pub(super) namespace: String,
    pub(super) count: usize,
    /// `None` for the pod that `scheduler_perf` creates by default.
    pub(super) template: Option<ObjectTemplate>,
    /// A volume and a claim for every pod, bound to each other.
    pub(super) storage: Option<(Value, Value)>,
    /// Number of consecutive pods with the same label `signature`; `None` if pods have no such label.
    pub(super) signature_batch: Option<usize>,
    pub(super) mode: PodMode,
    pub(super) is_measured: bool,
}

/// The end of the creation of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PodMode {
    /// All pods have nodes.
    UntilBound,
    /// All pods exist.
    UntilCreated,
    /// The time is over. Until then, each pod that gets a node is deleted and replaced.
    Steady(Duration),
}

#[derive(Debug, Clone)]
pub(super) struct ObjectSet {
    pub(super) namespace: Option<String>,
    pub(super) count: usize,
    pub(super) template: ObjectTemplate,
    pub(super) object_type: ObjectType,
}

#[derive(Debug, Clone)]
pub(super) struct Deletion {
    pub(super) namespace: String,
    pub(super) labels: Labels,
    /// True if the next step does not wait for the deletion.
    pub(super) is_in_background: bool,
    /// Number of pods per second; all at once if zero.
    pub(super) per_second: u32,
}

#[derive(Debug, Clone)]
pub(super) struct ChurnSet {
    pub(super) mode: ChurnMode,
    /// Number of objects of each kind; unlimited if zero.
    pub(super) number: usize,
    pub(super) interval: Duration,
    pub(super) namespace: String,
    pub(super) objects: Vec<(ObjectType, Value)>,
}

impl Plan {
    /// Plans a workload for a release.
    pub(super) fn of(
        file: &ConfigFile,
        case: &TestCase,
        workload: &WorkloadEntry,
        release: Release,
    ) -> Result<Self, Obstacle> {
        let name = format!("{}/{}", case.name, workload.name);
        planner::plan(&file.folder, case, workload, release, name.clone())
            .map_err(|obstacle| obstacle.in_workload(&file.name, &name))
    }
}

/// Returns the parameters of a workload as one line.
pub(super) fn parameters(params: &Map<String, Value>) -> String {
    let shown = |(name, value): (&String, &Value)| match value {
        Value::String(text) => format!("{name}={text}"),
        value => format!("{name}={value}"),
    };
    params.iter().map(shown).collect::<Vec<_>>().join(" ")
}
