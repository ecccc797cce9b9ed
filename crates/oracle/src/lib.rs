//! The real Kubernetes, 1.36 or 1.37, as an oracle for tests and measurements.
//!
//! [`components`] builds and starts etcd, kube-apiserver, kube-controller-manager and kube-scheduler on loopback ports.
//! [`verdict_oracle`] runs kube-scheduler's plugins on every node of a given cluster and returns their verdicts.
//!
//! The following comparisons build on these modules. Each is a subcommand of `harbormaster-oracle`:
//!
//! - [`verdicts`] compares the verdicts of every plugin on every node of random clusters.
//! - [`hints`] compares which changes wake a rejected pod.
//! - [`preemptions`] compares the victims of preemption in clusters of hundreds of full nodes.
//! - [`remedies`] checks that the changes that `harbormaster why` proposes place the pod.
//! - [`cel`] compares the values, errors and costs of random CEL expressions.
//! - [`decisions`] compares how two schedulers handle the same cluster changes on a real API server, and a shadow with
//!   the scheduler beside which it runs.
//! - [`mod@bench`] compares the cost of two schedulers.
//! - [`family`] compares the plugins in `contrib/` with those of kubernetes-sigs/scheduler-plugins.
//!
//! The clusters of [`verdicts`], [`hints`] and [`decisions`] come from [`generate`]; add a flavour there for each new
//! plugin.
//!
//! [`api_comparison`] sends the same kubectl commands and HTTP requests to the real kube-apiserver and to another API
//! server, and compares the answers.
//!
//! [`soak`] checks that Harbormaster's cost does not grow as pods come and go for many minutes, on the in-memory API
//! server ([`embedded`]). [`replicas`] runs three replicas of Harbormaster while leaders are killed and the API server
//! is down. [`outage`] measures how soon a scheduler binds pods again after the API server was down.
//!
//! [`provisioner`] creates volumes as CSI drivers do, and can fail in the same ways. [`extenders`] simulates extenders:
//! it answers schedulers' requests according to a seed and records the requests.
//!
//! The components are a Go program under `tests/real` that links Kubernetes as a library: one program for each
//! [`Release`](harbormaster_api::Release). The sources of kubectl are in `tests/kubectl`. The programs are built once,
//! on first use; see [`components::RealBinary`].

pub mod api_comparison;
pub mod bench;
pub mod cel;
pub mod components;
pub mod decisions;
pub mod embedded;
pub mod extenders;
pub mod family;
pub mod generate;
mod groups;
pub mod harbormaster;
pub mod hints;
pub mod outage;
pub mod preemptions;
pub mod process;
pub mod provisioner;
pub mod remedies;
pub mod replicas;
pub mod scheduler;
pub mod soak;
pub mod verdict_oracle;
pub mod verdicts;
