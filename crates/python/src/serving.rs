//! Services of language models.

use cubeyard_cli::results;
use cubeyard_model::HfModel;
use cubeyard_serve::run::{Arrivals, LoadSource, Rates, RunConfig, ServiceRun, run};
use cubeyard_serve::{Lengths, Limits, Policy, SchedulerConfig, ServeError, ServedModel, trace};
use cubeyard_sim::Span;
use pyo3::prelude::*;

use crate::error::{IntoPyErr, Kind, OrRaise, without_panic};
use crate::study::{Given, cache_type, expert_placement, model, named, weight_type};
use crate::topology::Topology;
use crate::{plain, signals};

/// Parameters of a service, as given by Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
#[expect(clippy::struct_excessive_bools, reason = "each is an argument of its own")]
struct ServiceArguments {
    model: String,
    file: Given,
    hf: Given,
    dtype: Option<String>,
    weights: Option<String>,
    kv_dtype: Option<String>,
    experts: String,
    trace: Option<(String, Vec<u8>)>,
    hash_tokens: u64,
    rate: Option<f64>,
    requests: Option<u64>,
    burstiness: f64,
    prompt: String,
    answer: String,
    seed: u64,
    rates: Vec<f64>,
    find_rate: Option<f64>,
    limits: Vec<String>,
    max_num_seqs: u64,
    max_num_batched_tokens: u64,
    block_size: u64,
    prefix_caching: bool,
    chunked_prefill: bool,
    priority: bool,
    kv_blocks: Option<u64>,
    memory_share: f64,
    step_overhead_us: f64,
    max_concurrency: Option<u64>,
    exact: bool,
    check_steps: usize,
}

impl ServiceArguments {
    fn config(&self, topology: &Topology) -> PyResult<RunConfig> {
        let given = self.dtype.as_deref().map(|name| named("dtype", name)).transpose()?;
        let weights = self.weights.as_deref().map(weight_type).transpose()?;
        let model = model(&self.model, self.file.clone(), self.hf.clone())?;
        let (HfModel { spec, notes, .. }, [dtype, weights]) = model.with_types(given, weights);
        let limits = Limits::parse(self.limits.iter().map(String::as_str));
        let overhead = Span::from_ns(self.step_overhead_us * 1e3).ok_or_else(|| {
            let value = self.step_overhead_us;
            Kind::Input.error(format!("step_overhead_us={value}: expected a time in microseconds"))
        })?;
        let served = ServedModel {
            spec,
            dtype,
            weights,
            kv: self.kv_dtype.as_deref().map(cache_type).transpose()?,
            experts: expert_placement(&self.experts)?,
            topology: topology.topology.clone(),
        };
        Ok(RunConfig {
            notes,
            rates: self.rates(),
            scheduler: self.scheduler(),
            kv_blocks: self.kv_blocks,
            memory_share: self.memory_share,
            step_overhead: overhead,
            max_concurrency: self.max_concurrency,
            limits: limits.map_err(|error| Kind::Input.error(format!("limits: {error}")))?,
            is_exact: self.exact,
            check_steps: self.check_steps,
            ..RunConfig::new(served, self.source()?)
        })
    }

    fn scheduler(&self) -> SchedulerConfig {
        SchedulerConfig {
            max_num_seqs: self.max_num_seqs,
            max_num_batched_tokens: self.max_num_batched_tokens,
            block_size: self.block_size,
            enable_prefix_caching: self.prefix_caching,
            enable_chunked_prefill: self.chunked_prefill,
            policy: if self.priority { Policy::Priority } else { Policy::Fcfs },
        }
    }

    fn rates(&self) -> Rates {
        match (self.find_rate, self.rate, &self.trace) {
            (Some(share), ..) => Rates::Highest(share),
            (None, Some(rate), Some(_)) => Rates::Each(vec![rate]),
            _ if self.rates.is_empty() => Rates::Own,
            _ => Rates::Each(self.rates.clone()),
        }
    }

    fn source(&self) -> PyResult<LoadSource> {
        let Some((name, bytes)) = &self.trace else {
            let arrivals =
                Arrivals { rate: self.rate.unwrap_or(10.0), burstiness: self.burstiness };
            return Ok(LoadSource::Drawn {
                count: self.requests.unwrap_or(500),
                arrivals,
                prompt: lengths("prompt", &self.prompt)?,
                output: lengths("answer", &self.answer)?,
                seed: self.seed,
            });
        };
        let load = trace::read(name, bytes, self.hash_tokens).or_raise()?;
        let count =
            self.requests.map_or(usize::MAX, |count| count.try_into().unwrap_or(usize::MAX));
        Ok(LoadSource::Recorded { name: trace::name_of(name), load: load.first(count) })
    }
}

fn lengths(argument: &str, text: &str) -> PyResult<Lengths> {
    let expected = "expected a number of tokens, 'LOW-HIGH', or 'lognormal:MEAN:VARIATION'";
    let error = || Kind::Input.error(format!("{argument}={text:?}: {expected}"));
    Lengths::parse(text).ok_or_else(error)
}

/// Simulates a service. Returns the report, the tables and the page of `cubeyard serve`.
#[pyfunction]
fn serve_model<'py>(
    py: Python<'py>,
    topology: &Topology,
    arguments: ServiceArguments,
) -> PyResult<(Bound<'py, PyAny>, String, String)> {
    let config = arguments.config(topology)?;
    let served = || -> PyResult<ServiceRun> { run(config, &mut |_| ()).or_raise() };
    let found = signals::long(py, || without_panic(served))?;
    Ok((plain::report(py, &found)?, results::service_text(&found), results::service_page(&found)))
}

impl IntoPyErr for ServeError {
    fn into_py_err(self) -> PyErr {
        let text = self.to_string();
        match self {
            Self::Model(error) => error.into_py_err(),
            Self::NoRoom { left, block, .. } => {
                Kind::OutOfMemory.with(text, &[("requested", block), ("free", left)])
            }
            _ => Kind::Input.error(text),
        }
    }
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(serve_model, module)?)
}
