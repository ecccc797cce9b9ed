//! Parts that objects of several kinds share.

use super::{
    super::{
        Kind, Message,
        fields::{list, map, one},
    },
    OWNER_REFERENCE,
};

/// `meta.ObjectMeta` of the objects that plugins read.
pub(super) static METADATA: Message = Message::new(
    "meta.ObjectMeta",
    &[
        one(1, "name", Kind::Text),
        one(3, "namespace", Kind::Text),
        one(5, "uid", Kind::Text),
        one(6, "resourceVersion", Kind::Text),
        one(7, "generation", Kind::Number),
        one(8, "creationTimestamp", Kind::TimeAsText),
        one(9, "deletionTimestamp", Kind::TimeAsText),
        map(11, "labels", Kind::Text),
        map(12, "annotations", Kind::Text),
        list(13, "ownerReferences", Kind::Message(&OWNER_REFERENCE)),
        list(14, "finalizers", Kind::Text),
    ],
);

/// `meta.Condition`.
pub(super) static CONDITION: Message = Message::new(
    "meta.Condition",
    &[
        one(1, "type", Kind::Text),
        one(2, "status", Kind::Text),
        one(3, "observedGeneration", Kind::Number),
        one(4, "lastTransitionTime", Kind::TimeAsText),
        one(5, "reason", Kind::Text),
        one(6, "message", Kind::Text),
    ],
);
