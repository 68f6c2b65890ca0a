//! One row of a sweep: a single collective on a fresh machine.

use cubeyard_memory::address::SipId;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, Tensor};

use super::shape::PeElements;
use super::{Explained, Figures, Row, SweepConfig, values};
use crate::collective::bound::Bound;
use crate::distributed::ccl::Resolved;
use crate::distributed::error::DistError;
use crate::distributed::group::{CollectiveReport, Group};
use crate::distributed::rank_map::RankMap;
use cubeyard_tl::launch::Launcher;

/// Measures one size and algorithm. If simulated memory or time runs out, the row says so.
pub(super) fn row(
    config: &SweepConfig,
    resolved: Resolved,
    size: u64,
    bound: Option<&Bound>,
    explains: bool,
) -> Result<Row, DistError> {
    let map = RankMap::new(&config.topology, &resolved.config)?;
    let shape = PeElements::new(config, &map, size);
    let ranks = map.world().ranks;
    let (algorithm, estimate) = (resolved.name.clone(), resolved.estimate);
    let mut explained = None;
    let figures = match measure(config, resolved, &map, shape, explains) {
        Ok((report, wrong, why)) => {
            explained = why;
            let rate = shape.bytes as f64 / (report.kernel.ps().max(1) as f64 / 1e12);
            let bus = rate * config.operation.bus_factor(ranks);
            let of_bound = bound.map(|bound| bus / bound.bus);
            Ok(Figures {
                time: report.kernel,
                host: report.host,
                algorithm_bandwidth: rate,
                bus_bandwidth: bus,
                share: of_bound,
                estimate,
                wrong,
            })
        }
        Err(DistError::Runtime(error)) if error.is_exhausted() => Err(error.to_string()),
        Err(error) => return Err(error),
    };
    let count = shape.bytes / config.dtype.size();
    Ok(Row { bytes: shape.bytes, count, algorithm, figures, explained })
}

/// Runs the collective on a machine of its own.
fn measure(
    config: &SweepConfig,
    resolved: Resolved,
    map: &RankMap,
    shape: PeElements,
    explains: bool,
) -> Result<(CollectiveReport, Option<u64>, Option<Explained>), DistError> {
    let (topology, data) = (config.topology.clone(), shape.bytes <= config.check_up_to);
    let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
    let group = Group::new(&context, &resolved.config, resolved.algorithm, 0)?;
    let values = values::SweepValues { config, map, shape };
    let mut tensors = Vec::new();
    for (index, &sip) in map.sips.iter().enumerate() {
        let input = if data {
            values.input(&context, index)?
        } else {
            empty(config, &context, map, shape.input)?
        };
        let output = empty(config, &context, map, shape.output)?;
        tensors.push((input.to(&placement(sip))?, output.to(&placement(sip))?));
    }
    let pairs: Vec<(&Tensor, &Tensor)> =
        tensors.iter().map(|(input, output)| (input, output)).collect();
    if explains {
        context.keep_ops();
    }
    let launcher = Launcher::new(&context);
    let report = group.run(&launcher, config.operation, &pairs)?;
    let explained = explains.then(|| Explained::of(&context, &report));
    if !data {
        return Ok((report, None, explained));
    }
    let outputs: Vec<_> = tensors.iter().map(|(_, output)| output).collect();
    Ok((report, Some(values.wrong(&outputs)?), explained))
}

fn empty(
    config: &SweepConfig,
    context: &Context,
    map: &RankMap,
    elements: u64,
) -> Result<Tensor, DistError> {
    let rows = (map.cubes.len() * map.pes.len()) as u64;
    Ok(context.zeros(&[rows, elements], config.dtype)?)
}

/// Returns a placement with one row for each PE of a SIP.
fn placement(sip: SipId) -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, sips: vec![sip], ..Placement::default() }
}
