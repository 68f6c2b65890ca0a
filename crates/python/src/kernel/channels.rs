//! Channels between PEs, through which kernels send tiles.

use cubeyard_collectives::collective::Wire;
use cubeyard_collectives::distributed::KernelChannels;
use cubeyard_memory::Bytes;
use cubeyard_runtime::{RingConfig, RuntimeError, SlotKind};
use cubeyard_tl::Port;
use pyo3::prelude::*;

use crate::context::Context;
use crate::error::{Kind, OrRaise};
use crate::session::Owned;

/// Installed channels. Dropping them removes them from their PEs.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Channels {
    owned: Owned<KernelChannels>,
    /// Duration of the installation in picoseconds.
    #[pyo3(get)]
    latency_ps: u64,
    /// Bytes of memory of all rings.
    #[pyo3(get)]
    nbytes: u64,
}

#[pymethods]
impl Channels {
    /// Lets later launches use these channels.
    fn select(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.shared.with(py, |session| {
            session.get(&self.owned)?.use_on(&session.launcher);
            Ok(())
        })
    }

    /// Lets later launches use no channels.
    fn deselect(&self, py: Python<'_>) -> PyResult<()> {
        self.owned.shared.with(py, |session| {
            session.launcher.use_group(0);
            Ok(())
        })
    }
}

/// PE and port at each end of a channel; PEs are indices into a list.
type Ends = ((usize, u16), (usize, u16));

/// Wires PEs to each other, in rings of `slots` messages of at most `slot_bytes` in a memory; all or none.
#[pyfunction]
pub(super) fn connect(
    py: Python<'_>,
    context: &Bound<'_, Context>,
    pes: Vec<String>,
    wires: Vec<Ends>,
    ring: (String, u32, u64),
) -> PyResult<Channels> {
    let (memory, slots, slot_bytes) = ring;
    let kind = SlotKind::NAMES.iter().find(|(name, _)| *name == memory);
    let &(_, kind) = kind.ok_or_else(|| {
        let what = format!("memory: expected one of tcm, sram, hbm; found `{memory}`");
        Kind::Input.error(what)
    })?;
    let ring =
        RingConfig { kind, slots, slot_bytes: Bytes::new(slot_bytes), ..RingConfig::default() };
    let wire = |(a, b): Ends| Wire { ends: [(a.0, Port(a.1)), (b.0, Port(b.1))] };
    let wires: Vec<_> = wires.into_iter().map(wire).collect();
    let shared = &context.get().shared;
    shared.run(py, |session| {
        let pe = |name: &String| session.context.machine(|machine| machine.view().pe(name));
        let pes: Result<Vec<_>, _> = pes.iter().map(pe).collect();
        let pes = pes.map_err(RuntimeError::from).or_raise()?;
        let channels = KernelChannels::new(&session.launcher, &pes, &wires, &ring);
        let channels = channels.map_err(|error| Kind::Input.error(error.to_string()))?;
        let (latency, nbytes) = channels.installation();
        let owned = session.keep(shared, channels);
        Ok(Channels { owned, latency_ps: latency.ps(), nbytes })
    })
}
