//! `cubeyard placement`: shows the part of a tensor that each PE holds.

mod table;

use std::path::{Path, PathBuf};

use anyhow::{Result, anyhow, bail};
use clap::Args;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Layout, Level, Placement, PlacementError, Split};
use cubeyard_runtime::shape::Shape;

use crate::machine::MachineOptions;
use crate::output;
use crate::record::Stamped;
use crate::terminal::OutputOptions;

/// Show the part of a tensor that each PE holds
///
/// A tensor is treated as a matrix: its last dimension is the columns, all others are the rows. Each level
/// replicates it (replicate), or splits its rows (`row_wise`) or columns (`column_wise`): the SIPs, then the
/// cubes of a SIP, then the PEs of a cube.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Dimensions of the tensor, such as 4096x4096, or scalar
    #[arg(long)]
    shape: Shape,
    /// Element type of the tensor, such as f16
    #[arg(long, default_value_t = DType::F16)]
    dtype: DType,
    /// Split over the SIPs: replicate, `row_wise` or `column_wise`
    #[arg(long, value_name = "SPLIT", default_value_t)]
    sip: Split,
    /// Split over the cubes of a SIP
    #[arg(long, value_name = "SPLIT", default_value_t)]
    cube: Split,
    /// Split over the PEs of a cube
    #[arg(long, value_name = "SPLIT", default_value_t)]
    pe: Split,
    /// Number of SIPs to use, from the first on
    #[arg(long, value_name = "N", default_value_t = 1)]
    sips: u32,
    /// Number of cubes to use in each SIP, from the first on; all if omitted
    #[arg(long, value_name = "N")]
    cubes: Option<u32>,
    /// Number of PEs to use in each cube, from the first on; all if omitted
    #[arg(long, value_name = "N")]
    pes: Option<u32>,
    #[command(flatten)]
    machine: MachineOptions,
    /// Draw the placement to an .svg file
    #[arg(long = "report", alias = "draw", value_name = "FILE")]
    draw: Option<PathBuf>,
    #[command(flatten)]
    output: OutputOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.draw {
        if output::is_page(path)? {
            let name = path.display();
            bail!(
                "{name}: --report writes .svg, not a page\n  help: name a file that ends in .svg"
            );
        }
        let inputs = output::named([("--topology", &arguments.machine.topology)]);
        output::check(&inputs, &[(output::PICTURE, path)])?;
    }
    let topology = arguments.machine.read(arguments.output)?;
    let layout = placement(arguments, &topology)?
        .resolve(arguments.shape, arguments.dtype, &topology)
        .map_err(|error| refused(&error))?;
    if let Some(path) = &arguments.draw {
        draw(&layout, path, arguments.output)?;
    }
    let report = || Stamped::new(&layout, &topology);
    arguments.output.print(|colours| table::render(&layout, colours), report)
}

/// Formats a layout as `cubeyard placement` prints it.
pub fn layout_text(layout: &Layout) -> String {
    table::render(layout, false)
}

fn placement(arguments: &Arguments, topology: &Topology) -> Result<Placement> {
    let Arguments { sip, cube, pe, cubes, pes, .. } = *arguments;
    let (asked, there) = (arguments.sips, topology.spec().sips.count);
    let sips: Vec<SipId> = topology.sips().take(usize::try_from(asked)?).collect();
    if asked == 0 || asked > there {
        let level = Level::Sip;
        return Err(refused(&PlacementError::TooMany { level, asked, there }));
    }
    Ok(Placement { sip, cube, pe, sips, cubes, pes })
}

/// Adds the option to which an error refers.
fn refused(error: &PlacementError) -> anyhow::Error {
    let option = |level| match level {
        Level::Sip => "--sips",
        Level::Cube => "--cubes",
        Level::Pe => "--pes",
    };
    match *error {
        PlacementError::TooMany { level, asked, there } => anyhow!(
            "{}: expected 1 to {there}, found {asked}\n  help: the machine has {there} {level}s{}",
            option(level),
            match level {
                Level::Sip => "",
                Level::Cube => " in a SIP",
                Level::Pe => " in a cube",
            }
        ),
        PlacementError::Nowhere { level } => {
            anyhow!("{}: expected at least 1, found 0", option(level))
        }
        PlacementError::NoSuchSip { .. } | PlacementError::SipTwice { .. } => {
            anyhow!("--sips: {error}")
        }
        PlacementError::Shape(_) => anyhow!("--shape: {error}"),
    }
}

fn draw(layout: &Layout, path: &Path, options: OutputOptions) -> Result<()> {
    output::write(path, "--report", &cubeyard_diagrams::placement(layout))?;
    options.remark(&format!("wrote {}", path.display()));
    Ok(())
}
