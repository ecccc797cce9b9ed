//! Binding cycles: PreBind, Bind and PostBind, concurrently with the scheduling of other pods. Also makes the API calls
//! that plugins need after a pod has given up its node or has found none, and those about groups. All work for the same
//! pod or group runs in order.

mod writes;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::future::join_all;
use harbormaster_api::{Str, points::ExtensionPoint};
use harbormaster_core::{
    BindOutcome, BindTask, CallTask, EvictOutcome, EvictTask, GroupCall, Input, PodEvent,
};
use harbormaster_framework::{
    api_call::{Api, ApiCall, ClusterApi, Verb},
    cycle::BindCycle,
    guard::Stopped,
    meter::{Stage, Status},
    outcome::Bound,
    sweep::PluginIdx,
};
use rustc_hash::FxHashMap;
use tokio::sync::{Semaphore, mpsc::UnboundedSender, oneshot};

use self::writes::RecordedApi;
use crate::{
    clients::BINDINGS_AT_ONCE,
    extenders::current::CurrentExtenders,
    leader::Leadership,
    message::{EngineMessage, ToEngine},
    tasks::{KeyedTaskQueue, Tasks},
    traces::{SpanEnd, SpanInfo, Traces, traced, within},
};

/// Reports whether bindings are in progress at the API server, so that less urgent work can make way for them.
#[derive(Clone, Debug)]
pub struct BindingActivity(Arc<Semaphore>);

impl BindingActivity {
    /// Returns true if at least one binding is in progress.
    pub fn is_busy(&self) -> bool {
        self.0.available_permits() < BINDINGS_AT_ONCE
    }

    /// Returns an activity that never has a binding in progress.
    #[cfg(test)]
    pub(crate) fn idle() -> Self {
        Self(Arc::new(Semaphore::new(BINDINGS_AT_ONCE)))
    }

    /// Returns an activity that always has a binding in progress.
    #[cfg(test)]
    pub(crate) fn busy() -> Self {
        Self(Arc::new(Semaphore::new(0)))
    }
}

/// Runs binding cycles as tasks and reports their outcomes to the engine.
#[derive(Clone)]
pub struct Binder {
    api: Arc<dyn ClusterApi>,
    /// Queue keyed by pod. It has no limit, since PreBind may wait for minutes.
    tasks: Arc<KeyedTaskQueue>,
    engine: ToEngine,
    events: PodEvents,
    room: Arc<Semaphore>,
    pre_binding: Arc<PreBinding>,
    traces: Traces,
    extenders: Option<Binders>,
}

/// Extenders that may bind pods, and the leadership that permits them to.
type Binders = (CurrentExtenders, Leadership);

/// Sender for the events that plugins emit during bindings.
pub type PodEvents = UnboundedSender<PodEvent>;

/// Maps the UID of each pod in PreBind to a sender that cancels the binding.
type PreBinding = Mutex<FxHashMap<Str, oneshot::Sender<&'static str>>>;

/// Error message of a binding that was canceled by a preemption.
const PREEMPTED: &str = "preempted by DefaultPreemption";

impl Binder {
    /// Returns a binder whose plugins access the cluster through `api` and emit events through `events`.
    pub fn new(api: Arc<dyn ClusterApi>, tasks: Tasks, engine: ToEngine, events: PodEvents) -> Self {
        let tasks = KeyedTaskQueue::new(tasks, Semaphore::MAX_PERMITS);
        let room = Arc::new(Semaphore::new(BINDINGS_AT_ONCE));
        let (pre_binding, traces) = Default::default();
        Self { api, tasks, engine, events, room, pre_binding, traces, extenders: None }
    }

    /// Includes each binding in the trace of its scheduling attempt.
    pub(crate) fn traced_by(self, traces: &Traces) -> Self {
        Self { traces: traces.clone(), ..self }
    }

    /// Lets extenders bind pods. Bind plugins then bind only the pods that no extender binds.
    pub(crate) fn with_extenders(self, extenders: &CurrentExtenders, leadership: &Leadership) -> Self {
        Self { extenders: Some((extenders.clone(), leadership.clone())), ..self }
    }

    /// Returns a handle that reports whether bindings are in progress.
    pub fn activity(&self) -> BindingActivity {
        BindingActivity(self.room.clone())
    }

    /// Starts a binding cycle.
    pub fn run(&self, task: BindTask) {
        let Self { api, engine, events, room, pre_binding, extenders, .. } = self.clone();
        let uid = task.pod().uid.clone();
        let trace = self.traces.of(&uid);
        let called_off = (!task.pre_bind.is_empty()).then(|| {
            let (call_off, called_off) = oneshot::channel();
            locked(&pre_binding).insert(uid.clone(), call_off);
            called_off
        });
        self.tasks.run(&uid.clone(), async move {
            let writes = Arc::new(RecordedApi::new(api, task.profile.clone(), events));
            let api = Api::new(writes.clone());
            let cycle = BindingCycle { task, api, room, pre_binding, extenders };
            let run = Box::pin(cycle.run(called_off));
            let outcome = within(trace, traced(|| cycle.about(), run, end_of_cycle)).await;
            writes.seen().await;
            log(&cycle.task, &outcome);
            // The engine is gone only when the process ends.
            let _ = engine.send(EngineMessage::Inputs(vec![Input::BindFinished { uid, outcome }]));
        });
    }

    /// Cancels the binding of a pod in PreBind, with `why` as its error. Returns false if the pod is not in PreBind.
    pub fn call_off(&self, uid: &str, why: &'static str) -> bool {
        let call_off = locked(&self.pre_binding).remove(uid);
        call_off.is_some_and(|call_off| call_off.send(why).is_ok())
    }

    /// Cancels the binding of a victim. Returns the task if that is not possible.
    pub fn preempt(&self, task: EvictTask) -> Result<(), EvictTask> {
        if !self.call_off(&task.victim.uid, PREEMPTED) {
            return Err(task);
        }
        let outcome = EvictOutcome::CalledOff;
        let _ = self.engine.send(EngineMessage::Inputs(vec![Input::EvictFinished { task, outcome }]));
        Ok(())
    }

    /// Makes the API calls that plugins need after a pod has given up its node or has found none.
    pub fn call(&self, task: CallTask) {
        let CallTask { pod, calls } = task;
        self.call_all(&pod.uid, pod.full_name(), calls);
    }

    /// Makes an API call about a group. Calls about the same group are made in order.
    pub fn call_about_group(&self, GroupCall { group, call }: GroupCall) {
        self.call_all(&group.uid, group.id.to_string(), vec![call]);
    }

    /// Makes API calls after those that were requested earlier with the same key. Failures are logged with the name of
    /// the object concerned.
    fn call_all(&self, key: &Str, object: String, calls: Vec<ApiCall>) {
        let api = self.api.clone();
        self.tasks.run(key, async move {
            for call in calls {
                let (url, is_deletion) = (call.path.url(), call.verb == Verb::Delete);
                if let Err(failure) = api.call(call).await {
                    if is_deletion && failure.is_not_found() {
                        continue;
                    }
                    tracing::error!(object, url, err = %failure, "A plugin's request to the API server failed");
                }
            }
        });
    }
}

/// The binding cycle of one pod.
struct BindingCycle {
    task: BindTask,
    api: Api,
    room: Arc<Semaphore>,
    pre_binding: Arc<PreBinding>,
    extenders: Option<Binders>,
}

impl BindingCycle {
    /// Runs PreBind, Bind and PostBind. Only Bind is limited to [`BINDINGS_AT_ONCE`], since PreBind may wait for
    /// minutes. The binding can be canceled until PreBind has ended.
    ///
    /// Some parts are boxed: a future has room for everything that it may ever await, and each function that takes a
    /// future and awaits it doubles the size.
    async fn run(&self, called_off: Option<oneshot::Receiver<&'static str>>) -> BindOutcome {
        let prepare = async {
            match called_off {
                Some(called_off) => {
                    let work =
                        traced(|| point(Stage::PreBind), self.pre_bind_unless(called_off), end_of_step);
                    Box::pin(work).await
                }
                None => Ok(()),
            }
        };
        if let Err(outcome) = self.measured(Stage::PreBind, status, prepare).await {
            return outcome;
        }
        let permit = self.room.acquire().await;
        let bound = match self.bind_by_extender().await {
            Some(bound) => bound,
            None => {
                let bind = traced(|| point(Stage::Bind), Box::pin(self.bind()), end_of_step);
                self.measured(Stage::Bind, status, bind).await
            }
        };
        drop(permit);
        if let Err(outcome) = bound {
            return outcome;
        }
        let post_bind = traced(|| point(Stage::PostBind), self.post_bind(), |()| SpanEnd::default());
        self.measured(Stage::PostBind, |()| Status::Success, post_bind).await;
        BindOutcome::Bound
    }

    async fn post_bind(&self) {
        let profile = &self.task.profile;
        for plugin in profile.at(ExtensionPoint::PostBind) {
            if let Err(error) = profile.plugin(*plugin).post_bind(&self.seen_by(*plugin)).await {
                let pod = self.task.pod().full_name();
                tracing::error!(pod, err = %error, "A plugin failed after the binding");
            }
        }
    }

    /// Runs `work`, the plugins of an extension point, and measures how long it takes. `status` converts the result to
    /// a status.
    async fn measured<T>(
        &self,
        stage: Stage,
        status: impl FnOnce(&T) -> Status,
        work: impl Future<Output = T>,
    ) -> T {
        let Some(meter) = self.task.profile.meter() else { return work.await };
        let begun = meter.now();
        let done = work.await;
        meter.point(stage, status(&done), meter.now().since(begun));
        done
    }

    async fn pre_bind_unless(
        &self,
        mut called_off: oneshot::Receiver<&'static str>,
    ) -> Result<(), BindOutcome> {
        let why = tokio::select! {
            biased;
            why = &mut called_off => why.ok(),
            done = self.pre_bind() => match locked(&self.pre_binding).remove(&self.task.pod().uid) {
                Some(_) => return done,
                // `call_off` has removed the entry and reported success, so the binding must fail although PreBind has
                // ended.
                None => called_off.try_recv().ok(),
            },
        };
        Err(BindOutcome::Failed(why.unwrap_or("called off").to_owned()))
    }

    async fn pre_bind(&self) -> Result<(), BindOutcome> {
        for group in &self.task.pre_bind {
            let members = group.iter().map(|plugin| async {
                let (cycle, erased) = (self.seen_by(*plugin), self.task.profile.plugin(*plugin));
                let work = async { erased.pre_bind(&cycle).await.map_err(failed) };
                traced(|| at(Stage::PreBind, erased.name()), work, end_of_step).await
            });
            join_all(members).await.into_iter().collect::<Result<(), BindOutcome>>()?;
        }
        Ok(())
    }

    /// Lets an extender bind the pod. Returns `None` if no extender binds it.
    async fn bind_by_extender(&self) -> Option<Result<(), BindOutcome>> {
        let (extenders, leadership) = self.extenders.as_ref()?;
        let extenders = extenders.get()?;
        let bound = Box::pin(extenders.bind(self.task.pod(), self.task.node(), leadership)).await?;
        Some(bound.map_err(BindOutcome::Failed))
    }

    async fn bind(&self) -> Result<(), BindOutcome> {
        let profile = &self.task.profile;
        for plugin in profile.at(ExtensionPoint::Bind) {
            let (cycle, erased) = (self.seen_by(*plugin), profile.plugin(*plugin));
            let work = async { erased.bind(&cycle).await.map_err(failed) };
            match traced(|| at(Stage::Bind, erased.name()), work, end_of_step).await? {
                Bound::Done => return Ok(()),
                Bound::NotMine => {}
            }
        }
        Err(BindOutcome::Failed("no Bind plugin bound the pod".to_owned()))
    }

    fn about(&self) -> SpanInfo {
        let (pod, node) = (self.task.pod(), self.task.node());
        let attributes = vec![
            ("k8s.pod.name", pod.name.to_string()),
            ("k8s.namespace.name", pod.namespace.to_string()),
            ("k8s.pod.uid", pod.uid.to_string()),
            ("k8s.node.name", node.to_string()),
        ];
        SpanInfo::work("Binding cycle", attributes)
    }

    fn seen_by(&self, plugin: PluginIdx) -> BindCycle {
        BindCycle { placement: self.task.reservation.of(plugin), api: self.api.clone() }
    }
}

/// Logs the outcome of a binding cycle.
fn log(task: &BindTask, outcome: &BindOutcome) {
    let BindTask { evaluated, feasible, .. } = task;
    let (pod, node) = (task.pod().full_name(), task.node());
    match outcome {
        BindOutcome::Bound => tracing::debug!(
            v = 2,
            pod,
            node = %node,
            evaluatedNodes = evaluated,
            feasibleNodes = feasible,
            "Successfully bound pod to node"
        ),
        BindOutcome::Rejected(reject) => {
            tracing::debug!(v = 2, pod, err = reject.message(), "Unable to schedule pod; no fit; waiting");
        }
        BindOutcome::Failed(why) => tracing::error!(pod, err = why, "Error scheduling pod; retrying"),
    }
}

fn locked(pre_binding: &PreBinding) -> MutexGuard<'_, FxHashMap<Str, oneshot::Sender<&'static str>>> {
    // A panic cannot leave the map inconsistent.
    pre_binding.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the span of an extension point.
fn point(stage: Stage) -> SpanInfo {
    SpanInfo::work(stage.name(), vec![("scheduler.extension_point", stage.name().to_owned())])
}

/// Returns the span of a plugin at an extension point.
fn at(stage: Stage, plugin: &'static str) -> SpanInfo {
    let attributes = [("scheduler.extension_point", stage.name()), ("scheduler.plugin", plugin)];
    SpanInfo::work(plugin, attributes.map(|(name, value)| (name, value.to_owned())).into())
}

/// Returns the outcome of a step for its span.
fn end_of_step<T>(done: &Result<T, BindOutcome>) -> SpanEnd {
    done.as_ref().err().map(end_of_cycle).unwrap_or_default()
}

fn end_of_cycle(outcome: &BindOutcome) -> SpanEnd {
    let (result, error) = match outcome {
        BindOutcome::Bound => ("scheduled", None),
        BindOutcome::Rejected(reject) => ("unschedulable", Some(reject.message())),
        BindOutcome::Failed(why) => ("error", Some(why.clone())),
    };
    SpanEnd { attributes: vec![("scheduler.result", result.to_owned())], error }
}

/// Returns the status of a step for metrics.
fn status(done: &Result<(), BindOutcome>) -> Status {
    match done {
        Ok(()) | Err(BindOutcome::Bound) => Status::Success,
        Err(BindOutcome::Rejected(reject)) => reject.fix.into(),
        Err(BindOutcome::Failed(_)) => Status::Error,
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
