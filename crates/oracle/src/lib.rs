//! The original Kubernetes v1.36 as a measuring instrument.
//!
//! [`components`] builds and starts etcd, kube-apiserver,
//! kube-controller-manager and kube-scheduler on loopback ports.
//! [`verdict_oracle`] asks the original scheduler plugins what they think of
//! every node of a described cluster.
//!
//! On these stand five instruments, each a subcommand of
//! `harbormaster-oracle`: [`verdicts`] compares what every plugin says about
//! every node of random clusters, [`hints`] compares which changes wake a
//! rejected pod, [`preemptions`] compares who is evicted on hundreds of full
//! nodes, [`decisions`] compares what two schedulers
//! do with the same cluster changes on a real API server, [`mod@bench`] compares
//! what that costs. Their clusters come from [`generate`], where a new plugin
//! adds a flavour.
//!
//! [`api_comparison`] sends the same kubectl commands and HTTP requests to the
//! real kube-apiserver and to another one, and compares the answers.
//!
//! [`soak`] watches what Harbormaster costs after hours of pods, on the API
//! server in memory, [`embedded`]. [`replicas`] watches three of them while
//! leaders are killed and servers are away.
//!
//! [`provisioner`] makes volumes as CSI drivers do, and fails as they do.
//! [`extenders`] answer schedulers by seed, and note what they were asked.
//!
//! The components are one program, written in Go under `tests/real`, that links
//! the originals as libraries; real kubectls lie in `tests/kubectl`. They are
//! built once, on first use; see [`components::RealBinary`].

pub mod api_comparison;
pub mod bench;
pub mod components;
pub mod decisions;
pub mod embedded;
pub mod extenders;
pub mod generate;
pub mod harbormaster;
pub mod hints;
pub mod preemptions;
pub mod process;
pub mod provisioner;
pub mod replicas;
pub mod scheduler;
pub mod soak;
pub mod verdict_oracle;
pub mod verdicts;
