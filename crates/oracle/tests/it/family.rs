//! The clusters for the plugins of scheduler-plugins. The comparison itself is a command, `harbormaster-oracle family`,
//! because building the real plugins takes about five minutes of CPU time.

use harbormaster_oracle::family::{OurFamily, Plugin};
use harbormaster_oracle::verdicts::VerdictSource;

#[test]
fn every_plugin_judges_its_clusters_without_errors() {
    let mut ours = OurFamily::default();
    for plugin in Plugin::ALL {
        for seed in 1..=5 {
            let verdicts = ours.judge(&plugin.cluster(seed)).unwrap();
            assert!(!verdicts.is_empty(), "{plugin}, seed {seed}");
            let errors = verdicts.values().filter_map(|verdict| verdict.error.as_ref());
            assert_eq!(errors.collect::<Vec<_>>(), Vec::<&String>::new(), "{plugin}, seed {seed}");
        }
    }
}

#[test]
#[ignore = "building the real plugins takes about five minutes of CPU time"]
fn every_plugin_agrees_with_the_real_one() {
    for plugin in Plugin::ALL {
        let options = harbormaster_oracle::verdicts::Options {
            release: crate::releases::MAIN,
            seed: 1,
            clusters: 30,
            shape: harbormaster_oracle::generate::Shape { max_nodes: 0, max_pods: 0, admitted: false },
            shrink_for: std::time::Duration::from_secs(60),
            only: None,
            keep_going: false,
            command: format!("family --plugin {plugin}"),
        };
        let report = harbormaster_oracle::family::run(*plugin, &options, |_| {}).unwrap();
        assert!(report.is_equal(), "{plugin}: {report}");
    }
}
