//! CEL selectors of devices are evaluated as in Kubernetes.

use harbormaster_oracle::cel::{Options, run};

use crate::releases::CEL;

#[test]
fn random_expressions_are_evaluated_as_in_kubernetes() {
    for &release in CEL {
        let report = run(&Options { release, seed: 1, expressions: 3000 }, |_| {}).unwrap();
        assert_eq!((report.expressions, report.different), (3000, 0), "{release}: {report}");
        assert!(report.evaluations > 3000, "{release}: {report}");
    }
}
