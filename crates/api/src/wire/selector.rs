//! Selectors and affinities.

use serde::Deserialize;

use super::json::{List, Map, Text};
use crate::{
    pod::{PodAffinity, PodAffinityTerm},
    selector::{
        LabelSelector, NodeAffinity, NodeSelector, NodeSelectorTerm, Operator, PreferredTerm, Requirement,
    },
    strings::Interner,
};

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct WireLabelSelector<'a> {
    match_labels: Map<'a, Text<'a>>,
    match_expressions: List<WireRequirement<'a>>,
}

impl WireLabelSelector<'_> {
    pub(super) fn intern(&self, interner: &mut Interner) -> LabelSelector {
        LabelSelector {
            match_labels: self.match_labels.labels(interner),
            match_expressions: intern_all(&self.match_expressions, interner),
        }
    }
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireRequirement<'a> {
    key: Text<'a>,
    operator: Text<'a>,
    values: List<Text<'a>>,
}

fn intern_all(list: &List<WireRequirement<'_>>, interner: &mut Interner) -> Vec<Requirement> {
    let intern = |r: &WireRequirement<'_>| Requirement {
        key: r.key.intern(interner),
        operator: Operator::parse(&r.operator),
        values: r.values.intern(interner),
    };
    list.0.iter().map(intern).collect()
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
pub(super) struct WireAffinity<'a> {
    pub(super) node_affinity: Option<WireNodeAffinity<'a>>,
    pub(super) pod_affinity: Option<WirePodAffinity<'a>>,
    pub(super) pod_anti_affinity: Option<WirePodAffinity<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct WireNodeAffinity<'a> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<WireNodeSelector<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: Option<List<WirePreferredTerm<'a>>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireNodeSelector<'a> {
    node_selector_terms: List<WireNodeSelectorTerm<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireNodeSelectorTerm<'a> {
    match_expressions: List<WireRequirement<'a>>,
    match_fields: List<WireRequirement<'a>>,
}

impl WireNodeSelectorTerm<'_> {
    fn intern(&self, interner: &mut Interner) -> NodeSelectorTerm {
        NodeSelectorTerm {
            match_expressions: intern_all(&self.match_expressions, interner),
            match_fields: intern_all(&self.match_fields, interner),
        }
    }
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WirePreferredTerm<'a> {
    weight: Option<i32>,
    preference: Option<WireNodeSelectorTerm<'a>>,
}

impl WirePreferredTerm<'_> {
    fn intern(&self, interner: &mut Interner) -> PreferredTerm {
        let preference = self.preference.as_ref().map(|term| term.intern(interner));
        PreferredTerm { weight: self.weight.unwrap_or_default(), preference: preference.unwrap_or_default() }
    }
}

impl WireNodeAffinity<'_> {
    pub(super) fn intern(&self, interner: &mut Interner) -> NodeAffinity {
        let required = self.required.as_ref().map(|selector| NodeSelector {
            terms: selector.node_selector_terms.0.iter().map(|term| term.intern(interner)).collect(),
        });
        let preferred = self.preferred.as_ref();
        NodeAffinity {
            required,
            preferred: preferred.map(|terms| terms.0.iter().map(|term| term.intern(interner)).collect()),
        }
    }
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, bound(deserialize = "'de: 'a"))]
pub(super) struct WirePodAffinity<'a> {
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: List<WirePodAffinityTerm<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: List<WireWeightedTerm<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WireWeightedTerm<'a> {
    weight: Option<i32>,
    pod_affinity_term: Option<WirePodAffinityTerm<'a>>,
}

#[derive(Debug, Default, Deserialize, Hash)]
#[serde(default, rename_all = "camelCase", bound(deserialize = "'de: 'a"))]
struct WirePodAffinityTerm<'a> {
    label_selector: Option<WireLabelSelector<'a>>,
    namespaces: List<Text<'a>>,
    namespace_selector: Option<WireLabelSelector<'a>>,
    topology_key: Text<'a>,
    match_label_keys: List<Text<'a>>,
    mismatch_label_keys: List<Text<'a>>,
}

impl WirePodAffinityTerm<'_> {
    fn intern(&self, interner: &mut Interner) -> PodAffinityTerm {
        PodAffinityTerm {
            label_selector: self.label_selector.as_ref().map(|s| s.intern(interner)),
            namespaces: self.namespaces.intern(interner),
            namespace_selector: self.namespace_selector.as_ref().map(|s| s.intern(interner)),
            topology_key: self.topology_key.intern(interner),
            match_label_keys: self.match_label_keys.intern(interner),
            mismatch_label_keys: self.mismatch_label_keys.intern(interner),
        }
    }
}

impl WireWeightedTerm<'_> {
    fn intern(&self, interner: &mut Interner) -> (i32, PodAffinityTerm) {
        let term = self.pod_affinity_term.as_ref().map(|term| term.intern(interner));
        (self.weight.unwrap_or_default(), term.unwrap_or_default())
    }
}

impl WirePodAffinity<'_> {
    pub(super) fn intern(&self, interner: &mut Interner) -> PodAffinity {
        PodAffinity {
            required: self.required.0.iter().map(|term| term.intern(interner)).collect(),
            preferred: self.preferred.0.iter().map(|term| term.intern(interner)).collect(),
        }
    }
}
