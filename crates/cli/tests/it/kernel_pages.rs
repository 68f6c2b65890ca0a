//! The pictures of `cubeyard run` in `docs/benches.md` are the pictures of the report.

use expect_test::expect_file;

use crate::Sandbox;

/// Returns the picture of a class in a page, with the page's style.
fn picture(page: &str, class: &str) -> String {
    let style = page.split("<style>\n").nth(1).unwrap().split("</style>").next().unwrap();
    let start = page.find(&format!("<svg class=\"{class}\"")).unwrap();
    let open = start + page[start..].find('>').unwrap() + 1;
    let mut depth = 1;
    let mut end = open;
    while depth > 0 {
        let next = end + page[end..].find("svg").unwrap();
        let before = &page[..next];
        depth += usize::from(before.ends_with('<'));
        depth -= usize::from(before.ends_with("</"));
        end = next + "svg".len();
    }
    let font = "svg{background:var(--panel);font-family:system-ui,'DejaVu Sans',sans-serif}\n";
    format!("{}\n<style>\n{style}{font}</style>{}>\n", &page[start..open], &page[open..end])
}

/// If this fails after a change to the pictures, look at them, then write them again:
/// `UPDATE_EXPECT=1 cargo test -p cubeyard-cli --test it pictures_of_kernels`.
#[test]
fn pictures_of_kernels_are_those_of_the_report() {
    let sandbox = Sandbox::new("kernel-pictures");
    let add = ["run", "vector-add", "--set", "pes=1", "--set", "elements=131072", "-q"];
    let product = ["run", "gemm", "-q"];
    sandbox.run(&[&add[..], &["--report", "add.html"]].concat()).result();
    sandbox.run(&[&product[..], &["--report", "product.html"]].concat()).result();
    let (add, product) = (sandbox.read("add.html"), sandbox.read("product.html"));
    let timeline = picture(&add, "timeline");
    assert!(roxmltree::Document::parse(&timeline).is_ok(), "{timeline}");
    expect_file!["../../../../docs/img/kernel-timeline.svg"].assert_eq(&timeline);
    expect_file!["../../../../docs/img/kernel-path.svg"].assert_eq(&picture(&add, "stack"));
    let roofline = picture(&product, "roofline");
    assert!(roxmltree::Document::parse(&roofline).is_ok(), "{roofline}");
    expect_file!["../../../../docs/img/kernel-roofline.svg"].assert_eq(&roofline);
}
