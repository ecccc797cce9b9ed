//! The `/metrics/resources` page: requests and limits of each pod.

use harbormaster_api::{Pod, requests, resources::is_hugepages};

use crate::{encode, families as table};

/// Returns the page for these pods, none of which may be finished. Its content type is [`encode::CONTENT_TYPE`].
pub fn page<'a>(pods: impl IntoIterator<Item = &'a Pod>) -> String {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for pod in pods {
        let amounts = requests::spec_request_list(&pod.spec);
        requests.extend(amounts.iter().filter_map(|(name, amount)| Sample::of(pod, name, *amount)));
        let amounts = requests::limit_list(&pod.spec);
        limits.extend(amounts.iter().filter_map(|(name, amount)| Sample::of(pod, name, *amount)));
    }
    let mut page = String::new();
    for (family, samples) in [(&table::POD_LIMIT, &mut limits), (&table::POD_REQUEST, &mut requests)] {
        if samples.is_empty() {
            continue;
        }
        samples.sort_by(|a, b| a.labels.cmp(&b.labels));
        encode::begin_family(&mut page, family);
        for sample in samples.iter() {
            let labels = LABELS.into_iter().zip(sample.labels.iter().map(String::as_str));
            encode::sample(&mut page, family.name, labels, sample.amount);
        }
    }
    page
}

/// Labels in the order of the page, which is alphabetical.
const LABELS: [&str; 7] = ["namespace", "node", "pod", "priority", "resource", "scheduler", "unit"];

struct Sample {
    labels: [String; 7],
    amount: f64,
}

impl Sample {
    /// Creates the sample for one resource of a pod; `None` if the amount is zero. CPU amounts are in thousandths.
    fn of(pod: &Pod, resource: &str, amount: i64) -> Option<Self> {
        if amount == 0 {
            return None;
        }
        let (unit, scale) = unit(resource);
        let labels = [
            &*pod.namespace,
            pod.node_name.as_deref().unwrap_or_default(),
            &*pod.name,
            &pod.spec.priority.to_string(),
            resource,
            &*pod.spec.scheduler_name,
            unit,
        ];
        Some(Self { labels: labels.map(str::to_owned), amount: amount as f64 / scale })
    }
}

/// kube-scheduler's label for a resource's unit, and the divisor of its amounts.
fn unit(resource: &str) -> (&'static str, f64) {
    match resource {
        "cpu" => ("cores", 1000.0),
        "memory" | "storage" | "ephemeral-storage" => ("bytes", 1.0),
        name if is_hugepages(name) => ("bytes", 1.0),
        name if name.starts_with("attachable-volumes-") => ("integer", 1.0),
        _ => ("", 1.0),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use harbormaster_api::{PodSpec, pod::Container};

    use super::*;

    #[test]
    fn amounts_are_listed_with_their_units_and_zero_amounts_are_omitted() {
        let requests = vec![("cpu".into(), 250), ("memory".into(), 1 << 20), ("x.com/y".into(), 0)];
        let limits = vec![("cpu".into(), 1500), ("hugepages-2Mi".into(), 4 << 20)];
        let container = Container { name: "a".into(), requests, limits, ..Container::default() };
        let spec = PodSpec {
            scheduler_name: "s".into(),
            priority: 7,
            containers: vec![container],
            overhead: vec![("cpu".into(), 50), ("memory".into(), 1 << 20)],
            ..PodSpec::default()
        };
        let named = |name: &str, node: Option<&str>| Pod {
            namespace: "n".into(),
            name: name.into(),
            node_name: node.map(Into::into),
            spec: Arc::new(spec.clone()),
            ..Pod::default()
        };
        let page = page([&named("p", Some("node")), &named("waits", None)]);
        let samples: Vec<&str> = page.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(
            samples,
            [
                r#"kube_pod_resource_limit{namespace="n",node="",pod="waits",priority="7",resource="cpu",scheduler="s",unit="cores"} 1.55"#,
                r#"kube_pod_resource_limit{namespace="n",node="",pod="waits",priority="7",resource="hugepages-2Mi",scheduler="s",unit="bytes"} 4.194304e+06"#,
                r#"kube_pod_resource_limit{namespace="n",node="node",pod="p",priority="7",resource="cpu",scheduler="s",unit="cores"} 1.55"#,
                r#"kube_pod_resource_limit{namespace="n",node="node",pod="p",priority="7",resource="hugepages-2Mi",scheduler="s",unit="bytes"} 4.194304e+06"#,
                r#"kube_pod_resource_request{namespace="n",node="",pod="waits",priority="7",resource="cpu",scheduler="s",unit="cores"} 0.3"#,
                r#"kube_pod_resource_request{namespace="n",node="",pod="waits",priority="7",resource="memory",scheduler="s",unit="bytes"} 2.097152e+06"#,
                r#"kube_pod_resource_request{namespace="n",node="node",pod="p",priority="7",resource="cpu",scheduler="s",unit="cores"} 0.3"#,
                r#"kube_pod_resource_request{namespace="n",node="node",pod="p",priority="7",resource="memory",scheduler="s",unit="bytes"} 2.097152e+06"#,
            ]
        );
    }

    #[test]
    fn without_pods_the_page_is_empty() {
        assert_eq!(page([]), "");
    }
}
