//! `cubeyard placement`: tables, JSON, pictures, and errors.

use std::path::Path;

use expect_test::expect;
use roxmltree::Document;

use crate::Sandbox;

fn table(name: &str, arguments: &str) -> String {
    let arguments: Vec<_> = ["placement"].into_iter().chain(arguments.split(' ')).collect();
    Sandbox::new(name).run(&arguments).result()
}

#[test]
fn a_small_tensor_over_few_pes() {
    expect![[r#"
        5x3 f32, 60 B: SIPs replicate, cubes row_wise, PEs column_wise

          held by         rows  columns  offset  bytes
          sip0.cube0.pe0  0..3     0..2       0     24
          sip0.cube0.pe1  0..3     2..3      24     12
          sip0.cube1.pe0  3..5     0..2      36     16
          sip0.cube1.pe1  3..5     2..3      52      8

        4 parts, held once
        4 of 4 PEs hold 8 B to 24 B each
        all PEs of these cubes map the same shards, 64 mappings in all
    "#]]
    .assert_eq(&table(
        "placement-small",
        "--shape 5x3 --dtype f32 --cube row_wise --pe column_wise --cubes 2 --pes 2",
    ));
}

#[test]
fn copies_are_one_line() {
    expect![[r#"
        2x3x64 bf16, 768 B: SIPs replicate, cubes replicate, PEs column_wise

          held by              rows  columns  offset  bytes
          sip0-1.cube0-15.pe0  0..6     0..8       0     96
          sip0-1.cube0-15.pe1  0..6    8..16      96     96
          sip0-1.cube0-15.pe2  0..6   16..24     192     96
          sip0-1.cube0-15.pe3  0..6   24..32     288     96
          sip0-1.cube0-15.pe4  0..6   32..40     384     96
          sip0-1.cube0-15.pe5  0..6   40..48     480     96
          sip0-1.cube0-15.pe6  0..6   48..56     576     96
          sip0-1.cube0-15.pe7  0..6   56..64     672     96

        8 parts, each held by 32 PEs
        256 of 256 PEs hold 96 B each
        32 groups of PEs map different shards, 2048 mappings in all
    "#]]
    .assert_eq(&table(
        "placement-copies",
        "--shape 2x3x64 --dtype bf16 --sips 2 --sip replicate --cube replicate --pe column_wise",
    ));
    expect![[r#"
        scalar bool, 1 B: SIPs replicate, cubes replicate, PEs replicate

          held by              rows  columns  offset  bytes
          sip0.cube0-15.pe0-7  0..1     0..1       0      1

        1 part, held by 128 PEs
        128 of 128 PEs hold 1 B each
        128 groups of PEs map different shards, 128 mappings in all
    "#]]
    .assert_eq(&table("placement-scalar", "--shape scalar --dtype bool"));
}

#[test]
fn what_is_left_over_goes_to_the_first() {
    expect![[r#"
        10 i64, 80 B: SIPs replicate, cubes row_wise, PEs row_wise

          held by          rows  columns  offset  bytes
          sip0.cube0.pe0   0..1     0..1       0      8
          sip0.cube0.pe1   1..2     0..1       8      8
          sip0.cube0.pe2   2..3     0..1      16      8
          sip0.cube1.pe0   3..4     0..1      24      8
          sip0.cube1.pe1   4..5     0..1      32      8
          sip0.cube1.pe2   5..6     0..1      40      8
          sip0.cube2.pe0   6..7     0..1      48      8
          sip0.cube2.pe1   7..8     0..1      56      8
          sip0.cube3.pe0   8..9     0..1      64      8
          sip0.cube3.pe1  9..10     0..1      72      8

        10 parts, held once
        10 of 16 PEs hold 8 B each
        all PEs of these cubes map the same shards, 320 mappings in all
    "#]]
    .assert_eq(&table(
        "placement-uneven",
        "--shape 10 --dtype i64 --cube row_wise --cubes 4 --pe row_wise --pes 4",
    ));
}

#[test]
fn long_tables_end_with_a_count() {
    let text = table(
        "placement-long",
        "--shape 4096x4096 --sips 2 --sip row_wise --cube row_wise --pe column_wise",
    );
    assert_eq!(text.lines().filter(|line| line.contains(".cube")).count(), 128, "{text}");
    assert!(text.contains("\n  and 128 more parts; --format json has all\n"), "{text}");
    assert!(text.lines().count() < 140);
    let one = table("placement-exact", "--shape 4096x4096 --cube row_wise --pe column_wise");
    assert!(!one.contains("more parts"), "{one}");
}

#[test]
fn the_same_for_programs() {
    expect![[r#"
        {
          "version": "0.1.0",
          "topology": "6d5ffae61029a9e5cb2e822f795b721e",
          "shape": [
            5
          ],
          "dtype": "i8",
          "sip": "replicate",
          "cube": "replicate",
          "pe": "row_wise",
          "nbytes": 5,
          "copies": 1,
          "held_bytes": 5,
          "least_bytes_per_holder": 2,
          "most_bytes_per_holder": 3,
          "shards": [
            {
              "sip": 0,
              "cube": 0,
              "pe": 0,
              "rows": [
                0,
                3
              ],
              "columns": [
                0,
                1
              ],
              "offset_bytes": 0,
              "nbytes": 3
            },
            {
              "sip": 0,
              "cube": 0,
              "pe": 1,
              "rows": [
                3,
                5
              ],
              "columns": [
                0,
                1
              ],
              "offset_bytes": 3,
              "nbytes": 2
            }
          ],
          "mapping_groups": [
            {
              "pes": [
                "sip0.cube0.pe0",
                "sip0.cube0.pe1",
                "sip0.cube0.pe2",
                "sip0.cube0.pe3",
                "sip0.cube0.pe4",
                "sip0.cube0.pe5",
                "sip0.cube0.pe6",
                "sip0.cube0.pe7"
              ],
              "shards": [
                0,
                1
              ]
            }
          ]
        }
    "#]]
    .assert_eq(&table(
        "placement-json",
        "--shape 5 --dtype i8 --pe row_wise --cubes 1 --pes 2 --format json",
    ));
}

/// If this fails after a change to the picture, look at it, then draw it again with the arguments below.
#[test]
fn the_picture_of_the_documentation_is_up_to_date() {
    let sandbox = Sandbox::new("placement-draw");
    let run = sandbox.run(&[
        "placement",
        "--shape",
        "4096x4096",
        "--cube",
        "row_wise",
        "--pe",
        "column_wise",
        "--draw",
        "out.svg",
    ]);
    assert_eq!(run.stderr, "wrote out.svg\n");
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/img/placement.svg");
    let kept = std::fs::read_to_string(kept).expect("it is there");
    assert!(sandbox.read("out.svg") == kept, "docs/img/placement.svg is another picture");
}

/// The picture of any placement is valid XML, and nothing lies outside it.
#[test]
fn pictures_of_all_placements_are_well_formed() {
    let sandbox = Sandbox::new("placement-pictures");
    let splits = ["replicate", "row_wise", "column_wise"];
    let shapes =
        ["scalar", "7", "4096x64", "3x100000", "18446744073709551615", "1x18446744073709551615"];
    let mut drawn = 0;
    for shape in shapes {
        for (cube, pe) in splits.into_iter().flat_map(|cube| splits.map(|pe| (cube, pe))) {
            let rest =
                ["--cube", cube, "--pe", pe, "--dtype", "u8", "--draw", "out.svg", "--quiet"];
            let arguments: Vec<_> =
                ["placement", "--shape", shape, "--sips", "2", "--sip", "row_wise"]
                    .into_iter()
                    .chain(rest)
                    .collect();
            let run = sandbox.run(&arguments);
            assert_eq!(run.stderr, "", "{arguments:?}");
            check(&sandbox.read("out.svg"), &format!("{arguments:?}"));
            drawn += 1;
        }
    }
    assert_eq!(drawn, 54);
}

fn check(picture: &str, what: &str) {
    let document = Document::parse(picture).expect("it is XML");
    let number = |node: roxmltree::Node<'_, '_>, name: &str| -> f64 {
        node.attribute(name).map_or(0.0, |value| value.parse().expect("it is a number"))
    };
    let root = document.root_element();
    let (width, height) = (number(root, "width"), number(root, "height"));
    let mut seen = 0;
    for node in document.descendants().filter(|node| node.attribute("y").is_some()) {
        let (right, bottom) =
            (number(node, "x") + number(node, "width"), number(node, "y") + number(node, "height"));
        assert!(number(node, "x") >= 0.0 && right <= width, "{what}: {node:?}");
        assert!(number(node, "y") >= 0.0 && bottom <= height, "{what}: {node:?}");
        let text = node.text().unwrap_or_default();
        if node.attribute("text-anchor") == Some("end") {
            assert!(number(node, "x") >= 6.5 * text.len() as f64, "{what}: {text}");
        }
        seen += 1;
    }
    assert!(seen > 5, "{what}");
}

#[test]
fn a_tensor_without_elements_is_held_by_nobody() {
    let sandbox = Sandbox::new("placement-empty");
    let run = sandbox.run(&["placement", "--shape", "4x0", "--pe", "row_wise"]).result();
    assert!(run.starts_with("4x0 f16, 0 B: "), "{run}");
    assert!(run.contains("\n0 of 128 PEs hold 0 B each\n"), "{run}");
}

#[test]
fn what_is_refused() {
    let sandbox = Sandbox::new("placement-refused");
    sandbox.write("folder", "");
    let mut messages = String::new();
    for arguments in [
        "--shape 4x --dtype f16",
        "--shape 4294967296x4294967296",
        "--shape 2305843009213693952 --dtype f64",
        "--shape 4x4 --dtype float16",
        "--shape 4x4 --cube rowwise",
        "--shape 4x4 --pe colum_wise",
        "--shape 4x4 --cubes 17",
        "--shape 4x4 --pes 9",
        "--shape 4x4 --sips 3",
        "--shape 4x4 --sips 0",
        "--shape 4x4 --cubes 0",
        "--shape 4x4 --topology absent.yaml",
        "--shape 4x4 --draw folder/out.svg",
    ] {
        let all: Vec<_> = ["placement"].into_iter().chain(arguments.split(' ')).collect();
        let run = sandbox.run(&all);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""), "{arguments}");
        messages += &run.stderr.replace("\n\nFor more information, try '--help'.", "");
    }
    expect![[r#"
        error: invalid value '4x' for '--shape <SHAPE>': expected dimensions such as 4096x4096, each below 2^64, or scalar; found `4x`
        error: invalid value '4294967296x4294967296' for '--shape <SHAPE>': 4294967296x4294967296 has more elements than 64 bits can count
        error: --shape: 2305843009213693952 has more bytes of f64 than 64 bits can count
        error: invalid value 'float16' for '--dtype <DTYPE>': expected one of f16, bf16, f32, f64, fp8_e4m3, fp8_e5m2, i8, i16, i32, i64, u8, u16, u32, u64, bool; found `float16`; the nearest is `f16`
        error: invalid value 'rowwise' for '--cube <SPLIT>': expected one of replicate, row_wise, column_wise; found `rowwise`; the nearest is `row_wise`
        error: invalid value 'colum_wise' for '--pe <SPLIT>': expected one of replicate, row_wise, column_wise; found `colum_wise`; the nearest is `column_wise`
        error: --cubes: expected 1 to 16, found 17
          help: the machine has 16 cubes in a SIP
        error: --pes: expected 1 to 8, found 9
          help: the machine has 8 PEs in a cube
        error: --sips: expected 1 to 2, found 3
          help: the machine has 2 SIPs
        error: --sips: expected 1 to 2, found 0
          help: the machine has 2 SIPs
        error: --cubes: expected at least 1, found 0
        error: absent.yaml: No such file or directory (os error 2)
          help: check the path
        error: folder/out.svg: cannot be written: folder is not a folder
          help: name another file
    "#]].assert_eq(&messages);
}
