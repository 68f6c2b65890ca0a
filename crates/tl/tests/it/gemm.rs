//! The single-PE GEMM with published times.

use cubeyard_device::topology::Topology;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_runtime::dtype::DType;
use cubeyard_runtime::placement::Placement;
use cubeyard_runtime::{Argument, Context, ContextConfig, Launch, LaunchReport};
use cubeyard_tl::Tl;
use cubeyard_tl::kernel::{Args, Kernel};
use cubeyard_tl::launch::Launcher;

use crate::lab::{kernel, product};

fn load_ref(tl: &Tl, args: &Args) {
    let a = tl.load(&args.tensor(0).local());
    tl.gemm(&a, &args.tensor(1).local()).store(&args.tensor(2).local());
}

fn ref_ref(tl: &Tl, args: &Args) {
    tl.gemm(&args.tensor(0).local(), &args.tensor(1).local()).store(&args.tensor(2).local());
}

fn load_load(tl: &Tl, args: &Args) {
    let a = tl.load(&args.tensor(0).local());
    let b = tl.load(&args.tensor(1).local());
    tl.gemm(&a, &b).store(&args.tensor(2).local());
}

fn kernels() -> [Kernel; 3] {
    [kernel("ref_ref", ref_ref), kernel("load_ref", load_ref), kernel("load_load", load_load)]
}

fn run(kernel: &Kernel, m: u64, k: u64, n: u64, data: bool) -> (LaunchReport, Option<f64>) {
    let topology = Topology::embedded();
    let context = Context::new(ContextConfig { topology, data, ..ContextConfig::default() });
    let one = Placement::one(SipId::new(0).unwrap());
    let left = context.rand(&[m, k], DType::F16, 1).unwrap().to(&one).unwrap();
    let right = context.rand(&[k, n], DType::F16, 2).unwrap().to(&one).unwrap();
    let out = context.empty(&[m, n], DType::F32).unwrap().to(&one).unwrap();
    let arguments = [&left, &right, &out].map(Argument::Tensor).to_vec();
    let (sip, cubes, pes) =
        (SipId::new(0).unwrap(), vec![CubeId::new(0).unwrap()], vec![PeId::new(0).unwrap()]);
    let launcher = Launcher::new(&context);
    let launch = Launch::new(sip).arguments(arguments).cubes(cubes).pes(pes);
    let report = launcher.run(kernel, &launch).unwrap();
    assert_eq!(launcher.findings(), []);
    if !data {
        return (report, None);
    }
    let [left, right] = [&left, &right].map(|tensor| {
        let wide = tensor.to_dtype(DType::F64).unwrap();
        wide.to(&one).unwrap().read::<f64>().unwrap().known().unwrap()
    });
    let shape = [m, k, n].map(|edge| usize::try_from(edge).unwrap());
    let exact = product(&left, &right, shape);
    let out = out.read::<f32>().unwrap().known().unwrap();
    let off =
        out.iter().zip(exact).map(|(&found, exact)| ((f64::from(found) - exact) / exact).abs());
    (report, Some(off.fold(0.0, f64::max)))
}

#[test]
fn products_are_right_in_every_staging_and_shape() {
    for kernel in kernels() {
        for (m, k, n) in [(32, 64, 32), (8, 128, 128), (33, 65, 31), (1, 1, 1), (70, 200, 50)] {
            let (_, worst) = run(&kernel, m, k, n, true);
            assert!(worst.unwrap() < 1e-5, "{} {m} {k} {n}: {worst:?}", kernel.name());
        }
    }
}

/// Returns the error of an invalid kernel, with two square matrices and room for their product.
fn refusal(kernel: &Kernel) -> String {
    let context = Context::new(ContextConfig::default());
    let one = Placement::one(SipId::new(0).unwrap());
    let square = |dtype| context.empty(&[64, 64], dtype).unwrap().to(&one).unwrap();
    let tensors = [DType::F16, DType::F16, DType::F32].map(square);
    let launch = Launch::new(SipId::new(0).unwrap())
        .arguments(&tensors)
        .cubes(vec![CubeId::new(0).unwrap()])
        .pes(vec![PeId::new(0).unwrap()]);
    Launcher::new(&context).run(kernel, &launch).unwrap_err().to_string()
}

/// The tiles of a transposed matrix need many accesses each; only the first was made.
#[test]
fn a_tiled_operation_refuses_what_it_cannot_load_tile_by_tile() {
    let kernel = Kernel::new("turned", |tl, args| {
        Box::pin(async move {
            let b = args.tensor(1).local().transposed();
            tl.gemm(&args.tensor(0).local(), &b).store(&args.tensor(2).local());
        })
    });
    let error = refusal(&kernel);
    assert!(error.contains("rows are not contiguous"), "{error}");
    assert!(error.contains("gemm.rs:"), "the line is that of the kernel: {error}");
}

/// The error named a line of the language's own source.
#[test]
fn a_number_that_does_not_fit_is_told_with_the_line_of_the_kernel() {
    let kernel = Kernel::new("alone", |tl, _| {
        Box::pin(async move {
            tl.add(1.0, 2.0);
        })
    });
    let error = refusal(&kernel);
    assert!(error.contains("gemm.rs:") && error.contains("numbers alone"), "{error}");
}
