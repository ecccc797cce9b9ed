//! Logs outages of an API server when they begin, every 30 seconds while they last, and when they are over.
//!
//! During an outage, all requests fail, so one log line is enough for all of them.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

use crate::{error::ApiError, recovery::Recovery};

/// Minimum interval between log lines about the same kind of problem.
const REMINDER: Duration = Duration::from_secs(30);

/// Logs problems with one API server. Clones share their state.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reachability(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// Address of the API server.
    server: String,
    state: Mutex<State>,
    recovery: Recovery,
}

#[derive(Debug, Default)]
struct State {
    outage: Option<Outage>,
    answered: Option<Instant>,
    /// Error messages, keyed by the kind of object that the client may not read.
    forbidden: BTreeMap<String, String>,
    /// Time of the last log line about each kind of problem.
    logged: [Option<Instant>; 3],
}

#[derive(Debug)]
struct Outage {
    since: Instant,
    logged: bool,
}

/// Kinds of problems.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    /// No response, or a response from a proxy in front of a server that is down.
    Away,
    /// The server does not accept the credentials.
    Unauthorized,
    /// The server accepts the credentials but refuses the request.
    Forbidden,
}

impl Trouble {
    /// Returns the problem that caused an error; `None` if the problem does not affect all requests.
    fn of_all(error: &ApiError) -> Option<Self> {
        match error {
            ApiError::Unreachable(_) | ApiError::TimedOut { .. } => Some(Self::Away),
            ApiError::GateClosed(_) => None,
            ApiError::Refused(refusal) => match refusal.code {
                401 => Some(Self::Unauthorized),
                502 | 503 => Some(Self::Away),
                _ => None,
            },
        }
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Away => "The API server cannot be reached",
            Self::Unauthorized => "The API server does not accept the credentials of this scheduler",
            Self::Forbidden => "The API server denies this scheduler permissions that it needs",
        })
    }
}

/// Returns true if [`Reachability`] logs this error.
pub(crate) fn is_logged(error: &ApiError) -> bool {
    Trouble::of_all(error).is_some() || error.code() == Some(403)
}

impl Reachability {
    /// Returns the initial state for the given server address.
    pub(crate) fn of(server: String) -> Self {
        Self(Arc::new(Inner { server, ..Inner::default() }))
    }

    /// Records the outcome of a request.
    pub(crate) fn note<T>(&self, outcome: &Result<T, ApiError>) {
        let now = Instant::now();
        let server = self.0.server.as_str();
        let trouble = outcome.as_ref().err().and_then(|error| Some((Trouble::of_all(error)?, error)));
        if outcome.is_ok() {
            self.0.recovery.found();
        }
        let Some((trouble, error)) = trouble else {
            if let Some(lasted) = self.lock().answered(now) {
                tracing::info!(v = 0, server, after = ?whole_seconds(lasted), "The API server answers again");
            }
            return;
        };
        let silence = match error {
            ApiError::TimedOut { limit, .. } => Some(*limit),
            _ => None,
        };
        let mut state = self.lock();
        if silence.is_some_and(|silence| state.answered_within(silence, now)) {
            return;
        }
        if trouble == Trouble::Away {
            self.0.recovery.lost();
        }
        let due = state.troubled(trouble, now);
        drop(state);
        if let Some(lasts) = due {
            let (err, hint) = (error.to_string(), hint(error));
            tracing::error!(server, err, hint, lasts = ?whole_seconds(lasts), "{trouble}");
        }
    }

    /// Returns whether the server is away, and what waits for it.
    pub(crate) fn recovery(&self) -> &Recovery {
        &self.0.recovery
    }

    /// Returns the address of the server.
    pub(crate) fn server(&self) -> &str {
        &self.0.server
    }

    /// Records that the server refused access to `kind`.
    pub(crate) fn forbidden(&self, kind: &str, why: &str) {
        let due = self.lock().forbidden(kind, why, Instant::now());
        if let Some(kinds) = due {
            let hint = hint_of_forbidden(&kinds);
            tracing::error!(server = self.0.server, kinds, err = why, hint, "{}", Trouble::Forbidden);
        }
    }

    /// Records that the server allowed access to `kind`.
    pub(crate) fn allowed(&self, kind: &str) {
        if self.lock().allowed(kind) {
            tracing::info!(
                v = 0,
                server = self.0.server,
                "The API server now grants this scheduler all permissions that it needs"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Returns true if a request was answered during the last `silence`. If so, there is no outage, although another
    /// request has waited in vain for that long.
    fn answered_within(&self, silence: Duration, now: Instant) -> bool {
        self.answered.is_some_and(|at| now - at < silence)
    }

    /// Returns the duration of the outage so far if a log line about the outage is due.
    fn troubled(&mut self, trouble: Trouble, now: Instant) -> Option<Duration> {
        let due = self.is_due(trouble, now);
        let outage = self.outage.get_or_insert(Outage { since: now, logged: false });
        outage.logged |= due;
        due.then(|| now - outage.since)
    }

    /// Records that the server has answered. Returns the duration of the outage if there was one and it was logged.
    fn answered(&mut self, now: Instant) -> Option<Duration> {
        self.answered = Some(now);
        let outage = self.outage.take()?;
        outage.logged.then(|| now - outage.since)
    }

    /// Returns the kinds that the client may not read, if a log line about them is due.
    fn forbidden(&mut self, kind: &str, why: &str, now: Instant) -> Option<String> {
        self.forbidden.insert(kind.to_owned(), why.to_owned());
        let due = self.is_due(Trouble::Forbidden, now);
        due.then(|| self.forbidden.keys().map(String::as_str).collect::<Vec<_>>().join(", "))
    }

    /// Returns true if the client may read everything now but could not before.
    fn allowed(&mut self, kind: &str) -> bool {
        self.forbidden.remove(kind).is_some() && self.forbidden.is_empty()
    }

    fn is_due(&mut self, trouble: Trouble, now: Instant) -> bool {
        let logged = &mut self.logged[trouble as usize];
        let due = logged.is_none_or(|at| now - at >= REMINDER);
        if due {
            *logged = Some(now);
        }
        due
    }
}

fn whole_seconds(duration: Duration) -> Duration {
    Duration::from_secs(duration.as_secs())
}

/// Returns advice about kinds that the client may not read.
fn hint_of_forbidden(kinds: &str) -> &'static str {
    // Kinds whose names contain a group are custom resources.
    match kinds.contains('.') {
        true => {
            "give this scheduler's user a role that may list and watch these kinds; the role system:kube-scheduler \
             covers no custom resources"
        }
        false => {
            "give this scheduler's user the role system:kube-scheduler, or a role with the same permissions"
        }
    }
}

/// Returns advice about an error.
fn hint(error: &ApiError) -> &'static str {
    if error.code() == Some(401) {
        return "check the token or the client certificate in the kubeconfig";
    }
    let text = error.to_string();
    let has = |part: &str| text.contains(part);
    if has("invalid peer certificate") {
        "check certificate-authority and tls-server-name in the kubeconfig: they must match the server's certificate"
    } else if has("dns error") {
        "check the server's name in the kubeconfig or --master"
    } else if has("refused") {
        "check that the server is running, and check its address in the kubeconfig or --master"
    } else {
        "the request will be retried"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(begun: Instant, seconds: u64) -> Instant {
        begun + Duration::from_secs(seconds)
    }

    #[test]
    fn an_outage_is_logged_at_its_beginning_then_periodically_and_at_its_end() {
        let (mut state, begun) = (State::default(), Instant::now());
        let mut told = Vec::new();
        // Nine clients send one request per second each.
        for second in 0..70 {
            for _ in 0..9 {
                told.extend(state.troubled(Trouble::Away, at(begun, second)).map(|d| d.as_secs()));
            }
        }
        assert_eq!(told, [0, 30, 60]);
        assert_eq!(state.answered(at(begun, 70)), Some(Duration::from_secs(70)));
        assert_eq!(state.answered(at(begun, 71)), None);
    }

    #[test]
    fn the_end_of_an_outage_that_was_not_logged_is_not_logged_either() {
        let (mut state, begun) = (State::default(), Instant::now());
        assert!(state.troubled(Trouble::Away, begun).is_some());
        assert!(state.answered(at(begun, 1)).is_some());
        assert_eq!(state.troubled(Trouble::Away, at(begun, 2)), None);
        assert_eq!(state.answered(at(begun, 3)), None);
    }

    #[test]
    fn a_server_that_is_back_but_refuses_the_credentials_is_logged_immediately() {
        let (mut state, begun) = (State::default(), Instant::now());
        assert!(state.troubled(Trouble::Away, begun).is_some());
        assert_eq!(state.troubled(Trouble::Unauthorized, at(begun, 5)), Some(Duration::from_secs(5)));
        assert!(state.answered(at(begun, 6)).is_some());
    }

    #[test]
    fn one_slow_request_is_not_an_outage_while_others_are_answered() {
        let (mut state, begun) = (State::default(), Instant::now());
        let limit = Duration::from_secs(30);
        state.answered(at(begun, 10));
        assert!(state.answered_within(limit, at(begun, 30)));
        assert!(!state.answered_within(limit, at(begun, 50)));
    }

    #[test]
    fn all_forbidden_kinds_are_logged_together() {
        let (mut state, begun) = (State::default(), Instant::now());
        assert_eq!(state.forbidden("pods", "no", begun), Some("pods".to_owned()));
        assert_eq!(state.forbidden("nodes", "no", begun), None);
        assert_eq!(state.answered(begun), None, "other requests may still be answered");
        assert_eq!(state.forbidden("nodes", "no", at(begun, 31)), Some("nodes, pods".to_owned()));
        assert!(!state.allowed("services") && !state.allowed("pods") && state.allowed("nodes"));
    }

    #[test]
    fn custom_resources_need_a_separate_role() {
        assert!(hint_of_forbidden("pods, teams.example.com").contains("list and watch"));
        assert!(hint_of_forbidden("nodes, pods").contains("the role system:kube-scheduler"));
    }

    #[test]
    fn common_causes_come_with_advice() {
        for (cause, part) in [
            ("tcp connect error: Connection refused (os error 111)", "that the server is running"),
            ("dns error: failed to lookup address information", "server's name"),
            ("invalid peer certificate: UnknownIssuer", "certificate-authority"),
        ] {
            let hint = hint(&ApiError::Unreachable(cause.into()));
            assert!(hint.contains(part), "{hint}");
        }
    }
}
