//! Benches beside the built-in ones: the template of docs/own-bench.md, and files of Python.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use expect_test::expect;
use serde_json::Value;

use crate::{Run, Sandbox};

/// Runs the template, which cargo compiles with the tests.
fn template(sandbox: &Sandbox, arguments: &[&str]) -> Run {
    let tests = std::env::current_exe().expect("a test is a program");
    let program: PathBuf = tests.parent().unwrap().parent().unwrap().join("examples/own_bench");
    assert!(program.exists(), "cargo test compiles examples; cargo test --test it does not");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(&sandbox.folder).stdin(Stdio::null());
    Run::of(command.output().expect("the template starts"))
}

#[test]
fn the_template_has_every_option_of_a_built_in_bench() {
    let sandbox = Sandbox::new("own-bench");
    let files = ["--report", "scale.html", "--trace", "scale.pftrace"];
    let options = ["--data", "--explain", "--set", "rows=128", "--format", "json"];
    let run = template(&sandbox, &[&["run", "scale"], &files[..], &options[..]].concat());
    let run: Value = serde_json::from_str(&run.result()).unwrap();
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
    assert!(sandbox.read("scale.html").contains("each row times n"));
    assert!(sandbox.path("scale.pftrace").metadata().unwrap().len() > 1000);
}

#[test]
fn the_template_is_listed_beside_the_built_in_benches() {
    let sandbox = Sandbox::new("own-bench-list");
    let names = template(&sandbox, &["list"]).result();
    assert!(names.contains("  scale") && names.contains("  gemm"), "{names}");
    let wrong = template(&sandbox, &["run", "scala"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("the nearest is `scale`"), "{}", wrong.stderr);
}

#[test]
fn a_file_of_python_is_answered_with_how_to_install_the_package() {
    let sandbox = Sandbox::new("own-bench-python");
    sandbox.write("scale.py", "import cubeyard\n");
    for arguments in [&["run", "scale.py"][..], &["run", "scale.py::run"], &["list", "scale.py"]] {
        let run = sandbox.run(arguments);
        assert_eq!((run.code, run.stdout.as_str()), (Some(2), ""));
        expect![[r#"
            error: scale.py: this program was built without Python; install the package with `pip install cubeyard`, then run the same command
        "#]]
        .assert_eq(&run.stderr);
    }
    let run = sandbox.run(&["sweep", "grid.yaml"]);
    assert_eq!(run.code, Some(2));
    assert!(run.stderr.contains("pip install cubeyard"), "{}", run.stderr);
}

#[test]
fn the_page_quotes_the_template() {
    let page = include_str!("../../../../docs/own-bench.md");
    let template = include_str!("../../../../docs/template/src/main.rs");
    let quote = page.split("```rust,ignore\n").nth(1).and_then(|rest| rest.split("```").next());
    assert!(template.contains(quote.expect("it quotes main")));
}
