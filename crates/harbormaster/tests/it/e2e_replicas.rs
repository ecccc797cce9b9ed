//! Three replicas under faults, for little more than a minute. `harbormaster-oracle replicas` injects more faults, runs
//! longer, and also checks time limits.

use std::path::PathBuf;

use harbormaster_api::Release;
use harbormaster_oracle::replicas::{Fault, Options, Plan, run};

#[test]
fn three_replicas_keep_their_guarantees_while_the_leader_is_killed_and_servers_are_down() {
    let plan = Plan {
        duration_s: 75,
        faults: vec![
            (5, Fault::KillLeader),
            (33, Fault::RestartApiServer { gracefully: false }),
            (45, Fault::StopEtcd),
            (60, Fault::ContinueEtcd),
        ],
        skew_s: 300,
    };
    let harbormaster = PathBuf::from(env!("CARGO_BIN_EXE_harbormaster"));
    let options = Options {
        release: Release::V1_36,
        harbormaster,
        plan,
        seed: 1,
        rate: 20,
        nodes: 30,
        checks_times: false,
    };
    let report = run(&options, |progress| eprintln!("{progress:?}")).expect("everything starts");
    assert_eq!(report.violations, [], "{report}");
    assert!(report.created > 200 && report.deleted > 0, "{report}");
    let [failover] = &report.failovers[..] else { panic!("{report}") };
    assert_eq!(failover.killed, "replica-0", "the replica with the wrong clock leads first");
}
