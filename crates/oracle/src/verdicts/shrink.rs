//! Shrinks a cluster that shows a difference.

use std::time::{Duration, Instant};

use serde_json::Value;

use super::compare::differences;
use super::{Difference, VerdictSource};
use crate::generate::Cluster;

/// Removes objects, then fields one at a time, while a difference that resembles `difference` remains, until nothing
/// more can be removed or the time limit is reached.
pub(super) fn shrink(
    cluster: Cluster,
    difference: &Difference,
    left: &mut dyn VerdictSource,
    right: &mut dyn VerdictSource,
    limit: Duration,
) -> Cluster {
    let deadline = Instant::now() + limit;
    let mut differs = |candidate: &Cluster| {
        // A cluster that one source rejects is no longer the same case.
        let (Ok(left), Ok(right)) = (left.judge(candidate), right.judge(candidate)) else { return false };
        differences(&left, &right).any(|found| found.resembles(difference))
    };
    reduce(cluster, &mut differs, deadline)
}

fn reduce(mut cluster: Cluster, differs: &mut dyn FnMut(&Cluster) -> bool, deadline: Instant) -> Cluster {
    drop_objects(&mut cluster, differs, deadline);
    loop {
        let before = cluster.clone();
        drop_fields(&mut cluster, differs, deadline);
        drop_objects(&mut cluster, differs, deadline);
        if cluster == before || Instant::now() >= deadline {
            return cluster;
        }
    }
}

/// Removes halves, quarters, ... of the objects, down to single ones.
fn drop_objects(cluster: &mut Cluster, differs: &mut dyn FnMut(&Cluster) -> bool, deadline: Instant) {
    let mut size = cluster.objects.len().div_ceil(2);
    while size > 0 {
        let mut start = 0;
        while start < cluster.objects.len() && Instant::now() < deadline {
            let end = (start + size).min(cluster.objects.len());
            let mut candidate = cluster.clone();
            candidate.objects.drain(start..end);
            if differs(&candidate) {
                *cluster = candidate;
            } else {
                start = end;
            }
        }
        size /= 2;
    }
}

/// Removes members of objects and items of lists, outermost first.
fn drop_fields(cluster: &mut Cluster, differs: &mut dyn FnMut(&Cluster) -> bool, deadline: Instant) {
    for index in 0..=cluster.objects.len() {
        let mut skipped = 0;
        loop {
            let root = root_of(cluster, index);
            let Some(path) = paths(root).into_iter().nth(skipped) else { break };
            if Instant::now() >= deadline {
                return;
            }
            let mut candidate = cluster.clone();
            remove(root_of_mut(&mut candidate, index), &path);
            if differs(&candidate) {
                *cluster = candidate;
            } else {
                skipped += 1;
            }
        }
    }
}

/// Returns the configuration for index 0, then the objects.
fn root_of(cluster: &Cluster, index: usize) -> &Value {
    if index == 0 { &cluster.config } else { &cluster.objects[index - 1] }
}

fn root_of_mut(cluster: &mut Cluster, index: usize) -> &mut Value {
    if index == 0 { &mut cluster.config } else { &mut cluster.objects[index - 1] }
}

/// JSON pointers (RFC 6901) to everything that can be removed.
fn paths(value: &Value) -> Vec<String> {
    let mut paths = Vec::new();
    let mut level = vec![(String::new(), value)];
    while !level.is_empty() {
        let mut next = Vec::new();
        for (path, value) in level {
            let children: Vec<(String, &Value)> = match value {
                Value::Object(fields) => fields.iter().map(|(key, child)| (escape(key), child)).collect(),
                Value::Array(items) => {
                    items.iter().enumerate().map(|(i, child)| (i.to_string(), child)).collect()
                }
                _ => Vec::new(),
            };
            for (key, child) in children {
                let path = format!("{path}/{key}");
                if !is_identity(&path) {
                    paths.push(path.clone());
                }
                next.push((path, child));
            }
        }
        level = next;
    }
    paths
}

fn is_identity(path: &str) -> bool {
    matches!(
        path,
        "/apiVersion" | "/kind" | "/metadata" | "/metadata/name" | "/metadata/namespace" | "/metadata/uid" | "/profiles"
            // Without these, the profile would have different plugins.
            | "/profiles/0" | "/profiles/0/plugins" | "/profiles/0/plugins/multiPoint"
    ) || path.contains("/multiPoint/disabled")
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}

fn remove(root: &mut Value, path: &str) {
    let Some((parent, key)) = path.rsplit_once('/') else { return };
    match root.pointer_mut(parent) {
        Some(Value::Object(fields)) => drop(fields.remove(&key.replace("~1", "/").replace("~0", "~"))),
        Some(Value::Array(items)) => {
            if let Ok(index) = key.parse::<usize>() {
                items.remove(index);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Shape;
    use serde_json::json;

    #[test]
    fn only_what_causes_the_difference_remains() {
        let mut cluster = Cluster::new(5, &Shape { max_nodes: 10, max_pods: 30, admitted: false });
        let culprit = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad", "labels": {"a/b": "x", "c": "d"}},
            "spec": {"tolerations": [{"key": "k"}, {"key": "odd", "value": "v"}], "containers": []},
        });
        cluster.objects.insert(4, culprit);
        let mut differs = |cluster: &Cluster| {
            cluster.objects.iter().any(|object| {
                let tolerations = object["spec"]["tolerations"].as_array();
                tolerations.is_some_and(|list| list.iter().any(|item| item["key"] == "odd"))
            })
        };
        let small = reduce(cluster, &mut differs, Instant::now() + Duration::from_secs(60));
        let expected = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "bad"},
            "spec": {"tolerations": [{"key": "odd"}]},
        });
        assert_eq!(small.objects, [expected]);
    }
}
