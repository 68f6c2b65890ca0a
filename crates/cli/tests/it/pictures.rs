//! Pictures are well-formed, complete and independent of file names.

use roxmltree::{Document, ParsingOptions};

use crate::{Sandbox, recorded};

fn texts(document: &Document<'_>) -> Vec<String> {
    let named = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "text")));
    named.filter_map(|node| node.text().map(str::to_owned)).collect()
}

#[test]
fn a_picture_of_several_traces_is_well_formed() {
    let sandbox = Sandbox::new("svg");
    let files = [recorded("gpt2_train.csv.gz"), recorded("resnet_train_stacks.pickle.gz")];
    sandbox.run(&["replay", &files[0], &files[1], "--plot", "out.svg"]).result();
    let picture = sandbox.read("out.svg");
    let document = Document::parse(&picture).expect("XML");
    let texts = texts(&document);
    for expected in [
        "gpt2_train",
        "resnet_train_stacks",
        "best-fit",
        "PyTorch, as recorded",
        "GiB",
        "time in seconds",
    ] {
        assert!(texts.iter().any(|text| text == expected), "{expected}: {texts:?}");
    }
}

#[test]
fn a_page_is_well_formed_and_needs_nothing_else() {
    let sandbox = Sandbox::new("html");
    let name = "a<b>&'\"é.trace";
    sandbox.write(name, "alloc a 3 MiB\nalloc b 100000 GiB\n");
    sandbox.run(&["replay", name, "--plot", "out.HTML"]).result();
    let page = sandbox.read("out.HTML");
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    let document = Document::parse_with_options(&page, options).expect("XML");
    assert!(texts(&document).iter().any(|text| text == "a<b>&'\"é"));
    assert!(document.descendants().any(|node| node.has_tag_name("table")));
    for elsewhere in ["src=", "href=", "@import", "url("] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

/// A name that is legal for a file and not for XML.
#[cfg(target_os = "linux")]
#[test]
fn names_with_control_characters_are_drawn_and_printed_without_them() {
    let sandbox = Sandbox::new("control");
    let name = "a\u{1b}[31m\u{1}.trace";
    sandbox.write(name, "alloc a 3 MiB\n");
    let table = sandbox.run(&["replay", name, "--plot", "out.svg"]).result();
    assert!(!table.contains('\u{1b}'));
    Document::parse(&sandbox.read("out.svg")).expect("XML");
}
