//! DefaultBinder: binds the pod to its node.
//!
//! # What it does
//! Extension point: Bind. Posts a `Binding` for the pod, which sets `spec.nodeName`.
//!
//! # Rejects when
//! Never. If the API server refuses the binding, the attempt fails with an error, and the pod is retried.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! Nothing.
//!
//! # Differs from kube-scheduler
//! No differences.

use harbormaster_framework::prelude::*;

/// Binds the pod to its node. See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultBinder;

impl Plugin for DefaultBinder {
    const NAME: &'static str = "DefaultBinder";
    const MAY_BLOCK: bool = false;
    implemented_points!();
}

impl Bind for DefaultBinder {
    async fn bind(&self, cx: &BindCycle) -> Result<Bound, Stop> {
        cx.api.bind(&cx.pod, &cx.node).await?;
        Ok(Bound::Done)
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_testkit::{FakeApi, pod, trial::finished};

    use super::*;

    #[test]
    fn posts_the_binding_and_returns_a_refusal_as_an_error() {
        let server = FakeApi::default();
        let placement = Placement::new(pod("p").info(), "n".into());
        let cx = BindCycle { placement, api: server.api() };
        assert_eq!(finished(DefaultBinder.bind(&cx)).unwrap(), Bound::Done);
        assert_eq!(server.bound(), ["default/p n"]);
        let message = "pods \"p\" not found".to_owned();
        server.refuse(Some(ApiFailure { code: Some(404), reason: "NotFound".to_owned(), message }));
        match finished(DefaultBinder.bind(&cx)) {
            Err(Stop::Error(error)) => assert_eq!(error.to_string(), "pods \"p\" not found"),
            other => panic!("{other:?}"),
        }
    }
}
