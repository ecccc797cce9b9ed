//! A scheduler inside another program.

#![allow(clippy::unwrap_used, reason = "a failing set-up fails the test")]

use std::time::Duration;

use harbormaster::{
    ExitReason, Scheduler,
    sandbox::{AttachedScheduler, Options, PodState, Sandbox},
    simulation::Source,
};

const POD: &str = "
apiVersion: v1
kind: Pod
metadata: {name: p}
spec: {containers: [{name: c, image: i}]}
";

fn options(scheduler: AttachedScheduler) -> Options {
    let manifests = vec![Source { name: "pod.yaml".to_owned(), text: POD.to_owned() }];
    Options { nodes: 1, manifests, scheduler, ..Options::default() }
}

#[tokio::test]
async fn an_embedded_scheduler_runs_until_it_is_stopped() {
    let mut sandbox = Sandbox::start(options(AttachedScheduler::None)).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let kubeconfig = directory.path().join("kubeconfig");
    std::fs::write(&kubeconfig, sandbox.kubeconfig()).unwrap();
    let scheduler = Scheduler::builder().kubeconfig(kubeconfig).build().unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(scheduler.run(async {
        // If the sender is dropped, the scheduler stops too.
        let _ = stopped.await;
    }));
    let placed = sandbox.shows(Duration::from_secs(60), |board| board.count(PodState::Placed) == 1);
    assert!(placed.await, "{:?}", sandbox.board);
    stop.send(()).unwrap();
    assert_eq!(running.await.unwrap().unwrap(), ExitReason::Finished);
}

#[tokio::test]
async fn a_missing_kubeconfig_is_an_error() {
    let scheduler = Scheduler::builder().kubeconfig("/no/such/kubeconfig").build().unwrap();
    let error = scheduler.run(std::future::pending()).await.unwrap_err().to_string();
    assert!(error.contains("/no/such/kubeconfig"), "{error}");
}

#[tokio::test]
async fn a_sandbox_has_the_profiles_of_its_scheduler() {
    let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n\
                  profiles: [{schedulerName: mine}]\n";
    let scheduler = Scheduler::builder().config("s.yaml", config).build().unwrap();
    let sandbox = scheduler.sandbox(options(AttachedScheduler::None)).await.unwrap();
    assert_eq!(sandbox.schedulers(), ["mine"]);
}
