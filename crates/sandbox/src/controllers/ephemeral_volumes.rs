//! Generic ephemeral volumes: claims that are created and deleted with their pods.

use harbormaster_world::volumes::pod_claims;

use super::{ControllerContext, volumes};
use crate::{
    fields::{is_ending, is_finished},
    mirror::Mirror,
};

pub(super) fn reconcile(tools: &ControllerContext, pods: &Mirror) {
    for pod in pods.all().filter(|pod| !is_ending(pod) && !is_finished(pod)) {
        for claim in pod_claims::of_pod(pod) {
            volumes::create_claim(&tools.store, claim);
        }
    }
}
