//! Kernels on blocks of a Flex allocator.

use cubeyard_memory::Bytes;
use cubeyard_memory::address::{CubeId, PeId, SipId};
use cubeyard_memory::flex::{Allocation, FlexConfig};
use cubeyard_runtime::dtype::{DType, Element};
use cubeyard_runtime::{Context, FlexArray, FlexDevice, FlexOperands, Launch, SipFunction};
use cubeyard_tl::kernel::Kernel;
use cubeyard_tl::launch::{Launcher, Mode};

use crate::lab::{context, kernel, product};

#[path = "../../examples/flex.rs"]
#[expect(dead_code, reason = "its `main` is for those who run it alone")]
mod example;

const FUNCTIONS: [SipFunction; 2] = [SipFunction::Physical, SipFunction::Virtual { entries: 8 }];

fn sip() -> SipId {
    SipId::new(1).unwrap()
}

fn device(context: &Context, function: SipFunction) -> FlexDevice {
    context.flex_function(sip(), function, FlexConfig::default()).unwrap()
}

/// Returns a launch on the first PEs of a cube other than the cube of the blocks.
fn launch(operands: &FlexOperands, pes: u32) -> Launch<'static> {
    let pes = (0..pes).map(|pe| PeId::new(pe).unwrap()).collect();
    let cubes = vec![CubeId::new(6).unwrap()];
    Launch::new(sip()).arguments(operands.arguments()).cubes(cubes).pes(pes)
}

fn block(device: &FlexDevice, values: &[f32]) -> Allocation {
    let bytes = f32::slice_to_bytes(values);
    let block = device.allocator().allocate(Bytes::new(bytes.len() as u64)).unwrap();
    device.write(&block, Bytes::ZERO, &bytes).unwrap();
    block
}

fn values(device: &FlexDevice, block: &Allocation, offset: u64, count: usize) -> Vec<f32> {
    let bytes = device.read(block, Bytes::new(offset), 4 * count).unwrap().known().unwrap();
    f32::slice_from_bytes(&bytes).unwrap()
}

fn matrix<'a>(block: &'a Allocation, shape: &[u64]) -> FlexArray<'a> {
    FlexArray::new(block, shape, DType::F32).unwrap()
}

/// A kernel in which each PE computes 16 rows of the product of two matrices of 64 × 64.
fn rows_of_a_product() -> Kernel {
    kernel("gemm", |tl, args| {
        let [a, b, c] = [0, 1, 2].map(|position| args.tensor(position).whole());
        let rows = [16 * tl.program_id(0), 0];
        let left = tl.load(&a.block(&rows, &[16, 64]));
        tl.store(&c.block(&rows, &[16, 64]), &tl.dot(&left, &tl.load(&b)));
    })
}

#[test]
fn a_product_of_blocks_is_right_as_a_physical_and_as_a_virtual_function_and_takes_the_same_time() {
    let numbers = |seed: u16| -> Vec<f32> {
        (0..4096_u16).map(|place| f32::from((place * 7 + seed) % 13) - 6.0).collect()
    };
    let wide = |values: &[f32]| values.iter().map(|&value| f64::from(value)).collect::<Vec<_>>();
    let expected = product(&wide(&numbers(1)), &wide(&numbers(5)), [64, 64, 64]);
    let mut times = Vec::new();
    for function in FUNCTIONS {
        for mode in [Mode::Recorded, Mode::Live] {
            let context = context("", true);
            let device = device(&context, function);
            let (a, b) = (block(&device, &numbers(1)), block(&device, &numbers(5)));
            let c = device.allocator().allocate(a.size()).unwrap();
            let program = device.load(&[0; 512], 3).unwrap();
            let arrays = [&a, &b, &c].map(|block| matrix(block, &[64, 64]));
            let operands = device.operands(&program, &arrays).unwrap();
            let launcher = Launcher::with_mode(&context, mode);
            let report = launcher.run(&rows_of_a_product(), &launch(&operands, 4)).unwrap();
            assert_eq!(wide(&values(&device, &c, 0, 4096)), expected, "{function:?} {mode:?}");
            assert_eq!(launcher.findings(), []);
            assert_eq!(context.memory_stats().mmu.faults, 0);
            times.push(report.max());
        }
    }
    assert!(times.iter().all(|&time| time == times[0]), "{times:?}");
}

/// `y = x + 1`, 64 elements.
fn next() -> Kernel {
    kernel("next", |tl, args| {
        let one = tl.full(&[64], 1.0, DType::F32);
        tl.store(&args.tensor(1).whole(), &(&tl.load(&args.tensor(0).whole()) + &one));
    })
}

/// The addresses of the first launch were once overwritten by the addresses of the second.
#[test]
fn launches_of_one_program_that_are_under_way_together_have_their_own_operands() {
    for function in FUNCTIONS {
        let context = context("", true);
        let device = device(&context, function);
        let program = device.load(&[0; 512], 2).unwrap();
        let blocks: Vec<_> = (0..6_u8).map(|k| block(&device, &[f32::from(10 * k); 64])).collect();
        let launcher = Launcher::new(&context);
        let kernel = next();
        let mut handles = Vec::new();
        for pair in blocks.chunks(2) {
            let arrays = [&pair[0], &pair[1]].map(|block| matrix(block, &[64]));
            let operands = device.operands(&program, &arrays).unwrap();
            let start = |stream| launcher.launch(stream, &kernel, &launch(&operands, 1)).unwrap();
            handles.push(start(&context.stream()));
        }
        handles.iter().for_each(|handle| drop(handle.wait().unwrap()));
        let found: Vec<f32> =
            blocks.iter().map(|block| values(&device, block, 0, 64)[63]).collect();
        assert_eq!(found, [0.0, 1.0, 20.0, 21.0, 40.0, 41.0]);
        assert_eq!(launcher.findings(), []);
    }
}

#[test]
fn an_operand_over_two_slices_is_one_array_to_a_kernel() {
    let context = context("", true);
    let device = device(&context, SipFunction::Virtual { entries: 1 });
    let program = device.load(&[0; 512], 2).unwrap();
    let block = device.allocator().allocate(Bytes::gib(11)).unwrap();
    // The boundary between the slices of PE 0 and PE 1, 6 GiB each.
    let into = Bytes::gib(6) - block.address().offset - Bytes::new(128);
    let numbers: Vec<f32> = (0..64_u8).map(f32::from).collect();
    device.write(&block, into, &f32::slice_to_bytes(&numbers)).unwrap();
    let array = matrix(&block, &[64]);
    let operands =
        device.operands(&program, &[array.at(into), array.at(into + Bytes::kib(4))]).unwrap();
    Launcher::new(&context).run(&next(), &launch(&operands, 1)).unwrap();
    let expected: Vec<f32> = numbers.iter().map(|number| number + 1.0).collect();
    assert_eq!(values(&device, &block, (into + Bytes::kib(4)).get(), 64), expected);
}

#[test]
fn what_is_outside_the_operands_of_a_launch_is_refused() {
    let context = context("", true);
    let device = device(&context, SipFunction::Physical);
    let program = device.load(&[0; 512], 2).unwrap();
    let (x, y) = (block(&device, &[1.0; 128]), block(&device, &[1.0; 128]));
    let beyond = kernel("beyond", |tl, args| {
        drop(tl.load(&args.tensor(0).whole().at(32, &[64])));
    });
    let operands = device.operands(&program, &[x, y].each_ref().map(|b| matrix(b, &[64]))).unwrap();
    let error = Launcher::new(&context).run(&beyond, &launch(&operands, 1)).unwrap_err();
    assert!(error.to_string().ends_with("is outside every tensor"), "{error}");
}

#[test]
fn the_example_prints_what_docs_runtime_md_has() {
    let mut text = Vec::new();
    example::run(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let page = include_str!("../../../../docs/runtime.md");
    assert!(page.contains(&format!("```text\n{text}```")), "the page has something else:\n{text}");
}
