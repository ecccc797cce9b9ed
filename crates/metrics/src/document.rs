//! Generates `docs/metrics.md` from the table.

use std::fmt::Write;

use crate::{
    encode::float,
    families::{Buckets, Family, METRICS, POD_RESOURCES},
};

const BEGINNING: &str = "\
# Metrics

This file is generated from the table in `crates/metrics/src/families.rs` by `UPDATE_GOLDEN=1 cargo test -p harbormaster-metrics --test it document::`.

Names, labels and buckets are those of kube-scheduler v1.36. A test runs the same workload through kube-scheduler and Harbormaster and compares their metrics pages
(`crates/harbormaster/tests/it/e2e_metrics.rs`). It lists the families that only one of them has, with reasons.

The last column describes where a metric means something slightly different in Harbormaster. The main reason: kube-scheduler calls each plugin for each node, while
Harbormaster evaluates many nodes at once and caches answers that cannot have changed.

These metrics of kube-scheduler do not exist here, because there is nothing to measure:

- `go_*`: no Go runtime
- `workqueue_*`, `informer_*`: no such queues
- `authentication_*`, `authorization_*`, `apiserver_*`: not measured by the scheduler itself
- `rest_client_exec_plugin_*`, `rest_client_transport_*`: internals of client-go
- `rest_client_request_retries_total`: each retry is counted as a request
- `registered_metrics_total`, `hidden_metrics_total`: no metric is hidden
- `cardinality_enforcement_unexpected_categorizations_total`: label values are restricted when a page is written
- `leader_election_slowpath_total`
- `scheduler_async_api_*`, `scheduler_pending_async_api_calls`, `scheduler_podgroup_*`, `scheduler_resourceclaim_creates_total`, `scheduler_dra_*`: features that are not
  implemented
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
        "| Name | Type | Labels | Buckets | Stability | Help | In Harbormaster |\n|---|---|---|---|---|---|---|\n",
    );
    for family in families {
        let labels: Vec<String> = family.labels.iter().map(|label| format!("`{label}`")).collect();
        let _ = writeln!(
            text,
            "| `{}` | {} | {} | {} | {} | {} | {} |",
            family.name,
            family.kind.name(),
            labels.join(", "),
            buckets(family.buckets),
            family.stability.name(),
            family.help,
            family.difference,
        );
    }
}

fn buckets(buckets: Buckets) -> String {
    let bounds = buckets.bounds();
    let (Some(first), Some(last)) = (bounds.first(), bounds.last()) else { return String::new() };
    match buckets {
        Buckets::Exponential(_, factor, count) => {
            format!("{count}, from {} by {} to {}", float(*first), float(factor), float(*last))
        }
        _ => bounds.iter().map(|bound| float(*bound)).collect::<Vec<_>>().join(", "),
    }
}
