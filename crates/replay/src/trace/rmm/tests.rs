use super::*;
use crate::trace::Event;

fn log(lines: &[&str]) -> Result<Trace, RmmError> {
    let text = format!("Thread,Time,Action,Pointer,Size,Stream\n{}", lines.join("\n"));
    read("test", text.as_bytes(), Bytes::mib(1))
}

#[test]
fn an_address_can_be_used_again_after_its_free() {
    let trace = log(&[
        "1,00:00:01.000000,allocate,0x100,64,0x0",
        "1,00:00:01.000002,free,0x100,64,0x0",
        "2,00:00:01.000005,allocate,256,32,0x7f00",
    ])
    .unwrap();
    assert_eq!(trace.allocations, 2);
    assert_eq!(trace.events[1], Event::Free { id: TraceId(0), time_us: 2 });
    let Event::Allocate(last) = trace.events[2] else { panic!("an allocation") };
    assert_eq!((last.id, last.size, last.stream), (TraceId(1), Bytes::new(32), 1));
    assert_eq!((last.site, last.time_us), (0, 5));
}

#[test]
fn columns_are_found_by_name() {
    let text = "Size,Extra,Action,Stream,Pointer,Time\r\n\r\n64,x,allocate,0,0x1,0:0:0:5\r\n";
    let trace = read("test", text.as_bytes(), Bytes::mib(1)).unwrap();
    assert_eq!(trace.allocations, 1);
}

#[test]
fn a_missing_column_is_named() {
    let error = read("test", b"\nThread,Time,Action,Pointer,Stream\n", Bytes::mib(1)).unwrap_err();
    assert_eq!(error, RmmError::NoColumn { line: 2, column: "Size" });
    assert_eq!(read("test", b" \n\n", Bytes::mib(1)).unwrap_err(), RmmError::NoHeader);
}

#[test]
fn requests_that_got_nothing_are_passed_over() {
    let trace = log(&[
        "1,00:00:01.0,allocate failure,(nil),99999999999,0",
        "1,00:00:01.0,allocate,(nil),0,0",
        "1,00:00:01.0,allocate,0x0,0,0",
        "1,00:00:01.0,free,(nil),0,0",
    ])
    .unwrap();
    assert!(trace.events.is_empty());
    let error = log(&["1,00:00:01.0,allocate,(nil),8,0"]).unwrap_err();
    assert_eq!(error, RmmError::NullPointer { line: 2, size: Bytes::new(8) });
}

#[test]
fn a_live_address_cannot_be_allocated() {
    let twice = ["1,00:00:01.0,allocate,0x100,64,0", "1,00:00:01.0,allocate,0x100,64,0"];
    let error = log(&twice).unwrap_err();
    assert_eq!(error, RmmError::AlreadyLive { line: 3, pointer: 0x100, since: 2 });
    assert_eq!(error.to_string(), "line 3: 0x100 is allocated, but has been live since line 2");
}

#[test]
fn only_a_live_address_can_be_freed() {
    let error = log(&["", "1,00:00:01.0,free,0x100,64,0"]).unwrap_err();
    assert_eq!(error, RmmError::NotLive { line: 3, pointer: 0x100 });
    let again = [
        "1,00:00:01.0,allocate,0x100,64,0",
        "1,00:00:01.0,free,0x100,64,0",
        "1,00:00:01.0,free,0x100,64,0",
    ];
    assert_eq!(log(&again).unwrap_err(), RmmError::NotLive { line: 4, pointer: 0x100 });
}

#[test]
fn a_free_has_the_size_of_its_allocation() {
    let lines = ["1,00:00:01.0,allocate,0x100,64,0", "1,00:00:01.0,free,0x100,63,0"];
    let message = log(&lines).unwrap_err().to_string();
    assert_eq!(message, "line 3: 0x100 is freed with 63 bytes, but line 2 allocated 64");
}

#[test]
fn what_is_wrong_with_a_field_is_said() {
    let message = |line| log(&[line]).unwrap_err().to_string();
    assert_eq!(
        message("1,00:00:01.0,allocate,0x1,18446744073709551616,0"),
        "line 2: expected a number of bytes of at most 64 bits as `Size`, \
         found `18446744073709551616`"
    );
    assert_eq!(
        message("1,00:00:01.0,deallocate,0x1,1,0"),
        "line 2: expected `allocate`, `allocate failure` or `free` as `Action`, found `deallocate`"
    );
    assert_eq!(
        message("1,00:00:01.0,allocate,0x1,1"),
        "line 2: expected a value of `Stream`, found the end of the line"
    );
    assert_eq!(
        message("1,noon,allocate,0x1,1,0"),
        "line 2: expected a time like 15:47:02.841961 as `Time`, found `noon`"
    );
}

#[test]
fn what_is_written_is_read_back() {
    let trace = log(&[
        "1,00:00:01.000000,allocate,0x100,64,0x0",
        "1,23:59:59.999999,allocate,0x200,0,0x8",
        "1,23:59:59.999999,free,0x100,64,0x0",
        "1,100:00:00.000000,allocate,0x100,7,0x8",
    ])
    .unwrap();
    let mut bytes = Vec::new();
    write(&trace, &mut bytes).unwrap();
    assert_eq!(read("test", &bytes, Bytes::mib(1)).unwrap(), trace);
}
