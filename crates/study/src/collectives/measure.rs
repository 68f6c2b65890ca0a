//! One row of a sweep: a single collective on a fresh machine.

use std::rc::Rc;

use cubeyard_collectives::collective::Algorithm;
use cubeyard_collectives::collective::bound::Bound;
use cubeyard_collectives::distributed::ccl::Resolved;
use cubeyard_collectives::distributed::{
    Beside, CollectiveReport, DistError, Group, GroupConfig, RankMap,
};
use cubeyard_memory::address::SipId;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, RingConfig, SlotKind, Tensor};
use cubeyard_tl::launch::Launcher;

use super::shape::PeElements;
use super::{Explained, Figures, ResultCheck, Row, SweepConfig, values};

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
        Ok((report, check, why)) => {
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
                check,
            })
        }
        Err(DistError::Runtime(error)) if error.is_exhausted() => Err(error.to_string()),
        Err(error) => return Err(error),
    };
    let count = shape.bytes / config.dtype.size();
    Ok(Row { bytes: shape.bytes, count, algorithm, figures, explained })
}

/// Runs the collective on a machine of its own, and checks its results if they are computed.
fn measure(
    config: &SweepConfig,
    resolved: Resolved,
    map: &RankMap,
    shape: PeElements,
    explains: bool,
) -> Result<(CollectiveReport, Option<ResultCheck>, Option<Explained>), DistError> {
    let values = values::SweepValues { config, map, shape };
    let data = shape.bytes <= config.check_up_to;
    let algorithm: Rc<dyn Algorithm> = resolved.algorithm.into();
    let run = SweepRun::new(&values, &resolved.config, Rc::clone(&algorithm), data)?;
    if explains {
        run.context.keep_ops();
    }
    let launcher = Launcher::new(&run.context);
    let report = run.group.run(&launcher, config.operation, &run.pairs())?;
    let explained = explains.then(|| Explained::of(&run.context, &report));
    if !data {
        return Ok((report, None, explained));
    }
    let mut check = run.check(&values)?;
    if config.every_memory {
        for (_, kind) in SlotKind::NAMES {
            let ring = RingConfig { kind, ..resolved.config.ring };
            let config = GroupConfig { ring, ..resolved.config.clone() };
            check.add(check_beside(&values, &config, Rc::clone(&algorithm))?);
        }
    }
    Ok((report, Some(check), explained))
}

/// Traffic beside which results are checked.
const BESIDE: Beside = Beside { bursts: 32, channel: 1 };

/// Checks the results of the collective beside other traffic; none if the machine has no room for its slots.
fn check_beside(
    values: &values::SweepValues<'_>,
    config: &GroupConfig,
    algorithm: Rc<dyn Algorithm>,
) -> Result<Option<ResultCheck>, DistError> {
    let checked = SweepRun::new(values, config, algorithm, true).and_then(|run| {
        let launcher = Launcher::new(&run.context);
        BESIDE.run(&run.group, &launcher, values.config.operation, &run.pairs())?;
        run.check(values)
    });
    match checked {
        Ok(check) => Ok(Some(check)),
        Err(DistError::Runtime(error)) if error.is_exhausted() => Ok(None),
        Err(error) => Err(error),
    }
}

/// A machine of its own with the group and the tensors of a row.
struct SweepRun {
    tensors: Vec<(Tensor, Tensor)>,
    group: Group,
    context: Context,
}

impl SweepRun {
    fn new(
        values: &values::SweepValues<'_>,
        group: &GroupConfig,
        algorithm: Rc<dyn Algorithm>,
        data: bool,
    ) -> Result<Self, DistError> {
        let values::SweepValues { config, map, shape } = values;
        let topology = config.topology.clone();
        let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
        let group = Group::new(&context, group, Box::new(algorithm), 0)?;
        let mut tensors = Vec::new();
        for (index, &sip) in map.sips().iter().enumerate() {
            let input = if data {
                values.input(&context, index)?
            } else {
                empty(config, &context, map, shape.input)?
            };
            let output = empty(config, &context, map, shape.output)?;
            tensors.push((input.to(&placement(sip))?, output.to(&placement(sip))?));
        }
        Ok(Self { tensors, group, context })
    }

    fn pairs(&self) -> Vec<(&Tensor, &Tensor)> {
        self.tensors.iter().map(|(input, output)| (input, output)).collect()
    }

    fn check(&self, values: &values::SweepValues<'_>) -> Result<ResultCheck, DistError> {
        let outputs: Vec<_> = self.tensors.iter().map(|(_, output)| output).collect();
        values.check(&outputs)
    }
}

fn empty(
    config: &SweepConfig,
    context: &Context,
    map: &RankMap,
    elements: u64,
) -> Result<Tensor, DistError> {
    let rows = map.pes_per_sip() as u64;
    Ok(context.zeros(&[rows, elements], config.dtype)?)
}

/// Returns a placement with one row for each PE of a SIP.
fn placement(sip: SipId) -> Placement {
    Placement { cube: Split::RowWise, pe: Split::RowWise, sips: vec![sip], ..Placement::default() }
}
