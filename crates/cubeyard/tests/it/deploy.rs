//! The example of `docs/runtime.md`: it runs, and prints what is printed there.

#[path = "../../examples/deploy.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod example;

#[test]
fn the_example_does_what_docs_runtime_md_says() {
    let mut text = Vec::new();
    example::run(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("512x64 f32, 128.00 KiB in 128 shards"), "{text}");
    assert_eq!(text.matches(": the last rows\n").count(), 2, "{text}");
    assert!(text.contains("128 of 128 PEs whole, 0 mappings"), "{text}");
    assert!(text.ends_with("every allocator is as in the beginning\n"), "{text}");
    let page = include_str!("../../../../docs/runtime.md");
    assert!(page.contains(&format!("```text\n{text}```")), "the page has something else:\n{text}");
}
