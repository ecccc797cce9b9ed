//! The processes of the replicas. A process that exits is restarted a few seconds later, as a kubelet would restart it.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use harbormaster_api::Release;
use serde_json::json;

use super::violation::Violation;
use crate::components::Endpoint;
use crate::process;
use crate::scheduler::emulating;

/// Time after which a replica that has exited is restarted, and after which a started replica is considered running.
const RESTART_DELAY: Duration = Duration::from_secs(5);
/// Time that a replica has to exit after SIGTERM.
const GRACE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// Message that a leader logs when it exits because it could not renew its lease.
const LOST: &str = "Leaderelection lost";
const LOG_LINES: usize = 15;

/// All replicas.
pub(super) struct Replicas {
    program: PathBuf,
    replicas: Vec<Replica>,
    /// Number of leaders that exited because they could not renew their lease.
    pub(super) lost: usize,
    pub(super) violations: Vec<Violation>,
}

struct Replica {
    name: String,
    config: PathBuf,
    release: Release,
    environment: Vec<(&'static str, String)>,
    /// Log files, one for each start.
    logs: Vec<PathBuf>,
    state: State,
    /// Time of the last start or exit.
    since: Instant,
}

enum State {
    Running(Child),
    Ended,
}

impl Replicas {
    /// Creates replicas with these names, which are also their tokens, without starting them. The first replica gets
    /// the additional variables in `environment`.
    pub(super) fn new(
        program: PathBuf,
        cluster: &Endpoint,
        names: &[String],
        environment: &[(&'static str, String)],
    ) -> Result<Self> {
        let replicas = names.iter().enumerate().map(|(index, name)| {
            Ok(Replica {
                name: name.clone(),
                config: write_config(cluster, name)?,
                release: cluster.release(),
                environment: if index == 0 { environment.to_vec() } else { Vec::new() },
                logs: Vec::new(),
                state: State::Ended,
                since: Instant::now(),
            })
        });
        Ok(Self { program, replicas: replicas.collect::<Result<_>>()?, lost: 0, violations: Vec::new() })
    }

    /// Starts the first replica if `first` is true, otherwise all others.
    pub(super) fn start(&mut self, first: bool) -> Result<()> {
        let (one, others) = self.replicas.split_at_mut(1);
        let selected = if first { one } else { others };
        selected.iter_mut().try_for_each(|replica| replica.start(&self.program))
    }

    /// Sends SIGKILL to a replica. Returns true if it was running.
    pub(super) fn kill(&mut self, name: &str) -> Result<bool> {
        let Some(replica) = self.replicas.iter_mut().find(|replica| replica.name == name) else {
            return Ok(false);
        };
        let State::Running(child) = &mut replica.state else { return Ok(false) };
        if child.try_wait()?.is_some() {
            return Ok(false);
        }
        child.kill()?;
        child.wait()?;
        replica.set_ended();
        Ok(true)
    }

    /// Restarts replicas that have exited. Returns descriptions of the restarts and of the leases that were lost.
    pub(super) fn restart_ended(&mut self) -> Result<Vec<String>> {
        let mut events = Vec::new();
        for replica in &mut self.replicas {
            match &mut replica.state {
                State::Running(child) => {
                    let Some(status) = child.try_wait()? else { continue };
                    replica.set_ended();
                    if status.code() == Some(1) && replica.log().contains(LOST) {
                        self.lost += 1;
                        events.push(format!("{} lost its lease and exited", replica.name));
                    } else {
                        self.violations.push(replica.end_violation(status));
                    }
                }
                State::Ended if replica.since.elapsed() >= RESTART_DELAY => {
                    replica.start(&self.program)?;
                    events.push(format!("{} is restarted", replica.name));
                }
                State::Ended => {}
            }
        }
        Ok(events)
    }

    /// Returns true if all replicas have been running for a while.
    pub(super) fn is_complete(&self) -> bool {
        let runs = |replica: &Replica| matches!(replica.state, State::Running(_));
        self.replicas.iter().all(|replica| runs(replica) && replica.since.elapsed() >= RESTART_DELAY)
    }

    /// Stops all replicas and searches their logs for panics.
    pub(super) fn stop(&mut self) -> Result<()> {
        for replica in &self.replicas {
            if let State::Running(child) = &replica.state {
                process::terminate(child.id()).context("running kill")?;
            }
        }
        let deadline = Instant::now() + GRACE;
        for replica in &mut self.replicas {
            if let State::Running(child) = &mut replica.state {
                let mut status = child.try_wait()?;
                while status.is_none() && Instant::now() < deadline {
                    sleep(POLL);
                    status = child.try_wait()?;
                }
                if status.is_none() {
                    child.kill()?;
                }
                let status = child.wait()?;
                if !status.success() {
                    let violation = replica.end_violation(status);
                    self.violations.push(violation);
                }
            }
            self.violations.extend(replica.panics());
        }
        Ok(())
    }
}

impl Drop for Replicas {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            if let State::Running(child) = &mut replica.state {
                // Both fail only if the process has already exited.
                let _ = child.kill();
                let _ = child.wait();
            }
        }
    }
}

impl Replica {
    fn start(&mut self, program: &Path) -> Result<()> {
        let log = self.config.with_extension(format!("{}.log", self.logs.len()));
        let output = File::create(&log)?;
        self.logs.push(log);
        let child = Command::new(program)
            .args(["run", "--secure-port=0"])
            .arg(format!("--config={}", self.config.display()))
            .arg(emulating(self.release))
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("running {}", program.display()))?;
        (self.state, self.since) = (State::Running(child), Instant::now());
        Ok(())
    }

    fn set_ended(&mut self) {
        (self.state, self.since) = (State::Ended, Instant::now());
    }

    /// The log since the replica's last start.
    fn log(&self) -> String {
        self.logs.last().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default()
    }

    fn end_violation(&self, status: ExitStatus) -> Violation {
        let log = process::last_lines(&self.log(), LOG_LINES);
        Violation::Ended { replica: self.name.clone(), how: status.to_string(), log }
    }

    fn panics(&self) -> Vec<Violation> {
        let logs = self.logs.iter().filter_map(|log| fs::read_to_string(log).ok());
        let lines = logs.flat_map(|log| log.lines().map(str::to_owned).collect::<Vec<_>>());
        let panics = lines.filter(|line| line.contains("panicked"));
        panics.map(|line| Violation::Panicked { replica: self.name.clone(), line }).collect()
    }
}

/// Writes a configuration with the default settings for leader election, and a kubeconfig with `token`.
fn write_config(cluster: &Endpoint, token: &str) -> Result<PathBuf> {
    let kubeconfig = cluster.directory().join(format!("{token}.kubeconfig"));
    let admin = fs::read_to_string(cluster.kubeconfig())?;
    fs::write(&kubeconfig, admin.replace(cluster.token(), token))?;
    let config = json!({
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": kubeconfig, "qps": 5000, "burst": 5000},
        "leaderElection": {"leaderElect": true},
    });
    let path = kubeconfig.with_extension("json");
    fs::write(&path, config.to_string())?;
    Ok(path)
}
