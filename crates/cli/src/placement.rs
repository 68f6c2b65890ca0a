//! `cubeyard placement`: which PE holds which part of a tensor.

mod json;
mod table;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Layout, Level, Placement, PlacementError, Split};
use cubeyard_runtime::shape::Shape;

use crate::terminal::Format;
use crate::{output, terminal, topology};

/// See which PE holds which part of a tensor
///
/// A tensor is a matrix: its last dimension is the columns, all others are the rows. Each level copies it
/// (replicate), or splits its rows (`row_wise`) or columns (`column_wise`): the SIPs, then the cubes of a
/// SIP, then the PEs of a cube.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The tensor's dimensions, such as 4096x4096, or scalar
    #[arg(long)]
    shape: Shape,
    /// What its elements are, such as f16
    #[arg(long, default_value_t = DType::F16)]
    dtype: DType,
    /// What the SIPs do: replicate, `row_wise` or `column_wise`
    #[arg(long, value_name = "SPLIT", default_value_t)]
    sip: Split,
    /// What the cubes of a SIP do
    #[arg(long, value_name = "SPLIT", default_value_t)]
    cube: Split,
    /// What the PEs of a cube do
    #[arg(long, value_name = "SPLIT", default_value_t)]
    pe: Split,
    /// Only the first so many SIPs
    #[arg(long, value_name = "N", default_value_t = 1)]
    sips: u32,
    /// Only the first so many cubes of each SIP; without it, all
    #[arg(long, value_name = "N")]
    cubes: Option<u32>,
    /// Only the first so many PEs of each cube; without it, all
    #[arg(long, value_name = "N")]
    pes: Option<u32>,
    /// The machine, as YAML; without it, the default one
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Draw it, as SVG
    #[arg(long, value_name = "FILE")]
    draw: Option<PathBuf>,
    /// No remarks on standard error
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    if let Some(path) = &arguments.draw {
        let inputs = arguments.topology.iter().map(|path| ("--topology", path.as_path()));
        output::check(&inputs.collect::<Vec<_>>(), &[("--draw", path)])?;
    }
    let topology = topology::read(arguments.topology.as_deref(), arguments.quiet)?;
    let layout = placement(arguments, &topology)?
        .resolve(arguments.shape, arguments.dtype, &topology)
        .map_err(|error| refused(&error))?;
    if let Some(path) = &arguments.draw {
        draw(&layout, path, arguments.quiet)?;
    }
    let result = match arguments.format {
        Format::Table => table::render(&layout, terminal::colours()),
        Format::Json => json::render(&layout)?,
    };
    terminal::print(&result).context("standard output")
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

/// An error with the option that it is about in front.
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

fn draw(layout: &Layout, path: &Path, quiet: bool) -> Result<()> {
    output::write(path, "--draw", &layout.draw())?;
    if !quiet {
        terminal::note(&format!("wrote {}", path.display()));
    }
    Ok(())
}
