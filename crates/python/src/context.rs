//! Context as seen by Python: a machine with its tensors and launches.

use std::rc::Rc;

use cubeyard_memory::address::SipId;
use cubeyard_memory::virtual_space::DeviceVa;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::{self as runtime, Addressing, ContextConfig, PeUsage};
use cubeyard_tl::launch::Launcher;
use pyo3::prelude::*;

use crate::bytes::{self, dtype};
use crate::error::{IntoPyErr, OrRaise};
use crate::session::{Session, Shared};
use crate::tensor::Tensor;
use crate::topology::Topology;

/// A machine with its memory, launcher and tensors.
#[pyclass(frozen, module = "cubeyard._native")]
pub(crate) struct Context {
    pub(crate) shared: Shared,
}

/// Number of tensors, used bytes, used virtual bytes, usage of each PE, counters of the MMUs.
type Stats = (usize, u64, u64, Vec<(String, u64, u64, u64)>, [u64; 4]);

#[pymethods]
impl Context {
    #[new]
    fn new(
        py: Python<'_>,
        topology: &Topology,
        data: bool,
        physical: bool,
        virtual_base: Option<u64>,
    ) -> Self {
        let mut config =
            ContextConfig { topology: topology.topology.clone(), data, ..Default::default() };
        if physical {
            config.addressing = Addressing::Physical;
        }
        if let Some(base) = virtual_base {
            config.virtual_base = DeviceVa::new(base);
        }
        let shared = py.detach(|| {
            let context = runtime::Context::new(config);
            let launcher = Rc::new(Launcher::new(&context));
            Shared::of(context, launcher, None)
        });
        Self { shared }
    }

    /// Makes the memory of a PyTorch device the HBM of the SIP with the same number.
    #[cfg(target_os = "linux")]
    fn share_torch(&self, py: Python<'_>, device: u32) -> PyResult<()> {
        let memory = crate::torch::memory_of(device)?;
        let sip = SipId::new(device).or_raise()?;
        self.shared.with(py, move |session| session.context.share(sip, memory).or_raise())
    }

    /// Returns the simulated time in picoseconds.
    fn now_ps(&self, py: Python<'_>) -> PyResult<u64> {
        self.shared.with(py, |session| Ok(session.context.now().ps()))
    }

    /// Runs the machine until all launches are done.
    fn synchronize(&self, py: Python<'_>) -> PyResult<()> {
        self.shared.run(py, |session| session.context.synchronize().or_raise())
    }

    /// Frees the memory of all tensors; returns descriptions of live tensors and regions, and errors of releases.
    fn close(&self, py: Python<'_>) -> PyResult<(Vec<String>, Vec<String>, Vec<String>)> {
        self.shared.run(py, |session| {
            let left = session.context.clone().close();
            Ok((left.tensors, left.regions, left.release_errors))
        })
    }

    /// Returns the bytes that programs have moved: those in the slices of their own PEs, and all.
    fn moved(&self, py: Python<'_>) -> PyResult<[u64; 2]> {
        self.shared.with(py, |session| Ok(session.context.moved()))
    }

    fn memory_stats(&self, py: Python<'_>) -> PyResult<Stats> {
        self.shared.with(py, |session| {
            let stats = session.context.memory_stats();
            let mmu = stats.mmu;
            let counts = [mmu.translations, mmu.faults, mmu.tlb_hits, mmu.tlb_misses];
            let pes = stats.pes.iter().map(usage).collect();
            Ok((stats.tensors, stats.used.get(), stats.virtual_used.get(), pes, counts))
        })
    }

    /// Returns whether nothing is allocated, mapped or connected.
    fn is_pristine(&self, py: Python<'_>) -> PyResult<bool> {
        self.shared.with(py, |session| Ok(session.context.is_pristine()))
    }

    /// Returns the number of objects that Python holds.
    fn objects(&self, py: Python<'_>) -> PyResult<usize> {
        self.shared.with(py, |session| Ok(session.objects()))
    }

    /// Returns the findings of kernels: kernel, PE, place and description of each.
    fn findings(&self, py: Python<'_>) -> PyResult<Vec<(String, String, String, String)>> {
        self.shared.with(py, |session| {
            let all = session.launcher.findings().into_iter();
            Ok(all.map(|of| (of.kernel, of.pe.to_string(), of.place, of.what)).collect())
        })
    }

    fn empty(&self, py: Python<'_>, shape: Vec<u64>, dtype_name: &str) -> PyResult<Tensor> {
        self.make(py, dtype_name, |session, dtype| session.context.empty(&shape, dtype))
    }

    fn full(
        &self,
        py: Python<'_>,
        shape: Vec<u64>,
        dtype_name: &str,
        value: f64,
    ) -> PyResult<Tensor> {
        self.make(py, dtype_name, |session, dtype| session.context.full(&shape, dtype, value))
    }

    fn arange(
        &self,
        py: Python<'_>,
        start: f64,
        step: f64,
        count: u64,
        dtype_name: &str,
    ) -> PyResult<Tensor> {
        self.make(py, dtype_name, |session, dtype| {
            session.context.arange(start, step, count, dtype)
        })
    }

    fn rand(
        &self,
        py: Python<'_>,
        shape: Vec<u64>,
        dtype_name: &str,
        seed: u64,
    ) -> PyResult<Tensor> {
        self.make(py, dtype_name, |session, dtype| session.context.rand(&shape, dtype, seed))
    }

    /// Makes a tensor of a copy of contiguous little-endian bytes.
    fn of_buffer(
        &self,
        py: Python<'_>,
        shape: Vec<u64>,
        dtype_name: &str,
        buffer: &Bound<'_, PyAny>,
    ) -> PyResult<Tensor> {
        let bytes = bytes::copy_in(py, buffer)?;
        self.make(py, dtype_name, |session, dtype| session.context.from_bytes(&shape, dtype, bytes))
    }
}

impl Context {
    fn make<E: IntoPyErr>(
        &self,
        py: Python<'_>,
        dtype_name: &str,
        make: impl FnOnce(&Session, DType) -> Result<runtime::Tensor, E>,
    ) -> PyResult<Tensor> {
        let dtype = dtype(dtype_name)?;
        self.shared.with(py, |session| {
            let tensor = make(session, dtype).or_raise()?;
            Ok(Tensor::keep(session, &self.shared, tensor))
        })
    }
}

fn usage(of: &PeUsage) -> (String, u64, u64, u64) {
    (of.pe.to_string(), of.used.get(), of.free.get(), of.largest.get())
}

pub(crate) fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<Context>()
}
