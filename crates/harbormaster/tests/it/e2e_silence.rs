//! Connections that die silently: the scheduler must detect the loss when it sends or waits.

use std::{
    thread,
    time::{Duration, Instant},
};

use crate::e2e::{
    cluster::{PATIENCE, events, eventually},
    objects::config,
    process::Harbormaster,
    scene::Scene,
    server::{Server, on_both_servers},
    tunnel::Tunnel,
};
use harbormaster_oracle::components::Endpoint;
use serde_json::{Value, json};

on_both_servers! {
    a_silent_network_is_detected_and_no_pod_is_bound_twice_or_lost,
}

/// Time limit from the start of the silence to the first binding. kube-scheduler takes 46 s.
const FIRST_BINDING: Duration = Duration::from_secs(50);
/// Time for which only responses are lost: pods are bound, but the scheduler does not learn of the bindings.
const HALF_SILENCE: Duration = Duration::from_secs(2);

/// Protocol between Harbormaster and the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Over {
    /// TLS all the way to the server, watches over HTTP/2.
    Http2,
    /// Plain HTTP/1.1 to the proxy in front of the server.
    Http1,
}

/// Harbormaster connected through a tunnel.
struct Tunnelled {
    scene: Scene,
    tunnel: Tunnel,
    harbormaster: Harbormaster,
    /// Owns the kubeconfig file.
    _endpoint: Endpoint,
}

fn a_silent_network_is_detected_and_no_pod_is_bound_twice_or_lost(server: Server) {
    // If the cases ran one after another, they would take minutes.
    thread::scope(|scope| {
        scope.spawn(|| while_all_is_quiet(server, "quiet-http2", Over::Http2));
        scope.spawn(|| while_all_is_quiet(server, "quiet-http1", Over::Http1));
        scope.spawn(|| while_bindings_hang(server, "hung-http2", Over::Http2));
        scope.spawn(|| while_bindings_hang(server, "hung-http1", Over::Http1));
        scope.spawn(|| while_answers_are_lost(server, "lost-http2", Over::Http2));
        scope.spawn(|| while_answers_are_lost(server, "lost-http1", Over::Http1));
    });
}

fn while_all_is_quiet(server: Server, name: &'static str, over: Over) {
    let Tunnelled { scene, tunnel, harbormaster, _endpoint } = tunnelled(server, name, over, config(name), 0);
    scene.create("before", "100m");
    scene.is_bound("before");
    if over == Over::Http1 {
        // From the second watch of a kind on, the scheduler requests short watches.
        let opened = || harbormaster.lines_with(&["Watch opened", "kind=\"pods\""]).len();
        eventually("the watches have been reopened", PATIENCE, || (opened() >= 2).then_some(()));
    }
    thread::sleep(Duration::from_secs(3));
    tunnel.fall_silent();
    let silent = Instant::now();
    scene.create("after", "100m");
    scene.is_bound("after");
    let took = silent.elapsed();
    assert!(took <= FIRST_BINDING, "{name}: {took:?}");
    println!("{name}: bound after {took:.1?}");
    eventually("the event is written", PATIENCE, || {
        (events(&scene.client, &scene.full("after"), "Scheduled").len() == 1).then_some(())
    });
    let times_bound = || scene.watch.times_bound(&scene.full("after"));
    eventually("the test's own watch reports the binding", PATIENCE, || (times_bound() > 0).then_some(()));
    assert_eq!(times_bound(), 1);
    scene.ends_well(harbormaster);
}

/// Bindings are sent but never reach the server.
fn while_bindings_hang(server: Server, name: &'static str, over: Over) {
    const PODS: usize = 20;
    let Tunnelled { scene, tunnel, harbormaster, _endpoint } = tunnelled(server, name, over, config(name), 1);
    scene.create("before", "100m");
    scene.is_bound("before");
    tunnel.swallow_requests();
    scene.create_many(PODS);
    for index in 0..PODS {
        let pod = scene.full(&format!("many-{index}"));
        eventually("a node has been chosen for the pod", PATIENCE, || {
            (harbormaster.attempts(&pod) == 1).then_some(())
        });
    }
    thread::sleep(Duration::from_secs(1));
    tunnel.fall_silent();
    let silent = Instant::now();
    assert_eq!(scene.watch.bound_of(&scene.full("many-")), 0);
    goes_on(&scene, &harbormaster, silent, PODS);
    scene.ends_well(harbormaster);
}

/// The server carries out bindings, but its responses are lost.
fn while_answers_are_lost(server: Server, name: &'static str, over: Over) {
    const NODES: usize = 5;
    const PODS: usize = 20 * NODES;
    let mut config = config(name);
    // The scheduler chooses the nodes of all pods at the start, but sends the bindings one by one.
    config["clientConnection"] = json!({"qps": 5, "burst": 1, "contentType": "application/json"});
    let Tunnelled { scene, tunnel, harbormaster, _endpoint } =
        tunnelled(server, name, over, config, NODES - 1);
    let prefix = scene.full("many-");
    scene.create_many(PODS);
    eventually("some pods are bound", PATIENCE, || (scene.watch.bound_of(&prefix) > 5).then_some(()));
    tunnel.swallow_answers();
    thread::sleep(HALF_SILENCE);
    tunnel.fall_silent();
    let silent = Instant::now();
    goes_on(&scene, &harbormaster, silent, PODS);
    if over == Over::Http1 {
        let binds = scene.proxy.records(|request| request.path.ends_with("/binding"));
        let conflicts = binds.iter().filter(|bind| bind.status == 409).count();
        assert!(conflicts > 0, "some pods were bound without the scheduler's knowledge and then tried again");
    }
    scene.ends_well(harbormaster);
}

/// Asserts that Harbormaster resumes in time and learns of each pod's binding exactly once.
fn goes_on(scene: &Scene, harbormaster: &Harbormaster, silent: Instant, pods: usize) {
    let name = scene.name;
    let bound = || harbormaster.lines_with(&["Successfully bound pod to node", &scene.full("many-")]).len();
    // The server soon finishes the requests that it has received.
    thread::sleep(Duration::from_secs(2));
    let before = bound();
    assert!(before < pods, "{name}: all pods were bound before the network fell silent");
    eventually("another pod is bound", PATIENCE, || (bound() > before).then_some(()));
    let first = silent.elapsed();
    assert!(first <= FIRST_BINDING, "{name}: {first:?}");
    eventually("all pods are bound", PATIENCE, || (bound() >= pods).then_some(()));
    println!("{name}: bound after {first:.1?}, and all after {:.1?}", silent.elapsed());
    scene.many_are_bound(pods);
    assert_eq!(bound(), pods);
}

fn tunnelled(server: Server, name: &'static str, over: Over, config: Value, more_nodes: usize) -> Tunnelled {
    let scene = Scene::new(server, name);
    for index in 0..more_nodes {
        scene.create_node(&format!("node-{index}"), "2", "a");
    }
    let (scheme, target) = match over {
        Over::Http2 => {
            let port = scene.endpoint().server_url().rsplit(':').next().and_then(|port| port.parse().ok());
            ("https", port.expect("an address with a port"))
        }
        Over::Http1 => {
            scene.proxy.listen();
            ("http", scene.proxy.port)
        }
    };
    let tunnel = Tunnel::to(target);
    let address = format!("{scheme}://127.0.0.1:{}", tunnel.port);
    let endpoint = Endpoint::new(&address, scene.endpoint().token()).expect("a kubeconfig is written");
    let way = format!("--kubeconfig={}", endpoint.kubeconfig().display());
    let harbormaster = scene.start_with(&config, way);
    scene.wait_until_watched(&harbormaster);
    let protocol = format!("is_probed={}", over == Over::Http2);
    harbormaster.wait_for_line(&["Watch opened", "kind=\"pods\"", &protocol]);
    let unchecked = harbormaster.lines_with(&["insecure-skip-tls-verify"]).len();
    assert_eq!(
        unchecked,
        usize::from(over == Over::Http2),
        "a warning is logged only for TLS without verification, and only once"
    );
    Tunnelled { scene, tunnel, harbormaster, _endpoint: endpoint }
}
