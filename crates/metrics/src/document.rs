//! `docs/metrics.md`, made from the table.

use std::fmt::Write;

use crate::{
    encode::float,
    families::{Buckets, Family, METRICS, POD_RESOURCES},
};

const BEGINNING: &str = "\
# Metrics

This file is made from the table in `crates/metrics/src/families.rs`: `UPDATE_GOLDEN=1 cargo test -p harbormaster-metrics --test document` writes it anew.

Names, labels and buckets are those of kube-scheduler v1.36. A test gives the same work to kube-scheduler and to Harbormaster and compares their pages
(`crates/harbormaster/tests/e2e_metrics.rs`); families that only one of them has are listed there with reasons.

*Here* says where a number means something a little different in Harbormaster. The main reason: kube-scheduler asks each plugin about each node; Harbormaster asks about
many nodes at once and keeps answers that cannot have changed.

Not here, because what they count is not: `go_*` (no Go runtime), `workqueue_*` and `informer_*` (no such queues), `authentication_*`, `authorization_*` and `apiserver_*` (what serves the
page counts those, if anything does), `rest_client_exec_plugin_*` and `rest_client_transport_*` (parts of client-go), `rest_client_request_retries_total` (each try is a request of
its own), `registered_metrics_total` and `hidden_metrics_total` (no metric is hidden), `cardinality_enforcement_unexpected_categorizations_total` (values of labels are restricted when a page is made), `leader_election_slowpath_total`, and what belongs to features
that are not built: `scheduler_async_api_*`, `scheduler_pending_async_api_calls`, `scheduler_podgroup_*`, `scheduler_resourceclaim_creates_total`, `scheduler_dra_*`.
`scheduler_volume_binder_cache_requests_total` is declared by kube-scheduler, but nothing counts it.
";

/// The whole file.
pub fn document() -> String {
    let mut text = BEGINNING.to_owned();
    for (page, families) in [("/metrics", METRICS), ("/metrics/resources", POD_RESOURCES)] {
        write_table(&mut text, page, families);
    }
    text
}

fn write_table(text: &mut String, page: &str, families: &[&Family]) {
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n## `{page}`\n");
    text.push_str(
        "| Name | Type | Labels | Buckets | Stability | What | Here |\n|---|---|---|---|---|---|---|\n",
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
            family.here,
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
