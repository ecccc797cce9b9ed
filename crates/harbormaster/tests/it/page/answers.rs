//! The page of a changed cluster, of a capacity and of a plan, in a real browser.

use std::{fs, path::Path, process::Command};

use serde_json::json;

use super::{CLUSTER, answered, opened::Opened, simulated};

/// Workloads on two nodes, which can be drained.
const DRAINED: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {topology.kubernetes.io/zone: a}}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: n2, labels: {topology.kubernetes.io/zone: a}}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-1, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: w, controller: true}]}, spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 3}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: web-2, namespace: shop, ownerReferences: [{apiVersion: apps/v1, kind: ReplicaSet, name: web, uid: w, controller: true}]}, spec: {nodeName: n1, containers: [{name: c, image: i, resources: {requests: {cpu: 1}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: alone, namespace: shop}, spec: {nodeName: n1, containers: [{name: c, image: i}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: other, namespace: shop}, spec: {nodeName: n2, containers: [{name: c, image: i, resources: {requests: {cpu: 2}}}]}}
"#;

/// Returns the description of the box at a position.
fn described(page: &mut Opened, at: usize) -> String {
    let told = page.value(&format!("describe(view.scene.nodes[{at}])"));
    told.as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_page_shows_what_changes_make_of_the_cluster() {
    let changes = ["--drain", "a1", "--add", "1", "--like", "b1", "--remove", "a2"];
    let mut page = Opened::new(&simulated(CLUSTER, &changes));
    assert_eq!(page.text("#sections h2"), "What changes");
    let lines = page.value("[...document.querySelectorAll('#sections p')].map((line) => line.textContent)");
    assert_eq!(
        lines,
        json!([
            "If you drain node a1, then add a node like b1, then remove node a2:",
            "2 pods move, 3 pods wait for other reasons; 1 pod does not change",
            "2 of 6 pods have a node, instead of 2 of 6",
            "New: b1-copy-1.",
            "Removed: a2.",
            "No longer open for pods: a1.",
        ])
    );
    let rows = page.rows("#sections");
    assert_eq!(rows[0], json!(["shop/db", "a1", "b1", ""]));
    assert_eq!(rows[1], json!(["ml/trainer", "b1", "b1-copy-1", ""]));
    assert_eq!(page.value("document.getElementById('marks').hidden"), false);
    assert_eq!(described(&mut page, 0), "a1, zone a, 0 pods, cpu 0 of 4 (0%), cordoned, 1 pod left");
    assert_eq!(described(&mut page, 1), "b1, zone b, 1 pod, cpu 3.5 of 8 (43%), 1 pod came, 1 pod left");
    assert_eq!(described(&mut page, 2), "b1-copy-1, zone b, 1 pod, cpu 6 of 8 (75%), new, 1 pod came");
    // The name of a pod in the table opens it, and tells where it was.
    page.click("#sections td button");
    assert_eq!(page.text("#pod-title"), "Pod shop/db");
    assert_eq!(page.facts("#pod-facts")["before"], "a1");
    // The middle of the line across the box of a1.
    let [plain, marked] = [page.pixel(12, 30), page.pixel(20, 42)];
    assert_ne!(plain, marked);
    page.ends_quietly();
}

#[test]
fn a_pod_that_waits_because_of_a_change_says_so() {
    let mut page = Opened::new(&simulated(CLUSTER, &["--remove", "b1"]));
    let row = page.rows("#sections")[0].clone();
    assert_eq!((&row[0], &row[1], &row[2]), (&json!("ml/trainer"), &json!("b1"), &json!("<none>")));
    page.click("#sections td button");
    let facts = page.facts("#pod-facts");
    assert_eq!((&facts["before"], &facts["state"]), (&json!("b1"), &json!("unschedulable")));
    page.ends_quietly();
}

#[test]
fn a_page_shows_no_verdicts_of_plugins() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let output = command.args(["simulate", "-o", "html", "--explain", "-f"]).arg(examples).output();
    let output = output.expect("the program runs");
    assert!(!output.status.success() && output.stdout.is_empty());
    assert!(String::from_utf8_lossy(&output.stderr).contains("leave out --explain"));
}

#[test]
fn the_chart_of_a_simulation_shows_the_chosen_resource() {
    let mut page = Opened::new(&simulated(CLUSTER, &[]));
    let label = "document.querySelector('#chart-course svg').getAttribute('aria-label')";
    let told = page.value(label);
    let told = told.as_str().unwrap_or_default();
    assert!(told.starts_with("Requested cpu: 3.5 at the start, 9.5 of 16 after "), "{told}");
    let choose = "(() => { const it = document.getElementById('resource'); it.value = 'example.com/gpu'; \
                  it.dispatchEvent(new Event('change')); })()";
    page.value(choose);
    let told = page.value(label);
    let told = told.as_str().unwrap_or_default();
    assert!(told.starts_with("Requested example.com/gpu: 0 at the start, 1 of 2 after "), "{told}");
    page.ends_quietly();
}

/// Writes a pod to a file and asks for the room for its copies.
fn room(more: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pod.yaml");
    let pod = "{apiVersion: v1, kind: Pod, metadata: {name: one, namespace: x}, spec: {containers: [{name: c, image: i, \
               resources: {requests: {cpu: 1}}}]}}";
    fs::write(&file, pod).expect("the pod is written");
    let file = file.to_str().expect("the path is UTF-8");
    let args: Vec<&str> = [file].into_iter().chain(more.iter().copied()).collect();
    answered("capacity", CLUSTER, &args)
}

#[test]
fn a_page_shows_how_many_copies_fit_where() {
    let mut page = Opened::new(&room(&[]));
    assert_eq!(page.text("#title"), "Room for copies of a pod");
    assert_eq!(page.text("#sections p"), "6 copies of x/one fit");
    assert_eq!(page.rows("#sections section:nth-child(2)"), json!([["a", "4"], ["b", "2"]]));
    let label = page.value("document.querySelector('#sections svg').getAttribute('aria-label')");
    assert_eq!(label, "Copies by zone: a 4, b 2");
    assert_eq!(described(&mut page, 1), "a2, zone a, 0 pods, cpu 4 of 4 (100%), 4 copies");
    assert_eq!(page.text("#legend"), "15.5 of 16 requested (96%)");
    page.ends_quietly();
}

#[test]
fn a_sweep_is_a_chart_and_the_boxes_show_the_chosen_size() {
    let mut page = Opened::new(&room(&["--sweep", "cpu=1..4"]));
    let label = page.value("document.querySelector('#sections svg').getAttribute('aria-label')");
    assert_eq!(label, "Copies of x/one by size: cpu=1 6, cpu=2 3, cpu=4 1");
    assert_eq!(described(&mut page, 2), "b1, zone b, 1 pod, cpu 8 of 8 (100%), 2 copies");
    // The upper end of the box of b1.
    let before = page.pixel(20, 22 + 42 + 2 + 22 + 4);
    page.value(
        "(() => { const it = document.getElementById('size'); it.value = '2'; it.dispatchEvent(new Event('change')); })()",
    );
    assert_eq!(described(&mut page, 2), "b1, zone b, 1 pod, cpu 6 of 8 (75%), 0 copies");
    assert_ne!(page.pixel(20, 22 + 42 + 2 + 22 + 4), before, "the copies are drawn");
    page.ends_quietly();
}

#[test]
fn a_page_shows_the_order_of_a_drain() {
    let mut page = Opened::new(&answered("drain-plan", DRAINED, &["n1"]));
    assert_eq!(page.text("#title"), "Plan of a drain");
    let rows = page.rows("#sections");
    let short: Vec<_> =
        rows.as_array().into_iter().flatten().map(|row| json!([row[0], row[1], row[2], row[3]])).collect();
    let expected = [
        json!(["1", "shop/web-1", "n1", "<none>"]),
        json!(["1", "shop/web-2", "n1", "n2"]),
        json!(["1", "shop/alone", "n1", "(gone)"]),
    ];
    assert_eq!(short, expected, "{rows}");
    assert_eq!(page.text("#status"), "2 nodes, 2 pods on them, 1 waiting");
    assert_eq!(described(&mut page, 0), "n1, zone a, 0 pods, cpu 0 of 4 (0%), cordoned, 3 pods left");
    assert_eq!(described(&mut page, 1), "n2, zone a, 2 pods, cpu 3 of 4 (75%), 1 pod came");
    page.ends_quietly();
}
