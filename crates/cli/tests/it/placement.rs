//! `cubeyard placement`: tables, JSON, pictures, and what is refused.

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
    expect![[""]].assert_eq(&table(
        "placement-small",
        "--shape 5x3 --dtype f32 --cube row_wise --pe column_wise --cubes 2 --pes 2",
    ));
}

#[test]
fn copies_are_one_line() {
    expect![[""]].assert_eq(&table(
        "placement-copies",
        "--shape 2x3x64 --dtype bf16 --sips 2 --sip replicate --cube replicate --pe column_wise",
    ));
    expect![[""]].assert_eq(&table("placement-scalar", "--shape scalar --dtype bool"));
}

#[test]
fn what_is_left_over_goes_to_the_first() {
    expect![[""]].assert_eq(&table(
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
    assert_eq!(text.lines().filter(|line| line.contains("cube")).count(), 129, "{text}");
    assert!(text.contains("\n  and 128 more parts; --format json has all\n"), "{text}");
    assert!(text.lines().count() < 140);
    let one = table("placement-exact", "--shape 4096x4096 --cube row_wise --pe column_wise");
    assert!(!one.contains("more parts"), "{one}");
}

#[test]
fn the_same_for_programs() {
    expect![[""]].assert_eq(&table(
        "placement-json",
        "--shape 5 --dtype i8 --pe row_wise --cubes 2 --pes 2 --format json",
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

/// Whatever is placed however: the picture is XML, and nothing leaves it.
#[test]
fn pictures_of_all_placements_are_well_formed() {
    let sandbox = Sandbox::new("placement-pictures");
    let splits = ["replicate", "row_wise", "column_wise"];
    let shapes = ["scalar", "7", "4096x64", "3x100000", "1x18446744073709551615"];
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
    assert_eq!(drawn, 45);
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
        seen += 1;
    }
    assert!(seen > 5, "{what}");
}

#[test]
fn what_is_refused() {
    let sandbox = Sandbox::new("placement-refused");
    sandbox.write("folder", "");
    let mut messages = String::new();
    for arguments in [
        "--shape 4x --dtype f16",
        "--shape 4x0",
        "--shape 4294967296x4294967296",
        "--shape 2305843009213693952 --dtype f64",
        "--shape 4x4 --dtype float16",
        "--shape 4x4 --cube rowwise",
        "--shape 4x4 --pe col_wise",
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
    expect![[""]].assert_eq(&messages);
}
