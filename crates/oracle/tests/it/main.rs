//! Tests of the oracles, and comparisons of Harbormaster with Kubernetes' own components.

mod cel;
mod control_plane;
mod decision_comparison;
mod family;
mod harbormaster_decisions;
mod harbormaster_verdicts;
mod hints;
mod kubectl;
mod preemptions;
mod protobuf;
mod provisioner;
mod raw_requests;
mod releases;
mod remedies;
mod servers;
mod types;
mod verdict_comparison;
mod verdicts;
mod yaml;
