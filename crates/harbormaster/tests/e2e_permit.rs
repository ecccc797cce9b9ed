//! A running scheduler with a plugin of its own says which pods wait on Permit.
//!
//! This program is the scheduler, too: it starts itself with the argument `run`. That is why it has no test harness.

#[path = "it/e2e/mod.rs"]
mod e2e;

use std::{
    env,
    process::{Command, ExitCode},
    time::Duration,
};

use e2e::{
    cluster::{PATIENCE, eventually},
    objects::{NODES, PODS, default_config, node, pod},
    process::{Harbormaster, with_open_port},
    server::Server,
};
use harbormaster::{api::Str, prelude::*};
use harbormaster_oracle::components::free_ports;
use serde_json::{Value, json};

const SCHEDULER: &str = "default-scheduler";

/// Delays every pod for an hour.
struct Slow;

impl Plugin for Slow {
    const NAME: &'static str = "Slow";
    implemented_points!();
}

impl Build for Slow {
    type Args = NoArgs;

    fn build(_: NoArgs, _: &BuildCycle) -> Result<Self, PluginError> {
        Ok(Self)
    }
}

impl Permit for Slow {
    fn permit(&self, _: &Cycle<'_>, _: &Str, _: &mut Waiting<'_>) -> Result<Permitted, Stop> {
        Ok(Permitted::Wait(Duration::from_secs(3600)))
    }
}

fn main() -> ExitCode {
    if env::args().nth(1).is_some_and(|command| ["run", "why"].contains(&command.as_str())) {
        return harbormaster::main(|plugins| {
            plugins.register::<Slow>();
        });
    }
    a_running_scheduler_says_that_a_pod_waits_on_permit();
    ExitCode::SUCCESS
}

fn a_running_scheduler_says_that_a_pod_waits_on_permit() {
    let cluster = Server::Embedded.own();
    let client = cluster.client();
    client.post(NODES, &node("node", json!({}), "1", "8Gi", 110)).expect("the node is created");
    let mut config = default_config();
    config["profiles"] =
        json!([{"schedulerName": SCHEDULER, "plugins": {"permit": {"enabled": [{"name": "Slow"}]}}}]);
    let config = cluster.write_scheduler_config(&config.to_string()).expect("the configuration is written");
    let [port] = free_ports().expect("a port is free");
    let args = with_open_port(&config, port, "/debug/why");
    let program = env::current_exe().expect("the path of this program");
    let scheduler =
        Harbormaster::start_program(&program, &args, cluster.directory().join("harbormaster.log"));
    client
        .post(PODS, &pod("slow", SCHEDULER, json!({"cpu": "100m"}), json!({})))
        .expect("the pod is created");
    let from = format!("https://127.0.0.1:{port}");
    let told = eventually("the pod waits on Permit", PATIENCE, || {
        let mut why = Command::new(&program);
        why.args(["why", "slow", "--from", &from, "--insecure-skip-tls-verify", "-o", "json"]);
        let output = why.output().expect("the program runs");
        let told: Value = serde_json::from_slice(&output.stdout).ok()?;
        (told["state"] == "permit").then_some(told)
    });
    assert_eq!((&told["pod"], &told["node"]), (&"default/slow".into(), &"node".into()), "{told}");
    assert_eq!(
        (&told["permit"][0]["plugin"], told["permit"].as_array().map(Vec::len)),
        (&"Slow".into(), Some(1))
    );
    assert!(told["permit"][0]["until"].is_string(), "{told}");
    scheduler.ends_well();
    println!("a running scheduler says that a pod waits on Permit: ok");
}
