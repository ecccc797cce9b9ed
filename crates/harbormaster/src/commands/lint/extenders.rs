//! Extenders that are never called, or not as the configuration suggests.

use harbormaster_api::similar::similar;
use harbormaster_config::Extender;

use super::finding::{Finding, Subject};

pub(super) fn check(subject: &Subject<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, extender) in subject.config.extenders.iter().enumerate() {
        let path = format!("extenders[{at}]");
        findings.extend(verbs(subject, &path, extender));
        findings.extend(transport(subject, &path, extender));
        findings.extend(resources(subject, &path, extender));
    }
    findings
}

/// Finds verbs that are missing, or that contradict other fields.
fn verbs(subject: &Subject<'_>, path: &str, extender: &Extender) -> Vec<Finding> {
    let verbs =
        [&extender.filter_verb, &extender.prioritize_verb, &extender.preempt_verb, &extender.bind_verb];
    if verbs.iter().all(|verb| verb.is_empty()) {
        let message = "no verb is set, so the extender is never called";
        let help = "set filterVerb, prioritizeVerb, preemptVerb or bindVerb, or remove the extender";
        return vec![subject.warning("extender-idle", path, message, help)];
    }
    let mut findings = Vec::new();
    if extender.weight != 0 && extender.prioritize_verb.is_empty() {
        let message = "the extender does not score, so its weight has no effect";
        let help = "set prioritizeVerb, or remove the weight";
        findings.push(subject.note("extender-weight-unused", format!("{path}.weight"), message, help));
    }
    if extender.ignorable && !extender.bind_verb.is_empty() {
        let message =
            "if a call of bindVerb fails, a plugin binds the pod without what the extender does at binding";
        let help = "remove `ignorable`, or move bindVerb to an extender that is not ignorable";
        findings.push(subject.warning("extender-bind-skipped", format!("{path}.ignorable"), message, help));
    }
    if !extender.preempt_verb.is_empty() && extender.filter_verb.is_empty() {
        let message = "the extender takes part in preemption, but rejects no nodes";
        let help = "set filterVerb if pods should avoid the nodes that the extender rejects";
        findings.push(subject.note("extender-preempts-only", format!("{path}.preemptVerb"), message, help));
    }
    findings
}

/// Finds TLS settings without effect, and connections that anyone may intercept.
fn transport(subject: &Subject<'_>, path: &str, extender: &Extender) -> Option<Finding> {
    let tls = extender.tls_config.as_ref();
    if extender.url_prefix.starts_with("http://") {
        let field = if extender.enable_https { "enableHTTPS" } else { "tlsConfig" };
        return (extender.enable_https || tls.is_some()).then(|| {
            let message = "urlPrefix begins with http://, so requests are not encrypted";
            let help = format!("begin urlPrefix with https://, or remove {field}");
            subject.warning("extender-plain-http", format!("{path}.{field}"), message, help)
        });
    }
    let has_authority = tls.is_some_and(|tls| !tls.ca_file.is_empty() || !tls.ca_data.is_empty());
    let is_insecure = tls.is_some_and(|tls| tls.insecure);
    (extender.enable_https && !has_authority && !is_insecure).then(|| {
        let message = "no certificate authority is given, so the extender's certificate is not verified";
        let help = "set tlsConfig.caFile or caData, or `tlsConfig.insecure: true` if you mean it";
        subject.warning("extender-unverified", format!("{path}.enableHTTPS"), message, help)
    })
}

/// Finds managed resources that no pod requests. If a similar name is requested, the name is a mistake.
fn resources(subject: &Subject<'_>, path: &str, extender: &Extender) -> Vec<Finding> {
    let Some(demand) = subject.pods else { return Vec::new() };
    let requested = |name: &str| demand.resources.iter().any(|one| *one == *name);
    let all = || subject.config.extenders.iter().flat_map(|extender| &extender.managed_resources);
    let manages = |name: &str| all().any(|resource| resource.name == name);
    let is_idle = extender.managed_resources.iter().all(|resource| !requested(&resource.name));
    let mut findings = Vec::new();
    for (at, resource) in extender.managed_resources.iter().enumerate() {
        let name = resource.name.as_str();
        if requested(name) {
            continue;
        }
        let field = format!("{path}.managedResources[{at}].name");
        let consequence =
            if is_idle { "the extender is never called" } else { "the extender is not called for it" };
        let message = format!("no pod of the manifests requests {name:?}, so {consequence}");
        // A resource that an extender manages is named correctly.
        let others = demand.resources.iter().map(|one| &**one).filter(|one| !manages(one));
        findings.push(match similar(name, others) {
            Some(meant) => {
                let help = format!("did you mean `{meant}`?");
                subject.warning("extender-unrequested", field, message, help)
            }
            None => {
                let help = "check the name, or remove the resource";
                subject.note("extender-unrequested", field, message, help)
            }
        });
    }
    findings
}
