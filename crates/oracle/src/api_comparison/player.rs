//! Running a script on one server.

use std::collections::HashMap;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tempfile::TempDir;
use ureq::Agent;
use ureq::http;

use super::process::Process;
use super::script::{Action, Request, Script};
use crate::components::{Endpoint, Kubectl, unchecked_tls};

/// Time limit for `until`.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval between the attempts of `until`.
const PAUSE: Duration = Duration::from_millis(100);

/// Answer to a step.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Exit code of kubectl, or status and some headers of a response.
    pub head: String,
    /// Standard output of kubectl, or the body.
    pub out: String,
    /// Standard error of kubectl.
    pub err: String,
}

/// Runs scripts on one server.
#[derive(Debug)]
pub struct Player<'a> {
    endpoint: &'a Endpoint,
    /// The kubectl to run; may be `None` if scripts contain only requests.
    kubectl: Option<Kubectl>,
    agent: Agent,
    /// Directory for kubectl's caches, input and output.
    directory: TempDir,
    values: HashMap<String, String>,
    watches: HashMap<String, Process>,
    commands: usize,
}

impl<'a> Player<'a> {
    /// Creates a player for `endpoint`.
    pub fn new(endpoint: &'a Endpoint, kubectl: Option<Kubectl>) -> Result<Self> {
        let directory = tempfile::Builder::new().prefix("harbormaster-kubectl-").tempdir()?;
        let (values, watches) = (HashMap::new(), HashMap::new());
        Ok(Self { endpoint, kubectl, agent: agent(), directory, values, watches, commands: 0 })
    }

    /// Runs all steps and returns their answers in order. Stops with an error at a step that cannot be run. A rejected
    /// request is an answer, not an error.
    pub fn play(mut self, script: &Script) -> (Vec<Answer>, Result<()>) {
        let mut answers = Vec::with_capacity(script.steps.len());
        for step in &script.steps {
            match self.act(&step.action) {
                Ok(answer) => answers.push(answer),
                Err(error) => {
                    return (answers, Err(error.context(format!("line {}: {}", step.line, step.text))));
                }
            }
        }
        (answers, Ok(()))
    }

    fn act(&mut self, action: &Action) -> Result<Answer> {
        match action {
            Action::Kubectl { args, input } => {
                let input = self.filled(input);
                let (code, out, err) = self.kubectl(args, &input)?.finish()?;
                Ok(Answer { head: format!("exit code {code}"), out, err })
            }
            Action::Request(request) => self.send(request),
            Action::Watch { name, args } => {
                let mut process = self.kubectl(args, "")?;
                // Once kubectl has printed its first output, its watch receives all later changes.
                process.wait_for("\n")?;
                self.watches.insert(name.clone(), process);
                Ok(Answer::default())
            }
            Action::End { name, text } => {
                let mut process = self.watches.remove(name).context("no such watch")?;
                process.wait_for(&self.filled(text))?;
                let (out, err) = process.end()?;
                Ok(Answer { head: String::new(), out, err })
            }
            Action::Until { text, action } => {
                let deadline = Instant::now() + PATIENCE;
                loop {
                    let answer = self.act(action)?;
                    if format!("{}\n{}\n{}", answer.head, answer.out, answer.err).contains(text) {
                        return Ok(Answer::default());
                    }
                    if Instant::now() > deadline {
                        bail!("timed out waiting for {text:?}; the last answer is {answer:?}");
                    }
                    thread::sleep(PAUSE);
                }
            }
            Action::Let { name, action, pointer } => {
                let answer = self.act(action)?;
                let value = value_at(&answer, pointer).with_context(|| format!("in {answer:?}"))?;
                self.values.insert(name.clone(), value);
                Ok(Answer::default())
            }
        }
    }

    fn kubectl(&mut self, args: &[String], input: &str) -> Result<Process> {
        let Some(kubectl) = &self.kubectl else { bail!("this script is run without kubectl") };
        let args = args.iter().map(|arg| self.filled(arg)).collect::<Vec<_>>();
        let home = self.directory.path();
        let mut command = Command::new(kubectl.path());
        command.args(args).env_clear().env("HOME", home).env("KUBECONFIG", self.endpoint.kubeconfig());
        self.commands += 1;
        Process::start(&mut command, &home.join(self.commands.to_string()), input)
    }

    fn send(&self, request: &Request) -> Result<Answer> {
        let mut builder = http::Request::builder()
            .method(request.method.as_str())
            .uri(format!("{}{}", self.endpoint.server_url(), self.filled(&request.path)))
            .header("authorization", format!("Bearer {}", self.endpoint.token()));
        let has = |name: &str| request.headers.iter().any(|(key, _)| key.eq_ignore_ascii_case(name));
        if !has("accept") {
            builder = builder.header("accept", "application/json");
        }
        if !request.body.is_empty() && !has("content-type") {
            builder = builder.header("content-type", "application/json");
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let body = self.filled(&request.body);
        let mut response = match body.as_str() {
            "" => self.agent.run(builder.body(())?),
            body => self.agent.run(builder.body(body.trim_end())?),
        }?;
        let mut head = format!("status {}", response.status().as_u16());
        for name in ["content-type", "retry-after"] {
            if let Some(value) = response.headers().get(name) {
                head.push_str(&format!("\n{name}: {}", String::from_utf8_lossy(value.as_bytes())));
            }
        }
        let out = response.body_mut().with_config().limit(u64::MAX).read_to_string()?;
        Ok(Answer { head, out, err: String::new() })
    }

    /// Replaces the variables that `let` has set.
    fn filled(&self, text: &str) -> String {
        let mut filled = text.to_owned();
        for (name, value) in &self.values {
            filled = filled.replace(&format!("${{{name}}}"), value);
        }
        filled
    }
}

fn value_at(answer: &Answer, pointer: &str) -> Result<String> {
    if pointer.is_empty() {
        return Ok(answer.out.trim().to_owned());
    }
    let body: Value = serde_json::from_str(&answer.out)?;
    match body.pointer(pointer) {
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => Ok(other.to_string()),
        None => bail!("no value at {pointer}"),
    }
}

fn agent() -> Agent {
    let config = Agent::config_builder()
        .tls_config(unchecked_tls())
        .proxy(None)
        .http_status_as_error(false)
        .allow_non_standard_methods(true)
        .max_redirects(0)
        .timeout_global(Some(Duration::from_secs(60)))
        .build();
    config.into()
}
