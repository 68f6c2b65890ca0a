//! `cubeyard topology`: checks a topology file and shows its machine.

pub(crate) mod page;
pub(crate) mod table;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use cubeyard_device::topology::{DEFAULT, Topology};
use cubeyard_diagrams::{View, machine};

use crate::machine::MachineOptions;
use crate::output::Files;
use crate::page::PageOptions;
use crate::record::Stamped;
use crate::terminal::OutputOptions;
use crate::{output, terminal};

/// Check a topology file, and show its machine in figures or pictures
///
/// Without a file, shows the default machine. A file needs only the values that differ from the default.
/// `--print-default` prints every key with its unit and the source of its value.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    machine: MachineOptions,
    /// Print the default topology file as a starting point for your own
    #[arg(long, conflicts_with_all = ["topology", "with", "draw", "view", "report", "format"])]
    print_default: bool,
    /// Draw all levels to system.svg, sip.svg, cube.svg and pe.svg in this folder
    #[arg(long, value_name = "DIR", conflicts_with = "view")]
    draw: Option<PathBuf>,
    /// Print one level as SVG instead of the figures
    #[arg(long, value_enum, conflicts_with = "format")]
    view: Option<Level>,
    #[command(flatten)]
    page: PageOptions,
    #[command(flatten)]
    output: OutputOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Level {
    /// The SIPs and the switch between them
    System,
    /// The cubes and IO chiplets of a SIP
    Sip,
    /// The routers of a cube and what is attached to them
    Cube,
    /// A PE and its slice of the HBM
    Pe,
}

impl From<Level> for View {
    fn from(level: Level) -> Self {
        match level {
            Level::System => Self::System,
            Level::Sip => Self::Sip,
            Level::Cube => Self::Cube,
            Level::Pe => Self::Pe,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if arguments.print_default {
        return terminal::print(DEFAULT);
    }
    let inputs = output::named([("--topology", &arguments.machine.topology)]);
    arguments.page.check(&inputs)?;
    let topology = arguments.machine.read(arguments.output)?;
    arguments.page.write(arguments.output, || page::page_of(&topology))?;
    if let Some(folder) = &arguments.draw {
        draw(&topology, folder, arguments)?;
    }
    if let Some(level) = arguments.view {
        return terminal::print(&machine(&topology, level.into()));
    }
    let text = |colours| table::render(&topology, colours);
    arguments.output.print(text, || Stamped::new(topology.report(), &topology))
}

/// Draws all pictures before writing any, and writes all files before renaming any.
fn draw(topology: &Topology, folder: &Path, arguments: &Arguments) -> Result<()> {
    let pictures = View::ALL
        .map(|view| (folder.join(format!("{}.svg", view.name())), machine(topology, view)));
    fs::create_dir_all(folder).map_err(|error| {
        let name = folder.display();
        anyhow!("{name}: cannot be written: {error}\n  help: name another folder with --draw")
    })?;
    let inputs = output::named([("--topology", &arguments.machine.topology)]);
    let outputs = pictures.iter().map(|(path, _)| ("--draw", path.as_path()));
    output::check(&inputs, &outputs.collect::<Vec<_>>())?;
    let mut files = Files::default();
    for (path, picture) in &pictures {
        files.write(path, "--draw", |file| file.write_all(picture.as_bytes()))?;
    }
    files.finish()?;
    for (path, _) in &pictures {
        arguments.output.remark(&format!("wrote {}", path.display()));
    }
    Ok(())
}
