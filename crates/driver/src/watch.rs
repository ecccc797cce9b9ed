//! Watches all objects of a kind: lists them, then watches, and starts again after problems.
//!
//! ```text
//! Unlisted ──list, or a stream that begins with all objects──> Listed, Watching
//! Listed ──watch──> Watching ──closed, broken──> Listed
//!                      └──410 Gone, garbage──> Unlisted     (problems lead through Resting, except the first 410)
//! ```
//!
//! A rest lasts as long as `Backoff::for_watches` specifies, or as long as the server requests if that is longer. If
//! the server does not serve a kind that may be missing, `UNSERVED` limits the rest instead.
//!
//! A connection can die silently. Over HTTP/2, the client pings the connection, and an unanswered ping breaks the
//! watch. HTTP/1.1 has no pings, so the watcher requests short watches: if a watch does not end in time, its connection
//! is dead. When a watch ends as requested, the next watch continues on the same connection, which costs one small
//! request. For a watch that begins with a list of all objects, the watcher requests a long duration, since the list
//! may take a long time; over HTTP/1.1, the watcher leaves such a watch soon after the list and opens another.
//!
//! The engine gets an input when something that is decoded has changed in an object, and when an object was deleted or is
//! missing from a later list. See "Efficient detection of changes" in Kubernetes' API concepts, and KEP-3157 (streaming lists).

pub(crate) mod census;
mod events;
mod kinds;
mod known;
mod wire;

#[cfg(test)]
mod tests;

use std::{
    pin::Pin,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use harbormaster_api::{
    Str,
    wire::{Decoder, Encoded},
};
use harbormaster_client::{ApiClient, ApiError, Backoff, Jitter, Stream, connections::ConnectionSet};
use harbormaster_core::Input;
use tokio::time::{Instant, Sleep, sleep, sleep_until, timeout};

pub use kinds::{BUILT_IN, BuiltInKind, CustomKind, Decoded, Kind, Nodes, Pods};
pub use known::Known;

use crate::{
    extenders::raw::{RawObject, RawSelection},
    live_api::{CustomFeed, CustomNews},
    message::{EngineMessage, ToEngine},
    pace::Pace,
    watch::{
        events::Events,
        wire::{Event, EventType, Page, Stub},
    },
};

/// Number of objects per page of a list, as in client-go. From a streaming list, the engine gets at least as many at a
/// time, except the last ones.
const PAGE: usize = 500;
/// Time limit for a list without pages, which can be hundreds of megabytes long.
const WHOLE_LIST_LIMIT: Duration = Duration::from_secs(300);
/// Minimum and maximum duration that is requested for a watch, and the time after the requested end at which a watch
/// that is still open is considered dead.
const LONG: (Duration, Duration, Duration) =
    (Duration::from_secs(300), Duration::from_secs(600), Duration::from_secs(30));
/// The same durations for a connection without pings.
const SHORT: (Duration, Duration, Duration) =
    (Duration::from_secs(18), Duration::from_secs(25), Duration::from_secs(10));
/// Time limit for the start of the response to a list request; the server may have to prepare the list first.
const LIST_OPEN_LIMIT: Duration = Duration::from_secs(30);
/// Time limit for the start of the response to a watch request.
const OPEN_LIMIT: Duration = Duration::from_secs(15);
/// Longest time for which an incomplete streaming list may be silent.
const STREAM_SILENCE: Duration = Duration::from_secs(30);
/// A watch that lasts at least this long is not a failure, however it ends.
const GOOD_WATCH: Duration = Duration::from_secs(10);
/// A watch that ends sooner than this without an event is a failure.
const SHORT_WATCH: Duration = Duration::from_secs(1);
/// Part of the log messages about dead connections.
const ANEW: &str = "new connections to the API server will be made";
/// Minimum and maximum delay before a kind that the server does not serve is requested again. Within these bounds, the
/// delay is a quarter of the time since the first request: in the beginning, the kind may be about to be defined.
/// Jitter then shortens the delay by up to half.
const UNSERVED: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(4));
/// Number of refused watches in a row after which all objects are listed again, since a server that was restored from a
/// backup may not have the requested version.
const REFUSED_WATCHES: u32 = 5;

/// Switch for streaming lists, shared by all watchers of a process. It is turned off when the server refuses a
/// streaming list.
#[derive(Clone, Debug)]
pub struct StreamingLists(Arc<AtomicBool>);

impl Default for StreamingLists {
    fn default() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }
}

impl StreamingLists {
    fn wanted(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    fn give_up(&self, kind: &str, why: &str) {
        self.0.store(false, Ordering::Relaxed);
        tracing::info!(
            v = 0,
            kind,
            err = why,
            "The watchlist request ended with an error, falling back to the standard LIST/WATCH"
        );
    }
}

/// State of a watcher.
#[derive(Debug)]
enum State {
    /// Needs a list of all objects.
    Unlisted,
    /// Needs a watch that continues from this version.
    Listed { version: Str },
    /// Waits for the next event.
    Watching { version: Str, watch: Watch },
    /// Waits for some time.
    Resting { delay: Duration, then: Box<State> },
}

/// An open watch.
#[derive(Debug)]
struct Watch {
    events: Events,
    /// True if the watch ends when its connection dies.
    is_probed: bool,
    connections: Weak<ConnectionSet>,
    opened: Instant,
    /// Resolves when the watcher leaves the watch. It is started only once, because starting a timer for each event
    /// would cost more than most events do.
    until: Pin<Box<Sleep>>,
    /// True if the watch is dead at `until`, because the server should have ended it earlier.
    dead_then: bool,
    any_event: bool,
}

impl Watch {
    /// Returns a watch that the server should end after `time`.
    fn new(stream: Stream, time: Duration, grace: Duration) -> Self {
        let Stream { body, is_probed, is_protobuf, connections } = stream;
        let opened = Instant::now();
        Self {
            events: Events::new(body, is_protobuf),
            is_probed,
            connections,
            opened,
            until: Box::pin(sleep_until(opened + time + grace)),
            dead_then: true,
            any_event: false,
        }
    }

    /// Makes the watcher leave the watch `time` from now.
    fn left_after(self, time: Duration) -> Self {
        Self { until: Box::pin(sleep(time)), dead_then: false, ..self }
    }
}

/// Reason for the end of a list or a watch.
#[derive(Debug)]
enum Trouble {
    /// The server does not serve this kind, at least not yet.
    NotServed(String),
    /// A temporary problem. `logged` is true if the client logs the problem, either at once or if it persists.
    Passing { why: String, retry_after: Option<Duration>, logged: bool },
    /// The version is too old; a new list is needed.
    Expired(String),
    /// The server does not support streaming lists.
    NoStreaming(String),
    /// The data is invalid; a new list is needed to find what was missed.
    Garbage(String),
}

impl From<ApiError> for Trouble {
    fn from(error: ApiError) -> Self {
        match error.code() {
            Some(404) => Self::NotServed(error.to_string()),
            Some(410) => Self::Expired(error.to_string()),
            _ => Self::Passing {
                retry_after: error.retry_after(),
                why: error.to_string(),
                logged: error.is_logged_by_client(),
            },
        }
    }
}

/// Content of one event of a watch.
enum Told {
    /// An object, with its version.
    Object(Str),
    /// A version; `initial_end` is true if the bookmark ends the initial events of a streaming list.
    Bookmark { version: Str, initial_end: bool },
}

/// Keeps the engine informed about all objects of a kind.
pub struct Watcher<K: Kind> {
    kind: K,
    client: ApiClient,
    engine: ToEngine,
    streaming: StreamingLists,
    decoder: Decoder,
    /// The objects that have been passed to the engine.
    known: Known<K::Key>,
    inputs: Vec<Input>,
    /// Selection of the objects that are also passed on in their original form.
    wanted: RawSelection,
    raw: Vec<RawObject>,
    /// Feed to which changes to custom objects are published.
    feed: Option<CustomFeed>,
    /// Rests of the thread, which a list prevents.
    pace: Pace,
    /// Highest version among the objects in `inputs`, if versions are numbers.
    newest: u64,
    backoff: Backoff,
    jitter: Jitter,
    refused_watches: u32,
    /// True if all objects were listed again because a version was too old, and no watch has succeeded since.
    relisted: bool,
    broken_streams: u32,
    /// True if the last watch was on a connection with pings.
    is_probed: bool,
    /// True if a continue token expired between two pages, so the next list is requested without pages.
    whole_list: bool,
    synced: bool,
    /// Time when the server was first found not to serve this kind; `None` while it serves the kind.
    unserved: Option<Instant>,
}

/// The engine has ended, so there is no reason to watch.
struct EngineGone;

impl<K: Kind> Watcher<K> {
    /// Returns a watcher.
    pub fn new(kind: K, client: ApiClient, streaming: StreamingLists, engine: ToEngine) -> Self {
        let mut watcher = Self {
            kind,
            client,
            engine,
            streaming,
            decoder: Decoder::new(),
            known: Known::default(),
            inputs: Vec::new(),
            wanted: RawSelection::default(),
            raw: Vec::new(),
            feed: None,
            pace: Pace::default(),
            newest: 0,
            backoff: Backoff::for_watches(),
            jitter: Jitter::default(),
            refused_watches: 0,
            relisted: false,
            broken_streams: 0,
            is_probed: false,
            whole_list: false,
            synced: false,
            unserved: None,
        };
        watcher.choose_encoding();
        watcher
    }

    /// Requests the objects in protobuf, if they can be decoded from it, or else in JSON.
    fn choose_encoding(&mut self) {
        self.client = match self.wanted == RawSelection::default() && self.kind.accepts_protobuf() {
            true => self.client.accepting_protobuf(),
            false => self.client.accepting_json(),
        };
    }

    /// See [`Kind::try_older`].
    fn try_older(&mut self) -> bool {
        let is_left = self.kind.try_older();
        self.choose_encoding();
        is_left
    }

    /// Makes the watcher also pass selected objects on in their original form, which is JSON.
    #[must_use]
    pub fn handing_on(mut self, wanted: RawSelection) -> Self {
        if wanted != RawSelection::default() {
            self.known.need_versions();
        }
        self.wanted = wanted;
        self.choose_encoding();
        self
    }

    /// Makes the watcher publish changes to custom objects to `feed`.
    #[must_use]
    pub fn publishing_to(self, feed: CustomFeed) -> Self {
        Self { feed: Some(feed), ..self }
    }

    /// Makes lists prevent the rests of the thread.
    #[must_use]
    pub fn paced_by(self, pace: &Pace) -> Self {
        Self { pace: pace.clone(), ..self }
    }

    /// Watches until the engine has ended.
    pub async fn run(mut self) {
        let mut state = State::Unlisted;
        while let Ok(next) = self.step(state).await {
            state = next;
        }
    }

    async fn step(&mut self, state: State) -> Result<State, EngineGone> {
        match state {
            State::Resting { delay, then } => {
                if self.client.rest(delay).await {
                    self.backoff.reset();
                }
                Ok(*then)
            }
            State::Unlisted => self.unlisted().await,
            State::Listed { version } => Ok(self.listed(version).await),
            State::Watching { version, watch } => self.watching(version, watch).await,
        }
    }

    // --- the states ---

    async fn unlisted(&mut self) -> Result<State, EngineGone> {
        let _hurry = self.pace.hurry();
        self.known.begin_list();
        let outcome = match self.streaming.wanted() {
            true => self.list_by_stream().await,
            false => self.list_by_pages().await,
        };
        let next = match outcome {
            Ok(next) => {
                self.finish_list()?;
                self.log_served();
                next
            }
            Err(Trouble::NoStreaming(why)) => {
                self.streaming.give_up(self.kind.name(), &why);
                State::Unlisted
            }
            Err(Trouble::NotServed(_)) if self.try_older() => State::Unlisted,
            Err(Trouble::NotServed(why)) if self.kind.may_be_missing() => self.missing(&why)?,
            Err(Trouble::NotServed(why)) => self.rest("Failed to list", &why, None, State::Unlisted),
            Err(Trouble::Expired(why)) => {
                self.whole_list = true;
                self.rest("Failed to list", &why, None, State::Unlisted)
            }
            Err(Trouble::Passing { why, retry_after, logged }) => {
                self.rest_quietly(logged, "Failed to list", &why, retry_after, State::Unlisted)
            }
            Err(Trouble::Garbage(why)) => self.rest("Failed to list", &why, None, State::Unlisted),
        };
        // Objects that were listed before a failure are valid.
        self.flush_part()?;
        Ok(next)
    }

    /// Handles a kind that the server does not serve. The kind is treated as fully delivered; its known objects are
    /// removed only if the kind may vanish.
    fn missing(&mut self, why: &str) -> Result<State, EngineGone> {
        let since = self.unserved.map(|since| since.elapsed());
        if since.is_none() {
            self.unserved = Some(Instant::now());
            let kind = self.kind.name();
            tracing::warn!(
                kind,
                err = why,
                "The API server does not serve this kind: it counts as empty and is requested again periodically"
            );
        }
        if self.kind.may_vanish() {
            self.known.begin_list();
            self.finish_list()?;
        }
        self.report_synced()?;
        self.backoff.reset();
        let delay = (since.unwrap_or_default() / 4).clamp(UNSERVED.0, UNSERVED.1);
        let delay = self.jitter.between(delay / 2, delay);
        Ok(State::Resting { delay, then: Box::new(State::Unlisted) })
    }

    /// Logs that the server now serves the kind, or that it serves an older version only.
    fn log_served(&mut self) {
        let older = self.kind.note_served();
        let kind = self.kind.name();
        if self.unserved.take().is_some() {
            tracing::info!(v = 0, kind, "The API server now serves this kind");
        }
        if let Some(version) = older {
            tracing::info!(v = 0, kind, version, "The API server serves only an older version of this kind");
        }
    }

    async fn listed(&mut self, version: Str) -> State {
        let (least, most, grace) = if self.is_probed { LONG } else { SHORT };
        let time = self.jitter.between(least, most);
        let path = self.watch_path(&[("resourceVersion", &version)], time);
        match self.open(&path, OPEN_LIMIT).await {
            Ok(stream) => {
                self.refused_watches = 0;
                State::Watching { version, watch: Watch::new(stream, time, grace) }
            }
            Err(error) => {
                self.refused_watches += u32::from(error.code().is_some_and(|code| code != 429));
                let lost = self.refused_watches >= REFUSED_WATCHES;
                self.after(error.into(), if lost { State::Unlisted } else { State::Listed { version } })
            }
        }
    }

    async fn watching(&mut self, mut version: Str, mut watch: Watch) -> Result<State, EngineGone> {
        let next = tokio::select! {
            biased;
            next = watch.events.next() => Some(next),
            () = &mut watch.until => None,
        };
        let events = match next {
            Some(Ok(Some(events))) => events,
            Some(Ok(None)) => return Ok(self.closed(version, &watch)),
            Some(Err(why)) => return Ok(self.broken(why, version, &watch)),
            None => {
                // Abandon this watch's set of connections, unless another watch has already done so.
                if self.client.give_up_connections(&watch.connections) && watch.dead_then {
                    tracing::warn!(kind = self.kind.name(), "A watch is dead: {ANEW}");
                }
                return Ok(State::Listed { version });
            }
        };
        for event in events {
            match self.take(&event, watch.events.is_protobuf()) {
                Ok(Told::Object(at) | Told::Bookmark { version: at, .. }) => {
                    watch.any_event = true;
                    if !at.is_empty() {
                        version = at;
                    }
                }
                Err(trouble) => {
                    self.flush()?;
                    return Ok(self.after(trouble, State::Listed { version }));
                }
            }
        }
        self.went_well();
        self.flush()?;
        Ok(State::Watching { version, watch })
    }

    /// Records a success: resets the backoff, and allows another immediate list after an expired version.
    fn went_well(&mut self) {
        self.backoff.reset();
        self.relisted = false;
    }

    fn closed(&mut self, version: Str, watch: &Watch) -> State {
        if !watch.any_event && watch.opened.elapsed() < SHORT_WATCH {
            let why = "very short watch: unexpected watch close, watch lasted less than a second and no items received";
            return self.rest("Watch failed", why, None, State::Listed { version });
        }
        tracing::trace!(v = 4, kind = self.kind.name(), "Watch close");
        self.went_well();
        State::Listed { version }
    }

    /// Handles a watch that broke, for example because a ping was not answered.
    fn broken(&mut self, why: String, version: Str, watch: &Watch) -> State {
        if watch.is_probed && self.client.give_up_connections(&watch.connections) {
            tracing::warn!(kind = self.kind.name(), err = why, "A watch has broken: {ANEW}");
        }
        if watch.opened.elapsed() >= GOOD_WATCH {
            self.went_well();
        }
        // If the server is unreachable, the client logs the outage when the next request fails.
        let trouble = Trouble::Passing { why, retry_after: None, logged: true };
        self.after(trouble, State::Listed { version })
    }

    /// Returns the state after a problem. If trying again is enough, this is a pause, followed by `retry`.
    fn after(&mut self, trouble: Trouble, retry: State) -> State {
        match trouble {
            Trouble::Passing { why, retry_after, logged } => {
                self.rest_quietly(logged, "Failed to watch", &why, retry_after, retry)
            }
            // A list shows whether the server really does not serve the kind.
            Trouble::NotServed(_) if self.kind.may_be_missing() => {
                State::Resting { delay: self.backoff.delay(), then: Box::new(State::Unlisted) }
            }
            Trouble::NotServed(why) => self.rest("Failed to watch", &why, None, retry),
            Trouble::Expired(why) => {
                tracing::debug!(
                    v = 1,
                    kind = self.kind.name(),
                    err = why,
                    "watch closed with: too old resource version"
                );
                // The server is working, so list immediately, unless a new list has already failed to help.
                match std::mem::replace(&mut self.relisted, true) {
                    false => State::Unlisted,
                    true => State::Resting { delay: self.backoff.delay(), then: Box::new(State::Unlisted) },
                }
            }
            Trouble::Garbage(why) | Trouble::NoStreaming(why) => {
                self.rest("Failed to watch", &why, None, State::Unlisted)
            }
        }
    }

    fn rest(&mut self, what: &str, why: &str, retry_after: Option<Duration>, then: State) -> State {
        self.rest_quietly(false, what, why, retry_after, then)
    }

    fn rest_quietly(
        &mut self,
        logged: bool,
        what: &str,
        why: &str,
        retry_after: Option<Duration>,
        then: State,
    ) -> State {
        let delay = self.backoff.delay().max(retry_after.unwrap_or_default());
        let kind = self.kind.name();
        match logged {
            true => tracing::debug!(v = 2, kind, err = why, retry_in = ?delay, "{what}"),
            false => tracing::error!(kind, err = why, retry_in = ?delay, "{what}"),
        }
        State::Resting { delay, then: Box::new(then) }
    }

    // --- lists ---

    /// Lists objects with a watch that begins with all objects and marks the end of that list (KEP-3157).
    async fn list_by_stream(&mut self) -> Result<State, Trouble> {
        // The watch begins with the list, which may take a long time.
        let (least, most, grace) = LONG;
        let time = self.jitter.between(least, most);
        let path =
            self.watch_path(&[("sendInitialEvents", "true"), ("resourceVersionMatch", "NotOlderThan")], time);
        let stream = self.open(&path, LIST_OPEN_LIMIT).await.map_err(no_streaming)?;
        let mut watch = Watch::new(stream, time, grace);
        loop {
            let events = match timeout(STREAM_SILENCE, watch.events.next()).await {
                Ok(Ok(Some(events))) => events,
                Ok(Ok(None)) => return Err(self.stream_broke("it was closed before its end")),
                Ok(Err(why)) => return Err(self.stream_broke(&why)),
                Err(_) => {
                    self.client.give_up_connections(&watch.connections);
                    return Err(Trouble::NoStreaming("it did not end".into()));
                }
            };
            let mut end = None;
            for event in events {
                match self.take(&event, watch.events.is_protobuf())? {
                    Told::Bookmark { version, initial_end: true } => end = Some(version),
                    // These events follow the end of the list, but arrived in the same chunk.
                    Told::Object(version) | Told::Bookmark { version, .. } if end.is_some() => {
                        end = Some(version);
                    }
                    Told::Object(_) | Told::Bookmark { .. } => {}
                }
            }
            // The engine processes these objects while the next ones arrive, and nothing keeps the whole list in memory.
            if self.inputs.len() >= PAGE && self.flush_part().is_err() {
                return Ok(State::Unlisted);
            }
            if let Some(version) = end {
                self.broken_streams = 0;
                if !watch.is_probed {
                    watch = watch.left_after(self.jitter.between(SHORT.0, SHORT.1));
                }
                return Ok(State::Watching { version, watch });
            }
        }
    }

    fn stream_broke(&mut self, why: &str) -> Trouble {
        self.broken_streams += 1;
        if self.broken_streams >= 3 {
            return Trouble::NoStreaming(why.to_owned());
        }
        Trouble::Passing { why: format!("streaming list: {why}"), retry_after: None, logged: false }
    }

    async fn list_by_pages(&mut self) -> Result<State, Trouble> {
        let mut token = String::new();
        loop {
            let body = match self.whole_list {
                true => self.client.get_within(&self.list_path(&[]), WHOLE_LIST_LIMIT).await,
                false => {
                    let limit = PAGE.to_string();
                    self.client.get(&self.list_path(&[("limit", &limit), ("continue", &token)])).await
                }
            };
            self.log_permission(&body);
            let body = match body {
                // The continue token expired between two pages.
                Err(error) if error.code() == Some(410) && !token.is_empty() => {
                    self.whole_list = true;
                    token.clear();
                    continue;
                }
                body => body?,
            };
            let page =
                Page::read(&body).map_err(|why| Trouble::Garbage(format!("undecodable list: {why}")))?;
            for item in &page.items {
                self.present(*item)?;
            }
            token = page.continue_.into_owned();
            if token.is_empty() {
                return Ok(State::Listed { version: page.version.as_ref().into() });
            }
            // The engine processes this page while the next one is being fetched.
            if self.flush_part().is_err() {
                return Ok(State::Unlisted);
            }
        }
    }

    /// Completes a list. Known objects that are not in the list are gone.
    fn finish_list(&mut self) -> Result<(), EngineGone> {
        for key in self.known.finish_list() {
            self.inputs.push(self.kind.gone(key));
        }
        self.whole_list = false;
        self.flush()?;
        self.report_synced()
    }

    fn report_synced(&mut self) -> Result<(), EngineGone> {
        if !self.synced {
            self.synced = true;
            tracing::debug!(v = 2, kind = self.kind.name(), objects = self.known.len(), "Caches populated");
            self.engine.send(EngineMessage::Synced).map_err(|_| EngineGone)?;
        }
        Ok(())
    }

    // --- objects ---

    fn take(&mut self, bytes: &Bytes, is_protobuf: bool) -> Result<Told, Trouble> {
        let event = Event::read(bytes, is_protobuf).map_err(|why| garbage(bytes, &why))?;
        match event.type_ {
            EventType::Added | EventType::Modified => Ok(Told::Object(self.present(event.object)?)),
            EventType::Deleted => {
                let stub = Stub::read(event.object).map_err(|why| garbage(bytes, &why))?;
                let key = self.key(&stub);
                if self.known.forget(&key) {
                    self.inputs.push(self.kind.gone(key));
                    // Raw objects bypass the inputs, but none may overtake the deletion of an earlier object with the
                    // same name.
                    if self.wanted != RawSelection::default() {
                        // If the engine has ended, the next flush fails.
                        let _ = self.flush();
                    }
                }
                Ok(Told::Object(stub.metadata.resource_version.as_ref().into()))
            }
            EventType::Bookmark => {
                let stub = Stub::read(event.object).map_err(|why| garbage(bytes, &why))?;
                let version = stub.metadata.resource_version.as_ref().into();
                Ok(Told::Bookmark { version, initial_end: stub.ends_initial_events() })
            }
            EventType::Error => Err(wire::refusal(event.object.bytes())
                .map_or_else(|why| garbage(bytes, &why), |refusal| ApiError::Refused(refusal).into())),
        }
    }

    /// Handles the current version of an object. Returns its resource version.
    fn present(&mut self, object: Encoded<'_>) -> Result<Str, Trouble> {
        let decoded = self.kind.decode(&mut self.decoder, &mut self.known, object);
        let Decoded { version, input } = match decoded {
            Ok(decoded) => decoded,
            Err(error) => return self.undecodable(object, &error.to_string()),
        };
        if let Some(input) = input {
            self.raw.extend(self.wanted.of(&input, object.bytes()));
            self.inputs.push(input);
            self.newest = self.newest.max(version.parse().unwrap_or_default());
        }
        Ok(version)
    }

    /// Handles an object that cannot be decoded. The engine keeps the object's earlier version, if any.
    fn undecodable(&mut self, object: Encoded<'_>, why: &str) -> Result<Str, Trouble> {
        let stub = Stub::read(object).map_err(|_| garbage(object.bytes(), why))?;
        tracing::error!(
            kind = self.kind.name(),
            object = stub.full_name(),
            err = why,
            "An object cannot be decoded and is ignored"
        );
        self.known.keep(&self.key(&stub));
        Ok(stub.metadata.resource_version.as_ref().into())
    }

    fn key(&self, stub: &Stub<'_>) -> K::Key {
        self.kind.key(&stub.metadata.namespace, &stub.metadata.name, &stub.metadata.uid)
    }

    /// Passes on the objects of an incomplete list, except those whose changes are published: who sees a version in the
    /// feed relies on the engine having got all lower versions, but a list is not in the order of versions.
    fn flush_part(&mut self) -> Result<(), EngineGone> {
        if self.feed.is_some() { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> Result<(), EngineGone> {
        if self.inputs.is_empty() {
            return Ok(());
        }
        if !self.raw.is_empty() {
            let raw = std::mem::take(&mut self.raw);
            self.engine.send(EngineMessage::Raw(raw)).map_err(|_| EngineGone)?;
        }
        let inputs = std::mem::take(&mut self.inputs);
        let news = self.feed.as_ref().and_then(|feed| Some((feed, CustomNews::of(&inputs)?)));
        let newest = std::mem::take(&mut self.newest);
        self.engine.send(EngineMessage::Inputs(inputs)).map_err(|_| EngineGone)?;
        if let Some((feed, news)) = news {
            feed.publish(news, newest);
        }
        Ok(())
    }

    // --- requests ---

    async fn open(&mut self, path: &str, limit: Duration) -> Result<Stream, ApiError> {
        let opened = self.client.open(path, limit).await;
        if let Ok(stream) = &opened {
            self.is_probed = stream.is_probed;
            tracing::trace!(v = 4, kind = self.kind.name(), is_probed = stream.is_probed, "Watch opened");
        }
        self.log_permission(&opened);
        opened
    }

    /// Logs that a permission is missing or, later, that it has been granted.
    fn log_permission<T>(&self, outcome: &Result<T, ApiError>) {
        let (client, kind) = (&self.client, self.kind.name());
        match outcome {
            Ok(_) => client.log_allowed(kind),
            // A server checks permissions before it reports that the kind does not exist.
            Err(error) if error.code() == Some(404) => client.log_allowed(kind),
            Err(error) if error.code() == Some(403) => client.log_forbidden(kind, &error.to_string()),
            Err(_) => {}
        }
    }

    fn watch_path(&self, more: &[(&str, &str)], time: Duration) -> String {
        let seconds = time.as_secs().to_string();
        let mut query =
            vec![("watch", "true"), ("allowWatchBookmarks", "true"), ("timeoutSeconds", &seconds)];
        query.extend_from_slice(more);
        self.list_path(&query)
    }

    fn list_path(&self, query: &[(&str, &str)]) -> String {
        kinds::list_path(&self.kind, query)
    }
}

fn garbage(event: &[u8], why: &str) -> Trouble {
    let text: String = String::from_utf8_lossy(event).chars().take(100).collect();
    Trouble::Garbage(format!("undecodable event: {why}: {text:?}"))
}

/// Distinguishes a server that does not support streaming lists from a failing server. The former rejects the
/// parameters of the request, or lacks a feature that streaming lists need.
fn no_streaming(error: ApiError) -> Trouble {
    match error.code() {
        Some(400 | 405 | 406 | 415 | 422 | 500 | 501) => Trouble::NoStreaming(error.to_string()),
        _ => error.into(),
    }
}
