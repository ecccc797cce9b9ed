//! What the README shows of this crate is what it has.

#[test]
fn the_readme_shows_the_twenty_lines_as_they_are() {
    let readme = include_str!("../../../README.md");
    let example = include_str!("../examples/twenty_lines.rs");
    let (_, listing) = example.split_once("\n\n").expect("a comment, and the program");
    assert!(listing.lines().count() <= 22, "these are no twenty lines any more");
    let shown = format!("```rust,no_run\n{}\n```", listing.trim_end());
    assert!(readme.contains(&shown), "README.md has to show, word by word:\n{shown}");
}
