//! `--cost`: costs of the machines of all points, before any of them runs.

use anyhow::{Result, anyhow};
use cubeyard_study::Grid;
use cubeyard_study::designs::Cost;

use super::assignments;
use crate::{Command, simulating};

/// Returns the cost of each point; `None` without an expression, and where the machine cannot be read, which is the
/// error of its point.
pub(super) fn of(
    expression: Option<&str>,
    grid: &Grid<String>,
    commands: &[Command],
) -> Result<Vec<Option<f64>>> {
    let Some(expression) = expression else { return Ok(vec![None; commands.len()]) };
    let cost = Cost::parse(expression).map_err(|error| anyhow!("--cost {error}"))?;
    let of_point = |(point, command): (_, &Command)| {
        let Ok(machine) = simulating::machine(command) else { return Ok(None) };
        let cost = cost.of(&machine);
        cost.map(Some).map_err(|error| {
            anyhow!(
                "--cost {error}\n  help: this is so for {}; docs/designs.md describes expressions",
                assignments(&point)
            )
        })
    };
    grid.points().zip(commands).map(of_point).collect()
}
