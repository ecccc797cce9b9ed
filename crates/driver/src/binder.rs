//! From a decision to a bound pod: PreBind, Bind and PostBind, beside the scheduling of other pods; and the calls that are
//! to be made when a decision is given up. What is done for one pod is done in order.

use std::sync::{Arc, mpsc};

use futures_util::future::join_all;
use harbormaster_api::points::ExtensionPoint;
use harbormaster_core::{BindOutcome, BindTask, CallTask, Input};
use harbormaster_framework::{
    api_call::{Api, ClusterApi},
    cycle::BindCycle,
    guard::Stopped,
    outcome::Bound,
    sweep::PluginIdx,
};
use tokio::sync::Semaphore;

use crate::{
    engine_thread::ToEngine,
    lanes::{Lanes, Tasks},
};

/// Bindings that talk to the API server at a time: more would only open more connections.
pub const BINDINGS_AT_ONCE: usize = 64;

/// Tells whether bindings talk to the API server; what is less urgent then holds back.
#[derive(Clone, Debug)]
pub struct BindingActivity(Arc<Semaphore>);

impl BindingActivity {
    /// Whether at least one binding is on its way.
    pub fn is_busy(&self) -> bool {
        self.0.available_permits() < BINDINGS_AT_ONCE
    }

    /// No binding, ever.
    #[cfg(test)]
    pub(crate) fn idle() -> Self {
        Self(Arc::new(Semaphore::new(BINDINGS_AT_ONCE)))
    }

    /// A binding, always.
    #[cfg(test)]
    pub(crate) fn busy() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

/// Runs binding cycles as tasks and tells the engine how they ended.
#[derive(Clone)]
pub struct Binder {
    api: Api,
    /// By pod, and as many at a time as there are pods: PreBind may wait for something for minutes.
    lanes: Arc<Lanes>,
    engine: mpsc::Sender<ToEngine>,
    room: Arc<Semaphore>,
}

impl Binder {
    /// A binder whose plugins reach the cluster through `api`.
    pub fn new(api: Arc<dyn ClusterApi>, tasks: Tasks, engine: mpsc::Sender<ToEngine>) -> Self {
        let lanes = Lanes::new(tasks, Semaphore::MAX_PERMITS);
        Self { api: Api::new(api), lanes, engine, room: Arc::new(Semaphore::new(BINDINGS_AT_ONCE)) }
    }

    /// Tells whether bindings are on their way.
    pub fn activity(&self) -> BindingActivity {
        BindingActivity(self.room.clone())
    }

    /// Begins a binding cycle.
    pub fn run(&self, task: BindTask) {
        let Self { api, engine, room, .. } = self.clone();
        let uid = task.pod().uid.clone();
        self.lanes.run(&uid.clone(), async move {
            let outcome = BindingCycle { task, api, room }.run().await;
            // The engine is gone only when the process ends.
            let _ = engine.send(ToEngine::Inputs(vec![Input::BindFinished { uid, outcome }]));
        });
    }

    /// Makes calls because a decision was given up.
    pub fn call(&self, task: CallTask) {
        let api = self.api.clone();
        self.lanes.run(&task.pod.uid.clone(), async move {
            for call in task.calls {
                let url = call.path.url();
                if let Err(failure) = api.call(call).await {
                    let pod = task.pod.full_name();
                    tracing::error!(pod, url, err = %failure, "A plugin's call failed after its pod gave its node up");
                }
            }
        });
    }
}

/// One pod on its way.
struct BindingCycle {
    task: BindTask,
    api: Api,
    room: Arc<Semaphore>,
}

impl BindingCycle {
    /// PreBind, Bind, PostBind. Only Bind waits for room: PreBind may wait for something else for minutes.
    async fn run(self) -> BindOutcome {
        if let Err(outcome) = self.pre_bind().await {
            return outcome;
        }
        let permit = self.room.acquire().await;
        let bound = self.bind().await;
        drop(permit);
        if let Err(outcome) = bound {
            return outcome;
        }
        let profile = &self.task.profile;
        for plugin in profile.at(ExtensionPoint::PostBind) {
            if let Err(error) = profile.plugin(*plugin).post_bind(&self.seen_by(*plugin)).await {
                let pod = self.task.pod().full_name();
                tracing::error!(pod, err = %error, "A plugin failed after the binding");
            }
        }
        BindOutcome::Bound
    }

    async fn pre_bind(&self) -> Result<(), BindOutcome> {
        for group in &self.task.pre_bind {
            let members = group.iter().map(|plugin| async {
                let cycle = self.seen_by(*plugin);
                self.task.profile.plugin(*plugin).pre_bind(&cycle).await.map_err(failed)
            });
            join_all(members).await.into_iter().collect::<Result<(), BindOutcome>>()?;
        }
        Ok(())
    }

    async fn bind(&self) -> Result<(), BindOutcome> {
        let profile = &self.task.profile;
        for plugin in profile.at(ExtensionPoint::Bind) {
            match profile.plugin(*plugin).bind(&self.seen_by(*plugin)).await {
                Ok(Bound::Done) => return Ok(()),
                Ok(Bound::NotMine) => {}
                Err(stopped) => return Err(failed(stopped)),
            }
        }
        Err(BindOutcome::Failed("no Bind plugin was responsible for the pod".to_owned()))
    }

    fn seen_by(&self, plugin: PluginIdx) -> BindCycle {
        BindCycle { placement: self.task.reservation.of(plugin), api: self.api.clone() }
    }
}

fn failed(stopped: Stopped) -> BindOutcome {
    match stopped {
        Stopped::Reject(_, reject) => BindOutcome::Rejected(reject),
        Stopped::Error(error) => BindOutcome::Failed(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
