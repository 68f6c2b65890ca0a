//! `cubeyard completions` and `cubeyard man`: shell completions and manual pages.

use anyhow::Result;
use clap::Args;
use clap_complete::Shell;

use crate::{help, terminal};

/// Print a script with which a shell completes commands and options
///
/// For Bash: `cubeyard completions bash > ~/.local/share/bash-completion/completions/cubeyard`.
#[derive(Args, Debug)]
pub(crate) struct CompletionArguments {
    /// Shell that reads the script
    shell: Shell,
}

/// Print the manual page
///
/// To read it: `cubeyard man > cubeyard.1; man ./cubeyard.1`. With the name of a command, prints the page of the
/// command.
#[derive(Args, Debug)]
pub(crate) struct ManArguments {
    /// Command whose page is printed; the program's if omitted
    command: Option<String>,
}

pub(crate) fn completions(arguments: &CompletionArguments) -> Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut help::command(), "cubeyard", &mut script);
    terminal::print(&String::from_utf8(script)?)
}

pub(crate) fn man(arguments: &ManArguments) -> Result<()> {
    let mut program = help::command();
    program.build();
    let page = match &arguments.command {
        None => program,
        Some(name) => own_page(&program, name)?,
    };
    let mut text = Vec::new();
    clap_mangen::Man::new(page).render(&mut text)?;
    terminal::print(&String::from_utf8(text)?)
}

/// Returns a subcommand; [`build`](clap::Command::build) has set its full name, such as `cubeyard-run`.
fn own_page(program: &clap::Command, name: &str) -> Result<clap::Command> {
    program.find_subcommand(name).cloned().ok_or_else(|| {
        let names: Vec<_> = program.get_subcommands().map(clap::Command::get_name).collect();
        anyhow::anyhow!("`{name}` is no command\n  help: commands are {}", names.join(", "))
    })
}
