//! `docs/metrics.md` says what the table says. Set `UPDATE_GOLDEN=1` to write it anew.

use std::path::Path;

#[test]
fn the_document_is_made_from_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/metrics.md");
    let made = harbormaster_metrics::document::document();
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &made).expect("the document can be written");
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        written == made,
        "docs/metrics.md is not what the table says: UPDATE_GOLDEN=1 cargo test -p harbormaster-metrics --test document"
    );
}
