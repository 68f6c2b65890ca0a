//! A small machine on which a kernel runs, recorded and live.

use cubeyard_collectives::collective::Wire;
use cubeyard_collectives::distributed::KernelChannels;
use cubeyard_device::topology::Topology;
use cubeyard_memory::Bytes;
use cubeyard_memory::address::SipId;
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::{Placement, Split};
use cubeyard_runtime::{Context, ContextConfig, Launch, RingConfig, Tensor, random_bits};
use cubeyard_sim::Span;
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::{Launcher, Mode};

/// One SIP of two cubes with two PEs each.
const MACHINE: &str = "sips: {count: 1}\ncubes: {w: 2, h: 1}\npe: {routers: [r0c0, r0c1]}\n";
/// Number of PEs of the machine.
pub(crate) const ALL: u64 = 4;

/// Placement of an argument.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Over {
    /// Rows over all PEs.
    Rows,
    /// A copy on each PE.
    Copies,
    /// All of it on the first PE.
    First,
}

/// A tensor argument of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    over: Over,
    shape: Vec<u64>,
    dtype: DType,
    /// Values before the launch; none, and the memory is not written.
    values: Option<Vec<f64>>,
    is_output: bool,
}

/// Returns an input with these values.
pub(crate) fn given(over: Over, shape: &[u64], dtype: DType, values: &[f64]) -> Input {
    Input { over, shape: shape.to_vec(), dtype, values: Some(values.to_vec()), is_output: false }
}

/// Returns a tensor for results, of which the kernel writes every element.
pub(crate) fn output(over: Over, shape: &[u64], dtype: DType) -> Input {
    Input { values: None, is_output: true, ..given(over, shape, dtype, &[]) }
}

/// Returns a tensor of zeros for results, of which the kernel may write a part.
pub(crate) fn zeroed(over: Over, shape: &[u64], dtype: DType) -> Input {
    let zeros = vec![0.0; size(shape.iter().product())];
    Input { is_output: true, ..given(over, shape, dtype, &zeros) }
}

/// A launch of a kernel over all PEs, or over the first alone.
pub(crate) struct Case<'a> {
    pub(crate) kernel: &'a Kernel,
    pub(crate) tensors: Vec<Input>,
    pub(crate) numbers: Vec<u64>,
    /// Channels between the PEs, and the bytes of their slots.
    pub(crate) wires: Option<(Vec<Wire>, u64)>,
}

impl<'a> Case<'a> {
    pub(crate) fn new(kernel: &'a Kernel, tensors: Vec<Input>, numbers: &[u64]) -> Self {
        Self { kernel, tensors, numbers: numbers.to_vec(), wires: None }
    }

    /// Runs the kernel in both modes, and returns the results. Both modes give the same bits in the same time.
    pub(crate) fn run(&self) -> Vec<Vec<f64>> {
        let [recorded, live] = [Mode::Recorded, Mode::Live].map(|mode| self.run_in(mode));
        assert_eq!(recorded.1, live.1, "{}: time recorded and live", self.kernel.name());
        assert_eq!(recorded.0, live.0, "{}: results recorded and live", self.kernel.name());
        live.0
    }

    /// Runs the kernel in one mode, and returns the results and the time.
    pub(crate) fn run_in(&self, mode: Mode) -> (Vec<Vec<f64>>, Span) {
        let topology = Topology::read("a test", MACHINE).unwrap();
        let context = Context::new(ContextConfig { topology, data: true, ..Default::default() });
        let launcher = Launcher::with_mode(&context, mode);
        let tensors: Vec<_> = self.tensors.iter().map(|input| placed(&context, input)).collect();
        let wired = self.wires.as_ref().map(|(wires, bytes)| {
            let pes: Vec<_> = tensors[0].shards().unwrap().iter().map(|shard| shard.at).collect();
            let slot_bytes = Bytes::new(*bytes);
            let ring = RingConfig { slots: 6, slot_bytes, ..RingConfig::default() };
            KernelChannels::new(&launcher, &pes, wires, &ring).unwrap()
        });
        wired.iter().for_each(|wired| wired.use_on(&launcher));
        let is_first = matches!(self.tensors[0].over, Over::First);
        let (cubes, pes) = context.machine(|machine| {
            let (topology, most) = (machine.topology(), if is_first { 1 } else { 2 });
            (topology.cubes().take(most).collect(), topology.pes().take(most).collect())
        });
        let launch = Launch::new(SipId::new(0).unwrap()).arguments(&tensors);
        let launch = launch.arguments(self.numbers.iter().copied()).cubes(cubes).pes(pes);
        let time = launcher.run(self.kernel, &launch).unwrap().max();
        assert_eq!(launcher.findings(), [], "{}", self.kernel.name());
        let outputs = self.tensors.iter().zip(&tensors).filter(|(it, _)| it.is_output);
        (outputs.map(|(_, tensor)| values(tensor)).collect(), time)
    }
}

fn placed(context: &Context, Input { over, shape, dtype, values, .. }: &Input) -> Tensor {
    let over = match over {
        Over::Rows => Placement { cube: Split::RowWise, pe: Split::RowWise, ..Default::default() },
        Over::Copies => Placement::default(),
        Over::First => Placement::one(SipId::new(0).unwrap()),
    };
    let tensor = match values {
        Some(values) => context.from_slice(shape, values).unwrap().to_dtype(*dtype).unwrap(),
        None => context.empty(shape, *dtype).unwrap(),
    };
    tensor.to(&over).unwrap()
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let (bytes, dtype) = (tensor.read_bytes().unwrap().known().unwrap(), tensor.dtype());
    bytes.chunks_exact(dtype.width()).map(|bytes| dtype.decode(bytes)).collect()
}

/// Returns eighths from -1 to 1. Products of two are exact in `f32`, and so are sums of some thousand products; in `f16`
/// sums of up to 31.
pub(crate) fn numbers(count: u64, seed: u64) -> Vec<f64> {
    let eighths = |index| random_bits(seed, index) % 17;
    (0..count).map(|index| eighths(index) as f64 / 8.0 - 1.0).collect()
}

/// Returns the product of two matrices of m × k and k × n.
pub(crate) fn product(left: &[f64], right: &[f64], [m, k, n]: [u64; 3]) -> Vec<f64> {
    let [m, k, n] = [m, k, n].map(size);
    let dot =
        |row: usize, column: usize| (0..k).map(|i| left[row * k + i] * right[i * n + column]).sum();
    (0..m)
        .flat_map(|row| (0..n).map(move |column| (row, column)))
        .map(|(row, column)| dot(row, column))
        .collect()
}

/// Stores a matrix panel by panel.
pub(crate) fn in_panels(matrix: &[f64], columns: u64, width: u64) -> Vec<f64> {
    let (columns, width) = (size(columns), size(width));
    let panel = |first: usize| {
        let end = columns.min(first + width);
        matrix.chunks_exact(columns).flat_map(move |row| row[first..end].to_vec())
    };
    (0..columns).step_by(width).flat_map(panel).collect()
}

/// Transposes a matrix with this number of columns.
pub(crate) fn transposed(matrix: &[f64], columns: u64) -> Vec<f64> {
    let column = |column: usize| matrix.iter().skip(column).step_by(size(columns)).copied();
    (0..size(columns)).flat_map(column).collect()
}

pub(crate) fn size(number: u64) -> usize {
    usize::try_from(number).unwrap()
}

/// Asserts that no number differs by more than `tolerance` from the expected one.
pub(crate) fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let is_close = (found - expected).abs() <= tolerance;
        assert!(is_close, "element {index}: {found} is not {expected}");
    }
}
