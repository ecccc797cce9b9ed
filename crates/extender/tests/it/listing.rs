//! The listing in `docs/extenders.md` is identical to the example.

#[test]
fn the_guide_contains_the_twenty_lines_verbatim() {
    let guide = include_str!("../../../../docs/extenders.md");
    let example = include_str!("../../examples/twenty_lines.rs");
    let (_, listing) = example.split_once("\n\n").expect("a comment, then the program");
    assert!(listing.lines().count() <= 22, "the example is longer than twenty lines");
    let shown = format!("```rust,no_run\n{}\n```", listing.trim_end());
    assert!(guide.contains(&shown), "docs/extenders.md must contain, word for word:\n{shown}");
}
