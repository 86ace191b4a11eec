//! The README's example is the example: `cargo test` runs the first as a doctest and builds the second.

#[test]
fn the_readme_shows_the_example_as_it_is() {
    let readme = include_str!("../README.md");
    let example = include_str!("../examples/sharded_counter.rs");
    assert!(readme.contains(&format!("```rust\n{example}```\n")), "copy examples/sharded_counter.rs into README.md");
}
