//! Two runs of one script with the real scheduler are equal, and a run with a different configuration differs.

use harbormaster_oracle::decisions::{Options, Script, Size, Stage, TRIES, compare_on};
use harbormaster_oracle::scheduler::Contender;

use crate::releases::MAIN;

const SIZE: Size = Size { nodes: 10, pods: 40, changes: 8 };

#[test]
fn the_real_scheduler_decides_the_same_way_twice() {
    let mut stage = Stage::start(MAIN, false).unwrap();
    let script = Script::new(2, SIZE, Options::default());
    let contender = Contender::KubeScheduler;
    let report = compare_on(&mut stage, &script, [&contender, &contender], TRIES).unwrap();
    assert!(report.finding.is_none(), "{report}");
    assert!(report.pods >= 30 && report.pending > 0 && report.pending < report.pods, "{report}");
}

#[test]
fn the_real_scheduler_preempts_the_same_way_twice() {
    let mut stage = Stage::start(MAIN, false).unwrap();
    let script = Script::new(5, Size { nodes: 10, pods: 30, changes: 2 }, Options::default());
    let contender = Contender::KubeScheduler;
    let report = compare_on(&mut stage, &script, [&contender, &contender], TRIES).unwrap();
    assert!(report.finding.is_none(), "{report}");
    assert!(report.preempted > 0, "{report}");
}

#[test]
fn a_scheduler_with_another_configuration_decides_differently() {
    let mut stage = Stage::start(MAIN, false).unwrap();
    let script = Script::new(2, SIZE, Options::default());
    let mut packing = script.clone();
    let strategy = serde_json::json!({"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]});
    for profile in packing.config["profiles"].as_array_mut().unwrap() {
        profile["pluginConfig"] =
            serde_json::json!([{"name": "NodeResourcesFit", "args": {"scoringStrategy": strategy}}]);
    }
    let spread = stage.play(&script, &Contender::KubeScheduler).unwrap();
    let packed = stage.play(&packing, &Contender::KubeScheduler).unwrap();
    assert_eq!(spread.outcomes.len(), packed.outcomes.len());
    assert_ne!(spread.outcomes.last(), packed.outcomes.last());
}
