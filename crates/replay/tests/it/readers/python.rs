//! The reader and the writer of pickles, compared with Python's.

use std::io::Write as _;
use std::process::{Command, Stdio};

use cubeyard_pickle::{self as pickle, Document, Limits, Problem, Value};

/// Returns the output of a Python program for `input`.
pub(crate) fn python(program: &str, input: &[u8]) -> Vec<u8> {
    let mut child = Command::new("python3")
        .args(["-c", program])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 is installed");
    child.stdin.take().expect("piped").write_all(input).expect("python3 reads all of it");
    let output = child.wait_with_output().expect("python3 ends");
    assert!(output.status.success(), "python3 says above what is wrong");
    output.stdout
}

/// Writes a value as Python's `repr` does, except that strings are quoted as in Rust.
fn show(document: &Document<'_>, value: Value) -> String {
    let all = |values: &[Value]| {
        values.iter().map(|&value| show(document, value)).collect::<Vec<_>>().join(", ")
    };
    match value {
        Value::None => "None".to_owned(),
        Value::Boolean(value) => (if value { "True" } else { "False" }).to_owned(),
        Value::Integer(value) => value.to_string(),
        Value::Large(value) => value.to_string(),
        Value::Float(value) => format!("{value:?}"),
        Value::Text(text) => format!("{:?}", document.text(text)),
        Value::Bytes(bytes) => format!("bytes{:?}", document.bytes(bytes)),
        Value::List(items) => format!("[{}]", all(document.items(items))),
        Value::Tuple(items) => format!("({})", all(document.items(items))),
        Value::Dict(dict) => {
            let pairs = document.entries(dict).map(|(key, value)| all(&[key, value]));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join("; "))
        }
    }
}

/// Prints a value and its pickle for each protocol.
const EVERY_PROTOCOL: &str = r#"
import json, pickle

def show(v):
    all = lambda vs: ", ".join(map(show, vs))
    if isinstance(v, str): return json.dumps(v, ensure_ascii=False)
    if isinstance(v, bytes): return "bytes" + repr(list(v))
    if isinstance(v, list): return "[" + all(v) + "]"
    if isinstance(v, tuple): return "(" + all(v) + ")"
    if isinstance(v, dict): return "{" + "; ".join(all(p) for p in v.items()) + "}"
    return repr(v)

shared = ["shared", {"line": 7}]
value = {
    "integers": [0, -1, 255, 256, 65535, 65536, -2**31, 2**31, 2**63 - 1, -2**63, 2**63, 2**64 - 1],
    "floats": [0.5, -1234.0625, 1.0],
    "plain": (None, True, False),
    "tuples": [(), (1,), (1, 2), (1, 2, 3), (1, 2, 3, 4)],
    "text": ["", "\u00e9\u20ac\U0001f600", "line\nback\\slash\\u0041", "x" * 300],
    "long": list(range(2500)),
    "wide": {str(n): n for n in range(2500)},
    "one": {1: [2]},
    "empty": [[], {}],
    "shared": [shared, shared, (shared,)],
}
for protocol in range(6):
    if protocol >= 3: value["bytes"] = [b"", b"\x00\xff", b"y" * 300]
    print(protocol, pickle.dumps(value, protocol).hex(), show(value), sep="\t")
"#;

fn from_hex(digits: &str) -> Vec<u8> {
    let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("hexadecimal");
    (0..digits.len()).step_by(2).map(byte).collect()
}

#[test]
fn every_protocol_of_python_is_read() {
    let output = String::from_utf8(python(EVERY_PROTOCOL, b"")).expect("text");
    let mut protocols = 0;
    for line in output.lines() {
        let mut fields = line.splitn(3, '\t');
        let mut next = || fields.next().expect("three fields");
        let (protocol, bytes, shown) = (next(), from_hex(next()), next());
        let document = pickle::read(&bytes, &Limits::default()).expect(protocol);
        assert!(show(&document, document.root()) == shown, "protocol {protocol}");
        protocols += 1;
    }
    assert_eq!(protocols, 6);
}

/// Prints the pickle of each object that is not plain data, for each protocol.
const OBJECTS: &str = r#"
import collections, fractions, os, pickle
objects = [os.system, fractions.Fraction(1, 3), {1, 2}, frozenset([1]), 1 + 2j, range(3),
           collections.OrderedDict(a=1), ValueError("x"), 2**64, -2**63 - 1]
for value in objects:
    for protocol in range(6):
        print(pickle.dumps([value], protocol).hex())
"#;

#[test]
fn objects_of_python_are_refused() {
    let output = String::from_utf8(python(OBJECTS, b"")).expect("text");
    let mut refused = 0;
    for line in output.lines() {
        let error = pickle::read(&from_hex(line), &Limits::default()).map(|_| ()).unwrap_err();
        let expected = matches!(
            error.problem,
            Problem::Refused { .. } | Problem::Integer { .. } | Problem::Literal { .. }
        );
        assert!(expected, "{error}");
        refused += 1;
    }
    assert_eq!(refused, 60);
}

/// Writes every kind of value, with more items than a container receives at once.
fn written() -> Vec<u8> {
    let long = "x".repeat(300);
    pickle::write_dict(Vec::new(), |root| {
        root.entry("integers").list(|list| {
            let edges = [0, 255, 256, 65535, 65536, (1 << 31) - 1, 1 << 31, i64::MAX];
            for edge in edges {
                list.item().integer(edge)?;
                list.item().integer(-edge - 1)?;
            }
            list.item().integer(u64::MAX)
        })?;
        root.entry("plain").tuple(|plain| {
            plain.item().none()?;
            plain.item().boolean(true)?;
            plain.item().boolean(false)?;
            plain.item().float(-0.5)
        })?;
        root.entry("empty").list(|empty| {
            empty.item().tuple(|_| Ok(()))?;
            empty.item().list(|_| Ok(()))?;
            empty.item().dict(|_| Ok(()))?;
            empty.item().text("")
        })?;
        root.entry("long").list(|list| (0..2500).try_for_each(|n| list.item().integer(n)))?;
        root.entry("texts").dict(|dict| {
            (0..300).try_for_each(|n| dict.entry(&n.to_string()).text(&format!("é{}", n % 290)))
        })?;
        root.entry("very long").text(&long)?;
        let _ = root.entry("not written");
        Ok(())
    })
    .expect("writing to memory")
}

const EXPECTED: &str = r#"
import pickle, pickletools, sys
data = sys.stdin.buffer.read()
value = pickle.loads(data)
edges = [0, 255, 256, 65535, 65536, 2**31 - 1, 2**31, 2**63 - 1]
assert value == {
    "integers": [n for edge in edges for n in (edge, -edge - 1)] + [2**64 - 1],
    "plain": (None, True, False, -0.5),
    "empty": [(), [], {}, ""],
    "long": list(range(2500)),
    "texts": {str(n): "\u00e9" + str(n % 290) for n in range(300)},
    "very long": "x" * 300,
}, value
for opcode, _, _ in pickletools.genops(data):
    print(opcode.name)
"#;

/// The opcodes of `MemoryViz.js`.
const VIEWER: [&str; 32] = [
    "APPENDS",
    "BINGET",
    "BININT",
    "BININT1",
    "BININT2",
    "EMPTY_DICT",
    "EMPTY_LIST",
    "FRAME",
    "LONG1",
    "LONG_BINGET",
    "MARK",
    "MEMOIZE",
    "PROTO",
    "SETITEMS",
    "SHORT_BINUNICODE",
    "STOP",
    "TUPLE2",
    "APPEND",
    "NEWFALSE",
    "BINPUT",
    "BINUNICODE",
    "EMPTY_TUPLE",
    "NEWTRUE",
    "NONE",
    "BINFLOAT",
    "TUPLE",
    "TUPLE1",
    "TUPLE3",
    "LONG_BINPUT",
    "LIST",
    "DICT",
    "SETITEM",
];

#[test]
fn python_and_the_viewer_read_what_is_written() {
    let opcodes = String::from_utf8(python(EXPECTED, &written())).expect("text");
    let unknown: Vec<_> = opcodes.lines().filter(|name| !VIEWER.contains(name)).collect();
    assert!(opcodes.lines().count() > 3000 && unknown.is_empty(), "{unknown:?}");
}

#[test]
fn what_is_written_is_read_back() {
    let bytes = written();
    let document = pickle::read(&bytes, &Limits::default()).expect("what was written");
    let shown = show(&document, document.root());
    assert!(
        shown.starts_with(r#"{"integers", [0, -1, 255, -256, 256, -257, 65535, -65536, 65536"#)
    );
    assert!(shown.contains("9223372036854775807, -9223372036854775808, 18446744073709551615]"));
    assert!(shown.contains(r#""plain", (None, True, False, -0.5); "empty", [(), [], {}, ""];"#));
    assert!(shown.contains(r#""299", "é9"}"#) && shown.contains("2498, 2499]"));
}
