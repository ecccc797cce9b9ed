//! The replicas as processes. What ends is started again some seconds later, as kubelet would.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::json;

use super::violation::Violation;
use crate::components::Endpoint;
use crate::process;

/// How long a replica that has ended is away, and when one that was started has certainly begun.
const AWAY: Duration = Duration::from_secs(5);
/// How long a replica may take to end when it is asked to.
const GRACE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(20);
/// How a leader ends that could not renew its lease.
const LOST: &str = "Leaderelection lost";
const LOG_LINES: usize = 15;

/// All replicas.
pub(super) struct Crew {
    program: PathBuf,
    replicas: Vec<Replica>,
    /// Leaders that ended because they could not renew their lease.
    pub(super) lost: usize,
    pub(super) violations: Vec<Violation>,
}

struct Replica {
    name: String,
    config: PathBuf,
    environment: Vec<(&'static str, String)>,
    /// One for each start.
    logs: Vec<PathBuf>,
    state: State,
    /// When it was started or has ended.
    since: Instant,
}

enum State {
    Running(Child),
    Away,
}

impl Crew {
    /// Replicas of those names, which are their tokens, too; none is started yet. The first has `environment` besides.
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
                environment: if index == 0 { environment.to_vec() } else { Vec::new() },
                logs: Vec::new(),
                state: State::Away,
                since: Instant::now(),
            })
        });
        Ok(Self { program, replicas: replicas.collect::<Result<_>>()?, lost: 0, violations: Vec::new() })
    }

    /// Starts the first, or all the others.
    pub(super) fn start(&mut self, first: bool) -> Result<()> {
        let (one, others) = self.replicas.split_at_mut(1);
        let those = if first { one } else { others };
        those.iter_mut().try_for_each(|replica| replica.start(&self.program))
    }

    /// SIGKILL for that one; whether it was running.
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
        replica.goes();
        Ok(true)
    }

    /// Starts again what has ended; what there is to tell.
    pub(super) fn tend(&mut self) -> Result<Vec<String>> {
        let mut happened = Vec::new();
        for replica in &mut self.replicas {
            match &mut replica.state {
                State::Running(child) => {
                    let Some(status) = child.try_wait()? else { continue };
                    replica.goes();
                    if status.code() == Some(1) && replica.log().contains(LOST) {
                        self.lost += 1;
                        happened.push(format!("{} lost its lease and ended", replica.name));
                    } else {
                        self.violations.push(replica.ended(status));
                    }
                }
                State::Away if replica.since.elapsed() >= AWAY => {
                    replica.start(&self.program)?;
                    happened.push(format!("{} is started again", replica.name));
                }
                State::Away => {}
            }
        }
        Ok(happened)
    }

    /// Whether all have been running for a while.
    pub(super) fn is_complete(&self) -> bool {
        let runs = |replica: &Replica| matches!(replica.state, State::Running(_));
        self.replicas.iter().all(|replica| runs(replica) && replica.since.elapsed() >= AWAY)
    }

    /// Asks all to end, and looks for panics in what they have logged.
    pub(super) fn end(&mut self) -> Result<()> {
        for replica in &self.replicas {
            if let State::Running(child) = &replica.state {
                process::ask_to_end(child.id()).context("running kill")?;
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
                    let violation = replica.ended(status);
                    self.violations.push(violation);
                }
            }
            self.violations.extend(replica.panics());
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        for replica in &mut self.replicas {
            if let State::Running(child) = &mut replica.state {
                // Both fail only when the process is gone already.
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
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .spawn()
            .with_context(|| format!("running {}", program.display()))?;
        (self.state, self.since) = (State::Running(child), Instant::now());
        Ok(())
    }

    fn goes(&mut self) {
        (self.state, self.since) = (State::Away, Instant::now());
    }

    /// What it has logged since it was started last.
    fn log(&self) -> String {
        self.logs.last().and_then(|log| fs::read_to_string(log).ok()).unwrap_or_default()
    }

    fn ended(&self, status: ExitStatus) -> Violation {
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

/// A configuration with the defaults of leader election, and a kubeconfig with that token.
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
