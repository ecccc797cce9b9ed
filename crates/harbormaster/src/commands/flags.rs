//! The flags of `run`: a table of all flags, most of which are kube-scheduler's, and their parser.
//!
//! From the table, a macro generates the struct [`Flags`], the list for `/flagz`, and the command with its help, manual
//! page and completions. [`read`] parses the arguments; [`super::run`] interprets them.

mod types;

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind, value_parser};
use harbormaster_api::{
    args::GoDuration,
    quantity::Quantity,
    similar::{similar, suggestion},
};
use harbormaster_config::FeatureGates;

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

/// A command-line flag with its value.
#[derive(Clone, Debug)]
pub(crate) struct Flag<T> {
    name: &'static str,
    value: T,
    is_given: bool,
}

impl<T: FlagType> Flag<T> {
    /// Returns the value, which is the default if the flag was not given.
    pub(crate) fn get(&self) -> &T {
        &self.value
    }

    /// Returns the value if the flag was given.
    pub(crate) fn given(&self) -> Option<&T> {
        self.is_given.then_some(&self.value)
    }

    /// Returns the flag's name with its dashes, if the flag was given.
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

/// A line of the table in the form needed to build the command.
struct Row {
    name: &'static str,
    section: Section,
    /// Help text. A `[default]` at its end is replaced by the default value.
    help: &'static str,
    default: String,
    /// Name of the value's type.
    takes: &'static str,
    repeated: bool,
    /// True if a flag without a value means `true`.
    is_switch: bool,
}

impl Row {
    fn of<T: FlagType>(name: &'static str, section: Section, default: &T, help: &'static str) -> Self {
        let (takes, repeated, is_switch) = (T::NAME, T::REPEATED, T::IS_SWITCH);
        Self { name, section, help, default: default.show(), takes, repeated, is_switch }
    }
}

/// Generates the flags from lines of the form `field: type = default, name, help`. The help lists the flags in the same
/// order.
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
            /// Names the first flag, in the order of the table, whose value is invalid.
            fn parse(matches: &ArgMatches) -> Result<Self, String> {
                Ok(Self { $($($field: Flag::parse($name, $default.into(), matches)?,)*)* })
            }

            /// Returns all flags, sorted by name, with their given or default values in the format of Go's flags.
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
        parity: bool = false, "parity", "Decide exactly as kube-scheduler does with parallelism 1: same node order, same sampling, same tie-breaking. Without this flag, every feasible node is scored";
        record: String = "", "record", "Record inputs, configuration and decisions in this directory, for the command replay";
        record_max_size: Quantity = Quantity::from_binary_units(256 << 20), "record-max-size", "Maximum size of all files of the recording; the oldest ones are deleted [default]";
        record_max_age: GoDuration = seconds(24 * 3600), "record-max-age", "Age after which a file of the recording is deleted [default]";
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
        http2_max_streams_per_connection: i32 = 0, "http2-max-streams-per-connection", "Maximum number of streams per HTTP/2 connection";
        disable_http2_serving: bool = false, "disable-http2-serving", "Serve HTTP/1.1 only";
        permit_port_sharing: bool = false, "permit-port-sharing", "Use SO_REUSEPORT";
        permit_address_sharing: bool = false, "permit-address-sharing", "Accepted, but has no effect: SO_REUSEADDR is always used";
    }
    Authentication {
        authentication_kubeconfig: String = "", "authentication-kubeconfig", "kubeconfig for creating token reviews";
        authentication_skip_lookup: bool = false, "authentication-skip-lookup", "Do not look up missing authentication configuration in the cluster";
        authentication_token_webhook_cache_ttl: GoDuration = seconds(10), "authentication-token-webhook-cache-ttl", "How long to cache responses to token reviews";
        authentication_tolerate_lookup_failure: bool = true, "authentication-tolerate-lookup-failure", "Continue if authentication configuration cannot be looked up";
        client_ca_file: String = "", "client-ca-file", "Authorities that sign client certificates";
        requestheader_allowed_names: List = [], "requestheader-allowed-names", "Common names of clients that may set user names in headers";
        requestheader_client_ca_file: String = "", "requestheader-client-ca-file", "Authorities that sign the certificates of clients that may set user names in headers";
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
        contention_profiling: bool = true, "contention-profiling", "Profile lock contention (accepted, but has no effect: there are no profiles)";
        kubeconfig: String = "", "kubeconfig", "Path to a kubeconfig file; a kubeconfig named in the --config file takes precedence";
        kube_api_qps: f32 = 50.0, "kube-api-qps", "Maximum number of requests to the API server per second; ignored with --config [default]";
        kube_api_burst: i32 = 100, "kube-api-burst", "Maximum number of requests to the API server in a burst; ignored with --config [default]";
        kube_api_content_type: String = "application/vnd.kubernetes.protobuf", "kube-api-content-type", "Content type of objects that are sent to the API server and received from it. With application/json, nothing is in protobuf";
        pod_max_in_unschedulable_pods_duration: GoDuration = seconds(300), "pod-max-in-unschedulable-pods-duration", "How long a pod may stay unschedulable before it is retried even without an event that could help it [default]";
    }
    LeaderElection {
        leader_elect: bool = true, "leader-elect", "Elect a leader among replicas; only the leader schedules. A scheduler that runs next to another one needs its own lease, or no leader election [default]";
        leader_elect_lease_duration: GoDuration = seconds(15), "leader-elect-lease-duration", "How long standbys respect a lease that is not being renewed [default]";
        leader_elect_renew_deadline: GoDuration = seconds(10), "leader-elect-renew-deadline", "How long the leader keeps scheduling without a successful renewal before it exits [default]";
        leader_elect_retry_period: GoDuration = seconds(2), "leader-elect-retry-period", "Interval between attempts to acquire or renew the lease [default]";
        leader_elect_resource_lock: String = "leases", "leader-elect-resource-lock", "Resource of the lock object; only leases are supported [default]";
        leader_elect_resource_name: String = "kube-scheduler", "leader-elect-resource-name", "Name of the lock object [default]";
        leader_elect_resource_namespace: String = "kube-system", "leader-elect-resource-namespace", "Namespace of the lock object [default]";
    }
    FeatureGates {
        feature_gates: Settings = [], "feature-gates", "Comma-separated list of pairs: Gate=true,Other=false";
        emulated_version: List = [], "emulated-version", "Version of Kubernetes whose kube-scheduler is reproduced: kube=1.33..1.37. Versions before 1.36 differ from 1.36 only in their feature gates. Without this flag, the scheduler follows the version of the API server";
        min_compatibility_version: List = [], "min-compatibility-version", "Oldest control plane version to be compatible with: kube=1.33..1.37, at most the emulated version. Validated and shown, but has no other effect [default: the version before the emulated one]";
    }
    Metrics {
        show_hidden_metrics_for_version: String = "", "show-hidden-metrics-for-version", "Show the metrics that the emulated version hides; only the version before it is accepted";
        disabled_metrics: List = [], "disabled-metrics", "Names of metrics to disable";
        allow_metric_labels: LabelValues = LabelValues::default(), "allow-metric-labels", "Allowed values of a label, as metric,label=value,value; other values are shown as unexpected";
        allow_metric_labels_manifest: String = "", "allow-metric-labels-manifest", "File that maps \"metric,label\" to \"value,value\", instead of --allow-metric-labels";
    }
    Logs {
        logging_format: String = "text", "logging-format", "text or json [default]";
        v: i32 = 0, "v", "Verbosity of the log: 2 usual, 3 attempts, 4 rejections, 5 queue, 10 scores [default]";
        vmodule: Settings = [], "vmodule", "Verbosity by file (accepted, but has no effect)";
        log_flush_frequency: GoDuration = seconds(5), "log-flush-frequency", "How often buffered log lines are written [default]";
        log_text_split_stream: bool = false, "log-text-split-stream", "In text format, write errors and warnings to stderr and the rest to stdout. Requires the LoggingAlphaOptions feature gate";
        log_text_info_buffer_size: Quantity = Quantity::default(), "log-text-info-buffer-size", "In text format with split streams, how many bytes to buffer for stdout. Requires the LoggingAlphaOptions feature gate [default]";
        log_json_split_stream: bool = false, "log-json-split-stream", "In JSON format, write errors to stderr and the rest to stdout. Requires the LoggingAlphaOptions feature gate";
        log_json_info_buffer_size: Quantity = Quantity::default(), "log-json-info-buffer-size", "In JSON format with split streams, how many bytes to buffer for stdout. Requires the LoggingAlphaOptions feature gate [default]";
    }
    Global {
        version: VersionRequest = VersionRequest::None, "version", "--version, --version=raw: print version information and quit";
    }
}

const fn seconds(seconds: i64) -> GoDuration {
    GoDuration::from_secs(seconds)
}

impl Flags {
    /// Returns the names of the client flags that were given. A configuration file overrides them.
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
    /// Help to print before exiting successfully.
    Print(String),
    /// The arguments are invalid, for this reason.
    Wrong(String),
}

/// Returns the subcommand, for help and parsing.
pub(crate) fn command(name: &str) -> Command {
    let args = rows().iter().map(Row::arg).collect::<Vec<_>>();
    Command::new(name.to_owned())
        .about("Schedule the pods of a cluster, in place of kube-scheduler")
        .long_about(
            "Schedule the pods of a cluster, in place of kube-scheduler. Takes the flags of kube-scheduler v1.36 and \
             v1.37.",
        )
        .after_help("Exit codes: 0 stopped by SIGTERM or SIGINT; 1 any error, or the lease was lost.")
        .disable_version_flag(true)
        .next_line_help(true)
        .args(args)
        .arg(Arg::new("positional").num_args(0..).hide(true).value_parser(value_parser!(String)))
}

/// Reads the arguments that follow the name of the command.
pub(crate) fn read(name: &str, args: impl IntoIterator<Item = OsString>) -> Read {
    match read_with(command(name), args) {
        Ok((flags, _)) => Read::Flags(flags),
        Err(other) => other,
    }
}

/// Reads the arguments of a command that has the flags of [`command`] and others. The matches contain the others.
///
/// # Errors
/// What is to be done instead of running the command.
pub(crate) fn read_with(
    command: Command,
    args: impl IntoIterator<Item = OsString>,
) -> Result<(Box<Flags>, ArgMatches), Read> {
    let args = args.into_iter().map(dashed);
    let matches = match command.no_binary_name(true).try_get_matches_from(args) {
        Ok(matches) => matches,
        Err(error) if error.kind() == ErrorKind::DisplayHelp => {
            return Err(Read::Print(error.render().to_string()));
        }
        Err(error) => return Err(Read::Wrong(plain(&error))),
    };
    let extra: Vec<&String> = matches.get_many("positional").into_iter().flatten().collect();
    if !extra.is_empty() {
        let extra: Vec<&str> = extra.into_iter().map(String::as_str).collect();
        let why = format!("\"kube-scheduler\" does not take any arguments, got {extra:?}");
        return Err(Read::Wrong(why));
    }
    match Flags::parse(&matches) {
        Ok(flags) => Ok((Box::new(flags), matches)),
        Err(why) => Err(Read::Wrong(why)),
    }
}

/// Replaces underscores in the flag's name with dashes: kube-scheduler accepts `--leader_elect` for `--leader-elect`.
fn dashed(arg: OsString) -> OsString {
    let Some(text) = arg.to_str().filter(|text| text.starts_with("--")) else { return arg };
    match text.split_once('=') {
        Some((name, value)) => format!("{}={value}", name.replace('_', "-")).into(),
        None => text.replace('_', "-").into(),
    }
}

/// Returns the error in the style of Go's flag library, or the first line of clap's message if Go's library has no
/// counterpart.
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
        // To clap, all values are strings, so the only possible error is a missing value.
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
        match self.name {
            "v" => arg.short('v'),
            "feature-gates" => {
                arg.long_help(format!("{}. Options are:\n{}", self.help, FeatureGates::help().join("\n")))
            }
            _ => arg,
        }
    }
}

#[cfg(test)]
mod tests;
