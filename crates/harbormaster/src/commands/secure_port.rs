//! The secure port of `run`: its flags and its content.

use std::{
    path::PathBuf,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use harbormaster_config::KubeSchedulerConfiguration;
use harbormaster_driver::{Console, Health, Metrics};
use harbormaster_port::{
    Check, Content, Options,
    health::Checks,
    options::{Authentication, Authorization, RequestHeader, Serving},
    pages::{Configuration, PROMETHEUS, Page, SetVerbosity},
    why::{Told, Why},
    zpages,
};

use super::{
    VERSION,
    flags::{Flag, Flags},
    live_page::live_page,
    settings::Settings,
};

/// Maximum time for one step of the engine, such as a pod's attempt. If a step takes longer, something in it hangs, for
/// example a plugin.
const STEP_LIMIT: Duration = Duration::from_secs(60);

/// Returns the options of the port; `None` if it is turned off.
pub(super) fn options(given: &Flags) -> Result<Option<Options>, String> {
    let port = *given.secure_port.get();
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

fn serving(given: &Flags, port: u16) -> Result<Serving, String> {
    let bind_address = match given.bind_address.get().trim() {
        "" => Serving::default().bind_address,
        address => address.parse().map_err(|_| {
            format!(
                "invalid argument {address:?} for \"--bind-address\" flag: failed to parse IP: {address:?}"
            )
        })?,
    };
    let pairs = given.tls_sni_cert_key.get().texts().map(|pair| {
        let wrong = |why| format!("invalid argument {pair:?} for \"--tls-sni-cert-key\" flag: {why}");
        pair.parse().map_err(wrong)
    });
    let curves = given.tls_curve_preferences.get().entries();
    let curves = curves.iter().map(|curve| {
        curve.parse().map_err(|_| {
            format!(
                "invalid argument {curve:?} for \"--tls-curve-preferences\" flag: strconv.ParseInt: parsing {curve:?}: \
                 invalid syntax"
            )
        })
    });
    Ok(Serving {
        bind_address,
        port,
        cert_dir: path(&given.cert_dir),
        cert_file: path(&given.tls_cert_file),
        key_file: path(&given.tls_private_key_file),
        sni: pairs.collect::<Result<_, _>>()?,
        min_version: given.tls_min_version.get().clone(),
        cipher_suites: given.tls_cipher_suites.get().entries(),
        curves: curves.collect::<Result<_, _>>()?,
        // A negative number means the default, as in kube-scheduler.
        max_streams: u32::try_from(*given.http2_max_streams_per_connection.get()).unwrap_or(0),
        disable_http2: *given.disable_http2_serving.get(),
        share_port: *given.permit_port_sharing.get(),
    })
}

fn authentication(given: &Flags) -> Authentication {
    Authentication {
        kubeconfig: path(&given.authentication_kubeconfig),
        skip_lookup: *given.authentication_skip_lookup.get(),
        tolerate_lookup_failure: *given.authentication_tolerate_lookup_failure.get(),
        cache_ttl: given.authentication_token_webhook_cache_ttl.get().to_std(),
        client_ca_file: path(&given.client_ca_file),
        request_header: RequestHeader {
            client_ca_file: path(&given.requestheader_client_ca_file),
            allowed_names: given.requestheader_allowed_names.get().entries(),
            username_headers: given.requestheader_username_headers.get().entries(),
            uid_headers: given.requestheader_uid_headers.get().entries(),
            group_headers: given.requestheader_group_headers.get().entries(),
            extra_header_prefixes: given.requestheader_extra_headers_prefix.get().entries(),
        },
    }
}

fn authorization(given: &Flags) -> Authorization {
    Authorization {
        kubeconfig: path(&given.authorization_kubeconfig),
        always_allow_paths: given.authorization_always_allow_paths.get().entries(),
        authorized_ttl: given.authorization_webhook_cache_authorized_ttl.get().to_std(),
        unauthorized_ttl: given.authorization_webhook_cache_unauthorized_ttl.get().to_std(),
    }
}

fn path(flag: &Flag<String>) -> Option<PathBuf> {
    Some(flag.get()).filter(|path| !path.is_empty()).map(Into::into)
}

/// Returns kube-scheduler's checks, including `leader_election` if given, and a check that the engine makes progress.
pub(super) fn checks(health: &Health, stopping: &Arc<AtomicBool>, leader_election: Option<Check>) -> Checks {
    let engine = health.clone();
    let engine = Check::new("engine", move || match engine.busy_for() {
        busy if busy > STEP_LIMIT => {
            Err(format!("the engine has not finished its current step for {busy:?}"))
        }
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

/// The parts of the content that the port serves only once the settings are known. Clones share them.
#[derive(Clone, Default)]
pub(super) struct Shown {
    pub(super) config: Configuration,
    release: Arc<OnceLock<String>>,
    metrics: Arc<OnceLock<Metrics>>,
}

impl Shown {
    /// Shows the settings and the metrics. Only the first call has an effect.
    pub(super) fn set(&self, settings: &Settings, metrics: &Metrics) {
        self.config.set(settings.setup.config.to_value(settings.emulation.release()));
        self.release.get_or_init(|| settings.emulation.release().to_string());
        self.metrics.get_or_init(|| metrics.clone());
    }
}

/// Returns all content that the port serves.
pub(super) fn content(
    given: &Flags,
    config: &KubeSchedulerConfiguration,
    shown: &Shown,
    checks: Checks,
    set_verbosity: SetVerbosity,
    console: &Console,
) -> Content {
    let flags = given.values().into_iter().map(|(name, value)| zpages::Flag { name, value });
    Content {
        checks,
        pages: pages(&shown.metrics),
        config: shown.config.clone(),
        flags: flags.collect(),
        version: VERSION,
        // As in kube-scheduler, `/statusz` shows the release, whatever `--emulated-version` says.
        emulates: shown.release.clone(),
        set_verbosity: config.enable_profiling.then_some(set_verbosity),
        why: Some(why(console)),
        browser: Some(live_page(console, {
            let metrics = shown.metrics.clone();
            move || metrics.get().cloned()
        })),
    }
}

/// Passes questions about pods to the engine.
pub(super) fn why(console: &Console) -> Why {
    let console = console.clone();
    Arc::new(move |namespace, pod| {
        let console = console.clone();
        Box::pin(async move {
            match console.pod_state(&namespace, &pod).await {
                Ok(Some(state)) => match serde_json::to_string(&state) {
                    Ok(json) => Told::State(json),
                    Err(error) => Told::Unavailable(error.to_string()),
                },
                Ok(None) => Told::Unknown,
                Err(unanswered) => Told::Unavailable(unanswered.to_string()),
            }
        })
    })
}

/// Returns the pages of metrics, which are empty until there are metrics.
fn pages(metrics: &Arc<OnceLock<Metrics>>) -> Vec<Page> {
    let (numbers, resources) = (metrics.clone(), metrics.clone());
    let page = move || {
        let numbers = numbers.clone();
        Box::pin(async move { numbers.get().map(Metrics::page).unwrap_or_default() }) as _
    };
    let of_pods = move || {
        let metrics = resources.clone();
        Box::pin(async move {
            match metrics.get() {
                Some(metrics) => metrics.resources().await,
                None => String::new(),
            }
        }) as _
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

    fn given(args: &[&str]) -> Box<Flags> {
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
        assert_eq!(
            options.authorization.kubeconfig, None,
            "the kubeconfig for authentication is not used for authorization"
        );
    }

    #[test]
    fn invalid_flags_are_rejected_with_kube_schedulers_messages() {
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
    fn checks_reflect_the_state_of_the_scheduler() {
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
