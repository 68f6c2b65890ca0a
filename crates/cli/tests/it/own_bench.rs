//! Benches in Python files.

use expect_test::expect;

use crate::Sandbox;

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
