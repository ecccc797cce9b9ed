//! Generates `docs/metrics.md` from the table.

use std::fmt::Write;

use harbormaster_api::Release;

use crate::{
    encode::float,
    families::{Buckets, Family, METRICS, POD_RESOURCES, Stability},
};

const BEGINNING: &str = "\
# Metrics

This file is generated from the table in `crates/metrics/src/families.rs` by `UPDATE_GOLDEN=1 cargo test -p harbormaster-metrics --test it document::`.

Names, labels and buckets are those of kube-scheduler. A test runs the same workload through kube-scheduler v1.36 and Harbormaster and compares their metrics pages
(`crates/harbormaster/tests/it/e2e_metrics.rs`). It lists the families that only one of them has, with reasons.

The column Releases names the Kubernetes releases that have the metric, if not all of them do, and the feature gate that it needs. A hidden metric is shown with `--show-hidden-metrics-for-version`. The help texts are those of
the newest release.

The last column describes how the meaning of a metric differs in Harbormaster. The main reason for differences: kube-scheduler calls each plugin for each node, while
Harbormaster evaluates many nodes at once and caches answers that cannot have changed.

These metrics of kube-scheduler do not exist here:

- `go_*`: no Go runtime
- `workqueue_*`, `informer_*`: no such queues
- `authentication_*`, `authorization_*`, `apiserver_*`: internals of the library that serves kube-scheduler's secure port
- `rest_client_exec_plugin_*`, `rest_client_transport_*`: internals of client-go
- `rest_client_request_retries_total`: each retry is counted as a request
- `registered_metrics_total`, `hidden_metrics_total`: internals of the library that registers kube-scheduler's metrics
- `cardinality_enforcement_unexpected_categorizations_total`: label values are restricted when a page is written
- `leader_election_slowpath_total`: the log shows when an optimistic update of the lease fails
- `scheduler_async_api_*`, `scheduler_pending_async_api_calls`, `scheduler_preemption_pdb_violations_total`, `scheduler_generated_placements_total`, `scheduler_placement_*`: features that are
  not implemented
- `scheduler_volume_binder_cache_requests_total`: declared by kube-scheduler but never incremented
";

/// Returns the whole file.
pub fn document() -> String {
    let mut text = BEGINNING.to_owned();
    for (page, families) in [("/metrics", METRICS), ("/metrics/resources", POD_RESOURCES)] {
        write_table(&mut text, page, families);
    }
    text
}

fn write_table(text: &mut String, page: &str, families: &[&Family]) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n## `{page}`\n");
    text.push_str(
        "| Name | Type | Labels | Buckets | Releases | Stability | Help | In Harbormaster |\n\
         |---|---|---|---|---|---|---|---|\n",
    );
    for family in families {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} | {} |",
            family.name,
            family.kind.name(),
            labels.join(", "),
            buckets(family.buckets),
            releases(family),
            stability(family),
            family.help.at(Release::NEWEST),
            family.difference,
        );
    }
}

/// Describes the releases that have a metric or hide it; empty if every release shows it.
fn releases(family: &Family) -> String {
    let parts = [
        family.since.map(|since| format!("from {since}")),
        family.removed.map(|removed| format!("before {removed}")),
        family.deprecated.map(|deprecated| format!("hidden from {deprecated}")),
        family.gate.map(|gate| format!("with `{}`", gate.name())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Returns the stability levels of a metric, with the release from which a later one applies.
fn stability(family: &Family) -> String {
    let mut levels: Vec<(Stability, String)> = Vec::new();
    for &release in Release::ALL {
        let level = family.stability.at(release);
        match levels.last() {
            None => levels.push((level, level.name().to_owned())),
            Some((last, _)) if *last == level => {}
            Some(_) => levels.push((level, format!("{} from {release}", level.name()))),
        }
    }
    levels.into_iter().map(|(_, text)| text).collect::<Vec<_>>().join(", ")
}

fn buckets(buckets: Buckets) -> String {
    let bounds = buckets.bounds();
    let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return String::new() };
    match buckets {
        Buckets::Exponential(_, factor, count) => {
            format!("{count}, from {} to {} (factor {})", float(*first), float(*last), float(factor))
        }
        _ => bounds.iter().map(|bound| float(*bound)).collect::<Vec<_>>().join(", "),
    }
}
