//! Writes reports to the API server.

use std::{path::Path, time::Duration};

use harbormaster::{prelude::Resource, serde_json::json};
use kube::{
    Api, Client, Config,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};

use super::SnifferError;
use crate::scv::{Scv, ScvSpec, ScvStatus};

/// Timeout for API requests. A late report is worth less than the next one.
const LIMIT: Duration = Duration::from_secs(10);

/// Writes the Scv object of one node.
#[derive(Clone, Debug)]
pub struct Reporter {
    scvs: Api<DynamicObject>,
    kind: ApiResource,
    node: String,
}

impl Reporter {
    /// Configures the client, without sending a request.
    ///
    /// # Errors
    /// If there is no usable configuration.
    pub async fn connect(kubeconfig: Option<&Path>, node: &str) -> Result<Self, SnifferError> {
        let unusable = |error: &dyn std::fmt::Display| SnifferError::Kubeconfig(error.to_string());
        let mut config = match kubeconfig {
            Some(path) => {
                let file = Kubeconfig::read_from(path).map_err(|error| unusable(&error))?;
                Config::from_custom_kubeconfig(file, &KubeConfigOptions::default())
                    .await
                    .map_err(|error| unusable(&error))?
            }
            None => Config::infer().await.map_err(|error| unusable(&error))?,
        };
        config.connect_timeout = Some(LIMIT);
        config.read_timeout = Some(LIMIT);
        config.write_timeout = Some(LIMIT);
        let client = Client::try_from(config).map_err(|error| unusable(&error))?;
        let name = GroupVersionKind::gvk(Scv::GROUP, Scv::VERSION, Scv::KIND);
        let kind = ApiResource::from_gvk_with_plural(&name, Scv::PLURAL);
        Ok(Self { scvs: Api::all_with(client, &kind), kind, node: node.to_owned() })
    }

    /// Sets the status; creates the object first if it does not exist.
    ///
    /// # Errors
    /// If the API server cannot be reached or returns an error.
    pub async fn report(&self, spec: &ScvSpec, status: &ScvStatus) -> Result<(), SnifferError> {
        match self.set_status(status).await {
            Err(error) if is_missing(&error) => {}
            set => return set.map_err(|error| SnifferError::Api(Box::new(error))),
        }
        let new = DynamicObject::new(&self.node, &self.kind).data(json!({"spec": spec}));
        match self.scvs.create(&PostParams::default(), &new).await {
            Ok(_) => {}
            Err(error) if is_missing(&error) => return Err(SnifferError::NoDefinition),
            Err(error) => return Err(SnifferError::Api(Box::new(error))),
        }
        self.set_status(status).await.map_err(|error| SnifferError::Api(Box::new(error)))
    }

    async fn set_status(&self, status: &ScvStatus) -> kube::Result<()> {
        let patch = Patch::Merge(json!({"status": status}));
        self.scvs.patch_status(&self.node, &PatchParams::default(), &patch).await.map(drop)
    }
}

fn is_missing(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 404)
}
