//! Tests that `docs/metrics.md` matches the table. Set `UPDATE_GOLDEN=1` to regenerate the document.

use std::path::Path;

#[test]
fn the_document_is_generated_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let generated = harbormaster_metrics::document::document();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &generated).expect("the document can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == generated,
        "docs/metrics.md is out of date: run `UPDATE_GOLDEN=1 cargo test -p harbormaster-metrics --test it document::`"
    );
}
