//! The wire format: the types of `k8s.io/kube-scheduler/extender/v1`, with the same names.
//!
//! The Go types have no JSON tags, so the keys are Go's field names (`Pod`, `NodeNames`, …), and absent values are sent
//! as null. Decoding follows Go's `encoding/json`: keys match regardless of case, unknown keys are ignored, the last of
//! duplicate keys wins (maps are merged), and null is ignored for strings, numbers and structs but means absent for
//! everything else. Kubernetes objects are kept as the JSON text that was sent.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{DeserializeSeed, MapAccess, Visitor},
    ser::SerializeStruct,
};
use serde_json::value::RawValue;

/// A Kubernetes object, as it was sent.
pub type RawObject = Box<RawValue>;

/// Defines the equivalent of a Go struct without JSON tags.
macro_rules! go_struct {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty => $key:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Debug, Default)]
        pub struct $name {
            $($(#[$doc])* pub $field: $type,)+
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                let mut object = serializer.serialize_struct(stringify!($name), [$($key),+].len())?;
                $(object.serialize_field($key, &self.$field)?;)+
                object.end()
            }
        }

        impl GoValue for $name {
            fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
                struct Fields<'a>(&'a mut $name);

                impl<'de> Visitor<'de> for Fields<'_> {
                    type Value = ();

                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!("an object (", stringify!($name), ")"))
                    }

                    // null
                    fn visit_unit<E>(self) -> Result<(), E> {
                        Ok(())
                    }

                    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
                        while let Some(key) = map.next_key::<String>()? {
                            match () {
                                $(() if is_key(&key, $key) => map.next_value_seed(Fill(&mut self.0.$field))?,)+
                                () => drop(map.next_value::<serde::de::IgnoredAny>()?),
                            }
                        }
                        Ok(())
                    }
                }

                from.deserialize_any(Fields(self))
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                Decoded::deserialize(from).map(|decoded| decoded.0)
            }
        }
    };
}

go_struct! {
    /// A filter or prioritize request. Either `nodes` or `node_names` is present: `node_names` if the configuration
    /// has `nodeCacheCapable: true`.
    ExtenderArgs {
        /// The pod that is being scheduled.
        pod: Option<RawObject> => "Pod",
        /// The nodes that fit so far.
        nodes: Option<NodeList> => "Nodes",
        /// Names of the nodes that fit so far.
        node_names: Option<Vec<String>> => "NodeNames",
    }
}

go_struct! {
    /// A `v1.NodeList`.
    NodeList {
        /// The list's own metadata, which schedulers leave empty.
        metadata: ListMeta => "metadata",
        /// The nodes.
        items: Option<Vec<Option<RawObject>>> => "items",
    }
}

go_struct! {
    /// Answer to a filter request. If `nodes` and `node_names` are both absent, no node fits.
    ExtenderFilterResult {
        /// The nodes that fit; used by schedulers that sent objects.
        nodes: Option<NodeList> => "Nodes",
        /// Names of the nodes that fit; used by schedulers that sent names.
        node_names: Option<Vec<String>> => "NodeNames",
        /// Nodes that do not fit but where preemption may help, each with the reason.
        failed_nodes: Option<BTreeMap<String, String>> => "FailedNodes",
        /// Nodes that do not fit and where preemption would not help, each with the reason.
        failed_and_unresolvable_nodes: Option<BTreeMap<String, String>> => "FailedAndUnresolvableNodes",
        /// The error; empty if filtering succeeded.
        error: String => "Error",
    }
}

go_struct! {
    /// The score of one node. The answer to a prioritize request is a list of scores.
    HostPriority {
        /// The node's name.
        host: String => "Host",
        /// 0 to 10; higher is better. Schedulers do not check the range. They multiply the score by ten and by the
        /// extender's weight, and add the result to the scores of plugins.
        score: i64 => "Score",
    }
}

go_struct! {
    /// A preempt request. `node_name_to_meta_victims` is present if the configuration has `nodeCacheCapable: true`,
    /// and `node_name_to_victims` otherwise.
    ExtenderPreemptionArgs {
        /// The preemptor.
        pod: Option<RawObject> => "Pod",
        /// Victims as objects, keyed by node name.
        node_name_to_victims: Option<BTreeMap<String, Option<Victims>>> => "NodeNameToVictims",
        /// Victims as UIDs, keyed by node name.
        node_name_to_meta_victims: Option<BTreeMap<String, Option<MetaVictims>>> => "NodeNameToMetaVictims",
    }
}

go_struct! {
    /// Answer to a preempt request. Victims are always identified by UID.
    ExtenderPreemptionResult {
        /// The nodes on which pods may be evicted, each with the pods to evict.
        node_name_to_meta_victims: Option<BTreeMap<String, Option<MetaVictims>>> => "NodeNameToMetaVictims",
    }
}

go_struct! {
    /// Victims on one node.
    Victims {
        /// The pods, the most important first.
        pods: Option<Vec<Option<RawObject>>> => "Pods",
        /// Number of victims whose eviction violates a PodDisruptionBudget.
        num_pdb_violations: i64 => "NumPDBViolations",
    }
}

go_struct! {
    /// Victims on one node, identified by UID.
    MetaVictims {
        /// The pods, the most important first.
        pods: Option<Vec<Option<MetaPod>>> => "Pods",
        /// Number of victims whose eviction violates a PodDisruptionBudget.
        num_pdb_violations: i64 => "NumPDBViolations",
    }
}

go_struct! {
    /// A pod, identified by UID.
    MetaPod {
        /// The UID.
        uid: String => "UID",
    }
}

go_struct! {
    /// A bind request.
    ExtenderBindingArgs {
        /// The pod's name.
        pod_name: String => "PodName",
        /// The pod's namespace.
        pod_namespace: String => "PodNamespace",
        /// The pod's UID.
        pod_uid: String => "PodUID",
        /// The node's name.
        node: String => "Node",
    }
}

go_struct! {
    /// Answer to a bind request.
    ExtenderBindingResult {
        /// The error; empty if the pod is bound.
        error: String => "Error",
    }
}

/// The metadata of a list, as sent.
#[derive(Clone, Debug, Default)]
pub struct ListMeta(Option<RawObject>);

impl Serialize for ListMeta {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.0 {
            Some(text) => text.serialize(serializer),
            None => BTreeMap::<(), ()>::new().serialize(serializer),
        }
    }
}

/// Decodes a request.
///
/// # Errors
/// If a value is invalid; the error contains its path.
pub fn decode<T: for<'de> Deserialize<'de>>(text: &[u8]) -> Result<T, String> {
    let mut json = serde_json::Deserializer::from_slice(text);
    let decoded = serde_path_to_error::deserialize(&mut json).map_err(|error| {
        let path = error.path().to_string();
        match path.as_str() {
            "." | "?" => error.inner().to_string(),
            _ => format!("{path}: {}", error.inner()),
        }
    })?;
    json.end().map_err(|error| error.to_string())?;
    Ok(decoded)
}

/// Returns true if Go matches the key to the field: Go ignores case, and treats U+212A and U+017F as k and s.
fn is_key(key: &str, field: &str) -> bool {
    let fold = |letter: char| match letter {
        '\u{212a}' => 'k',
        '\u{17f}' => 's',
        other => other.to_ascii_lowercase(),
    };
    key.chars().map(fold).eq(field.chars().map(fold))
}

/// A type whose values are decoded as in Go: into an existing value.
trait GoValue: Default {
    fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error>;
}

/// Implements [`GoValue`] for strings and numbers, which null leaves unchanged.
macro_rules! kept_by_null {
    ($($type:ty)+) => {
        $(impl GoValue for $type {
            fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
                if let Some(value) = Option::deserialize(from)? {
                    *self = value;
                }
                Ok(())
            }
        })+
    };
}
kept_by_null!(String i64);

impl GoValue for ListMeta {
    fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        if let Some(text) = Option::deserialize(from)? {
            self.0 = Some(text);
        }
        Ok(())
    }
}

impl GoValue for Option<RawObject> {
    fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        *self = Option::deserialize(from)?;
        Ok(())
    }
}

impl<T: GoValue> GoValue for Option<Vec<T>> {
    fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        let list: Option<Vec<Decoded<T>>> = Option::deserialize(from)?;
        *self = list.map(|list| list.into_iter().map(|item| item.0).collect());
        Ok(())
    }
}

impl<T: GoValue> GoValue for Option<BTreeMap<String, T>> {
    fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
        let map: Option<BTreeMap<String, Decoded<T>>> = Option::deserialize(from)?;
        match map {
            // Go adds the entries to the existing map.
            Some(map) => {
                self.get_or_insert_default().extend(map.into_iter().map(|(key, item)| (key, item.0)));
            }
            None => *self = None,
        }
        Ok(())
    }
}

/// Implements [`GoValue`] for pointers to structs, which null makes absent.
macro_rules! absent_by_null {
    ($($type:ty)+) => {
        $(impl GoValue for Option<$type> {
            fn read<'de, D: Deserializer<'de>>(&mut self, from: D) -> Result<(), D::Error> {
                *self = Option::<Decoded<$type>>::deserialize(from)?.map(|decoded| decoded.0);
                Ok(())
            }
        })+
    };
}
absent_by_null!(NodeList Victims MetaVictims MetaPod);

/// A value decoded from scratch.
struct Decoded<T>(T);

impl<'de, T: GoValue> Deserialize<'de> for Decoded<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut value = T::default();
        value.read(from)?;
        Ok(Self(value))
    }
}

/// An existing value to decode into.
struct Fill<'a, T>(&'a mut T);

impl<'de, T: GoValue> DeserializeSeed<'de> for Fill<'_, T> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        self.0.read(from)
    }
}

#[cfg(test)]
mod tests;
