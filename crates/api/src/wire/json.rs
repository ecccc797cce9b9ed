//! Building blocks: strings, lists and maps that borrow from the input and treat `null` as empty.

use std::{
    borrow::Cow,
    fmt,
    hash::{Hash, Hasher},
    marker::PhantomData,
    ops::Deref,
};

use serde::{
    Deserialize, Deserializer,
    de::{self, IgnoredAny, MapAccess, SeqAccess, Visitor},
};

use crate::{Labels, Quantity, Str, Timestamp, pod::ResourceList, resources::CPU, strings::Interner};

/// Annotation in which kubectl stores the whole manifest.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A string.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Text<'a>(Cow<'a, str>);

impl Text<'_> {
    /// Returns the shared copy of the string.
    pub(super) fn intern(&self, interner: &mut Interner) -> Str {
        if self.is_empty() { Str::default() } else { interner.intern(self) }
    }

    /// Returns the shared copy of the string, or `None` if the string is empty.
    pub(super) fn intern_some(&self, interner: &mut Interner) -> Option<Str> {
        if self.is_empty() { None } else { Some(interner.intern(self)) }
    }

    /// Returns an unshared copy, for strings that differ between objects.
    pub(super) fn unshared(&self) -> Str {
        if self.is_empty() { Str::default() } else { Str::from(&**self) }
    }
}

impl Deref for Text<'_> {
    type Target = str;
    fn deref(&self) -> &str {
        &self.0
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(TextVisitor)
    }
}

struct TextVisitor;

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Text<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_borrowed_str<E: de::Error>(self, text: &'de str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Borrowed(text)))
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text.to_owned())))
    }

    fn visit_string<E: de::Error>(self, text: String) -> Result<Text<'de>, E> {
        Ok(Text(Cow::Owned(text)))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Text<'de>, E> {
        Ok(Text::default())
    }
}

/// A string that is not part of the [essence](super::draft) of its object.
#[derive(Debug, Default, Deserialize)]
#[serde(transparent, bound(deserialize = "'de: 'a"))]
pub(super) struct Aside<'a>(pub(super) Text<'a>);

impl Hash for Aside<'_> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

/// A value of which only the presence is read.
#[derive(Debug, Default, Hash)]
pub(super) struct Ignored;

impl<'de> Deserialize<'de> for Ignored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|IgnoredAny| Self)
    }
}

/// A list.
#[derive(Debug, Hash)]
pub(super) struct List<T>(pub(super) Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> List<T> {
    /// Reads a list without the entries that nobody needs.
    pub(super) fn read_only<'de, D: Deserializer<'de>>(
        deserializer: D,
        is_needed: impl FnMut(&T) -> bool,
    ) -> Result<Self, D::Error>
    where
        T: Deserialize<'de> + Default,
    {
        let mut list = Self::deserialize(deserializer)?;
        list.0.retain(is_needed);
        Ok(list)
    }
}

impl List<Text<'_>> {
    pub(super) fn intern(&self, interner: &mut Interner) -> Vec<Str> {
        self.0.iter().map(|text| text.intern(interner)).collect()
    }
}

impl<'de, T: Deserialize<'de> + Default> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ListVisitor(PhantomData))
    }
}

struct ListVisitor<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de> + Default> Visitor<'de> for ListVisitor<T> {
    type Value = List<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<List<T>, A::Error> {
        let mut list = Vec::new();
        while let Some(entry) = entries.next_element::<Option<T>>()? {
            list.push(entry.unwrap_or_default());
        }
        Ok(List(list))
    }

    fn visit_unit<E: de::Error>(self) -> Result<List<T>, E> {
        Ok(List::default())
    }
}

/// A map.
#[derive(Debug, Hash)]
pub(super) struct Map<'a, V>(pub(super) Vec<(Text<'a>, V)>);

impl<V> Default for Map<'_, V> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl Map<'_, Text<'_>> {
    /// Interns keys and values.
    pub(super) fn labels(&self, interner: &mut Interner) -> Labels {
        self.0.iter().map(|(key, value)| (key.intern(interner), value.intern(interner))).collect()
    }
}

/// The amount of a resource.
#[derive(Clone, Copy, Debug)]
pub(super) struct Amount(Quantity);

impl Hash for Amount {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (self.0.value(), self.0.milli_value()).hash(state);
    }
}

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Quantity::deserialize(deserializer).map(Self)
    }
}

impl Map<'_, Amount> {
    /// Amounts sorted by name: CPU in thousandths, everything else in units.
    pub(super) fn resources(&self, interner: &mut Interner) -> ResourceList {
        let amount = |name: &str, Amount(q): &Amount| if name == CPU { q.milli_value() } else { q.value() };
        let mut list: ResourceList =
            self.0.iter().map(|(name, q)| (name.intern(interner), amount(name, q))).collect();
        list.sort_by(|a, b| a.0.cmp(&b.0));
        list.dedup_by(|later, previous| {
            let same = later.0 == previous.0;
            if same {
                previous.1 = later.1;
            }
            same
        });
        list
    }
}

impl<'de: 'a, 'a, V: Deserialize<'de>> Deserialize<'de> for Map<'a, V> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(MapVisitor(PhantomData))
    }
}

struct MapVisitor<V>(PhantomData<V>);

impl<'de, V: Deserialize<'de>> Visitor<'de> for MapVisitor<V> {
    type Value = Map<'de, V>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Map<'de, V>, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Text<'de>>()? {
            map.push((key, entries.next_value()?));
        }
        Ok(Map(map))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Map<'de, V>, E> {
        Ok(Map::default())
    }
}

/// Annotations without kubectl's last-applied-configuration, which may be as long as the object itself.
#[derive(Debug, Default, Hash)]
pub(super) struct Annotations<'a>(Vec<(Text<'a>, Text<'a>)>);

impl Annotations<'_> {
    /// Interns the keys but not the values, because equal values are rare.
    pub(super) fn labels(&self, interner: &mut Interner) -> Labels {
        self.0.iter().map(|(key, value)| (key.intern(interner), value.unshared())).collect()
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Annotations<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnnotationsVisitor)
    }
}

struct AnnotationsVisitor;

impl<'de> Visitor<'de> for AnnotationsVisitor {
    type Value = Annotations<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Annotations<'de>, A::Error> {
        let mut annotations = Vec::new();
        while let Some(key) = entries.next_key::<Text<'de>>()? {
            if *key == *LAST_APPLIED {
                entries.next_value::<IgnoredAny>()?;
            } else {
                annotations.push((key, entries.next_value()?));
            }
        }
        Ok(Annotations(annotations))
    }

    fn visit_unit<E: de::Error>(self) -> Result<Annotations<'de>, E> {
        Ok(Annotations::default())
    }
}

/// `metav1.Time` or `metav1.MicroTime`.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Time(pub(super) Timestamp);

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_str(TimeVisitor)
    }
}

struct TimeVisitor;

impl Visitor<'_> for TimeVisitor {
    type Value = Time;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> Result<Time, E> {
        Timestamp::parse(text).map(Time).map_err(|e| E::custom(format!("time {text:?}: {e}")))
    }

    /// Nanoseconds, as [`crate::protobuf`] has them.
    fn visit_i64<E: de::Error>(self, nanoseconds: i64) -> Result<Time, E> {
        Ok(Time(Timestamp(nanoseconds)))
    }
}
