//! Tests of the configuration checks, and a server with one lease.

use serde_json::{Value, json};

use super::*;

/// kube-scheduler's defaults.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
pub(crate) const PERIOD: Duration = Duration::from_secs(2);

/// An API server that supports only what elections use.
#[derive(Default)]
pub(crate) struct LeaseServer {
    pub(crate) lease: Option<Value>,
    version: u64,
}

/// An HTTP status.
type Refused = u16;

impl LeaseServer {
    pub(crate) fn read(&self) -> Result<Value, Refused> {
        self.lease.clone().ok_or(404)
    }

    pub(crate) fn create(&mut self, lease: Value) -> Result<Value, Refused> {
        match self.lease {
            Some(_) => Err(409),
            None => Ok(self.store(lease)),
        }
    }

    pub(crate) fn update(&mut self, lease: Value) -> Result<Value, Refused> {
        let version = |lease: &Value| lease["metadata"]["resourceVersion"].clone();
        match &self.lease {
            None => Err(404),
            Some(known) if version(known) != version(&lease) => Err(409),
            Some(_) => Ok(self.store(lease)),
        }
    }

    /// Stores a lease without checking its version, as if another instance had written it.
    pub(crate) fn say(&mut self, holder: &str, seconds: i64, renewed: &str) {
        self.store(json!({
            "metadata": {"name": "kube-scheduler", "namespace": "kube-system"},
            "spec": {
                "holderIdentity": holder,
                "leaseDurationSeconds": seconds,
                "acquireTime": "2001-02-03T04:05:06.000007Z",
                "renewTime": renewed,
                "leaseTransitions": 5,
            },
        }));
    }

    pub(crate) fn holder(&self) -> &str {
        self.spec("holderIdentity").as_str().unwrap_or_default()
    }

    pub(crate) fn spec(&self, field: &str) -> &Value {
        self.lease.as_ref().map_or(&Value::Null, |lease| &lease["spec"][field])
    }

    fn store(&mut self, mut lease: Value) -> Value {
        self.version += 1;
        lease["metadata"]["resourceVersion"] = self.version.to_string().into();
        lease["metadata"]["uid"] = "the-uid".into();
        self.lease.insert(lease).clone()
    }
}

#[test]
fn durations_that_leave_no_time_for_tries_are_refused_with_the_messages_of_client_go() {
    let seconds = Duration::from_secs_f64;
    for (lasts, deadline, period, wrong) in [
        (15.0, 10.0, 2.0, None),
        (15.0, 15.0, 2.0, Some("leaseDuration must be greater than renewDeadline")),
        (15.0, 2.4, 2.0, Some("renewDeadline must be greater than retryPeriod*JitterFactor")),
        (15.0, 2.5, 2.0, None),
        (15.0, 10.0, 0.0, Some("retryPeriod must be greater than zero")),
        (1e18, 1e9, 1e10, Some("renewDeadline must be greater than retryPeriod*JitterFactor")),
    ] {
        let election = LeaderElection::Lease(LeaseElection {
            lease_duration: seconds(lasts),
            renew_deadline: seconds(deadline),
            retry_period: seconds(period),
            ..LeaseElection::default()
        });
        assert_eq!(election.check().err(), wrong, "{lasts} {deadline} {period}");
    }
    assert_eq!(LeaderElection::Off.check(), Ok(()));
}

#[test]
fn the_time_limit_for_lease_requests_is_half_the_deadline_and_at_least_a_second() {
    let limit =
        |deadline| LeaseElection { renew_deadline: deadline, ..LeaseElection::default() }.request_limit();
    assert_eq!(limit(DEADLINE), Duration::from_secs(5));
    assert_eq!(limit(Duration::from_millis(900)), Duration::from_secs(1));
}
