use std::{collections::BTreeMap, process::Command};

use harbormaster_api::Release;
use harbormaster_config::KubeSchedulerConfiguration;
use harbormaster_oracle::components::RealBinary;

use super::*;
use crate::commands::secure_port;

fn given(args: &[&str]) -> Box<Flags> {
    match read("run", args.iter().map(OsString::from)) {
        Read::Flags(given) => given,
        other => panic!("{args:?}: {other:?}"),
    }
}

/// Returns the value of a flag as `/flagz` shows it.
fn shown(flags: &Flags, flag: &str) -> String {
    let found = flags.values().into_iter().find(|(name, _)| *name == flag);
    found.unwrap_or_else(|| panic!("--{flag}")).1
}

fn wrong(args: &[&str]) -> String {
    match read("run", args.iter().map(OsString::from)) {
        Read::Wrong(why) => why,
        other => panic!("{args:?}: {other:?}"),
    }
}

#[test]
fn the_command_is_well_formed_and_no_flag_is_defined_twice() {
    command("run").debug_assert();
    let mut names: Vec<_> = rows().iter().map(|row| row.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), rows().len());
}

#[test]
fn flags_are_parsed_as_kube_scheduler_parses_them() {
    for (args, flag, expected) in [
        (&["--leader-elect"][..], "leader-elect", "true"),
        (&["--leader-elect=false"], "leader-elect", "false"),
        (&["--leader_elect=f"], "leader-elect", "false"),
        (&["--leader-elect", "--v=2"], "v", "2"),
        (&["-v4"], "v", "4"),
        (&["-v=4"], "v", "4"),
        (&["-v", "4"], "v", "4"),
        (&["--v", "4"], "v", "4"),
        (&["--kube_api_qps=7.5"], "kube-api-qps", "7.5"),
        (&["--kube-api-qps", "-1"], "kube-api-qps", "-1"),
        (&["--config=a=b_c"], "config", "a=b_c"),
        (&["--config", "a", "--config", "b"], "config", "b"),
        (&["--version"], "version", "true"),
        (&["--version=raw"], "version", "raw"),
        (&[], "config", ""),
    ] {
        assert_eq!(shown(&given(args), flag), expected, "{args:?}");
    }
    let gates = given(&["--feature-gates=A=true,B=false", "--feature-gates", "C=true"]);
    assert_eq!(gates.feature_gates.get().texts().collect::<Vec<_>>(), ["A=true,B=false", "C=true"]);
    assert_eq!(given(&["--parity"]).parity.given(), Some(&true));
    assert_eq!(given(&["--leader-elect=F"]).leader_elect.given(), Some(&false));
    assert_eq!(given(&[]).leader_elect.given(), None);
}

#[test]
fn values_are_formatted_as_go_formats_them() {
    for (args, flag, expected) in [
        (&["--leader-elect-retry-period=90s"][..], "leader-elect-retry-period", "1m30s"),
        (&["--kube-api-qps=7.50"], "kube-api-qps", "7.5"),
        (&["--log-text-info-buffer-size=1Ki"], "log-text-info-buffer-size", "1Ki"),
        (
            &["--emulated-version=1.35", "--emulated-version=kube=1.34"],
            "emulated-version",
            "[1.35,kube=1.34]",
        ),
        (
            &["--feature-gates=A=true,B=false", "--feature-gates=C=true"],
            "feature-gates",
            "A=true,B=false,C=true",
        ),
        (&["--allow-metric-labels=a,b=c,d"], "allow-metric-labels", "[a,b=c,d]"),
        (&["--version=raw"], "version", "raw"),
    ] {
        assert_eq!(shown(&given(args), flag), expected, "{args:?}");
    }
}

#[test]
fn defaults_equal_those_of_the_configuration_and_of_the_port() {
    let (flags, config) = (given(&[]), KubeSchedulerConfiguration::default_config());
    let (client, lease) = (&config.client_connection, &config.leader_election);
    assert_eq!((flags.kube_api_qps.get(), flags.kube_api_burst.get()), (&client.qps, &client.burst));
    assert_eq!(flags.kube_api_content_type.get(), &client.content_type);
    assert_eq!(flags.profiling.get(), &config.enable_profiling);
    assert_eq!(flags.contention_profiling.get(), &config.enable_contention_profiling);
    assert_eq!(flags.leader_elect.get(), &lease.leader_elect);
    assert_eq!(flags.leader_elect_lease_duration.get(), &lease.lease_duration);
    assert_eq!(flags.leader_elect_renew_deadline.get(), &lease.renew_deadline);
    assert_eq!(flags.leader_elect_retry_period.get(), &lease.retry_period);
    assert_eq!(flags.leader_elect_resource_lock.get(), &lease.resource_lock);
    assert_eq!(flags.leader_elect_resource_name.get(), &lease.resource_name);
    assert_eq!(flags.leader_elect_resource_namespace.get(), &lease.resource_namespace);
    let port = secure_port::options(&flags).unwrap().unwrap();
    assert_eq!(format!("{port:?}"), format!("{:?}", harbormaster_port::Options::default()));
}

#[test]
fn invalid_flags_are_rejected_with_messages_like_kube_schedulers() {
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
    assert_eq!(kubeadm.kubeconfig.get(), "/etc/kubernetes/scheduler.conf");
}

/// Returns the flags of the real kube-scheduler with the defaults that its help shows. The help omits zero values.
fn real_flags() -> BTreeMap<String, Option<String>> {
    let real = RealBinary::ensure(Release::V1_36).unwrap();
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
fn every_flag_of_kube_scheduler_exists_with_the_same_default() {
    let (real, ours) = (real_flags(), given(&[]).values());
    assert!(real.len() > 50, "{real:?}");
    for (flag, default) in real {
        let found = ours.iter().find(|(name, _)| *name == flag);
        let (_, value) = found.unwrap_or_else(|| panic!("--{flag} does not exist"));
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
    let gate = "StorageCapacityScoring=true|false (1.36: ALPHA - default=false; 1.37: BETA - default=true)";
    for expected in ["Secure serving flags:", "Leader election flags:", "--parity", gate, "Exit codes"] {
        assert!(help.contains(expected), "{expected}");
    }
}
