//! Collectives beside other traffic: each PE has just asked for many bursts of one HBM channel.

use cubeyard_collectives::collective::Operation;
use cubeyard_collectives::distributed::{DistError, Group};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{Argument, Launch, Tensor};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

use super::rows;

/// Rows of a PE's tensor, and their elements of `f32`: a row takes every HBM channel once.
const ROWS: u64 = 32;
const ROW: u64 = 512;

/// Loads of each PE before the collective.
#[derive(Clone, Copy, Debug)]
pub(super) struct Beside {
    /// Number of bursts.
    pub(super) bursts: u64,
    /// HBM channel of PE 0 of cube 0; that of others differs.
    pub(super) channel: u64,
}

impl Beside {
    /// Performs an operation as [`Group::run`] does, behind these loads.
    pub(super) fn run(
        self,
        group: &Group,
        launcher: &Launcher,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
        pes: usize,
    ) -> Result<(), DistError> {
        let context = launcher.context();
        let kernel = self.kernel(&group.part(operation, tensors[0].0.dtype()));
        launcher.use_group(group.number());
        let loaded = |sip: usize| -> Result<Tensor, DistError> {
            Ok(context.zeros(&[pes as u64 * ROWS, ROW], DType::F32)?.to(&rows(sip))?)
        };
        let loaded: Vec<_> = (0..tensors.len()).map(loaded).collect::<Result<_, _>>()?;
        let mut handles = Vec::new();
        for (sip, (&(input, output), loaded)) in tensors.iter().zip(&loaded).enumerate() {
            let numbers = group.rank_numbers(sip).map(|number| Argument::from(number as f64));
            let launch = Launch::new(group.sips()[sip])
                .arguments([loaded, input, output])
                .arguments(numbers);
            handles.push(launcher.launch(&context.stream(), &kernel, &launch)?);
        }
        handles.iter().try_for_each(|handle| handle.wait().map(drop))?;
        Ok(())
    }

    fn kernel(self, collective: &Kernel) -> Kernel {
        let collective = collective.clone();
        Kernel::new(&format!("{} beside {self:?}", collective.name()), move |tl, args| {
            let collective = collective.clone();
            Box::pin(async move {
                let channel = (self.channel + 3 * tl.program_id(0) + 5 * tl.program_id(1)) % 8;
                let busy = args.tensor(0).local().block(&[0, channel * 64], &[self.bursts, 64]);
                let _tile = tl.load(&busy);
                collective.start(tl, args.skip(1)).await;
            })
        })
    }
}
