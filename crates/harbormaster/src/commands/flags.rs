//! The flags of `run`: kube-scheduler's, in one table, and their parser.
//!
//! The table makes the struct [`Flags`], the command with its help, manual page and completions, and the list for `/flagz`.
//! [`read`] parses the arguments; [`super::run`] decides what they mean.

mod types;

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind, value_parser};
use harbormaster_api::{
    args::GoDuration,
    quantity::Quantity,
    similar::{similar, suggestion},
};

pub(crate) use self::types::{FlagType, LabelValues, List, Settings, VersionRequest};

/// Section of the help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Section {
    Misc,
    Harbormaster,
    SecureServing,
    Authentication,
    Authorization,
    Deprecated,
    LeaderElection,
    FeatureGates,
    Metrics,
    Logs,
    Global,
}

impl Section {
    const fn title(self) -> &'static str {
        match self {
            Self::Misc => "Misc flags",
            Self::Harbormaster => "Harbormaster flags",
            Self::SecureServing => "Secure serving flags",
            Self::Authentication => "Authentication flags",
            Self::Authorization => "Authorization flags",
            Self::Deprecated => "Deprecated flags",
            Self::LeaderElection => "Leader election flags",
            Self::FeatureGates => "Feature gate flags",
            Self::Metrics => "Metrics flags",
            Self::Logs => "Logs flags",
            Self::Global => "Global flags",
        }
    }
}

/// A flag of a command line.
#[derive(Clone, Debug)]
pub(crate) struct Flag<T> {
    name: &'static str,
    value: T,
    is_given: bool,
}

impl<T: FlagType> Flag<T> {
    /// Returns the value: the default unless the flag was given.
    pub(crate) fn get(&self) -> &T {
        &self.value
    }

    /// Returns the value if the flag was given.
    pub(crate) fn given(&self) -> Option<&T> {
        self.is_given.then_some(&self.value)
    }

    /// Returns the flag with its dashes, if it was given.
    fn given_name(&self) -> Option<String> {
        self.is_given.then(|| format!("--{}", self.name))
    }

    fn parse(name: &'static str, default: T, matches: &ArgMatches) -> Result<Self, String> {
        let Some(texts) = matches.get_many::<String>(name) else {
            return Ok(Self { name, value: default, is_given: false });
        };
        let value = T::parse(texts.map(String::as_str)).map_err(|(text, why)| {
            let dashes = if name == "v" { "-v, --" } else { "--" };
            format!("invalid argument {text:?} for \"{dashes}{name}\" flag: {why}")
        })?;
        Ok(Self { name, value, is_given: true })
    }
}

/// A line of the table, for the command.
struct Row {
    name: &'static str,
    section: Section,
    /// The word `[default]` at its end stands for the value.
    help: &'static str,
    default: String,
    /// Name of the type.
    takes: &'static str,
    repeated: bool,
    /// True if the flag without a value means `true`.
    is_switch: bool,
}

impl Row {
    fn of<T: FlagType>(name: &'static str, section: Section, default: &T, help: &'static str) -> Self {
        let (takes, repeated, is_switch) = (T::NAME, T::REPEATED, T::IS_SWITCH);
        Self { name, section, help, default: default.show(), takes, repeated, is_switch }
    }
}

/// Makes the flags from lines `field: type = default, name, help`, in the order of the help.
macro_rules! flags {
    ($($section:ident { $($field:ident: $type:ty = $default:expr, $name:literal, $help:literal;)* })*) => {
        /// The flags of a command line.
        #[derive(Clone, Debug)]
        pub(crate) struct Flags {
            $($(pub(crate) $field: Flag<$type>,)*)*
        }

        impl Flags {
            /// Reads all flags.
            ///
            /// # Errors
            ///
            /// Names the first flag of the table whose value has the wrong type.
            fn parse(matches: &ArgMatches) -> Result<Self, String> {
                Ok(Self { $($($field: Flag::parse($name, $default.into(), matches)?,)*)* })
            }

            /// Returns all flags with their values, given or default, in the format of Go's flags; sorted by name.
            pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
                let mut values = vec![$($((self.$field.name, self.$field.value.show()),)*)*];
                values.sort_unstable();
                values
            }
        }

        fn rows() -> Vec<Row> {
            vec![$($(Row::of::<$type>($name, Section::$section, &$default.into(), $help),)*)*]
        }
    };
}

flags! {
    Misc {
        config: String = "", "config", "The path to the configuration file (KubeSchedulerConfiguration)";
        master: String = "", "master", "The address of the Kubernetes API server (overrides any value in kubeconfig)";
        write_config_to: String = "", "write-config-to", "Write the configuration with all defaults to this file and exit";
    }
    Harbormaster {
        parity: bool = false, "parity", "Decide exactly as kube-scheduler with parallelism 1: same order of nodes, same sampling, same ties. Without it every feasible node is scored";
    }
    SecureServing {
        bind_address: String = "0.0.0.0", "bind-address", "The address on which to listen for the secure port";
        secure_port: i32 = 10259, "secure-port", "The port for HTTPS with authentication and authorization; 0 turns it off [default]";
        cert_dir: String = "", "cert-dir", "The directory where the TLS certificates are located";
        tls_cert_file: String = "", "tls-cert-file", "File containing the x509 certificate for HTTPS";
        tls_private_key_file: String = "", "tls-private-key-file", "File containing the private key of --tls-cert-file";
        tls_cipher_suites: List = [], "tls-cipher-suites", "Cipher suites for the server";
        tls_curve_preferences: List = [], "tls-curve-preferences", "Key exchange mechanisms for the server";
        tls_min_version: String = "", "tls-min-version", "Minimum TLS version";
        tls_sni_cert_key: List = [], "tls-sni-cert-key", "Pairs of certificate and key files by domain";
        http2_max_streams_per_connection: i32 = 0, "http2-max-streams-per-connection", "Limit of streams in an HTTP/2 connection";
        disable_http2_serving: bool = false, "disable-http2-serving", "Serve HTTP/1.1 only";
        permit_port_sharing: bool = false, "permit-port-sharing", "Use SO_REUSEPORT";
        permit_address_sharing: bool = false, "permit-address-sharing", "Accepted, without effect: SO_REUSEADDR is used in any case";
    }
    Authentication {
        authentication_kubeconfig: String = "", "authentication-kubeconfig", "kubeconfig for creating token reviews";
        authentication_skip_lookup: bool = false, "authentication-skip-lookup", "Do not look up missing authentication configuration in the cluster";
        authentication_token_webhook_cache_ttl: GoDuration = seconds(10), "authentication-token-webhook-cache-ttl", "How long to cache responses to token reviews";
        authentication_tolerate_lookup_failure: bool = true, "authentication-tolerate-lookup-failure", "Go on when authentication configuration cannot be looked up";
        client_ca_file: String = "", "client-ca-file", "Authorities that sign client certificates";
        requestheader_allowed_names: List = [], "requestheader-allowed-names", "Common names of clients that may set user names in headers";
        requestheader_client_ca_file: String = "", "requestheader-client-ca-file", "Authorities that sign certificates of such clients";
        requestheader_extra_headers_prefix: List = ["x-remote-extra-"], "requestheader-extra-headers-prefix", "Prefixes of request headers";
        requestheader_group_headers: List = ["x-remote-group"], "requestheader-group-headers", "Request headers with groups";
        requestheader_uid_headers: List = [], "requestheader-uid-headers", "Request headers with UIDs";
        requestheader_username_headers: List = ["x-remote-user"], "requestheader-username-headers", "Request headers with user names";
    }
    Authorization {
        authorization_kubeconfig: String = "", "authorization-kubeconfig", "kubeconfig for creating subject access reviews";
        authorization_always_allow_paths: List = ["/healthz", "/readyz", "/livez"], "authorization-always-allow-paths", "Paths that need no authorization";
        authorization_webhook_cache_authorized_ttl: GoDuration = seconds(10), "authorization-webhook-cache-authorized-ttl", "How long to cache allowed responses";
        authorization_webhook_cache_unauthorized_ttl: GoDuration = seconds(10), "authorization-webhook-cache-unauthorized-ttl", "How long to cache denied responses";
    }
    Deprecated {
        profiling: bool = true, "profiling", "Serve /debug/flags/v on the secure port; there are no profiles";
        contention_profiling: bool = true, "contention-profiling", "Profile lock contention (accepted, without effect: there are no profiles)";
        kubeconfig: String = "", "kubeconfig", "Path to a kubeconfig file; if --config names one too, that one is used";
        kube_api_qps: f32 = 50.0, "kube-api-qps", "Requests to the API server per second; ignored with --config [default]";
        kube_api_burst: i32 = 100, "kube-api-burst", "Requests to the API server in a burst; ignored with --config [default]";
        kube_api_content_type: String = "application/vnd.kubernetes.protobuf", "kube-api-content-type", "Content type of requests to the API server; JSON is used in any case";
        pod_max_in_unschedulable_pods_duration: GoDuration = seconds(300), "pod-max-in-unschedulable-pods-duration", "After this long without an event that helps, a pending pod is tried again [default]";
    }
    LeaderElection {
        leader_elect: bool = true, "leader-elect", "Elect a leader among replicas, which alone schedules. A scheduler beside another one needs a lease of its own, or this turned off [default]";
        leader_elect_lease_duration: GoDuration = seconds(15), "leader-elect-lease-duration", "How long standbys respect a lease that they do not see renewed [default]";
        leader_elect_renew_deadline: GoDuration = seconds(10), "leader-elect-renew-deadline", "How long the leader schedules without a renewal that comes through; then it ends [default]";
        leader_elect_retry_period: GoDuration = seconds(2), "leader-elect-retry-period", "Time between tries [default]";
        leader_elect_resource_lock: String = "leases", "leader-elect-resource-lock", "Kind of the lock object; only leases [default]";
        leader_elect_resource_name: String = "kube-scheduler", "leader-elect-resource-name", "Name of the lock object [default]";
        leader_elect_resource_namespace: String = "kube-system", "leader-elect-resource-namespace", "Namespace of the lock object [default]";
    }
    FeatureGates {
        feature_gates: Settings = [], "feature-gates", "Comma-separated list of pairs: Gate=true,Other=false";
        emulated_version: List = [], "emulated-version", "Have the feature gates of an older version of Kubernetes, with their defaults: kube=1.33..1.36 [default: 1.36]";
        min_compatibility_version: List = [], "min-compatibility-version", "Oldest version of the control plane to be compatible with: kube=1.33..1.36, at most the emulated one. It is checked and shown, and nothing depends on it [default: 1.35]";
    }
    Metrics {
        show_hidden_metrics_for_version: String = "", "show-hidden-metrics-for-version", "Show metrics hidden since that version: only 1.35 may be asked for, and nothing is hidden";
        disabled_metrics: List = [], "disabled-metrics", "Names of metrics that are not shown";
        allow_metric_labels: LabelValues = LabelValues::default(), "allow-metric-labels", "Allowed values of a label, metric,label=value,value; others are shown as unexpected";
        allow_metric_labels_manifest: String = "", "allow-metric-labels-manifest", "File that maps \"metric,label\" to \"value,value\", in place of --allow-metric-labels";
    }
    Logs {
        logging_format: String = "text", "logging-format", "text or json [default]";
        v: i32 = 0, "v", "Verbosity of the log: 2 usual, 3 attempts, 4 rejections, 5 queue, 10 scores [default]";
        vmodule: Settings = [], "vmodule", "Verbosity by file (accepted, without effect)";
        log_flush_frequency: GoDuration = seconds(5), "log-flush-frequency", "How often buffered log lines are written [default]";
        log_text_split_stream: bool = false, "log-text-split-stream", "In text format, write errors and warnings to stderr and the rest to stdout. Needs the gate LoggingAlphaOptions";
        log_text_info_buffer_size: Quantity = Quantity::default(), "log-text-info-buffer-size", "In text format with split streams, how many bytes for stdout are buffered. Needs the gate LoggingAlphaOptions [default]";
        log_json_split_stream: bool = false, "log-json-split-stream", "In JSON format, write errors to stderr and the rest to stdout. Needs the gate LoggingAlphaOptions";
        log_json_info_buffer_size: Quantity = Quantity::default(), "log-json-info-buffer-size", "In JSON format with split streams, how many bytes for stdout are buffered. Needs the gate LoggingAlphaOptions [default]";
    }
    Global {
        version: VersionRequest = VersionRequest::None, "version", "--version, --version=raw: print version information and quit";
    }
}

const fn seconds(seconds: i64) -> GoDuration {
    GoDuration::from_secs(seconds)
}

impl Flags {
    /// Returns those of the given flags that a configuration file overrides.
    pub(crate) fn overridden(&self) -> Vec<String> {
        let flags = [
            self.kube_api_qps.given_name(),
            self.kube_api_burst.given_name(),
            self.kube_api_content_type.given_name(),
        ];
        flags.into_iter().flatten().collect()
    }
}

/// Result of [`read`].
#[derive(Debug)]
pub(crate) enum Read {
    /// Flags to run with.
    Flags(Box<Flags>),
    /// Help to print before a successful end.
    Print(String),
    /// The arguments are wrong, for this reason.
    Wrong(String),
}

/// The subcommand, for help and parsing.
pub(crate) fn command(name: &str) -> Command {
    let args = rows().iter().map(Row::arg).collect::<Vec<_>>();
    Command::new(name.to_owned())
        .about("Schedule the pods of a cluster, in place of kube-scheduler")
        .long_about(
            "Schedule the pods of a cluster, in place of kube-scheduler. Takes the flags of kube-scheduler v1.36.",
        )
        .after_help("Exit codes: 0 ended on SIGTERM or SIGINT; 1 any error, or the lease was lost.")
        .disable_version_flag(true)
        .next_line_help(true)
        .args(args)
        .arg(Arg::new("positional").num_args(0..).hide(true).value_parser(value_parser!(String)))
}

/// Reads the arguments after the name of the command.
pub(crate) fn read(name: &str, args: impl IntoIterator<Item = OsString>) -> Read {
    let args = args.into_iter().map(dashed);
    let matches = match command(name).no_binary_name(true).try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Read::Print(error.render().to_string());
        }
        Err(error) => return Read::Wrong(plain(&error)),
    };
    let extra: Vec<&String> = matches.get_many("positional").into_iter().flatten().collect();
    if !extra.is_empty() {
        let extra: Vec<&str> = extra.into_iter().map(String::as_str).collect();
        return Read::Wrong(format!("\"kube-scheduler\" does not take any arguments, got {extra:?}"));
    }
    match Flags::parse(&matches) {
        Ok(flags) => Read::Flags(Box::new(flags)),
        Err(why) => Read::Wrong(why),
    }
}

/// Replaces underscores: Go's flag library accepts `--leader_elect` for `--leader-elect`.
fn dashed(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

/// Returns the error in the words of Go's flag library where it has some.
fn plain(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};
    let named = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(arg)) => arg.split([' ', '=']).next().unwrap_or_default().to_owned(),
        _ => String::new(),
    };
    match error.kind() {
        ErrorKind::UnknownArgument if !named.starts_with("--") => format!("unknown shorthand flag: {named}"),
        ErrorKind::UnknownArgument => {
            let meant = similar(named.trim_start_matches('-'), rows().iter().map(|row| row.name));
            let hint = suggestion(meant.map(|flag| format!("--{flag}")).as_deref());
            format!("unknown flag: {named}{hint}")
        }
        // All values are strings, so the only possible error is a missing one.
        ErrorKind::InvalidValue => format!("flag needs an argument: {named}"),
        _ => {
            let text = error.render().to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

impl Row {
    fn arg(&self) -> Arg {
        let help = match self.help.strip_suffix("[default]") {
            Some(help) => format!("{help}[default: {}]", self.default),
            None => self.help.to_owned(),
        };
        let arg = Arg::new(self.name)
            .long(self.name)
            .help(help)
            .help_heading(self.section.title())
            .value_name(self.takes)
            .value_parser(value_parser!(String))
            .allow_hyphen_values(true);
        let arg = match self.repeated {
            true => arg.action(ArgAction::Append),
            false => arg.action(ArgAction::Set).overrides_with(self.name),
        };
        let arg = match self.is_switch {
            true => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            false => arg,
        };
        if self.name == "v" { arg.short('v') } else { arg }
    }
}

#[cfg(test)]
mod tests;
