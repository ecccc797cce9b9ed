//! State of all pods: their nodes, or the reasons why they have none.

use std::{collections::BTreeMap, fmt, time::Duration};

use harbormaster_apiserver::{Event, EventType, Store, Watch};
use serde_json::Value;
use tokio::time::{Instant, sleep_until};

use crate::{
    fields::{condition, is_ending, is_finished, key, list, text, uid},
    sandbox::SandboxError,
};

/// Time without changes after which a sandbox is considered settled if every pod has a decision and none is being
/// deleted. It is longer than the backoff before a rejected pod's second attempt.
const QUIET: Duration = Duration::from_millis(1500);
/// Time without changes after which a sandbox is considered settled in any case.
const PATIENCE: Duration = Duration::from_secs(30);

/// State of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum PodState {
    /// The scheduler tried the pod, which currently fits nowhere.
    Unschedulable,
    /// The pod has scheduling gates.
    Gated,
    /// The pod names a scheduler that does not run here.
    Foreign,
    /// The pod awaits its first decision, or the deletion of its victims.
    Waiting,
    /// The pod has a node.
    Placed,
    /// The pod is being deleted.
    Ending,
    /// The pod has succeeded or failed.
    Finished,
}

/// Summary of a pod for users.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// `namespace/name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `spec.nodeName`.
    pub node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// State of the pod.
    pub state: PodState,
    /// The reason why the pod has no node or is being deleted, if one was reported.
    pub message: Option<String>,
    /// `spec.schedulerName`.
    pub scheduler: String,
    /// Group of pods to which the pod belongs (`namespace/name`).
    pub group: Option<String>,
}

impl PodView {
    /// Reads a pod in a cluster with the given schedulers. If the list is empty, no pod is [`PodState::Foreign`],
    /// because any scheduler may still be attached.
    pub fn of(pod: &Value, schedulers: &[String]) -> Self {
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let message = |name: &str, status: &str| {
            let condition = condition(pod, name).filter(|c| text(c, "/status") == status)?;
            some(text(condition, "/message"))
        };
        let scheduler = text(pod, "/spec/schedulerName").to_owned();
        let is_foreign = !schedulers.is_empty() && !schedulers.contains(&scheduler);
        let node = some(text(pod, "/spec/nodeName"));
        let rejected = message("PodScheduled", "False");
        let state = if is_ending(pod) {
            PodState::Ending
        } else if is_finished(pod) {
            PodState::Finished
        } else if node.is_some() {
            PodState::Placed
        } else if !list(pod, "/spec/schedulingGates").is_empty() {
            PodState::Gated
        } else if is_foreign {
            PodState::Foreign
        } else if rejected.is_some() && text(pod, "/status/nominatedNodeName").is_empty() {
            PodState::Unschedulable
        } else {
            PodState::Waiting
        };
        let message = match state {
            PodState::Ending => message("DisruptionTarget", "True"),
            PodState::Placed | PodState::Finished => None,
            PodState::Gated => {
                rejected.or_else(|| Some("waiting for its scheduling gates to be removed".to_owned()))
            }
            PodState::Foreign => {
                rejected.or_else(|| Some(format!("no profile has the scheduler name {scheduler:?}")))
            }
            _ => rejected,
        };
        Self {
            name: key(pod).into_owned(),
            uid: uid(pod).to_owned(),
            node,
            phase: text(pod, "/status/phase").to_owned(),
            state,
            message,
            scheduler,
            group: some(text(pod, "/spec/schedulingGroup/podGroupName"))
                .map(|group| format!("{}/{group}", text(pod, "/metadata/namespace"))),
        }
    }
}

/// Something that happened to a pod. Displays as one line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum News {
    /// The pod was bound.
    Placed {
        /// `namespace/name`.
        pod: String,
        /// The node.
        node: String,
    },
    /// The pod has no node, and the reason is new.
    Stuck {
        /// `namespace/name`.
        pod: String,
        /// Message of the pod's condition.
        why: String,
    },
    /// The pod is being deleted.
    Ending {
        /// `namespace/name`.
        pod: String,
        /// The reason, if known.
        why: Option<String>,
    },
    /// The pod has succeeded.
    Finished {
        /// `namespace/name`.
        pod: String,
    },
    /// The pod has failed and is not restarted.
    Failed {
        /// `namespace/name`.
        pod: String,
    },
    /// The pod was removed immediately.
    Gone {
        /// `namespace/name`.
        pod: String,
    },
}

impl fmt::Display for News {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Placed { pod, node } => write!(f, "pod {pod} -> {node}"),
            Self::Stuck { pod, why } => write!(f, "pod {pod}: {why}"),
            Self::Ending { pod, why: None } => write!(f, "pod {pod} is being deleted"),
            Self::Ending { pod, why: Some(why) } => write!(f, "pod {pod} is being deleted: {why}"),
            Self::Finished { pod } => write!(f, "pod {pod} has finished"),
            Self::Failed { pod } => write!(f, "pod {pod} has failed"),
            Self::Gone { pod } => write!(f, "pod {pod} was deleted"),
        }
    }
}

/// Update of a sandbox.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Update {
    /// Pods have changed. Contains the changes that are worth reporting, if any.
    News(Vec<News>),
    /// Something that the user should know; one line. Reported once.
    Notice(String),
    /// Nothing has changed for a while, so nothing more is expected without an external change. Reported again only
    /// after a further change.
    Settled,
}

/// All pods, and news about them.
#[derive(Debug)]
pub struct Board {
    store: Store,
    watch: Watch,
    /// Names of the schedulers for whose decisions the board waits.
    schedulers: Vec<String>,
    pods: BTreeMap<String, PodView>,
    /// News about the pods that existed from the beginning.
    first: Vec<News>,
    changed: Instant,
    settled: bool,
}

impl Board {
    /// Starts with the existing pods. The board does not wait for decisions on pods that name none of the schedulers.
    pub(crate) fn new(store: &Store, schedulers: Vec<String>) -> Result<Self, SandboxError> {
        let mut board = Self {
            store: store.clone(),
            watch: watch(store)?,
            schedulers,
            pods: BTreeMap::new(),
            first: Vec::new(),
            changed: Instant::now(),
            settled: false,
        };
        board.list()?;
        board.first = board.pods().filter_map(|pod| news(None, pod)).collect();
        Ok(board)
    }

    fn list(&mut self) -> Result<(), SandboxError> {
        let (pods, _) =
            self.store.list("pods", "", "", "").map_err(|e| SandboxError::Store(e.to_string()))?;
        let views = pods.iter().map(|pod| PodView::of(&pod.value(), &self.schedulers));
        self.pods = views.map(|view| (view.name.clone(), view)).collect();
        Ok(())
    }

    /// Returns all pods, by namespace and name.
    pub fn pods(&self) -> impl Iterator<Item = &PodView> {
        self.pods.values()
    }

    /// Returns the pod `namespace/name`.
    pub fn pod(&self, name: &str) -> Option<&PodView> {
        self.pods.get(name)
    }

    /// Returns the number of pods in a state.
    pub fn count(&self, state: PodState) -> usize {
        self.pods().filter(|pod| pod.state == state).count()
    }

    /// Waits for the next update. Cancel-safe: dropping the future loses nothing.
    pub async fn next(&mut self) -> Update {
        if !self.first.is_empty() {
            return Update::News(std::mem::take(&mut self.first));
        }
        let limit = if self.pods().any(|pod| self.is_open(pod)) { PATIENCE } else { QUIET };
        let settled = async {
            match self.settled {
                true => std::future::pending().await,
                false => sleep_until(self.changed + limit).await,
            }
        };
        let events = tokio::select! {
            events = self.watch.next() => events,
            () = settled => {
                self.settled = true;
                return Update::Settled;
            }
        };
        (self.changed, self.settled) = (Instant::now(), false);
        match events {
            Ok(events) => Update::News(events.into_iter().filter_map(|event| self.apply(event)).collect()),
            Err(_) => {
                let again = watch(&self.store).and_then(|watch| {
                    self.watch = watch;
                    self.list()
                });
                if let Err(error) = again {
                    tracing::error!(err = %error, "Pods cannot be watched");
                }
                Update::News(Vec::new())
            }
        }
    }

    /// Returns true if a pod's state is expected to change soon.
    fn is_open(&self, pod: &PodView) -> bool {
        match pod.state {
            PodState::Waiting => self.schedulers.contains(&pod.scheduler),
            PodState::Ending => true,
            _ => false,
        }
    }

    fn apply(&mut self, Event { event, object }: Event) -> Option<News> {
        let new = PodView::of(&object.value(), &self.schedulers);
        let pod = new.name.clone();
        if event == EventType::Deleted {
            let old = self.pods.remove(&pod)?;
            return (old.state != PodState::Ending).then_some(News::Gone { pod });
        }
        let old = self.pods.insert(pod, new.clone()).filter(|old| old.uid == new.uid);
        news(old.as_ref(), &new)
    }
}

/// Returns the news about a pod, if its change is worth reporting.
fn news(old: Option<&PodView>, new: &PodView) -> Option<News> {
    let (pod, state) = (new.name.clone(), old.map(|old| old.state));
    match new.state {
        PodState::Ending if state != Some(PodState::Ending) => {
            Some(News::Ending { pod, why: new.message.clone() })
        }
        PodState::Finished if state != Some(PodState::Finished) => {
            Some(if new.phase == "Failed" { News::Failed { pod } } else { News::Finished { pod } })
        }
        PodState::Placed if old.is_none_or(|old| old.node.is_none()) => {
            Some(News::Placed { pod, node: new.node.clone()? })
        }
        PodState::Unschedulable | PodState::Gated | PodState::Foreign | PodState::Waiting => {
            let before = old.and_then(|old| old.message.as_ref());
            let why = new.message.as_ref().filter(|why| before != Some(*why))?.clone();
            Some(News::Stuck { pod, why })
        }
        _ => None,
    }
}

fn watch(store: &Store) -> Result<Watch, SandboxError> {
    store.watch("pods", "", "", "").map_err(|e| SandboxError::Store(e.to_string()))
}
