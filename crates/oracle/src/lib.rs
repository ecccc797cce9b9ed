//! The original Kubernetes v1.36 as a measuring instrument.
//!
//! [`components`] builds and starts etcd, kube-apiserver,
//! kube-controller-manager and kube-scheduler on loopback ports.
//! [`verdict_oracle`] asks the original scheduler plugins what they think of
//! every node of a described cluster.
//!
//! On these stand three instruments, each a subcommand of
//! `harbormaster-oracle`: [`verdicts`] compares what every plugin says about
//! every node of random clusters, [`decisions`] compares what two schedulers
//! do with the same cluster changes on a real API server, [`bench`] compares
//! what that costs. Their clusters come from [`generate`], where a new plugin
//! adds a flavour.
//!
//! Both run one program, written in Go under `tests/real`, that links the
//! original components as libraries. It is built once, on first use; see
//! [`components::RealBinary`].

pub mod bench;
pub mod components;
pub mod decisions;
pub mod generate;
pub mod harbormaster;
pub mod process;
pub mod scheduler;
pub mod verdict_oracle;
pub mod verdicts;
