//! The secure port of `run`: its flags and its content.

use std::{
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harbormaster_api::args::GoDuration;
use harbormaster_config::KubeSchedulerConfiguration;
use harbormaster_driver::{Health, Metrics};
use harbormaster_port::{
    Check, Content, Options,
    health::Checks,
    options::{Authentication, Authorization, RequestHeader, Serving},
    pages::{Configuration, PROMETHEUS, Page, SetVerbosity},
    zpages,
};

use super::{VERSION, flags::FlagValues};

/// Maximum time for one pod. If the engine needs longer, something in it hangs, a plugin for example.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Returns the options of the port; `None` if it is turned off.
pub(super) fn options(given: &FlagValues) -> Result<Option<Options>, String> {
    let port = given.parsed::<i32>("secure-port").unwrap_or(10259);
    let port = u16::try_from(port).map_err(|_| {
        format!("--secure-port {port} must be between 0 and 65535, inclusive. 0 for turning off secure port")
    })?;
    if port == 0 {
        return Ok(None);
    }
    Ok(Some(Options {
        serving: serving(given, port)?,
        authentication: authentication(given),
        authorization: authorization(given),
    }))
}

fn serving(given: &FlagValues, port: u16) -> Result<Serving, String> {
    let defaults = Serving::default();
    let bind_address = match given.text("bind-address").map(str::trim).filter(|address| !address.is_empty()) {
        Some(address) => address.parse().map_err(|_| {
            format!(
                "invalid argument {address:?} for \"--bind-address\" flag: failed to parse IP: {address:?}"
            )
        })?,
        None => defaults.bind_address,
    };
    let pairs = given.list("tls-sni-cert-key").map(|pair| {
        let wrong = |why| format!("invalid argument {pair:?} for \"--tls-sni-cert-key\" flag: {why}");
        pair.parse().map_err(wrong)
    });
    let curves = list(given, "tls-curve-preferences").unwrap_or_default();
    let curves = curves.iter().map(|curve| {
        curve.parse().map_err(|_| {
            format!(
                "invalid argument {curve:?} for \"--tls-curve-preferences\" flag: strconv.ParseInt: parsing {curve:?}: \
                 invalid syntax"
            )
        })
    });
    let streams = given.parsed::<i32>("http2-max-streams-per-connection").unwrap_or(0);
    Ok(Serving {
        bind_address,
        port,
        cert_dir: path(given, "cert-dir"),
        cert_file: path(given, "tls-cert-file"),
        key_file: path(given, "tls-private-key-file"),
        sni: pairs.collect::<Result<_, _>>()?,
        min_version: given.text("tls-min-version").unwrap_or_default().to_owned(),
        cipher_suites: list(given, "tls-cipher-suites").unwrap_or_default(),
        curves: curves.collect::<Result<_, _>>()?,
        // A negative number means the default, as in kube-scheduler.
        max_streams: u32::try_from(streams).unwrap_or(0),
        disable_http2: given.switch("disable-http2-serving").unwrap_or(false),
        share_port: given.switch("permit-port-sharing").unwrap_or(false),
    })
}

fn authentication(given: &FlagValues) -> Authentication {
    let defaults = Authentication::default();
    let headers = RequestHeader::default();
    Authentication {
        kubeconfig: path(given, "authentication-kubeconfig"),
        skip_lookup: given.switch("authentication-skip-lookup").unwrap_or(defaults.skip_lookup),
        tolerate_lookup_failure: given
            .switch("authentication-tolerate-lookup-failure")
            .unwrap_or(defaults.tolerate_lookup_failure),
        cache_ttl: duration(given, "authentication-token-webhook-cache-ttl", defaults.cache_ttl),
        client_ca_file: path(given, "client-ca-file"),
        request_header: RequestHeader {
            client_ca_file: path(given, "requestheader-client-ca-file"),
            allowed_names: list(given, "requestheader-allowed-names").unwrap_or(headers.allowed_names),
            username_headers: list(given, "requestheader-username-headers")
                .unwrap_or(headers.username_headers),
            uid_headers: list(given, "requestheader-uid-headers").unwrap_or(headers.uid_headers),
            group_headers: list(given, "requestheader-group-headers").unwrap_or(headers.group_headers),
            extra_header_prefixes: list(given, "requestheader-extra-headers-prefix")
                .unwrap_or(headers.extra_header_prefixes),
        },
    }
}

fn authorization(given: &FlagValues) -> Authorization {
    let defaults = Authorization::default();
    Authorization {
        kubeconfig: path(given, "authorization-kubeconfig"),
        always_allow_paths: list(given, "authorization-always-allow-paths")
            .unwrap_or(defaults.always_allow_paths),
        authorized_ttl: duration(
            given,
            "authorization-webhook-cache-authorized-ttl",
            defaults.authorized_ttl,
        ),
        unauthorized_ttl: duration(
            given,
            "authorization-webhook-cache-unauthorized-ttl",
            defaults.unauthorized_ttl,
        ),
    }
}

fn path(given: &FlagValues, flag: &str) -> Option<PathBuf> {
    given.text(flag).filter(|path| !path.is_empty()).map(Into::into)
}

fn duration(given: &FlagValues, flag: &str, default: Duration) -> Duration {
    given.parsed::<GoDuration>(flag).map_or(default, GoDuration::to_std)
}

/// Returns the entries of a flag, if it was given: an empty text is an empty list.
fn list(given: &FlagValues, flag: &str) -> Option<Vec<String>> {
    given.text(flag)?;
    let texts = given.list(flag).filter(|text| !text.is_empty());
    Some(texts.flat_map(|text| text.split(',')).map(str::to_owned).collect())
}

/// Returns kube-scheduler's checks and a check that the engine makes progress. `leader_election` checks that the lease
/// is renewed, if there is one.
pub(super) fn checks(health: &Health, stopping: &Arc<AtomicBool>, leader_election: Option<Check>) -> Checks {
    let engine = health.clone();
    let engine = Check::new("engine", move || match engine.busy_for() {
        busy if busy > STEP_LIMIT => Err(format!("the engine has been at one step for {busy:?}")),
        _ => Ok(()),
    });
    let stopping = stopping.clone();
    let shutdown = Check::new("shutdown", move || match stopping.load(Ordering::Relaxed) {
        true => Err("process is shutting down".to_owned()),
        false => Ok(()),
    });
    let health = health.clone();
    let synced = Check::new("sched-handler-sync", move || match health.is_synced() {
        true => Ok(()),
        false => Err("handlers are not fully synchronized".to_owned()),
    });
    Checks {
        healthz: leader_election.iter().cloned().collect(),
        livez: vec![Check::ping(), engine],
        readyz: leader_election.into_iter().chain([shutdown, synced]).collect(),
    }
}

/// Returns all content that the port serves.
pub(super) fn content(
    given: &FlagValues,
    config: &KubeSchedulerConfiguration,
    shown: &Configuration,
    checks: Checks,
    metrics: &Metrics,
    set_verbosity: SetVerbosity,
) -> Content {
    let flags = given.values().into_iter().map(|(name, value)| zpages::Flag { name, value });
    Content {
        checks,
        pages: pages(metrics),
        config: shown.clone(),
        flags: flags.collect(),
        version: VERSION,
        set_verbosity: config.enable_profiling.then_some(set_verbosity),
    }
}

fn pages(metrics: &Metrics) -> Vec<Page> {
    let (numbers, resources) = (metrics.clone(), metrics.clone());
    let page = move || {
        let numbers = numbers.clone();
        Box::pin(async move { numbers.page() }) as _
    };
    let of_pods = move || {
        let metrics = resources.clone();
        Box::pin(async move { metrics.resources().await }) as _
    };
    vec![
        Page { path: "/metrics", content_type: PROMETHEUS, render: Arc::new(page), reset: None },
        Page { path: "/metrics/resources", content_type: PROMETHEUS, render: Arc::new(of_pods), reset: None },
    ]
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use super::*;
    use crate::commands::flags::{self, Read};

    fn given(args: &[&str]) -> FlagValues {
        match flags::read("run", args.iter().map(OsString::from)) {
            Read::Flags(given) => given,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_port_is_open_by_default_and_closed_by_zero() {
        let port =
            |args: &[&str]| options(&given(args)).unwrap().map(|o| (o.serving.port, o.serving.bind_address));
        assert_eq!(port(&[]), Some((10259, "0.0.0.0".parse().unwrap())));
        assert_eq!(port(&["--secure-port=1", "--bind-address=::1"]), Some((1, "::1".parse().unwrap())));
        assert_eq!(port(&["--secure-port=0"]), None);
    }

    #[test]
    fn flags_become_options() {
        let options = options(&given(&[
            "--tls-cipher-suites=A,B",
            "--tls-cipher-suites=C",
            "--tls-curve-preferences=23,29",
            "--tls-sni-cert-key=a,b:x,y",
            "--authorization-always-allow-paths=",
            "--requestheader-allowed-names=front,back",
            "--authentication-token-webhook-cache-ttl=1m",
            "--authentication-tolerate-lookup-failure=false",
            "--authentication-kubeconfig=/k",
        ]));
        let options = options.unwrap().unwrap();
        assert_eq!(options.serving.cipher_suites, ["A", "B", "C"]);
        assert_eq!(options.serving.curves, [23, 29]);
        assert_eq!(options.serving.sni[0].names, ["x", "y"]);
        assert!(options.authorization.always_allow_paths.is_empty());
        assert_eq!(options.authentication.request_header.allowed_names, ["front", "back"]);
        assert_eq!(options.authentication.request_header.username_headers, ["x-remote-user"]);
        assert_eq!(options.authentication.cache_ttl, Duration::from_secs(60));
        assert!(!options.authentication.tolerate_lookup_failure);
        assert_eq!(options.authentication.kubeconfig, Some("/k".into()));
        assert_eq!(options.authorization.kubeconfig, None, "neither is inherited");
    }

    #[test]
    fn wrong_flags_are_refused_in_the_words_of_kube_scheduler() {
        for (flag, expected) in [
            (
                "--secure-port=70000",
                "--secure-port 70000 must be between 0 and 65535, inclusive. 0 for turning off secure port",
            ),
            ("--secure-port=-1", "--secure-port -1 must be between 0 and 65535"),
            (
                "--bind-address=x",
                "invalid argument \"x\" for \"--bind-address\" flag: failed to parse IP: \"x\"",
            ),
            ("--tls-sni-cert-key=x", "expected comma separated certificate and key file paths"),
            ("--tls-curve-preferences=x", "strconv.ParseInt: parsing \"x\": invalid syntax"),
        ] {
            let error = options(&given(&[flag])).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn checks_follow_the_scheduler() {
        let (health, stopping) = (Health::default(), Arc::new(AtomicBool::new(false)));
        let lease = Check::new("leaderElection", || Ok(()));
        let checks = checks(&health, &stopping, Some(lease));
        let names = |checks: &[Check]| checks.iter().map(|check| check.name).collect::<Vec<_>>();
        assert_eq!(names(&checks.healthz), ["leaderElection"]);
        assert_eq!(names(&checks.livez), ["ping", "engine"]);
        assert_eq!(names(&checks.readyz), ["leaderElection", "shutdown", "sched-handler-sync"]);
        let ends = || checks.readyz.iter().map(|check| (check.run)().is_ok()).collect::<Vec<_>>();
        assert_eq!(ends(), [true, true, false]);
        stopping.store(true, Ordering::Relaxed);
        assert_eq!(ends(), [true, false, false]);
    }
}
