//! The names and values that a plugin reads, so that they come up in random worlds.

/// Where a name stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    PodLabel,
    PodAnnotation,
    NodeLabel,
    NodeAnnotation,
    Resource,
}

/// Keys and values that random pods and nodes carry beside those that all of them have. A world knows nothing of `example.com/watts` unless
/// somebody tells it:
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
    known: Vec<(Place, String, Vec<String>)>,
    /// Fields that do not change.
    fixed: Vec<&'static str>,
}

impl Words {
    /// A label of pods, and values that make a difference.
    #[must_use]
    pub fn pod_label(self, key: &str, values: &[&str]) -> Self {
        self.word(Place::PodLabel, key, values)
    }

    /// An annotation of pods, and values that make a difference.
    #[must_use]
    pub fn pod_annotation(self, key: &str, values: &[&str]) -> Self {
        self.word(Place::PodAnnotation, key, values)
    }

    /// A label of nodes, and values that make a difference.
    #[must_use]
    pub fn node_label(self, key: &str, values: &[&str]) -> Self {
        self.word(Place::NodeLabel, key, values)
    }

    /// An annotation of nodes, and values that make a difference.
    #[must_use]
    pub fn node_annotation(self, key: &str, values: &[&str]) -> Self {
        self.word(Place::NodeAnnotation, key, values)
    }

    /// A resource that nodes offer and pods request, and amounts that make a difference.
    #[must_use]
    pub fn resource(self, name: &str, amounts: &[&str]) -> Self {
        self.word(Place::Resource, name, amounts)
    }

    /// A field that does not change while a pod waits: what a plugin sleeps through knowingly. It is named as checks name
    /// it, such as `metadata.deletionTimestamp`. `nodes`: none comes, goes or changes; `spec.affinity.podAffinity`: no random pod has any.
    #[must_use]
    pub fn fixed(mut self, field: &'static str) -> Self {
        self.fixed.push(field);
        self
    }

    pub(crate) fn is_fixed(&self, field: &str) -> bool {
        self.fixed.contains(&field)
    }

    fn word(mut self, place: Place, key: &str, values: &[&str]) -> Self {
        self.known.push((place, key.to_owned(), values.iter().map(|value| (*value).to_owned()).collect()));
        self
    }

    /// The words for one place, with their values.
    pub(crate) fn of(&self, place: Place) -> impl Iterator<Item = (&str, &[String])> {
        let here = self.known.iter().filter(move |(at, ..)| *at == place);
        here.map(|(_, key, values)| (key.as_str(), values.as_slice()))
    }
}
