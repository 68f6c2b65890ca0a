//! The code that `docs/kernels.md` and `docs/collectives.md` quote, and the tests of `docs/kernel-coverage.md`, exist.

use std::fs;
use std::path::Path;

const COLLECTIVES: &str = include_str!("../../../../docs/collectives.md");
const COVERAGE: &str = include_str!("../../../../docs/kernel-coverage.md");
const PAGE: &str = include_str!("../../../../docs/kernels.md");
const EXAMPLE: &str = concat!(
    include_str!("../../examples/first_kernel.rs"),
    include_str!("../../examples/five_steps.rs")
);

/// The lines of a text without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).collect()
}

#[test]
fn docs_kernels_md_quotes_the_examples_word_for_word() {
    let example = lines(EXAMPLE);
    let quotes = PAGE.split("```rust,ignore\n").skip(1);
    let quotes: Vec<_> = quotes.map(|rest| rest.split("```").next().unwrap()).collect();
    assert!(quotes.len() >= 6, "{} quotes", quotes.len());
    for quote in quotes {
        let part = lines(quote);
        let there = example.windows(part.len()).any(|window| window == part);
        assert!(there, "not there:\n{quote}");
    }
}

#[test]
fn docs_collectives_md_quotes_the_worker_of_the_example() {
    let body = include_str!("../../examples/ddp.rs");
    let body = body.split("async fn train").nth(1).unwrap().split("\n}\n").next().unwrap();
    assert!(
        COLLECTIVES.contains(&format!("async fn train{body}\n}}\n")),
        "it quotes another worker"
    );
}

/// All source below a folder.
fn sources(folder: &Path, all: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, all);
        } else if path.extension().is_some_and(|kind| kind == "rs" || kind == "py") {
            all.push(fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_test_that_docs_kernel_coverage_md_names_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut all = Vec::new();
    for folder in ["crates", "python/tests"] {
        sources(&root.join(folder), &mut all);
    }
    let quoted = COVERAGE.split('`').skip(1).step_by(2);
    let names: Vec<&str> = quoted.filter(|name| name.matches('_').count() > 3).collect();
    assert!(names.len() > 50, "{}", names.len());
    for name in names {
        let forms = [format!("fn {name}("), format!("def {name}(")];
        let there = all.iter().any(|source| forms.iter().any(|form| source.contains(form)));
        assert!(there, "there is no test {name}");
    }
}
