//! The template of `docs/own-bench.md`: its bench beside the built-in ones, and its quote on the page.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// Runs the template, which cargo compiles with the tests, in a folder of its own.
fn template(folder: &Path, arguments: &[&str]) -> Output {
    let tests = std::env::current_exe().expect("a test is a program");
    let program: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples/own_bench");
    assert!(program.exists(), "cargo test compiles examples; cargo test --test it does not");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command.output().expect("the template starts")
}

fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).expect("a folder for tests");
    folder
}

#[test]
fn the_template_has_every_option_of_a_built_in_bench() {
    let folder = folder("own-bench");
    let files = ["--report", "scale.html", "--trace", "scale.pftrace"];
    let options = ["--data", "--explain", "--set", "rows=128", "--format", "json"];
    let run = template(&folder, &[&["run", "scale"], &files[..], &options[..]].concat());
    assert!(run.status.success(), "{run:?}");
    let run: Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(run["parameters"]["rows"], "128");
    assert_eq!(run["check"]["passed"], true);
    assert_eq!(run["check"]["elements"], 128 * 64);
    assert_eq!(run["pes"], 128);
    // A row of 256 bytes for each PE: a read and a write at 256 GB/s are the bound.
    let hbm =
        run["bounds"].as_array().unwrap().iter().find(|it| it["resource"] == "the HBM of a PE");
    assert_eq!(hbm.unwrap()["least_ns"], 2.0);
    let place = run["critical"][1]["place"].as_str().unwrap();
    assert!(place.starts_with("main.rs:"), "{place}");
    let page = std::fs::read_to_string(folder.join("scale.html")).unwrap();
    assert!(page.contains("each row times n"));
    assert!(folder.join("scale.pftrace").metadata().unwrap().len() > 1000);
}

#[test]
fn the_template_is_listed_beside_the_built_in_benches() {
    let folder = folder("own-bench-list");
    let names = String::from_utf8(template(&folder, &["list"]).stdout).unwrap();
    assert!(names.contains("  scale") && names.contains("  gemm"), "{names}");
    let wrong = template(&folder, &["run", "scala"]);
    assert_eq!(wrong.status.code(), Some(2));
    let message = String::from_utf8(wrong.stderr).unwrap();
    assert!(message.contains("the nearest is `scale`"), "{message}");
}

#[test]
fn the_page_quotes_the_template() {
    let page = include_str!("../../../../docs/own-bench.md");
    let template = include_str!("../../../../docs/template/src/main.rs");
    let quote = page.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(template.contains(quote.expect("it quotes main")));
}
