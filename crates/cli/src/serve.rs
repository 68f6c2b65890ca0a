//! `cubeyard serve`: simulates a service of a language model.

mod csv;
pub(crate) mod page;
pub(crate) mod table;

use std::path::PathBuf;

use anyhow::{Result, anyhow, bail};
use clap::{Args, ValueEnum};
use cubeyard_bench::compare::Measured;
use cubeyard_bench::record::Record;
use cubeyard_model::HfModel;
use cubeyard_serve::run::{Arrivals, LoadSource, Rates, RunConfig, ServiceRun, run as serve};
use cubeyard_serve::{Lengths, Limits, Policy, SchedulerConfig, ServeError, ServedModel, trace};
use cubeyard_sim::Span;
use serde_json::json;

use crate::code::{Code, Exhausted};
use crate::machine::MachineOptions;
use crate::model::choice::ModelChoice;
use crate::page::PageOptions;
use crate::progress::Progress;
use crate::record::{self, Drawing, LeverOptions, Recorded, StudyOptions, stamped};
use crate::terminal::OutputOptions;
use crate::{input, output};

/// Largest number of bytes read from a trace.
const LIMIT: u64 = 1 << 30;

/// Simulate a service of a language model: latencies, throughput, and what makes requests wait
///
/// Requests arrive at random or from a trace; a scheduler with the rules of vLLM forms batches; each step takes the time
/// of the simulated machine. `--find-rate` searches the highest rate within the limits of `--goodput`. Ends with code 3
/// if the model does not fit.
#[derive(Args, Debug)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) choice: ModelChoice,
    #[command(flatten)]
    load: LoadOptions,
    #[command(flatten)]
    scheduler: SchedulerOptions,
    /// Limit on a latency of each request, in milliseconds: ttft:MS, tpot:MS or e2el:MS; can be given several times
    #[arg(long, value_name = "NAME:MS")]
    goodput: Vec<String>,
    /// Rates to run in turn, in requests a second, such as 10,20,40
    #[arg(long, value_name = "A,B,...", value_delimiter = ',', conflicts_with_all = ["rate", "find_rate"])]
    rates: Vec<f64>,
    /// Search the highest rate at which this share of the requests is within the limits of --goodput (0.99)
    #[arg(long, value_name = "SHARE", num_args = 0..=1, require_equals = true, default_missing_value = "0.99")]
    find_rate: Option<f64>,
    /// Times of steps: interpolated between simulated ones, or each of them simulated
    #[arg(long, value_enum, default_value_t = StepMode::Interpolated)]
    steps: StepMode,
    /// Number of batches whose interpolated times are compared with simulated ones
    #[arg(long, value_name = "N", default_value_t = 2)]
    check_steps: usize,
    /// Write a row for each answered request as CSV
    #[arg(long, value_name = "FILE")]
    requests_csv: Option<PathBuf>,
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

/// Requests: a trace, or random numbers.
#[derive(Args, Debug)]
struct LoadOptions {
    /// Trace of requests: the CSV of Azure or BurstGPT, JSON lines of Mooncake, or CSV with `arrival_s,prompt_tokens,output_tokens`
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Number of tokens of each of the `hash_ids` of a trace
    #[arg(long, value_name = "N", default_value_t = trace::MOONCAKE_TOKENS, requires = "trace")]
    hash_tokens: u64,
    /// Mean number of requests a second: 10 without a trace; a trace is run at its own rate if omitted
    #[arg(long, value_name = "R")]
    rate: Option<f64>,
    /// Number of requests: 500 without a trace; all of a trace if omitted
    #[arg(long, value_name = "N")]
    requests: Option<u64>,
    /// Shape of the gamma distribution of the gaps between arrivals: 1 for a Poisson process, less for bursts, inf for
    /// regular arrivals
    #[arg(long, value_name = "B", default_value_t = 1.0, conflicts_with = "trace")]
    burstiness: f64,
    /// Tokens of the prompts: a number, LOW-HIGH, or lognormal:MEAN:VARIATION
    #[arg(long, value_name = "TOKENS", default_value = "1024", value_parser = lengths, conflicts_with = "trace")]
    prompt: Lengths,
    /// Tokens of the answers, in the same forms
    #[arg(long, value_name = "TOKENS", default_value = "128", value_parser = lengths, conflicts_with = "trace")]
    answer: Lengths,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 0, conflicts_with = "trace")]
    seed: u64,
    /// Maximum number of unanswered requests; further clients wait before they send
    #[arg(long, value_name = "N")]
    max_concurrency: Option<u64>,
}

/// Parameters of the scheduler, with the names of vLLM.
#[derive(Args, Debug)]
struct SchedulerOptions {
    /// Maximum number of sequences of a batch
    #[arg(long, value_name = "N", default_value_t = 256)]
    max_num_seqs: u64,
    /// Maximum number of tokens of a batch
    #[arg(long, value_name = "N", default_value_t = 2048)]
    max_num_batched_tokens: u64,
    /// Number of tokens of a block of the KV cache
    #[arg(long, value_name = "N", default_value_t = 16)]
    block_size: u64,
    /// Compute equal prefixes of prompts each time
    #[arg(long)]
    no_prefix_caching: bool,
    /// Compute each prompt in one step
    #[arg(long)]
    no_chunked_prefill: bool,
    /// Order in which waiting requests are admitted
    #[arg(long, value_enum, default_value_t = PolicyName::Fcfs)]
    policy: PolicyName,
    /// Number of blocks of the KV cache, at most as many as the memory holds, which is the default
    #[arg(long, value_name = "N")]
    kv_blocks: Option<u64>,
    /// Share of the memory of a PE that weights, activations and cache may use
    #[arg(long, value_name = "SHARE", default_value_t = 0.92)]
    memory_share: f64,
    /// Time of the host before each step, in microseconds
    #[arg(long, value_name = "US", default_value_t = 0.0)]
    step_overhead_us: f64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum StepMode {
    /// Simulated at points of a grid
    Interpolated,
    /// Each of them simulated
    Exact,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PolicyName {
    /// First come, first served
    Fcfs,
    /// By priority, then by arrival
    Priority,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Code> {
    let Arguments { choice, load, machine, page, study, requests_csv, .. } = arguments;
    let [spec, hf] = choice.files();
    let inputs = [
        ("--spec", spec),
        ("--hf", hf),
        ("--topology", &machine.topology),
        ("--trace", &load.trace),
    ];
    let inputs = output::named(inputs);
    let outputs =
        [("--report", &page.report), ("--save", &study.save), ("--requests-csv", requests_csv)];
    output::check(&inputs, &output::named(outputs))?;
    let found = served(config(arguments)?, arguments.output.quiet)?;
    page.write(arguments.output, || page::page_of(&found, None))?;
    if let Some(path) = requests_csv {
        output::write(path, "--requests-csv", &csv::requests(&found))?;
        arguments.output.remark(&format!("wrote {}", path.display()));
    }
    record::save(study, arguments.output, || saved(&found))?;
    let topology = &found.config.model.topology;
    arguments
        .output
        .print(|colours| table::render(&found, colours), || stamped(&found, topology))?;
    Ok(Code::Done)
}

/// Simulates the service and returns its record.
pub(crate) fn recorded(arguments: &Arguments) -> Result<Recorded> {
    let found = served(config(arguments)?, true)?;
    Ok(Recorded { record: saved(&found), is_well: true })
}

/// Simulates the service and returns its record and its page.
pub(crate) fn drawn(arguments: &Arguments) -> Result<(Recorded, Drawing)> {
    let found = served(config(arguments)?, true)?;
    let recorded = Recorded { record: saved(&found), is_well: true };
    Ok((recorded, Box::new(move |answer| page::page_of(&found, Some(answer)))))
}

fn served(config: RunConfig, quiet: bool) -> Result<ServiceRun> {
    let progress = Progress::new(quiet);
    let name = config.model.spec.name.clone();
    let mut simulations = 0;
    let found = serve(config, &mut |what| {
        simulations += 1;
        progress.turn_to(format!("{name}, simulation {simulations}: {what}"));
    });
    progress.finish();
    found.map_err(|error| refused(&error))
}

fn config(arguments: &Arguments) -> Result<RunConfig> {
    let Arguments { choice, scheduler, steps, check_steps, goodput, .. } = arguments;
    let (HfModel { spec, notes, .. }, [dtype, weights]) = choice.read()?;
    let limits = Limits::parse(goodput.iter().map(String::as_str));
    let overhead = Span::from_ns(scheduler.step_overhead_us * 1e3);
    let overhead = overhead.ok_or_else(|| {
        anyhow!(
            "--step-overhead-us {}: expected a time in microseconds",
            scheduler.step_overhead_us
        )
    })?;
    Ok(RunConfig {
        model: ServedModel {
            spec,
            dtype,
            weights,
            kv: choice.kv_dtype,
            experts: choice.experts,
            topology: arguments.machine.read(arguments.output)?,
        },
        notes,
        source: source(&arguments.load)?,
        rates: rates(arguments)?,
        scheduler: scheduler.config(),
        kv_blocks: scheduler.kv_blocks,
        memory_share: scheduler.memory_share,
        step_overhead: overhead,
        max_concurrency: arguments.load.max_concurrency,
        limits: limits.map_err(|error| anyhow!("--goodput {error}"))?,
        is_exact: *steps == StepMode::Exact,
        check_steps: *check_steps,
    })
}

impl SchedulerOptions {
    fn config(&self) -> SchedulerConfig {
        SchedulerConfig {
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            block_size: self.block_size,
            enable_prefix_caching: !self.no_prefix_caching,
            enable_chunked_prefill: !self.no_chunked_prefill,
            policy: match self.policy {
                PolicyName::Fcfs => Policy::Fcfs,
                PolicyName::Priority => Policy::Priority,
            },
        }
    }
}

/// Returns the rates to run.
fn rates(arguments: &Arguments) -> Result<Rates> {
    let is_share = |share: &f64| *share > 0.0 && *share <= 1.0;
    match (&*arguments.rates, arguments.find_rate) {
        (_, Some(share)) if !is_share(&share) => {
            bail!("--find-rate={share}: expected a share of the requests above 0 and up to 1")
        }
        (_, Some(_)) if arguments.goodput.is_empty() => bail!(
            "--find-rate: expected limits of latencies\n  help: such as --goodput ttft:500 --goodput tpot:30"
        ),
        (_, Some(share)) => Ok(Rates::Highest(share)),
        ([], None) if arguments.load.trace.is_some() && arguments.load.rate.is_some() => {
            Ok(Rates::Each(arguments.load.rate.into_iter().collect()))
        }
        ([], None) => Ok(Rates::Own),
        (rates, None) => Ok(Rates::Each(rates.to_vec())),
    }
}

/// Reads the trace, or describes the random numbers.
fn source(options: &LoadOptions) -> Result<LoadSource> {
    let Some(file) = &options.trace else {
        let arrivals =
            Arrivals { rate: options.rate.unwrap_or(10.0), burstiness: options.burstiness };
        return Ok(LoadSource::Drawn {
            count: options.requests.unwrap_or(500),
            arrivals,
            prompt: options.prompt,
            output: options.answer,
            seed: options.seed,
        });
    };
    let (name, bytes) = input::named_bytes(file, LIMIT)?;
    let load = trace::read(&name, &bytes, options.hash_tokens)?;
    let load = match options.requests {
        Some(0) => bail!("--requests 0: expected at least 1"),
        Some(count) => load.first(usize::try_from(count).unwrap_or(usize::MAX)),
        None => load,
    };
    Ok(LoadSource::Recorded { name: trace::name_of(&name), load })
}

fn lengths(text: &str) -> Result<Lengths, String> {
    let expected = "expected a number of tokens, LOW-HIGH, or lognormal:MEAN:VARIATION";
    Lengths::parse(text).ok_or_else(|| expected.to_owned())
}

/// Returns the record of a service. The mean latency of a request is its time, and its parts are the path.
fn saved(found: &ServiceRun) -> Record {
    let config = &found.config;
    let scheduler = serde_json::to_value(config.scheduler).expect("it has text keys");
    let inputs = [
        ("model", json!(config.model.spec.name)),
        ("dtype", json!(config.model.dtype.name())),
        ("weights", json!(config.model.weights.name())),
        ("load", json!(config.source.describe())),
        ("rate", json!(found.load.rate())),
        ("scheduler", scheduler),
        ("kv_blocks", json!(found.service.blocks)),
        ("max_concurrency", json!(config.max_concurrency)),
    ];
    let inputs = inputs.map(|(name, value)| (name.to_owned(), value)).into_iter().collect();
    let topology = &config.model.topology;
    let record = Record::of_command("serve", &config.model.spec.name, topology, inputs);
    Record { figures: Some(Measured::figures(&[request(found)])), ..record }
}

/// Returns the figures of a mean request.
fn request(found: &ServiceRun) -> Measured {
    let report = &found.report;
    let names = ["queue", "prefill", "decode"].map(str::to_owned);
    let parts = found.mean_parts().map(|ms| ms * 1e6);
    let full = report.blocks.peak as f64 / report.blocks.count.max(1) as f64;
    Measured {
        name: "request".to_owned(),
        time_ns: report.e2el.mean * 1e6,
        path_ns: names.into_iter().zip(parts).collect(),
        utilisation: [("steps".to_owned(), report.busy), ("KV cache".to_owned(), full)].into(),
        bounds_ns: Vec::new(),
        limited_by: None,
    }
}

/// Adds help to an error. Ends with code 3 if simulated memory or time ran out.
fn refused(error: &ServeError) -> anyhow::Error {
    if error.is_exhausted() {
        let help = "a larger machine with --topology, or a smaller model or --weights fp8";
        return Exhausted(format!("{error}\n  help: {help}")).into();
    }
    match error {
        ServeError::Value { .. } => anyhow!("--{error}"),
        _ => anyhow!("{error}"),
    }
}
