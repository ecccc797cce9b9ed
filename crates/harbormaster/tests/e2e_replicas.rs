//! Three replicas in trouble, for little more than a minute. `harbormaster-oracle replicas` makes more of it for longer, and
//! judges how long everything takes, too.

use std::path::PathBuf;

use harbormaster_oracle::replicas::{Options, Plan, Trouble, run};

#[test]
fn three_replicas_keep_their_promises_while_the_leader_is_killed_and_servers_are_away() {
    let plan = Plan {
        lasts_s: 75,
        troubles: vec![
            (5, Trouble::KillLeader),
            (33, Trouble::RestartApiServer { gracefully: false }),
            (45, Trouble::StopEtcd),
            (60, Trouble::ContinueEtcd),
        ],
        skew_s: 300,
    };
    let harbormaster = PathBuf::from(env!("CARGO_BIN_EXE_harbormaster"));
    let options = Options { harbormaster, plan, seed: 1, rate: 20, nodes: 30, judges_times: false };
    let report = run(&options, |row| eprintln!("{row:?}")).expect("everything starts");
    assert_eq!(report.violations, [], "{report}");
    assert!(report.created > 200 && report.deleted > 0, "{report}");
    let [take_over] = &report.take_overs[..] else { panic!("{report}") };
    assert_eq!(take_over.killed, "replica-0", "the one whose clock is wrong has led first");
}
