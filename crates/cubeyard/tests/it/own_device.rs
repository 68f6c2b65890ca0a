//! The example of the tutorial about the allocator: the page quotes it, and the answer of its exercise works.

#[path = "../../examples/own_device.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod example;

fn output(exercise: bool) -> String {
    let mut text = Vec::new();
    example::run(exercise, &mut text).unwrap();
    String::from_utf8(text).unwrap()
}

#[test]
fn fragmented_memory_is_reported_and_compaction_makes_room() {
    let (told, answered) = (output(false), output(true));
    assert!(told.contains("while the copy runs: reused false"), "{told}");
    assert!(told.contains("after the copy:      reused true"), "{told}");
    assert!(told.contains("memory is fragmented") && !told.contains("12 MiB at"), "{told}");
    assert!(answered.contains("moved 3 blocks\n12 MiB at"), "{answered}");
    assert!(answered.contains("given back: 64.00 MiB"), "{answered}");
}

#[test]
fn the_tutorial_quotes_the_program_and_its_output() {
    let page = include_str!("../../../../docs/tutorials/allocator.md");
    let example = include_str!("../../examples/own_device.rs");
    let quotes = page.split("```rust,ignore\n").skip(1).map(|rest| rest.split("```").next());
    let quotes: Vec<_> = quotes.flatten().collect();
    assert_eq!(quotes.len(), 3);
    for quote in quotes {
        assert!(example.contains(quote), "not there:\n{quote}");
    }
    assert!(page.contains(&format!("```text\n{}```", output(false))));
}

#[test]
fn the_tutorial_quotes_the_program_in_c() {
    let page = include_str!("../../../../docs/tutorials/allocator.md");
    let program = include_str!("../../../capi/examples/own_device.c");
    let quote = page.split("```c\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    assert!(program.contains(quote), "not there:\n{quote}");
}
