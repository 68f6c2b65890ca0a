//! Background traffic during a collective, for checks of its numbers.

use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Argument, Launch, Tensor};

use super::error::DistError;
use super::group::Group;
use crate::collective::Operation;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::Launcher;

/// Background loads of each PE before a collective: consecutive bursts of one HBM channel. Messages into slots on this
/// channel wait for the loads; messages into other slots do not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Beside {
    /// Number of bursts of each PE, limited to a quarter of the TCM for tiles.
    pub bursts: u64,
    /// HBM channel of the first PE, modulo the number of channels; other PEs use other channels.
    pub channel: u64,
}

/// Number of channels of a PE's HBM, of `f32` elements in a burst, and of loaded bursts.
#[derive(Clone, Copy, Debug)]
struct Geometry {
    channels: u64,
    burst: u64,
    bursts: u64,
}

impl Beside {
    /// Performs an operation as [`Group::run`] does, on groups of whole SIPs, after starting these loads. The
    /// duration of the launch includes the loads.
    pub fn run(
        self,
        group: &Group,
        launcher: &Launcher,
        operation: Operation,
        tensors: &[(&Tensor, &Tensor)],
    ) -> Result<(), DistError> {
        group.check(launcher.context(), operation, tensors)?;
        let geometry = self.geometry(launcher);
        let kernel = self.kernel(&group.part(operation, tensors[0].0.dtype()), geometry);
        let loaded = group.sips().iter().map(|&sip| loaded(launcher, group, sip, geometry));
        let loaded = loaded.collect::<Result<Vec<_>, _>>()?;
        launcher.use_group(group.number());
        let mut handles = Vec::new();
        for (sip, (&(input, output), loaded)) in tensors.iter().zip(&loaded).enumerate() {
            let numbers = group.rank_numbers(sip).map(|number| Argument::from(number as u64));
            let launch = Launch::new(group.sips()[sip]).arguments([loaded, input, output]);
            let stream = launcher.context().stream();
            handles.push(launcher.launch(&stream, &kernel, &launch.arguments(numbers))?);
        }
        handles.iter().try_for_each(|handle| handle.wait().map(drop))?;
        Ok(())
    }

    fn geometry(self, launcher: &Launcher) -> Geometry {
        launcher.context().machine(|machine| {
            let spec = machine.topology().spec();
            let burst = spec.hbm.burst.get();
            let most = (spec.pe.core.scratch.get() / 4 / burst).max(1);
            let (channels, bursts) = (u64::from(spec.hbm.channels), self.bursts.clamp(1, most));
            Geometry { channels, burst: (burst / DType::F32.size()).max(1), bursts }
        })
    }

    fn kernel(self, collective: &Kernel, geometry: Geometry) -> Kernel {
        let collective = collective.clone();
        let Geometry { channels, burst, bursts } = geometry;
        Kernel::new(&format!("{} beside {self:?}", collective.name()), move |tl, args| {
            let collective = collective.clone();
            Box::pin(async move {
                let channel = self.channel + 3 * tl.program_id(0) + 5 * tl.program_id(1);
                let first = channel % channels * burst;
                let _tile = tl.load(&args.tensor(0).local().block(&[0, first], &[bursts, burst]));
                collective.start(tl, args.skip(1)).await;
            })
        })
    }
}

/// Returns a tensor whose rows on each PE of a SIP take every HBM channel once.
fn loaded(
    launcher: &Launcher,
    group: &Group,
    sip: SipId,
    Geometry { channels, burst, bursts }: Geometry,
) -> Result<Tensor, DistError> {
    let map = group.rank_map();
    let pes = (map.cubes.len() * map.pes.len()) as u64;
    let rows = Split::RowWise;
    let placement = Placement { cube: rows, pe: rows, sips: vec![sip], ..Placement::default() };
    let tensor = launcher.context().zeros(&[pes * bursts, channels * burst], DType::F32)?;
    Ok(tensor.to(&placement)?)
}
