//! The specs of pods that were decoded recently, by their bytes in protobuf.
//!
//! The API server sends a pod several times while it is scheduled and started, and most pods come from a template. Most
//! of a pod's bytes are its spec, which never changes except for a few fields, so decoding it again would be most of the
//! work.

use std::{borrow::Cow, sync::Arc};

use rustc_hash::FxHashMap;

use crate::{PodSpec, protobuf::Occurrence};

/// Number of the field `spec` of a pod.
pub(super) const SPEC: u64 = 2;
/// Number of the field `nodeName` of a spec.
pub(super) const NODE_NAME: u64 = 10;
/// Number of specs in a generation. Specs that have not been used for one or two generations are forgotten.
const GENERATION: usize = 1024;

type Specs = FxHashMap<Box<[u8]>, Arc<PodSpec>>;

/// See the [module](self).
#[derive(Debug, Default)]
pub(super) struct KnownSpecs {
    recent: Specs,
    older: Specs,
}

impl KnownSpecs {
    pub(super) fn get(&mut self, bytes: &[u8]) -> Option<Arc<PodSpec>> {
        if let Some(spec) = self.recent.get(bytes) {
            return Some(spec.clone());
        }
        let (bytes, spec) = self.older.remove_entry(bytes)?;
        self.add(bytes, spec.clone());
        Some(spec)
    }

    pub(super) fn add(&mut self, bytes: impl Into<Box<[u8]>>, spec: Arc<PodSpec>) {
        if self.recent.len() >= GENERATION {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(bytes.into(), spec);
    }
}

/// The spec in the bytes of a pod, split into the node's name and everything else.
pub(super) struct SplitSpec<'a> {
    /// Empty if the pod has no node.
    pub(super) node_name: &'a str,
    /// The bytes of all other fields, including those that are not read.
    pub(super) rest: Cow<'a, [u8]>,
}

impl<'a> SplitSpec<'a> {
    /// Splits the spec of a pod; `None` if the pod has no spec, is unusual or is not a message.
    pub(super) fn of(pod: &'a [u8]) -> Option<Self> {
        let Occurrence::Once { value: spec, .. } = Occurrence::find(pod, SPEC).ok()? else { return None };
        match Occurrence::find(spec, NODE_NAME).ok()? {
            Occurrence::Never => Some(Self { node_name: "", rest: spec.into() }),
            Occurrence::Once { before, value, after } => {
                Some(Self { node_name: str::from_utf8(value).ok()?, rest: [before, after].concat().into() })
            }
            Occurrence::Several => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spec_is_the_same_before_and_after_the_pod_gets_a_node() {
        let split = |pod: &'static [u8]| SplitSpec::of(pod).unwrap();
        // Metadata, then a spec with the fields 9, 10 (the node) and 19.
        let pending = split(b"\x0a\x01x\x12\x06\x4a\x01a\x9a\x01\x00");
        let bound = split(b"\x0a\x01y\x12\x0a\x4a\x01a\x52\x02no\x9a\x01\x00");
        assert_eq!((pending.node_name, bound.node_name), ("", "no"));
        assert_eq!(pending.rest, bound.rest);
    }

    #[test]
    fn unusual_pods_and_garbage_are_not_split() {
        let unusual = [
            &b""[..],
            b"\x0a\x01x",
            b"\x12\x00\x12\x00",
            b"\x12\x06\x52\x01a\x52\x01b",
            b"\x12\x03\x52\x01\xff",
        ];
        let garbage = [&b"\x12\x05"[..], b"\x12\x01\x52", b"\x10\x01", b"\x12\x02\x50\x01"];
        for pod in unusual.into_iter().chain(garbage) {
            assert!(SplitSpec::of(pod).is_none(), "{pod:?}");
        }
    }

    #[test]
    fn the_specs_that_were_used_recently_are_kept() {
        let mut known = KnownSpecs::default();
        let spec = Arc::<PodSpec>::default();
        let bytes = |number: usize| number.to_be_bytes();
        for number in 0..10 * GENERATION {
            known.add(bytes(number), spec.clone());
            assert!(known.get(&bytes(0)).is_some(), "it is used all the time");
            assert!(known.get(&bytes(number.saturating_sub(GENERATION / 4))).is_some());
        }
        assert!(known.get(&bytes(1)).is_none());
        assert!(known.recent.len() + known.older.len() <= 2 * GENERATION);
    }
}
