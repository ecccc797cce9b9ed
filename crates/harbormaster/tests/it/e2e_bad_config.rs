//! Invalid input makes the program exit with code 1 and a message that names file, line and field.

use std::{fs, time::Duration};

use crate::e2e::process::run_to_end;

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// Runs the program with `text` in the file `name`, and returns the error message.
fn refused(name: &str, text: &str, args: &[&str]) -> String {
    let directory = tempfile::tempdir().expect("a temporary directory");
    fs::write(directory.path().join(name), text).expect("the file is written");
    let (code, errors) = run_to_end(args, directory.path(), Duration::from_secs(20));
    assert_eq!(code, Some(1), "{text}\n{errors}");
    assert!(!errors.contains("panicked"), "{text}\n{errors}");
    errors
}

fn refused_config(text: &str) -> String {
    // Nothing listens on this port: an invalid configuration must be reported before the scheduler connects.
    refused("c.yaml", text, &["run", "--config=c.yaml", "--master=http://127.0.0.1:1"])
}

#[test]
fn an_invalid_configuration_is_rejected_with_file_line_and_field() {
    for (what, text, expected) in [
        (
            "wrong type",
            "parallelism: many\n",
            "c.yaml:3:14: parallelism: cannot unmarshal string into type int32",
        ),
        (
            "unknown field",
            "profiles:\n- schedulerName: a\n  pluginz: {}\n",
            "Error: c.yaml:5:3: unknown field \"profiles[0].pluginz\" (did you mean `plugins`?)",
        ),
        (
            "unknown plugin",
            "profiles:\n- schedulerName: a\n  plugins:\n    filter:\n      enabled:\n      - name: Nonsense\n",
            "c.yaml:8:9: initializing profiles: creating profile for scheduler name a: FilterPlugin \"Nonsense\" does not exist",
        ),
        (
            "two queue sorts in a profile",
            "profiles:\n- schedulerName: a\n  plugins:\n    queueSort:\n      enabled:\n      - name: PrioritySort\n      - name: PrioritySort\n",
            "c.yaml:6:5: profiles[0].plugins.queueSort.Enabled: Invalid value: 2: only one queue sort plugin can be enabled",
        ),
        (
            "no queue sort",
            "profiles:\n- schedulerName: a\n  plugins:\n    multiPoint:\n      disabled: [{name: PrioritySort}]\n",
            "c.yaml:5:3: initializing profiles: creating profile for scheduler name a: only one queue sort plugin required for profile with scheduler name \"a\", but got 0",
        ),
        (
            "different queue sorts in two profiles",
            "profiles:\n- schedulerName: a\n- schedulerName: b\n  plugins:\n    queueSort:\n      disabled: [{name: '*'}]\n      enabled: [{name: NodeName}]\n",
            "c.yaml:7:5: profiles[1].plugins.queueSort: Invalid value: ",
        ),
        (
            "duplicate profile",
            "profiles:\n- schedulerName: a\n- schedulerName: a\n",
            "c.yaml:5:3: profiles[1].schedulerName: Duplicate value: ",
        ),
        (
            "wrong type in plugin arguments",
            "profiles:\n- schedulerName: a\n  pluginConfig:\n  - name: NodeResourcesFit\n    args:\n      scoringStrategy: {resources: [{name: cpu, weight: heavy}]}\n",
            "c.yaml:8:57: decoding .profiles[0].pluginConfig[0]: decoding args for plugin NodeResourcesFit: scoringStrategy.resources[0].weight: cannot unmarshal string into type int64",
        ),
        (
            "extender without a weight",
            "extenders:\n- urlPrefix: http://127.0.0.1:1\n  prioritizeVerb: prioritize\n",
            "c.yaml:4:3: extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
        ),
        ("not YAML", "profiles: [\n- x: }\n", "c.yaml:4:"),
    ] {
        let errors = refused_config(&format!("{HEAD}{text}"));
        assert!(errors.contains(expected), "{what}: {expected} is not in\n{errors}");
    }
}

#[test]
fn an_old_version_is_rejected_with_advice() {
    for version in ["v1alpha1", "v1beta1", "v1beta2", "v1beta3"] {
        let text =
            format!("apiVersion: kubescheduler.config.k8s.io/{version}\nkind: KubeSchedulerConfiguration\n");
        let errors = refused_config(&text);
        for part in ["c.yaml:1:1: ", version, "use \"apiVersion: kubescheduler.config.k8s.io/v1\""] {
            assert!(errors.contains(part), "{version}: {part} is not in\n{errors}");
        }
    }
}

#[test]
fn malformed_files_are_rejected_without_a_panic() {
    for text in ["", "---\n", "[]", "null", "\u{feff}", "a: &a [*a]\n", "{\"kind\": 3}", "\0\u{1}"] {
        let errors = refused_config(text);
        assert!(errors.contains("c.yaml"), "{text:?}: {errors}");
    }
}

#[test]
fn invalid_manifests_are_rejected_with_file_line_and_field() {
    for (text, expected) in [
        (
            "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: many}}\n",
            "m.yaml:4: Node n1: status.allocatable.cpu: ",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers: 5\n",
            "m.yaml:5: Pod default/p: spec.containers: ",
        ),
        (
            "apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - name: c\n    resources: {requests: {memory: 1Zb}}\n",
            "m.yaml:7: Pod default/p: spec.containers[0].resources.requests.memory: ",
        ),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: [\n", "m.yaml:4: unclosed bracket"),
        ("a: [}\n", "m.yaml:1: mismatched bracket"),
    ] {
        let errors = refused("m.yaml", text, &["simulate", "-f", "m.yaml"]);
        assert!(errors.contains(expected), "{expected} is not in\n{errors}");
    }
}
