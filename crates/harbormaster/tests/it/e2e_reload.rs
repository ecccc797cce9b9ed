//! A changed configuration file is applied while the scheduler runs, if possible; otherwise the old configuration stays
//! in effect and the reason is reported.

use std::{collections::BTreeSet, fs, path::PathBuf, thread::sleep, time::Duration};

use serde_json::json;

use crate::e2e::{
    cluster::{PATIENCE, eventually, get_pod, wait_until_bound},
    extender::Extender,
    objects::{NODES, PODS, node, node_of, pod},
    process::Harbormaster,
    server::{Cluster, Server, on_both_servers},
};

on_both_servers! {
    weights_and_profiles_of_a_changed_file_take_effect,
    a_change_that_cannot_be_applied_is_rejected_and_the_old_configuration_stays_active,
    the_extenders_of_a_changed_file_are_called,
    a_half_written_file_is_not_applied,
}

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A scheduler and its configuration file, which is mounted as the kubelet would mount it: as a symbolic link that is
/// replaced.
struct Scene {
    cluster: Cluster,
    directory: tempfile::TempDir,
    scheduler: Option<Harbormaster>,
    versions: usize,
}

impl Scene {
    fn new(server: Server, config: &str) -> Self {
        let directory = tempfile::tempdir().expect("a temporary directory");
        let mut scene = Self { cluster: server.own(), directory, scheduler: None, versions: 0 };
        scene.mount(config);
        let args = [format!("--config={}", scene.link().display())];
        scene.scheduler = Some(Harbormaster::start(&args, scene.path("log")));
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn link(&self) -> PathBuf {
        self.path("config.yaml")
    }

    fn scheduler(&self) -> &Harbormaster {
        self.scheduler.as_ref().expect("the scheduler runs")
    }

    /// Returns a complete configuration: `config` with `apiVersion`, `kind` and the kubeconfig added.
    fn text(&self, config: &str) -> String {
        let kubeconfig = self.cluster.kubeconfig().display();
        match config.contains("clientConnection") {
            true => format!("{HEAD}{}", config.replace("$KUBECONFIG", &kubeconfig.to_string())),
            false => format!("{HEAD}clientConnection: {{kubeconfig: '{kubeconfig}'}}\n{config}"),
        }
    }

    /// Replaces the configuration file.
    fn mount(&mut self, config: &str) {
        self.versions += 1;
        let (file, next) = (self.path(&format!("v{}", self.versions)), self.path("next"));
        fs::write(&file, self.text(config)).expect("the file is written");
        std::os::unix::fs::symlink(&file, &next).expect("a link can be made");
        fs::rename(&next, self.link()).expect("a link can be replaced");
    }

    /// Replaces the configuration file and waits for a new log line that contains `parts`.
    fn change(&mut self, config: &str, parts: &[&str]) -> String {
        let before = self.scheduler().lines_with(parts).len();
        self.mount(config);
        self.scheduler().signal("HUP");
        eventually(&format!("a log line with {parts:?}"), PATIENCE, || {
            self.scheduler().lines_with(parts).into_iter().nth(before)
        })
    }

    fn take_over(&mut self, config: &str) {
        self.change(config, &["The changed configuration file is now in effect"]);
    }

    fn add_node(&self, name: &str, cpu: &str) {
        let node = node(name, json!({}), cpu, "64Gi", 100);
        self.cluster.client().post(NODES, &node).expect("the node is created");
    }

    fn add_pod(&self, name: &str, scheduler: &str, cpu: &str) {
        let pod = pod(name, scheduler, json!({"cpu": cpu}), json!({}));
        self.cluster.client().post(PODS, &pod).expect("the pod is created");
    }

    fn node_of(&self, pod: &str) -> String {
        wait_until_bound(self.cluster.client(), pod)
    }

    fn end(mut self) -> String {
        self.scheduler.take().expect("the scheduler runs").ends_well()
    }
}

/// Returns a profile that scores nodes only by their CPU utilization.
fn profile(name: &str, strategy: &str) -> String {
    format!(
        "- schedulerName: {name}\n  plugins:\n    preScore: {{disabled: [{{name: '*'}}]}}\n    score: {{disabled: [{{name: '*'}}], enabled: [{{name: \
         NodeResourcesFit, weight: 1}}]}}\n  pluginConfig:\n  - name: NodeResourcesFit\n    args: {{scoringStrategy: {{type: \
         {strategy}, resources: [{{name: cpu, weight: 1}}]}}}}\n"
    )
}

fn weights_and_profiles_of_a_changed_file_take_effect(server: Server) {
    let (spreads, packs) = (profile("mine", "LeastAllocated"), profile("mine", "MostAllocated"));
    let mut scene = Scene::new(server, &format!("profiles:\n{spreads}"));
    scene.add_node("a", "8");
    scene.add_pod("first", "mine", "4");
    assert_eq!(scene.node_of("first"), "a");
    scene.add_node("b", "8");
    // The scheduler may not know the new node yet. Once it does, it prefers that node, which is emptier.
    let mut probes = 0;
    eventually("a pod is placed on b", PATIENCE, || {
        probes += 1;
        let name = format!("probe-{probes}");
        scene.add_pod(&name, "mine", "10m");
        (scene.node_of(&name) == "b").then_some(())
    });
    scene.take_over(&format!("profiles:\n{packs}"));
    scene.add_pod("packed", "mine", "1");
    assert_eq!(scene.node_of("packed"), "a");

    // A pod that has been waiting for a profile with its scheduler name is scheduled; a pod whose profile disappears
    // stays pending.
    scene.add_pod("others", "other", "1");
    scene.add_pod("too-large", "mine", "100");
    scene.scheduler().wait_for_line(&["Unable to schedule pod", "default/too-large"]);
    let other = profile("other", "LeastAllocated");
    scene.take_over(&format!("profiles:\n{other}"));
    scene.node_of("others");
    let tried = scene.scheduler().attempts("too-large");
    scene.add_node("huge", "128");
    scene.add_pod("next", "other", "20");
    assert_eq!(scene.node_of("next"), "huge");
    assert_eq!(scene.scheduler().attempts("too-large"), tried, "no profile has its scheduler name");
    scene.take_over(&format!("profiles:\n{packs}{other}"));
    assert_eq!(scene.node_of("too-large"), "huge");

    let log = scene.end();
    assert_eq!(log.matches("Successfully bound pod to node").count(), bound(&log), "no pod is bound twice");
}

/// Returns the number of pods that the log reports as bound.
fn bound(log: &str) -> usize {
    let lines = log.lines().filter(|line| line.contains("Successfully bound pod to node"));
    let pods = lines.filter_map(|line| line.split_once("pod=\"")?.1.split('"').next());
    pods.collect::<BTreeSet<_>>().len()
}

fn a_change_that_cannot_be_applied_is_rejected_and_the_old_configuration_stays_active(server: Server) {
    const REFUSED: &str = "The configuration file has changed and is refused";
    let mine = profile("mine", "LeastAllocated");
    let mut scene = Scene::new(server, &format!("profiles:\n{mine}"));
    let file = scene.link().display().to_string();
    scene.add_node("a", "8");
    scene.add_pod("first", "mine", "1");
    scene.node_of("first");
    for (config, parts) in [
        ("profiles: [\n".to_owned(), &["config.yaml:"][..]),
        (
            "profiles:\n- schedulerName: mine\n  pluginz: {}\n".to_owned(),
            &[":6:3: unknown field", "profiles[0].pluginz"],
        ),
        ("podMaxBackoffSeconds: 0\n".to_owned(), &["podMaxBackoffSeconds"]),
        (
            format!("leaderElection: {{leaseDuration: 30s}}\nprofiles:\n{mine}"),
            &[":4:18: leaderElection.leaseDuration", "needs a restart"],
        ),
        (
            format!("clientConnection: {{kubeconfig: $KUBECONFIG, qps: 7}}\nprofiles:\n{mine}"),
            &["clientConnection.qps", "needs a restart"],
        ),
    ] {
        let told = scene.change(&config, &[&[REFUSED, file.as_str()][..], parts].concat());
        assert!(told.starts_with('E'), "{told}");
    }
    scene.add_pod("p", "mine", "1");
    assert_eq!(scene.node_of("p"), "a");
    scene.add_pod("q", "default-scheduler", "1");
    // A rejected file does not prevent a later valid file from being applied.
    scene.take_over("profiles:\n- schedulerName: default-scheduler\n");
    assert_eq!(scene.node_of("q"), "a");
    assert!(get_pod(scene.cluster.client(), "q").is_some_and(|pod| node_of(&pod) == Some("a")));
    scene.end();
}

fn a_half_written_file_is_not_applied(server: Server) {
    const COUNTS: &str = "The changed configuration file is now in effect";
    let scene = Scene::new(server, "profiles: [{schedulerName: mine}]\n");
    scene.scheduler().wait_for_line(&["Caches populated"]);
    let more = "profiles:\n- schedulerName: mine\n- schedulerName: other\npodMaxBackoffSeconds: 17\nparallelism: 8\n";
    let whole = scene.text(more);
    // Some of these truncated files are valid, because they end with a complete line.
    let shortest = whole.find("profiles").expect("the file contains profiles");
    for part in 0..=30 {
        let length = shortest + (whole.len() - shortest) * part / 30;
        fs::write(scene.link(), &whole[..length]).expect("the file is written");
        scene.scheduler().signal("HUP");
        sleep(Duration::from_millis(30));
    }
    scene.scheduler().wait_for_line(&[COUNTS]);
    let log = scene.end();
    assert_eq!(log.matches(COUNTS).count(), 1, "{log}");
    assert_eq!(log.matches("is refused").count(), 0, "{log}");
}

/// Starts an extender that accepts only the node `node`.
fn only(node: &'static str) -> Extender {
    Extender::start(move |_, args| {
        let names = args["NodeNames"].as_array().into_iter().flatten();
        let (pass, fail): (Vec<_>, Vec<_>) = names.cloned().partition(|name| name == node);
        let failed = fail.iter().filter_map(|name| Some((name.as_str()?.to_owned(), json!("not there"))));
        let failed: serde_json::Map<_, _> = failed.collect();
        Some(json!({"NodeNames": pass, "FailedNodes": failed}))
    })
}

fn asking(extender: &Extender, sees_names: bool) -> String {
    let url = &extender.url;
    format!("extenders: [{{urlPrefix: '{url}', filterVerb: filter, nodeCacheCapable: {sees_names}}}]\n")
}

fn the_extenders_of_a_changed_file_are_called(server: Server) {
    let (first, second) = (only("a"), only("b"));
    let mut scene = Scene::new(server, &asking(&first, true));
    scene.add_node("a", "8");
    scene.add_pod("first", "default-scheduler", "10m");
    assert_eq!(scene.node_of("first"), "a");
    scene.add_node("b", "8");
    scene.take_over(&asking(&second, true));
    scene.add_pod("second", "default-scheduler", "10m");
    assert_eq!(scene.node_of("second"), "b");
    assert_eq!((first.asked("filter", "second").len(), second.asked("filter", "first").len()), (0, 0));

    // The scheduler has not kept whole Node objects, so it cannot send them.
    let refused = "The configuration file has changed and is refused";
    scene.change(&asking(&first, false), &[refused, "extenders need nodes", "restart it"]);
    scene.add_pod("third", "default-scheduler", "10m");
    assert_eq!(scene.node_of("third"), "b");

    scene.take_over("profiles: [{schedulerName: default-scheduler}]\n");
    let asked = second.asked("filter", "third").len();
    scene.add_pod("fourth", "default-scheduler", "7");
    scene.node_of("fourth");
    assert_eq!((asked, second.asked("filter", "fourth").len()), (1, 0));
    scene.end();
}
