//! DefaultBinder: tells the API server where the pod goes.
//!
//! # What it does
//! Bind. Posts a `Binding` for the pod, which sets `spec.nodeName`.
//!
//! # Rejects when
//! Never; a refusal by the API server is an error, and the pod is retried.
//!
//! # Scores by
//! It does not score.
//!
//! # Requeued by
//! Nothing.
//!
//! # Differs from kube-scheduler
//! In nothing.

use harbormaster_framework::prelude::*;

/// See the [module documentation](self).
#[derive(Clone, Copy, Debug, Default)]
pub struct DefaultBinder;

impl Plugin for DefaultBinder {
    const NAME: &'static str = "DefaultBinder";
    type FilterState = ();
    type ScoreState = ();

    fn points(points: &mut Points<Self>) {
        points.bind();
    }
}

impl Build for DefaultBinder {
    type Args = NoArgs;
    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Bind for DefaultBinder {
    async fn bind(&self, cx: &BindCycle) -> Result<Bound, Stop> {
        cx.api.bind(&cx.pod, &cx.node).await?;
        Ok(Bound::Done)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use harbormaster_api::Str;
    use harbormaster_framework::plugin::BoxFuture;
    use harbormaster_testkit::{pod, trial::finished};

    use super::*;

    #[derive(Default)]
    struct Server {
        bound: Mutex<Vec<String>>,
        refuses: bool,
    }

    impl ClusterApi for Server {
        fn bind<'a>(&'a self, pod: &'a PodInfo, node: &'a Str) -> BoxFuture<'a, Result<(), PluginError>> {
            Box::pin(async move {
                if self.refuses {
                    return Err("pods \"p\" not found".into());
                }
                self.bound.lock().unwrap().push(format!("{} {node}", pod.full_name()));
                Ok(())
            })
        }
    }

    #[test]
    fn the_binding_is_posted_and_a_refusal_is_an_error() {
        let server = Arc::new(Server::default());
        let cx = BindCycle { pod: pod("p").info(), node: "n".into(), api: server.clone() };
        assert_eq!(finished(DefaultBinder.bind(&cx)).unwrap(), Bound::Done);
        assert_eq!(*server.bound.lock().unwrap(), ["default/p n"]);
        let cx = BindCycle { api: Arc::new(Server { refuses: true, ..Server::default() }), ..cx };
        match finished(DefaultBinder.bind(&cx)) {
            Err(Stop::Error(error)) => assert_eq!(error.to_string(), "pods \"p\" not found"),
            other => panic!("{other:?}"),
        }
    }
}
