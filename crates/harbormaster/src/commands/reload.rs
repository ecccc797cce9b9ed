//! Reloads the configuration file while `run` is scheduling: valid content is applied; invalid content is reported, and
//! the old configuration stays active.
//!
//! The kubelet updates a mounted ConfigMap by swapping a symbolic link, so contents are compared, not timestamps.
//! SIGHUP triggers an immediate check. A file that is written in place may be read half-written, and the partial
//! content may be valid, so content is used only if a second read a moment later returns the same content. Each SIGHUP
//! in the meantime restarts this wait, up to a limit.

use std::time::{Duration, Instant};

use harbormaster_api::Release;
use harbormaster_config::{ConfigError, ConfigErrors, KubeSchedulerConfiguration};
use harbormaster_driver::{Metrics, Reload, reload::ReloadError};
use harbormaster_port::pages::Configuration;
use harbormaster_setup::{Choices, Setup};
use harbormaster_yaml::Source;
use serde_json::Value;

use super::{
    files,
    flags::Flags,
    origin,
    settings::{self, Settings},
};
use crate::scheduler;

/// Interval between two reads of the file.
const LOOK: Duration = Duration::from_secs(5);
/// Time for which new content must stay the same before it is used.
const SETTLE: Duration = Duration::from_secs(1);

/// Fields that the engine uses. They can be reloaded; a change to any other field needs a restart.
pub(super) const TAKEN_OVER: [&str; 6] = [
    "extenders",
    "parallelism",
    "percentageOfNodesToScore",
    "podInitialBackoffSeconds",
    "podMaxBackoffSeconds",
    "profiles",
];

/// Reloads the file of `--config` when it changes.
pub(super) struct Follower {
    given: Flags,
    choices: Choices,
    /// Active content, with the name of the file.
    source: Source,
    /// Configuration read from the active content.
    config: KubeSchedulerConfiguration,
    /// Last content that was checked.
    judged: FileContent,
    /// Content that may be half-written.
    fresh: Option<UnsettledContent>,
    shown: Configuration,
    metrics: Metrics,
    reload: Reload,
}

/// Content of the file, or the reason why the file cannot be read.
type FileContent = Result<String, String>;

/// New content of the file that has not been checked yet.
#[derive(Debug)]
struct UnsettledContent {
    seen: FileContent,
    since: Instant,
    /// Time of the last SIGHUP since the content was first seen; if there was none, the time when the content was first
    /// seen.
    quiet_since: Instant,
}

impl UnsettledContent {
    fn new(seen: FileContent, now: Instant) -> Self {
        Self { seen, since: now, quiet_since: now }
    }

    /// Returns true if the content, which has just been read again, has been stable for long enough. `asked` is true if
    /// a SIGHUP caused the read. Signals can delay the result only for a limited time.
    fn has_settled(&mut self, asked: bool, now: Instant) -> bool {
        if asked {
            self.quiet_since = now;
        }
        now - self.quiet_since >= SETTLE || now - self.since >= LOOK
    }
}

/// The reason why content is not applied.
enum ApplyError {
    /// The content is invalid.
    Wrong(String),
    /// The scheduler is not running yet, so the reload is retried.
    NotYet,
}

impl Follower {
    /// Creates a follower of the file whose active content is `source`, from which `settings` were read. Their release
    /// also applies to later contents.
    pub(super) fn new(
        given: &Flags,
        settings: &Settings,
        source: Source,
        shown: Configuration,
        metrics: &Metrics,
        reload: Reload,
    ) -> Self {
        metrics.set_config(&sha256(&source.text));
        let (given, choices) = (given.clone(), settings.choices.clone());
        let (config, metrics) = (settings.setup.config.clone(), metrics.clone());
        let judged = Ok(source.text.clone());
        Self { given, choices, source, config, judged, fresh: None, shown, metrics, reload }
    }

    /// Runs forever. Each of `hangups` triggers a check.
    pub(super) async fn run(mut self, mut hangups: Hangups) {
        loop {
            let asked = tokio::select! {
                () = tokio::time::sleep(if self.fresh.is_some() { SETTLE } else { LOOK }) => false,
                () = hangups.next() => true,
            };
            self.look(asked).await;
        }
    }

    async fn look(&mut self, asked: bool) {
        let file = &self.source.name;
        let seen = files::read(file).map(|source| source.text);
        if seen == self.judged {
            self.fresh = None;
            if asked {
                tracing::info!(file, "The configuration file has not changed since the last check");
            }
            return;
        }
        let now = Instant::now();
        match &mut self.fresh {
            Some(fresh) if fresh.seen == seen => {
                if fresh.has_settled(asked, now) {
                    self.judge(seen).await;
                }
            }
            _ => self.fresh = Some(UnsettledContent::new(seen, now)),
        }
    }

    async fn judge(&mut self, seen: FileContent) {
        let refused = match &seen {
            Ok(text) => self.take(text).await.err(),
            Err(why) => Some(ApplyError::Wrong(why.clone())),
        };
        match refused {
            None => {}
            Some(ApplyError::NotYet) => return,
            Some(ApplyError::Wrong(why)) => {
                self.metrics.set_config_refused();
                let file = &self.source.name;
                for err in why.lines() {
                    tracing::error!(file, err, "The configuration file has changed and is refused");
                }
            }
        }
        (self.judged, self.fresh) = (seen, None);
    }

    async fn take(&mut self, text: &str) -> Result<(), ApplyError> {
        let (file, sum) = (self.source.name.clone(), sha256(text));
        if text != self.source.text {
            let setup = self.setup(text).map_err(ApplyError::Wrong)?;
            let extenders = scheduler::extenders(&setup.config);
            self.reload.take_over(setup.engine, &extenders).await.map_err(|why| match why {
                ReloadError::NotRunning => ApplyError::NotYet,
                why => ApplyError::Wrong(format!("{file}: {why}")),
            })?;
            for warning in &setup.warnings {
                tracing::warn!("{warning}");
            }
            self.shown.set(setup.config.to_value(self.choices.features.release()));
            self.config = setup.config;
            text.clone_into(&mut self.source.text);
        }
        self.metrics.set_config(&sum);
        tracing::info!(file, sha256 = sum, "The changed configuration file is now in effect");
        Ok(())
    }

    /// Builds the setup from new content.
    fn setup(&self, text: &str) -> Result<Setup, String> {
        let source = Source { name: self.source.name.clone(), text: text.to_owned() };
        let config = settings::configured(&self.given, &self.choices, Some(&source))?;
        let mut setup = Setup::of(config, &self.choices).map_err(|errors| errors.to_string())?;
        origin::record(&mut setup, &self.choices);
        let wrong = ConfigErrors::from(needs_restart(&self.config, &setup.config));
        wrong.into_result().map_err(|errors| errors.to_string())?;
        Ok(setup)
    }
}

/// Returns an error for each changed field that cannot be reloaded.
fn needs_restart(old: &KubeSchedulerConfiguration, new: &KubeSchedulerConfiguration) -> Vec<ConfigError> {
    let mut different = Vec::new();
    let [old_value, new_value] = [old, new].map(|config| config.to_value(Release::NEWEST));
    differences("", &old_value, &new_value, &mut different);
    different.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let error = |(field, old, new_value): (String, Value, Value)| {
        new.error(&field, format!("{field}: the change from {old} to {new_value} needs a restart"))
    };
    different.into_iter().map(error).collect()
}

/// Adds to `found` the fields in which two configurations differ, each with both values. Skips the fields that can be
/// reloaded.
fn differences(path: &str, old: &Value, new: &Value, found: &mut Vec<(String, Value, Value)>) {
    let (Value::Object(olds), Value::Object(news)) = (old, new) else {
        if old != new {
            found.push((path.to_owned(), old.clone(), new.clone()));
        }
        return;
    };
    let only_old = olds.keys().filter(|key| !news.contains_key(*key));
    for key in news.keys().chain(only_old) {
        let of = |fields: &serde_json::Map<String, Value>| fields.get(key).cloned().unwrap_or_default();
        match path {
            "" if TAKEN_OVER.contains(&key.as_str()) => {}
            "" => differences(key, &of(olds), &of(news), found),
            _ => differences(&format!("{path}.{key}"), &of(olds), &of(news), found),
        }
    }
}

/// Returns the digest as `sha256sum` prints it.
fn sha256(text: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, text.as_bytes());
    digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// SIGHUP, on platforms that have it.
#[cfg(unix)]
pub(super) struct Hangups(Option<tokio::signal::unix::Signal>);

#[cfg(unix)]
impl Hangups {
    pub(super) fn new() -> Self {
        use tokio::signal::unix::{SignalKind, signal};
        // Even without the signal, the file is checked periodically.
        Self(signal(SignalKind::hangup()).ok())
    }

    async fn next(&mut self) {
        if let Some(signal) = &mut self.0
            && signal.recv().await.is_some()
        {
            return;
        }
        std::future::pending::<()>().await;
    }
}

/// SIGHUP, on platforms that have it.
#[cfg(not(unix))]
pub(super) struct Hangups;

#[cfg(not(unix))]
impl Hangups {
    pub(super) fn new() -> Self {
        Self
    }

    async fn next(&mut self) {
        std::future::pending::<()>().await;
    }
}

#[cfg(test)]
mod tests {
    use harbormaster_api::features::Features;

    use super::*;

    fn config(text: &str) -> KubeSchedulerConfiguration {
        let text =
            format!("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n{text}");
        harbormaster_config::load(&text, "c.yaml", &Features::default()).unwrap()
    }

    fn refused(old: &str, new: &str) -> Vec<String> {
        needs_restart(&config(old), &config(new)).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn changes_to_scheduling_fields_need_no_restart() {
        let new = "parallelism: 3\npercentageOfNodesToScore: 5\npodInitialBackoffSeconds: 2\n\
                   podMaxBackoffSeconds: 20\nprofiles: [{schedulerName: a}, {schedulerName: b}]\n";
        assert_eq!(refused("", new), [""; 0]);
        assert_eq!(refused(new, ""), [""; 0]);
    }

    #[test]
    fn a_change_that_needs_a_restart_is_rejected_with_its_position() {
        let new = "parallelism: 3\nleaderElection:\n  leaseDuration: 30s\nclientConnection: {qps: 7}\n";
        assert_eq!(
            refused("", new),
            [
                "c.yaml:6:20: clientConnection.qps: the change from 50 to 7 needs a restart",
                "c.yaml:5:3: leaderElection.leaseDuration: the change from \"15s\" to \"30s\" needs a restart",
            ]
        );
        // A removed field has no position, so the error has the position of the enclosing object.
        let errors = refused("delayCacheUntilActive: true\n", "");
        assert_eq!(errors.len(), 1);
        assert!(errors[0].ends_with("delayCacheUntilActive: the change from true to null needs a restart"));
    }

    #[test]
    fn content_settles_after_a_moment_without_a_signal() {
        let begin = Instant::now();
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let mut quiet = UnsettledContent::new(Ok("a".to_owned()), begin);
        assert!(!quiet.has_settled(false, at(500)));
        assert!(quiet.has_settled(false, at(1000)));
        let mut pressed = UnsettledContent::new(Ok("a".to_owned()), begin);
        for ms in [10, 900, 1800] {
            assert!(!pressed.has_settled(true, at(ms)), "after {ms} ms");
        }
        assert!(!pressed.has_settled(false, at(2700)));
        assert!(pressed.has_settled(false, at(2800)));
        let mut storm = UnsettledContent::new(Ok("a".to_owned()), begin);
        assert!((1..500).all(|n| !storm.has_settled(true, at(10 * n))));
        assert!(storm.has_settled(true, at(5000)), "signals delay the reload for at most 5 s");
    }

    #[test]
    fn the_digest_equals_that_of_sha256sum() {
        assert_eq!(sha256("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    }
}
