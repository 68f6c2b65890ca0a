use super::*;
use cubeyard_units::Bytes;

fn refusal(input: &[u8]) -> PickleError {
    read(input, &Limits::default()).map(|_| ()).unwrap_err()
}

fn problem(input: &[u8]) -> Problem {
    refusal(input).problem
}

fn root(input: &[u8]) -> Value {
    read(input, &Limits::default()).unwrap().root()
}

#[test]
fn opcodes_that_run_code_are_refused_by_name() {
    let attack = b"cos\nsystem\n(S'echo hello'\ntR.";
    assert_eq!(
        refusal(attack).to_string(),
        "byte 0, GLOBAL: expected plain data, found an opcode that creates a class or function"
    );
    let modern = b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x02ls\x85R.";
    assert_eq!((refusal(modern).offset, refusal(modern).opcode), (14, "STACK_GLOBAL"));
    let refused = b"cRbioPQS\x54\x55\x81\x82\x83\x84\x8f\x90\x91\x92\x93\x97\x98";
    for code in refused {
        let error = refusal(&[b'N', *code, b'.']);
        assert!(matches!(error.problem, Problem::Refused { .. }), "{error}");
        assert_eq!(error.offset, 1);
    }
}

#[test]
fn what_is_no_opcode_is_no_pickle() {
    assert_eq!(refusal(b"Hello").to_string(), "byte 0, no opcode: expected an opcode, found 0x48");
    assert_eq!(
        refusal(b"\x80\x06N.").to_string(),
        "byte 0, PROTO: expected protocol 0 to 5, found 6"
    );
}

#[test]
fn a_declared_length_is_compared_with_what_is_left() {
    let lengths: [&[u8]; 5] = [
        b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff.",
        b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.",
        b"X\xff\xff\xff\xff.",
        b"\x8b\xff\xff\xff\x7f.",
        b"\x95\xff\xff\xff\xff\xff\xff\xff\xff.",
    ];
    for input in lengths {
        assert!(matches!(problem(input), Problem::Truncated { left: 1, .. }), "{input:?}");
    }
    assert_eq!(
        refusal(b"\x8a\x09abc.").to_string(),
        "byte 0, LONG1: expected 9 more bytes, found 4"
    );
}

#[test]
fn integers_beyond_64_bits_are_refused() {
    assert_eq!(problem(b"\x8a\x09\0\0\0\0\0\0\0\0\x01."), Problem::Integer { bytes: 9 });
    assert_eq!(root(b"\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0."), Value::Large(u64::MAX));
    assert_eq!(root(b"L-9223372036854775808L\n."), Value::Integer(i64::MIN));
    assert_eq!(root(b"I18446744073709551615\n."), Value::Large(u64::MAX));
    assert!(matches!(problem(b"I18446744073709551616\n."), Problem::Literal { .. }));
}

#[test]
fn the_end_comes_with_stop_and_one_value() {
    assert_eq!(refusal(b"N").to_string(), "byte 1, end of input: expected 1 more bytes, found 0");
    assert_eq!(problem(b"N.N"), Problem::Trailing { count: 1 });
    assert_eq!(problem(b"NN."), Problem::Leftover { count: 2 });
    assert_eq!(problem(b"(N."), Problem::Leftover { count: 2 });
    assert_eq!(problem(b"."), Problem::Nothing { expected: "a value" });
    assert_eq!(problem(b"I5"), Problem::EndlessLine);
}

#[test]
fn what_lies_below_a_mark_is_out_of_reach() {
    assert_eq!(problem(b"](Na."), Problem::Nothing { expected: "a list" });
    assert_eq!(problem(b"N(\x85."), Problem::Nothing { expected: "more values" });
    assert_eq!(problem(b"Nt."), Problem::Nothing { expected: "a mark" });
    assert_eq!(problem(b"(Ne."), Problem::Nothing { expected: "a list" });
}

#[test]
fn containers_take_what_belongs_into_them() {
    let list = Problem::Kind { expected: "a list", found: "a dictionary" };
    assert_eq!(problem(b"}Na."), list);
    assert_eq!(problem(b"](NNu."), Problem::Kind { expected: "a dictionary", found: "a list" });
    assert_eq!(problem(b"}(Nu."), Problem::Odd { count: 1 });
    assert_eq!(problem(b"}]Ns."), Problem::Kind { expected: "a key", found: "a list" });
}

#[test]
fn popping_takes_a_mark_where_no_value_is_left() {
    assert_eq!(root(b"N(N00."), Value::None);
    assert_eq!(root(b"N(NNN1."), Value::None);
    assert_eq!(problem(b"0."), Problem::Nothing { expected: "a mark" });
}

#[test]
fn the_memo_holds_what_was_put_there() {
    assert_eq!(problem(b"h\x05."), Problem::NotMemoized { index: 5 });
    assert_eq!(problem(b"Nr\xff\xff\xff\xff."), Problem::Memo { index: 0xffff_ffff, largest: 6 });
    assert!(matches!(problem(b"Np18446744073709551615\n."), Problem::Memo { .. }));
    let document = read(b"]\x94(K\x01\x94h\x01e0h\x00.", &Limits::default()).unwrap();
    let Value::List(list) = document.root() else { panic!("a list") };
    assert_eq!(document.items(list), [Value::Integer(1), Value::Integer(1)]);
}

#[test]
fn the_last_value_of_a_key_counts() {
    let document = read(b"}(\x8c\x01aK\x01\x8c\x01aK\x02u.", &Limits::default()).unwrap();
    let Value::Dict(dict) = document.root() else { panic!("a dictionary") };
    assert_eq!(document.get(dict, "a"), Some(Value::Integer(2)));
    assert_eq!(document.get(dict, "b"), None);
}

#[test]
fn a_list_that_contains_itself_is_refused() {
    let itself = refusal(b"]q\x00h\x00a.");
    assert_eq!(
        itself.to_string(),
        "byte 0, container: expected plain data, found a container that contains itself"
    );
    // Two lists that contain each other, and a tuple that is reached through its own list.
    assert_eq!(problem(b"]q\x00]q\x01h\x00aa."), Problem::Cycle);
    assert_eq!(problem(b"](h\x00t."), Problem::NotMemoized { index: 0 });
    assert_eq!(problem(b"]q\x00h\x00\x85a."), Problem::Cycle);
}

#[test]
fn containers_nest_as_deeply_as_the_limit_and_no_deeper() {
    let nested = |depth: usize| [vec![b']'; depth], vec![b'a'; depth - 1], vec![b'.']].concat();
    let limits = Limits { depth: 10, ..Limits::default() };
    assert!(read(&nested(10), &limits).is_ok());
    let error = read(&nested(11), &limits).map(|_| ()).unwrap_err();
    assert_eq!(error.problem, Problem::TooDeep { limit: 10 });
    assert_eq!(problem(&nested(5_000)), Problem::TooDeep { limit: 64 });
}

/// Returns a list that contains another list ten times, which contains the next ten times, `levels` deep.
fn bomb(levels: u8) -> Vec<u8> {
    let mut bytes = b"]\x94".to_vec();
    for level in 0..levels {
        bytes.extend(b"0]\x94(");
        bytes.extend([b'h', level].repeat(10));
        bytes.push(b'e');
    }
    bytes.push(b'.');
    bytes
}

#[test]
fn sharing_costs_no_more_than_its_references() {
    let bytes = bomb(50);
    let document = read(&bytes, &Limits::default()).unwrap();
    assert_eq!(document.containers(), 51);
    assert_eq!(problem(&bomb(64)), Problem::TooDeep { limit: 64 });
}

#[test]
fn tables_are_counted_against_the_limit() {
    // Four values on the stack need 80 bytes, the mark 48, the list 144 and its items 80.
    let limits = |memory| Limits { memory: Bytes::new(memory), ..Limits::default() };
    let needed = 6 + 80 + 48 + 144 + 80 + 20;
    assert!(read(b"](NNe.", &limits(needed)).is_ok());
    for memory in 0..needed - 20 {
        let error = read(b"](NNe.", &limits(memory)).map(|_| ()).unwrap_err();
        let limit = Bytes::new(memory);
        assert_eq!(error.problem, Problem::Memory(MemoryLimit { limit }), "{memory}");
    }
}

/// 120 Mi empty lists once needed 10 GB: 96 bytes per byte of the pickle.
#[test]
fn a_pickle_that_swells_is_refused_whatever_the_limit() {
    let lists = |count: usize| [b"(".to_vec(), vec![b']'; count], b"t.".to_vec()].concat();
    let limits = Limits { memory: Bytes::gib(100), ..Limits::default() };
    assert!(read(&lists(1_000), &limits).is_ok());
    let error = read(&lists(4 << 20), &limits).map(|_| ()).unwrap_err();
    assert_eq!(error.problem, Problem::Inflated { factor: 16 });
    // Every opcode that needs much memory for few bytes: values, marks, texts, tuples, references.
    let swelling: [&[u8]; 7] = [b"N", b"(", b"\x8c\0", b")", b"]", b"h\0", b"N\x85"];
    for part in swelling {
        let bytes = [b"]\x94(".to_vec(), part.repeat(8 << 20), b"e.".to_vec()].concat();
        let limits = Limits { memory: Bytes::mib(128), ..Limits::default() };
        let error = read(&bytes, &limits).map(|_| ()).unwrap_err();
        let limited = matches!(error.problem, Problem::Inflated { .. } | Problem::Memory(_));
        assert!(limited, "{part:?}: {error}");
    }
}
