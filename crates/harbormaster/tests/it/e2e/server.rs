//! The two API servers on which tests run, and the code that shares them between tests.

use std::{
    ops::Deref,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use harbormaster_api::features::{Feature, Features};
use harbormaster_oracle::{
    components::{ControlPlane, ControlPlaneOptions, Endpoint},
    embedded::{Embedded, Options},
};
use harbormaster_sandbox::Controllers;

/// The API server of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Server {
    /// kube-apiserver with etcd.
    Real,
    /// The in-memory API server, over HTTPS.
    Embedded,
}

/// Defines tests from functions that take a [`Server`]: each function is run on both servers.
#[allow(unused_macros, reason = "not every test program needs a server")]
macro_rules! on_both_servers {
    ($($test:ident),+ $(,)?) => {
        mod on_the_real_server {
            $(#[test]
            fn $test() {
                super::$test(crate::e2e::server::Server::Real);
            })+
        }

        mod on_the_embedded_server {
            $(#[test]
            fn $test() {
                super::$test(crate::e2e::server::Server::Embedded);
            })+
        }
    };
}
#[allow(unused_imports, reason = "not every test program needs a server")]
pub(crate) use on_both_servers;

static REAL: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
static EMBEDDED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());

impl Server {
    /// Starts a cluster for one test.
    pub fn own(self) -> Cluster {
        match self {
            Self::Real => Cluster::real(&ControlPlaneOptions::default()),
            Self::Embedded => Cluster::embedded(false),
        }
    }

    /// Starts a cluster for one test, of the release and with the feature gates for groups of pods.
    pub fn own_with(self, features: Features) -> Cluster {
        match self {
            Self::Real => {
                let apiserver_flags = match features.enabled(Feature::GenericWorkload) {
                    true => vec![
                        format!("--feature-gates={}", gates_of_groups(features).join(",")),
                        "--runtime-config=scheduling.k8s.io/v1beta1=true".to_owned(),
                    ],
                    false => Vec::new(),
                };
                let release = features.release();
                Cluster::real(&ControlPlaneOptions { release, apiserver_flags, ..Default::default() })
            }
            Self::Embedded => {
                let minor_version = features.release().minor();
                let options = Options { minor_version, features, ..Options::default() };
                Cluster::Embedded(Embedded::start_with(options, |_| Ok(())).expect("the API server starts"))
            }
        }
    }

    /// Starts a cluster for one test, with controllers, for example for volumes and disruption budgets.
    pub fn own_with_controllers(self) -> Cluster {
        match self {
            Self::Real => {
                Cluster::real(&ControlPlaneOptions { controller_manager: true, ..Default::default() })
            }
            Self::Embedded => Cluster::embedded(true),
        }
    }

    /// Returns the cluster that the running tests share on this server. It ends with the last test that uses it.
    pub fn shared(self) -> Arc<Cluster> {
        let shared = match self {
            Self::Real => &REAL,
            Self::Embedded => &EMBEDDED,
        };
        let mut shared = shared.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(self.own());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }
}

/// The feature gates for groups of pods, as an argument of a flag.
pub fn gates_of_groups(features: Features) -> Vec<String> {
    let gates = [
        Feature::GenericWorkload,
        Feature::TopologyAwareWorkloadScheduling,
        Feature::PodGroupPreemptionPolicy,
        Feature::DRAWorkloadResourceClaims,
    ];
    gates.into_iter().filter(|gate| features.enabled(*gate)).map(|gate| format!("{gate}=true")).collect()
}

/// A running cluster, initially without nodes.
pub enum Cluster {
    Real(ControlPlane),
    Embedded(Embedded),
}

impl Cluster {
    fn real(options: &ControlPlaneOptions) -> Self {
        Self::Real(ControlPlane::start(options).expect("the API server starts"))
    }

    fn embedded(controllers: bool) -> Self {
        let cluster = Embedded::start(|server| {
            if controllers {
                tokio::spawn(Controllers::new(&server.store())?.run());
            }
            Ok(())
        });
        Self::Embedded(cluster.expect("the API server starts"))
    }
}

impl Deref for Cluster {
    type Target = Endpoint;

    fn deref(&self) -> &Endpoint {
        match self {
            Self::Real(cluster) => cluster,
            Self::Embedded(cluster) => cluster,
        }
    }
}
