//! Names and values that a plugin reads, for use in random clusters.

/// The kind of field that contains a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WordKind {
    PodLabel,
    PodAnnotation,
    NodeLabel,
    NodeAnnotation,
    Resource,
}

/// Keys and values that random pods and nodes have in addition to the common ones. For example, a random cluster
/// contains `example.com/watts` only if its words include it:
///
/// ```
/// use harbormaster_testkit::{Words, random::Dice};
///
/// let words = Words::default()
///     .pod_annotation("example.com/watts", &["100", "400"])
///     .node_label("example.com/watts", &["300", "1000"]);
/// let mut dice = Dice::knowing(7, words);
/// let (nodes, pod) = (dice.cluster(5), dice.pod("p").info());
/// # let _ = (nodes, pod);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Words {
    known: Vec<(WordKind, String, Vec<String>)>,
    /// Fields that do not change.
    fixed: Vec<&'static str>,
}

impl Words {
    /// Adds a pod label, with values that make a difference.
    #[must_use]
    pub fn pod_label(self, key: &str, values: &[&str]) -> Self {
        self.word(WordKind::PodLabel, key, values)
    }

    /// Adds a pod annotation, with values that make a difference.
    #[must_use]
    pub fn pod_annotation(self, key: &str, values: &[&str]) -> Self {
        self.word(WordKind::PodAnnotation, key, values)
    }

    /// Adds a node label, with values that make a difference.
    #[must_use]
    pub fn node_label(self, key: &str, values: &[&str]) -> Self {
        self.word(WordKind::NodeLabel, key, values)
    }

    /// Adds a node annotation, with values that make a difference.
    #[must_use]
    pub fn node_annotation(self, key: &str, values: &[&str]) -> Self {
        self.word(WordKind::NodeAnnotation, key, values)
    }

    /// Adds a resource of nodes and pods, with amounts that make a difference.
    #[must_use]
    pub fn resource(self, name: &str, amounts: &[&str]) -> Self {
        self.word(WordKind::Resource, name, amounts)
    }

    /// Keeps a field from changing while a pod waits, for a plugin that deliberately has no hint for such changes. Use
    /// the name that the checks print, such as `metadata.deletionTimestamp`. With `nodes`, nodes are never added,
    /// removed or changed; with `spec.affinity.podAffinity`, no random pod has pod affinity.
    #[must_use]
    pub fn fixed(mut self, field: &'static str) -> Self {
        self.fixed.push(field);
        self
    }

    pub(crate) fn is_fixed(&self, field: &str) -> bool {
        self.fixed.contains(&field)
    }

    fn word(mut self, place: WordKind, key: &str, values: &[&str]) -> Self {
        self.known.push((place, key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect()));
        self
    }

    /// Returns the words of one kind with their values.
    pub(crate) fn of(&self, place: WordKind) -> impl Iterator<Item = (&str, &[String])> {
        let here = self.known.iter().filter(move |(at, ..)| *at == place);
        here.map(|(_, key, values)| (key.as_str(), values.as_slice()))
    }
}
