//! One row of a sweep: a single collective on a fresh machine.

use std::rc::Rc;

use cubeyard_collectives::collective::Algorithm;
use cubeyard_collectives::collective::bound::Bound;
use cubeyard_collectives::distributed::ccl::Resolved;
use cubeyard_collectives::distributed::{
    Alone, Beside, CollectiveReport, DistError, Group, GroupConfig, PeElements, RankMap,
};
use cubeyard_runtime::{Context, ContextConfig, RingConfig, SlotKind};
use cubeyard_tl::launch::Launcher;

use super::{Explained, Figures, ResultCheck, Row, SweepConfig, values};

/// Measures one size and algorithm. If simulated memory or time runs out, the row states that.
pub(super) fn row(
    config: &SweepConfig,
    resolved: Resolved,
    size: u64,
    bound: Option<&Bound>,
    explains: bool,
) -> Result<Row, DistError> {
    let map = RankMap::new(&config.topology, &resolved.config)?;
    let shape = PeElements::new(config.operation, config.dtype, &map, size);
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

/// Runs the collective on a new machine, and checks its results if they are computed.
fn measure(
    config: &SweepConfig,
    resolved: Resolved,
    map: &RankMap,
    shape: PeElements,
    explains: bool,
) -> Result<(CollectiveReport, Option<ResultCheck>, Option<Explained>), DistError> {
    let values = values::SweepValues { config, map, shape };
    let data = shape.bytes <= config.check_up_to;
    let algorithm = resolved.algorithm;
    let run = alone(&values, &resolved.config, Rc::clone(&algorithm), data)?;
    if explains {
        run.context.keep_ops();
    }
    let launcher = Launcher::new(&run.context);
    let report = run.group.run(&launcher, config.operation, &run.pairs())?;
    let explained = explains.then(|| Explained::of(&run.context, &report));
    if !data {
        return Ok((report, None, explained));
    }
    let mut checked = check(&values, &run)?;
    if config.every_memory {
        for (_, kind) in SlotKind::NAMES {
            let ring = RingConfig { kind, ..resolved.config.ring };
            let config = GroupConfig { ring, ..resolved.config.clone() };
            checked.add(check_beside(&values, &config, Rc::clone(&algorithm))?);
        }
    }
    Ok((report, Some(checked), explained))
}

/// Concurrent traffic during repeated checks of results.
const BESIDE: Beside = Beside { bursts: 32, channel: 1 };

/// Checks the results of the collective with concurrent traffic; `None` if the machine has no room for its slots.
fn check_beside(
    values: &values::SweepValues<'_>,
    config: &GroupConfig,
    algorithm: Rc<dyn Algorithm>,
) -> Result<Option<ResultCheck>, DistError> {
    let checked = alone(values, config, algorithm, true).and_then(|run| {
        let launcher = Launcher::new(&run.context);
        BESIDE.run(&run.group, &launcher, values.config.operation, &run.pairs())?;
        check(values, &run)
    });
    match checked {
        Ok(check) => Ok(Some(check)),
        Err(DistError::Runtime(error)) if error.is_exhausted() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Sets up a row on a new machine.
fn alone(
    values: &values::SweepValues<'_>,
    group: &GroupConfig,
    algorithm: Rc<dyn Algorithm>,
    data: bool,
) -> Result<Alone, DistError> {
    let topology = values.config.topology.clone();
    let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
    let group = Group::new(&context, group, Box::new(algorithm), 0)?;
    Alone::new(context, group, values.config.dtype, values.shape, |context, sip| {
        data.then(|| values.input(context, sip)).transpose()
    })
}

fn check(values: &values::SweepValues<'_>, alone: &Alone) -> Result<ResultCheck, DistError> {
    let outputs: Vec<_> = alone.tensors.iter().map(|(_, output)| output).collect();
    values.check(&outputs)
}
