//! Writes and terms of the replicas, from kube-apiserver's audit log.
//!
//! A term starts with a lease write that changes the holder. Renewals by the same process extend it. Only the holder of
//! the current term may write. A write is a violation if the API server *received* the write after it had *completed*
//! the request with which another replica acquired the lease. If etcd was suspended, a write may have been received
//! before that completion but answered after it. This is not a violation, because the write was sent in the writer's
//! own term.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use harbormaster_api::Timestamp;
use serde::Deserialize;
use serde_json::json;

use super::violation::Violation;

/// Writes the audit policy. Returns kube-apiserver's flags and the path of the log. The log contains the writes of
/// `replicas` with their times, and the content of the leases that they write.
pub(super) fn flags(directory: &Path, replicas: &[String]) -> Result<(Vec<String>, PathBuf)> {
    let (policy, log) = (directory.join("audit-policy.yaml"), directory.join("audit.log"));
    let lease = json!([{"group": "coordination.k8s.io", "resources": ["leases"]}]);
    let rules = json!({
        "apiVersion": "audit.k8s.io/v1",
        "kind": "Policy",
        "omitStages": ["RequestReceived"],
        "rules": [
            {"level": "None", "verbs": ["get", "list", "watch"]},
            {"level": "Request", "users": replicas, "resources": lease},
            {"level": "Metadata", "users": replicas},
            {"level": "None"},
        ],
    });
    std::fs::write(&policy, rules.to_string())?;
    File::create(&log)?;
    let flags = vec![
        format!("--audit-policy-file={}", policy.display()),
        format!("--audit-log-path={}", log.display()),
        // In MB; large enough for the log to fit in a single file.
        "--audit-log-maxsize=100000".to_owned(),
    ];
    Ok((flags, log))
}

/// Reads the audit log as it grows.
pub(super) struct AuditLog {
    file: BufReader<File>,
    /// Start of an incomplete line.
    line: Vec<u8>,
}

impl AuditLog {
    pub(super) fn open(path: &Path) -> Result<Self> {
        Ok(Self { file: BufReader::new(File::open(path)?), line: Vec::new() })
    }

    /// Returns the writes that have completed since the last call.
    pub(super) fn read(&mut self) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        while self.file.read_until(b'\n', &mut self.line)? > 0 && self.line.ends_with(b"\n") {
            let line = std::mem::take(&mut self.line);
            let entry: Entry =
                serde_json::from_slice(&line).with_context(|| String::from_utf8_lossy(&line).into_owned())?;
            writes.extend(entry.write()?);
        }
        Ok(writes)
    }
}

/// A completed write request.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Write {
    /// The replica that sent the request, identified by its token.
    pub(super) replica: String,
    /// `verb resource[/subresource]`.
    pub(super) what: String,
    /// Name of the object.
    pub(super) name: String,
    pub(super) code: u16,
    pub(super) received: Timestamp,
    pub(super) completed: Timestamp,
    /// The written lease.
    pub(super) lease: Option<LeaseWrite>,
}

/// A written lease.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct LeaseWrite {
    pub(super) holder: String,
    /// Time of the renewal according to the writer's clock.
    pub(super) renewed: Timestamp,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    stage: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: ObjectRef,
    response_status: Option<Status>,
    request_object: Option<Object>,
    request_received_timestamp: String,
    stage_timestamp: String,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct ObjectRef {
    resource: String,
    name: String,
    subresource: String,
}

#[derive(Deserialize)]
struct Status {
    #[serde(default)]
    code: u16,
}

#[derive(Deserialize)]
struct Object {
    spec: Option<LeaseSpec>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct LeaseSpec {
    holder_identity: String,
    renew_time: String,
}

impl Entry {
    /// Returns `None` if the request is not complete.
    fn write(self) -> Result<Option<Write>> {
        let Some(Status { code }) = self.response_status else { return Ok(None) };
        if self.stage != "ResponseComplete" {
            return Ok(None);
        }
        let ObjectRef { resource, name, subresource } = self.object_ref;
        let what = match subresource.as_str() {
            "" => format!("{} {resource}", self.verb),
            sub => format!("{} {resource}/{sub}", self.verb),
        };
        let spec = self.request_object.and_then(|object| object.spec).filter(|_| resource == "leases");
        let lease = spec.map(|spec| -> Result<LeaseWrite> {
            Ok(LeaseWrite { holder: spec.holder_identity, renewed: Timestamp::parse(&spec.renew_time)? })
        });
        Ok(Some(Write {
            replica: self.user.username,
            what,
            name,
            code,
            received: Timestamp::parse(&self.request_received_timestamp)?,
            completed: Timestamp::parse(&self.stage_timestamp)?,
            lease: lease.transpose()?,
        }))
    }
}

/// A term of leadership, from the lease write that started it until the next term.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Term {
    pub(super) replica: String,
    /// Identity of the process.
    pub(super) holder: String,
    /// Time at which the write that started the term was received.
    pub(super) received: Timestamp,
    /// Time at which that write was answered.
    pub(super) completed: Timestamp,
    /// Time at which the last renewal in the term was answered.
    pub(super) renewed: Timestamp,
}

/// All writes so far.
#[derive(Debug, Default)]
pub(super) struct WriteLog {
    pub(super) terms: Vec<Term>,
    /// Successful writes, except lease writes.
    writes: Vec<Write>,
    bindings: HashMap<String, usize>,
    pub(super) bound: usize,
    /// Number of rejected bindings by status code.
    pub(super) refused: BTreeMap<u16, usize>,
    /// Last known offset of each replica's clock in nanoseconds, derived from the leases that the replica wrote.
    pub(super) offsets: BTreeMap<String, i64>,
}

impl WriteLog {
    /// Adds the next completed write.
    pub(super) fn add(&mut self, write: Write) {
        let succeeded = (200..300).contains(&write.code);
        if write.what == "create pods/binding" {
            if succeeded {
                self.bound += 1;
                *self.bindings.entry(write.name.clone()).or_default() += 1;
            } else {
                *self.refused.entry(write.code).or_default() += 1;
            }
        }
        match (succeeded, &write.lease) {
            (false, _) => {}
            (true, Some(claim)) => {
                self.offsets.insert(write.replica.clone(), claim.renewed.0 - write.received.0);
                let claim = claim.clone();
                self.add_lease(write, claim);
            }
            (true, None) => self.writes.push(write),
        }
    }

    fn add_lease(&mut self, write: Write, claim: LeaseWrite) {
        let Write { replica, received, completed, .. } = write;
        match self.terms.last_mut() {
            Some(term) if term.holder == claim.holder => term.renewed = completed,
            _ => self.terms.push(Term {
                replica,
                holder: claim.holder,
                received,
                completed,
                renewed: completed,
            }),
        }
    }

    /// The term of the current leader.
    pub(super) fn leader(&self) -> Option<&Term> {
        self.terms.last().filter(|term| !term.holder.is_empty())
    }

    /// The first term that started after `at`, when `killed` was killed, and whose holder is another process.
    pub(super) fn failover(&self, killed: &str, at: Timestamp) -> Option<&Term> {
        self.terms.iter().find(|term| term.completed > at && term.holder != killed)
    }

    /// Returns the violations found in all writes.
    pub(super) fn violations(&self) -> Vec<Violation> {
        let twice = self.bindings.iter().filter(|(_, times)| **times > 1);
        let twice = twice.map(|(pod, times)| Violation::BoundTwice { pod: pod.clone(), times: *times });
        twice.chain(self.writes.iter().filter_map(|write| self.judge(write))).collect()
    }

    fn judge(&self, write: &Write) -> Option<Violation> {
        let at = write.received;
        let (replica, what, at_text) = (write.replica.clone(), write.what.clone(), at.to_rfc3339_micro());
        // A replica that acquires the lease may receive the answer a moment before the answer is logged.
        let started = self.terms.partition_point(|term| term.received <= at);
        let is_starting = |term: &&Term| term.completed > at && term.replica == write.replica;
        if self.terms[..started].last().is_some_and(|term| is_starting(&term)) {
            return None;
        }
        match self.terms[..started].iter().rfind(|term| term.completed <= at) {
            Some(term) if term.replica == write.replica => None,
            Some(term) => Some(Violation::WroteWithoutLease {
                replica,
                what,
                at: at_text,
                leader: term.replica.clone(),
                seconds: at.since(term.completed).as_secs_f64(),
            }),
            None => Some(Violation::WroteBeforeLease { replica, what, at: at_text }),
        }
    }

    /// Offset of a replica's clock from kube-apiserver's, in seconds, if known.
    pub(super) fn offset(&self, replica: &str) -> Option<f64> {
        self.offsets.get(replica).map(|nanoseconds| *nanoseconds as f64 / 1e9)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A write, with times in milliseconds.
    fn write(replica: &str, what: &str, name: &str, received: i64, completed: i64) -> Write {
        Write {
            replica: replica.to_owned(),
            what: what.to_owned(),
            name: name.to_owned(),
            code: 201,
            received: Timestamp(received * 1_000_000),
            completed: Timestamp(completed * 1_000_000),
            lease: None,
        }
    }

    fn lease(replica: &str, holder: &str, received: i64, completed: i64) -> Write {
        let claim = LeaseWrite { holder: holder.to_owned(), renewed: Timestamp(0) };
        Write { code: 200, lease: Some(claim), ..write(replica, "update leases", "l", received, completed) }
    }

    fn bind(replica: &str, pod: &str, received: i64, completed: i64) -> Write {
        write(replica, "create pods/binding", pod, received, completed)
    }

    fn log(writes: &[Write]) -> WriteLog {
        let mut log = WriteLog::default();
        writes.iter().cloned().for_each(|write| log.add(write));
        log
    }

    #[test]
    fn writes_in_the_writers_own_term_are_not_violations() {
        let log = log(&[
            lease("a", "a1", 10, 12),
            bind("a", "p", 20, 21),
            lease("a", "a1", 30, 31),
            bind("a", "q", 40, 41),
            lease("b", "b1", 50, 52),
            bind("b", "r", 53, 54),
            // Written before the answer was logged.
            lease("a", "a2", 60, 65),
            bind("a", "s", 64, 66),
        ]);
        assert_eq!(log.violations(), []);
        let holders: Vec<_> = log.terms.iter().map(|term| term.holder.as_str()).collect();
        assert_eq!(holders, ["a1", "b1", "a2"]);
        assert_eq!(log.bound, 4);
        assert_eq!(log.failover("a1", Timestamp(45_000_000)).unwrap().holder, "b1");
        assert_eq!(log.terms[0].renewed, Timestamp(31_000_000));
    }

    #[test]
    fn a_write_received_before_a_failover_may_be_answered_after_it() {
        let in_time = [lease("a", "a1", 10, 12), lease("b", "b1", 50, 52), bind("a", "p", 49, 70)];
        assert_eq!(log(&in_time).violations(), []);
        let meanwhile = [lease("a", "a1", 10, 12), lease("b", "b1", 50, 52), bind("a", "p", 51, 70)];
        assert_eq!(log(&meanwhile).violations(), []);
        let late = [lease("a", "a1", 10, 12), lease("b", "b1", 50, 52), bind("a", "p", 53, 70)];
        let violations = log(&late).violations();
        assert!(
            matches!(&violations[..], [Violation::WroteWithoutLease { replica, leader, .. }] if replica == "a" && leader == "b"),
            "{violations:?}"
        );
    }

    #[test]
    fn a_write_before_any_lease_is_a_violation() {
        let violations = log(&[bind("a", "p", 5, 6), lease("a", "a1", 10, 12)]).violations();
        assert!(matches!(violations[..], [Violation::WroteBeforeLease { .. }]), "{violations:?}");
    }

    #[test]
    fn rejected_writes_are_ignored_and_two_bindings_of_a_pod_are_a_violation() {
        let refused = Write { code: 409, ..bind("b", "p", 20, 21) };
        let all = [lease("a", "a1", 10, 12), bind("a", "p", 15, 16), refused.clone()];
        let once = log(&all);
        assert_eq!((once.violations(), once.refused), (vec![], BTreeMap::from([(409, 1)])));
        let twice = log(&[lease("a", "a1", 10, 12), bind("a", "p", 15, 16), bind("a", "p", 17, 18)]);
        assert_eq!(twice.violations(), [Violation::BoundTwice { pod: "p".to_owned(), times: 2 }]);
    }

    #[test]
    fn entries_of_the_audit_log_are_decoded() {
        let entry = json!({
            "stage": "ResponseComplete",
            "verb": "update",
            "user": {"username": "replica-1"},
            "objectRef": {"resource": "leases", "namespace": "kube-system", "name": "l"},
            "responseStatus": {"metadata": {}, "code": 200},
            "requestObject": {"spec": {"holderIdentity": "h_1", "renewTime": "2026-11-22T10:05:00.000000Z"}},
            "requestReceivedTimestamp": "2026-11-22T10:00:00.000000Z",
            "stageTimestamp": "2026-11-22T10:00:00.250000Z",
        });
        let entry: Entry = serde_json::from_value(entry).unwrap();
        let write = entry.write().unwrap().unwrap();
        assert_eq!(write.completed.since(write.received), Duration::from_millis(250));
        let log = log(&[write]);
        assert_eq!(log.offset("replica-1"), Some(300.0));
        assert_eq!(log.leader().unwrap().holder, "h_1");
    }
}
