//! Helpers to run kernels in data mode.

use cubeyard_device::request::PeRef;
use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::{DType, Element};
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{
    Argument, Channel, ChannelEnd, Context, ContextConfig, Launch, LaunchReport, RuntimeError,
    Tensor,
};
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::{Launcher, Mode};
use cubeyard_tl::{Port, Tl};

pub(crate) fn sip() -> SipId {
    SipId::new(0).unwrap()
}

/// A machine of one cube, which is quick to build.
pub(crate) const SMALL: &str = "sips: {count: 1}\ncubes: {w: 1, h: 1}\n";

/// Returns the placement on a single PE.
pub(crate) fn one() -> Placement {
    Placement::one(sip())
}

pub(crate) fn context(text: &str, data: bool) -> Context {
    let topology = Topology::read("a test", text).unwrap();
    Context::new(ContextConfig { topology, data, ..ContextConfig::default() })
}

/// Returns a kernel whose body does not wait.
pub(crate) fn kernel(name: &str, body: impl Fn(&Tl, &Args) + Copy + 'static) -> Kernel {
    Kernel::new(name, move |tl, args| Box::pin(async move { body(&tl, &args) }))
}

/// Computes the product of two matrices, of m × k and k × n.
pub(crate) fn product(left: &[f64], right: &[f64], [m, k, n]: [usize; 3]) -> Vec<f64> {
    let dot = |r: usize, c: usize| (0..k).map(|i| left[r * k + i] * right[i * n + c]).sum();
    (0..m).flat_map(|r| (0..n).map(move |c| (r, c))).map(|(r, c)| dot(r, c)).collect()
}

/// Returns a launch on the first PEs of the first cube.
pub(crate) fn launch(arguments: Vec<Argument<'_>>, pes: u8) -> Launch<'_> {
    let pes = (0..pes).map(|pe| PeId::new(pe.into()).unwrap()).collect();
    Launch::new(sip()).arguments(arguments).cubes(vec![CubeId::new(0).unwrap()]).pes(pes)
}

pub(crate) fn tensors<'a>(tensors: &[&'a Tensor]) -> Vec<Argument<'a>> {
    tensors.iter().map(|tensor| Argument::Tensor(tensor)).collect()
}

/// Creates a tensor with these values on one PE.
pub(crate) fn place<T: Element>(context: &Context, shape: &[u64], values: &[T]) -> Tensor {
    context.from_slice(shape, values).unwrap().to(&one()).unwrap()
}

/// Runs a kernel on one PE.
pub(crate) fn run(
    launcher: &Launcher,
    kernel: &Kernel,
    arguments: Vec<Argument<'_>>,
) -> Result<LaunchReport, RuntimeError> {
    launcher.run(kernel, &launch(arguments, 1))
}

/// Returns the result of a kernel on matrices of f32, as a tensor of this shape and type. Both modes must give the same
/// result in the same time.
pub(crate) fn compute(
    text: &str,
    inputs: &[(&[u64], Vec<f32>)],
    (shape, dtype): (&[u64], DType),
    body: impl Fn(&Tl, &Args) + Copy + 'static,
) -> Vec<f64> {
    let mut results = Vec::new();
    for mode in [Mode::Recorded, Mode::Live] {
        let context = context(text, true);
        let inputs: Vec<_> =
            inputs.iter().map(|(shape, values)| place(&context, shape, values)).collect();
        let output = context.empty(shape, dtype).unwrap().to(&one()).unwrap();
        let all: Vec<_> = inputs.iter().chain([&output]).collect();
        let launcher = Launcher::with_mode(&context, mode);
        let report = run(&launcher, &kernel("compute", body), tensors(&all)).unwrap();
        assert_eq!(launcher.findings(), []);
        let bytes = output.read_bytes().unwrap().known().unwrap();
        let values: Vec<f64> =
            bytes.chunks_exact(dtype.width()).map(|bytes| dtype.decode(bytes)).collect();
        results.push((values, report.max()));
    }
    assert_eq!(results[0].1, results[1].1, "recorded and live take the same time");
    let (recorded, live) = (&results[0].0, &results[1].0);
    assert!(recorded.iter().zip(live).all(|(a, b)| a.to_bits() == b.to_bits()));
    results.swap_remove(0).0
}

pub(crate) fn close(found: &[f64], expected: &[f64], tolerance: f64) {
    assert_eq!(found.len(), expected.len());
    for (index, (found, expected)) in found.iter().zip(expected).enumerate() {
        let error = (found - expected).abs() / expected.abs().max(1.0);
        assert!(error <= tolerance, "element {index}: {found} is not {expected}");
    }
}

fn pe(number: u32) -> PeRef {
    let (sip, cube) = (SipId::new(0).unwrap(), CubeId::new(0).unwrap());
    PeRef { sip, cube, pe: PeId::new(number).unwrap() }
}

/// Returns the channels of a ring of the first `count` PEs: the next PE is to the east, the previous one to the west.
pub(crate) fn ring(count: u32) -> Vec<Channel> {
    let end = |number: u32, port: Port| ChannelEnd { pe: pe(number), port: port.of_group(0) };
    let channel =
        |number: u32| Channel { ends: [end(number, Port::E), end((number + 1) % count, Port::W)] };
    (0..count).map(channel).collect()
}

/// Each PE sends its part around the ring and adds the parts that arrive.
fn sum_around(tl: &Tl, args: &Args) {
    let own = args.tensor(0).local();
    let mut passing = tl.load(&own);
    let mut sum = passing.clone();
    for _ in 1..tl.num_programs(0) {
        tl.send(Port::E, &passing);
        passing = tl.recv(Port::W, &own.ty().shape, own.ty().dtype);
        sum = &sum + &passing;
    }
    tl.store(&args.tensor(1).local(), &sum);
}

pub(crate) fn around() -> Kernel {
    kernel("sum_around", sum_around)
}

/// One PE sends eight messages before the other, which computes for a long time, receives the first.
pub(crate) fn burst() -> Kernel {
    kernel("burst", |tl, args| {
        let own = args.tensor(0).local();
        let tile = tl.load(&own);
        if tl.program_id(0) == 0 {
            (0..8).for_each(|_| tl.send(Port::E, &tile));
            return;
        }
        let mut busy = tile.clone();
        for _ in 0..200 {
            busy = tl.exp(&busy);
            busy = &busy * 0.0;
        }
        for _ in 0..8 {
            let come = tl.recv(Port::W, &own.ty().shape, own.ty().dtype);
            tl.store(&args.tensor(1).local(), &(&come + &busy));
        }
    })
}
