//! A scheduler records what it decides, and `replay` decides it again.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::{Value, json};

use crate::e2e::{
    cluster::{
        PATIENCE, create_priority_classes, delete_pod, eventually, get_pod, wait_until_bound,
        wait_until_explained,
    },
    objects::{NODES, PODS, default_config, is_terminating, node, pod},
    process::Harbormaster,
    server::Server,
};

const SCHEDULER: &str = "default-scheduler";

/// Runs `replay`. Returns its exit code, its output and its errors.
fn replay(directory: &Path, more: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    let output = command.arg("replay").arg(directory).args(more).output().expect("the program runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("output is UTF-8");
    (output.status.code().expect("the program exits"), text(output.stdout), text(output.stderr))
}

fn parts(directory: &Path, more: &[&str]) -> Vec<Value> {
    let (code, json, errors) = replay(directory, &[more, &["-o", "json"]].concat());
    assert!(code == 0 || code == 2, "{errors}");
    serde_json::from_str(&json).expect("JSON")
}

fn files(directory: &Path) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(directory).expect("a directory").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

#[test]
fn a_recorded_scheduler_is_replayed_bit_exactly_and_says_what_it_knew() {
    let cluster = Server::Embedded.own();
    let client = cluster.client();
    create_priority_classes(client);
    for (name, cpu) in [("a", "2"), ("b", "1")] {
        client.post(NODES, &node(name, json!({}), cpu, "8Gi", 110)).expect("the node is created");
    }
    let config =
        cluster.write_scheduler_config(&default_config().to_string()).expect("the configuration is written");
    let directory = cluster.directory().join("recording");
    let args = [
        format!("--config={}", config.display()),
        format!("--record={}", directory.display()),
        "--record-max-size=16Mi".to_owned(),
    ];
    let create = |name: &str, cpu: &str, spec: Value| {
        client.post(PODS, &pod(name, SCHEDULER, json!({"cpu": cpu}), spec)).expect("the pod is created");
    };
    let first = Harbormaster::start(&args, cluster.directory().join("first.log"));
    for number in 0..4 {
        create(&format!("small-{number}"), "500m", json!({"terminationGracePeriodSeconds": 0}));
        wait_until_bound(client, &format!("small-{number}"));
    }
    create("large", "7", json!({}));
    wait_until_explained(client, "large");
    create("urgent", "1500m", json!({"priorityClassName": "high"}));
    wait_until_bound(client, "urgent");
    first.ends_well();
    // The second scheduler finds pods that wait, and its own pods.
    create("late", "100m", json!({}));
    let second = Harbormaster::start(&args, cluster.directory().join("second.log"));
    wait_until_bound(client, "late");
    delete_pod(client, "late");
    eventually("the pod is gone", PATIENCE, || match get_pod(client, "late") {
        None => Some(()),
        Some(pod) => is_terminating(&pod).then_some(()),
    });
    second.ends_well();

    if let Some(kept) = std::env::var_os("HARBORMASTER_KEEP_RECORDING") {
        for file in files(&directory) {
            fs::copy(&file, Path::new(&kept).join(file.file_name().expect("a name")))
                .expect("the file is copied");
        }
    }
    let (code, text, errors) = replay(&directory, &[]);
    assert_eq!((code, text.matches("bit-exact").count(), errors.as_str()), (0, 2, ""), "{text}");
    let told = parts(&directory, &[]);
    assert!(told[0]["attempts"].as_u64() >= Some(6) && told[1]["attempts"].as_u64() >= Some(1), "{told:?}");

    let (code, text, errors) = replay(&directory, &["--why", "large", "-o", "json"]);
    assert_eq!(code, 0, "{errors}");
    let why: Value = serde_json::from_str(&text).expect("JSON");
    assert!(why["pod"] == "default/large" && why["attempts"].as_u64() >= Some(1), "{why}");
    let (code, text, errors) = replay(&directory, &["--why", "small-1", "-o", "json"]);
    assert_eq!(code, 0, "{errors}");
    let why: Value = serde_json::from_str(&text).expect("JSON");
    // Both nodes had room, and the pod got the better one.
    let standing = &why["standing"];
    assert!(why["pod"]["node"].is_string() && why["at"].is_string(), "{why}");
    assert_eq!((&standing["own"]["node"], &standing["fits"]), (&why["pod"]["node"], &json!(2)), "{why}");
    assert!(standing["rival"]["node"].is_string() && standing["better"] == 0, "{why}");
    let (code, text, errors) = replay(&directory, &["--why", "default/small-1"]);
    assert!(
        code == 0 && text.contains("default/small-1 gets node ") && text.contains("Decided at "),
        "{text}{errors}"
    );
    let until = told[0]["until"].as_str().expect("a time");
    let (code, text, errors) = replay(&directory, &["--why", "default/large", "--until", until]);
    assert!(code == 0 && text.starts_with("default/large "), "{text}{errors}");
    let (code, _, errors) = replay(&directory, &["--why", "large", "--until", "2020-01-01T00:00:00Z"]);
    assert!(code == 1 && errors.contains("pod large does not wait"), "{errors}");

    // Nothing fits a pod that no node may take.
    let other = cluster.directory().join("other.yaml");
    let closed = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n\
        - schedulerName: default-scheduler\n  pluginConfig:\n  - name: NodeAffinity\n    args: {addedAffinity: \
        {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: \
        [{key: none, operator: Exists}]}]}}}\n";
    fs::write(&other, closed).expect("the configuration is written");
    let other = other.to_string_lossy();
    let compared = parts(&directory, &["--config", &other]);
    let waiting: Vec<&str> = compared[0]["comparison"]["waiting"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|pod| pod["pod"].as_str())
        .collect();
    assert!(waiting.contains(&"default/small-0") && waiting.contains(&"default/urgent"), "{compared:?}");
    let (code, text, _) = replay(&directory, &["--config", &config.to_string_lossy()]);
    assert!(code == 0 && text.contains("0 elsewhere, 0 still waiting, 0 only now"), "{text}");

    damaged_recordings_are_refused_with_their_place(cluster.directory(), &directory);
}

fn damaged_recordings_are_refused_with_their_place(scratch: &Path, directory: &Path) {
    let [first, ..] = &files(directory)[..] else { panic!("no files") };
    let name = first.file_name().expect("a name");
    let bytes = fs::read(first).expect("the file can be read");
    let with = |content: &[u8]| {
        let damaged = scratch.join("damaged");
        fs::create_dir_all(&damaged).expect("a directory is made");
        fs::write(damaged.join(name), content).expect("the file is written");
        replay(&damaged, &[])
    };
    let (code, text, errors) = with(&bytes[..bytes.len() * 3 / 4]);
    assert!(code == 0 && text.contains("is missing"), "{text}{errors}");
    let mut changed = bytes.clone();
    let middle = changed.len() / 2;
    changed[middle..middle + 9].fill(b'7');
    let (code, text, errors) = with(&changed);
    assert!(code != 0 && (errors.clone() + &text).contains("000001.jsonl.zst: line "), "{text}{errors}");
    let (code, _, errors) = with(b"not compressed");
    assert!(code == 1 && errors.contains("000001.jsonl.zst: line 1: "), "{errors}");
    let (code, _, errors) = replay(&scratch.join("nowhere"), &[]);
    assert!(code == 1 && errors.contains("nowhere: No such file"), "{errors}");
    let (code, _, errors) = replay(directory, &["--until", "noon"]);
    assert!(code == 1 && errors.contains("--until \"noon\": expected a time"), "{errors}");
}

/// Recordings of earlier versions. The test above writes another one to the directory `HARBORMASTER_KEEP_RECORDING`. If
/// decisions change on purpose, a difference is reported here; reading must not fail.
#[test]
fn kept_recordings_are_still_read() {
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/recordings");
    let mut number = 0;
    for directory in files(&kept) {
        let told = parts(&directory, &[]);
        assert!(
            told.iter().all(|part| part["exact"] == true && part["lines"].as_u64() > Some(20)),
            "{told:?}"
        );
        number += 1;
    }
    assert!(number >= 1);
}
