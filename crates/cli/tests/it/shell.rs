//! Completions and manual pages, read by real shells and by `man`'s formatter where they are installed.

use std::process::Command;

use crate::Sandbox;

#[test]
fn bash_completes_commands_and_options() {
    let sandbox = Sandbox::new("completions");
    sandbox.write("complete.bash", sandbox.run(&["completions", "bash"]).result());
    let ask = |words: &str| {
        let count = words.split(' ').count() - 1;
        let script = format!(
            "source complete.bash; COMP_WORDS=({words}); COMP_CWORD={count}; \
             _cubeyard cubeyard \"${{COMP_WORDS[$COMP_CWORD]}}\"; echo ${{COMPREPLY[@]}}"
        );
        let bash = Command::new("bash").args(["-c", &script]).current_dir(&sandbox.folder).output();
        String::from_utf8(bash.expect("bash runs").stdout).expect("UTF-8").trim().to_owned()
    };
    assert_eq!(ask("cubeyard val"), "validate");
    assert_eq!(ask("cubeyard run --expl"), "--explain");
    assert_eq!(ask("cubeyard probe --wi"), "--with");
}

#[test]
fn every_shell_gets_a_script_with_every_command() {
    let sandbox = Sandbox::new("completions-all");
    for shell in ["bash", "zsh", "fish"] {
        let script = sandbox.run(&["completions", shell]).result();
        for command in ["ccl", "list", "model", "probe", "replay", "run", "topology", "validate"] {
            assert!(script.contains(command), "{shell}: {command}");
        }
    }
    assert_eq!(sandbox.run(&["completions", "csh"]).code, Some(2));
}

#[test]
fn the_manual_has_a_page_for_each_command() {
    let sandbox = Sandbox::new("man");
    let page = sandbox.run(&["man"]).result();
    assert!(page.contains(".TH cubeyard 1"), "{page}");
    let page = sandbox.run(&["man", "run"]).result();
    assert!(page.contains(".TH cubeyard-run 1") && page.contains("explain"), "{page}");
    let run = sandbox.run(&["man", "runs"]);
    assert_eq!(run.code, Some(2));
    assert!(
        run.stderr.starts_with("error: `runs` is no command\n  help: commands are ccl, "),
        "{}",
        run.stderr
    );
}
