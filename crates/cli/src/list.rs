//! `cubeyard list`: lists the benches.

use anyhow::{Context as _, Result};
use clap::Args;
use cubeyard_kernels::bench::{Bench, Parameter, catalogue};
use serde_json::{Value, json};

use crate::grid::{BOLD, paint, table};
use crate::terminal;
use crate::terminal::Format;

/// List the benches that `run` can run
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// List parameters with their ranges and defaults
    #[arg(long, short)]
    verbose: bool,
    /// Format of the output
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// Has no effect: `list` makes no remarks
    #[arg(long, short)]
    quiet: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let benches = catalogue();
    let colours = terminal::colours();
    let result = match (arguments.format, arguments.verbose) {
        (Format::Table, false) => names(&benches, colours),
        (Format::Table, true) => {
            benches.iter().map(|bench| parameters(&**bench, colours)).collect::<Vec<_>>().join("\n")
        }
        (Format::Json, _) => {
            let all: Value = benches.iter().map(|bench| shown(&**bench)).collect();
            serde_json::to_string_pretty(&all)? + "\n"
        }
    };
    terminal::print(&result).context("standard output")
}

fn names(benches: &[Box<dyn Bench>], colours: bool) -> String {
    let row = |bench: &dyn Bench| vec![bench.name().to_owned(), bench.summary().to_owned()];
    let rows: Vec<_> = benches.iter().map(|bench| row(&**bench)).collect();
    table(&["bench", "what it computes"], &rows, 2, colours)
}

fn parameters(bench: &dyn Bench, colours: bool) -> String {
    let row = |parameter: &Parameter| {
        let Parameter { name, help, kind, default } = parameter;
        vec![(*name).to_owned(), default.to_string(), (*help).to_owned(), kind.to_string()]
    };
    let rows: Vec<_> = bench.parameters().iter().map(row).collect();
    let title = format!("{}: {}{}", bench.name(), bench.summary(), needs(bench));
    let heading = ["parameter", "default", "meaning", "range"];
    format!("{}\n{}", paint(&title, BOLD, colours), table(&heading, &rows, 4, colours))
}

fn needs(bench: &dyn Bench) -> &'static str {
    if bench.needs_data() { "; needs --data" } else { "" }
}

fn shown(bench: &dyn Bench) -> Value {
    let parameter = |parameter: &Parameter| {
        json!({
            "name": parameter.name,
            "what": parameter.help,
            "default": parameter.default.to_string(),
            "expected": parameter.kind.to_string(),
        })
    };
    json!({
        "name": bench.name(),
        "summary": bench.summary(),
        "needs_data": bench.needs_data(),
        "parameters": bench.parameters().iter().map(parameter).collect::<Vec<_>>(),
    })
}
