//! The header against the library: the same functions, in C and in C++.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use super::{compiled, file, library, run, stdout};

/// Returns the functions that the header declares.
fn declared() -> BTreeSet<String> {
    let header = std::fs::read_to_string(file("include/cubeyard.h")).expect("there is a header");
    let code = without_comments(&header);
    let words = code.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '(');
    let calls = words.filter_map(|word| word.split_once('(').map(|(name, _)| name));
    calls.filter(|name| name.starts_with("cubeyard_")).map(str::to_owned).collect()
}

fn without_comments(header: &str) -> String {
    let mut parts = header.split("/*");
    let mut code = parts.next().unwrap_or_default().to_owned();
    parts.filter_map(|part| part.split_once("*/")).for_each(|(_, rest)| code.push_str(rest));
    code
}

/// Returns the functions that the library exports.
fn exported() -> BTreeSet<String> {
    let library = library().join("libcubeyard.so");
    let symbols = stdout(&run(Command::new("nm").args(["-D", "--defined-only"]).arg(library)));
    let names = symbols.lines().filter_map(|line| line.rsplit(' ').next());
    names.filter(|name| name.starts_with("cubeyard_")).map(str::to_owned).collect()
}

#[test]
fn the_library_exports_what_the_header_declares() {
    assert_eq!(declared(), exported());
    assert!(declared().len() > 25, "{:?}", declared());
}

#[test]
fn every_function_of_the_header_can_be_linked() {
    let mut program = String::from("#include \"cubeyard.h\"\nint main(void) {\n");
    for name in declared() {
        writeln!(program, "    if ((void (*)(void)){name} == 0) return 1;").expect("a string");
    }
    program.push_str("    return 0;\n}\n");
    let source = Path::new(env!("CARGO_TARGET_TMPDIR")).join("link.c");
    std::fs::write(&source, program).expect("the folder can be written to");
    let object = Path::new(env!("CARGO_TARGET_TMPDIR")).join("link.o");
    // The compiler may warn here: comparing a function's address with 0 always gives the same answer.
    run(Command::new("cc")
        .args(["-std=c99", "-c"])
        .arg(&source)
        .arg("-I")
        .arg(file("include"))
        .arg("-o")
        .arg(&object));
    run(Command::new("cc")
        .arg(&object)
        .arg("-L")
        .arg(library())
        .args(["-lcubeyard", "-o"])
        .arg(object.with_extension("out")));
}

#[test]
fn the_header_stands_alone_in_c_and_in_cpp() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join("alone.c");
    let text = "#include \"cubeyard.h\"\n#include \"cubeyard.h\"\nint main(void) { return !cubeyard_abi_version(); }\n";
    std::fs::write(&source, text).expect("the folder can be written to");
    compiled(&source, "alone");
    let cpp = folder.join("alone.cpp");
    std::fs::write(&cpp, text).expect("the folder can be written to");
    run(Command::new("c++")
        .args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"])
        .arg(&cpp)
        .arg("-I")
        .arg(file("include"))
        .arg("-L")
        .arg(library())
        .args(["-lcubeyard", "-o"])
        .arg(folder.join("alone-cpp")));
}
