//! Objects from files, and the paths of their collections.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::obstacle::Obstacle;
use super::template::Template;

/// Kinds that the operations may create: the name in paths, and whether objects of the kind are in a namespace.
const KINDS: [(&str, &str, bool); 17] = [
    ("ConfigMap", "configmaps", true),
    ("CSINode", "csinodes", false),
    ("DeviceClass", "deviceclasses", false),
    ("DeviceTaintRule", "devicetaintrules", false),
    ("Namespace", "namespaces", false),
    ("Node", "nodes", false),
    ("PersistentVolume", "persistentvolumes", false),
    ("PersistentVolumeClaim", "persistentvolumeclaims", true),
    ("Pod", "pods", true),
    ("PodDisruptionBudget", "poddisruptionbudgets", true),
    ("PodGroup", "podgroups", true),
    ("PriorityClass", "priorityclasses", false),
    ("ResourceClaim", "resourceclaims", true),
    ("ResourceClaimTemplate", "resourceclaimtemplates", true),
    ("ResourceSlice", "resourceslices", false),
    ("Service", "services", true),
    ("StorageClass", "storageclasses", false),
];

/// Kind and version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ObjectType {
    pub(super) api_version: String,
    pub(super) kind: String,
    plural: &'static str,
    pub(super) is_namespaced: bool,
}

impl ObjectType {
    /// Returns the type of an object; an obstacle if it is unknown.
    pub(super) fn of(object: &Value) -> Result<Self, Obstacle> {
        let text = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        let [api_version, kind] = ["apiVersion", "kind"].map(text);
        let known = KINDS.iter().find(|(name, _, _)| *name == kind);
        let (_, plural, is_namespaced) = *known.ok_or_else(|| {
            Obstacle::new(format!("objects of {api_version}, kind {kind}, are not supported"))
        })?;
        Ok(Self { api_version, kind, plural, is_namespaced })
    }

    /// Returns the path of the collection. `namespace` is needed only if the kind is namespaced.
    pub(super) fn collection(&self, namespace: Option<&str>) -> String {
        let root = if self.api_version.contains('/') { "apis" } else { "api" };
        let namespace = namespace.filter(|_| self.is_namespaced);
        let namespace = namespace.map_or(String::new(), |namespace| format!("/namespaces/{namespace}"));
        format!("/{root}/{}{namespace}/{}", self.api_version, self.plural)
    }
}

/// A file with an object, which may be a template.
#[derive(Debug, Clone)]
pub(super) struct ObjectTemplate {
    path: PathBuf,
    content: Content,
    params: Map<String, Value>,
}

#[derive(Debug, Clone)]
enum Content {
    Constant(Value),
    Template(Template),
}

impl ObjectTemplate {
    /// Reads a template. Its first object must be complete.
    pub(super) fn read(path: PathBuf, params: Map<String, Value>) -> Result<Self, Obstacle> {
        let text = read(&path)?;
        let template = Template::parse(&text).map_err(|error| of_file(&path, &error))?;
        let content = match template.is_constant() {
            true => Content::Constant(parse(&path, &text)?),
            false => Content::Template(template),
        };
        let template = Self { path, content, params };
        template.render(0, 1)?;
        Ok(template)
    }

    /// Returns the object with the given index, one of `count`.
    pub(super) fn render(&self, index: usize, count: usize) -> Result<Value, Obstacle> {
        match &self.content {
            Content::Constant(object) => Ok(object.clone()),
            Content::Template(template) => {
                let mut data = self.params.clone();
                data.insert("Index".to_owned(), index.into());
                data.insert("Count".to_owned(), count.into());
                let text = template.render(&data).map_err(|error| of_file(&self.path, &error))?;
                parse(&self.path, &text)
            }
        }
    }

    /// Returns the type of the objects.
    pub(super) fn object_type(&self) -> Result<ObjectType, Obstacle> {
        ObjectType::of(&self.render(0, 1)?)
    }
}

/// Reads an object from a file that is not a template.
pub(super) fn read_object(path: &Path) -> Result<Value, Obstacle> {
    parse(path, &read(path)?)
}

fn read(path: &Path) -> Result<String, Obstacle> {
    fs::read_to_string(path).map_err(|error| of_file(path, &error))
}

fn parse(path: &Path, text: &str) -> Result<Value, Obstacle> {
    let object: Value = serde_saphyr::from_str(text).map_err(|error| of_file(path, &error))?;
    if object.is_object() { Ok(object) } else { Err(of_file(path, &"the file contains no object")) }
}

fn of_file(path: &Path, problem: &dyn std::fmt::Display) -> Obstacle {
    Obstacle::new(format!("{}: {problem}", path.display()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_path_follows_from_version_kind_and_namespace() {
        for (api_version, kind, expected) in [
            ("v1", "Pod", "/api/v1/namespaces/ns/pods"),
            ("v1", "Node", "/api/v1/nodes"),
            ("resource.k8s.io/v1", "ResourceClaim", "/apis/resource.k8s.io/v1/namespaces/ns/resourceclaims"),
            ("resource.k8s.io/v1", "DeviceClass", "/apis/resource.k8s.io/v1/deviceclasses"),
        ] {
            let found = ObjectType::of(&json!({"apiVersion": api_version, "kind": kind})).unwrap();
            assert_eq!(found.collection(Some("ns")), expected);
        }
        let error = ObjectType::of(&json!({"apiVersion": "apps/v1", "kind": "Deployment"})).unwrap_err();
        assert_eq!(error.reason(), "objects of apps/v1, kind Deployment, are not supported");
    }

    #[test]
    fn a_template_is_checked_when_it_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| {
            let path = folder.path().join("a.yaml");
            fs::write(&path, text).unwrap();
            ObjectTemplate::read(path, Map::new())
        };
        let template = read("kind: Pod\nmetadata: {name: 'p-{{.Index}}-{{.Count}}'}\n").unwrap();
        assert_eq!(template.render(3, 9).unwrap(), json!({"kind": "Pod", "metadata": {"name": "p-3-9"}}));
        for (text, expected) in [
            ("{{", "an action is not closed"),
            ("a: [", "a.yaml"),
            ("- 1", "contains no object"),
            ("a: {{AddInt 1 .b}}", "a missing value is not a number"),
        ] {
            let reason = read(text).unwrap_err().reason();
            assert!(reason.contains(expected), "{text}: {reason}");
        }
    }
}
