//! Kinds of `scheduling.k8s.io/v1beta1`.

use super::{
    super::{
        Kind, Message,
        fields::{list, one},
    },
    meta::{CONDITION, METADATA},
};

/// `scheduling.PodGroup`.
pub static POD_GROUP: Message = Message::new(
    "scheduling.PodGroup",
    &[
        one(1, "metadata", Kind::Message(&METADATA)),
        one(2, "spec", Kind::Message(&SPEC)),
        one(3, "status", Kind::Message(&STATUS)),
    ],
);

static SPEC: Message = Message::new(
    "scheduling.PodGroupSpec",
    &[
        one(3, "schedulingPolicy", Kind::Message(&POLICY)),
        one(4, "schedulingConstraints", Kind::Message(&CONSTRAINTS)),
        list(5, "resourceClaims", Kind::Message(&CLAIM)),
        one(6, "disruptionMode", Kind::Message(&DISRUPTION_MODE)),
        one(8, "priority", Kind::Number),
        one(9, "preemptionPolicy", Kind::Text),
    ],
);

static POLICY: Message =
    Message::new("scheduling.PodGroupSchedulingPolicy", &[one(2, "gang", Kind::Message(&GANG))]);

static GANG: Message = Message::new("scheduling.GangSchedulingPolicy", &[one(1, "minCount", Kind::Number)]);

static CONSTRAINTS: Message = Message::new(
    "scheduling.PodGroupSchedulingConstraints",
    &[list(1, "topology", Kind::Message(&TOPOLOGY))],
);

static TOPOLOGY: Message = Message::new("scheduling.TopologyConstraint", &[one(1, "key", Kind::Text)]);

static CLAIM: Message = Message::new(
    "scheduling.PodGroupResourceClaim",
    &[
        one(1, "name", Kind::Text),
        one(2, "resourceClaimName", Kind::Text),
        one(3, "resourceClaimTemplateName", Kind::Text),
    ],
);

static DISRUPTION_MODE: Message =
    Message::new("scheduling.DisruptionMode", &[one(2, "all", Kind::Message(&ALL_DISRUPTION_MODE))]);

static ALL_DISRUPTION_MODE: Message = Message::new("scheduling.AllDisruptionMode", &[]);

static STATUS: Message = Message::new(
    "scheduling.PodGroupStatus",
    &[
        list(1, "conditions", Kind::Message(&CONDITION)),
        list(2, "resourceClaimStatuses", Kind::Message(&CLAIM_STATUS)),
    ],
);

static CLAIM_STATUS: Message = Message::new(
    "scheduling.PodGroupResourceClaimStatus",
    &[one(1, "name", Kind::Text), one(2, "resourceClaimName", Kind::Text)],
);
