//! An extender: the functions that serve verbs, and the paths of the verbs.

use std::{collections::BTreeMap, fmt, future::Future, pin::Pin, process::ExitCode, sync::Arc};

use axum::body::Bytes;
use serde::Serialize;

use crate::{
    Error,
    ask::{Ask, Filtered, Scores},
    binding::Binding,
    metrics::Metrics,
    preemption::{Preempted, Preemption},
    program,
    wire::{self, ExtenderBindingResult, ExtenderFilterResult},
};

/// A type of request that schedulers send to extenders. `filterVerb`, `prioritizeVerb`, `preemptVerb` and `bindVerb` in
/// the scheduler's configuration enable verbs and set their paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verb {
    /// Filter: which of these nodes fit?
    Filter,
    /// Prioritize: how good is each of these nodes?
    Prioritize,
    /// Preempt: may these pods be evicted in favor of the preemptor?
    Preempt,
    /// Bind: bind this pod.
    Bind,
}

impl Verb {
    /// Returns the verb's name, which is also its default path; see [`Extender::path`].
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Prioritize => "prioritize",
            Self::Preempt => "preempt",
            Self::Bind => "bind",
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Outcome of a request whose body was received.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// The answer, as JSON.
    Answer(Vec<u8>),
    /// An answer that contains an error, and the error itself.
    Failed(Vec<u8>, Error),
    /// An error for which the protocol has no field.
    Broken(Error),
    /// The request cannot be read.
    Malformed(String),
}

type Answering = Pin<Box<dyn Future<Output = Outcome> + Send>>;
type Handler = Arc<dyn Fn(Bytes) -> Answering + Send + Sync>;
type Check = Arc<dyn Fn() -> Result<(), String> + Send + Sync>;

/// The functions that serve verbs. Verbs without a function are not served.
///
/// A function may be called for several pods at the same time. It can capture shared state, for example in an `Arc`:
/// `extender.filter({ let me = me.clone(); move |ask| me.clone().filter(ask) })`.
#[derive(Clone, Default)]
pub struct Extender {
    pub(crate) prefix: String,
    pub(crate) handlers: BTreeMap<Verb, Handler>,
    paths: BTreeMap<Verb, String>,
    pub(crate) ready: Option<Check>,
    pub(crate) metrics: Metrics,
}

impl fmt::Debug for Extender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let paths: Vec<_> = self.handlers.keys().map(|verb| self.path_of(*verb)).collect();
        f.debug_struct("Extender").field("paths", &paths).finish_non_exhaustive()
    }
}

impl Extender {
    /// Returns an extender without verbs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Serves `filter`: which of these nodes fit?
    pub fn filter<F, Fut>(self, answer: F) -> Self
    where
        F: Fn(Ask) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Filtered, Error>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        self.verb(Verb::Filter, move |body| {
            let answer = answer.clone();
            async move {
                let ask = match read(body, Ask::new) {
                    Ok(ask) => ask,
                    Err(why) => return Outcome::Malformed(format!("the request is not ExtenderArgs: {why}")),
                };
                let answered = answer(ask.clone()).await.and_then(|filtered| ask.answer(filtered));
                match answered {
                    Ok(result) => Outcome::answer(&result),
                    Err(error) => {
                        let result = ExtenderFilterResult { error: error.to_string(), ..Default::default() };
                        Outcome::failed(&result, error)
                    }
                }
            }
        })
    }

    /// Serves `prioritize`: how good is each of these nodes?
    pub fn prioritize<F, Fut>(self, answer: F) -> Self
    where
        F: Fn(Ask) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Scores, Error>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        self.verb(Verb::Prioritize, move |body| {
            let answer = answer.clone();
            async move {
                let ask = match read(body, Ask::new) {
                    Ok(ask) => ask,
                    Err(why) => return Outcome::Malformed(format!("the request is not ExtenderArgs: {why}")),
                };
                match answer(ask).await {
                    Ok(scores) => Outcome::answer(&scores.answer()),
                    Err(error) => Outcome::Broken(error),
                }
            }
        })
    }

    /// Serves `preempt`: may these pods be evicted in favor of the preemptor?
    pub fn preempt<F, Fut>(self, answer: F) -> Self
    where
        F: Fn(Preemption) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<Preempted, Error>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        self.verb(Verb::Preempt, move |body| {
            let answer = answer.clone();
            async move {
                let ask = match read(body, Preemption::new) {
                    Ok(ask) => ask,
                    Err(why) => {
                        return Outcome::Malformed(format!(
                            "the request is not ExtenderPreemptionArgs: {why}"
                        ));
                    }
                };
                match answer(ask).await {
                    Ok(preempted) => Outcome::answer(&preempted.answer()),
                    Err(error) => Outcome::Broken(error),
                }
            }
        })
    }

    /// Serves `bind`: bind this pod. At most one extender of a scheduler may serve `bind`.
    pub fn bind<F, Fut>(self, answer: F) -> Self
    where
        F: Fn(Binding) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Error>> + Send + 'static,
    {
        let answer = Arc::new(answer);
        self.verb(Verb::Bind, move |body| {
            let answer = answer.clone();
            async move {
                let binding = match read(body, Binding::new) {
                    Ok(binding) => binding,
                    Err(why) => {
                        return Outcome::Malformed(format!("the request is not ExtenderBindingArgs: {why}"));
                    }
                };
                match answer(binding).await {
                    Ok(()) => Outcome::answer(&ExtenderBindingResult::default()),
                    Err(error) => {
                        let result = ExtenderBindingResult { error: error.to_string() };
                        Outcome::failed(&result, error)
                    }
                }
            }
        })
    }

    /// Serves all verbs under a path prefix, for example `/scheduler`: the path in the scheduler's `urlPrefix`. The
    /// default is the root.
    pub fn prefix(mut self, prefix: &str) -> Self {
        self.prefix = match prefix.trim_matches('/') {
            "" => String::new(),
            inner => format!("/{inner}"),
        };
        self
    }

    /// Serves a verb under a different name, for example the one in `preemptVerb`.
    pub fn path(mut self, verb: Verb, name: &str) -> Self {
        self.paths.insert(verb, name.trim_matches('/').to_owned());
        self
    }

    /// Sets the check that `/readyz` makes, in place of any earlier check. While the check returns an error, a Service
    /// sends no requests to this extender.
    pub fn ready(mut self, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> Self {
        self.ready = Some(Arc::new(check));
        self
    }

    /// Returns the registry for additional metrics, which are served together with the request metrics.
    pub fn registry(&self) -> &prometheus::Registry {
        self.metrics.registry()
    }

    /// Runs the extender as a program: reads the flags of [`Serving`](crate::Serving), logs to stderr, and serves until
    /// a stop signal arrives.
    pub fn main(self) -> ExitCode {
        program::main(self)
    }

    /// Returns the path of a verb.
    pub(crate) fn path_of(&self, verb: Verb) -> String {
        let name = self.paths.get(&verb).map_or(verb.as_str(), String::as_str);
        format!("{}/{name}", self.prefix)
    }

    fn verb<Fut>(mut self, verb: Verb, handler: impl Fn(Bytes) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = Outcome> + Send + 'static,
    {
        self.handlers.insert(verb, Arc::new(move |body| Box::pin(handler(body))));
        self
    }
}

impl Outcome {
    fn answer(result: &impl Serialize) -> Self {
        match serde_json::to_vec(result) {
            Ok(text) => Self::Answer(text),
            Err(error) => Self::Broken(error.into()),
        }
    }

    fn failed(result: &impl Serialize, error: Error) -> Self {
        match serde_json::to_vec(result) {
            Ok(text) => Self::Failed(text, error),
            Err(error) => Self::Broken(error.into()),
        }
    }
}

/// Decodes a request. Consumes the body, so that its memory is freed before the extender's function is called.
fn read<W, T>(body: Bytes, make: impl FnOnce(W) -> Result<T, String>) -> Result<T, String>
where
    W: for<'de> serde::Deserialize<'de>,
{
    make(wire::decode(&body)?)
}
