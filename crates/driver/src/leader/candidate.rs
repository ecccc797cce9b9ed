//! A candidate, which carries out the steps of the [`Elector`].

use std::time::Duration;

use bytes::Bytes;
use harbormaster_api::Str;
use harbormaster_client::{ApiClient, ApiError, Retries, client::JSON};
use http::Method;
use serde_json::json;
use tokio::{
    sync::oneshot,
    task::{JoinError, JoinHandle},
    time::{Instant, sleep_until, timeout},
};

use super::{
    LeaderElection, Leadership, LeaseElection,
    elector::{Answer, Elector, Purpose, Request, Step},
    lease::Lease,
};
use crate::{clients::Clients, clock::Clock};

/// Time limit for the release of the lease when the process exits.
const GIVE_UP_LIMIT: Duration = Duration::from_secs(3);
/// Maximum number of tries to release the lease; several may be needed, since a renewal in progress may interfere.
const GIVE_UP_TRIES: usize = 3;
/// Advice that is logged when another instance is the leader.
const HINT: &str = "this instance takes over when the lease is released or expires; a scheduler that runs alongside \
                    another one needs its own lease (--leader-elect-resource-name) or none (--leader-elect=false)";

/// A running election, as a task. If the election is dropped, the task releases the lease.
pub(crate) struct Election {
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

/// Configuration of a candidate.
pub(crate) struct CandidateConfig<'a> {
    pub(crate) clients: &'a Clients,
    pub(crate) leadership: Leadership,
    /// The machine's name.
    pub(crate) hostname: &'a str,
    /// Name of the component that the election's events give as their source.
    pub(crate) reporter: Str,
}

impl Election {
    /// Starts an election. This instance becomes a candidate when `ready` resolves; `lead` is called when the instance
    /// becomes the leader.
    pub(crate) fn begin(
        election: LeaderElection,
        stand: CandidateConfig<'_>,
        ready: impl Future<Output = ()> + Send + 'static,
        lead: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (stop, stopped) = oneshot::channel();
        let task = match election {
            LeaderElection::Off => {
                stand.leadership.begin_for_good();
                lead();
                tokio::spawn(async {
                    // A dropped sender is also a request to stop.
                    let _ = stopped.await;
                })
            }
            LeaderElection::Lease(lease) => {
                tokio::spawn(Candidate::new(lease, stand).run(ready, lead, stopped))
            }
        };
        Self { stop: Some(stop), task }
    }

    /// Waits until this instance is no longer the leader.
    pub(crate) async fn ends(&mut self) -> Result<(), JoinError> {
        (&mut self.task).await
    }

    /// Stops leading and releases the lease.
    pub(crate) async fn stop(mut self) {
        self.stop = None;
        // A panic no longer matters.
        let _ = self.task.await;
    }
}

/// A candidate.
struct Candidate {
    elector: Elector,
    leadership: Leadership,
    leases: ApiClient,
    events: ApiClient,
    reporter: Str,
    clock: Clock,
    paths: Paths,
    log: Log,
}

/// Paths of requests.
struct Paths {
    leases: String,
    lease: String,
    events: String,
}

impl Paths {
    fn of(election: &LeaseElection) -> Self {
        let LeaseElection { namespace, name, .. } = election;
        let leases = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
        let limit = election.request_limit().as_secs_f64();
        Self {
            lease: format!("{leases}/{name}?timeout={limit}s"),
            leases: format!("{leases}?timeout={limit}s"),
            events: format!("/api/v1/namespaces/{namespace}/events"),
        }
    }
}

impl Candidate {
    fn new(election: LeaseElection, stand: CandidateConfig<'_>) -> Self {
        let CandidateConfig { clients, leadership, hostname, reporter } = stand;
        let identity = format!("{hostname}_{}", uuid::Uuid::new_v4());
        Self {
            leadership,
            leases: clients.leases.with_time_limit(election.request_limit()),
            events: clients.events.clone(),
            reporter,
            clock: Clock::default(),
            paths: Paths::of(&election),
            log: Log { lock: election.lock(), ..Log::default() },
            elector: Elector::new(election, identity, Instant::now()),
        }
    }

    /// Runs until this instance loses the lease or is asked to stop.
    async fn run(
        mut self,
        ready: impl Future<Output = ()>,
        lead: impl FnOnce(),
        stopped: oneshot::Receiver<()>,
    ) {
        let is_stopped = tokio::select! {
            biased;
            // A dropped sender is also a request to stop.
            _ = stopped => true,
            () = async {
                ready.await;
                self.hold_lease(lead).await;
            } => false,
        };
        self.leadership.end();
        if is_stopped {
            self.give_up().await;
        }
    }

    /// Acquires the lease and renews it until it is lost.
    async fn hold_lease(&mut self, lead: impl FnOnce()) {
        let lock = &self.log.lock;
        tracing::info!(
            v = 0,
            lock,
            identity = self.elector.identity(),
            "Attempting to acquire leader lease..."
        );
        let mut lead = Some(lead);
        loop {
            match self.elector.step(Instant::now(), self.clock.now()) {
                Step::Lost => return,
                Step::Wait(until) => sleep_until(until).await,
                Step::Send(purpose, request) => {
                    let outcome = tokio::select! {
                        biased;
                        () = sleep_until_some(self.elector.leads_until()) => continue,
                        outcome = self.send(&request) => outcome,
                    };
                    self.log.outcome(purpose, &outcome);
                    self.elector.answered(answer(purpose, outcome), Instant::now());
                    self.log.holder(self.elector.other_holder());
                    let Some(end) = self.elector.leads_until() else { continue };
                    self.leadership.lead_until(end);
                    if let Some(lead) = lead.take() {
                        tracing::info!(v = 0, lock = self.log.lock, "Successfully acquired lease");
                        self.write_event();
                        lead();
                    }
                }
            }
        }
    }

    async fn send(&self, request: &Request) -> Result<Lease, ApiError> {
        let (client, Paths { lease, leases, .. }) = (&self.leases, &self.paths);
        let reply = match request {
            Request::Read => client.get(lease).await?,
            Request::Create(new) => client.exchange(Method::POST, leases, JSON, new.to_json()).await?,
            Request::Update(new) => client.exchange(Method::PUT, lease, JSON, new.to_json()).await?,
        };
        Lease::parse(&reply).map_err(|error| ApiError::Unreachable(format!("{lease}: {error}")))
    }

    /// Reports in an event that this instance has become the leader. The event may be lost; nothing depends on it.
    fn write_event(&mut self) {
        let Some(lease) = self.elector.lease() else { return };
        let (now, name) = (self.clock.now(), lease.metadata("name"));
        let namespace = lease.metadata("namespace");
        let event = json!({
            "kind": "Event",
            "apiVersion": "v1",
            "metadata": {"name": format!("{name}.{:x}", now.0), "namespace": namespace},
            "involvedObject": {
                "kind": "Lease",
                "namespace": namespace,
                "name": name,
                "uid": lease.metadata("uid"),
                "apiVersion": "coordination.k8s.io/v1",
                "resourceVersion": lease.metadata("resourceVersion"),
            },
            "reason": "LeaderElection",
            "message": format!("{} became leader", self.elector.identity()),
            "source": {"component": self.reporter.as_str()},
            "firstTimestamp": now.to_rfc3339(),
            "lastTimestamp": now.to_rfc3339(),
            "count": 1,
            "type": "Normal",
            "eventTime": null,
            "reportingComponent": self.reporter.as_str(),
            "reportingInstance": "",
        });
        let (client, path, body) = (self.events.clone(), self.paths.events.clone(), event.to_string());
        tokio::spawn(async move {
            let (body, mut retries) = (Bytes::from(body), Retries::of(&client));
            while let Err(error) = client.post(&path, body.clone()).await {
                if let Err(error) = retries.wait_after(error).await {
                    tracing::debug!(v = 2, err = %error, "Unable to write the event that this instance became leader");
                    return;
                }
            }
        });
    }

    /// Releases the lease, so that no other instance has to wait until it expires.
    async fn give_up(&mut self) {
        if !self.elector.may_hold() {
            return;
        }
        let lock = self.log.lock.clone();
        let why = match timeout(GIVE_UP_LIMIT, self.write_given_up()).await {
            Ok(Ok(())) => return tracing::info!(v = 0, lock, "Released lease"),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("not within {GIVE_UP_LIMIT:?}"),
        };
        tracing::error!(lock, err = why, "Failed to release lease: the next leader waits until it expires");
    }

    async fn write_given_up(&mut self) -> Result<(), ApiError> {
        let mut tries = 0;
        loop {
            let lease = self.send(&Request::Read).await?;
            let Some(given_up) = self.elector.given_up(&lease, self.clock.now()) else { return Ok(()) };
            tries += 1;
            match self.send(&Request::Update(given_up)).await {
                // A renewal in progress has succeeded in the meantime.
                Err(error) if error.code() == Some(409) && tries < GIVE_UP_TRIES => {}
                outcome => return outcome.map(drop),
            }
        }
    }
}

fn answer(purpose: Purpose, outcome: Result<Lease, ApiError>) -> Answer {
    match outcome {
        Ok(lease) => Answer::Lease(lease),
        Err(error) if purpose == Purpose::Read && error.code() == Some(404) => Answer::Absent,
        Err(_) => Answer::Failed,
    }
}

async fn sleep_until_some(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}

/// Log lines about an election. A repeated message is logged only at a higher verbosity.
#[derive(Default)]
struct Log {
    lock: String,
    /// The last error that was logged.
    trouble: String,
    /// The last leader that was logged.
    holder: String,
}

impl Log {
    fn outcome(&mut self, purpose: Purpose, outcome: &Result<Lease, ApiError>) {
        let lock = &self.lock;
        let error = match outcome {
            Ok(_) => {
                if !matches!(purpose, Purpose::Read) {
                    self.trouble.clear();
                    tracing::trace!(v = 5, lock, "Successfully renewed lease");
                }
                return;
            }
            Err(error) => error,
        };
        let what = match (purpose, error.code()) {
            (Purpose::Read, Some(404)) => return,
            (Purpose::Prolong, _) => "Failed to update lease optimistically, falling back to slow path",
            (Purpose::Read, _) => "Error retrieving lease lock",
            (Purpose::Create, _) => "Error initially creating lease lock",
            (Purpose::Renew | Purpose::TakeOver, _) => "Failed to update lease",
        };
        let is_usual = purpose == Purpose::Prolong || error.code() == Some(409);
        // The client logs an outage of the API server once for all requests.
        let is_logged = error.is_logged_by_client() && error.code() != Some(403);
        let text = format!("{what}: {error}");
        if is_usual || is_logged || text == self.trouble {
            tracing::debug!(v = 2, lock, err = %error, "{what}");
        } else if error.code() == Some(403) {
            let hint =
                "grant this scheduler the verbs create, get and update for leases in the lease's namespace";
            tracing::error!(lock, err = %error, hint, "{what}");
            self.trouble = text;
        } else {
            tracing::error!(lock, err = %error, "{what}");
            self.trouble = text;
        }
    }

    fn holder(&mut self, holder: Option<&str>) {
        let Some(holder) = holder else { return };
        let lock = &self.lock;
        if holder == self.holder {
            tracing::trace!(v = 4, lock, holder, "Lease is held by and has not yet expired");
            return;
        }
        tracing::info!(v = 0, lock, holder, hint = HINT, "Another instance leads");
        self.holder = holder.to_owned();
    }
}

#[cfg(test)]
mod tests;
