//! HTTP extenders.
//!
//! The engine asks extenders to filter and score nodes with an effect, and the answer is an input: other pods are
//! scheduled in the meantime. In parity, for groups and for preemption, the engine's thread waits for the answer. Requests
//! run in a separate runtime, so that time limits hold however busy this process is.
//!
//! Reading order: this file (all extenders), `connection` (one request), `wire` (requests and replies), [`raw`]
//! (the objects in requests, in the API server's JSON form), `current` (replacing the extenders).
//!
//! Invariants: no call takes much longer than the extender's `httpTimeout`; no reply makes this process panic or use
//! unbounded memory; an instance that is not the leader binds nothing.

mod connection;
pub(crate) mod current;
pub mod raw;
mod wire;

use std::{
    fmt,
    future::Future,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{self, RecvTimeoutError},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::future::join_all;
use harbormaster_api::Str;
use harbormaster_core::EngineConfig;
use harbormaster_framework::{
    extender::{Answer, Extender, ExtenderClient, Filtered, NodeVictims, OnAnswer, Question, Remark},
    pod::PodInfo,
};
use thiserror::Error;
use tokio::runtime::Runtime;

use connection::Connection;
pub use connection::ExtenderTls;
use raw::{RawObjects, RawSelection};
use wire::Form;

use crate::{health::Health, leader::Leadership};

/// Default of `httpTimeout`, as in kube-scheduler.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(5);
const NOT_FOUND: &str = "no such extender";
/// Time that the engine waits beyond the limit of a call, in case the runtime does not enforce the limit.
const GRACE: Duration = Duration::from_secs(5);

/// An `Extender` of the configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExtenderConfig {
    /// Settings that the engine uses. The extender's name is the `urlPrefix`.
    pub extender: Extender,
    /// `filterVerb`.
    pub filter_verb: String,
    /// `prioritizeVerb`.
    pub prioritize_verb: String,
    /// `preemptVerb`.
    pub preempt_verb: String,
    /// `bindVerb`; empty if the extender does not bind.
    pub bind_verb: String,
    /// `httpTimeout`; zero means [`DEFAULT_TIMEOUT`].
    pub timeout: Duration,
    /// `nodeCacheCapable`: requests contain only the names of nodes.
    pub node_cache_capable: bool,
    /// `enableHTTPS`. It does not change the URL, but if it is set and no CA is configured, certificates are not
    /// checked.
    pub enable_https: bool,
    /// `tlsConfig`.
    pub tls: Option<ExtenderTls>,
}

/// Error in the configuration of an extender.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("couldn't build extenders: extender {url:?}: {why}")]
pub struct ExtenderSetupError {
    /// The extender's `urlPrefix`.
    pub url: String,
    /// Cause.
    pub why: String,
}

/// All extenders of a configuration, in the engine's order.
pub struct HttpExtenders {
    all: Arc<[HttpExtender]>,
    raw: RawObjects,
    health: Health,
    /// Present until this value is dropped.
    runtime: Option<Runtime>,
}

struct HttpExtender {
    config: ExtenderConfig,
    connection: Arc<Connection>,
    /// True once a log line has reported an unknown node in a reply of the extender; `logged_range` is the counterpart
    /// for a score out of range.
    logged_unknown: AtomicBool,
    logged_range: AtomicBool,
}

impl HttpExtenders {
    /// Returns the extenders of a configuration, or `None` if there are none. Does not connect yet.
    ///
    /// # Errors
    /// If a certificate or key cannot be used, or no thread can be started.
    pub fn new(configs: &[ExtenderConfig], health: Health) -> Result<Option<Arc<Self>>, ExtenderSetupError> {
        Self::seeing(RawObjects::new(RawSelection::by(configs)), configs, health)
    }

    fn seeing(
        raw: RawObjects,
        configs: &[ExtenderConfig],
        health: Health,
    ) -> Result<Option<Arc<Self>>, ExtenderSetupError> {
        let Some(first) = configs.first() else { return Ok(None) };
        // rustls chooses a default crypto provider only as long as no dependency enables a second one.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let failed = |config: &ExtenderConfig, why: String| ExtenderSetupError {
            url: config.extender.name.to_string(),
            why,
        };
        let all = configs.iter().map(|config| {
            let connection = Connection::new(config).map_err(|why| failed(config, why))?;
            let (logged_unknown, logged_range) = Default::default();
            Ok(HttpExtender {
                config: config.clone(),
                connection: Arc::new(connection),
                logged_unknown,
                logged_range,
            })
        });
        let all = all.collect::<Result<Vec<HttpExtender>, ExtenderSetupError>>()?;
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("extenders")
            .enable_all()
            .build()
            .map_err(|error| failed(first, error.to_string()))?;
        let all = all.into();
        Ok(Some(Arc::new(Self { all, raw, health, runtime: Some(runtime) })))
    }

    /// Gives the engine these extenders. It asks them while it decides about other pods.
    pub(crate) fn serve(self: &Arc<Self>, engine: &mut EngineConfig) {
        engine.extenders = engine.extenders.with_client(self.clone());
        engine.concurrent_extenders = true;
    }

    /// Returns the objects that requests contain. Every input of the engine must also be applied to these objects.
    pub fn raw(&self) -> &RawObjects {
        &self.raw
    }

    /// Lets an extender bind the pod. Returns `None` if no extender binds the pod; Bind plugins must then bind it.
    pub(crate) async fn bind(
        &self,
        pod: &PodInfo,
        node: &str,
        leadership: &Leadership,
    ) -> Option<Result<(), String>> {
        let binders = self.all.iter().filter(|one| !one.config.bind_verb.is_empty());
        for one in binders.filter(|one| one.config.extender.is_interested(pod)) {
            let call = one.call(&one.config.bind_verb, wire::bind(pod, node));
            let mut call = self.runtime.as_ref()?.spawn(call);
            let reply = tokio::select! {
                biased;
                () = leadership.is_over() => {
                    call.abort();
                    return Some(Err("this instance is not the leader".to_owned()));
                }
                reply = &mut call => reply.unwrap_or_else(|error| Err(error.to_string())),
            };
            match reply.and_then(|reply| one.read(&one.config.bind_verb, wire::bound(&reply))) {
                Err(why) if one.config.extender.ignorable => one.skipped(
                    "Skipping extender in bind as it returned error and has ignorable flag set",
                    pod,
                    &why,
                ),
                done => return Some(done),
            }
        }
        None
    }

    /// Runs calls concurrently and waits for them. During that time, health checks see the engine as waiting.
    fn wait<F>(&self, calls: Vec<(Duration, F)>) -> Vec<Result<Bytes, String>>
    where
        F: Future<Output = Result<Bytes, String>> + Send + 'static,
    {
        let Some(runtime) = &self.runtime else {
            return calls.iter().map(|_| Err("stopping".to_owned())).collect();
        };
        self.health.waits();
        let begun = calls.into_iter().map(|(limit, call)| {
            let (answer, answered) = mpsc::sync_channel(1);
            runtime.spawn(async move {
                // The receiver may have stopped waiting.
                let _ = answer.send(call.await);
            });
            (limit, answered)
        });
        let begun: Vec<_> = begun.collect();
        let answers = begun.into_iter().map(|(limit, answered)| match answered.recv_timeout(limit + GRACE) {
            Ok(answer) => answer,
            Err(RecvTimeoutError::Timeout) => Err(format!("no answer within {limit:?}")),
            Err(RecvTimeoutError::Disconnected) => Err("the call was aborted".to_owned()),
        });
        let answers = answers.collect();
        self.health.works();
        answers
    }

    fn wait_for_one(&self, one: &HttpExtender, verb: &str, body: Bytes) -> Result<Bytes, String> {
        let calls = vec![(one.connection.limit(), one.call(verb, body))];
        self.wait(calls).pop().unwrap_or_else(|| Err("no answer".to_owned()))
    }

    fn question(&self, one: &HttpExtender, pod: &PodInfo, nodes: &[Str]) -> Bytes {
        one.question(&self.raw, pod, nodes)
    }
}

/// Asks extenders without blocking a thread.
async fn answer(all: &[HttpExtender], raw: &RawObjects, pod: &PodInfo, question: &Question) -> Answer {
    match question {
        Question::Filter { extender, nodes } => Answer::Filter(match all.get(*extender) {
            Some(one) => one.filter(raw, pod, nodes).await,
            None => Err(NOT_FOUND.to_owned()),
        }),
        Question::Prioritize { extenders, nodes } => {
            let scores = extenders.iter().map(async |at| match all.get(*at) {
                Some(one) => one.prioritize(raw, pod, nodes).await,
                None => Err(NOT_FOUND.to_owned()),
            });
            Answer::Prioritize(join_all(scores).await)
        }
    }
}

impl HttpExtender {
    fn form(&self) -> Form {
        if self.config.node_cache_capable { Form::Names } else { Form::Objects }
    }

    fn question(&self, raw: &RawObjects, pod: &PodInfo, nodes: &[Str]) -> Bytes {
        raw.read(|objects| wire::question(objects, pod, nodes, self.form()))
    }

    async fn filter(&self, raw: &RawObjects, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        let verb = &self.config.filter_verb;
        let reply = self.call(verb, self.question(raw, pod, nodes)).await?;
        self.read(verb, wire::filtered(&reply, self.form()))
    }

    async fn prioritize(
        &self,
        raw: &RawObjects,
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Result<Vec<(Str, i64)>, String> {
        let verb = &self.config.prioritize_verb;
        let reply = self.call(verb, self.question(raw, pod, nodes)).await?;
        self.read(verb, wire::scores(&reply))
    }

    fn call(&self, verb: &str, body: Bytes) -> impl Future<Output = Result<Bytes, String>> + Send + use<> {
        let (connection, verb) = (self.connection.clone(), verb.to_owned());
        async move { connection.call(&verb, body).await }
    }

    /// Returns the content of a reply, or an error message. If the reply cannot be decoded, the message contains the
    /// extender's name.
    fn read<T>(&self, verb: &str, read: Result<T, wire::ReplyError>) -> Result<T, String> {
        read.map_err(|wrong| match wrong {
            wire::ReplyError::Reported(why) => why,
            wire::ReplyError::Undecodable(why) => {
                format!(
                    "extender {:?} sent an invalid reply to {verb:?}: {why}",
                    self.config.extender.name.as_str()
                )
            }
        })
    }

    fn skipped(&self, what: &str, pod: &PodInfo, why: &str) {
        let (extender, pod) = (self.config.extender.name.as_str(), pod.full_name());
        tracing::info!(v = 0, extender, pod, err = why, "{what}");
    }
}

impl ExtenderClient for HttpExtenders {
    fn filter(&self, extender: usize, pod: &PodInfo, nodes: &[Str]) -> Result<Filtered, String> {
        let one = self.all.get(extender).ok_or(NOT_FOUND)?;
        let verb = &one.config.filter_verb;
        let reply = self.wait_for_one(one, verb, self.question(one, pod, nodes))?;
        one.read(verb, wire::filtered(&reply, one.form()))
    }

    fn prioritize(
        &self,
        extenders: &[usize],
        pod: &PodInfo,
        nodes: &[Str],
    ) -> Vec<Result<Vec<(Str, i64)>, String>> {
        let called: Vec<&HttpExtender> =
            extenders.iter().filter_map(|extender| self.all.get(*extender)).collect();
        let calls = called.iter().map(|one| {
            let body = self.question(one, pod, nodes);
            (one.connection.limit(), one.call(&one.config.prioritize_verb, body))
        });
        let replies = self.wait(calls.collect());
        let read = |(one, reply): (&&HttpExtender, Result<Bytes, String>)| {
            one.read(&one.config.prioritize_verb, wire::scores(&reply?))
        };
        called.iter().zip(replies).map(read).collect()
    }

    fn preempt(
        &self,
        extender: usize,
        pod: &PodInfo,
        plans: &[NodeVictims],
    ) -> Result<Vec<NodeVictims>, String> {
        let one = self.all.get(extender).ok_or(NOT_FOUND)?;
        let verb = &one.config.preempt_verb;
        let body = self.raw.read(|objects| wire::evictions(objects, pod, plans, one.form()));
        let reply = self.wait_for_one(one, verb, body)?;
        one.read(verb, wire::agreed(&reply))
    }

    fn begin(&self, pod: &Arc<PodInfo>, question: Question, done: OnAnswer) {
        let Some(runtime) = &self.runtime else {
            return done(question.failed(|_| "stopping".to_owned()));
        };
        let (all, raw, pod) = (self.all.clone(), self.raw.clone(), pod.clone());
        let asked = question.clone();
        let answer = runtime.spawn(async move { answer(&all, &raw, &pod, &asked).await });
        // Without an answer, the engine would wait forever, so there is one even after a panic.
        runtime.spawn(async move {
            let answer = answer.await;
            done(answer.unwrap_or_else(|error| question.failed(|_| error.to_string())));
        });
    }

    fn remark(&self, extender: usize, pod: &PodInfo, remark: Remark<'_>) {
        let Some(one) = self.all.get(extender) else { return };
        let (name, full_name) = (one.config.extender.name.as_str(), pod.full_name());
        match remark {
            Remark::Skipped(why) => {
                one.skipped("Skipping extender as it returned error and has ignorable flag set", pod, why);
            }
            Remark::NoScores(why) => tracing::trace!(
                v = 5,
                extender = name,
                pod = full_name,
                err = why,
                "Failed to run extender's priority function. No score given by this extender."
            ),
            Remark::NoVictims(node) => tracing::debug!(
                v = 2,
                extender = name,
                node,
                "Ignored node for which the extender didn't report victims"
            ),
            Remark::UnknownNode(node) => {
                if !one.logged_unknown.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        extender = name,
                        node,
                        "An extender returned a node that was not in its request; such nodes are ignored and not logged again"
                    );
                }
            }
            Remark::OutOfRange(score) => {
                if !one.logged_range.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        extender = name,
                        score,
                        "An extender returned a score outside of 0 to 10; such scores are used unchanged and not logged again"
                    );
                }
            }
        }
    }
}

impl fmt::Debug for HttpExtenders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.all.iter().map(|one| &one.config.extender.name)).finish()
    }
}

impl Drop for HttpExtenders {
    fn drop(&mut self) {
        // The shutdown must not wait, because this value may be dropped within another runtime.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests;
