//! NodeMetadata: prefers nodes by a number or a time in a label or an annotation.
//!
//! The plugin has the name and the arguments of the plugin of
//! [scheduler-plugins](https://github.com/kubernetes-sigs/scheduler-plugins). `README.md` lists the differences.
//!
//! Reading order: this file (scores), [`values`] (what nodes have), [`args`], [`layout`] (how times are written).

pub mod args;
pub mod layout;
pub mod values;

use harbormaster::prelude::*;

use args::{Args, Settings};
use values::Values;

/// Prefers nodes by their metadata. See the [crate's documentation](crate).
#[derive(Clone, Debug)]
pub struct NodeMetadata(Settings);

impl Plugin for NodeMetadata {
    const NAME: &'static str = "NodeMetadata";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl Build for NodeMetadata {
    type Args = Args;

    fn build(args: Args, _: &BuildCycle) -> Result<Self, PluginError> {
        args.settings().map(Self)
    }
}

impl Indexed for NodeMetadata {
    type Index = Values;

    fn prepare(&self, values: &mut Values, view: ClusterView<'_>, _: &PodInfo) {
        values.read(&self.0, view);
    }
}

/// Finds the lowest and the highest value, on which all scores depend.
impl PreScore<WholeCluster, (), Range> for NodeMetadata {
    fn pre_score(&self, cx: &Cycle<'_>, (): &(), candidates: &NodeSet) -> PluginResult<PreScored<Range>> {
        let values = self.index(cx)?.of(&self.0);
        let mut range = Range { worst: f64::INFINITY, best: f64::NEG_INFINITY };
        for value in candidates.iter().filter_map(|row| value_at(values, row)) {
            range = Range { worst: range.worst.min(value), best: range.best.max(value) };
        }
        Ok(if range.worst <= range.best { PreScored::Continue(range) } else { PreScored::Skip })
    }
}

impl Score<WholeCluster, Range> for NodeMetadata {
    fn score(&self, cx: &Cycle<'_>, range: &Range, node: NodeRef<'_>) -> PluginResult<i64> {
        Ok(range.score(value_at(self.index(cx)?.of(&self.0), node.idx())))
    }

    fn score_batch(&self, cx: &Cycle<'_>, range: &Range, scores: &mut Scores<'_>) -> PluginResult<()> {
        let values = self.index(cx)?.of(&self.0);
        scores.iter_mut().for_each(|(row, score)| *score = range.score(value_at(values, row)));
        Ok(())
    }
}

fn value_at(values: &[Option<f64>], row: NodeIdx) -> Option<f64> {
    values.get(row.at()).copied().flatten()
}

/// The lowest and the highest value.
#[derive(Clone, Copy, Debug, Default)]
pub struct Range {
    worst: f64,
    best: f64,
}

impl Range {
    fn score(self, value: Option<f64>) -> i64 {
        value.map_or(0, |value| score(value, self.worst, self.best))
    }
}

/// Returns a score in 1..=100 in proportion to the position between the worst and the best value.
fn score(value: f64, worst: f64, best: f64) -> i64 {
    // Scaled down, so that no product overflows. Dividing by a power of two does not change the digits.
    let [value, worst, best] = [value, worst, best].map(|number| number / 256.0);
    let range = best - worst;
    if range > 0.0 { ((value - worst) * 99.0 / range) as i64 + 1 } else { 1 }
}

#[cfg(test)]
mod tests {
    use harbormaster::{
        serde_json::{Value, from_value, json},
        testkit::{
            NodeBuilder, Trial, Words, answers_are_repeatable, batch_equals_single, cluster, node, pod,
            random::Dice, scores_are_valid,
        },
    };

    use super::*;

    const KEY: &str = "example.com/rank";

    fn built(args: Value) -> Result<NodeMetadata, String> {
        let args: Args = from_value(args).map_err(|error| error.to_string())?;
        NodeMetadata::build(args, &BuildCycle::default()).map_err(|error| error.to_string())
    }

    fn args(source: &str, kind: &str, strategy: &str) -> Value {
        json!({"metadataKey": KEY, "metadataSource": source, "metadataType": kind, "scoringStrategy": strategy})
    }

    /// Returns the scores of nodes with these values; `-` stands for a node without a value.
    fn scores(args: Value, values: &str) -> Option<Vec<i64>> {
        let is_label = args["metadataSource"] == "Label";
        let with = |(at, value): (usize, &str)| -> NodeBuilder {
            let node = node(&format!("n{at}"));
            match value {
                "-" => node,
                _ if is_label => node.label(KEY, value),
                _ => node.annotation(KEY, value),
            }
        };
        let nodes = cluster(values.split_whitespace().enumerate().map(with), []);
        Trial::of(built(args).unwrap()).scores(&nodes, &pod("p").info()).unwrap()
    }

    #[test]
    fn numbers_are_spread_over_1_to_100() {
        for (strategy, values, expected) in [
            ("Highest", "10 100 50", vec![1, 100, 45]),
            ("Lowest", "100 10 50", vec![1, 100, 56]),
            ("Lowest", "200 100 150 -", vec![1, 100, 50, 0]),
            ("Highest", "7 7 -", vec![1, 1, 0]),
            ("Highest", "-5 x 5", vec![1, 0, 100]),
            // Fractions count, and extreme numbers do no harm.
            ("Highest", "0.2 0.9 0.55", vec![1, 100, 50]),
            ("Highest", "1 inf NaN 2", vec![1, 0, 0, 100]),
            ("Highest", "-1e308 1e308 0", vec![1, 100, 50]),
        ] {
            for source in ["Label", "Annotation"] {
                assert_eq!(
                    scores(args(source, "Number", strategy), values),
                    Some(expected.clone()),
                    "{values}"
                );
            }
        }
        assert_eq!(scores(args("Label", "Number", "Highest"), "- - x"), None);
    }

    #[test]
    fn times_are_compared_without_a_clock() {
        let times = "2024-01-01T00:00:00Z 2024-01-03T00:00:00Z 2024-01-02T01:00:00+01:00 yesterday";
        let of = |strategy| scores(args("Annotation", "Timestamp", strategy), times);
        assert_eq!(of("Newest"), Some(vec![1, 100, 50, 0]));
        assert_eq!(of("Oldest"), Some(vec![100, 1, 50, 0]));
        let mut days = args("Label", "Timestamp", "Newest");
        days["timestampFormat"] = "2006-01-02".into();
        assert_eq!(scores(days, "2024-02-28 2024-02-29 2024-03-01 2024-02-30"), Some(vec![1, 50, 100, 0]));
    }

    #[test]
    fn wrong_arguments_are_refused() {
        let with = |field: &str, value: Value| {
            let mut args = args("Label", "Number", "Highest");
            args[field] = value;
            built(args).unwrap_err()
        };
        for (error, expected) in [
            (with("metadataKey", "".into()), "metadataKey cannot be empty"),
            (
                with("metadataSource", "Taint".into()),
                "metadataSource must be either \"Label\" or \"Annotation\"",
            ),
            (with("metadataType", Value::Null), "metadataType must be either \"Number\" or \"Timestamp\""),
            (
                with("scoringStrategy", "Best".into()),
                "scoringStrategy must be one of \"Highest\", \"Lowest\", \"Newest\", or \"Oldest\"",
            ),
            (
                with("scoringStrategy", "Newest".into()),
                "scoringStrategy \"Newest\" and \"Oldest\" are only valid for metadataType \"Timestamp\"",
            ),
            (
                built(args("Label", "Timestamp", "Lowest")).unwrap_err(),
                "scoringStrategy \"Highest\" and \"Lowest\" are only valid for metadataType \"Number\"",
            ),
        ] {
            assert_eq!(error, format!("invalid NodeMetadataArgs: {expected}"));
        }
        assert!(with("metadataKeys", "a".into()).starts_with("unknown field `metadataKeys`"));
    }

    #[test]
    fn it_passes_the_conformance_checks() {
        let words = || Words::default().node_label(KEY, &["1", "2.5", "-7", "x", "1e300"]);
        for seed in 0..10 {
            let mut dice = Dice::knowing(seed, words());
            let nodes = dice.cluster(6);
            let (pod, meanwhile) = (dice.pod("p").info(), dice.pod("meanwhile").info());
            let trial = Trial::of(built(args("Label", "Number", "Lowest")).unwrap()).knowing(words());
            answers_are_repeatable(&trial, &nodes, &pod, &meanwhile);
            batch_equals_single(&trial, &nodes, &pod);
            scores_are_valid(&trial, &nodes, &pod);
        }
    }
}
