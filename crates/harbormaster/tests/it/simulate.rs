//! Output of `harbormaster simulate`. Set `UPDATE_GOLDEN=1` to accept the current output.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use serde_json::Value;

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn harbormaster(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_harbormaster"))
        .args(args)
        .current_dir(repository())
        .env_remove("NO_COLOR")
        .output()
        .expect("the binary runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("output is UTF-8")
}

fn assert_golden(name: &str, args: &[&str]) {
    let output = harbormaster(args);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let printed = text(&output.stdout);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, &printed).expect("the golden file can be written");
    }
    let expected = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(printed, expected, "{args:?} no longer prints {}", path.display());
}

#[test]
fn the_placement_of_the_examples_is_shown_as_a_table() {
    assert_golden("examples.txt", &["simulate", "-f", "examples/"]);
}

#[test]
fn explanations_of_the_examples_are_shown_as_tables() {
    assert_golden("explain.txt", &["simulate", "-f", "examples/", "--explain"]);
}

#[test]
fn explanations_of_the_examples_are_shown_as_json() {
    assert_golden("explain.json", &["simulate", "-f", "examples/", "--explain", "-o", "json"]);
}

#[test]
fn the_placement_of_the_examples_is_shown_as_json() {
    assert_golden("examples.json", &["simulate", "-f", "examples/", "-o", "json"]);
}

#[test]
fn a_gang_that_fits_is_placed_and_one_that_does_not_waits_whole() {
    let gates = ["--feature-gates", "GenericWorkload=true"];
    assert_golden("gangs.txt", &[&["simulate", "-f", "examples/gangs"], &gates[..]].concat());
}

#[test]
fn gangs_that_must_be_in_one_rack_are_placed_rack_by_rack() {
    let gates = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true";
    let gates = ["--feature-gates", gates];
    assert_golden("racks.txt", &[&["simulate", "-f", "examples/racks"], &gates[..]].concat());
}

#[test]
fn gangs_whose_members_share_a_device_are_placed_where_it_can_be_reached() {
    let gates = ["--feature-gates", "GenericWorkload=true,DRAWorkloadResourceClaims=true"];
    let of_example = ["simulate", "-f", "examples/gang-devices", "--all"];
    assert_golden("gang-devices.txt", &[&of_example[..], &gates[..]].concat());
}

#[test]
fn the_question_why_a_pod_waits_is_answered_with_changes_that_would_place_it() {
    assert_golden("why.txt", &["why", "edge/ingress-2", "-f", "examples/"]);
    let of_job = harbormaster(&["why", "job/batch/report", "-f", "examples/"]);
    let told = text(&of_job.stdout);
    assert!(told.starts_with("batch/report-1 "), "{told}");
    assert_golden("why-pair.txt", &["why", "simulation", "-f", "examples/"]);
    assert_golden("why-gated.txt", &["why", "quarterly", "-f", "examples/"]);
    assert_golden("why-placed.txt", &["why", "edge/ingress-0", "-f", "examples/"]);
    assert_golden("why.json", &["why", "edge/ingress-2", "-f", "examples/", "-o", "json"]);
}

#[test]
fn the_capacity_for_copies_of_a_pod_is_shown_by_zone_and_by_size() {
    let cluster = ["-f", "examples/1-nodes.yaml", "examples/2-running.yaml"];
    let ask = |more: &[&'static str]| [&["capacity", "examples/3-waiting.yaml"], &cluster[..], more].concat();
    assert_golden("capacity.txt", &ask(&[]));
    assert_golden("capacity-sweep.txt", &ask(&["--sweep", "cpu=250m..8"]));
    assert_golden("capacity.json", &ask(&["-o", "json", "--limit", "5"]));
}

const SCENARIO: [&str; 5] =
    ["simulate", "-f", "examples/", "--scenario", "crates/harbormaster/tests/manifests/scenario.yaml"];

const MOST_ALLOCATED: &str =
    "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=MostAllocated";

#[test]
fn a_setting_changes_how_copies_and_drains_are_decided() {
    let web = "crates/harbormaster/tests/manifests/drain.yaml";
    let wrong = "profiles[0].pluginConfig[NodeResourcesFit].args.scoringStrategy.type=Most";
    for command in [&["capacity", web][..], &["drain-plan", "busy-1"], &["why", "shop/web-1"]] {
        let told = harbormaster(&[command, &["-f", web, "--set", wrong]].concat());
        let told = text(&told.stderr);
        assert!(
            told.contains(&format!("error: --set {wrong}: ")) && told.contains("Unsupported value"),
            "{told}"
        );
    }
    let packed = harbormaster(&["drain-plan", "busy-1", "-f", web, "--set", MOST_ALLOCATED]);
    assert_eq!(text(&packed.stderr), "", "{}", text(&packed.stdout));
}

#[test]
fn yaml_says_the_same_as_json_and_every_row_of_a_markdown_table_has_all_columns() {
    let drain = "crates/harbormaster/tests/manifests/drain.yaml";
    let commands: [&[&str]; 6] = [
        &["simulate", "-f", "examples/", "--explain", "--usage"],
        &["simulate", "-f", drain, "--repack", "--usage", "--explain"],
        &["why", "edge/ingress-2", "-f", "examples/"],
        &["capacity", "examples/3-waiting.yaml", "-f", "examples/1-nodes.yaml", "--limit", "5"],
        &["drain-plan", "busy-1", "-f", drain],
        &["lint", "--config", "crates/harbormaster/tests/manifests/lint.yaml"],
    ];
    for command in commands {
        let said = |format: &str| {
            let output = harbormaster(&[command, &["-o", format]].concat());
            let said = text(&output.stdout);
            assert!(!said.is_empty(), "{command:?}: {}", text(&output.stderr));
            said
        };
        let json: Value = serde_json::from_str(&said("json")).expect("JSON");
        let yaml = harbormaster_yaml::parse(&said("yaml")).expect("YAML").into_json();
        assert_eq!(yaml, json, "{command:?}");
        let markdown = said("markdown");
        assert!(markdown.starts_with("## ") && !markdown.contains("\n\n\n"), "{markdown}");
        let mut tables = 0;
        let mut columns = None;
        for line in markdown.lines() {
            if !line.starts_with('|') {
                columns = None;
                continue;
            }
            let count = line.replace("\\|", "").matches('|').count();
            tables += usize::from(columns.is_none());
            assert_eq!(*columns.get_or_insert(count), count, "{line}\n{markdown}");
        }
        assert!(tables > 0, "{markdown}");
    }
}

#[test]
fn the_difference_that_a_change_makes_is_shown_as_a_table_and_as_json() {
    assert_golden("usage.txt", &["simulate", "-f", "examples/", "--usage"]);
    let repacked =
        ["simulate", "-f", "crates/harbormaster/tests/manifests/drain.yaml", "--repack", "--usage"];
    assert_golden("repack.txt", &repacked);
    assert_golden("repack.json", &[&repacked[..], &["-o", "json"]].concat());
    assert_golden("drain.txt", &["simulate", "-f", "examples/", "--drain", "node-a2"]);
    let grow = ["--scale", "deployment/shop/web=90", "--add", "5", "--like", "node-b1"];
    assert_golden("grow.txt", &[&["simulate", "-f", "examples/"], &grow[..]].concat());
    assert_golden("set.txt", &[&repacked[..], &["--set", MOST_ALLOCATED]].concat());
    assert_golden("explained-drain.txt", &["simulate", "-f", "examples/", "--drain", "node-a2", "--explain"]);
    assert_golden("scenario.txt", &SCENARIO);
    assert_golden("scenario.json", &[&SCENARIO[..], &["-o", "json"]].concat());
}

#[test]
fn the_plan_of_a_drain_is_shown_as_a_table_and_as_json() {
    let ask = |more: &[&'static str]| {
        let file = "crates/harbormaster/tests/manifests/drain.yaml";
        [&["drain-plan", "busy-1"], more, &["-f", file]].concat()
    };
    assert_golden("drain-plan.txt", &ask(&[]));
    assert_golden("drain-plan.json", &ask(&["-o", "json"]));
    assert_eq!(harbormaster(&ask(&["--exit-code"])).status.code(), Some(2));
    let output = harbormaster(&ask(&["busy-3"]));
    let expected = "error: no node is named \"busy-3\" (did you mean `busy-1`?)\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
}

#[test]
fn a_change_that_leaves_a_pod_without_a_node_sets_the_exit_code() {
    let code = |args: &[&str]| {
        let all = [&["simulate", "-f", "examples/", "--exit-code"], args].concat();
        harbormaster(&all).status.code()
    };
    assert_eq!(code(&["--add=1", "--like=node-a1"]), Some(0), "pods that wait anyway do not count");
    assert_eq!(code(&["--remove", "node-c2-gpu"]), Some(2));
    assert_eq!(code(&["--remove", "node-c2-gpu", "--pod", "web-1"]), Some(0));
}

#[test]
fn changes_of_unknown_objects_are_errors_that_name_the_flag_or_the_line() {
    let scenario = SCENARIO[4];
    for (args, expected) in [
        (
            &["--drain", "node-a3"][..],
            "error: --drain: no node is named \"node-a3\" (did you mean `node-a1`?)\n".to_owned(),
        ),
        (
            &["--delete", "node/node-a1", "--scenario", scenario],
            "error: --delete: a node is removed with `remove`".to_owned(),
        ),
        (
            &["--remove", "node-a1", "--scenario", scenario],
            format!("error: {scenario}:2: [0].drain: no node is named \"node-a1\""),
        ),
        (
            &["--set", "profiles[1].schedulerName=x"],
            "error: --set profiles[1].schedulerName=x: profiles has no element [1]: it is a list with [0] \
             default-scheduler\n"
                .to_owned(),
        ),
        (
            &["--set", "percentageOfNodesToScor=50"],
            "error: --set percentageOfNodesToScor=50: unknown field \"percentageOfNodesToScor\" (did you mean \
             `percentageOfNodesToScore`?)\n"
                .to_owned(),
        ),
    ] {
        let output = harbormaster(&[&["simulate", "-f", "examples/"], args].concat());
        let told = text(&output.stderr);
        assert!(output.status.code() == Some(1) && told.starts_with(&expected), "{args:?}: {told}");
    }
}

#[test]
fn the_question_why_names_the_pods_that_may_be_meant() {
    let output = harbormaster(&["why", "ingres-2", "-f", "examples/"]);
    let expected = "error: no pod is named \"ingres-2\" (did you mean `ingress-2`?)\n";
    assert_eq!((output.status.code(), text(&output.stderr).as_str()), (Some(1), expected));
}

#[test]
fn pods_are_evaluated_independently_on_request() {
    assert_golden("independent.txt", &["simulate", "-f", "examples/", "--independent"]);
}

#[test]
fn a_simulation_of_the_examples_writes_nothing_to_stderr() {
    let output = harbormaster(&["simulate", "-f", "examples/"]);
    assert_eq!(text(&output.stderr), "");
}

#[test]
fn pods_can_be_selected_and_the_exit_code_depends_on_them() {
    let code = |args: &[&str]| {
        let output = harbormaster(&[&["simulate", "-f", "examples/"], args].concat());
        (output.status.code(), text(&output.stdout))
    };
    let (placed, printed) = code(&["--exit-code", "--pod", "shop/web-1", "--pod", "train"]);
    assert_eq!(placed, Some(0), "{printed}");
    assert!(printed.contains("2 pods: 2 placed, 0 unschedulable, 0 gated"), "{printed}");
    assert_eq!(code(&["--exit-code", "--pod", "quarterly"]).0, Some(0), "a gated pod has not failed");
    assert_eq!(code(&["--exit-code"]).0, Some(2));
    assert_eq!(code(&[]).0, Some(0));
    assert_eq!(code(&["--exit-code", "-o", "json", "--pod", "simulation", "--explain"]).0, Some(2));
    assert_fails(
        &["simulate", "-f", "examples/", "--pod", "shop/web-11"],
        &["error: no pod without a node is named \"shop/web-11\" (did you mean `shop/web-1`?)"],
    );
}

fn assert_fails(args: &[&str], expected: &[&str]) {
    let output = harbormaster(args);
    let stderr = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{args:?}: {stderr}");
    for part in expected {
        assert!(stderr.contains(part), "{args:?}: {part:?} is not in\n{stderr}");
    }
}

#[test]
fn errors_in_manifests_are_all_reported() {
    let directory = std::env::temp_dir().join(format!("harbormaster-test-{}", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let path = directory.join("broken.yaml");
    fs::write(
        &path,
        "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\nstatus: {allocatable: {cpu: many}}\n---\napiVersion: v1\nkind: Pod\n",
    )
    .unwrap();
    let path = path.to_str().unwrap();
    assert_fails(
        &["simulate", "-f", path],
        &["broken.yaml:4: Node n1: status.allocatable.cpu: ", "broken.yaml:6: Pod: metadata.name: "],
    );
    fs::remove_dir_all(directory).unwrap();
}

#[test]
fn invalid_arguments_exit_with_one_and_an_explanation() {
    assert_fails(
        &["simulate", "--kubeconfig", "no-such-file"],
        &["error: kubeconfig no-such-file cannot be read: "],
    );
    assert_fails(&["simulate", "-f", "no-such-file.yaml"], &["error: no-such-file.yaml: "]);
    assert_fails(&["simulate", "-f", "examples/", "--config", "examples/1-nodes.yaml"], &["1-nodes.yaml:"]);
    assert_fails(&["nonsense"], &["unrecognized subcommand 'nonsense'"]);
    assert_fails(&["run", "--nonsense"], &["Error: unknown flag: --nonsense"]);
    assert_fails(&["run", "extra"], &["\"kube-scheduler\" does not take any arguments, got [\"extra\"]"]);
    assert_fails(&["run", "--config", "no-such-file.yaml"], &["Error: no-such-file.yaml: "]);
    assert_fails(
        &["run", "--feature-gates=SchedulerQueueingHints=false"],
        &["cannot set feature gate SchedulerQueueingHints to false, feature is locked to true"],
    );
}

#[test]
fn errors_of_run_are_plain_lines_or_one_line_of_json() {
    let path = std::env::temp_dir().join(format!("harbormaster-test-errors-{}.yaml", std::process::id()));
    let start = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";
    fs::write(&path, format!("{start}paralelism: 1\nprofils: []\n")).unwrap();
    let path = path.to_str().unwrap();
    let run = |more: &[&str]| {
        let output = harbormaster(&[&["run", "--config", path], more].concat());
        assert_eq!(output.status.code(), Some(1));
        text(&output.stderr)
    };
    let lines = run(&[]);
    assert_eq!(
        lines,
        format!(
            "Error: {path}:3:1: unknown field \"paralelism\" (did you mean `parallelism`?)\n\
             {path}:4:1: unknown field \"profils\" (did you mean `profiles`?)\n"
        )
    );
    let json: serde_json::Value = serde_json::from_str(&run(&["--logging-format=json"])).unwrap();
    assert_eq!(json["msg"], "command failed");
    assert!(json["err"].as_str().unwrap().contains("paralelism"), "{json}");
    fs::remove_file(path).unwrap();
    assert_fails(
        &["run", "--kubeconfig", "no-such-file"],
        &["Error: kubeconfig no-such-file cannot be read: "],
    );
    let output = harbormaster(&["run", "--kubeconfig", "no-such-file"]);
    assert!(!text(&output.stderr).contains("not built"), "{}", text(&output.stderr));
}

#[test]
fn a_configuration_is_written_and_read_back() {
    let path = std::env::temp_dir().join(format!("harbormaster-test-config-{}.yaml", std::process::id()));
    let path = path.to_str().unwrap();
    let output = harbormaster(&["run", "--write-config-to", path, "--disabled-metrics=a", "--vmodule=a=1"]);
    let stderr = text(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    assert!(!stderr.contains("disabled-metrics") && !stderr.contains("vmodule"), "{stderr}");
    assert!(fs::read_to_string(path).unwrap().contains("schedulerName: default-scheduler"));
    // The configuration is that of the newest release.
    let simulate = ["simulate", "-f", "examples/"];
    let again = harbormaster(&[&simulate[..], &["--config", path]].concat());
    let plain = harbormaster(&simulate);
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    assert_eq!(text(&again.stdout), text(&plain.stdout));
    fs::remove_file(path).unwrap();
}

#[cfg(unix)]
#[test]
fn a_scheduler_without_an_api_server_waits_and_exits_cleanly_on_sigterm() {
    use std::{
        io::{BufRead as _, BufReader},
        process::Stdio,
    };
    // Nothing listens on this port, which was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut scheduler = Command::new(env!("CARGO_BIN_EXE_harbormaster"))
        .args([
            "run",
            "--leader-elect=false",
            "--secure-port=0",
            "-v4",
            "--logging-format=json",
            "--master",
            &format!("127.0.0.1:{port}"),
        ])
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(scheduler.stderr.take().unwrap()).lines();
    // By the time the program reports the connection error, its signal handlers are installed.
    let refused = lines.find(|line| line.as_ref().is_ok_and(|line| line.contains("refused")));
    let refused = refused.unwrap().unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(&refused).is_ok(), "{refused}");
    let killed = Command::new("kill").arg(scheduler.id().to_string()).status().unwrap();
    assert!(killed.success());
    let rest: Vec<String> = lines.map_while(Result::ok).collect();
    assert_eq!(scheduler.wait().unwrap().code(), Some(0), "{rest:?}");
}

#[cfg(unix)]
#[test]
fn under_the_name_kube_scheduler_the_program_accepts_kube_schedulers_flags() {
    let link = std::env::temp_dir().join(format!("harbormaster-test-{}-link", std::process::id()));
    fs::create_dir_all(&link).unwrap();
    let link = link.join("kube-scheduler");
    let _ = fs::remove_file(&link);
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_harbormaster"), &link).unwrap();
    let version = Command::new(&link).arg("--version").output().unwrap();
    assert!(text(&version.stdout).starts_with("harbormaster v"), "{version:?}");
    let wrong = Command::new(&link).arg("simulate").output().unwrap();
    assert_eq!(wrong.status.code(), Some(1));
    assert!(text(&wrong.stderr).contains("does not take any arguments, got [\"simulate\"]"), "{wrong:?}");
    fs::remove_dir_all(link.parent().unwrap()).unwrap();
}

const STORAGE: [&str; 5] = ["simulate", "-f", "examples/1-nodes.yaml", "-f", "examples/storage"];

#[test]
fn volumes_of_claims_are_shown_in_a_table() {
    assert_golden("storage.txt", &STORAGE);
}

#[test]
fn volumes_of_claims_are_shown_as_json() {
    assert_golden("storage.json", &[STORAGE.as_slice(), &["-o", "json"]].concat());
}

const DEVICES: [&str; 3] = ["simulate", "-f", "examples/devices"];

#[test]
fn devices_of_claims_are_shown_in_a_table() {
    assert_golden("devices.txt", &DEVICES);
}

#[test]
fn devices_of_claims_are_shown_as_json() {
    assert_golden("devices.json", &[DEVICES.as_slice(), &["-o", "json"]].concat());
}

/// Starts a server that answers every request with 404, and returns its URL.
fn lost_server() -> String {
    use std::io::{Read as _, Write as _};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let address = listener.local_addr().expect("the listener has an address");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.read(&mut [0; 65536]);
            let _ =
                stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        }
    });
    format!("http://{address}")
}

#[test]
fn a_failing_extender_is_an_error_unless_it_is_ignorable() {
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (url, why) in [(format!("http://{unused}"), "Post"), (lost_server(), "code 404")] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("scheduler.yaml");
        let path = path.to_str().unwrap();
        let config = |more: &str| {
            fs::write(
                path,
                format!(
                    "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- urlPrefix: \
                     {url}\n  filterVerb: fit\n  weight: 1\n{more}"
                ),
            )
            .unwrap();
        };
        let simulate = ["simulate", "-f", "examples/", "--config", path];
        config("");
        let filter = format!("error: extender {url:?} failed to filter: ");
        assert_fails(&simulate, &[&filter, why, &format!("{url}/fit"), "help: --no-extenders"]);
        assert_eq!(text(&harbormaster(&simulate).stdout), "", "no wrong result is printed");
        let plain = harbormaster(&["simulate", "-f", "examples/"]);
        let without = harbormaster(&[simulate.as_slice(), &["--no-extenders"]].concat());
        assert_eq!(text(&without.stdout), text(&plain.stdout));
        config("  ignorable: true\n");
        let ignored = harbormaster(&simulate);
        assert_eq!((ignored.status.code(), text(&ignored.stdout)), (Some(0), text(&plain.stdout)));
        assert!(
            text(&ignored.stderr).contains(&format!("warning: extender {url:?} ")),
            "{}",
            text(&ignored.stderr)
        );
    }
}

#[test]
fn pods_on_missing_nodes_are_counted_or_rescheduled() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("dump.yaml");
    let pod = |name: &str| {
        format!(
            "---\napiVersion: v1\nkind: Pod\nmetadata: {{name: {name}, uid: {name}}}\nspec: {{nodeName: gone, containers: \
             [{{name: c, image: i}}]}}\nstatus: {{phase: Running}}\n"
        )
    };
    let node =
        "apiVersion: v1\nkind: Node\nmetadata: {name: here}\nstatus: {allocatable: {cpu: 1, pods: 9}}\n";
    fs::write(&path, [node, &pod("a"), &pod("b")].concat()).unwrap();
    let path = path.to_str().unwrap();
    let plain = harbormaster(&["simulate", "-f", path]);
    assert!(text(&plain.stderr).contains("note: 2 pods are on nodes that are not in the input"), "{plain:?}");
    assert_eq!(text(&plain.stdout), "no pod is waiting for a node, 2 on missing nodes\n");
    let anew = harbormaster(&["simulate", "-f", path, "--reschedule-missing"]);
    assert!(text(&anew.stdout).ends_with("2 pods: 2 placed, 0 unschedulable, 0 gated\n"), "{anew:?}");
    let json = harbormaster(&["simulate", "-f", path, "-o", "json"]);
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["missingNodes"], serde_json::json!({"gone": 2}));
}
