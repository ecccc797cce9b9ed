//! Reads the metadata of an object.

use harbormaster_api::{
    Labels, Str, Timestamp,
    pod::OwnerReference,
    protobuf::{ObjectMeta, Owner},
};
use serde::Deserialize;

use super::{
    CustomKey, Metadata,
    raw::{Field, RawContent},
};

/// Returns the metadata of the object with this key.
pub(super) fn read(key: &CustomKey, content: &RawContent) -> Result<Metadata, Field> {
    match content {
        RawContent::Json(_) => content.read::<Head>(None)?.metadata.of(key),
        RawContent::Protobuf(bytes) => ObjectMeta::of(bytes)
            .map(|read| of(key, read))
            .map_err(|error| Field::new("", &error.to_string())),
    }
}

fn of(key: &CustomKey, read: ObjectMeta<'_>) -> Metadata {
    let references = read.owners.into_iter().map(|owner| {
        let Owner { api_version, kind, name, uid, controls } = owner;
        let [api_version, kind, name, uid] = [api_version, kind, name, uid].map(Str::from);
        (OwnerReference { api_version, kind, name, uid }, controls)
    });
    let (owners, controller) = owners(references);
    Metadata {
        name: key.name.clone(),
        namespace: key.namespace.clone(),
        uid: read.uid.into(),
        resource_version: read.resource_version.into(),
        generation: read.generation,
        labels: read.labels.into_iter().collect(),
        annotations: read.annotations.into_iter().collect(),
        owners,
        controller,
        deletion_timestamp: read.deletion.map(Timestamp),
    }
}

/// Returns the owners, and the first one that controls the object. Each reference comes with whether it does.
fn owners(
    references: impl Iterator<Item = (OwnerReference, bool)>,
) -> (Vec<OwnerReference>, Option<OwnerReference>) {
    let mut controller = None;
    let owners = references.inspect(|(owner, controls)| {
        if *controls && controller.is_none() {
            controller = Some(owner.clone());
        }
    });
    (owners.map(|(owner, _)| owner).collect(), controller)
}

/// An object in JSON, of which only the metadata is read.
#[derive(Deserialize)]
struct Head {
    metadata: HeadMetadata,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadMetadata {
    uid: Str,
    resource_version: Str,
    generation: i64,
    labels: Option<Labels>,
    annotations: Option<Labels>,
    owner_references: Option<Vec<HeadOwner>>,
    deletion_timestamp: Option<Str>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct HeadOwner {
    api_version: Str,
    kind: Str,
    name: Str,
    uid: Str,
    controller: Option<bool>,
}

impl HeadMetadata {
    fn of(self, key: &CustomKey) -> Result<Metadata, Field> {
        let references = self.owner_references.into_iter().flatten().map(|owner| {
            let HeadOwner { api_version, kind, name, uid, controller } = owner;
            (OwnerReference { api_version, kind, name, uid }, controller == Some(true))
        });
        let (owners, controller) = owners(references);
        let deletion = self.deletion_timestamp.as_deref().map(Timestamp::parse).transpose();
        Ok(Metadata {
            name: key.name.clone(),
            namespace: key.namespace.clone(),
            uid: self.uid,
            resource_version: self.resource_version,
            generation: self.generation,
            labels: self.labels.unwrap_or_default(),
            annotations: self.annotations.unwrap_or_default(),
            owners,
            controller,
            deletion_timestamp: deletion
                .map_err(|error| Field::new("metadata.deletionTimestamp", &error.to_string()))?,
        })
    }
}
