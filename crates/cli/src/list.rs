//! `cubeyard list`: lists the benches.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use cubeyard_bench::{Bench, BenchEntry, Parameter};
use serde_json::json;

use crate::grid::{BOLD, fitted, paint, wrapped};
use crate::own::{self, OwnBenches};
use crate::terminal::OutputOptions;

/// List the benches that `run` can run
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// Python file whose benches are listed; the benches that `run` finds by name if omitted
    #[arg(value_name = "FILE.py")]
    file: Option<PathBuf>,
    /// List parameters with their ranges and defaults
    #[arg(long, short)]
    verbose: bool,
    #[command(flatten)]
    output: OutputOptions,
}

pub(crate) fn run(arguments: &Arguments, front: &dyn OwnBenches) -> Result<()> {
    let benches = match &arguments.file {
        Some(path) => own::of_file(front, path)?,
        None => own::all(front)?,
    };
    let text = |colours| {
        if !arguments.verbose {
            return names(&benches, colours);
        }
        let tables: Vec<_> = benches.iter().map(|bench| parameters(&**bench, colours)).collect();
        tables.join("\n")
    };
    let entries = || benches.iter().map(|bench| BenchEntry::new(&**bench)).collect::<Vec<_>>();
    arguments.output.print(text, || json!(entries()))
}

fn names(benches: &[Box<dyn Bench>], colours: bool) -> String {
    let row = |bench: &dyn Bench| vec![bench.name().to_owned(), bench.summary().to_owned()];
    let rows: Vec<_> = benches.iter().map(|bench| row(&**bench)).collect();
    fitted(&["bench", "what it computes"], &rows, colours)
}

fn parameters(bench: &dyn Bench, colours: bool) -> String {
    let row = |parameter: &Parameter| {
        let Parameter { name, help, kind, default } = parameter;
        let help = if help.is_empty() { String::new() } else { format!("{help}: ") };
        vec![name.to_string(), default.to_string(), format!("{help}{kind}")]
    };
    let rows: Vec<_> = bench.parameters().iter().map(row).collect();
    let title = format!("{}: {}{}", bench.name(), bench.summary(), needs(bench));
    let (title, heading) = (wrapped(&title, [0, 2]), ["parameter", "default", "meaning and range"]);
    paint(title.trim_end(), BOLD, colours) + "\n" + &fitted(&heading, &rows, colours)
}

fn needs(bench: &dyn Bench) -> &'static str {
    if bench.needs_data() { "; needs --data" } else { "" }
}
