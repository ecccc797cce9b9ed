//! Plugins that do not match their custom resources.

use harbormaster_framework::prelude::*;
use harbormaster_testkit::{Trial, cluster, node, pod, resource_fits_definition, set_custom};
use serde::Deserialize;
use serde_json::{Value, json};

use super::Planted;

#[derive(Clone, Debug, Deserialize)]
struct Quota {
    spec: QuotaSpec,
}

#[derive(Clone, Debug, Deserialize)]
struct QuotaSpec {
    pods: i64,
    #[serde(default)]
    note: String,
}

impl Resource for Quota {
    const GROUP: &'static str = "example.com";
    const VERSION: &'static str = "v1";
    const KIND: &'static str = "Quota";
    const PLURAL: &'static str = "quotas";
    const SCOPE: ResourceScope = ResourceScope::Namespaced;
}

/// Defines a type that does not match the definition.
macro_rules! misunderstood {
    ($name:ident, $plural:expr, $version:expr, $scope:ident, { $($field:tt)* }) => {
        #[derive(Clone, Debug, Deserialize)]
        struct $name {
            #[expect(dead_code, reason = "only what decodes matters")]
            $($field)*
        }

        impl Resource for $name {
            const GROUP: &'static str = "example.com";
            const VERSION: &'static str = $version;
            const KIND: &'static str = "Quota";
            const PLURAL: &'static str = $plural;
            const SCOPE: ResourceScope = ResourceScope::$scope;
        }
    };
}

#[derive(Clone, Debug, Deserialize)]
struct NeedsNote {
    #[expect(dead_code, reason = "only what decodes matters")]
    note: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct KnowsLittle {
    #[expect(dead_code, reason = "only what decodes matters")]
    pods: i64,
}

misunderstood!(WrongPlural, "quota", "v1", Namespaced, { spec: QuotaSpec });
misunderstood!(WrongVersion, "quotas", "v1beta1", Namespaced, { spec: QuotaSpec });
misunderstood!(WrongScope, "quotas", "v1", Cluster, { spec: QuotaSpec });
misunderstood!(TooStrict, "quotas", "v1", Namespaced, { spec: NeedsNote });
misunderstood!(TooNarrow, "quotas", "v1", Namespaced, { spec: KnowsLittle });

fn definition() -> Value {
    let spec = json!({
        "type": "object",
        "required": ["pods"],
        "properties": { "pods": { "type": "integer", "minimum": 0 }, "note": { "type": "string" } },
    });
    let schema = json!({ "type": "object", "required": ["spec"], "properties": { "spec": spec } });
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": { "name": "quotas.example.com" },
        "spec": {
            "group": "example.com",
            "names": { "kind": "Quota", "plural": "quotas", "singular": "quota" },
            "scope": "Namespaced",
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema } }],
        },
    })
}

/// Limits the number of pods per node.
struct Quotas;

impl Plugin for Quotas {
    const NAME: &'static str = "Quotas";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::on::<Quota>(Action::ADD | Action::UPDATE, |_, _, _| Ok(Hint::Queue))])
    }
}

impl Watches for Quotas {
    type Resources = Quota;
}

impl Filter for Quotas {
    fn filter(&self, cx: &Cycle<'_>, (): &(), node: NodeRef<'_>) -> Verdict {
        match self.watched(cx.objects).get(&cx.pod.namespace, "all") {
            Some(quota) if node.pods().len() as i64 >= quota.spec.pods => {
                Err(Reject::evictable(format!("node(s) are full {}", quota.spec.note)).into())
            }
            _ => Ok(()),
        }
    }
}

/// Registers for changes to a resource that it does not watch. A plugin that reads such a resource does not compile.
struct Deaf;

impl Plugin for Deaf {
    const NAME: &'static str = "Deaf";
    implemented_points!();
    fn events(&self) -> Option<Vec<Registration<Self>>> {
        Some(vec![Registration::on::<Quota>(Action::ADD, |_, _, _| Ok(Hint::Queue))])
    }
}

pub(super) fn right() {
    let trial = Trial::of(Quotas);
    let mut nodes = cluster([node("n")], []);
    set_custom::<Quota>(
        &mut nodes,
        [json!({ "metadata": { "name": "all", "namespace": "default" }, "spec": { "pods": 0 } })],
    );
    assert!(trial.verdict(&nodes, &pod("p").info(), "n").is_err());
    resource_fits_definition::<Quota>(&definition());
}

pub(super) const MISTAKES: &[Planted] = &[
    Planted {
        wrong: "registers for a custom resource that it does not watch",
        said: "plugin \"Deaf\" listens for changes to quotas.v1.example.com, a resource that is not watched",
        check: || drop(Trial::of(Deaf)),
    },
    Planted {
        wrong: "has a different plural than the definition",
        said: "Quota: the definition has spec.names.plural \"quotas\", the type says \"quota\"",
        check: || resource_fits_definition::<WrongPlural>(&definition()),
    },
    Planted {
        wrong: "has a version that is not served",
        said: "Quota: the definition serves no version \"v1beta1\"",
        check: || resource_fits_definition::<WrongVersion>(&definition()),
    },
    Planted {
        wrong: "treats a namespaced resource as cluster-scoped",
        said: "Quota: the definition has spec.scope \"Namespaced\", the type says \"Cluster\"",
        check: || resource_fits_definition::<WrongScope>(&definition()),
    },
    Planted {
        wrong: "requires a field that is optional in the definition",
        said: "Quota: cannot decode a valid object with only the required fields: ",
        check: || resource_fits_definition::<TooStrict>(&definition()),
    },
    Planted {
        wrong: "rejects a field that the definition has",
        said: "Quota: cannot decode a valid object with every field: ",
        check: || resource_fits_definition::<TooNarrow>(&definition()),
    },
];
