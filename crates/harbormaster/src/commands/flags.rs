//! The flags of `run`: kube-scheduler's, in one table, and their parser.
//!
//! Two steps: [`read`] parses the arguments into [`FlagValues`]; [`super::run`] decides what they mean.

use std::ffi::OsString;

use clap::{Arg, ArgAction, ArgMatches, Command, error::ErrorKind, value_parser};
use harbormaster_api::{
    quantity::Quantity as Amount,
    similar::{similar, suggestion},
};

use super::metric_limits;

/// Type of a flag's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueType {
    /// `true` or `false`; without a value it is `true`.
    Bool,
    Text,
    /// May be repeated; commas separate entries.
    List,
    Int,
    Float,
    /// `5m0s`.
    Duration,
    /// `10Mi`.
    Quantity,
    /// `key=value`; may be repeated.
    Map,
}

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

struct Flag {
    name: &'static str,
    takes: ValueType,
    section: Section,
    help: &'static str,
}

const fn flag(name: &'static str, takes: ValueType, section: Section, help: &'static str) -> Flag {
    Flag { name, takes, section, help }
}

use Section::{
    Authentication, Authorization, Deprecated, FeatureGates, Global, Harbormaster, LeaderElection, Logs,
    Metrics, Misc, SecureServing,
};
use ValueType::{Bool, Duration, Float, Int, List, Map, Quantity, Text};

/// All flags, in the order of the help.
#[rustfmt::skip] // a table
const FLAGS: &[Flag] = &[
    flag("config", Text, Misc, "The path to the configuration file (KubeSchedulerConfiguration)"),
    flag("master", Text, Misc, "The address of the Kubernetes API server (overrides any value in kubeconfig)"),
    flag("write-config-to", Text, Misc, "Write the configuration with all defaults to this file and exit"),
    flag("parity", Bool, Harbormaster, "Decide exactly as kube-scheduler with parallelism 1: same order of nodes, same sampling, same ties. Without it every feasible node is scored"),
    flag("bind-address", Text, SecureServing, "The address on which to listen for the secure port"),
    flag("secure-port", Int, SecureServing, "The port for HTTPS with authentication and authorization; 0 turns it off [default: 10259]"),
    flag("cert-dir", Text, SecureServing, "The directory where the TLS certificates are located"),
    flag("tls-cert-file", Text, SecureServing, "File containing the x509 certificate for HTTPS"),
    flag("tls-private-key-file", Text, SecureServing, "File containing the private key of --tls-cert-file"),
    flag("tls-cipher-suites", List, SecureServing, "Cipher suites for the server"),
    flag("tls-curve-preferences", List, SecureServing, "Key exchange mechanisms for the server"),
    flag("tls-min-version", Text, SecureServing, "Minimum TLS version"),
    flag("tls-sni-cert-key", List, SecureServing, "Pairs of certificate and key files by domain"),
    flag("http2-max-streams-per-connection", Int, SecureServing, "Limit of streams in an HTTP/2 connection"),
    flag("disable-http2-serving", Bool, SecureServing, "Serve HTTP/1.1 only"),
    flag("permit-port-sharing", Bool, SecureServing, "Use SO_REUSEPORT"),
    flag("permit-address-sharing", Bool, SecureServing, "Accepted, without effect: SO_REUSEADDR is used in any case"),
    flag("authentication-kubeconfig", Text, Authentication, "kubeconfig for creating token reviews"),
    flag("authentication-skip-lookup", Bool, Authentication, "Do not look up missing authentication configuration in the cluster"),
    flag("authentication-token-webhook-cache-ttl", Duration, Authentication, "How long to cache responses to token reviews"),
    flag("authentication-tolerate-lookup-failure", Bool, Authentication, "Go on when authentication configuration cannot be looked up"),
    flag("client-ca-file", Text, Authentication, "Authorities that sign client certificates"),
    flag("requestheader-allowed-names", List, Authentication, "Common names of clients that may set user names in headers"),
    flag("requestheader-client-ca-file", Text, Authentication, "Authorities that sign certificates of such clients"),
    flag("requestheader-extra-headers-prefix", List, Authentication, "Prefixes of request headers"),
    flag("requestheader-group-headers", List, Authentication, "Request headers with groups"),
    flag("requestheader-uid-headers", List, Authentication, "Request headers with UIDs"),
    flag("requestheader-username-headers", List, Authentication, "Request headers with user names"),
    flag("authorization-kubeconfig", Text, Authorization, "kubeconfig for creating subject access reviews"),
    flag("authorization-always-allow-paths", List, Authorization, "Paths that need no authorization"),
    flag("authorization-webhook-cache-authorized-ttl", Duration, Authorization, "How long to cache allowed responses"),
    flag("authorization-webhook-cache-unauthorized-ttl", Duration, Authorization, "How long to cache denied responses"),
    flag("profiling", Bool, Deprecated, "Serve /debug/flags/v on the secure port; there are no profiles"),
    flag("contention-profiling", Bool, Deprecated, "Profile lock contention (accepted, without effect: there are no profiles)"),
    flag("kubeconfig", Text, Deprecated, "Path to a kubeconfig file; if --config names one too, that one is used"),
    flag("kube-api-qps", Float, Deprecated, "Requests to the API server per second; ignored with --config [default: 50]"),
    flag("kube-api-burst", Int, Deprecated, "Requests to the API server in a burst; ignored with --config [default: 100]"),
    flag("kube-api-content-type", Text, Deprecated, "Content type of requests to the API server; JSON is used in any case"),
    flag("pod-max-in-unschedulable-pods-duration", Duration, Deprecated, "After this long without an event that helps, a pending pod is tried again [default: 5m0s]"),
    flag("leader-elect", Bool, LeaderElection, "Elect a leader among replicas, which alone schedules. A scheduler beside another one needs a lease of its own, or this turned off [default: true]"),
    flag("leader-elect-lease-duration", Duration, LeaderElection, "How long standbys respect a lease that they do not see renewed [default: 15s]"),
    flag("leader-elect-renew-deadline", Duration, LeaderElection, "How long the leader schedules without a renewal that comes through; then it ends [default: 10s]"),
    flag("leader-elect-retry-period", Duration, LeaderElection, "Time between tries [default: 2s]"),
    flag("leader-elect-resource-lock", Text, LeaderElection, "Kind of the lock object; only leases [default: leases]"),
    flag("leader-elect-resource-name", Text, LeaderElection, "Name of the lock object [default: kube-scheduler]"),
    flag("leader-elect-resource-namespace", Text, LeaderElection, "Namespace of the lock object [default: kube-system]"),
    flag("feature-gates", List, FeatureGates, "Comma-separated list of pairs: Gate=true,Other=false"),
    flag("emulated-version", List, FeatureGates, "Have the feature gates of an older version of Kubernetes, with their defaults: kube=1.33..1.36 [default: 1.36]"),
    flag("min-compatibility-version", List, FeatureGates, "Oldest version of the control plane to be compatible with: kube=1.33..1.36, at most the emulated one. It is checked and shown, and nothing depends on it [default: 1.35]"),
    flag("show-hidden-metrics-for-version", Text, Metrics, "Show metrics hidden since that version: only 1.35 may be asked for, and nothing is hidden"),
    flag("disabled-metrics", List, Metrics, "Names of metrics that are not shown"),
    flag("allow-metric-labels", Map, Metrics, "Allowed values of a label, metric,label=value,value; others are shown as unexpected"),
    flag("allow-metric-labels-manifest", Text, Metrics, "File that maps \"metric,label\" to \"value,value\", in place of --allow-metric-labels"),
    flag("logging-format", Text, Logs, "text or json [default: text]"),
    flag("v", Int, Logs, "Verbosity of the log: 2 usual, 3 attempts, 4 rejections, 5 queue, 10 scores [default: 0]"),
    flag("vmodule", List, Logs, "Verbosity by file (accepted, without effect)"),
    flag("log-flush-frequency", Duration, Logs, "How often buffered log lines are written [default: 5s]"),
    flag("log-text-split-stream", Bool, Logs, "In text format, write errors and warnings to stderr and the rest to stdout. Needs the gate LoggingAlphaOptions"),
    flag("log-text-info-buffer-size", Quantity, Logs, "In text format with split streams, how many bytes for stdout are buffered. Needs the gate LoggingAlphaOptions [default: 0]"),
    flag("log-json-split-stream", Bool, Logs, "In JSON format, write errors to stderr and the rest to stdout. Needs the gate LoggingAlphaOptions"),
    flag("log-json-info-buffer-size", Quantity, Logs, "In JSON format with split streams, how many bytes for stdout are buffered. Needs the gate LoggingAlphaOptions [default: 0]"),
    flag("version", Text, Global, "--version, --version=raw: print version information and quit"),
];

/// Defaults other than the type's zero value.
const DEFAULTS: [(&str, &str); 30] = [
    ("authentication-token-webhook-cache-ttl", "10s"),
    ("authentication-tolerate-lookup-failure", "true"),
    ("authorization-always-allow-paths", "[/healthz,/readyz,/livez]"),
    ("authorization-webhook-cache-authorized-ttl", "10s"),
    ("authorization-webhook-cache-unauthorized-ttl", "10s"),
    ("bind-address", "0.0.0.0"),
    ("contention-profiling", "true"),
    ("feature-gates", ""),
    ("kube-api-burst", "100"),
    ("kube-api-content-type", "application/vnd.kubernetes.protobuf"),
    ("kube-api-qps", "50"),
    ("leader-elect", "true"),
    ("leader-elect-lease-duration", "15s"),
    ("leader-elect-renew-deadline", "10s"),
    ("leader-elect-resource-lock", "leases"),
    ("leader-elect-resource-name", "kube-scheduler"),
    ("leader-elect-resource-namespace", "kube-system"),
    ("leader-elect-retry-period", "2s"),
    ("log-flush-frequency", "5s"),
    ("log-json-info-buffer-size", "0"),
    ("log-text-info-buffer-size", "0"),
    ("logging-format", "text"),
    ("pod-max-in-unschedulable-pods-duration", "5m0s"),
    ("profiling", "true"),
    ("requestheader-extra-headers-prefix", "[x-remote-extra-]"),
    ("requestheader-group-headers", "[x-remote-group]"),
    ("requestheader-username-headers", "[x-remote-user]"),
    ("secure-port", "10259"),
    ("version", "false"),
    ("vmodule", ""),
];

/// The flags of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct FlagValues {
    matches: ArgMatches,
}

/// Result of [`read`].
#[derive(Debug)]
pub(crate) enum Read {
    /// Flags to run with.
    Flags(FlagValues),
    /// Help to print before a successful end.
    Print(String),
    /// The arguments are wrong, for this reason.
    Wrong(String),
}

/// The subcommand, for help and parsing.
pub(crate) fn command(name: &str) -> Command {
    let args = FLAGS.iter().map(Flag::arg);
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
    let given = FlagValues { matches };
    match FLAGS.iter().find_map(|flag| flag.check(&given)) {
        Some(wrong) => Read::Wrong(wrong),
        None => Read::Flags(given),
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
            let meant = similar(named.trim_start_matches('-'), FLAGS.iter().map(|flag| flag.name));
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

impl Flag {
    fn arg(&self) -> Arg {
        let arg = Arg::new(self.name)
            .long(self.name)
            .help(self.help)
            .help_heading(self.section.title())
            .value_parser(value_parser!(String))
            .allow_hyphen_values(true);
        let arg = match self.takes {
            ValueType::Bool => {
                let arg = arg.num_args(0..=1).require_equals(true).default_missing_value("true");
                arg.action(ArgAction::Set).overrides_with(self.name).value_name("bool")
            }
            ValueType::List | ValueType::Map => arg.action(ArgAction::Append).value_name(self.takes.name()),
            takes => arg.action(ArgAction::Set).overrides_with(self.name).value_name(takes.name()),
        };
        match self.name {
            "v" => arg.short('v'),
            "version" => arg.num_args(0..=1).require_equals(true).default_missing_value("true"),
            _ => arg,
        }
    }

    fn value(&self, given: &FlagValues) -> String {
        let Some(text) = given.text(self.name) else {
            let default = DEFAULTS.iter().find(|(name, _)| *name == self.name).map(|(_, value)| *value);
            return default.unwrap_or(self.takes.zero()).to_owned();
        };
        match self.takes {
            ValueType::Bool => boolean(text).unwrap_or_default().to_string(),
            ValueType::List | ValueType::Map => {
                let all: Vec<&str> = given.list(self.name).collect();
                format!("[{}]", all.join(","))
            }
            ValueType::Duration => given
                .parsed::<harbormaster_api::args::GoDuration>(self.name)
                .map_or_else(|| text.to_owned(), |duration| duration.to_string()),
            ValueType::Text | ValueType::Int | ValueType::Float | ValueType::Quantity => text.to_owned(),
        }
    }

    /// Returns the error about the first value of the wrong type.
    fn check(&self, given: &FlagValues) -> Option<String> {
        let values = given.matches.get_many::<String>(self.name)?;
        values.into_iter().find_map(|value| {
            let why = self.takes.problem(value)?;
            let dashes = if self.name == "v" { "-v, --" } else { "--" };
            Some(format!("invalid argument {value:?} for \"{dashes}{}\" flag: {why}", self.name))
        })
    }
}

impl ValueType {
    const fn name(self) -> &'static str {
        match self {
            Self::Bool => "bool",
            Self::Text => "string",
            Self::List => "list",
            Self::Int => "int",
            Self::Float => "float",
            Self::Duration => "duration",
            Self::Quantity => "quantity",
            Self::Map => "map",
        }
    }

    /// Returns the default of flags that have no other.
    const fn zero(self) -> &'static str {
        match self {
            Self::Bool => "false",
            Self::Text => "",
            Self::List | Self::Map => "[]",
            Self::Int | Self::Float | Self::Quantity => "0",
            Self::Duration => "0s",
        }
    }

    /// Returns the error about a value, in the words of Go's parsers.
    fn problem(self, value: &str) -> Option<String> {
        let invalid = |parser: &str| Some(format!("strconv.{parser}: parsing {value:?}: invalid syntax"));
        match self {
            Self::Bool => boolean(value).is_none().then(|| invalid("ParseBool")).flatten(),
            Self::Int => value.parse::<i32>().err().and_then(|_| invalid("ParseInt")),
            Self::Float => value.parse::<f32>().err().and_then(|_| invalid("ParseFloat")),
            Self::Duration => {
                value.parse::<harbormaster_api::args::GoDuration>().err().map(|e| e.to_string())
            }
            Self::Quantity => value.parse::<Amount>().err().map(|error| error.problem.to_string()),
            Self::Map => metric_limits::pairs(value).err(),
            Self::Text | Self::List => None,
        }
    }
}

/// Parses a boolean as Go's `strconv.ParseBool` does.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}

impl FlagValues {
    /// Returns the text of a flag, if it was given.
    pub(crate) fn text(&self, flag: &str) -> Option<&str> {
        self.matches.get_one::<String>(flag).map(String::as_str)
    }

    /// Returns the entries of a flag that may be repeated.
    pub(crate) fn list(&self, flag: &str) -> impl Iterator<Item = &str> {
        self.matches.get_many::<String>(flag).into_iter().flatten().map(String::as_str)
    }

    /// Returns the value of a flag of a type that [`read`] has checked.
    pub(crate) fn parsed<T: std::str::FromStr>(&self, flag: &str) -> Option<T> {
        self.text(flag)?.parse().ok()
    }

    /// Returns the value of a switch, if it was given.
    pub(crate) fn switch(&self, flag: &str) -> Option<bool> {
        self.text(flag).and_then(boolean)
    }

    /// Returns all flags with their values, given or default, in the format of Go's flags; sorted by name.
    pub(crate) fn values(&self) -> Vec<(&'static str, String)> {
        let mut values: Vec<_> = FLAGS.iter().map(|flag| (flag.name, flag.value(self))).collect();
        values.sort_unstable();
        values
    }

    /// Returns those of these flags that were given.
    pub(crate) fn given_of(&self, flags: &[&str]) -> Vec<String> {
        flags.iter().filter(|f| self.text(f).is_some()).map(|f| format!("--{f}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeMap, process::Command};

    use harbormaster_oracle::components::RealBinary;

    use super::*;

    fn given(args: &[&str]) -> FlagValues {
        match read("run", args.iter().map(OsString::from)) {
            Read::Flags(given) => given,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    fn wrong(args: &[&str]) -> String {
        match read("run", args.iter().map(OsString::from)) {
            Read::Wrong(why) => why,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn the_command_is_well_formed_and_no_flag_is_named_twice() {
        command("run").debug_assert();
        let mut names: Vec<_> = FLAGS.iter().map(|f| f.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), FLAGS.len());
    }

    #[test]
    fn flags_are_read_as_kube_scheduler_reads_them() {
        for (args, flag, expected) in [
            (&["--leader-elect"][..], "leader-elect", Some("true")),
            (&["--leader-elect=false"], "leader-elect", Some("false")),
            (&["--leader_elect=f"], "leader-elect", Some("f")),
            (&["--leader-elect", "--v=2"], "v", Some("2")),
            (&["-v4"], "v", Some("4")),
            (&["-v=4"], "v", Some("4")),
            (&["-v", "4"], "v", Some("4")),
            (&["--v", "4"], "v", Some("4")),
            (&["--kube_api_qps=7.5"], "kube-api-qps", Some("7.5")),
            (&["--kube-api-qps", "-1"], "kube-api-qps", Some("-1")),
            (&["--config=a=b_c"], "config", Some("a=b_c")),
            (&["--config", "a", "--config", "b"], "config", Some("b")),
            (&["--version"], "version", Some("true")),
            (&["--version=raw"], "version", Some("raw")),
            (&[], "config", None),
        ] {
            assert_eq!(given(args).text(flag), expected, "{args:?}");
        }
        let gates = given(&["--feature-gates=A=true,B=false", "--feature-gates", "C=true"]);
        assert_eq!(gates.list("feature-gates").collect::<Vec<_>>(), ["A=true,B=false", "C=true"]);
        assert_eq!(given(&["--parity"]).switch("parity"), Some(true));
        assert_eq!(given(&["--leader-elect=F"]).switch("leader-elect"), Some(false));
    }

    #[test]
    fn wrong_flags_are_refused_in_the_words_of_kube_scheduler() {
        for (args, expected) in [
            (&["--nonsense"][..], "unknown flag: --nonsense"),
            (&["--leader-elekt"], "unknown flag: --leader-elekt (did you mean `--leader-elect`?)"),
            (&["-x"], "unknown shorthand flag: -x"),
            (&["a", "b"], "\"kube-scheduler\" does not take any arguments, got [\"a\", \"b\"]"),
            (&["--leader-elect", "false"], "\"kube-scheduler\" does not take any arguments, got [\"false\"]"),
            (
                &["--kube-api-burst=x"],
                "invalid argument \"x\" for \"--kube-api-burst\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            (
                &["-v=x"],
                "invalid argument \"x\" for \"-v, --v\" flag: strconv.ParseInt: parsing \"x\": invalid syntax",
            ),
            (
                &["--parity=maybe"],
                "invalid argument \"maybe\" for \"--parity\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax",
            ),
            (
                &["--log-text-info-buffer-size=x"],
                "invalid argument \"x\" for \"--log-text-info-buffer-size\" flag: quantities must match the regular \
                 expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
            ),
            (
                &["--allow-metric-labels=x"],
                "invalid argument \"x\" for \"--allow-metric-labels\" flag: x must be formatted as key=value",
            ),
            (&["--config"], "flag needs an argument: --config"),
        ] {
            assert_eq!(wrong(args), expected, "{args:?}");
        }
        let duration = wrong(&["--leader-elect-retry-period=soon"]);
        assert!(
            duration.starts_with("invalid argument \"soon\" for \"--leader-elect-retry-period\" flag: "),
            "{duration}"
        );
    }

    #[test]
    fn the_arguments_of_kubeadm_are_accepted() {
        let kubeadm = given(&[
            "--authentication-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--authorization-kubeconfig=/etc/kubernetes/scheduler.conf",
            "--bind-address=127.0.0.1",
            "--kubeconfig=/etc/kubernetes/scheduler.conf",
            "--leader-elect=true",
            "--vmodule=a=1",
        ]);
        assert_eq!(kubeadm.text("kubeconfig"), Some("/etc/kubernetes/scheduler.conf"));
    }

    /// Returns the flags of the real kube-scheduler with the defaults in its help, which omits zero values.
    fn real_flags() -> BTreeMap<String, Option<String>> {
        let real = RealBinary::ensure().unwrap();
        let help = Command::new(real.path()).args(["kube-scheduler", "--help"]).output().unwrap();
        let help = String::from_utf8(help.stdout).unwrap();
        let (mut texts, mut flag): (BTreeMap<String, String>, _) = (BTreeMap::new(), String::new());
        for line in help.lines().map(str::trim_end) {
            let indent = line.len() - line.trim_start().len();
            let named = line.trim_start().trim_start_matches("-v, ").trim_start_matches("-h, ");
            if !line.is_empty() && indent <= 6 {
                let name = named.strip_prefix("--").unwrap_or_default().split([' ', '=']).next();
                flag = name.unwrap_or_default().to_owned();
            }
            texts.entry(flag.clone()).or_default().push_str(line);
        }
        texts.retain(|flag, _| !["", "help"].contains(&flag.as_str()));
        let default = |text: String| {
            let (_, default) = text.rsplit_once("(default ")?;
            Some(default.strip_suffix(')')?.trim_matches('"').to_owned())
        };
        texts.into_iter().map(|(flag, text)| (flag, default(text))).collect()
    }

    #[test]
    fn every_flag_of_kube_scheduler_is_there_with_its_default() {
        let (real, ours) = (real_flags(), given(&[]).values());
        assert!(real.len() > 50, "{real:?}");
        for (flag, default) in real {
            let found = ours.iter().find(|(name, _)| *name == flag);
            let (_, value) = found.unwrap_or_else(|| panic!("--{flag} is not there"));
            match default {
                Some(default) => assert_eq!(*value, default, "--{flag}"),
                None => {
                    assert!(["", "0", "0s", "[]", "false"].contains(&value.as_str()), "--{flag}: {value}");
                }
            }
        }
    }

    #[test]
    fn help_is_grouped_and_names_exit_codes() {
        let Read::Print(help) = read("run", ["--help".into()]) else { panic!() };
        assert!(!help.contains('\u{1b}'));
        for expected in ["Secure serving flags:", "Leader election flags:", "--parity", "Exit codes"] {
            assert!(help.contains(expected), "{expected}");
        }
    }
}
