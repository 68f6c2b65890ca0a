//! `cubeyard list`: lists the benches.

use anyhow::Result;
use clap::Args;
use cubeyard_bench::{Bench, Parameter, catalogue};
use serde_json::{Value, json};

use crate::grid::{BOLD, paint, table};
use crate::terminal::OutputOptions;

/// List the benches that `run` can run
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// List parameters with their ranges and defaults
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    output: OutputOptions,
}

pub(crate) fn run(arguments: &Arguments) -> Result<()> {
    let benches = catalogue();
    let text = |colours| {
        if !arguments.verbose {
            return names(&benches, colours);
        }
        let tables: Vec<_> = benches.iter().map(|bench| parameters(&**bench, colours)).collect();
        tables.join("\n")
    };
    let json = || {
        let all: Value = benches.iter().map(|bench| shown(&**bench)).collect();
        Ok(serde_json::to_string_pretty(&all)? + "\n")
    };
    arguments.output.print(text, json)
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
