//! Gradient step of data-parallel training: every rank (SIP) has gradients, and receives their mean.

use std::cell::RefCell;

use cubeyard_device::topology::Topology;
use cubeyard_runtime::Tensor;
use cubeyard_runtime::dtype::DType;

use super::inputs::{at_least, place, spread};
use super::links::links;
use super::reference::{size, worse};
use super::{Bench, BenchError, Lab, Needs, Outcome, Parameter, Values, Work};
use crate::report::Check;
use cubeyard_collectives::collective::bound::Spread;
use cubeyard_collectives::collective::{Operation, ReduceOp};
use cubeyard_collectives::distributed::{CclConfig, DistError, RankMap, Worker};
use cubeyard_tl::numeric::rounding;

pub(super) struct Ddp;

/// Parameters and inputs of a run.
struct DdpProblem<'l> {
    lab: &'l Lab,
    elements: u64,
    dtype: DType,
    /// Gradients of each rank; empty without data.
    gradients: Vec<Vec<f64>>,
}

impl Bench for Ddp {
    fn name(&self) -> &'static str {
        "ddp"
    }

    fn summary(&self) -> &'static str {
        "gradients of every SIP become their mean, written as a worker of torch.distributed"
    }

    fn parameters(&self) -> Vec<Parameter> {
        let types = &[DType::F32, DType::F16, DType::Bf16];
        vec![
            Parameter::whole("elements", 1 << 21, (1, 1 << 28), "gradients per rank"),
            Parameter::dtype("dtype", types, "element type"),
        ]
    }

    fn spans_sips(&self) -> bool {
        true
    }

    fn needs(&self, values: &Values, _: &Topology, sips: u64) -> Needs {
        // Messages fill the slots of the rings; they are long, so there are few of them.
        Needs::elements([sips, values.whole("elements")])
    }

    fn run(&self, lab: &Lab, values: &Values) -> Result<Outcome, BenchError> {
        let problem = DdpProblem::new(lab, values)?;
        let mut ccl = CclConfig::embedded();
        ccl.each(|config| config.sips.clone_from(&lab.sips));
        let means = RefCell::new(Vec::new());
        let dist = lab.distributed();
        dist.init_with("ahbm", &ccl)?;
        dist.spawn(|worker| problem.step(worker, &means))?;
        lab.settle()?;
        let map = lab.context.machine(|machine| RankMap::new(machine.topology(), &ccl.defaults))?;
        let check = problem.check(&means.take())?;
        Ok(Outcome { work: problem.work(&map), check, ..Outcome::default() })
    }
}

impl<'l> DdpProblem<'l> {
    fn new(lab: &'l Lab, values: &Values) -> Result<Self, BenchError> {
        let (elements, dtype) = (values.whole("elements"), values.dtype("dtype"));
        let (cubes, pes) = lab.counts();
        at_least("elements", elements, cubes * pes, "one for each PE of a SIP")?;
        let of_rank = |rank| spread(lab, elements, dtype, 1 + rank as u64, [-1.0, 1.0]);
        let gradients = (0..lab.sips.len()).map(of_rank).collect::<Result<_, _>>()?;
        Ok(Self { lab, elements, dtype, gradients })
    }

    /// Runs one rank, and adds its tensor to `means` once the tensor holds the mean.
    async fn step(&self, worker: Worker, means: &RefCell<Vec<Tensor>>) -> Result<(), DistError> {
        worker.set_device(worker.rank())?;
        let mine = &self.gradients[worker.rank()];
        let on_device = worker.placement();
        let gradient = place(self.lab, &[self.elements], self.dtype, &on_device, mine)?;
        worker.all_reduce(&gradient, ReduceOp::Avg).await?;
        means.borrow_mut().push(gradient);
        worker.barrier().await
    }

    /// Checks the means. A sum of n numbers up to 1 is rounded n times, then divided by n.
    fn check(&self, means: &[Tensor]) -> Result<Option<Check>, BenchError> {
        let tolerance = self.gradients.len() as f64 * rounding(self.dtype);
        let mut check = None;
        for mean in means {
            check = worse(check, self.lab.check(mean, tolerance, || self.expected())?);
        }
        Ok(check)
    }

    fn expected(&self) -> Vec<f64> {
        let mut sums = vec![0.0; size(self.elements)];
        for gradient in &self.gradients {
            sums.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
        }
        sums.iter().map(|sum| sum / self.gradients.len() as f64).collect()
    }

    /// Returns the work: each element is read and written once on each rank, and added once per other rank. The vector
    /// unit fetches the element of every rank, and stores their mean at least once.
    fn work(&self, map: &RankMap) -> Work {
        let (ranks, bytes) = (self.gradients.len() as u64, self.elements * self.dtype.size());
        let operation = Operation::AllReduce(ReduceOp::Avg);
        let (cubes, pes) = self.lab.counts();
        let even = self.elements.is_multiple_of(cubes * pes);
        let spread = if even { Spread::Even } else { Spread::Any };
        Work {
            elements: self.elements * (ranks - 1),
            tcm: if ranks > 1 { [ranks * bytes, bytes] } else { [0; 2] },
            bytes: 2 * ranks * bytes,
            links: links(self.lab, map, operation, bytes, spread),
            ..Work::default()
        }
    }
}
