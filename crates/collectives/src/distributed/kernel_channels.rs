//! Channels between PEs for a custom kernel.

use cubeyard_device::request::PeRef;
use cubeyard_runtime::{Channel, ChannelEnd, Channels, RingConfig};
use cubeyard_sim::Span;

use super::error::DistError;
use crate::collective::Wire;
use cubeyard_tl::launch::Launcher;

/// Channels between PEs for a custom kernel. Kernels launched after [`use_on`](Self::use_on) see the ends as ports.
/// Dropping the value removes the channels.
///
/// ```
/// use cubeyard_collectives::collective::Wire;
/// use cubeyard_collectives::distributed::KernelChannels;
/// use cubeyard_tl::kernel::Kernel;
/// use cubeyard_tl::launch::Launcher;
/// use cubeyard_tl::Port;
/// use cubeyard_memory::address::SipId;
/// use cubeyard_runtime::placement::{Placement, Split};
/// use cubeyard_runtime::{Context, ContextConfig, Launch, RingConfig};
///
/// let context = Context::new(ContextConfig { data: true, ..ContextConfig::default() });
/// let two = Placement { pe: Split::RowWise, cubes: Some(1), pes: Some(2), ..Placement::default() };
/// let x = context.from_slice(&[2, 4], &[1_f32, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 2.0])?.to(&two)?;
///
/// // Two PEs swap their rows.
/// let swap = Kernel::new("swap", |tl, args| {
///     Box::pin(async move {
///         let (x, port) = (args.tensor(0).local(), Port(0));
///         tl.send(port, &tl.load(&x));
///         tl.store(&x, &tl.recv_async(port, &[1, 4], x.ty().dtype));
///     })
/// });
/// let launcher = Launcher::new(&context);
/// let pes: Vec<_> = x.shards()?.iter().map(|shard| shard.at).collect();
/// let wire = Wire { ends: [(0, Port(0)), (1, Port(0))] };
/// let channels = KernelChannels::new(&launcher, &pes, &[wire], &RingConfig::default())?;
/// channels.use_on(&launcher);
/// let launch = Launch::new(SipId::new(0)?).arguments([&x]);
/// let launch = launch.cubes(vec![pes[0].cube]).pes(vec![pes[0].pe, pes[1].pe]);
/// launcher.run(&swap, &launch)?;
/// assert_eq!(x.read::<f32>()?, [2.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 1.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct KernelChannels {
    number: u16,
    channels: Channels,
}

impl KernelChannels {
    /// Wires PEs through the fabric: all or none. The ends of wires are indices in `pes`.
    pub fn new(
        launcher: &Launcher,
        pes: &[PeRef],
        wires: &[Wire],
        ring: &RingConfig,
    ) -> Result<Self, DistError> {
        let number = launcher.new_group().ok_or(DistError::Exhausted)?;
        let channel = |wire: &Wire| -> Result<Channel, DistError> {
            let [a, b] = wire.ends.map(|(rank, port)| {
                let (pe, world) = (pes.get(rank).copied(), pes.len());
                let port = port.of_group(number);
                pe.map(|pe| ChannelEnd { pe, port }).ok_or(DistError::Rank { rank, world })
            });
            Ok(Channel { ends: [a?, b?] })
        };
        let channels = wires.iter().map(channel).collect::<Result<Vec<_>, _>>()?;
        let channels = launcher.context().connect(&channels, ring)?;
        Ok(Self { number, channels })
    }

    /// Lets later kernels of a launcher use these channels.
    pub fn use_on(&self, launcher: &Launcher) {
        launcher.use_group(self.number);
    }

    /// Returns the duration of the installation, and the size of the rings in bytes.
    pub fn installation(&self) -> (Span, u64) {
        (self.channels.latency(), self.channels.bytes().get())
    }
}
