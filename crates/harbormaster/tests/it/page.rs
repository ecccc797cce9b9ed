//! The page in a real browser: here that of a simulation.

mod answers;
mod live;
mod opened;

use std::{fs, path::Path, process::Command};

use harbormaster_api::Resources;
use harbormaster_oracle::components::Key;
use harbormaster_page::{Document, Mark, Member, Node, PlacedPod, Scene, Section, Size, Total, WaitingRow};
use opened::Opened;
use serde_json::json;

const CLUSTER: &str = r#"
{apiVersion: v1, kind: Node, metadata: {name: a1, labels: {topology.kubernetes.io/zone: a}}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: a2, labels: {topology.kubernetes.io/zone: a}}, status: {allocatable: {cpu: 4, memory: 8Gi, pods: 110}}}
---
{apiVersion: v1, kind: Node, metadata: {name: b1, labels: {topology.kubernetes.io/zone: b}}, status: {allocatable: {cpu: 8, memory: 16Gi, pods: 110, example.com/gpu: 2}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: db, namespace: shop}, spec: {nodeName: a1, containers: [{name: c, image: i, resources: {requests: {cpu: 3500m, memory: 1Gi}}}]}}
---
{apiVersion: v1, kind: Pod, metadata: {name: trainer, namespace: ml}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 6, memory: 2Gi}, limits: {example.com/gpu: 1}}}]}}
---
{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: big, namespace: shop}, spec: {replicas: 3, selector: {matchLabels: {app: big}}, template: {metadata: {labels: {app: big}}, spec: {containers: [{name: c, image: i, resources: {requests: {cpu: 32}}}]}}}}
---
{apiVersion: v1, kind: Pod, metadata: {name: held, namespace: shop}, spec: {schedulingGates: [{name: example.com/quota}], containers: [{name: c, image: i}]}}
"#;

/// Simulates manifests and returns the page.
fn simulated(manifests: &str, more: &[&str]) -> String {
    answered("simulate", manifests, more)
}

/// Asks a command about manifests and returns the page.
fn answered(command: &str, manifests: &str, more: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("cluster.yaml");
    fs::write(&file, manifests).expect("the manifests are written");
    let mut program = Command::new(env!("CARGO_BIN_EXE_harbormaster"));
    let output = program.arg(command).args(more).args(["-o", "html", "-f"]).arg(&file).output();
    let output = output.expect("the program runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("the page is UTF-8")
}

#[test]
fn a_click_on_a_box_shows_the_nodes_pods_and_amounts() {
    let mut page = Opened::new(&simulated(CLUSTER, &[]));
    assert_eq!(page.text("#title"), "Simulation");
    assert_eq!(page.text("#status"), "3 nodes, 2 pods on them, 4 waiting");
    assert_eq!(page.text("#legend"), "9.5 of 16 requested (59%)");
    // The first box of zone b lies below the title of zone a, its row of boxes, and the title of zone b.
    page.browser.click_at("#boxes", 20, 22 + 42 + 2 + 22 + 20).expect("a click");
    assert_eq!(page.text("#node-title"), "Node b1");
    let expected = json!({"zone": "b", "cpu": "6 of 8 (75%)", "memory": "2Gi of 16Gi (12%)", "pods": "1 of 110 (0%)",
        "example.com/gpu": "1 of 2 (50%)"});
    assert_eq!(page.facts("#node-facts"), expected);
    assert_eq!(page.rows("#node-pods"), json!([["ml/trainer", "6", "2Gi", "1"]]));
    page.click("#node-pods button");
    assert_eq!(page.text("#pod-title"), "Pod ml/trainer");
    let facts = page.facts("#pod-facts");
    let told = ["node", "state", "fits", "tried"].map(|name| facts[name].as_str().unwrap_or_default());
    assert_eq!(told, ["b1", "placed", "1", "1"]);
    page.ends_quietly();
}

#[test]
fn a_click_on_a_waiting_row_leads_to_the_reasons_of_a_pod() {
    let mut page = Opened::new(&simulated(CLUSTER, &[]));
    assert_eq!(page.text("#queue-counts"), "3 unschedulable, 1 gated");
    let rows = page.rows("#queue-table");
    assert_eq!((&rows[0][0], &rows[0][1]), (&json!("shop/big-* (3 pods)"), &json!("unschedulable")));
    assert!(rows[0][2].as_str().is_some_and(|said| said.starts_with("0/3 nodes are available: ")), "{rows}");
    assert_eq!((&rows[1][0], &rows[1][1]), (&json!("shop/held"), &json!("gated")));
    page.click("#queue-table button");
    assert_eq!(page.text("#row-title"), "shop/big-* (3 pods)");
    assert_eq!(page.value("document.querySelectorAll('#row-pods tbody tr').length"), 3);
    page.click("#row-pods button");
    let facts = page.facts("#pod-facts");
    assert_eq!((&facts["cpu"], &facts["owner"]), (&json!("32"), &json!("ReplicaSet shop/big")));
    assert_eq!(page.rows("#pod-reasons"), json!([["3", "Insufficient cpu"]]));
    page.click("#queue-table tbody tr:last-child button");
    assert_eq!(page.text("#pod-title"), "Pod shop/held");
    assert_eq!(page.facts("#pod-facts")["message"], "waiting for scheduling gates: [example.com/quota]");
    assert_eq!(page.value("document.getElementById('pod-reasons').hidden"), true);
    page.ends_quietly();
}

#[test]
fn another_resource_fills_the_boxes_and_sorts_the_table() {
    let mut page = Opened::new(&simulated(CLUSTER, &[]));
    let filled = page.pixel(20, 50);
    page.click("#node-list summary");
    page.wait_for("document.querySelector('#node-table tbody tr') !== null");
    let first = page.rows("#node-table")[0].clone();
    assert_eq!(first, json!(["a1", "a", "1", "3.5 of 4", "87%"]), "the fullest node comes first");
    let choose = "(() => { const it = document.getElementById('resource'); it.value = 'example.com/gpu'; \
                  it.dispatchEvent(new Event('change')); })()";
    page.value(choose);
    assert_eq!(page.text("#legend"), "1 of 2 requested (50%)");
    assert_eq!(page.rows("#node-table")[0], json!(["b1", "b", "1", "1 of 2", "50%"]));
    assert_ne!(page.pixel(20, 50), filled, "node a1 has no such resource");
    page.click("#node-table tbody tr:last-child button");
    assert_eq!(page.text("#node-title"), "Node a2");
    page.ends_quietly();
}

#[test]
fn the_keyboard_reaches_every_box_and_opens_it() {
    let mut page = Opened::new(&simulated(CLUSTER, &[]));
    page.press(&[Key::Tab, Key::Tab]);
    assert_eq!(page.value("document.activeElement.id"), "boxes");
    assert_eq!(page.value("document.activeElement.matches(':focus-visible')"), true);
    let option =
        "document.getElementById(document.activeElement.getAttribute('aria-activedescendant')).textContent";
    let a1 = "a1, zone a, 1 pod, cpu 3.5 of 4 (87%)";
    for (key, expected) in [
        (Key::Left, a1),
        (Key::Right, "a2, zone a, 0 pods, cpu 0 of 4 (0%)"),
        (Key::Down, "b1, zone b, 1 pod, cpu 6 of 8 (75%)"),
        (Key::Up, a1),
    ] {
        page.press(&[key]);
        assert_eq!(page.value(option), expected, "{key:?}");
    }
    page.press(&[Key::Enter]);
    assert_eq!(page.value("document.activeElement.textContent"), "Node a1");
    page.press(&[Key::Tab, Key::Enter]);
    assert_eq!(page.value("document.activeElement.textContent"), "Pod shop/db");
    page.ends_quietly();
}

#[test]
fn names_and_messages_are_shown_as_text_whatever_they_contain() {
    let attack = "<img src=x onerror=\"window.hacked = 1\"></script><script>window.hacked = 1</script>";
    let pod = |name: &str| Member {
        name: format!("{name}/{attack}"),
        facts: json!({"message": attack, "reasons": [{"nodes": 1, "reason": attack}],
            "wokenBy": [{"plugin": attack, "events": [attack]}], attack: {attack: [attack]}}),
        ..Member::default()
    };
    let resources = Resources { scalars: vec![(attack.into(), 2)], ..Resources::default() };
    let scene = Scene {
        title: attack.to_owned(),
        notes: vec![attack.to_owned()],
        nodes: vec![Node {
            name: attack.to_owned(),
            zone: attack.to_owned(),
            allocatable: resources,
            ..Node::default()
        }],
        sections: vec![Section {
            title: attack.to_owned(),
            lines: vec![attack.to_owned()],
            columns: vec![attack.to_owned()],
            rows: vec![vec![attack.to_owned()]],
            bars: vec![(attack.to_owned(), 1)],
        }],
        sizes: vec![Size { title: attack.to_owned(), copies: vec![1], ..Size::default() }],
        pods: vec![PlacedPod { node: 0, pod: pod("placed"), before: Some(attack.to_owned()) }],
        waiting: vec![WaitingRow {
            pods: attack.to_owned(),
            state: attack.to_owned(),
            message: attack.to_owned(),
            members: vec![pod("one"), pod("two")],
        }],
        ..Scene::default()
    };
    let mut page = Opened::new(&Document::with(&scene).html);
    for click in ["#node-list summary", "#queue-table button", "#row-pods button"] {
        page.click(click);
    }
    page.browser.click_at("#boxes", 20, 40).expect("a click");
    page.click("#node-pods button");
    for (shown, text) in [
        ("#title", attack.to_owned()),
        ("#notes li", attack.to_owned()),
        ("#node-title", format!("Node {attack}")),
        ("#pod-title", format!("Pod placed/{attack}")),
        ("#pod-reasons td:last-child", attack.to_owned()),
        ("#pod-wakers td:last-child", attack.to_owned()),
        ("#queue-table td:last-child", attack.to_owned()),
        ("#row-title", attack.to_owned()),
        ("#resource option:last-child", attack.to_owned()),
        ("#size option", attack.to_owned()),
        ("#node-pods td:nth-child(2)", attack.to_owned()),
        ("#sections h2", attack.to_owned()),
        ("#sections p", attack.to_owned()),
        ("#sections td button", attack.to_owned()),
        ("#sections .axis span", format!("{attack}: 1")),
    ] {
        let found = page.value(&format!("document.querySelector('{shown}').textContent"));
        assert_eq!(found, text, "{shown}");
    }
    assert_eq!(page.value("[typeof window.hacked, document.images.length, document.scripts.length]"), {
        json!(["undefined", 0, 2])
    });
    page.ends_quietly();
}

#[test]
fn the_colours_follow_the_users_preference() {
    let mut page = Opened::new(&simulated(CLUSTER, &[]));
    let background = "getComputedStyle(document.body).backgroundColor";
    page.browser.prefer_dark(false).expect("the preference is set");
    assert_eq!(page.value(background), "rgb(255, 255, 255)");
    let light = page.pixel(20, 24);
    page.browser.prefer_dark(true).expect("the preference is set");
    assert_eq!(page.value(background), "rgb(18, 22, 28)");
    // The boxes are drawn anew before the next frame but one.
    page.value("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(null))))");
    assert_ne!(page.pixel(20, 24), light, "the boxes have other colours, too");
    page.ends_quietly();
}

/// Returns a cluster of 5,000 nodes with 29,000 pods, of which half have moved, and 1,000 pods that wait. The page shows
/// room for copies, too, and the course of the simulation.
fn large() -> Scene {
    let amounts =
        |milli_cpu: i64| Resources { milli_cpu, memory: milli_cpu << 21, pods: 110, ..Resources::default() };
    let pod = |number: usize, state: &str| Member {
        name: format!("team-{}/service-{}-7d9f8c6b5-{number:05x}", number % 40, number % 400),
        request: amounts([100, 250, 500, 1000][number % 4]),
        facts: json!({"profile": "default-scheduler", "owner": format!("ReplicaSet service-{}", number % 400),
            "state": state, "tried": 1, "fits": 4000 - number % 7, "evaluated": 5000}),
    };
    let node = |number: usize| Node {
        name: format!("node-{number:04}.example.internal"),
        zone: format!("zone-{}", number % 3),
        requested: amounts(1000 + (number as i64 % 30) * 100),
        allocatable: amounts(4000),
        mark: Some(Mark { came: number % 5, left: number % 3, ..Mark::default() }),
    };
    let placed = |at: usize| PlacedPod {
        node: at % 5000,
        pod: pod(at, "placed"),
        before: at.is_multiple_of(2).then(|| node(at % 4999).name),
    };
    let total =
        |at: usize| Total { attempts: at * 150, pods: at * 145, requested: amounts(at as i64 * 9000) };
    let size = |at: usize| Size {
        title: format!("cpu={}m", 250 << at),
        request: amounts(250 << at),
        copies: (0..5000).map(|node| (node + at) % 8).collect(),
    };
    Scene {
        title: "Large".to_owned(),
        nodes: (0..5000).map(node).collect(),
        pods: (0..29_000).map(placed).collect(),
        waiting: vec![WaitingRow {
            pods: "team-*/service-* (1000 pods)".to_owned(),
            state: "unschedulable".to_owned(),
            message: "0/5000 nodes are available: 5000 Insufficient cpu.".to_owned(),
            members: (29_000..30_000).map(|at| pod(at, "unschedulable")).collect(),
        }],
        sizes: (0..6).map(size).collect(),
        course: (0..200).map(total).collect(),
        ..Scene::default()
    }
}

#[test]
fn a_large_cluster_needs_a_small_page_and_few_elements() {
    let html = Document::with(&large()).html;
    assert!(html.len() < 3_000_000, "{} bytes", html.len());
    let mut page = Opened::new(&html);
    assert_eq!(page.text("#status"), "5,000 nodes, 29,000 pods on them, 1,000 waiting");
    page.click("#node-list summary");
    page.click("#queue-table button");
    page.browser.click_at("#boxes", 6, 28).expect("a click");
    assert_eq!(page.text("#node-title"), "Node node-0000.example.internal");
    assert_eq!(page.text("#row-pods nav span"), "1 to 50 of 1,000");
    page.click("#row-pods nav button:last-child");
    assert_eq!(page.text("#row-pods nav span"), "51 to 100 of 1,000");
    assert_eq!(page.value("document.querySelectorAll('*').length < 2000"), true);
    page.ends_quietly();
}

#[test]
#[ignore = "measures time: run it alone"]
fn a_large_page_loads_within_a_second() {
    let html = Document::with(&large()).html;
    let mut page = Opened::new(&html);
    let loads: Vec<f64> = (0..5)
        .map(|_| {
            page.open_again();
            let took = page.value("performance.getEntriesByType('navigation')[0].duration");
            took.as_f64().unwrap_or(f64::MAX)
        })
        .collect();
    eprintln!("{} bytes; loads in ms: {loads:.0?}", html.len());
    assert!(loads.iter().all(|ms| *ms <= 1000.0), "{loads:?}");
    page.ends_quietly();
}

/// Returns a cluster for pictures: nodes of two sizes in three zones, and workloads that do not all fit.
fn showcase() -> String {
    let node = |number: usize| {
        let (cpu, gpu) = if number.is_multiple_of(5) { (32, ", example.com/gpu: 4") } else { (8, "") };
        format!(
            "{{apiVersion: v1, kind: Node, metadata: {{name: node-{number}, labels: {{topology.kubernetes.io/zone: \
             zone-{}}}}}, status: {{allocatable: {{cpu: {cpu}, memory: 32Gi, pods: 110{gpu}}}}}}}\n---\n",
            ["a", "b", "c"][number % 3]
        )
    };
    let workload = |name: &str, replicas: usize, amounts: &str| {
        format!(
            "{{apiVersion: apps/v1, kind: ReplicaSet, metadata: {{name: {name}, namespace: shop}}, spec: {{replicas: \
             {replicas}, selector: {{matchLabels: {{app: {name}}}}}, template: {{metadata: {{labels: {{app: {name}}}}}, \
             spec: {{containers: [{{name: c, image: i, resources: {{requests: {{{amounts}}}}}}}]}}}}}}}}\n---\n"
        )
    };
    let nodes: String = (1..=72).map(node).collect();
    let gated = "{apiVersion: v1, kind: Pod, metadata: {name: report, namespace: batch}, spec: {schedulingGates: [{name: \
                 example.com/quota}], containers: [{name: c, image: i}]}}\n";
    let workloads = [
        workload("web", 160, "cpu: 750m, memory: 1Gi"),
        workload("search", 60, "cpu: 4, memory: 6Gi"),
        workload("cache", 40, "cpu: 500m, memory: 8Gi"),
        workload("model", 3, "cpu: 40, memory: 16Gi"),
    ];
    nodes + &workloads.concat() + gated
}

/// Returns the cluster of [`showcase`] with pods that have nodes, so that changes move few of them.
fn settled() -> String {
    let pod = |number: usize| {
        let (name, cpu, memory) =
            [("web", "750m", "1Gi"), ("search", "4", "6Gi"), ("cache", "500m", "8Gi")][number % 3];
        let node = number % 72 + 1;
        format!(
            "{{apiVersion: v1, kind: Pod, metadata: {{name: {name}-{number}, namespace: shop, ownerReferences: [{{apiVersion: \
             apps/v1, kind: ReplicaSet, name: {name}, uid: {name}, controller: true}}]}}, spec: {{nodeName: node-{node}, \
             containers: [{{name: c, image: i, resources: {{requests: {{cpu: {cpu}, memory: {memory}}}}}}}]}}}}\n---\n"
        )
    };
    let showcase = showcase();
    let nodes = showcase.split_inclusive("---\n").filter(|manifest| manifest.contains("kind: Node"));
    nodes.map(str::to_owned).chain((0..150).map(pod)).collect()
}

#[test]
#[ignore = "writes the pictures of the documentation"]
fn the_documentation_shows_the_page() {
    let mut page = Opened::new(&simulated(&showcase(), &[]));
    for (dark, name) in [(false, "page-light.png"), (true, "page-dark.png")] {
        page.browser.prefer_dark(dark).expect("the preference is set");
        page.browser.click_at("#boxes", 20, 40).expect("a click");
        page.click("#queue-table button");
        draw(&mut page, name);
    }
    page.ends_quietly();
    let changes = ["--drain", "node-3", "--remove", "node-10", "--add", "4", "--like", "node-5"];
    let mut page = Opened::new(&simulated(&settled(), &changes));
    draw(&mut page, "page-changes.png");
    page.ends_quietly();
}

fn draw(page: &mut Opened, name: &str) {
    let picture = page.browser.screenshot().expect("a picture");
    assert!(picture.len() <= 150_000, "{} bytes", picture.len());
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(name);
    fs::write(file, picture).expect("the picture is written");
}
