//! The examples quoted in the documentation: they run and print the quoted output.

use expect_test::expect;

#[path = "../../examples/embed.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod example;

#[test]
fn the_toy_backend_does_what_docs_memory_md_says() {
    let (mut text, mut snapshot) = (Vec::new(), Vec::new());
    example::run(&mut text, &mut snapshot).unwrap();
    expect![[r#"
        weights at 0x0+0x0, 12000000 bytes for 12000000
        program at 0x1+0x0, 32 B of corrections at 0x1+0x400
          segment 0 + 0x0: flat 0x400000000
          segment 0 + 0xb71b00: flat 0x400b71b00
          tile at 0x0+0xb71b00
          tile at 0x0+0xc71b00
          tile at 0x0+0xd71b00
        waiting for the copy: 3145728 bytes
        batch at 0x0+0xd71b00, cached blocks left: 0
        out of memory: wanted 100.00 MiB (104857600 B, rounded to 104857600 B)
          free 4.56 MiB, longest free range 4.56 MiB, in 1 regions
          device: 0 B of 64.00 MiB free; no more regions are acquired
          region 0x0: 32.00 MiB, 4.56 MiB free, longest range 4.56 MiB, 3 blocks
          no region can ever hold it: the longest block is 32.00 MiB, and the device has 64.00 MiB in all; ask for less, or use a device with more
        move 3.91 KiB from 0x0+0x1b71b00 to 0x0+0xb71b00
        moved 1 blocks, gave 0 B back
        bias at 0x0+0xb71b00
        allocated_bytes.all.current 26685184
        reserved_bytes.all.peak 67108864
        num_alloc_retries 2
        num_ooms 1
        snapshot: 2 segments, 25 events
    "#]].assert_eq(&String::from_utf8(text).unwrap());
    assert!(!snapshot.is_empty());
}

/// Returns the lines of a text without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn the_pages_of_the_allocator_quote_the_toy_backend_word_for_word() {
    let rules = include_str!("../../../../docs/memory-rules.md");
    let example = lines(include_str!("../../examples/embed.rs"));
    let quotes = rules.split("```rust,ignore\n").skip(1);
    let quotes: Vec<_> = quotes.map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(quotes.len() >= 8, "the page quotes its example");
    for quote in quotes {
        let part = lines(quote);
        assert!(example.windows(part.len()).any(|window| window == part), "not there:\n{quote}");
    }
    let mut output = Vec::new();
    example::run(&mut output, &mut std::io::sink()).unwrap();
    let page = include_str!("../../../../docs/memory.md");
    assert!(page.contains(&format!("```text\n{}```", String::from_utf8(output).unwrap())));
}
