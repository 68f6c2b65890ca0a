//! `cubeyard model`: what a step of a language model takes, part by part.

mod json;
mod table;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result, anyhow};
use clap::{Args, ValueEnum};
use cubeyard_kernels::model::{MeasureConfig, ModelError, ModelSpec, Phase, Work, measure};
use cubeyard_runtime::dtype::DType;

use crate::progress::Progress;
use crate::terminal::Format;
use crate::{input, memory, terminal, topology};

/// The most that is read of a file; the library refuses less.
const LIMIT: u64 = 1 << 20;

/// Measure a step of a language model: time, tokens a second, memory of each PE
///
/// All weights and caches are allocated over all SIPs, and a step is run in one timeline with one of the
/// model's layers, which are all alike. Ends with code 3 if the model does not fit, with the allocator's report.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// llama-8b or llama-70b
    #[arg(long, value_name = "NAME", default_value = "llama-8b", conflicts_with = "spec")]
    llm: String,
    /// A model of your own, as YAML: name, layers, hidden, ffn, heads, `kv_heads`, `head_dim` and vocab,
    /// each as in llama-8b where it is left out
    #[arg(long, value_name = "FILE")]
    spec: Option<PathBuf>,
    /// Sequences
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u64,
    /// Tokens of each sequence
    #[arg(long, value_name = "N", default_value_t = 2048)]
    context: u64,
    /// What the step does
    #[arg(long, value_enum, default_value_t = Step::Decode)]
    phase: Step,
    /// Tokens of all sequences in a step of prefill
    #[arg(long, value_name = "N", default_value_t = 512)]
    chunk: u64,
    /// What weights, cache and activations are of
    #[arg(long, value_name = "NAME", default_value = "f16")]
    dtype: DType,
    /// Run so many of the layers, one after the other, instead of one
    #[arg(long, value_name = "N", default_value_t = 1)]
    layers: u64,
    /// Run attention of prefill at so many positions at most; between them it is taken to grow evenly
    #[arg(long, value_name = "N")]
    positions: Option<u64>,
    /// The machine, as YAML; without it, the default one
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// How to print the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
    /// No remarks on standard error
    #[arg(long, short)]
    quiet: bool,
}

/// What a step does.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Step {
    /// One new token of each sequence
    Decode,
    /// Whole prompts
    Prefill,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode> {
    let config = config(arguments)?;
    match config.needs().map(|needs| needs.within(memory::limit(), false)) {
        Ok(Ok(())) => {}
        Ok(Err(error)) => return Ok(memory::refuse(&error)),
        Err(error) => return refused(&error),
    }
    let mut progress = Progress::new(arguments.quiet);
    let mut known = 0;
    let report = measure(&config, &mut |done, all| {
        progress.expect(all);
        progress.turn_to(format!("{}, run {} of {all}", config.spec.name, (done + 1).min(all)));
        progress.advance(done - known);
        known = done;
    });
    progress.finish();
    let report = match report {
        Ok(report) => report,
        Err(error) => return refused(&error),
    };
    let result = match arguments.format {
        Format::Table => table::render(&report, terminal::colours()),
        Format::Json => json::render(&report)?,
    };
    terminal::print(&result).context("standard output")?;
    Ok(ExitCode::SUCCESS)
}

fn config(arguments: &Arguments) -> Result<MeasureConfig> {
    let phase = match arguments.phase {
        Step::Decode => Phase::Decode,
        Step::Prefill => Phase::Prefill,
    };
    let Arguments { batch, context, chunk, dtype, layers, positions, .. } = *arguments;
    Ok(MeasureConfig {
        spec: spec(arguments.spec.as_deref(), &arguments.llm)?,
        work: Work { phase, batch, context, chunk, dtype },
        topology: topology::read(arguments.topology.as_deref(), arguments.quiet)?,
        layers,
        positions,
    })
}

fn spec(file: Option<&Path>, name: &str) -> Result<ModelSpec> {
    let Some(file) = file else {
        return ModelSpec::named(name).map_err(|error| {
            anyhow!("--llm: {error}\n  help: --spec FILE takes a model of your own")
        });
    };
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    Ok(ModelSpec::read_bytes(&name, &bytes)?)
}

/// An error with what can be done about it: simulated memory and time have a code of their own.
fn refused(error: &ModelError) -> Result<ExitCode> {
    if error.is_exhausted() {
        let help = "a smaller --batch, a shorter --context, or a larger machine with --topology";
        terminal::note(&format!("error: {error}\n  help: {help}"));
        return Ok(ExitCode::from(3));
    }
    let help = match error {
        ModelError::Uneven { .. } => {
            "a machine or a model that it divides, with --topology or --spec"
        }
        ModelError::Nothing(_) => "ask for more",
        _ => "change what does not fit",
    };
    Err(anyhow!("{error}\n  help: {help}"))
}
