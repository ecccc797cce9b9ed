//! NodeResourcesAllocatable: prefers small or large nodes, whatever runs on them.
//!
//! The plugin has the name and the arguments of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.

use harbormaster::{
    api::{Str, resources},
    prelude::*,
    serde::Deserialize,
};

/// `NodeResourcesAllocatableArgs`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Args {
    /// Nodes to prefer.
    pub mode: Option<Mode>,
    /// Resources that count; absent or empty means [`defaults`].
    pub resources: Option<Vec<ResourceSpec>>,
}

/// Nodes to prefer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde")]
pub enum Mode {
    /// Nodes with the least allocatable resources.
    #[default]
    Least,
    /// Nodes with the most allocatable resources.
    Most,
}

/// A resource and its weight.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(crate = "harbormaster::serde", rename_all = "camelCase", deny_unknown_fields)]
pub struct ResourceSpec {
    /// Name of the resource.
    #[serde(default)]
    pub name: Str,
    /// Weight of a unit of the resource, which is a millicore for cpu.
    #[serde(default)]
    pub weight: i64,
}

/// Returns the resources that count by default. A millicore weighs as much as a mebibyte.
pub fn defaults() -> Vec<ResourceSpec> {
    let spec = |name: &str, weight| ResourceSpec { name: name.into(), weight };
    vec![spec(resources::CPU, 1 << 20), spec(resources::MEMORY, 1)]
}

/// Prefers small or large nodes. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct NodeResourcesAllocatable {
    mode: Mode,
    /// Resources that count, with distinct names and weights above zero.
    resources: Vec<ResourceSpec>,
}

impl Plugin for NodeResourcesAllocatable {
    const NAME: &'static str = "NodeResourcesAllocatable";
    const MAY_BLOCK: bool = false;
    implemented_points!();

    /// Scores depend on no part of the pod.
    fn reads(&self, _: RowPod<'_>, _: &mut Reads) {}
}

impl Build for NodeResourcesAllocatable {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        let given = args.resources.filter(|list| !list.is_empty()).unwrap_or_else(defaults);
        let mut resources: Vec<ResourceSpec> = Vec::with_capacity(given.len());
        for (at, spec) in given.into_iter().enumerate() {
            let ResourceSpec { name, weight } = &spec;
            if *weight <= 0 {
                return Err(format!(
                    "resources[{at}].weight: Invalid value: {weight}: resource weight of {name} should be a positive \
                     value, got :{weight}"
                )
                .into());
            }
            // If a name occurs twice, the last weight counts, as in scheduler-plugins.
            resources.retain(|earlier| earlier.name != *name);
            resources.push(spec);
        }
        Ok(Self { mode: args.mode.unwrap_or_default(), resources })
    }
}

impl Score<Row> for NodeResourcesAllocatable {
    const NORMALIZE: Normalize = Normalize::MinMax;

    fn score(&self, _: &RowCycle<'_>, (): &(), node: NodeRef<'_>) -> PluginResult<i64> {
        let weights: i128 = self.resources.iter().map(|spec| i128::from(spec.weight)).sum();
        let amounts = self.resources.iter().map(|spec| amount(node, &spec.name) * i128::from(spec.weight));
        let size = amounts.sum::<i128>() / weights;
        let signed = if self.mode == Mode::Least { -size } else { size };
        Ok(i64::try_from(signed).unwrap_or(if signed < 0 { i64::MIN } else { i64::MAX }))
    }
}

/// Returns the allocatable amount of a resource. Resources that the scheduler does not count amount to zero, and so
/// does the number of pods, as in scheduler-plugins.
fn amount(node: NodeRef<'_>, name: &str) -> i128 {
    let columns = node.allocatable();
    i128::from(match name {
        resources::CPU => columns.milli_cpu,
        resources::MEMORY => columns.memory,
        resources::EPHEMERAL_STORAGE => columns.ephemeral_storage,
        _ => columns.scalar(name),
    })
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        serde_json::{Value, from_value, json},
        testkit::{
            NodeBuilder, Trial, cluster, node, pod, random::Dice, reads_are_complete, row_scope_holds,
            scores_are_valid,
        },
    };

    use super::*;

    fn built(args: Value) -> Result<NodeResourcesAllocatable, String> {
        let args: Args = from_value(args).map_err(|error| error.to_string())?;
        NodeResourcesAllocatable::build(args, &BuildCycle::default()).map_err(|error| error.to_string())
    }

    fn sized(name: &str, cpu: &str, memory: &str) -> NodeBuilder {
        node(name).offers("cpu", cpu).offers("memory", memory)
    }

    #[test]
    fn small_or_large_nodes_come_first() {
        let three = || [sized("a", "1", "1000Mi"), sized("b", "2", "2000Mi"), sized("c", "3", "3000Mi")];
        let gpus = |name, count| sized(name, "1", "1Gi").offers("example.com/gpu", count);
        for (args, nodes, expected) in [
            (json!({}), Vec::from(three()), vec![100, 50, 0]),
            (json!({"mode": "Least"}), three().into(), vec![100, 50, 0]),
            (json!({"mode": "Most"}), three().into(), vec![0, 50, 100]),
            (json!({"mode": "Most"}), vec![sized("a", "1", "1Gi"), sized("b", "1", "1Gi")], vec![0, 0]),
            (
                json!({"resources": [{"name": "example.com/gpu", "weight": 7}]}),
                vec![gpus("a", "0"), gpus("b", "1"), gpus("c", "4")],
                vec![100, 75, 0],
            ),
            (
                json!({"resources": [{"name": "pods", "weight": 1}]}),
                vec![node("a").offers("pods", "1"), node("b").offers("pods", "2")],
                vec![0, 0],
            ),
            // A weight that is given twice does not count twice.
            (
                json!({"mode": "Most", "resources": [{"name": "cpu", "weight": 1}, {"name": "cpu", "weight": 2}]}),
                vec![sized("a", "1", "1Gi"), sized("b", "2", "1Gi")],
                vec![0, 100],
            ),
            // The products exceed 64 bits.
            (
                json!({"mode": "Most", "resources": [{"name": "memory", "weight": i64::MAX}, {"name": "cpu", "weight": i64::MAX}]}),
                vec![sized("a", "1", "1Pi"), sized("b", "1", "3Pi"), sized("c", "1", "2Pi")],
                vec![0, 100, 50],
            ),
        ] {
            let trial = Trial::of(built(args.clone()).unwrap());
            let scores = trial.scores(&cluster(nodes, []), &pod("p").cpu("7").info());
            assert_eq!(scores.unwrap(), Some(expected), "{args}");
        }
    }

    #[test]
    fn pods_on_nodes_do_not_matter() {
        let nodes = [sized("a", "1", "1Gi"), sized("b", "2", "1Gi")];
        let nodes = cluster(nodes, [pod("x").cpu("900m").on("a")]);
        let scores = Trial::of(built(json!({})).unwrap()).scores(&nodes, &pod("p").info());
        assert_eq!(scores.unwrap(), Some(vec![100, 0]));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for (args, error) in [
            (
                json!({"resources": [{"name": "cpu", "weight": 1}, {"name": "memory", "weight": -2}]}),
                "resources[1].weight: Invalid value: -2: resource weight of memory should be a positive value, got :-2",
            ),
            (
                json!({"resources": [{"name": "cpu"}]}),
                "resources[0].weight: Invalid value: 0: resource weight of cpu should be a positive value, got :0",
            ),
            (json!({"mode": "Small"}), "unknown variant `Small`, expected `Least` or `Most`"),
            (json!({"modes": "Least"}), "unknown field `modes`, expected `mode` or `resources`"),
        ] {
            assert_eq!(built(args).unwrap_err(), error);
        }
        assert!(built(json!({"mode": null, "resources": null})).is_ok());
    }

    #[test]
    fn it_passes_the_conformance_checks() {
        for seed in 0..10 {
            let mut dice = Dice::new(seed);
            let mut nodes = dice.cluster(6);
            let (pod, elsewhere) = (dice.pod("p").info(), dice.pod("elsewhere").info());
            let trial = Trial::of(built(json!({"mode": "Most"})).unwrap());
            row_scope_holds(&trial, &mut nodes, &pod, &elsewhere);
            scores_are_valid(&trial, &nodes, &pod);
            assert!(reads_are_complete(&trial, &nodes, &[pod, elsewhere]) > 0, "no pods were compared");
        }
    }
}
