//! `cubeyard model`: measures a step of a language model, part by part.

mod chart;
pub(crate) mod choice;
pub(crate) mod page;
mod plan;
pub(crate) mod table;

use crate::code::{Code, Exhausted};
use anyhow::{Result, anyhow};
use clap::{Args, ValueEnum};
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_bench::report::Answer;
use cubeyard_model::cut::ExpertPlacement;
use cubeyard_model::report::{ModelReport, PartReport};
use cubeyard_model::{HfModel, MeasureConfig, ModelError, Phase, Workload, measure};
use cubeyard_sim::Span;
use serde_json::json;

use crate::machine::MachineOptions;
use crate::page::PageOptions;
use crate::progress::Progress;
use crate::record::{self, Drawing, LeverOptions, Recorded, StudyOptions, stamped};
use crate::terminal::OutputOptions;
use crate::{memory, output};
use choice::ModelChoice;

/// Measure a step of a language model: time, tokens per second, memory of each PE
///
/// Allocates all weights and caches over all SIPs, and simulates a step with one layer of each kind; layers of a kind are alike.
/// `--levers` shows what to change: the time if each resource of the machine were twice as fast. Ends with code 3
/// and the allocator's report if the model does not fit.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) choice: ModelChoice,
    /// Number of sequences
    #[arg(long, value_name = "N", default_value_t = 1)]
    batch: u64,
    /// Number of tokens of each sequence
    #[arg(long, value_name = "N", default_value_t = 2048)]
    context: u64,
    /// Phase of inference
    #[arg(long, value_enum, default_value_t = ModelPhase::Decode)]
    phase: ModelPhase,
    /// Number of tokens in a step of prefill, over all sequences
    #[arg(long, value_name = "N", default_value_t = 512)]
    chunk: u64,
    /// Number of layers of each kind to simulate, one after the other
    #[arg(long, value_name = "N", default_value_t = 1)]
    layers: u64,
    /// Maximum number of positions at which attention of prefill is simulated; times between them are
    /// interpolated
    #[arg(long, value_name = "N")]
    positions: Option<u64>,
    #[command(flatten)]
    plan: plan::PlanOptions,
    #[command(flatten)]
    pub(crate) machine: MachineOptions,
    #[command(flatten)]
    pub(crate) page: PageOptions,
    #[command(flatten)]
    pub(crate) levers: LeverOptions,
    #[command(flatten)]
    pub(crate) study: StudyOptions,
    #[command(flatten)]
    pub(crate) output: OutputOptions,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModelPhase {
    /// One new token per sequence
    Decode,
    /// Whole prompts, in chunks
    Prefill,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Code> {
    let Arguments { choice, machine, page, study, .. } = arguments;
    let [spec, hf] = choice.files();
    let inputs = [("--spec", spec), ("--hf", hf), ("--topology", &machine.topology)];
    let inputs = output::named(inputs);
    let outputs = [("--report", &page.report), ("--save", &study.save)];
    output::check(&inputs, &output::named(outputs))?;
    let config = config(arguments)?;
    if arguments.plan.is_given() {
        return run_plan(arguments, config);
    }
    let report = measured(&config, arguments.output.quiet)?;
    page.write(arguments.output, || page::page_of(&report, None))?;
    record::save(study, arguments.output, || saved(&config, &report))?;
    let stamped = || stamped(&report, &config.topology);
    arguments.output.print(|colours| table::render(&report, colours), stamped)?;
    Ok(Code::Done)
}

/// Measures a plan of the model.
fn run_plan(arguments: &Arguments, config: MeasureConfig) -> Result<Code> {
    let Arguments { page, study, output, .. } = arguments;
    let topology = config.topology.clone();
    let planned = plan::planned(&arguments.plan, config, output.quiet)?;
    page.write(*output, || plan::page::page_of(&planned, None))?;
    record::save(study, *output, || plan::saved(&planned))?;
    let stamped = || stamped(&planned, &topology);
    output.print(|colours| plan::table::render(&planned, colours), stamped)?;
    Ok(Code::Done)
}

/// Measures the model and returns its record.
pub(crate) fn recorded(arguments: &Arguments) -> Result<Recorded> {
    let config = config(arguments)?;
    if arguments.plan.is_given() {
        let planned = plan::planned(&arguments.plan, config, true)?;
        return Ok(Recorded { record: plan::saved(&planned), is_well: true });
    }
    let report = measured(&config, true)?;
    Ok(Recorded { record: saved(&config, &report), is_well: true })
}

/// Measures the model and returns its record and its page.
pub(crate) fn drawn(arguments: &Arguments) -> Result<(Recorded, Drawing)> {
    let config = config(arguments)?;
    if arguments.plan.is_given() {
        let planned = plan::planned(&arguments.plan, config, true)?;
        let recorded = Recorded { record: plan::saved(&planned), is_well: true };
        let draw = move |answer: &Answer| plan::page::page_of(&planned, Some(answer));
        return Ok((recorded, Box::new(draw)));
    }
    let report = measured(&config, true)?;
    let recorded = Recorded { record: saved(&config, &report), is_well: true };
    Ok((recorded, Box::new(move |answer| page::page_of(&report, Some(answer)))))
}

fn measured(config: &MeasureConfig, quiet: bool) -> Result<ModelReport> {
    let needs = config.needs().map_err(|error| refused(&error, config))?;
    needs.within(memory::limit(), false).map_err(|error| memory::refuse(&error))?;
    let progress = Progress::new(quiet);
    let mut known = 0;
    let report = measure(config, &mut |done, all| {
        progress.expect(all);
        progress.turn_to(format!("{}, run {} of {all}", config.spec.name, (done + 1).min(all)));
        progress.advance(done - known);
        known = done;
    });
    progress.finish();
    report.map_err(|error| refused(&error, config))
}

fn saved(config: &MeasureConfig, report: &ModelReport) -> Record {
    let record = record_of(config);
    Record { figures: Some(Measured::figures(&[step(report)])), ..record }
}

/// Returns a record of the inputs of a measurement, without figures.
fn record_of(config: &MeasureConfig) -> Record {
    let work = &config.work;
    let placement =
        ExpertPlacement::NAMES.into_iter().find(|(_, it)| *it == work.experts).map(|it| it.0);
    let inputs = [
        ("model", json!(config.spec.name)),
        ("parameters", json!(config.spec.parameters())),
        ("phase", json!(format!("{:?}", work.phase).to_lowercase())),
        ("batch", json!(work.batch)),
        ("context", json!(work.context)),
        ("chunk", json!(work.chunk)),
        ("dtype", json!(work.dtype.name())),
        ("weights", json!(work.weights.name())),
        ("kv_dtype", json!(work.kv_type().name())),
        ("experts", json!(placement)),
        ("layers", json!(config.layers)),
        ("positions", json!(config.positions)),
    ];
    let inputs = inputs.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    Record::of_command("model", &config.spec.name, &config.topology, inputs)
}

/// Returns the figures of the step. Its parts and the launches between them run one after the other, so
/// they form the critical path.
fn step(report: &ModelReport) -> Measured {
    let part = |it: &PartReport| (it.part.name().to_owned(), it.total.ns());
    let launches = ("launches".to_owned(), report.launching.ns());
    let [memory, gemm] =
        [0, 1].map(|bound| report.parts.iter().map(|part| part.least[bound]).sum::<Span>());
    let share = |span: Span| span.ps() as f64 / report.total.ps().max(1) as f64;
    let bounds = [("HBM", memory), ("GEMM", gemm), ("parts, each its own bound", report.bound())];
    Measured {
        name: "step".to_owned(),
        time_ns: report.total.ns(),
        path_ns: report.parts.iter().map(part).chain([launches]).collect(),
        utilisation: bounds[..2]
            .iter()
            .map(|(name, span)| ((*name).to_owned(), share(*span)))
            .collect(),
        bounds_ns: bounds.map(|(name, span)| (name.to_owned(), span.ns())).into(),
        limited_by: None,
    }
}

fn config(arguments: &Arguments) -> Result<MeasureConfig> {
    let phase = match arguments.phase {
        ModelPhase::Decode => Phase::Decode,
        ModelPhase::Prefill => Phase::Prefill,
    };
    let Arguments { batch, context, chunk, layers, positions, ref choice, .. } = *arguments;
    let (model, [dtype, weights]) = choice.read()?;
    let (experts, kv) = (choice.experts, choice.kv_dtype);
    let HfModel { spec, notes, .. } = model;
    Ok(MeasureConfig {
        spec,
        work: Workload { phase, batch, context, chunk, dtype, weights, experts, kv },
        topology: arguments.machine.read(arguments.output)?,
        layers,
        positions,
        notes,
    })
}

/// Adds help to an error. Ends with code 3 if simulated memory or time ran out.
fn refused(error: &ModelError, config: &MeasureConfig) -> anyhow::Error {
    if error.is_exhausted() {
        let help = "a smaller --batch, a shorter --context, or a larger machine with --topology";
        let sips = match config.least_sips() {
            Some(sips) => format!("weights and caches fit into {sips} such SIPs or more"),
            None => "weights and caches do not fit into 16 such SIPs, the maximum of a machine"
                .to_owned(),
        };
        return Exhausted(format!("{error}\n  help: {help}\n  help: {sips}")).into();
    }
    let help = match error {
        ModelError::Uneven { .. } => "use another model with --spec or --hf",
        ModelError::Nothing(_) => "use at least 1",
        ModelError::Activations { .. } => {
            "use --dtype f16 or bf16; --weights int8 or fp8 stores the weights of layers in 8 bits"
        }
        ModelError::Weights { .. } => "use another type with --weights",
        ModelError::Caches { .. } => "use another type with --kv-dtype",
        _ => "change the options that do not fit",
    };
    anyhow!("{error}\n  help: {help}")
}
