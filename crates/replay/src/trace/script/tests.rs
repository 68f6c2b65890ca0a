use super::*;
use crate::trace::Event;

const EXAMPLE: &str = "\
# freeing the second block joins everything again
space 1024
granule 128   # optional
policy first-fit
alloc a 100 -> 0

alloc b 2MiB stream 1 align 256 kind program high at 3 KiB
free a
largest 724
free-bytes 724
alloc a 4 GiB -> out of memory
free a -> error
";

fn error(text: &str) -> String {
    Script::parse(text).unwrap_err().to_string()
}

#[test]
fn a_script_is_written_as_it_was_read() {
    let script = Script::parse(EXAMPLE).unwrap();
    assert_eq!(
        script.to_string(),
        "space 1KiB\n\
         granule 128\n\
         policy first-fit\n\
         alloc a 100 -> 0\n\
         alloc b 2MiB align 256 at 3KiB high stream 1 kind program\n\
         free a\n\
         largest 724\n\
         free-bytes 724\n\
         alloc a 4GiB -> out of memory\n\
         free a -> error\n"
    );
    let lines: Vec<usize> = script.statements.iter().map(|statement| statement.line).collect();
    assert_eq!(lines, [2, 3, 4, 5, 7, 8, 9, 10, 11, 12]);
}

#[test]
fn a_trace_keeps_only_what_happened() {
    let trace = Script::parse(EXAMPLE).unwrap().to_trace("example").unwrap();
    assert_eq!((trace.name.as_str(), trace.allocations), ("example", 2));
    let Event::Allocate(second) = trace.events[1] else { panic!("an allocation") };
    assert_eq!((second.size, second.stream, second.time_us), (Bytes::mib(2), 1, 1));
    assert_eq!(trace.events[2], Event::Free { id: TraceId(0), time_us: 2 });
    assert_eq!(trace.events.len(), 3);
}

#[test]
fn a_name_is_free_again_after_its_free() {
    let text = "alloc a 1\nfree a\nalloc a 2\nfree a\n";
    let trace = Script::parse(text).unwrap().to_trace("again").unwrap();
    assert_eq!(trace.allocations, 2);
    assert_eq!(trace.events[3], Event::Free { id: TraceId(1), time_us: 3 });
}

#[test]
fn names_that_do_not_fit_together_are_refused_with_their_lines() {
    let message = |text| Script::parse(text).unwrap().to_trace("wrong").unwrap_err().to_string();
    assert_eq!(message("\nfree a"), "line 2: `a` is freed, but is not live");
    assert_eq!(
        message("alloc a 1\nalloc a 1"),
        "line 2: `a` is allocated, but has been live since line 1"
    );
    let lost = "space 8\nalloc a 9 -> out of memory\nfree a";
    assert_eq!(message(lost), "line 3: `a` is freed, but is not live");
}

#[test]
fn a_wrong_word_is_named_with_what_could_stand_there() {
    assert_eq!(
        error("\nmalloc a 5"),
        "line 2: expected `space`, `granule`, `policy`, `alloc`, `free`, `largest`, `free-bytes` \
         or a comment, found `malloc`"
    );
    assert_eq!(
        error("alloc a 5 low"),
        "line 1: expected `align`, `at`, `high`, `stream`, `kind` or `->`, found `low`"
    );
    assert_eq!(
        error("alloc a"),
        "line 1: expected the size of the allocation, found the end of the line"
    );
    assert_eq!(error("free a b"), "line 1: expected the end of the line, found `b`");
    assert_eq!(error("free a -> 0"), "line 1: expected `error`, found `0`");
    assert_eq!(error("free ->"), "line 1: expected the name of an allocation, found `->`");
    assert_eq!(
        error("alloc a 5 -> out of luck"),
        "line 1: expected an offset or `out of memory`, found `out of luck`"
    );
    assert_eq!(error("alloc a 5 high high"), "line 1: `high` is given twice");
    assert_eq!(error("alloc a 5 stream 1 stream 2"), "line 1: `stream` is given twice");
    assert_eq!(error("granule 96"), "line 1: `granule`: expected a power of two, found 96");
}

#[test]
fn sizes_are_whole_and_fit_64_bits() {
    for size in ["-1", "+1", "1.5", "KiB", "1 TiB", "1Kib", "17179869184GiB", "0x10", "1_000"] {
        assert!(Script::parse(&format!("space {size}")).is_err(), "{size}");
    }
    let largest = Script::parse("space 17179869183 GiB").unwrap();
    assert_eq!(largest.statements[0].step, Step::Space(Bytes::gib(17_179_869_183)));
}
